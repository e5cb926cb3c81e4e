"""What a run will cost in time and disk: the median seconds per epoch of comparable runs, given as a range.

Comparable are finished runs of this machine, corrected by the pace that such runs show at the moment; where there are
none, the pace of running ones; else recordings. A run without start weights of its own is pretrained first.
"""

import heapq
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import median

from lps.errors import UserError
from lps.files.locks import is_held
from lps.machine import devices
from lps.scheduler import heuristics
from lps.scheduler.heuristics import START_S
from lps.settings.config import Config
from lps.store import snapshots
from lps.store.desired_state import number
from lps.store.events import read_events, read_last_event
from lps.store.run_folders import list_runs, recorded_runs
from lps.store.run_progress import RunProgress, read_progress
from lps.store.runs import Run, State
from lps.wording import estimated, estimated_range

ENDING_S = 5.0  # from the last step to the end of the process
SPREAD, ROUGH = 1.1, 3.0  # the range of a measured pace, and of one phase alone or a rule of thumb: times or divided by
_ALIKE, _OTHERS, _ELSEWHERE = 1.25, 2.0, 2.0  # the same by runs with equal work an epoch, other runs, other machines
_EARLY, _EARLY_SPREAD = 0.1, 1.5  # up to this share of a phase its pace is not yet reliable
_WIDE, _SHORT_S = 1.7, 10.0  # a range is written where most >= _WIDE * max(least, _SHORT_S)

_FREE = ("epochs", "pretrain.epochs", "seed", "split.seed", "pretrain.seed", "split.seen_classes")
_WORK = ("dataset", "network.", "features.", "batch_size", "device", "precision", "threads", "processes", "views")
_WORK += ("split.imbalance",)
_START = ("dataset", "network.name", "pretrain.", "views", "precision", "split.imbalance")  # of start weights
_CHUNK, _LONGEST_HEAD = 1 << 14, 1 << 22  # bytes of events that are read at a time, and at most
_CHECKPOINTS, _WEIGHT_BYTES = 3, 8  # the two newest and the best; a float32 weight with its momentum
_IMAGE_BYTES, _FEATURE_BYTES, _SAMPLED = 4, 2, 1000  # a snapshot's prediction; a feature of at most so many images


@dataclass(frozen=True)
class Span:
    """How long something takes, in seconds: the likely value, and the least and the most to expect."""

    likely: float
    least: float
    most: float

    @classmethod
    def about(cls, seconds: float, spread: float = 1.0, busy: float = 1.0) -> "Span":
        """From seconds / spread to seconds * spread * busy."""
        return cls(seconds, seconds / spread, seconds * spread * busy)

    def plus(self, other: "Span") -> "Span":
        return Span(self.likely + other.likely, self.least + other.least, self.most + other.most)

    def times(self, factor: float) -> "Span":
        return Span(self.likely * factor, self.least * factor, self.most * factor)

    def after(self, seconds: float) -> "Span":
        """What is left of it when so many seconds have passed."""
        return Span(*(max(0.0, value - seconds) for value in (self.likely, self.least, self.most)))


@dataclass(frozen=True)
class Cost:
    """What a run will cost: seconds from its process to its end, and bytes of its folder.

    training: the part of `span` that is training; pretrain_s: the likely seconds of pretraining, 0 where it reuses
    start weights.
    """

    span: Span
    training: Span
    pretrain_s: float = 0.0
    bytes: int = 0

    @property
    def seconds(self) -> float:
        return self.span.likely


@dataclass(frozen=True)
class Pace:
    """How fast a run was or is: seconds of an epoch, and seconds and bytes apart from its epochs.

    pretrain_epoch_s: None where it did not pretrain. Where its events do not tell, epoch_s is all time by the epochs,
    and other_s and pretrain_epoch_s are 0. spread: how reliable it is, as in `Span.about`.
    """

    config: Config
    epoch_s: float
    pretrain_epoch_s: float | None = None
    other_s: float = START_S
    epoch_bytes: float = 0.0
    other_bytes: float = 0.0
    spread: float = 1.0

    def seconds(self, epochs: int) -> float:
        """Of a run of so many epochs that does not pretrain."""
        return self.other_s + epochs * self.epoch_s


