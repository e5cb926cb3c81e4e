"""What a run will cost in time and disk, judged by finished runs that asked for the same. Standard library only."""

import heapq
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median

from lps.config import Config
from lps.events import read_events, read_last_event
from lps.runs import Run, list_runs, recorded_runs

FREE = ("seed", "split.seed", "pretrain.seed", "split.seen_classes")  # settings that do not change the cost
REUSED = "pretrain/reused"  # of a `pretrain` event: no time was spent on it
START_S = 7.0  # seconds from a process to its first event; ten runs on two shared cores took 6.9 to 41.9
CHUNK, LONGEST_HEAD = 1 << 14, 1 << 22  # bytes of events that are read at a time, and at most


@dataclass(frozen=True)
class Cost:
    """What a finished run has taken: seconds from its first process to its end, bytes of its folder.

    pretrain_s: the seconds in which it pretrained, 0 where it reused start weights. epoch_s, epoch_bytes: the share of
    one training epoch; None where the run does not tell, and all of it counts as that of its epochs.
    """

    config: Config
    seconds: float
    bytes: int
    pretrain_s: float = 0.0
    epoch_s: float | None = None
    epoch_bytes: float | None = None

    def scaled(self, config: Config) -> tuple[float, float]:
        """Seconds and bytes with the epochs of `config`: start-up and checkpoints stay as they are."""
        own, more = self.config, config.epochs - self.config.epochs
        longer = config.pretrain_epochs / own.pretrain_epochs - 1 if own.pretrain_epochs else 0.0
        epoch_s = self.seconds / own.epochs if self.epoch_s is None else self.epoch_s
        epoch_bytes = self.bytes / own.epochs if self.epoch_bytes is None else self.epoch_bytes
        seconds = self.seconds + more * epoch_s + longer * self.pretrain_s
        return max(0.0, seconds), max(0.0, self.bytes + more * epoch_bytes)


class Known:
    """What runs will take, by the nearest of those that are known: own ones first, then recordings."""

    def __init__(self, own: Iterable[Cost], recorded: Iterable[Cost] = ()):
        self._own, self._recorded = _Nearest(own), _Nearest(recorded)

    def of(self, config: Config) -> Cost | None:
        """The median of the nearest ones, as if they had the epochs of `config`; None where no run of the kind is."""
        chosen = self._own.to(config) or self._recorded.to(config)
        if not chosen:
            return None
        scaled = [cost.scaled(config) for cost in chosen]
        return Cost(config, median(seconds for seconds, _ in scaled), round(median(size for _, size in scaled)))


class _Nearest:
    """Costs by how much their runs have in common with another."""

    def __init__(self, costs: Iterable[Cost]):
        self._found: dict[object, list[Cost]] = {}
        for cost in costs:
            for key in self._keys(cost.config):
                self._found.setdefault(key, []).append(cost)

    def to(self, config: Config) -> list[Cost]:
        """Of runs with these settings, else of their kind with as many epochs, else of their kind."""
        return next((self._found[key] for key in self._keys(config) if key in self._found), [])

    @staticmethod
    def _keys(config: Config) -> tuple:
        return tuple(_costly(config).items()), (kind(config), config.epochs), kind(config)


def usual_seconds(root: Path, config: Config) -> float | None:
    """The median duration of finished runs of this kind, as if they had its epochs; by recordings without any."""
    kinds = {kind(config)}
    recorded = [cost for _, cost in recorded_costs(kinds)]
    cost = Known(finished_costs(root, kinds, with_bytes=False), recorded).of(config)
    return None if cost is None else cost.seconds


def finished_costs(root: Path, kinds: set[tuple] | None = None, with_bytes: bool = True) -> list[Cost]:
    """The costs of all finished runs, of those whose `kind` is one of `kinds` where some are given."""
    found = []
    for run in list_runs(root):
        seconds = run_seconds(run)
        config = run.config_if_readable() if seconds is not None else None
        if config is None or (kinds is not None and kind(config) not in kinds):
            continue
        size = folder_bytes(run.folder) if with_bytes else 0
        of_epoch = folder_bytes(run.snapshots) / config.epochs if with_bytes and run.snapshots.is_dir() else None
        found.append(Cost(config, seconds, size, *_split(run, config, seconds), of_epoch))
    return found


