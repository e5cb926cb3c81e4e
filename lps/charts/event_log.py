"""The records of a run as data frames: one shared reader per run, which reads only new bytes.

All open tabs share one `EventLog`, so n viewers cost one reader.
"""

import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from lps.store.event_follower import Change, EventFollower
from lps.store.events import MeasurementNames, drop_repeated
from lps.store.runs import Run

_EPOCHS = ("pretrain", "train", "eval")  # kinds with one record per epoch
MAX_EVENTS = 8192  # records of a run in memory; of more, older epochs are thinned out evenly
MAX_MEMORY = 64 << 20  # estimated bytes of the records of a run in memory; of larger records, fewer are kept
MAX_ENDS = 1024  # records of a run that begin or end an attempt


@dataclass(frozen=True)
class History:
    """The records of a run as tables. Treat the frames as read-only: they are shared by all viewers."""

    version: int = 0  # grows with every change
    start: dict = field(default_factory=dict)  # values of the start events: baseline/*, classes/*, images/*
    pretrain: pd.DataFrame = field(default_factory=pd.DataFrame)  # index epoch, one column a name
    epochs: pd.DataFrame = field(default_factory=pd.DataFrame)  # train and eval together, index epoch
    vectors: dict[str, pd.DataFrame] = field(default_factory=dict)  # name -> index epoch, one column a class id
    times: pd.DataFrame = field(default_factory=pd.DataFrame)  # index epoch; step, and hours since the first record
    last_time: float | None = None  # unix seconds of the newest record
    left_out: int = 0  # bytes of the file that were not read: it is too long for a page

    @property
    def seen(self) -> int:
        """Number of seen classes, 0 while unknown."""
        return int(self.start.get("classes/seen") or 0)

    @property
    def last_epoch(self) -> int:
        """Newest epoch with records, 0 before the first."""
        return int(self.epochs.index[-1]) if len(self.epochs) else 0

    @property
    def is_blind(self) -> bool:
        """Whether epochs were evaluated, but none on images of known class."""
        return len(self.column("time/eval_s")) > 0 and not len(self.column("accuracy/all"))

    def column(self, name: str) -> pd.Series:
        """Return a measurement by epoch, without the epochs that lack it; empty if it was never recorded."""
        return self.epochs[name].dropna() if name in self.epochs else pd.Series(dtype=float)

    def last(self, name: str) -> float | None:
        """Return the newest value of a measurement, None if it was never recorded."""
        values = self.column(name)
        return float(values.iloc[-1]) if len(values) else None

    def vector(self, name: str, epoch: int) -> np.ndarray | None:
        """Return a per-class measurement at one epoch, None if it was not recorded."""
        table = self.vectors.get(name)
        return table.loc[epoch].to_numpy() if table is not None and epoch in table.index else None


def planned_epochs(run: Run, history: History, pretraining: bool = False) -> int:
    """Return the planned number of epochs; the recorded number if the settings cannot be read."""
    planned = getattr(run.config_if_readable(), "pretrain_epochs" if pretraining else "epochs", 0)
    recorded = history.pretrain if pretraining else history.epochs
    return max(planned, int(recorded.index[-1]) if len(recorded) else 1)


class EventLog:
    """Follows one `events.jsonl`. Safe to share between threads.

    The file is read in parts, about `MAX_EVENTS` records stay in memory, and a call costs only the new bytes. A file
    that is too long for a page is read from `events.first_shown_byte` on; `History.left_out` counts the skipped bytes.
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
        compact_events = [_compact(self._names.drop_excess(event)) for event in events]
        self._max_cost = max(self._max_cost, sum(map(_cost, compact_events)) / len(compact_events))
        max_events = min(MAX_EVENTS, int(MAX_MEMORY / self._max_cost))
        self._events = thin_out(drop_repeated(self._events + compact_events), max_events)

    def _forget(self) -> None:
        self._events, self._names, self._max_cost = [], MeasurementNames(), 1.0


def thin_out(events: list[dict], max_events: int = MAX_EVENTS) -> list[dict]:
    """Keep about `max_events` records: of long runs every second, fourth, ... epoch, and all of the newest.

    A curve of half a million points crashes a browser and shows no more than one of a few thousand.
    """
    if len(events) <= max_events:
        return events
    newest = {(event["kind"], event["epoch"]): event for event in events if event["kind"] in _EPOCHS}
    attempt_events = [event for event in events if event["kind"] not in _EPOCHS]
    retained = (*newest.values(), *attempt_events[: MAX_ENDS // 2], *attempt_events[-MAX_ENDS // 2 :])
    retained_ids = set(map(id, retained))
    events = [event for event in events if id(event) in retained_ids]
    last = max(event["epoch"] for event in events)
    events_per_epoch = max(1, round(len(events) / max(1, len({event["epoch"] for event in events}))))
    dense_from = last - max_events // (8 * events_per_epoch)
    stride = 1
    while last / stride > max_events / (4 * events_per_epoch):
        stride *= 2
    return [e for e in events if e["kind"] not in _EPOCHS or e["epoch"] % stride == 0 or e["epoch"] > dense_from]


def _compact(event: dict) -> dict:
    """Return the event with its per-class lists as float32 arrays; null is NaN, a list without numbers is left out."""
    values = {}
    for name, value in event["values"].items():
        if not isinstance(value, list):
            values[name] = value
        elif any(number is not None for number in value):
            values[name] = np.array([np.nan if number is None else number for number in value], np.float32)
    return event | {"values": values}


def _cost(event: dict) -> int:
    """Estimate the bytes of a compact event: 100 per name and number, four per entry of a list."""
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
        times=_times(events),
        last_time=events[-1]["time"] if events else None,
        left_out=left_out,
    )


def _times(events: list[dict]) -> pd.DataFrame:
    """Return step and hours since the first record, pauses included, at the newest record of every training epoch."""
    rows = {
        int(event["epoch"]): {"step": event["step"], "time": (event["time"] - events[0]["time"]) / 3600}
        for event in events
        if event["kind"] in ("train", "eval")
    }
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["step", "time"], dtype=float).sort_index()
    table.index.name = "epoch"
    return table


def _scalars(events: list[dict], kinds: tuple[str, ...]) -> pd.DataFrame:
    """Return one row per epoch with the scalars of all its events of these kinds; null is NaN."""
    rows = {}
    for event in events:
        if event["kind"] in kinds:
            row = rows.setdefault(int(event["epoch"]), {})
            row |= {name: value for name, value in event["values"].items() if not isinstance(value, np.ndarray)}
    table = pd.DataFrame.from_dict(rows, orient="index", dtype=float).sort_index()
    table.index.name = "epoch"
    return table


def _vectors(events: list[dict]) -> dict[str, pd.DataFrame]:
    """Return the per-class measurements by name; records of another length than the newest are left out."""
    rows = {}
    for event in events:
        for name, value in event["values"].items():
            if isinstance(value, np.ndarray):
                rows.setdefault(name, {})[int(event["epoch"])] = value
    tables = {}
    for name, value_by_epoch in rows.items():
        length = len(value_by_epoch[max(value_by_epoch)])
        same_length = {epoch: value for epoch, value in sorted(value_by_epoch.items()) if len(value) == length}
        tables[name] = pd.DataFrame(np.stack(list(same_length.values())), index=list(same_length))
        tables[name].index.name = "epoch"
    return tables
