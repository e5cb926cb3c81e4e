"""What a run has recorded so far, as data frames: one shared reader a run, which reads only the bytes that are new.

Reading knows nothing of a page; every open tab asks the same `EventLog`, so n viewers cost one reader.
"""

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from lps.events import read_events, rewind
from lps.files import open_regular
from lps.runs import Run

MAX_LOGS = 128  # runs kept in memory
EPOCHS = ("pretrain", "train", "eval")  # kinds of records of which there is one an epoch
MOST_EVENTS = 8192  # records of a run kept in memory; of more, the older epochs are left out evenly
PART = 2 << 20  # bytes of a file that are read before records are left out
LOG_TAIL = 24_000  # bytes of log.txt that a page shows


@dataclass(frozen=True)
class History:
    """The records of a run as tables. Treat the frames as read-only: they are shared by all viewers."""

    version: int = 0  # grows with every change
    start: dict = field(default_factory=dict)  # values of the start events: baseline/*, classes/*, images/*
    pretrain: pd.DataFrame = field(default_factory=pd.DataFrame)  # index epoch, one column a name
    epochs: pd.DataFrame = field(default_factory=pd.DataFrame)  # train and eval together, index epoch
    vectors: dict[str, pd.DataFrame] = field(default_factory=dict)  # name -> index epoch, one column a class id
    last_time: float | None = None  # unix seconds of the newest record

    @property
    def seen(self) -> int:
        """How many classes are seen; 0 while it is not known."""
        return int(self.start.get("classes/seen") or 0)

    @property
    def last_epoch(self) -> int:
        """The newest epoch with records, 0 before the first."""
        return int(self.epochs.index[-1]) if len(self.epochs) else 0

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


class EventLog:
    """Follows one `events.jsonl`. Safe to share between threads.

    However long the run, it is read in parts, keeps about `MOST_EVENTS` records, and costs what is new.
    """

    def __init__(self, path: Path):
        self._path = path
        self._lock = threading.Lock()
        self._forget()
        self._version = 0
        self._history = History()

    def read(self) -> History:
        """The history up to now; the same object as last time where no whole line was added."""
        with self._lock:
            if self._grew():
                self._read_parts()
            if self._changed:
                self._changed = False
                self._version += 1
                self._history = _tabulate(self._events, self._version)
            return self._history

    def _read_parts(self) -> None:
        before = -1
        while before != self._offset < self._size:
            before = self._offset
            events, self._offset = read_events(self._path, before, PART)
            if events:
                self._events = thinned(rewind(self._events + [_compact(event) for event in events]))
                self._changed = True

    def _grew(self) -> bool:
        """Whether there are bytes that were not looked at; starts over where the file is another one or has shrunk."""
        try:
            found = os.stat(self._path)
        except OSError:
            found = None
        identity = found and (found.st_dev, found.st_ino)
        if self._identity and (identity != self._identity or found.st_size < self._offset):
            self._forget()
            self._changed = True
        self._identity = identity
        if not found or found.st_size == self._size:
            return False
        self._size = found.st_size
        return True

    def _forget(self) -> None:
        self._events, self._offset, self._size, self._identity, self._changed = [], 0, -1, None, False


@st.cache_resource(max_entries=MAX_LOGS, show_spinner=False)
def _event_log(path: str) -> EventLog:
    return EventLog(Path(path))


def history(run: Run) -> History:
    """Everything that `run` has recorded up to now."""
    return _event_log(str(run.events)).read()


def log_tail(run: Run, size: int = LOG_TAIL) -> str:
    """The last whole lines of the run's console output, at most `size` bytes; "" where there is none."""
    try:
        with open_regular(run.log) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - size))
            data = file.read()
    except OSError:
        return ""
    if end > size:
        data = data[data.find(b"\n") + 1 :]
    text = data.decode("utf-8", "replace").replace("\x00", "\ufffd")
    # of a line that was drawn again and again (a progress bar), the last version, as on a screen
    return "\n".join(line.rstrip("\r").split("\r")[-1] for line in text.split("\n"))


def thinned(events: list[dict], most: int = MOST_EVENTS) -> list[dict]:
    """The same where there are few; else every second, fourth, ... epoch, and all of the newest, about `most` records.

    A curve of half a million points shows no more than one of some thousands, and takes a browser down.
    """
    if len(events) <= most:
        return events
    last = max(event["epoch"] for event in events)
    a_epoch = max(1, round(len(events) / max(1, len({event["epoch"] for event in events}))))
    all_after = last - most // (8 * a_epoch)
    stride = 1
    while last / stride > most / (4 * a_epoch):
        stride *= 2
    return [e for e in events if e["kind"] not in EPOCHS or e["epoch"] % stride == 0 or e["epoch"] > all_after]


def _compact(event: dict) -> dict:
    """The event with its per-class lists as float32 arrays; null is NaN, and a list without numbers is left out."""
    values = {}
    for name, value in event["values"].items():
        if not isinstance(value, list):
            values[name] = value
        elif any(x is not None for x in value):
            values[name] = np.array([np.nan if x is None else x for x in value], np.float32)
    return event | {"values": values}


def _tabulate(events: list[dict], version: int) -> History:
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
        last_time=events[-1]["time"] if events else None,
    )


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
