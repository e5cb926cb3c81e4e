"""Many runs at once: lay out combinations of settings, recognise those that exist, start the others, see them end."""

import hashlib
import itertools
import json
import math
import os
import random
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from lps import catalog, costs, forecasts, launcher, preflight, presets, queue, slurm, sweep_records
from lps.compare import setting_in_words
from lps.config import Config, configure, parameters, protocol_parameters
from lps.files import clean_line
from lps.locks import claim
from lps.parameters import ConfigError, shorten
from lps.runs import TAG_LIMIT, Run, State, create_run, list_runs
from lps.sweep_records import PREFIX

MODES = {
    "grid": "every combination",
    "list": "the first values together, then the second ones, ...",
    "random": "some combinations of the grid, drawn by a seed",
}
MOST_RUNS = 2000
ASKED_ELSEWHERE = {"dataset": "--dataset", "method": "--method", "seed": "--seeds"}
# Of several equal runs the first of these is used, else the first of those that can be resumed.
REUSED = ("finished", "running", "starting", "stopping", "unknown", "queued")
RESUMED = ("stopped", "crashed", "failed")
UNCHECKED = ("seed", "pretrain.seed")  # settings that no check of data, split and device looks at
START_PATIENCE_S = 60.0
BEFORE_TRAINING = ("dataset.", "split.", "network.", "pretrain.", "device", "processes", "threads", "precision")


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

    def kept(self) -> dict:
        """In JSON's own kinds, for `sweep_records`."""
        return {"layout": json.loads(json.dumps(asdict(self)))}

    def command(self, name: str = "") -> str:
        """The command that starts it."""
        words = ["python", "-m", "lps", "sweep", "--dataset", ",".join(self.datasets)]
        words += ["--method", ",".join(self.methods), "--seeds", ",".join(map(str, self.seeds))]
        for key, text in self.fixed.items():
            words += ["--set", f"{key}={text}"]
        for key, values in self.varied.items():
            words += ["--vary", f"{key}={('|' if any(',' in value for value in values) else ',').join(values)}"]
        words += ["--mode", self.mode] if self.mode != "grid" else []
        words += ["--samples", str(self.samples), "--sample-seed", str(self.sample_seed)] if self.samples else []
        return shlex.join([*words, *(["--name", name] if name else [])])


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
    """Runs that belong together under a name, in the order in which they will queue.

    asked: what `sweep_records` keeps of it; {} for nothing.
    """

    name: str
    items: tuple[Item, ...]
    asked: Mapping[str, object] = field(default_factory=dict)

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
    one = assignments(fixed)
    many: dict[str, tuple[str, ...]] = {}
    for name, text in (_assignment(text, "--vary") for text in varied):
        many[name] = many.get(name, ()) + split_values(name, text)
    named = catalog.method_names() if methods.strip() == "all" else _words(methods)
    seed = protocol_parameters()["seed"]
    numbers = tuple(seed.parse(text) for text in _words(seeds))
    return Layout(tuple(_words(datasets)), tuple(named), numbers, one, many, **more)


