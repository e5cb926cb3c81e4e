"""Events: one JSON line each, appended while a run trains and read by byte offset. Standard library only."""

import errno
import json
import math
import os
import stat
import time
from collections.abc import Iterator
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from lps.errors import shorten
from lps.files import disk, versions
from lps.files.atomic import open_regular, read_json
from lps.files.versions import LONGEST_NAME, MAX_CLASSES, MAX_EPOCHS, MAX_LINE, MAX_NAMES

_LARGEST = 2**63 - 1  # largest whole number accepted: charts and tables keep 64 bits
_MAX = 1e100  # largest other number: beyond any measurement, and its sums and squares are finite
_LONGEST_START = 1 << 16  # bytes of a first line
MAX_SHOWN, _MAX_READ = 200_000, 128 << 20  # lines and bytes of a file that a page reads: some seconds
_READ_WHOLE_BYTES = 8 << 20  # a file up to this size is read as a whole
_CHUNK_BYTES = 1 << 20  # bytes of a larger file that are read at a time
_FIRST_LINES = 64 << 10  # bytes of the beginning of a file that is not read as a whole
FIRST_WINDOW = 3 << 13  # bytes from the end that are read first: ten epochs of ten classes
_LONGEST_HEAD = 1 << 22  # bytes in which the first `train` event is searched
_NESTED = (list, dict)
_NOT_NUMBERS = (str, dict, bool)  # types that no measurement has
RESOLVED = {"precision": ("fp32", "bf16"), "test_clusters": ("training", "test")}  # beside the values of a `start`
# Lists by class id, and nothing else.
_VECTORS = {"pi_hat", "margin", "class/prior", "class/accuracy", "class/count_predicted"}
_NUMBERS = set(  # prefixes of the names of measurements that are not lists
    "accuracy ari baseline classes eta_s images kl loss lr memory nmi parameters pretrain prior pseudo_label test "
    "threads threshold throughput time".split()
)
_EVENT_KINDS = ("start", "pretrain", "train", "eval", "finish", "stop", "fail")


class EventWriter:
    """Append to `events.jsonl`. Opening cuts off an incomplete last line; nothing else is ever erased."""

    def __init__(self, path: Path):
        """Open the file for appending. Raises `UserError` for a file of a newer program."""
        check_version(path)
        self._path = path
        self._file = disk.open_end(path)
        self._end = end_of_events(path)
        disk.truncate(self._file, self._end)
        disk.sync_folder(path.parent)

    def append(self, kind: str, *, step: int, epoch: int, values: dict, **more) -> None:
        """Append one event; it is in the kernel when the call returns. Non-finite numbers become null.

        Raises `OSError`, for example if the disk is full or the file was deleted; then no part of the line is stored.
        """
        self.check_exists()
        event = {"kind": kind, "step": step, "epoch": epoch, "time": round(time.time(), 3), "values": values}
        event |= {"version": versions.VERSIONS["events.jsonl"]} if kind == "start" else {}
        line = json.dumps(replace_non_finite(event | more), allow_nan=False, separators=(",", ":")).encode() + b"\n"
        try:
            disk.write(self._file, line)
        except OSError:
            disk.truncate(self._file, self._end)
            raise
        self._end += len(line)

    def check_exists(self) -> None:
        """Raise `FileNotFoundError` if the file was deleted: writing to it would succeed and lose every line."""
        if not os.fstat(self._file).st_nlink:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._path))

    def sync(self) -> None:
        """Wait until the disk has everything. Raises `FileNotFoundError` if the file was deleted meanwhile."""
        disk.sync(self._file)
        self.check_exists()

    def close(self) -> None:
        os.close(self._file)


def check_version(path: Path) -> int:
    """Return the version in the first line of the file; raises `UserError` for one of a newer program.

    0 without a version, also for a file that is missing or begins with a damaged line.
    """
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return 0
        version = _version(str(path), status.st_ino, status.st_size, status.st_ctime_ns)
    except OSError:
        return 0
    return versions.check_version("events.jsonl", version)


@lru_cache(maxsize=16_384)
def _version(path: str, _inode: int, _size: int, _changed_ns: int) -> object:
    """Return the version in the first line; raises `OSError`."""
    with open_regular(path) as file:
        line = file.readline(_LONGEST_START)
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event.get("version") if isinstance(event, dict) else None


