"""Estimate how long a run will take: the median seconds per epoch of comparable runs, given as a range.

Comparable runs are finished runs of this machine, corrected by the current speed of such runs; if there are none,
running runs; else recordings. A run without start weights of its own is pretrained first. If nothing comparable is
known, a rule of thumb for the CPU estimates the time from the number and size of the pictures.
"""

import copy
import heapq
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

from lps.data import feature_store
from lps.files.locks import is_held
from lps.machine import devices
from lps.settings.config import Config
from lps.store.desired_state import stored_number
from lps.store.events import read_head, read_last_event
from lps.store.run_folders import list_runs, recorded_runs
from lps.store.run_progress import RunProgress, read_progress
from lps.store.runs import Run
from lps.wording import estimated, estimated_range

START_S = 7.0  # seconds from a process to its first event; ten runs on two shared cores took 6.9 to 41.9
_PRETRAINING = ("wait", "pretrain")  # phases: another run makes the same start weights, or this one
ENDING_S = 5.0  # from the last step to the end of the process
# A range goes from seconds / factor to seconds * factor, with a factor for each source of the estimate.
_SPREAD = 1.1  # the measured speed of this run
_ALIKE = 1.25  # runs with equal work per epoch
_OTHERS = 2.0  # other runs, or other machines
ROUGH = 3.0  # one phase alone, or a rule of thumb
_EARLY, _EARLY_SPREAD = 0.1, 1.5  # up to this share of a phase its speed is not yet reliable
_WIDE, _SHORT_S = 1.7, 10.0  # a range is shown if most >= _WIDE * max(least, _SHORT_S)
_UNKNOWN = 15.0  # a range of more than this factor is no estimate
NO_ESTIMATE = "no estimate of the time yet"
_BUSY = 1.25  # load per core above which other programs are named as the reason for a wide range

_SETTINGS_IGNORED_IN_MATCH = ("epochs", "pretrain.epochs", "seed", "split.seed", "pretrain.seed", "split.seen_classes")
_WORK = ("dataset", "network.", "features.", "batch_size", "device", "precision", "threads", "processes", "views")
_WORK += ("split.imbalance",)
# Of start weights.
_START = ("dataset", "network.name", "pretrain.", "views", "precision", "threads", "split.imbalance")

# Microseconds of one core for a pixel of an image in an epoch: of pretraining, and of training by LPS with the stages
# frozen that the recipes freeze. Processor time of two more epochs, 300 pictures of 32 x 32, batches of 128, two quiet
# cores (AMD EPYC, PyTorch 2.15), one trial each.
_MICROSECONDS = {"digits_resnet": (1.5, 2.4), "cifar_resnet18": (34.0, 21.0)}

# The same for a view of a picture, in pixels that the backbone sees: EfficientNet-Lite0 took 3.2 ms of one thread for
# 128 x 128 (AMD EPYC, other work on it, 768 views). And what an epoch of LPS on stored features takes for a picture.
_STORED_MICROSECONDS = {"efficientnet_lite0": 0.2, "given": 0.0}  # own embeddings pass no backbone
_HEAD_S = 180e-6
_FEATURE_STORE_SETTINGS = ("dataset", "network.name", "network.image_size", "network.start", "network.checkpoint")
_FEATURE_STORE_SETTINGS += ("views",)


class Span(NamedTuple):
    """A duration in seconds: the likely value, and the least and the most to expect."""

    likely: float
    least: float
    most: float

    @classmethod
    def about(cls, seconds: float, spread: float = 1.0, busy: float = 1.0) -> "Span":
        """Return the range from seconds / spread to seconds * spread * busy."""
        return cls(seconds, seconds / spread, seconds * spread * busy)

    def plus(self, other: "Span") -> "Span":
        return Span(*map(sum, zip(self, other)))

    def times(self, factor: float) -> "Span":
        return Span(*(value * factor for value in self))

    def after(self, seconds: float) -> "Span":
        """Return the rest after so many seconds have passed."""
        return Span(*(max(0.0, value - seconds) for value in self))


@dataclass(frozen=True)
class RunSpeed:
    """The speed of a run: seconds per epoch, and seconds outside its epochs.

    pretrain_epoch_s: None without pretraining. If the events hold no times, epoch_s is all time divided by the epochs,
    and other_s and pretrain_epoch_s are 0. spread: its uncertainty, as in `Span.about`. run: None while it runs.
    """

    config: Config
    epoch_s: float
    pretrain_epoch_s: float | None = None
    other_s: float = START_S
    spread: float = 1.0
    run: Run | None = None