class KnownCosts:
    """Estimates costs by the paces of finished, running and recorded runs."""

    def __init__(self, finished: Iterable[Pace], recorded: Iterable[Pace] = (), running: Iterable[Pace] = ()):
        self._finished, self._recorded, self._running = _by_settings(finished), _by_settings(recorded), {}
        self._starts = {start_of(pace.config) for paces in self._finished.values() for pace in paces}
        self._add_running(running)

    def _add_running(self, running: Iterable[Pace]) -> None:
        self._running = _by_settings(running)
        self._starts = {None, *self._starts, *(start_of(p.config) for paces in self._running.values() for p in paces)}

    def beside(self, runs: Iterable[Run]) -> "KnownCosts":
        """The same, corrected by the pace of these running ones."""
        other = KnownCosts(())
        other._finished, other._recorded, other._starts = self._finished, self._recorded, self._starts
        other._add_running(_running_paces(runs))
        return other

    def of(self, config: Config, made: Collection = (), pretrains: bool | None = None) -> Cost | None:
        """The cost of a run with these settings; None where no run of its kind is known.

        made: starts (`start_of`) that will exist besides those of known runs. pretrains: whether it pretrains, where
        that is known.
        """
        if pretrains is None:
            pretrains = start_of(config) not in self._starts and start_of(config) not in made
        if found := _nearest(self._finished, config):
            return _cost(config, found, self._finished[kind(config)], pretrains, self._slowdown(kind(config)))
        if found := _nearest(self._running, config):
            return _cost(config, found, found, pretrains)
        found = [replace(pace, spread=_ELSEWHERE) for pace in _nearest(self._recorded, config)]
        return _cost(config, found, self._recorded[kind(config)], pretrains, busy=busy()) if found else None

    def _slowdown(self, asked: tuple) -> float:
        """How many times longer than usual an epoch takes at the moment; 1 where no run of this kind is running."""
        ratios = []
        for now in self._running.get(asked, ()):
            usual = [pace for pace in _nearest(self._finished, now.config) if pace.other_s]
            pretrain_epoch_s = median(_pretraining(usual) or [0.0])
            if now.pretrain_epoch_s and pretrain_epoch_s:
                ratios.append(now.pretrain_epoch_s / pretrain_epoch_s)
            elif epoch_s := median([pace.epoch_s for pace in usual] or [0.0]):
                ratios.append(now.epoch_s / epoch_s)
        return median(ratios) if ratios else 1.0

    def left(self, run: Run, state: State, now: float) -> Span | None:
        """How long a running run goes on from `now` (unix seconds) on; None where nothing tells."""
        return time_left(run.config_if_readable(), read_progress(run, state), now, self)


def known_costs(root: Path, kinds: set[tuple] | None = None, with_bytes: bool = True) -> KnownCosts:
    """What is known in `root` and by recordings: of these kinds with the running runs, or of all kinds without them.

    with_bytes: also what runs take of the disk. Callers that keep the answer for all kinds add running runs (`beside`).
    """
    finished = finished_paces(root, kinds, with_bytes)
    if kinds is None:
        return KnownCosts(finished, _recorded_paces(None, with_bytes))
    missing = kinds - {kind(pace.config) for pace in finished}
    return KnownCosts(finished, _recorded_paces(missing, with_bytes)).beside(alive(root, kinds))


def alive(root: Path, kinds: Collection[tuple]) -> list[Run]:
    """The running runs of these kinds."""
    found = [(run, run.config_if_readable()) for run in list_runs(root) if is_held(run.lock)]
    return [run for run, config in found if config is not None and kind(config) in kinds]


def kind(config: Config) -> tuple[str, str, str | None, str]:
    """Costs are compared between runs of one method, one data set, and on pictures or on features alone."""
    return config.method, config.dataset, config.dataset_path, config.features


def start_of(config: Config) -> tuple | None:
    """What pretrained start weights depend on, but for the pixels of the pictures; None where a run needs none."""
    if config.network_start != "simclr" or not config.pretrain_epochs:
        return None
    flat = config.flat() | {"pretrain.seed": config.seed if config.pretrain_seed is None else config.pretrain_seed}
    return tuple((key, value) for key, value in flat.items() if key.startswith(_START))


def busy() -> float:
    """The load per core of this machine, at least 1."""
    try:
        return max(1.0, os.getloadavg()[0] / devices.available_cores())
    except OSError:
        return 1.0


def _by_settings(paces: Iterable[Pace]) -> Mapping[object, list[Pace]]:
    found: dict[object, list[Pace]] = {}
    for pace in paces:
        for key in _keys(pace.config):
            found.setdefault(key, []).append(pace)
    return found


def _keys(config: Config) -> tuple:
    """From equal settings to the same work an epoch to the same kind."""
    flat = config.flat()
    return tuple((k, v) for k, v in flat.items() if k not in _FREE), (kind(config), _work(flat)), kind(config)


def _work(flat: Mapping[str, object]) -> tuple:
    return tuple(value for key, value in flat.items() if key.startswith(_WORK))


