"""Follow one `events.jsonl`: remember the position, return new records, detect another file. Standard library only."""

import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from lps.files.atomic import open_regular
from lps.store.events import end_of_events, first_shown_byte, read_events, read_first_starts, read_history

PART = 2 << 20  # bytes of new records that are in memory at a time
_MARK = 64  # bytes before the read position, which differ in another file


class Change(Enum):
    """What happened to a file since the last check."""

    NONE = "none"
    GREW = "grew"
    REPLACED = "replaced"  # by another file, shortened or rewritten: earlier records are void


class EventFollower:
    """A read position in one `events.jsonl`. For a file that is too long for a page, it begins at `first_shown_byte`.

    Not safe to share between threads. left_out: bytes at the beginning that are not read.
    """

    def __init__(self, path: Path):
        self._path = path
        self._version: tuple | None = None  # device, inode, size and change time of the file at the last check
        self._offset, self._mark, self.left_out = 0, b"", 0

    def check(self) -> Change:
        """Return what changed since the last call; after `REPLACED`, `new_records` starts at the beginning."""
        try:
            status = os.stat(self._path)
            version = status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns
        except OSError:
            version = None
        previous, self._version = self._version, version
        if version == previous:
            return Change.NONE
        grew = version and previous and version[:2] == previous[:2] and version[2] > previous[2]
        if grew and self._mark == self._bytes_before():
            return Change.GREW
        self._offset, self._mark, self.left_out = 0, b"", 0
        return Change.REPLACED

    def new_records(self) -> Iterator[list[dict]]:
        """Yield the records since the last call, in the order of the file, about `PART` bytes at a time."""
        size = self._version[2] if self._version else 0
        if not self._offset and (start := first_shown_byte(self._path, size)):
            self._offset = self.left_out = start
            yield read_first_starts(self._path, start)
        before = -1
        while before < self._offset < size:
            before = self._offset
            events, self._offset = read_events(self._path, before, PART)
            yield events
        self._mark = self._bytes_before()

    def history(self) -> Iterator[dict]:
        """Return all valid records, see `read_history`; `new_records` continues after them."""
        try:
            self._offset = end_of_events(self._path)
        except OSError:
            self._offset = 0
        self.left_out = first_shown_byte(self._path, self._offset)
        self._mark = self._bytes_before()
        return read_history(self._path, self._offset, self.left_out)

    def _bytes_before(self) -> bytes:
        """Return the last bytes before the read position."""
        try:
            with open_regular(self._path, buffering=0) as file:
                file.seek(max(0, self._offset - _MARK))
                return file.read(min(_MARK, self._offset))
        except OSError:
            return b""
