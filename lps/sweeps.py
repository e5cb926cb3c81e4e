"""Many runs at once: lay out combinations of settings, recognise those that exist, start the others, see them end."""

import hashlib
import itertools
import json
import math
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lps import catalog, costs, launch, preflight
from lps.compare import setting_in_words
from lps.config import Config, configure, parameters, protocol_parameters
from lps.files import clean_line
from lps.locks import claim
from lps.parameters import ConfigError, shorten
from lps.runs import TAG_LIMIT, Run, State, create_run, list_runs

MODES = {
    "grid": "every combination",
    "list": "the first values together, then the second ones, ...",
    "random": "some combinations of the grid, drawn by a seed",
}
MOST_RUNS = 2000
PREFIX = "sweep:"  # of the tag that says which sweep a run belongs to
ASKED_ELSEWHERE = {"dataset": "--dataset", "method": "--method", "seed": "--seeds"}
REUSED = ("finished", "running", "starting", "stopping", "queued")  # of several equal runs the first of these, ...
RESUMED = ("stopped", "crashed", "failed")  # ... else of these
UNCHECKED = ("seed", "pretrain.seed")  # settings that no check of data, split and device looks at
START_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Layout:
    """What a sweep covers, in the words of the command line: values are texts until the method is known.

    fixed: the text of a setting. varied: the texts of a setting, combined as `mode` says. Data sets, methods and seeds
    are crossed with every combination. samples, sample_seed: how many combinations `random` draws, and how.
    """

    datasets: tuple[str, ...] = ("digits",)
    methods: tuple[str, ...] = ("lps",)
    seeds: tuple[int, ...] = (0,)
    fixed: Mapping[str, str] = field(default_factory=dict)
    varied: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mode: str = "grid"
    samples: int | None = None
    sample_seed: int = 0


@dataclass(frozen=True)
class Item:
    """One run of a sweep. action: new, exists (an equal run is used as it is) or resumed (it goes on).

    run, state: of the equal run; None where there is none yet.
    """

    config: Config
    label: str
    action: str = "new"
    run: Run | None = None
    state: State | None = None


@dataclass(frozen=True)
class Sweep:
    """Runs that belong together under a name, in the order in which they will queue."""

    name: str
    items: tuple[Item, ...]

    @property
    def tag(self) -> str:
        return PREFIX + self.name

    def count(self, action: str) -> int:
        return sum(item.action == action for item in self.items)


@dataclass(frozen=True)
class Estimate:
    """The cost of what is still to be done, one run after another. unknown: method and data set of `missing` runs."""

    seconds: float
    bytes: int
    runs: int
    missing: int
    unknown: tuple[str, ...]


# ---------------------------------------------------------------------------------------------------- layout


def read_layout(
    datasets: str, methods: str, seeds: str, fixed: Sequence[str] = (), varied: Sequence[str] = (), **more
) -> Layout:
    """The layout of what was typed: comma-separated names and seeds, texts NAME=VALUE and NAME=VALUE,VALUE.

    methods: also "all". A setting that is varied twice has the values of both. more: mode, samples, sample_seed.
    Raises `ConfigError`.
    """
    one = {name: text for name, text in (_assignment(text, "--set") for text in fixed)}
    many: dict[str, tuple[str, ...]] = {}
    for name, text in (_assignment(text, "--vary") for text in varied):
        many[name] = many.get(name, ()) + split_values(name, text)
    named = catalog.method_names() if methods.strip() == "all" else _words(methods)
    seed = protocol_parameters()["seed"]
    numbers = tuple(seed.parse(text) for text in _words(seeds))
    return Layout(tuple(_words(datasets)), tuple(named), numbers, one, many, **more)


def split_values(name: str, text: str) -> tuple[str, ...]:
    """ "0.1,0.2" as its values; "0,1,2|3,4,5" as two values that hold commas. Raises `ConfigError` for empty ones."""
    values = tuple(part.strip() for part in text.split("|" if "|" in text else ","))
    if not all(values):
        raise ConfigError(name, f'{shorten(text)} has an empty value; expected values such as 1,2 (or "none")')
    return values


def combinations(
    varied: Mapping[str, tuple[str, ...]], mode: str = "grid", samples: int | None = None, sample_seed: int = 0
) -> list[dict[str, str]]:
    """One text per varied setting, for every combination; the last setting changes fastest.

    A `random` draw of more samples with the same seed begins with those of fewer. Raises `ConfigError`.
    """
    if mode not in MODES:
        raise ConfigError("mode", f"{shorten(mode)} is not one of {', '.join(MODES)}")
    if (samples is None) == (mode == "random"):
        raise ConfigError("samples", "say how many with --mode random" if samples is None else "need --mode random")
    if mode == "random":
        return _drawn({name: tuple(dict.fromkeys(values)) for name, values in varied.items()}, samples, sample_seed)
    if mode == "list":
        return _side_by_side(varied)
    _check_size(_grid_size(varied))
    return [dict(zip(varied, values)) for values in itertools.product(*varied.values())]