@dataclass(frozen=True)
class Cost:
    """The time of a run from process start to end, and of its training alone, from the speeds of comparable runs."""

    span: Span
    training: Span
    epochs: int
    speeds: Collection[RunSpeed]


class KnownCosts:
    """Estimates costs by the speeds of finished, running and recorded runs."""

    def __init__(
        self, finished: Iterable[RunSpeed], recorded: Iterable[RunSpeed] = (), running: Iterable[RunSpeed] = ()
    ):
        self._finished, self._recorded = _by_settings(finished), _by_settings(recorded)
        self._running = _by_settings(running)

    def with_running(self, runs: Iterable[Run]) -> "KnownCosts":
        """Return the same costs, corrected by the speed of these running runs."""
        costs = copy.copy(self)
        progress_of_runs = ((run.config_if_readable(), read_progress(run, run.state())) for run in runs)
        costs._running = _by_settings(speed for each in progress_of_runs if (speed := speed_now(*each)) is not None)
        return costs

    def estimate(
        self, config: Config, pretrained_starts: Collection = (), pretrains: bool | None = None
    ) -> Cost | None:
        """Return the cost of a run with these settings; None if no run of its kind is known.

        pretrained_starts: starts (`start_weights_key`) that will exist besides those of known runs. pretrains: whether
        the run pretrains, if that is known.
        """
        slowdown, spread, load = 1.0, 1.0, 1.0
        if nearest := _nearest(speeds := self._finished, config):
            slowdown = self._slowdown(config)
        elif not (nearest := _nearest(speeds := self._running, config)):
            if not (nearest := _nearest(speeds := self._recorded, config)):
                return None
            spread, load = _OTHERS, load_per_core()
        durations = [speed.other_s + config.epochs * speed.epoch_s for speed in nearest]
        seconds, least, most = median(durations), min(durations), max(durations)
        ratio = min(ROUGH, max(most / seconds, seconds / least)) if least > 0 else 1.0
        has_equal_work = all(_work_settings(speed.config) == _work_settings(config) for speed in nearest)
        spread = max(_ALIKE if has_equal_work else _OTHERS, spread, ratio, *(speed.spread for speed in nearest))
        epoch_s = median(speed.epoch_s for speed in nearest)
        if pretrains is None:
            pretrains = self.is_pretrained_first(config, pretrained_starts)
        if pretrains:
            pretrain_epoch_s = _pretrain_seconds(nearest) or _pretrain_seconds(speeds[cost_kind(config)])
            seconds += config.pretrain_epochs * median(pretrain_epoch_s or [epoch_s * pretraining_share(config)])
        spans = (Span.about(slowdown * duration, spread, load) for duration in (seconds, epoch_s * config.epochs))
        return Cost(*spans, config.epochs, nearest)

    def estimate_all(self, configs: Iterable[Config]) -> list[Cost | None]:
        """Return the costs of runs that start one after another; of those with equal start weights, one pretrains."""
        expected, pretrained_starts = [], set()
        for config in configs:
            expected.append(self.estimate(config, pretrained_starts))
            pretrained_starts.add(start_weights_key(config))
        return expected

    def is_pretrained_first(self, config: Config, pretrained_starts: Collection = ()) -> bool:
        """Return whether a run with these settings pretrains, because no known run has made its start weights.

        pretrained_starts: as in `estimate`.
        """
        start = start_weights_key(config)
        known_starts = (pretrained_starts, self._finished, self._running)
        return start is not None and not any(start in starts for starts in known_starts)

    def _slowdown(self, config: Config) -> float:
        """Return how many times longer than usual an epoch takes now; 1 if no run of this kind is running."""
        ratios = []
        for now in self._running.get(cost_kind(config), ()):
            unhindered = [speed for speed in _nearest(self._finished, now.config) if speed.other_s]
            pretrain_epoch_s = median(_pretrain_seconds(unhindered) or [0.0])
            if now.pretrain_epoch_s and pretrain_epoch_s:
                ratios.append(now.pretrain_epoch_s / pretrain_epoch_s)
            elif epoch_s := median([speed.epoch_s for speed in unhindered] or [0.0]):
                ratios.append(now.epoch_s / epoch_s)
        return median(ratios) if ratios else 1.0

    def time_left(self, run: Run, progress: RunProgress, now: float) -> Span | None:
        """Return the time left of a running run: the rest of its phase at its own speed, and the phases that follow.

        now: unix seconds. Returns None without an estimate.
        """
        share, phase_left_s = progress.share or 0.0, progress.left_s(now)
        phase_span = None if phase_left_s is None else Span.about(phase_left_s, _phase_spread(share))
        is_over = share >= 1
        if progress.phase == "train" and (is_over or phase_span):
            return Span.about(ENDING_S) if is_over else phase_span
        config = run.config_if_readable()
        estimate = config and self.estimate(config, pretrains=True if progress.phase in _PRETRAINING else None)
        training = estimate.training if estimate else _training_after_features(config, progress)
        if training and progress.phase in ("features", *_PRETRAINING) and (is_over or phase_span):
            return (Span.about(0.0) if is_over else phase_span).plus(training).plus(Span.about(ENDING_S))
        if estimate is None:
            return None
        return estimate.span.after(0.0 if progress.started is None else now - progress.started)


