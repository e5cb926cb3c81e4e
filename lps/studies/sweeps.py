"""Many runs at once: lay out combinations of settings, recognise those that exist, start the others, see them end."""

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path

from lps.cluster import executors, job_options
from lps.errors import UserError, shorten, shown
from lps.files.atomic import as_user_error, clean_line
from lps.files.locks import try_lock
from lps.scheduler import costs, disk_use, launcher, queue, run_slots, submit
from lps.settings.config import Config
from lps.store import titles
from lps.store.run_folders import list_runs
from lps.store.runs import TAG_LIMIT, Run, State
from lps.studies import presets, sweep_records
from lps.studies.sweep_layout import SweepSpec, affects_result, check_size, plan_runs
from lps.studies.sweep_records import PREFIX

# Of several equal runs the first of these is used, else the first of those that can be resumed.
_REUSED = ("finished", "running", "starting", "stopping", "unknown", "queued")
RESUMED = ("stopped", "crashed", "failed")
_START_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Item:
    """One run of a sweep. action: new, exists (an equal run is used) or resumed (an equal run continues).

    run, state: of the equal run; None and "missing" if there is none yet.
    """

    config: Config
    label: str
    action: str = "new"
    run: Run | None = None
    state: State = State("missing")


@dataclass(frozen=True)
class Sweep:
    """Runs that belong together under a name, in the order in which they will queue.

    request: as `sweep_records` stores it; {} if unknown.
    """

    name: str
    items: tuple[Item, ...]
    request: Mapping[str, object] = field(default_factory=dict)

    @property
    def tag(self) -> str:
        return PREFIX + self.name

    def count(self, action: str) -> int:
        return sum(item.action == action for item in self.items)


@dataclass(frozen=True)
class Estimate:
    """The cost of the remaining runs, one after another, without `missing` runs, whose kinds are in `unknown`."""

    span: costs.Span
    bytes: int
    runs: int
    missing: int
    unknown: tuple[str, ...]  # "METHOD on DATASET"


# ---------------------------------------------------------------------------------------------------- plan


def plan_sweep(layout: SweepSpec | presets.PresetRequest, root: Path, name: str = "") -> Sweep:
    """Plan the sweep as it would start now, with all checks; writes nothing. Raises `UserError`.

    name: by default a name derived from the settings, so that the same command means the same sweep.
    """
    sweep = plan_unchecked_sweep(layout, root, name)
    check_sweep([item.config for item in sweep.items])
    return sweep


def plan_unchecked_sweep(request: SweepSpec | presets.PresetRequest, root: Path, name: str = "") -> Sweep:
    """Plan the sweep as `plan_sweep` does, but without checks of data, split and device."""
    sweep = lay_out_sweep(request, name)
    return replace(sweep, items=tuple(match_existing(sweep.items, root)))


def lay_out_sweep(request: SweepSpec | presets.PresetRequest, name: str = "") -> Sweep:
    """Plan the sweep without looking for existing runs. Raises `UserError`."""
    if isinstance(request, SweepSpec):
        labelled_configs = [(config, item_label(config, request)) for config in plan_runs(request)]
        name = name or _digest([config for config, _ in labelled_configs])
    else:
        labelled_configs = presets.build_paper_table(request).labeled_configs()
        name = name or request.name
    check_size(len(labelled_configs))
    items = tuple(Item(config, label) for config, label in labelled_configs)
    return Sweep(_checked_name(name), items, request.as_record())


def from_record(record: Mapping) -> SweepSpec | presets.PresetRequest | None:
    """Return the request in a record of `sweep_records`; None if there is none or it is damaged."""
    stored = record.get("layout")
    if not isinstance(stored, dict):
        return presets.from_record(record)
    try:
        values = {key: stored[key] for key in (item.name for item in fields(SweepSpec))}
        lists = {key: tuple(values[key]) for key in ("datasets", "methods", "seeds")}
        varied = {str(key): tuple(map(str, texts)) for key, texts in values["varied"].items()}
        fixed = {str(key): str(text) for key, text in values["fixed"].items()}
        layout = SweepSpec(**values | lists | {"varied": varied, "fixed": fixed})
        plan_runs(layout)
    except (KeyError, TypeError, ValueError, AttributeError):  # a UserError is a ValueError
        return None
    return layout