def _side_by_side(varied: Mapping[str, tuple[str, ...]]) -> list[dict[str, str]]:
    lengths = {name: len(values) for name, values in varied.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ConfigError("vary", f"--mode list takes the values side by side and needs as many of each; {counts}")
    return [dict(zip(varied, values)) for values in zip(*varied.values())] if varied else [{}]


def _drawn(varied: Mapping[str, tuple[str, ...]], samples: int, seed: int) -> list[dict[str, str]]:
    total = _grid_size(varied)
    if not 1 <= samples <= total:
        raise ConfigError("samples", f"{samples} is not a whole number from 1 to {total}, the size of the grid")
    _check_size(samples)
    generator = random.Random(seed)
    places: dict[int, None] = {}
    while len(places) < samples:
        places[generator.randrange(total)] = None
    return [_at(varied, place) for place in places]


def _at(varied: Mapping[str, tuple[str, ...]], place: int) -> dict[str, str]:
    """The combination that the grid, too large to be written down, has at `place`."""
    found = {}
    for name, values in reversed(varied.items()):
        place, digit = divmod(place, len(values))
        found[name] = values[digit]
    return {name: found[name] for name in varied}


def _grid_size(varied: Mapping[str, tuple[str, ...]]) -> int:
    return math.prod(len(values) for values in varied.values())


def lay_out(layout: Layout) -> list[Config]:
    """A checked config for every run, each once, seed by seed: after the first seed every row of a table has a number.

    A setting that only some of the methods have is left out for the others. Raises `ConfigError`.
    """
    _check_names(layout)
    chosen = combinations(layout.varied, layout.mode, layout.samples, layout.sample_seed)
    _check_size(len(chosen) * len(layout.seeds) * len(layout.datasets) * len(layout.methods))
    found: dict[str, Config] = {}
    for seed, dataset, method in itertools.product(layout.seeds, layout.datasets, layout.methods):
        known = parameters(method)
        for texts in ({**layout.fixed, **combination} for combination in chosen):
            values = {name: known[name].parse(text) for name, text in texts.items() if name in known}
            config = configure({"dataset": dataset, "method": method, "seed": seed} | values)
            found.setdefault(config.to_json(), config)
    return list(found.values())


def _check_names(layout: Layout) -> None:
    """Every setting is one of some method, is not asked for by an option of its own, and is either set or varied."""
    known = {name: None for method in layout.methods for name in parameters(method)}
    for name in (*layout.fixed, *layout.varied):
        if name in ASKED_ELSEWHERE:
            raise ConfigError(name, f"cannot be set or varied by name; use {ASKED_ELSEWHERE[name]}")
        if name not in known:
            methods = ", ".join(layout.methods)
            raise ConfigError(
                shorten(name).strip("'\""), f"is no setting of {methods}; choices: {', '.join(map(str, known))}"
            )
        if name in layout.fixed and name in layout.varied:
            raise ConfigError(name, "is both set and varied; choose one")


def _check_size(count: int) -> None:
    if count > MOST_RUNS:
        raise ConfigError("sweep", f"{count:,} runs are more than {MOST_RUNS:,}; leave values out or draw some of them")


def _assignment(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(option, f"{shorten(text)} is not of the form name=value")
    return name.strip(), value.strip()


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


# ---------------------------------------------------------------------------------------------------- plan


def plan(layout: Layout, root: Path, name: str = "") -> Sweep:
    """The sweep as it would be started now; everything is checked, nothing is written. Raises `ConfigError`.

    name: without one the sweep is named after its settings, so that the same command means the same sweep.
    """
    configs = lay_out(layout)
    check(configs)
    items = [Item(config, label(config, layout)) for config in configs]
    return Sweep(_checked_name(name) if name else _digest(configs), tuple(recognise(items, root)))


def check(configs: Sequence[Config]) -> None:
    """Data, split and device of every config, each distinct one once; raises `ConfigError`."""
    launch.cpu_slots()
    shared = [key for key in protocol_parameters() if key not in UNCHECKED]
    distinct: dict[str, Config] = {}
    for config in configs:
        flat = config.flat()
        distinct.setdefault(json.dumps([flat[key] for key in shared]), config)
    # One data set after the other: only the newest ones stay in memory.
    for config in sorted(distinct.values(), key=lambda config: (config.dataset, config.dataset_path or "")):
        preflight.check(config)


def label(config: Config, layout: Layout) -> str:
    """A run within its sweep: "orca seed 1, 10 % labels"."""
    flat = config.flat()
    words = [setting_in_words(name, flat[name]) for name in layout.varied if name in flat]
    place = f" on {config.dataset}" if len(layout.datasets) > 1 else ""
    return ", ".join([f"{config.method}{place} seed {config.seed}", *words])


def recognise(items: Sequence[Item], root: Path) -> list[Item]:
    """The same runs with what exists of them in `root` by now: an equal config means the same run."""
    existing = _existing(root, {item.config.to_json() for item in items})
    found = []
    for item in items:
        run, state = existing.get(item.config.to_json(), (None, None))
        action = "new" if run is None else "exists" if state.name in REUSED else "resumed"
        found.append(replace(item, action=action, run=run, state=state))
    return found


def _existing(root: Path, wanted: set[str]) -> dict[str, tuple[Run, State]]:
    """By config, the run that serves best: what is nearest to its end, then the newest."""
    ranks = REUSED + RESUMED
    found: dict[str, tuple[Run, State]] = {}
    for run in list_runs(root):
        try:
            key = run.config().to_json()
        except ConfigError:
            continue
        state = run.state() if key in wanted else None
        if state is None or state.name not in ranks:
            continue
        if key not in found or ranks.index(state.name) < ranks.index(found[key][1].name):
            found[key] = run, state
    return found


def estimate(sweep: Sweep, root: Path) -> Estimate:
    """What the new and the resumed runs will cost, by the finished runs in `root`."""
    left = [item.config for item in sweep.items if item.action != "exists"]
    known = costs.finished_costs(root, {costs.kind(config) for config in left})
    expected = [costs.usual_cost(known, config) for config in left]
    found = [cost for cost in expected if cost is not None]
    unknown = dict.fromkeys(f"{c.method} on {c.dataset}" for c, cost in zip(left, expected) if cost is None)
    seconds, size = sum(cost.seconds for cost in found), sum(cost.bytes for cost in found)
    return Estimate(seconds, size, len(left), len(left) - len(found), tuple(unknown))


def _checked_name(name: str) -> str:
    limit = TAG_LIMIT - len(PREFIX)
    if clean_line(name, limit) != name:
        raise ConfigError("name", f"{shorten(name)} is not a printable line of at most {limit} characters")
    return name


def _digest(configs: Sequence[Config]) -> str:
    return hashlib.sha256("\n".join(config.to_json() for config in configs).encode()).hexdigest()[:6]


# ---------------------------------------------------------------------------------------------------- start


def start(sweep: Sweep, root: Path, trainer=launch.TRAINER) -> Sweep:
    """Make what does not exist, resume what broke off, queue all of it; the same sweep with its runs.

    Two equal sweeps that are started at once make every run once: they take turns, and the second one looks again.
    Every run carries the sweep's tag, those that existed before too. Raises `ConfigError`.
    """
    turn = _turn(root)
    try:
        items = recognise(sweep.items, root)
        for item in items:
            if item.state is not None and item.state.name == "stopping":
                raise ConfigError("run", f"{item.run.id} is stopping; start the sweep again when it has stopped")
        made = [item if item.run else replace(item, run=create_run(root, item.config, item.label)) for item in items]
        for item in made:
            _tag(item.run, sweep.tag)
        for item in made:
            _queue(item, trainer)
    finally:
        os.close(turn)
    return Sweep(sweep.name, tuple(replace(item, state=item.run.state()) for item in made))


def watch(items: Sequence[Item], trainer=launch.TRAINER, pause_s: float = 0.5) -> Iterator[Item]:
    """Every item with the state that it has come to, as soon as its run is over, finished ones first; stops nothing."""
    waiting = list(items)
    while waiting:
        for item in list(waiting):
            state = item.run.state()
            if state.is_over or state.name == "unreadable":
                waiting.remove(item)
                yield replace(item, state=state)
        if waiting:
            for root in {item.run.root for item in waiting}:
                launch.pump(root, trainer)  # the runner that should have started the next run may have been killed
            time.sleep(pause_s)


def tagged(root: Path, tag: str) -> list[Run]:
    """The runs that carry `tag`, newest first; raises `ConfigError` where there is none."""
    runs = [run for run in list_runs(root) if tag in run.meta()["tags"]]
    if not runs:
        known = sorted({tag for run in list_runs(root) for tag in run.meta()["tags"]})
        raise ConfigError(
            "tag", f"{shorten(tag)} is on no run in {root}; choices: {', '.join(known[:20]) or 'none yet'}"
        )
    return runs


def _turn(root: Path) -> int:
    """The lock under which a sweep is started."""
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        turn = claim(root / ".sweeps.lock", START_PATIENCE_S)
    except OSError as error:
        raise ConfigError("runs", f"{shorten(str(root))} cannot hold a new run ({error.strerror})") from None
    if turn is None:
        raise ConfigError("sweep", "another one is still being started; try again in a minute")
    return turn


def _tag(run: Run, tag: str) -> None:
    tags = run.meta()["tags"]
    if tag not in tags:
        run.write_meta(tags=[*tags, tag])


def _queue(item: Item, trainer) -> None:
    """Ask for the run, unless it is done or somebody has asked for it already."""
    state = item.run.state()
    if state.name in RESUMED:
        launch.resume(item.run, trainer)
    elif state.name == "queued":
        launch.launch(item.run, trainer)