def recorded_costs(kinds: set[tuple] | None = None) -> list[tuple[Run, Cost]]:
    """The recordings that come with the program with their seconds; what they take of the disk is `forecasts`' matter.

    A recording begins with its first event, so the start of its process is added.
    """
    found = []
    for run in recorded_runs():
        config = run.config_if_readable()
        if config is None or (kinds is not None and kind(config) not in kinds):
            continue
        head, last = events_head(run), read_last_event(run.events)
        if head and last and last["kind"] == "finish":
            seconds = START_S + max(0.0, last["time"] - head[0]["time"])
            found.append((run, Cost(config, seconds, 0, *_split(run, config, seconds))))
    return found


def kind(config: Config) -> tuple[str, str, str | None]:
    """Runs of one kind are worth comparing in cost: method and data set."""
    return config.method, config.dataset, config.dataset_path


def side_by_side(seconds: Iterable[float], slots: int) -> float:
    """How long runs take on so many slots, each begun in its turn on the slot that is free first, as the queue does."""
    free = [0.0] * max(1, slots)
    for one in seconds:
        heapq.heapreplace(free, free[0] + one)
    return max(free)


def _split(run: Run, config: Config, seconds: float) -> tuple[float, float | None]:
    """Of a finished run's seconds: those of its pretraining, and those of one epoch; (0, None) where it does not tell.

    An epoch is what lies between the first `train` event, which ends the first epoch, and the end, shared among the
    others; where there is but one, what lies before that event since the one before.
    """
    head, last = events_head(run), read_last_event(run.events)
    if not last or len(head) < 2 or head[-1]["kind"] != "train":
        return 0.0, None
    first, before = head[-1], head[-2]
    others = last["epoch"] - first["epoch"]
    epoch_s = (last["time"] - first["time"]) / others if others > 0 else first["time"] - before["time"]
    done = [i for i, event in enumerate(head) if event["kind"] == "pretrain" and REUSED not in event["values"]]
    pretrain_s = head[done[-1]]["time"] - head[max(0, done[0] - 1)]["time"] if done else 0.0
    fits = epoch_s >= 0 and pretrain_s >= 0 and config.epochs * epoch_s + pretrain_s <= seconds
    return (pretrain_s, epoch_s) if fits else (0.0, None)


def events_head(run: Run) -> list[dict]:
    """The events of a run up to its first `train` event."""
    try:
        about = os.stat(run.events)
    except OSError:
        return []
    return _head(run.events, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=4096)
def _head(path: Path, size: int, _changed: int) -> list[dict]:
    found, offset = [], 0
    while offset < min(size, LONGEST_HEAD):
        events, end = read_events(path, offset, CHUNK)
        for event in events:
            found.append(event)
            if event["kind"] == "train":
                return found
        if end <= offset:
            break
        offset = end
    return found


def in_words(seconds: float) -> str:
    """ "50 s", "4 min", "2.5 h": as exact as an estimate deserves."""
    if seconds < 100:
        return f"{max(5, 5 * round(seconds / 5))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def size_in_words(count: float) -> str:
    """Bytes as "3 MB" or "1.2 GB", in powers of ten."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(1, round(count / 1e6))} MB"


def _costly(config: Config) -> dict[str, object]:
    return {key: value for key, value in config.flat().items() if key not in FREE}


def run_seconds(run: Run) -> float | None:
    """From the first process to the end of a run that was done in one go."""
    ended, process = run.read_json("exit.json"), run.read_json("process.json")
    times = (process.get("started"), ended.get("time"))
    if ended.get("state") != "finished" or ended.get("attempt") != 1:
        return None
    if not all(isinstance(t, (int, float)) and abs(t) < 2**53 for t in times):  # NaN is not smaller either
        return None
    return max(0.0, times[1] - times[0])


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