def check_sweep(
    configs: Sequence[Config], on_this_machine: bool = True, judge: Callable[[Config], None] | None = None
) -> None:
    """Check the slots, and every config as in `submit.check_configs`; raises `UserError`."""
    run_slots.cpu_slots_from_environment()
    submit.check_configs(configs, on_this_machine, check_start=judge)


def item_label(config: Config, layout: SweepSpec) -> str:
    """Return the label of a run in its sweep, varied settings first: "10 % labels, margin_scale=5, orca seed 1"."""
    flat = config.flat()
    varied = [name for name in layout.varied if name in flat and affects_result(name, config.method)]
    parts = [titles.setting_in_words(name, flat[name]) for name in varied]
    dataset_suffix = f" on {config.dataset}" if len(layout.datasets) > 1 else ""
    return ", ".join([*parts, f"{config.method}{dataset_suffix} seed {config.seed}"])


def match_existing(items: Sequence[Item], root: Path) -> list[Item]:
    """Return the same items with the runs that exist in `root` now: an equal config means the same run."""
    existing = _existing(root, {item.config.to_json() for item in items})
    matched = []
    for item in items:
        run, state = existing.get(item.config.to_json(), (None, item.state))
        action = "new" if run is None else "exists" if state.name in _REUSED else "resumed"
        matched.append(replace(item, action=action, run=run, state=state))
    return matched


def _existing(root: Path, wanted_identities: set[str]) -> dict[str, tuple[Run, State]]:
    """Return the best equal run by config: the one nearest to its end, then the newest."""
    ranks = _REUSED + RESUMED
    run_by_config: dict[str, tuple[Run, State]] = {}
    for run in list_runs(root):
        config = run.config_if_readable()
        key = config and config.to_json()
        state = run.state() if key in wanted_identities else None
        if state is None or state.name not in ranks:
            continue
        if key not in run_by_config or ranks.index(state.name) < ranks.index(run_by_config[key][1].name):
            run_by_config[key] = run, state
    return run_by_config


def estimate_sweep(sweep: Sweep, root: Path) -> Estimate:
    """Estimate the cost of the new and the resumed runs, from the finished runs in `root`, else from recordings."""
    remaining_configs = [item.config for item in sweep.items if item.action != "exists"]
    known_costs = costs.known_costs(root, {costs.cost_kind(config) for config in remaining_configs})
    return total_estimate(remaining_configs, known_costs.estimate_all(remaining_configs))


def total_estimate(remaining_configs: Sequence[Config], expected: Sequence[costs.Cost | None]) -> Estimate:
    """Return the total of the known costs of all remaining runs."""
    known_costs = [cost for cost in expected if cost is not None]
    unknown = dict.fromkeys(
        f"{c.method} on {c.dataset}" for c, cost in zip(remaining_configs, expected) if cost is None
    )
    span, size = costs.parallel_duration((cost.span for cost in known_costs), 1), disk_use.expected_bytes(known_costs)
    return Estimate(span, size, len(remaining_configs), len(remaining_configs) - len(known_costs), tuple(unknown))


def _checked_name(name: str) -> str:
    limit = TAG_LIMIT - len(PREFIX)
    if clean_line(name, limit) != name:
        raise UserError("name", f"{shorten(name)} is not a printable line of at most {limit} characters")
    return name


def _digest(configs: Sequence[Config]) -> str:
    texts = (config.to_json(config.identifying()) for config in configs)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:6]


# ---------------------------------------------------------------------------------------------------- start


def start_sweep(
    sweep: Sweep,
    root: Path,
    trainer=launcher.TRAINER,
    *,
    retries: int | None = None,
    on: job_options.Options | None = None,
) -> Sweep:
    """Create missing runs, resume unfinished ones, queue all of them, and return the sweep with its runs.

    retries: how often a crashed run is restarted automatically (lps.scheduler.queue). on: job options of an executor
    for the remaining runs, as one array of jobs; runs that wait here already stay (`staying_in_words`).

    Two equal sweeps that are started at once create every run once: they take turns, and the second one searches again.
    Every run gets the sweep's tag, existing runs too. Raises `UserError`.
    """
    launcher.check_request(retries, None, on)
    _checked_name(sweep.name)
    start_lock = _claim_start(root)
    try:
        items = match_existing(sweep.items, root)
        for item in items:
            if item.state.name == "stopping":
                raise UserError("run", f"{item.run.id} is stopping; start the sweep again when it has stopped")
        orders = [submit.RunRequest(item.config, item.label, run=item.run) for item in items]
        tag_and_record = partial(_tag_and_record, sweep, root)
        runs = submit.create_runs(
            root, orders, trainer, on_created=tag_and_record, array=sweep.name, retries=retries, on=on
        )
    finally:
        os.close(start_lock)
    created = [replace(item, run=run, state=run.state()) for item, run in zip(items, runs)]
    return replace(sweep, items=tuple(created))


