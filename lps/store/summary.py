"""Summary of a run so far: last and best values, epochs done. Standard library only."""

import itertools
import threading
from functools import lru_cache
from pathlib import Path

from lps.store.event_follower import Change, EventFollower
from lps.store.events import MeasurementNames, can_void
from lps.store.runs import Run

CRITERIA = ("accuracy/validation", "accuracy/all")  # the second looks at unlabeled truth: an oracle


def criterion(values: dict) -> str:
    """Return the measurement that decides the best epoch: on withheld labels if there are some, else the oracle's."""
    return next((name for name in CRITERIA if isinstance(values.get(name), (int, float))), CRITERIA[-1])


def summarize(run: Run) -> dict:
    """Return {"last": {name: value}, "best": {name: value, "epoch": n}, "best_by": name, "epochs": n} of `run`'s
    events.

    last: the newest value of every name. best: the evaluation with the highest `best_by`, see `criterion`. A repeated
    call only reads new records; a very long file is read from `events.first_shown_byte`.
    """
    return _summary(str(run.events)).read()


@lru_cache(maxsize=256)
def _summary(path: str) -> "Summary":
    return Summary(Path(path))


class Summary:
    """Follow one `events.jsonl` with a memory of one epoch's values. Safe to share between threads."""

    def __init__(self, path: Path):
        self._follower = EventFollower(path)
        self._lock = threading.Lock()
        self._forget()

    def read(self) -> dict:
        """Return the summary of the events so far, as `summarize` does."""
        with self._lock:
            change = self._follower.check()
            if change is Change.REPLACED or change is Change.GREW and not self._add_new():
                self._forget()
                for event in self._follower.history():
                    self._add(event)
            return self._as_dict()

    def _forget(self) -> None:
        self._last: dict[str, object] = {}
        self._best: dict[str, dict] = {}  # criterion -> evaluation
        self._by, self._epochs = "", 0
        self._names = MeasurementNames()
        self._newest, self._pretrained = 0, 0  # epoch up to which there are records

    def _add_new(self) -> bool:
        """Add new records; return False if they void earlier records, which are already counted."""
        for event in itertools.chain.from_iterable(self._follower.new_records()):
            voided_from = self._newest if event["kind"] == "start" else self._pretrained + 1
            if can_void(event) and event["epoch"] < voided_from:
                return False
            self._add(event)
        return True

    def _add(self, event: dict) -> None:
        kind, epoch, values = event["kind"], event["epoch"], event["values"]
        self._last |= self._names.drop_excess(event)["values"]
        if kind == "pretrain":
            self._pretrained = max(self._pretrained, epoch)
        elif kind != "start":
            self._newest = max(self._newest, epoch)
        if kind != "eval":
            return
        self._by, self._epochs = criterion(values), max(self._epochs, epoch)
        for name in CRITERIA:
            best = self._best.get(name)
            if isinstance(values.get(name), (int, float)) and (not best or values[name] > best["values"][name]):
                self._best[name] = event

    def _as_dict(self) -> dict:
        best = self._best.get(self._by)
        return {
            "last": dict(self._last),
            "best": best["values"] | {"epoch": best["epoch"]} if best else {},
            "best_by": self._by if best else "",
            "epochs": self._epochs,
        }