def known_costs(root: Path, kinds: set[tuple] | None = None) -> KnownCosts:
    """Collect speeds from `root` and recordings: of these kinds with running runs, or of all kinds without them.

    Callers that keep the answer for all kinds add running runs (`with_running`).
    """
    finished = finished_speeds(list_runs(root), kinds)
    missing = None if kinds is None else kinds - {cost_kind(speed.config) for speed in finished}
    costs = KnownCosts(finished, finished_speeds(recorded_runs(), missing))
    return costs if kinds is None else costs.with_running(running_of_kinds(root, kinds))


def running_of_kinds(root: Path, kinds: Collection[tuple]) -> list[Run]:
    """Return the running runs of these kinds."""
    runs_with_config = [(run, run.config_if_readable()) for run in list_runs(root) if is_held(run.lock)]
    return [run for run, config in runs_with_config if config is not None and cost_kind(config) in kinds]


def cost_kind(config: Config) -> tuple[str, str, str | None, str]:
    """Return the group within which costs are compared: method, data set, and pictures or stored features."""
    return config.method, config.dataset, config.dataset_path, config.features


def start_weights_key(config: Config) -> tuple | None:
    """Return what pretrained start weights depend on, except the image size; None if a run needs none."""
    if config.network_start != "simclr" or not config.pretrain_epochs:
        return None
    flat = config.flat() | {"pretrain.seed": config.seed if config.pretrain_seed is None else config.pretrain_seed}
    return tuple((key, value) for key, value in flat.items() if key.startswith(_START))


def load_per_core() -> float:
    """Return the load per core of this machine, at least 1."""
    try:
        return max(1.0, os.getloadavg()[0] / devices.available_cores())
    except OSError:
        return 1.0


def _by_settings(speeds: Iterable[RunSpeed]) -> Mapping[object, list[RunSpeed]]:
    """Group the speeds by each of `_keys`, and by the start weights that their runs have made."""
    speeds_by_settings: dict[object, list[RunSpeed]] = {}
    for speed in speeds:
        for key in (*_keys(speed.config), start_weights_key(speed.config)):
            speeds_by_settings.setdefault(key, []).append(speed)
    return speeds_by_settings


def _keys(config: Config) -> tuple:
    """Return group keys from narrow to wide: equal settings, equal work per epoch, same kind."""
    flat = config.flat()
    return (
        tuple((k, v) for k, v in flat.items() if k not in _SETTINGS_IGNORED_IN_MATCH),
        (cost_kind(config), _work_settings(config)),
        cost_kind(config),
    )


def _work_settings(config: Config) -> tuple:
    """Return the settings that decide how much work an epoch is."""
    return tuple(value for key, value in config.flat().items() if key.startswith(_WORK))


def _nearest(speeds: Mapping[object, list[RunSpeed]], config: Config) -> list[RunSpeed]:
    return next((speeds[key] for key in _keys(config) if key in speeds), [])


def _pretrain_seconds(speeds: Iterable[RunSpeed]) -> list[float]:
    return [speed.pretrain_epoch_s for speed in speeds if speed.pretrain_epoch_s is not None]


# ---------------------------------------------------------------------------------------------------- speeds