def staying_in_words(items: Sequence[Item], on: job_options.Options | None) -> str:
    """Return a sentence on the runs that wait on another backend than the requested one; "" if there are none.

    on: as in `start_sweep`. A run stays in the queue that it already waits in, since it would lose its place there.
    """
    desired_states = [item.run.desired() for item in items if item.state.name == "queued"]
    staying = [desired.on for desired in desired_states if desired.want and desired.on != (on.executor if on else "")]
    if not staying:
        return ""
    where = " and ".join(
        f"in {executors.executor_title(name)}" if name else "on this machine" for name in sorted(set(staying))
    )
    if len(staying) == 1:
        return f"1 run already waits {where} and stays there; to move it, stop it and start the sweep again"
    return f"{len(staying)} runs already wait {where} and stay there; to move them, stop them and start the sweep again"


def was_started(sweep: Sweep, root: Path, runs: Sequence[Run]) -> bool:
    """Return whether some of these runs were started as this sweep, with the same request."""
    try:
        request, _ = sweep_records.read_sweep_record(root, sweep.name)
    except UserError:  # written by a newer program
        return False
    return request == sweep.request and any(sweep.tag in run.meta()["tags"] for run in runs)


def _tag_and_record(sweep: Sweep, root: Path, runs: Sequence[Run]) -> None:
    """Tag the runs of a sweep and store its request; a sweep that goes on keeps the time of its first start."""
    is_stored = was_started(sweep, root, runs)
    for run in runs:
        if sweep.tag not in run.meta()["tags"]:
            run.write_meta(add=[sweep.tag])
    if is_stored or not sweep.request:
        return
    with as_user_error("runs", f"{shorten(str(root))} cannot store a sweep"):
        sweep_records.write_sweep_record(root, sweep.name, sweep.request)


def watch_items(items: Sequence[Item], trainer=launcher.TRAINER, pause_s: float = 0.5) -> Iterator[Item]:
    """Yield every item with its final state as soon as its run is over, finished ones first; stops nothing."""
    pending = list(items)
    while pending:
        for item in list(pending):
            state = item.run.state()
            if state.name == "unreadable" or (state.is_over and not queue.is_due(item.run, state)):
                pending.remove(item)
                yield replace(item, state=state)
        if pending:
            for root in {item.run.root for item in pending}:
                # The runner that should have started the next run may have been killed
                launcher.dispatch(root, trainer)
            time.sleep(pause_s)


def tagged_items(runs: Sequence[Run]) -> tuple[Item, ...]:
    """Return the runs of a sweep of which only the tag is known, oldest first, without unreadable ones."""
    runs_with_config = [(run, config) for run in reversed(runs) if (config := run.config_if_readable())]
    return tuple(Item(config, run.title, "exists", run, run.state()) for run, config in runs_with_config)


def runs_with_tag(root: Path, tag: str) -> list[Run]:
    """Return the runs with this tag, newest first; raises `UserError` if there are none."""
    runs = [run for run in list_runs(root) if tag in run.meta()["tags"]]
    if not runs:
        known_tags = sorted({tag for run in list_runs(root) for tag in run.meta()["tags"]})
        raise UserError(
            "tag", f"{shorten(tag)} has no runs in {shown(root)}; choices: {', '.join(known_tags[:20]) or 'none yet'}"
        )
    return runs


def _claim_start(root: Path) -> int:
    """Claim the lock for starting a sweep and return its descriptor. Raises `UserError`."""
    with as_user_error("runs", f"{shorten(str(root))} cannot store a new run"):
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        start_lock = try_lock(root / ".sweeps.lock", _START_PATIENCE_S)
    if start_lock is None:
        raise UserError("sweep", "another sweep is still being started; try again in a minute")
    return start_lock
