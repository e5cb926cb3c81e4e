"""A feature store made by several processes, on one machine or on all machines that share the cache folder.

The pictures are divided into parts of 16,384. A part of a view is a small store of its own below `<key>.parts/` beside
the store, under a kernel lock: a process that finds an unlocked part continues it from its last valid piece. So
each part is computed once, and the part of a dead process is continued. When all are complete, `feature_store.made`
copies them into the store, in the first process that gets there, and removes them. The noise of a view depends only on
the number of the picture, so the store has the same bytes as that of one process. Standard library only.
"""

import os
import time
from collections.abc import Callable, Sequence

from lps.data import feature_store
from lps.data.feature_store import PIECE, Compute, Report, Store
from lps.files import disk, locks

_PART = 64 * PIECE  # pictures
_LOOK_S = 0.5  # poll interval for parts locked by others
_TELL_S = 1.0  # interval of progress reports over all processes


def made_together(
    key: str,
    count: int,
    views: Sequence[str],
    begin: Callable[[], tuple[int, dict[str, object], Compute]],
    report: Report,
    should_stop: Callable[[], bool],
) -> Store | None:
    """Do the same as `feature_store.made`, together with other processes that call it with the same arguments."""
    stored = feature_store.opened(key, views)
    if stored is not None:
        return stored
    width, facts, compute = begin()
    parts = _Parts(key, count, views, width, compute)
    while feature_store.opened(key, views) is None and (waiting := parts.waiting()):
        for view, start in waiting:
            if not parts.work_on(view, start, report, should_stop):
                return None
        time.sleep(_LOOK_S)
    store = feature_store.made(key, count, views, lambda: (width, facts, parts.piece), report, should_stop)
    if store is not None:
        parts.remove()
    return store


class _Parts:
    """The parts of one store, from the point of view of one process."""

    def __init__(self, key: str, count: int, views: Sequence[str], width: int, compute: Compute):
        self._home, self._count, self._width = feature_store.home() / f"{key}.parts", count, width
        self._compute, self._total, self._told = compute, count * len(views), 0.0
        self._waiting = [(view, start) for view in views for start in range(0, count, _PART)]
        self._home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        disk.make_folder(self._home)

    def waiting(self) -> list[tuple[str, int]]:
        """Return view and first picture of the incomplete parts."""
        self._waiting = [part for part in self._waiting if self._done(*part) < self._store(*part).count]
        return self._waiting

    def work_on(self, view: str, start: int, report: Report, should_stop: Callable[[], bool]) -> bool:
        """Continue an unlocked part; returns False if `should_stop` returned True after a piece."""
        part = self._store(view, start)
        try:
            disk.make_folder(part.folder)
            lock = locks.try_lock(part.folder / "lock", patience=0.05)
        except FileNotFoundError:  # another process has copied all parts and removed them
            lock = None
        if lock is None:
            self._tell(report)
            return not should_stop()
        try:
            for _ in part.continue_table(view, lambda first, stop: self._compute(view, start + first, start + stop)):
                self._tell(report)
                if should_stop():
                    return False
        finally:
            os.close(lock)
        return True

    def piece(self, view: str, start: int, stop: int) -> bytes:
        """Return a part's features of these pictures if they are intact; else compute them."""
        part = self._store(view, start // _PART * _PART)
        return part.piece(view, start % _PART // PIECE) or self._compute(view, start, stop)

    def remove(self) -> None:
        disk.remove_folder(self._home)

    def _store(self, view: str, start: int) -> Store:
        return Store(self._home / f"{view}-{start:08d}", min(_PART, self._count - start), self._width)

    def _done(self, view: str, start: int) -> int:
        return self._store(view, start).done(view)

    def _tell(self, report: Report) -> None:
        if time.monotonic() - self._told > _TELL_S:
            left = sum(self._store(*part).count - self._done(*part) for part in self._waiting)
            report(self._total - left, self._total)
            self._told = time.monotonic()
