"""What a run has recorded so far, as data frames: one shared reader a run, which reads only the bytes that are new.

Reading knows nothing of a page; every open tab asks the same `EventLog`, so n viewers cost one reader.
"""

import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from lps.store.event_follower import Change, EventFollower
from lps.store.events import MeasurementNames, drop_repeated
from lps.store.runs import Run

_EPOCHS = ("pretrain", "train", "eval")  # kinds of records of which there is one an epoch
MOST_EVENTS = 8192  # records of a run kept in memory; of more, the older epochs are left out evenly
MOST_MEMORY = 64 << 20  # bytes of the records of a run kept in memory, about; of dearer records fewer are kept
MOST_ENDS = 1024  # records of a run that begin or end an attempt


@dataclass(frozen=True)
class History:
    """The records of a run as tables. Treat the frames as read-only: they are shared by all viewers."""

    version: int = 0  # grows with every change
    start: dict = field(default_factory=dict)  # values of the start events: baseline/*, classes/*, images/*
    pretrain: pd.DataFrame = field(default_factory=pd.DataFrame)  # index epoch, one column a name
    epochs: pd.DataFrame = field(default_factory=pd.DataFrame)  # train and eval together, index epoch
    vectors: dict[str, pd.DataFrame] = field(default_factory=dict)  # name -> index epoch, one column a class id
    moments: pd.DataFrame = field(default_factory=pd.DataFrame)  # index epoch; step, and hours since the first record
    last_time: float | None = None  # unix seconds of the newest record
    left_out: int = 0  # bytes of the file that were not read: it is too long for a page

    @property
    def seen(self) -> int:
        """How many classes are seen; 0 while it is not known."""
        return int(self.start.get("classes/seen") or 0)

    @property
    def last_epoch(self) -> int:
        """The newest epoch with records, 0 before the first."""
        return int(self.epochs.index[-1]) if len(self.epochs) else 0

    @property
    def is_blind(self) -> bool:
        """Whether epochs were evaluated, and none on images of known class."""
        return len(self.column("time/eval_s")) > 0 and not len(self.column("accuracy/all"))

    def column(self, name: str) -> pd.Series:
        """One measurement by epoch, without the epochs that lack it; empty where nobody measures it."""
        return self.epochs[name].dropna() if name in self.epochs else pd.Series(dtype=float)

    def last(self, name: str) -> float | None:
        """The newest value of one measurement."""
        values = self.column(name)
        return float(values.iloc[-1]) if len(values) else None

    def vector(self, name: str, epoch: int) -> np.ndarray | None:
        """A per-class measurement at one epoch, None where it was not recorded."""
        table = self.vectors.get(name)
        return table.loc[epoch].to_numpy() if table is not None and epoch in table.index else None


def planned_epochs(run: Run, past: History, pretraining: bool = False) -> int:
    """How many epochs were asked for; what was recorded where the settings cannot be read."""
    planned = getattr(run.config_if_readable(), "pretrain_epochs" if pretraining else "epochs", 0)
    recorded = past.pretrain if pretraining else past.epochs
    return max(planned, int(recorded.index[-1]) if len(recorded) else 1)


class EventLog:
    """Follows one `events.jsonl`. Safe to share between threads.

    However long the run, it is read in parts, keeps about `MOST_EVENTS` records, and costs what is new. A file that is
    longer than a page can read is begun where `events.first_shown_byte` says; `History.left_out` tells it.
    """

    def __init__(self, path: Path):
        self._follower = EventFollower(path)
        self._lock = threading.Lock()
        self._forget()
        self._history = History()

    def read_history(self) -> History:
        """Return the history up to now; the same object as before if no complete line was added."""
        with self._lock:
            change, is_changed = self._follower.check(), False
            if change is Change.REPLACED:
                is_changed = bool(self._events)
                self._forget()
            if change is not Change.NONE:
                for events in filter(None, self._follower.new_records()):
                    self._add(events)
                    is_changed = True
            if is_changed:
                self._history = _tabulate(self._events, self._history.version + 1, self._follower.left_out)
            return self._history

    def _add(self, events: list[dict]) -> None:
        fresh = [_compact(self._names.drop_excess(event)) for event in events]
        self._dearest = max(self._dearest, sum(map(_cost, fresh)) / len(fresh))
        most = min(MOST_EVENTS, int(MOST_MEMORY / self._dearest))
        self._events = thinned(drop_repeated(self._events + fresh), most)

    def _forget(self) -> None:
        self._events, self._names, self._dearest = [], MeasurementNames(), 1.0