def speed_now(config: Config | None, progress: RunProgress) -> RunSpeed | None:
    """Return the speed of a running run in its present phase; the other phase follows from a rule of thumb."""
    seconds_left, share = progress.left_s(progress.written or 0.0), progress.share
    if config is None or seconds_left is None or share is None or share >= 1:
        return None
    whole_s = seconds_left / (1 - share)
    if progress.phase == "train":
        return RunSpeed(config, whole_s / config.epochs, spread=_phase_spread(share))
    if progress.phase == "pretrain" and config.pretrain_epochs:
        epoch_s = whole_s / config.pretrain_epochs
        return RunSpeed(config, epoch_s / pretraining_share(config), epoch_s, spread=ROUGH)
    return None


def job_time_left(seconds: float, share: float) -> Span:
    """Return the time left of a background job, by its own speed in this phase, of which `share` is done.

    Other programs have priority over jobs, and a job at the end still has to write its result.
    """
    return Span.about(seconds, _phase_spread(share), load_per_core()).plus(Span(0.0, 0.0, ENDING_S))


def _phase_spread(share: float) -> float:
    return _EARLY_SPREAD if share < _EARLY else _SPREAD


def finished_speeds(runs: Iterable[Run], kinds: Collection[tuple] | None = None) -> list[RunSpeed]:
    """Return the speeds of the finished runs and recordings of these kinds, or of any kind."""
    speeds = []
    for run in runs:
        seconds = run_seconds(run)
        config = run.config_if_readable() if seconds is not None else None
        if config is not None and (kinds is None or cost_kind(config) in kinds):
            speeds.append(_speed_of(run, config, seconds))
    return speeds


def run_seconds(run: Run) -> float | None:
    """Return the seconds from process start to end of a run that finished in its first attempt; None for others.

    A recording has no process: count from its first event to its last, plus the usual start-up.
    """
    if run.is_recorded:
        head, last = read_head(run.events), read_last_event(run.events)
        return START_S + max(0.0, last["time"] - head[0]["time"]) if head and last["kind"] == "finish" else None
    exit_record, process = run.read_json("exit.json"), run.read_json("process.json")
    start, end = stored_number(process.get("started")), stored_number(exit_record.get("time"))
    if exit_record.get("state") != "finished" or exit_record.get("attempt") != 1 or start is None or end is None:
        return None
    return max(0.0, end - start)


def _speed_of(run: Run, config: Config, seconds: float) -> RunSpeed:
    """Return the speed of a run that took so many seconds; all count as epochs if its events hold no times.

    The first `train` event ends the first epoch. The time from there to the end, divided by the other epochs, is the
    time of an epoch; for a single epoch it is the time since the event before. The time to store features does not
    count, because the next run reuses them.
    """
    head, last = read_head(run.events), read_last_event(run.events)
    unknown = RunSpeed(config, seconds / config.epochs, 0.0, 0.0, run=run)
    if not last or len(head) < 2 or head[-1]["kind"] != "train":
        return unknown
    first, previous = head[-1], head[-2]
    epochs_after_first = last["epoch"] - first["epoch"]
    if epochs_after_first > 0:
        epoch_s = (last["time"] - first["time"]) / epochs_after_first
    else:
        epoch_s = first["time"] - previous["time"]
    pretrain_events = [
        i for i, e in enumerate(head) if e["kind"] == "pretrain" and "pretrain/reused" not in e["values"]
    ]
    pretrain_s = (
        head[pretrain_events[-1]]["time"] - head[max(0, pretrain_events[0] - 1)]["time"] if pretrain_events else 0.0
    )
    other_s = seconds - config.epochs * epoch_s - pretrain_s
    if min(epoch_s, pretrain_s, other_s) < 0:
        return unknown
    other_s = min(other_s, START_S + ENDING_S) if config.features == "stored" else other_s
    return RunSpeed(config, epoch_s, pretrain_s / config.pretrain_epochs if pretrain_s else None, other_s, run=run)


# ---------------------------------------------------------------------------------------------------- rule of thumb


def rule_of_thumb(config: Config, images: int, height: int, width: int, cores: int) -> float | None:
    """Return the seconds of a run on so many images of this size; None for an unknown network."""
    if config.features == "stored":
        store_s = _store_seconds(config, images, cores)
        return None if store_s is None else START_S + store_s + config.epochs * images * _HEAD_S
    if config.network_name not in _MICROSECONDS:
        return None
    pretraining, training = _MICROSECONDS[config.network_name]
    pretrain_epochs = config.pretrain_epochs if config.network_start == "simclr" else 0
    microseconds = pretrain_epochs * pretraining + config.epochs * training
    return START_S + images * height * width * microseconds * 1e-6 / max(1, cores)