def read_events(path: Path, offset: int = 0, num_bytes: int = -1) -> tuple[list[dict], int]:
    """Return the complete lines after byte `offset` as events, and the offset to continue from; skips damaged lines.

    num_bytes: bytes to read at most, to read a long file in parts; at the end, `offset` is returned unchanged. A file
    that is shorter than `offset` is another file: it is read from its beginning, and the returned offset, smaller than
    the one passed in, tells the caller to forget the earlier records.
    """
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size < offset:
                offset = 0
            file.seek(offset)
            data = file.read(num_bytes)
            if len(data) == num_bytes and b"\n" not in data:  # a line that is longer than that
                data += file.readline(MAX_LINE)
                if not data.endswith(b"\n"):  # no event is that long
                    _pass_line(file)
                    return [], file.tell()
    except OSError:
        return [], 0
    end = data.rfind(b"\n") + 1
    return [
        with_current_names(path, event) for line in data[:end].split(b"\n") if (event := parse_event(line))
    ], offset + end


def read_last_event(path: Path, offset: int = 0, window: int = 1 << 18) -> dict | None:
    """Return the last event after byte `offset`, None if there is none; reads at most the last `window` bytes."""
    try:
        with open_regular(path, buffering=0) as file:
            start = max(offset, os.fstat(file.fileno()).st_size - window, 0)
            events = (parse_event(line) for line in lines_backwards(file, start))
            return next((with_current_names(path, event) for event in events if event is not None), None)
    except OSError:
        return None


def read_head(path: Path) -> list[dict]:
    """Return the events up to the first `train` event, within the first `_LONGEST_HEAD` bytes."""
    try:
        status = os.stat(path)
        return _read_head(path, status.st_size, status.st_ino, status.st_ctime_ns)
    except OSError:
        return []


@lru_cache(maxsize=4096)
def _read_head(path: Path, size: int, _inode: int, _changed_ns: int) -> list[dict]:
    events = []
    with open_regular(path) as file:
        for line in _lines(file, min(size, _LONGEST_HEAD)):
            event = parse_event(line) if line.endswith(b"\n") else None
            events += [] if event is None else [with_current_names(path, event)]
            if event is not None and event["kind"] == "train":
                break
    return events


def drop_repeated(events: list[dict]) -> list[dict]:
    """Return the history without records that a later attempt repeated.

    A `start` at epoch e drops records of later epochs before it; a pretraining epoch that is done again drops its
    earlier record and those after it.
    """
    later = LaterEvents()
    return [event for event in reversed(events) if later.is_valid(event)][::-1]


class LaterEvents:
    """Decide which records stay valid, by the rule of `drop_repeated`; call from the last record to the first."""

    def __init__(self):
        self._resumed = self._repeated = math.inf  # epochs after the first, and from the second on in pretraining

    def is_valid(self, event: dict) -> bool:
        """Return whether the record counts; from now on, records that it voids do not."""
        kind, epoch = event["kind"], event["epoch"]
        if kind == "start":
            self._resumed = min(self._resumed, epoch)
        elif epoch >= self._repeated if kind == "pretrain" else epoch > self._resumed:
            return False
        elif can_void(event):
            self._repeated = epoch
        return True


def first_shown_byte(path: Path, end: int | None = None) -> int:
    """Return the byte of a file, or of its first `end` bytes, from which pages read it.

    0, except for a file that is too long to read while a user waits: then pages read the last `MAX_SHOWN` lines in the
    last `_MAX_READ` bytes. These records are valid, because only later records void a record.
    """
    try:
        status = os.lstat(path)
        size = min(status.st_size, status.st_size if end is None else end)
        if size <= min(_READ_WHOLE_BYTES, _MAX_READ):
            return 0
        return _first_shown(str(path), (status.st_dev, status.st_ino), size)
    except OSError:
        return 0


@lru_cache(maxsize=256)
def _first_shown(path: str, file_key: tuple[int, int], size: int) -> int:
    """Cached by `file_key`, which only identifies the file."""
    lowest, position, lines = max(0, size - _MAX_READ), size, 0
    with open_regular(path, buffering=0) as file:
        while position > lowest:
            start = max(lowest, position - _CHUNK_BYTES)
            file.seek(start)
            lines += file.read(position - start).count(b"\n")
            if lines > MAX_SHOWN:
                break
            position = start
        file.seek(max(0, position - 1))
        return position and position - 1 + len(file.readline(MAX_LINE))