def _nearest(paces: Mapping[object, list[Pace]], config: Config) -> list[Pace]:
    return next((paces[key] for key in _keys(config) if key in paces), [])


def _pretraining(paces: Iterable[Pace]) -> list[float]:
    return [pace.pretrain_epoch_s for pace in paces if pace.pretrain_epoch_s is not None]


def _cost(
    config: Config, nearest: list[Pace], of_kind: list[Pace], pretrains: bool, slowdown: float = 1.0, busy: float = 1.0
) -> Cost:
    """The median of the nearest paces, with the epochs of `config`."""
    each = [pace.seconds(config.epochs) for pace in nearest]
    middle, least, most = median(each), min(each), max(each)
    alike = all(_work(pace.config.flat()) == _work(config.flat()) for pace in nearest)
    apart = min(ROUGH, max(most / middle, middle / least)) if least > 0 else 1.0
    spread = max(_ALIKE if alike else _OTHERS, apart, *(pace.spread for pace in nearest))
    epoch_s, pretrain_s = median(pace.epoch_s for pace in nearest), 0.0
    if pretrains:
        known = _pretraining(nearest) or _pretraining(of_kind) or [epoch_s * heuristics.pretraining_share(config)]
        pretrain_s = config.pretrain_epochs * median(known)
    return Cost(
        Span.about(slowdown * (middle + pretrain_s), spread, busy),
        Span.about(slowdown * epoch_s * config.epochs, spread, busy),
        slowdown * pretrain_s,
        round(median(pace.other_bytes + config.epochs * pace.epoch_bytes for pace in nearest)),
    )


# ---------------------------------------------------------------------------------------------------- running runs


def _running_paces(runs: Iterable[Run]) -> list[Pace]:
    """The paces of running runs, of those that show one already."""
    found = []
    for run in runs:
        config = run.config_if_readable()
        pace = None if config is None else pace_now(config, read_progress(run, run.state()))
        found += [] if pace is None else [pace]
    return found


def pace_now(config: Config, progress: RunProgress) -> Pace | None:
    """The pace that a running run shows in its present phase; the other phase follows from a rule of thumb."""
    left, share = progress.left_s(progress.written or 0.0), progress.share
    if left is None or share is None or share >= 1:
        return None
    whole_s = left / (1 - share)
    if progress.phase == "train":
        return Pace(config, whole_s / config.epochs, spread=_EARLY_SPREAD if share < _EARLY else SPREAD)
    if progress.phase == "pretrain" and config.pretrain_epochs:
        epoch_s = whole_s / config.pretrain_epochs
        return Pace(config, epoch_s / heuristics.pretraining_share(config), epoch_s, spread=ROUGH)
    return None


def time_left(config: Config | None, progress: RunProgress, now: float, known: KnownCosts) -> Span | None:
    """How long a running run goes on: the rest of its phase by its own pace, and the phases that follow.

    config: None where it cannot be read. now: unix seconds.
    """
    share, left = progress.share or 0.0, progress.left_s(now)
    if share >= 1:
        phase = Span.about(0.0)
    else:
        phase = None if left is None else Span.about(left, _EARLY_SPREAD if share < _EARLY else SPREAD)
    if progress.phase == "train" and phase:
        return phase if share < 1 else Span.about(ENDING_S)
    usual = config and known.of(config, pretrains=True if progress.phase == "pretrain" else None)
    if usual is None:
        return None
    if progress.phase in ("features", "pretrain") and phase:
        return phase.plus(usual.training).plus(Span.about(ENDING_S))
    return usual.span.after(0.0 if progress.started is None else now - progress.started)


# ---------------------------------------------------------------------------------------------------- past runs


def finished_paces(root: Path, kinds: set[tuple] | None = None, with_bytes: bool = True) -> list[Pace]:
    """The paces of the finished runs of these kinds, or of all kinds."""
    found = []
    for run in list_runs(root):
        seconds = run_seconds(run)
        config = run.config_if_readable() if seconds is not None else None
        if config is None or (kinds is not None and kind(config) not in kinds):
            continue
        pace = _pace(run, config, seconds)
        if with_bytes:
            of_epochs = folder_bytes(run.snapshots)
            rest = folder_bytes(run.folder) - of_epochs
            pace = replace(pace, epoch_bytes=of_epochs / config.epochs, other_bytes=rest)
        found.append(pace)
    return found


