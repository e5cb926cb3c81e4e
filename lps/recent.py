"""The newest epochs of a run, read from the end of its events: for lists of many runs. Standard library only."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from lps.events import read_events, rewind

EPOCHS = 10  # evaluations that are enough for the list and the alarms
FIRST_WINDOW = 3 << 13  # bytes from the end that are looked at first: ten epochs of ten classes


@dataclass(frozen=True)
class Recent:
    """What the newest records say. Values are those of the events (docs/formats.md)."""

    seen: int = 0  # classes; 0 while it is not known
    epoch: int = 0  # of the newest evaluation
    last: dict = field(default_factory=dict)  # name -> newest value
    training: dict = field(default_factory=dict)  # the newest training record
    evaluations: tuple[tuple[int, dict], ...] = ()  # (epoch, values), at most `EPOCHS`, oldest first
    failure: str = ""  # kind of the failure that is the newest record
    time: float | None = None  # unix seconds of the newest record

    def number(self, name: str) -> float | None:
        """The newest value of a measurement, None where there is none or it is no number."""
        value = self.last.get(name)
        return float(value) if type(value) in (int, float) else None


def read_recent(path: Path, epochs: int = EPOCHS) -> Recent:
    """The newest records in `events.jsonl`; reads no more of a long file than it needs. Empty for a missing file."""
    try:
        size = os.stat(path).st_size
    except OSError:
        return Recent()
    window = FIRST_WINDOW
    while True:
        events = rewind(read_events(path, _line_start(path, size - window))[0])
        evaluations = [(event["epoch"], event["values"]) for event in events if event["kind"] == "eval"]
        if len(evaluations) >= epochs or window >= size:
            break
        window *= 4
    last: dict = {}
    for event in events:
        last |= event["values"]
    seen = last.get("classes/seen", 0) if window >= size else _seen(path)
    return Recent(
        seen=seen if type(seen) is int else 0,
        epoch=max((epoch for epoch, _ in evaluations), default=0),
        last=last,
        training=next((event["values"] for event in reversed(events) if event["kind"] == "train"), {}),
        evaluations=tuple(evaluations[-epochs:]),
        failure=str(events[-1].get("failure", "")) if events and events[-1]["kind"] == "fail" else "",
        time=events[-1]["time"] if events else None,
    )


def _line_start(path: Path, position: int) -> int:
    """The byte at which the first whole line at or after `position` begins."""
    if position <= 0:
        return 0
    with open(path, "rb") as file:
        file.seek(position - 1)
        file.readline()
        return file.tell()


def _seen(path: Path) -> int:
    """The number of seen classes in the first record of a long file."""
    with open(path, "rb") as file:
        head = file.read(1 << 14)
    from_head = [line for line in head.split(b"\n")[:3] if b"classes/seen" in line]
    return _whole_after(from_head[0], b'"classes/seen":') if from_head else 0


def _whole_after(line: bytes, name: bytes) -> int:
    digits = line.partition(name)[2].lstrip()[:9].split(b",")[0].split(b"}")[0].strip()
    return int(digits) if digits.isdigit() else 0