def _training_after_features(config: Config | None, progress: RunProgress) -> Span | None:
    """Return the time to train on the features that are being computed, by the rule of thumb; None if unknown."""
    if config is None or config.features != "stored" or progress.phase != "features" or not progress.steps:
        return None
    images = progress.steps / (1 + config.features_weak_views + config.features_strong_views)
    return Span.about(config.epochs * images * _HEAD_S, 1.0, ROUGH * load_per_core())


def pretraining_share(config: Config) -> float:
    """Return the ratio of a pretraining epoch to a training epoch in seconds; 1 for an unknown network."""
    pretraining, training = _MICROSECONDS.get(config.network_name, (1.0, 1.0))
    return pretraining / training


def _store_seconds(config: Config, images: int, cores: int) -> float | None:
    """Return the seconds to store all features, 0 if stored: from stores made here, else by rule of thumb."""
    flat, views = config.flat(), 1 + config.features_weak_views + config.features_strong_views
    stores = [store for store in feature_store.list_stores() if isinstance(store.facts.get("settings"), dict)]
    same_network = [store for store in stores if _agree(store, flat, "network.")]
    matching_stores = [store for store in same_network if _agree(store, flat, "") and store.store.count == images]
    missing = images * views - max(
        (min(images * views, sum(store.rows.values())) for store in matching_stores), default=0
    )
    speeds = [store.picture_s for store in same_network if store.picture_s is not None]
    if missing == 0 or speeds:
        return missing * min(speeds, default=0.0)
    microseconds = _STORED_MICROSECONDS.get(config.network_name)
    if microseconds is None:
        return None
    return missing * microseconds * 1e-6 * (config.network_image_size or 224) ** 2 / max(1, cores)


def _agree(store: feature_store.StoredEntry, flat: dict[str, object], prefix: str) -> bool:
    """Return whether a store was made with these settings, comparing those whose names contain `prefix`."""
    made_with = store.facts["settings"]
    compared = [key for key in flat if key.startswith(_FEATURE_STORE_SETTINGS) and prefix in key]
    return all(made_with.get(key) == flat[key] for key in compared)


# ---------------------------------------------------------------------------------------------------- several runs


def parallel_duration(spans: Iterable[Span], slots: int) -> Span:
    """Return the duration of runs on so many slots; each starts in turn on the first free slot, as in the queue."""
    slot_ends = [[0.0] * max(1, slots) for _ in Span._fields]
    for span in spans:
        for ends, seconds in zip(slot_ends, span):
            heapq.heapreplace(ends, ends[0] + seconds)
    return Span(*map(max, slot_ends))


def source_in_words(span: Span) -> str:
    """Return what the estimate of planned runs is from, why a range is wide, and what changes it."""
    source = "estimated from finished and recorded runs"
    if not is_wide(span):
        return source
    growth = ", and grows with their load" if _is_busy() else ""
    narrower = "it gets narrower once one of the new runs has finished"
    return f"{source}; the range is wide because {wide_cause()}{growth}; {narrower}"


def wide_reason(span: Span) -> str:
    """Return " (wide range: ...)" with the reason; "" if the span is written as one number."""
    return f" (wide range: {wide_cause()})" if is_wide(span) else ""


def wide_cause() -> str:
    """Return why ranges are wide now."""
    return "other programs or runs use the processor" if _is_busy() else "no similar run has finished here"


def _is_busy() -> bool:
    return load_per_core() > _BUSY


def is_wide(span: Span) -> bool:
    """Return whether the range is too wide to be written as one number."""
    return span.most >= _WIDE * max(span.least, _SHORT_S)


def is_unknown(span: Span) -> bool:
    """Return whether the range is too wide to be an estimate, as without a similar run on a busy machine."""
    return span.most > _UNKNOWN * max(span.least, _SHORT_S)


def duration_in_words(span: Span) -> str:
    """Return "about 4 min"; for a range that is too wide, that there is no estimate, and why."""
    if is_unknown(span):
        return f"{NO_ESTIMATE}: {wide_cause()}"
    return f"about {span_in_words(span)}"


def span_in_words(span: Span) -> str:
    """ "4 min", or "4 to 20 min" where the range is wide."""
    return estimated_range(span.least, span.most) if is_wide(span) else estimated(span.likely)