def thinned(events: list[dict], most: int = MOST_EVENTS) -> list[dict]:
    """The same where there are few; else every second, fourth, ... epoch, and all of the newest, about `most` records.

    A curve of half a million points shows no more than one of some thousands, and takes a browser down.
    """
    if len(events) <= most:
        return events
    newest = {(event["kind"], event["epoch"]): event for event in events if event["kind"] in _EPOCHS}
    ends = [event for event in events if event["kind"] not in _EPOCHS]
    kept_ids = {id(event) for event in (*newest.values(), *ends[: MOST_ENDS // 2], *ends[-MOST_ENDS // 2 :])}
    events = [event for event in events if id(event) in kept_ids]
    last = max(event["epoch"] for event in events)
    a_epoch = max(1, round(len(events) / max(1, len({event["epoch"] for event in events}))))
    all_after = last - most // (8 * a_epoch)
    stride = 1
    while last / stride > most / (4 * a_epoch):
        stride *= 2
    return [e for e in events if e["kind"] not in _EPOCHS or e["epoch"] % stride == 0 or e["epoch"] > all_after]


def _compact(event: dict) -> dict:
    """The event with its per-class lists as float32 arrays; null is NaN, and a list without numbers is left out."""
    values = {}
    for name, value in event["values"].items():
        if not isinstance(value, list):
            values[name] = value
        elif any(x is not None for x in value):
            values[name] = np.array([np.nan if x is None else x for x in value], np.float32)
    return event | {"values": values}


def _cost(event: dict) -> int:
    """Bytes that a compact event takes, about: a name with its number, and four for each entry of a list."""
    values = event["values"].values()
    return 500 + 100 * len(values) + sum(value.nbytes for value in values if isinstance(value, np.ndarray))


def _tabulate(events: list[dict], version: int, left_out: int) -> History:
    start = {}
    for event in events:
        if event["kind"] == "start":
            start |= {name: value for name, value in event["values"].items() if not isinstance(value, np.ndarray)}
    return History(
        version=version,
        start=start,
        pretrain=_scalars(events, ("pretrain",)),
        epochs=_scalars(events, ("train", "eval")),
        vectors=_vectors(events),
        moments=_moments(events),
        last_time=events[-1]["time"] if events else None,
        left_out=left_out,
    )


def _moments(events: list[dict]) -> pd.DataFrame:
    """Step and hours since the first record, with the pauses, at the newest record of every epoch of the training."""
    rows = {
        int(event["epoch"]): {"step": event["step"], "time": (event["time"] - events[0]["time"]) / 3600}
        for event in events
        if event["kind"] in ("train", "eval")
    }
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["step", "time"], dtype=float).sort_index()
    table.index.name = "epoch"
    return table


def _scalars(events: list[dict], kinds: tuple[str, ...]) -> pd.DataFrame:
    """One row an epoch, the scalars of all its events of these kinds side by side; null is NaN."""
    rows = {}
    for event in events:
        if event["kind"] in kinds:
            row = rows.setdefault(int(event["epoch"]), {})
            row |= {name: value for name, value in event["values"].items() if not isinstance(value, np.ndarray)}
    table = pd.DataFrame.from_dict(rows, orient="index", dtype=float).sort_index()
    table.index.name = "epoch"
    return table


def _vectors(events: list[dict]) -> dict[str, pd.DataFrame]:
    """Per-class measurements by name, of the length that the newest record has."""
    rows = {}
    for event in events:
        for name, value in event["values"].items():
            if isinstance(value, np.ndarray):
                rows.setdefault(name, {})[int(event["epoch"])] = value
    tables = {}
    for name, by_epoch in rows.items():
        length = len(by_epoch[max(by_epoch)])
        fitting = {epoch: value for epoch, value in sorted(by_epoch.items()) if len(value) == length}
        tables[name] = pd.DataFrame(np.stack(list(fitting.values())), index=list(fitting))
        tables[name].index.name = "epoch"
    return tables