def assignments(texts: Sequence[str], option: str = "--set") -> dict[str, str]:
    """Texts NAME=VALUE by name; raises `ConfigError`, also for a name that stands there twice."""
    found: dict[str, str] = {}
    for name, text in (_assignment(text, option) for text in texts):
        if name in found:
            raise ConfigError(name, f"is set twice, to {shorten(found[name])} and to {shorten(text)}; name it once")
        found[name] = text
    return found


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

    A setting that only some of the methods have is left out for the others, and what is varied of training for methods
    that train nothing: it would lay out the same run several times. Raises `ConfigError`.
    """
    _check_names(layout)
    chosen = combinations(layout.varied, layout.mode, layout.samples, layout.sample_seed)
    _check_size(len(chosen) * len(layout.seeds) * len(layout.datasets) * len(layout.methods))
    found: dict[str, Config] = {}
    for seed, dataset, method in itertools.product(layout.seeds, layout.datasets, layout.methods):
        known = parameters(method)
        for texts in ({**layout.fixed, **combination} for combination in chosen):
            kept = {name: text for name, text in texts.items() if name in layout.fixed or _matters(name, method)}
            values = {name: known[name].parse(text) for name, text in kept.items() if name in known}
            config = configure({"dataset": dataset, "method": method, "seed": seed} | values)
            found.setdefault(config.to_json(), config)
    return list(found.values())


def _matters(name: str, method: str) -> bool:
    """Whether a setting can change what the method finds."""
    info = catalog.method_info(method)
    return info.trains or name in info.parameters or name.startswith(BEFORE_TRAINING)


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
    if not equals or not name.strip():
        raise ConfigError(option, f"{shorten(text)} is not of the form name=value")
    return name.strip(), value.strip()


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


# ---------------------------------------------------------------------------------------------------- plan


def plan(layout: Layout | presets.Asked, root: Path, name: str = "") -> Sweep:
    """The sweep as it would be started now; everything is checked, nothing is written. Raises `ConfigError`.

    name: without one the sweep is named after its settings, so that the same command means the same sweep.
    """
    sweep = sketch(layout, root, name)
    check([item.config for item in sweep.items])
    return sweep


def sketch(asked: Layout | presets.Asked, root: Path, name: str = "") -> Sweep:
    """As `plan`, but without a look at data, split and device: what it would be once these are there."""
    if isinstance(asked, Layout):
        found = [(config, label(config, asked)) for config in lay_out(asked)]
        name = name or _digest([config for config, _ in found])
    else:
        found = presets.sheet(asked).runs()
        name = name or asked.name
    _check_size(len(found))
    items = [Item(config, words) for config, words in found]
    return Sweep(_checked_name(name), tuple(recognise(items, root)), asked.kept())


def from_kept(kept: Mapping) -> Layout | presets.Asked | None:
    """What was asked for by what `sweep_records` kept of it; None where that is nothing or damaged."""
    stored = kept.get("layout")
    if not isinstance(stored, dict):
        return presets.from_kept(kept)
    try:
        values = {key: stored[key] for key in (item.name for item in fields(Layout))}
        lists = {key: tuple(values[key]) for key in ("datasets", "methods", "seeds")}
        varied = {str(key): tuple(map(str, texts)) for key, texts in values["varied"].items()}
        fixed = {str(key): str(text) for key, text in values["fixed"].items()}
        layout = Layout(**values | lists | {"varied": varied, "fixed": fixed})
        lay_out(layout)
    except (KeyError, TypeError, ValueError, AttributeError):  # a ConfigError is a ValueError
        return None
    return layout


def check(configs: Sequence[Config], here: bool = True) -> None:
    """Data, split and device of every config, each distinct one once; raises `ConfigError`."""
    launcher.demanded_cpu_slots()
    shared = [key for key in protocol_parameters() if key not in UNCHECKED]
    distinct: dict[str, Config] = {}
    for config in configs:
        flat = config.flat()
        distinct.setdefault(json.dumps([flat[key] for key in shared]), config)
    # One data set after the other: only the newest ones stay in memory.
    for config in sorted(distinct.values(), key=lambda config: (config.dataset, config.dataset_path or "")):
        preflight.check(config, here)


def label(config: Config, layout: Layout) -> str:
    """A run within its sweep: "orca seed 1, 10 % labels"."""
    flat = config.flat()
    told = [name for name in layout.varied if name in flat and _matters(name, config.method)]
    words = [setting_in_words(name, flat[name]) for name in told]
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
    """What the new and the resumed runs will cost, by the finished runs in `root`, else by recordings."""
    left = [item.config for item in sweep.items if item.action != "exists"]
    return add_up(left, expected(left, root))


def expected(configs: Sequence[Config], root: Path) -> list[costs.Cost | None]:
    """The cost of each, by the finished runs in `root`, else by recordings; None where none is of its kind."""
    known = forecasts.known(root, {costs.kind(config) for config in configs})
    return [known.of(config) for config in configs]


def add_up(left: Sequence[Config], expected: Sequence[costs.Cost | None]) -> Estimate:
    """The cost of all that is left to do, of what is known of each."""
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


def start(
    sweep: Sweep,
    root: Path,
    trainer=launcher.TRAINER,
    *,
    retries: int | None = None,
    on: slurm.Options | None = None,
) -> Sweep:
    """Make what does not exist, resume what broke off, queue all of it; the same sweep with its runs.

    retries: how often a crashed run is started again by itself (lps.queue). on: what to ask of a cluster that shall
    carry out what is still to be done, as one array of jobs; what waits here already stays (`staying_in_words`).

    Two equal sweeps that are started at once make every run once: they take turns, and the second one looks again.
    Every run carries the sweep's tag, those that existed before too. Raises `ConfigError`.
    """
    launcher.check_wish(retries, None, on)
    _checked_name(sweep.name)
    turn = _turn(root)
    try:
        items = recognise(sweep.items, root)
        for item in items:
            if item.state is not None and item.state.name == "stopping":
                raise ConfigError("run", f"{item.run.id} is stopping; start the sweep again when it has stopped")
        made = [item if item.run else replace(item, run=create_run(root, item.config, item.label)) for item in items]
        for item in made:
            _tag(item.run, sweep.tag)
        if sweep.asked:
            _keep(sweep, root)
        launcher.launch_all([item.run for item in made], trainer, retries=retries, on=on, name=sweep.name)
    finally:
        os.close(turn)
    return replace(sweep, items=tuple(replace(item, state=item.run.state()) for item in made))


def staying_in_words(items: Sequence[Item], on: slurm.Options | None) -> str:
    """A sentence on the runs that wait in another place than the one that is asked for; "" where none does.

    on: as of `start`. Nothing is taken out of a queue that it waits in already: it would lose its place there.
    """
    wishes = [item.run.wish() for item in items if item.state is not None and item.state.name == "queued"]
    staying = sum(bool(wish.on) != (on is not None) for wish in wishes if wish.want)
    if not staying:
        return ""
    where = "in SLURM" if on is None else "on this machine"
    if staying == 1:
        return f"1 of them waits {where} and stays there; to move it, stop it and start the sweep again"
    return f"{staying} of them wait {where} and stay there; to move them, stop them and start the sweep again"


def _keep(sweep: Sweep, root: Path) -> None:
    try:
        sweep_records.write(root, sweep.name, sweep.asked)
    except OSError as error:
        raise ConfigError("runs", f"{shorten(str(root))} cannot hold a sweep ({error.strerror})") from None


def watch(items: Sequence[Item], trainer=launcher.TRAINER, pause_s: float = 0.5) -> Iterator[Item]:
    """Every item with the state that it has come to, as soon as its run is over, finished ones first; stops nothing."""
    waiting = list(items)
    while waiting:
        for item in list(waiting):
            state = item.run.state()
            if state.name == "unreadable" or (state.is_over and not queue.is_due(item.run, state)):
                waiting.remove(item)
                yield replace(item, state=state)
        if waiting:
            for root in {item.run.root for item in waiting}:
                launcher.pump(root, trainer)  # the runner that should have started the next run may have been killed
            time.sleep(pause_s)


def tagged_items(runs: Sequence[Run]) -> tuple[Item, ...]:
    """The runs of a sweep of which only the tag is known, the oldest first; those that cannot be read are left out."""
    found = []
    for run in reversed(runs):
        try:
            config = run.config()
        except ConfigError:
            continue
        found.append(Item(config, run.title, "exists", run, run.state()))
    return tuple(found)


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
