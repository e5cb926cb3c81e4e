"""Events: one JSON line each, appended while a run trains and read by byte offset. Standard library only."""

import errno
import json
import math
import os
import stat
import sys
import time
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

from lps import disk, schema
from lps.files import open_regular

LARGEST = 2**1000  # of a whole number that counts as one
MAX = sys.float_info.max
LONGEST_START = 1 << 16  # bytes of a first line
NESTED = (list, dict)
UNTOLD = (str, dict, bool)  # what no measurement can be
EVENT_KINDS = ("start", "pretrain", "train", "eval", "finish", "stop", "fail")


class EventWriter:
    """Appends to `events.jsonl`. Opening it cuts off a torn last line, the only thing that is ever erased."""

    def __init__(self, path: Path):
        """Raises `ConfigError` for a file that a newer program began."""
        check_version(path)
        self._path = path
        self._file = disk.open_end(path)
        self._end = end_of_events(path)
        disk.cut(self._file, self._end)
        disk.sync_folder(path.parent)

    def append(self, kind: str, *, step: int, epoch: int, values: dict, **more) -> None:
        """One event, handed to the kernel before the call returns; non-finite numbers become null.

        Raises `OSError` (a full disk, say, or a file that somebody deleted) and leaves no part of the line behind.
        """
        if not os.fstat(self._file).st_nlink:  # it would take every line without a word
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._path))
        event = {"kind": kind, "step": step, "epoch": epoch, "time": round(time.time(), 3), "values": values}
        event |= {"version": schema.VERSIONS["events.jsonl"]} if kind == "start" else {}
        line = json.dumps(finite(event | more), allow_nan=False, separators=(",", ":")).encode() + b"\n"
        try:
            disk.write(self._file, line)
        except OSError:
            disk.cut(self._file, self._end)
            raise
        self._end += len(line)

    def sync(self) -> None:
        """Wait until the disk has everything."""
        disk.sync(self._file)

    def close(self) -> None:
        os.close(self._file)


def check_version(path: Path) -> int:
    """The version of the file, which its first line tells; raises `ConfigError` for one of a newer program.

    0 where it tells none, also for a file that is missing or begins with a damaged line.
    """
    try:
        about = os.lstat(path)
        if not stat.S_ISREG(about.st_mode) or not about.st_size:
            return 0
        moment = (about.st_size, about.st_mtime_ns) if about.st_size < LONGEST_START else None
        version = _version(str(path), about.st_ino, moment)
    except OSError:
        return 0
    return schema.check("events.jsonl", version)


@lru_cache(maxsize=16_384)
def _version(path: str, inode: int, moment: tuple[int, int] | None) -> object:
    """What the first line says, which never changes once it is whole; raises `OSError`."""
    with open_regular(path) as file:
        line = file.readline(LONGEST_START)
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event.get("version") if isinstance(event, dict) else None


def read_events(path: Path, offset: int = 0, most: int = -1) -> tuple[list[dict], int]:
    """The whole lines after byte `offset`, and the offset to go on from. Damaged lines are left out.

    most: bytes to read, where a long file shall be read in parts; the offset of the last part comes back unchanged.
    A file that has become shorter than `offset` is another file: it is read from its beginning, and the returned
    offset, smaller than the one passed in, tells the caller to forget what was read before.
    """
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size < offset:
                offset = 0
            file.seek(offset)
            data = file.read(most)
            if len(data) == most and b"\n" not in data:  # a line that is longer than that
                data += file.readline()
    except OSError:
        return [], 0
    end = data.rfind(b"\n") + 1
    return [event for line in data[:end].split(b"\n") if (event := event_of(line)) is not None], offset + end