def _recorded_paces(kinds: set[tuple] | None, with_bytes: bool) -> list[Pace]:
    """The paces of the recordings that come with the program. Their bytes follow from what a run writes."""
    found = []
    for run in recorded_runs():
        config = run.config_if_readable()
        if config is None or (kinds is not None and kind(config) not in kinds):
            continue
        head, last = events_head(run), read_last_event(run.events)
        if not head or last["kind"] != "finish":
            continue
        pace = _pace(run, config, START_S + max(0.0, last["time"] - head[0]["time"]))
        if not with_bytes:
            found.append(pace)
            continue
        facts = next((event["values"] for event in reversed(head) if event["kind"] == "start"), {})
        weights, images = (number(facts.get(name), 0.0) for name in ("parameters", "images/unlabeled"))
        an_epoch = _IMAGE_BYTES * images + min(_SAMPLED, int(images)) * _features(run) * _FEATURE_BYTES
        size = _CHECKPOINTS * _WEIGHT_BYTES * weights
        found.append(replace(pace, epoch_bytes=an_epoch, other_bytes=size))
    return found


def run_seconds(run: Run) -> float | None:
    """From the process to the end of a run that finished in its first attempt; None for any other run."""
    ended, process = run.read_json("exit.json"), run.read_json("process.json")
    began, end = number(process.get("started")), number(ended.get("time"))
    if ended.get("state") != "finished" or ended.get("attempt") != 1 or began is None or end is None:
        return None
    return max(0.0, end - began)


def _pace(run: Run, config: Config, seconds: float) -> Pace:
    """The pace of a run that took so many seconds; all of them count as epochs where its events do not tell.

    An epoch is what lies between the first `train` event, which ends the first epoch, and the end, shared among the
    others; of a single one, what lies before its event since the one before. Making stored features is left out: the
    next run finds them.
    """
    head, last = events_head(run), read_last_event(run.events)
    unknown = Pace(config, seconds / config.epochs, 0.0, 0.0)
    if not last or len(head) < 2 or head[-1]["kind"] != "train":
        return unknown
    first, before = head[-1], head[-2]
    others = last["epoch"] - first["epoch"]
    epoch_s = (last["time"] - first["time"]) / others if others > 0 else first["time"] - before["time"]
    done = [i for i, e in enumerate(head) if e["kind"] == "pretrain" and "pretrain/reused" not in e["values"]]
    pretrain_s = head[done[-1]]["time"] - head[max(0, done[0] - 1)]["time"] if done else 0.0
    other_s = seconds - config.epochs * epoch_s - pretrain_s
    if min(epoch_s, pretrain_s, other_s) < 0:
        return unknown
    other_s = min(other_s, START_S + ENDING_S) if config.features == "stored" else other_s
    return Pace(config, epoch_s, pretrain_s / config.pretrain_epochs if pretrain_s else None, other_s)


def events_head(run: Run) -> list[dict]:
    """The events of a run up to its first `train` event."""
    try:
        about = os.stat(run.events)
    except OSError:
        return []
    return _read_head(run.events, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=4096)
def _read_head(path: Path, size: int, _changed: int) -> list[dict]:
    found, offset = [], 0
    while offset < min(size, _LONGEST_HEAD):
        events, end = read_events(path, offset, _CHUNK)
        for event in events:
            found.append(event)
            if event["kind"] == "train":
                return found
        if end <= offset:
            break
        offset = end
    return found


def _features(run: Run) -> int:
    """How many features an image has; 0 where the recording kept none."""
    epochs = snapshots.snapshot_epochs(run.snapshots)
    try:
        name = f"epoch-{epochs[-1]:04d}.npz"
        return snapshots.read_arrays(run.snapshots / name, ("features",))["features"].shape[1]
    except (UserError, IndexError, KeyError, OSError):
        return 0


def folder_bytes(folder: Path) -> int:
    """The size of all files below `folder`; what vanishes meanwhile counts nothing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total


# ---------------------------------------------------------------------------------------------------- several runs


def at_a_time(spans: Iterable[Span], slots: int) -> Span:
    """How long runs take on so many slots, each begun in its turn on the slot that is free first, as the queue does."""
    parts = zip(*((span.likely, span.least, span.most) for span in spans))
    return Span(*[_side_by_side(part, slots) for part in parts] or (0.0, 0.0, 0.0))


def _side_by_side(seconds: Iterable[float], slots: int) -> float:
    free = [0.0] * max(1, slots)
    for one in seconds:
        heapq.heapreplace(free, free[0] + one)
    return max(free)


def is_wide(span: Span) -> bool:
    """Whether the range is too wide to be written as one number."""
    return span.most >= _WIDE * max(span.least, _SHORT_S)


def span_in_words(span: Span) -> str:
    """ "4 min", or "4 to 20 min" where the range is wide."""
    return estimated_range(span.least, span.most) if is_wide(span) else estimated(span.likely)
