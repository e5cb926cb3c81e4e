"""The newest epochs of a run, read from the end of its events: for lists of many runs. Standard library only."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from lps.files.atomic import open_regular
from lps.store.events import LaterEvents, MeasurementNames, lines_backwards, parse_event, with_current_names

EPOCHS = 10  # evaluations that are enough for the list and the alarms
_TRAINING = re.compile(rb'\s*\{\s*"kind"\s*:\s*"train"')


@dataclass(frozen=True)
class RecentEvents:
    """The content of the newest records. Values are those of the events (docs/formats.md)."""

    seen: int = 0  # classes; 0 while it is not known
    epoch: int = 0  # of the newest evaluation
    newest_values: dict = field(default_factory=dict)  # name -> newest value
    training: dict = field(default_factory=dict)  # the newest training record
    evaluations: tuple[tuple[int, dict], ...] = ()  # (epoch, values), at most `EPOCHS`, oldest first
    time: float | None = None  # unix seconds of the newest record

    def number(self, name: str) -> float | None:
        """Return the newest value of a measurement, None if there is none or it is not a number."""
        value = self.newest_values.get(name)
        return float(value) if type(value) in (int, float) else None


def read_recent(path: Path, epochs: int = EPOCHS) -> RecentEvents:
    """Read the newest records of `events.jsonl`, and no more of a long file than needed; empty if it cannot be read.

    Reads from the last line backwards and skips all training records except the newest, so `newest_values` has no names
    that only older records have.
    """
    try:
        with open_regular(path, buffering=0) as file:
            names = MeasurementNames()
            events = [
                names.drop_excess(with_current_names(path, event))
                for event in _newest_events(lines_backwards(file), epochs)
            ][::-1]
            first = _read_num_seen(file)
    except OSError:
        return RecentEvents()
    last: dict = {}
    for event in events:
        last |= event["values"]
    seen = last.get("classes/seen", first)
    evaluations = [(event["epoch"], event["values"]) for event in events if event["kind"] == "eval"]
    return RecentEvents(
        seen=seen if type(seen) is int else 0,
        epoch=max((epoch for epoch, _ in evaluations), default=0),
        newest_values=last,
        training=next((event["values"] for event in reversed(events) if event["kind"] == "train"), {}),
        evaluations=tuple(evaluations),
        time=events[-1]["time"] if events else None,
    )


def _newest_events(lines: Iterable[bytes], epochs: int) -> Iterator[dict]:
    """Yield the valid events, newest first, up to this many evaluations; of the training records only the newest."""
    later, is_trained, evaluations = LaterEvents(), False, 0
    for line in lines:
        if is_trained and _TRAINING.match(line):
            continue
        event = parse_event(line)
        if event is None or not later.is_valid(event):
            continue
        yield event
        is_trained = is_trained or event["kind"] == "train"
        evaluations += event["kind"] == "eval"
        if evaluations == epochs:
            return


def _read_num_seen(file: FileIO) -> int:
    """Return the number of seen classes from the first records of a file; 0 if unknown."""
    file.seek(0)
    line = next((line for line in file.read(1 << 14).split(b"\n") if b"classes/seen" in line), b"")
    digits = line.partition(b'"classes/seen":')[2].lstrip()[:9].split(b",")[0].split(b"}")[0].strip()
    return int(digits) if digits.isdigit() else 0