def read_history(path: Path, end: int | None = None, start: int = 0) -> Iterator[dict]:
    """Yield the valid events (`drop_repeated`) of the complete lines up to byte `end`, one at a time.

    The records that void earlier ones are searched first, so the file is read twice and its lines are parsed once.
    Measurements beyond the first `MAX_NAMES` are left out. start: byte at which a line begins, see `first_shown_byte`;
    of the part before it, only the `start` events at the beginning of the file are yielded.
    """
    try:
        with open_regular(path, buffering=1 << 18) as file:
            end = _end_of_last_line(file) if end is None else end
            voiding_by_kind, names = _voiding_lines(_lines(file, end, start)), MeasurementNames()
            yield from (names.drop_excess(event) for event in read_first_starts(path, start))
            for number, line in enumerate(_lines(file, end, start)):
                event = parse_event(line)
                if event is None:
                    continue
                later = voiding_by_kind[event["kind"] if event["kind"] == "pretrain" else "start"]
                while later and later[-1][0] <= number:
                    later.pop()
                limit = later[-1][1] if later else None
                if limit is None or event["kind"] == "start" or event["epoch"] + (event["kind"] == "pretrain") <= limit:
                    yield names.drop_excess(with_current_names(path, event))
    except OSError:
        return


def read_first_starts(path: Path, end: int) -> list[dict]:
    """Return the `start` events among the first lines of a file, up to byte `end`."""
    end = min(end, _FIRST_LINES)
    events, _ = read_events(path, 0, end) if end else ([], 0)
    return [event for event in events if event["kind"] == "start"]


def resolved_settings(event: dict) -> dict[str, str]:
    """Return values in a `start` that the settings leave open, by name; unknown words are left out."""
    return {name: event[name] for name, words in RESOLVED.items() if event.get(name) in words}


def with_current_names(path: Path, event: dict) -> dict:
    """Return the event with measurements under their current names.

    LPS once called the divergence of its margin `kl`, and the other one `kl/reverse`. Now `kl` is KL(prior, estimate)
    in all methods, `kl/reverse` is KL(estimate, prior), and the margin's is `kl/margin`.
    """
    values = event["values"]
    if "kl" in values and "kl/reverse" in values and "kl/margin" not in values and _margin_turned(path):
        event["values"] = values | {"kl": values["kl/reverse"], "kl/reverse": values["kl"], "kl/margin": values["kl"]}
    return event


def _margin_turned(path: Path) -> bool:
    """Return whether the margin of the run of these events uses KL(estimate, prior)."""
    settings = path.with_name("config.json")
    try:
        status = os.lstat(settings)
        return _uses_estimate_first(str(settings), status.st_ino, status.st_ctime_ns)
    except OSError:
        return False


@lru_cache(maxsize=16_384)
def _uses_estimate_first(path: str, inode: int, changed_ns: int) -> bool:
    return read_json(path).get("kl_direction") == "est_to_uniform"


def can_void(event: dict) -> bool:
    """Return whether the event can void earlier records, see `drop_repeated`."""
    return event["kind"] == "start" or event["kind"] == "pretrain" and "pretrain/reused" not in event["values"]


def _voiding_lines(lines: Iterator[bytes]) -> dict[str, list[tuple[int, int]]]:
    """Return the lines that void earlier ones, for `start` and `pretrain`: (line number, smallest epoch from here on).

    The last line comes first. Lines that a later line makes redundant are left out.
    """
    voided: dict[str, list[tuple[int, int]]] = {"start": [], "pretrain": []}
    for number, line in enumerate(lines):
        if (b'"start"' in line or b'"pretrain"' in line) and (event := parse_event(line)) and can_void(event):
            voiding = voided[event["kind"]]
            while voiding and voiding[-1][1] >= event["epoch"]:  # the new line voids all that it voids
                voiding.pop()
            voiding.append((number, event["epoch"]))
    for voiding in voided.values():
        voiding.reverse()
    return voided


def _lines(file: BinaryIO, end: int, start: int = 0) -> Iterator[bytes]:
    """Yield the lines of a file from byte `start` up to byte `end`; of too long lines only the beginning."""
    position = file.seek(start)
    while position < end and (line := file.readline(MAX_LINE)):
        position += len(line)
        if len(line) == MAX_LINE and not line.endswith(b"\n"):
            _pass_line(file)
            position = file.tell()
        yield line


def lines_backwards(file: FileIO, start: int = 0) -> Iterator[bytes]:
    """Yield the complete lines of a file from byte `start` on, last line first; every byte is read once.

    The last `FIRST_WINDOW` bytes are read first. For a line that is too long for an event, or that begins before
    `start`, only its end is returned, which is not a valid event.
    """
    position, window = max(start, file.seek(0, os.SEEK_END)), FIRST_WINDOW
    later, is_torn = b"", True  # rest of a line that begins before `position`; is_torn: it has no line end yet
    while position > start:
        before, position = position, max(start, position - window)
        file.seek(position)
        first, *lines = (file.read(before - position) + later).split(b"\n")
        later, lines = (first, lines) if position > start else (b"", [first, *lines])
        later = later[: MAX_LINE + 1]
        if lines and is_torn:
            is_torn = False
            lines.pop()
        yield from reversed(lines)
        window = min(4 * window, MAX_LINE)


