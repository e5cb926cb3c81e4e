"""Store an append-only list of JSON entries in one file; undoing an entry is an entry too. Imports only `lps.errors`.

A file `*.jsonl` has one entry per line; any other holds `{"version": 1, "entries": [...]}`. Entries are objects, may
have a `time` in seconds and a `key`, and these undo others:

    {"undo": true}   undo the last entry in effect
    {"undo": "key of an entry"}   {"undo": 5}   undo that entry, by its key or its number; numbers count from 1
    {"restore": 5}   return to the state after the first 5 entries
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from lps.errors import UserError
from lps.files.atomic import SMALL_FILE, disk_error_in_words, open_regular, write_whole

_KEY = re.compile(r"[A-Za-z0-9-]{8,64}")


class UnreadableJournal(UserError):
    """The file cannot be read as a journal and is left as it is. reason: the sentence without the file's name."""

    def __init__(self, path: Path, reason: str):
        super().__init__(path.name, reason)
        self.reason = reason


@dataclass(frozen=True)
class Journal:
    """The entries of one file.

    is_own: checks that a well-formed entry has the fields of its kind. lock: held while the file changes. max_bytes:
    of the file. skips_unknown: unreadable entries are skipped and stay in the file; otherwise one of them makes the
    file damaged.
    """

    path: Path
    is_own: Callable[[Mapping], bool]
    lock: Callable[[], AbstractContextManager[None]]
    max_bytes: int = SMALL_FILE
    skips_unknown: bool = False

    def entries(self) -> list[Mapping]:
        """Return all readable entries, oldest first, [] without a file; raises `UnreadableJournal`."""
        return self._readable(self._stored())

    def append(self, entry_after: Callable[[list[Mapping]], Mapping | None]) -> bool:
        """Add the entry that `entry_after` makes from all earlier ones; add nothing and return False if that is None.

        Raises `OSError`, and `UserError` if the file is damaged or would become too large; then nothing has changed.
        """
        with self.lock():
            stored = self._stored()
            entry = entry_after(self._readable(stored))
            if entry is not None:
                self._write([*stored, entry])
            return entry is not None

    def _stored(self) -> list:
        try:
            with open_regular(self.path) as file:
                data = file.read(self.max_bytes + 1)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise UnreadableJournal(self.path, f"cannot be read ({disk_error_in_words(error)})") from None
        if len(data) > self.max_bytes:
            raise self._damaged(f"it is larger than {self.max_bytes >> 20} MiB")
        try:
            if self._has_lines:
                return [json.loads(line) for line in data.splitlines()]
            value = json.loads(data)
        except (ValueError, RecursionError):
            raise self._damaged("it is not JSON") from None
        if not isinstance(value, dict) or not isinstance(value.get("entries"), list):
            raise self._damaged("it has no list of entries")
        return value["entries"]

    def _readable(self, stored: list) -> list[Mapping]:
        good = [_is_entry(entry) and self.is_own(entry) for entry in stored]
        if not all(good) and not self.skips_unknown:
            raise self._damaged(f"entry {good.index(False) + 1} cannot be read")
        return [entry for entry, is_good in zip(stored, good) if is_good]

    def _write(self, stored: list) -> None:
        try:
            lines = [json.dumps(entry, ensure_ascii=self._has_lines, allow_nan=False) for entry in stored]
        except (ValueError, RecursionError):  # in an entry that another program wrote
            raise self._damaged("it has a number that JSON does not allow") from None
        if self._has_lines:
            text = "".join(f"{line}\n" for line in lines)
        else:
            text = '{"version": 1, "entries": [\n' + ",\n".join(lines) + "\n]}\n"
        data = text.encode("utf-8", "replace")
        if len(data) > self.max_bytes:
            message = f"would be larger than {self.max_bytes >> 20} MiB; decide about fewer images at a time"
            raise UserError(self.path.name, message)
        write_whole(self.path, data)

    @property
    def _has_lines(self) -> bool:
        return self.path.suffix == ".jsonl"

    def _damaged(self, reason: str) -> UnreadableJournal:
        return UnreadableJournal(self.path, f"is damaged and was not changed ({reason})")


def in_effect(entries: Sequence[Mapping]) -> list[tuple[int, Mapping]]:
    """Return (number, entry) of the entries in effect, oldest first: neither undone nor dropped by `restore`."""
    entry_counts = []
    entry_count = len(entries)
    while entry_count > 0:
        entry_count -= 1
        count = entries[entry_count].get("restore")
        if count is None:
            entry_counts.append(entry_count)
        elif count <= entry_count:
            entry_count = count
    active: list[tuple[int, Mapping]] = []
    for entry_count in reversed(entry_counts):
        entry = entries[entry_count]
        undone = entry.get("undo", False)
        if undone is False:
            active.append((entry_count + 1, entry))
        elif undone is True:
            del active[-1:]
        elif isinstance(undone, int):
            active = [item for item in active if item[0] != undone]
        else:
            active = [item for item in active if item[1].get("key") != undone]
    return active


def is_key(value) -> bool:
    """Return whether this can be the key of an entry."""
    return isinstance(value, str) and _KEY.fullmatch(value) is not None


def is_count(value) -> bool:
    """Return whether this is a whole number from 0 that every JSON reader keeps exact."""
    return type(value) is int and 0 <= value < 2**53


def _is_entry(entry) -> bool:
    if not isinstance(entry, dict):
        return False
    time_s = entry.get("time", 0)
    if type(time_s) not in (int, float) or not 0 <= time_s < 2**53:
        return False
    undone = entry.get("undo", False)
    is_undo = isinstance(undone, bool) or is_count(undone) or is_key(undone)
    return is_undo and is_count(entry.get("restore", 0)) and is_key(entry.get("key", "no-key-at-all"))
