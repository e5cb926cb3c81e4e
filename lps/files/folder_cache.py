"""Keep values that follow from the files in folders, so that a list of thousands of folders is not read at every look.

Standard library only.
"""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from lps.files.atomic import fingerprint

_MAX_FOLDERS = 40_000
_SETTLED_NS = 2 * 10**9  # after this time another change gets another time stamp

Value = TypeVar("Value")


class FolderCache(Generic[Value]):
    """A value by folder: valid until a file in the folder is added, replaced or removed.

    files: those that also change in place. may_keep: whether a value follows from the files alone.
    """

    def __init__(self, *files: str, may_keep: Callable[[Value], bool] = lambda value: True):
        self._files, self._may_keep = files, may_keep
        self._known: dict[str, tuple[tuple, Value]] = {}

    def value(self, folder: str, compute: Callable[[tuple | None], Value]) -> Value:
        """Return the value that is known for a folder, or compute it.

        compute: gets what changes with the files; None if that is not known.
        """
        stamp = self._stamp(folder)
        known_stamp, value = self._known.get(folder, (None, None))
        if stamp is None or stamp != known_stamp:
            value = compute(stamp)
            if stamp is not None and self._may_keep(value):
                self.keep(folder, stamp, value)
        return value

    def keep(self, folder: str, stamp: tuple, value: Value) -> None:
        if len(self._known) >= _MAX_FOLDERS:  # some folders may no longer exist
            self._known.clear()
        self._known[folder] = stamp, value

    def known(self, folder: str, stamp: tuple | None) -> Value | None:
        """Return the value that is known for a folder with this stamp; None without one."""
        known_stamp, value = self._known.get(folder, (None, None))
        return value if stamp is not None and known_stamp == stamp else None

    def _stamp(self, folder: str) -> tuple | None:
        """Return what changes with the files; None if the folder is missing, or so new that a change may not show."""
        present = fingerprint(folder)
        if present is None or abs(time.time_ns() - present[3]) < _SETTLED_NS:
            return None
        return present, *(fingerprint(f"{folder}/{name}") for name in self._files)