def _pass_line(file: BinaryIO) -> None:
    """Skip the rest of the present line."""
    while (part := file.readline(MAX_LINE)) and not part.endswith(b"\n"):
        pass


def end_of_events(path: Path) -> int:
    """Return the byte after the last complete line, where the next event begins; 0 for a missing file."""
    try:
        with open_regular(path) as file:
            return _end_of_last_line(file)
    except FileNotFoundError:
        return 0


def parse_event(line: bytes) -> dict | None:
    """Parse a line of `events.jsonl`; None for a damaged line and for one that exceeds the limits of an event.

    A measurement that is not a number, or not a list where pages expect one, is null or left out.
    """
    if len(line) > MAX_LINE:
        return None
    try:
        event = json.loads(str(line, "utf-8"))  # given bytes, json would ask which encoding they have
        if not isinstance(event, dict) or not isinstance(event.get("values"), dict):
            return None
        # Nearly all of a line are its values, which are gone through once, below: a list of runs reads many lines.
        for name, value in event.items():
            if name != "values" and (type(value) in _NESTED or type(value) is float and not math.isfinite(value)):
                event[name] = replace_non_finite(value)
    except (ValueError, RecursionError):
        return None
    if event.get("kind") not in _EVENT_KINDS or len(event["values"]) > MAX_NAMES:
        return None
    event["values"] = values = {
        name: value if type(value) is float and abs(value) <= _MAX else _numbers(name, value)
        for name, value in event["values"].items()
        if type(value) not in _NOT_NUMBERS and len(name) <= LONGEST_NAME and name.isprintable()
    }
    for name in _VECTORS:
        if name in values and type(values[name]) is not list:
            del values[name]
    step, epoch, time_s = event.get("step"), event.get("epoch"), event.get("time")
    counts = type(step) is int and type(epoch) is int and 0 <= step < 2**53 and 0 <= epoch <= MAX_EPOCHS
    return event if counts and type(time_s) in (int, float) and abs(time_s) < 2**53 else None


def exceeded_limit(line: bytes) -> str:
    """Describe which limit of an event a line exceeds; "" for a valid event and for other damage."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    epoch, values = (event.get("epoch"), event.get("values")) if isinstance(event, dict) else (None, None)
    if type(epoch) is int and epoch > MAX_EPOCHS:
        return f"a record of epoch {shorten(epoch)}; expected at most {MAX_EPOCHS:,}"
    if isinstance(values, dict) and len(values) > MAX_NAMES:
        return f"a record of {len(values):,} measurements; expected at most {MAX_NAMES:,}"
    return ""


class MeasurementNames:
    """The first `MAX_NAMES` names of measurements that one reader of a file has met."""

    def __init__(self):
        self._known: set[str] = set()

    def drop_excess(self, event: dict) -> dict:
        """Return the event without the measurements beyond the limit."""
        unknown = event["values"].keys() - self._known
        if not unknown:
            return event
        room = MAX_NAMES - len(self._known)
        self._known.update(
            unknown if len(unknown) <= room else [name for name in event["values"] if name in unknown][:room]
        )
        if len(unknown) <= room:
            return event
        return event | {"values": {name: value for name, value in event["values"].items() if name in self._known}}


def _numbers(name: str, value):
    """Replace values that no float can hold, too long lists and lists under the name of a number by null."""
    if type(value) is not list:
        return None if value is None else _number(value)
    if len(value) > MAX_CLASSES or name.partition("/")[0] in _NUMBERS:
        return None
    kinds = set(map(type, value))
    if kinds == {float} and math.isfinite(sum(value)) and min(value) >= -_MAX and max(value) <= _MAX:
        return value  # a sum is finite only where its parts are
    if kinds == {int} and min(value) >= -_LARGEST and max(value) <= _LARGEST:
        return value
    return [_number(item) for item in value]


def _number(value) -> int | float | None:
    return value if type(value) in (int, float) and abs(value) <= (_LARGEST if type(value) is int else _MAX) else None


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


def replace_non_finite(value):
    """Replace NaN and infinities in numbers, lists and dicts by None (JSON cannot represent them)."""
    if isinstance(value, dict):
        return {key: replace_non_finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_non_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