def read_last_event(path: Path, since: int = 0, window: int = 1 << 18) -> dict | None:
    """The last event after byte `since`, None where there is none; reads at most the last `window` bytes."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            start = max(since, size - window, 0)
            file.seek(start)
            data = file.read()
    except OSError:
        return None
    whole = data[: data.rfind(b"\n") + 1]
    lines = (whole if start == since else whole.partition(b"\n")[2]).split(b"\n")
    return next((event for line in reversed(lines) if (event := event_of(line)) is not None), None)


def rewind(events: list[dict]) -> list[dict]:
    """The history without what a later attempt did over.

    A `start` at epoch e drops records of later epochs before it; a pretraining epoch that is done again drops its
    earlier record and those after it.
    """
    history = []
    for event in events:
        epoch = event["epoch"]
        if event["kind"] == "start":
            history = [e for e in history if e["kind"] in ("start", "pretrain") or e["epoch"] <= epoch]
        elif event["kind"] == "pretrain" and "pretrain/reused" not in event["values"]:
            history = [e for e in history if e["kind"] != "pretrain" or e["epoch"] < epoch]
        history.append(event)
    return history


def read_history(path: Path, end: int | None = None) -> Iterator[dict]:
    """The events that `rewind` leaves of the whole lines of a file, up to byte `end`; one is in memory at a time.

    What makes earlier records void is looked for first, so the file is gone through twice and its lines read once.
    """
    try:
        with open_regular(path, buffering=1 << 18) as file:
            end = _end_of_last_line(file) if end is None else end
            turns = _turns(_lines(file, end))
            for number, line in enumerate(_lines(file, end)):
                event = event_of(line)
                if event is None:
                    continue
                later = turns[event["kind"] if event["kind"] == "pretrain" else "start"]
                while later and later[-1][0] <= number:
                    later.pop()
                limit = later[-1][1] if later else None
                if limit is None or event["kind"] == "start" or event["epoch"] + (event["kind"] == "pretrain") <= limit:
                    yield event
    except OSError:
        return


def turns_back(event: dict) -> bool:
    """Whether it is of the kind that makes earlier records void, as `rewind` says."""
    return event["kind"] == "start" or event["kind"] == "pretrain" and "pretrain/reused" not in event["values"]


def _turns(lines: Iterator[bytes]) -> dict[str, list[tuple[int, int]]]:
    """Of `start` and `pretrain`: (number of a line that makes earlier ones void, smallest epoch in it and those after).

    The last line comes first.
    """
    found: dict[str, list[tuple[int, int]]] = {"start": [], "pretrain": []}
    for number, line in enumerate(lines):
        if (b'"start"' in line or b'"pretrain"' in line) and (event := event_of(line)) and turns_back(event):
            found[event["kind"]].append((number, event["epoch"]))
    for turns in found.values():
        turns.reverse()
        smallest = accumulate((epoch for _, epoch in turns), min)
        turns[:] = [(number, epoch) for (number, _), epoch in zip(turns, smallest)]
    return found


def _lines(file: BinaryIO, end: int) -> Iterator[bytes]:
    """The lines of a file from its beginning up to byte `end`."""
    position = file.seek(0)
    while position < end and (line := file.readline()):
        position += len(line)
        yield line


def end_of_events(path: Path) -> int:
    """The byte after the last whole line: where the next event begins. 0 for a missing file."""
    try:
        with open_regular(path) as file:
            return _end_of_last_line(file)
    except FileNotFoundError:
        return 0


def is_event(line: bytes) -> bool:
    """Whether a line of `events.jsonl` is an event, and no damaged one."""
    return event_of(line) is not None


def event_of(line: bytes) -> dict | None:
    """The event in a line of `events.jsonl`, None for a damaged one."""
    try:
        event = json.loads(str(line, "utf-8"))  # given bytes, json would ask which encoding they have
        if not isinstance(event, dict) or not isinstance(event.get("values"), dict):
            return None
        # Nearly all of a line are its values, which are gone through once, below: a list of runs reads many lines.
        for name, value in event.items():
            if name != "values" and (type(value) in NESTED or type(value) is float and not math.isfinite(value)):
                event[name] = finite(value)
    except (ValueError, RecursionError):
        return None
    if event.get("kind") not in EVENT_KINDS:
        return None
    event["values"] = {
        name: value if type(value) is float and abs(value) <= MAX else _numbers(value)
        for name, value in event["values"].items()
        if type(value) not in UNTOLD and name.isprintable()
    }
    step, epoch, time_s = event.get("step"), event.get("epoch"), event.get("time")
    counts = type(step) is int and type(epoch) is int and 0 <= step < 2**53 and 0 <= epoch < 2**53
    return event if counts and type(time_s) in (int, float) and abs(time_s) < 2**53 else None


def _numbers(value):
    """Null in place of whatever is no number that a float can hold."""
    if type(value) is not list:
        return None if value is None else _number(value)
    kinds = set(map(type, value))
    if kinds == {float} and math.isfinite(sum(value)):  # a sum is finite only where its parts are
        return value
    if kinds == {int} and min(value) >= -LARGEST and max(value) <= LARGEST:
        return value
    return [_number(item) for item in value]


def _number(value) -> int | float | None:
    return value if type(value) in (int, float) and abs(value) <= (LARGEST if type(value) is int else MAX) else None


def _end_of_last_line(file) -> int:
    position = file.seek(0, os.SEEK_END)
    while position > 0:
        start = max(0, position - 65_536)
        file.seek(start)
        newline = file.read(position - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        position = start
    return 0


def finite(value):
    """The same numbers, lists and dicts with None in place of NaN and infinities (JSON has no word for them)."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
