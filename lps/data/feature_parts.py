"""A feature store made by several processes, on one machine or on all machines that share the cache folder.

The pictures are divided into parts of 16,384. A part of a view is a small store of its own below `<key>.parts/` beside
the store (`lps.files.shared_work`): a process continues a part from its last valid piece. When all are complete,
`feature_store.complete_store` copies them into the store, in the first process that gets there, and removes them. The
noise of a view depends only on the number of the picture, so the store has the same bytes as that of one process.
Standard library only.
"""

import time
from collections.abc import Callable, Sequence

from lps.data import feature_store
from lps.data.feature_store import PIECE, Compute, Report, Store
from lps.files import disk, shared_work

_PART = 64 * PIECE  # pictures
_TELL_S = 1.0  # interval of progress reports over all processes


def complete_store_together(
    key: str,
    count: int,
    views: Sequence[str],
    begin: Callable[[], tuple[int, dict[str, object], Compute]],
    report: Report,
    should_stop: Callable[[], bool],
) -> Store | None:
    """Complete a store like `feature_store.complete_store`, together with other processes that call this."""
    stored = feature_store.open_store(key, views)
    if stored is not None:
        return stored
    width, facts, compute = begin()
    parts = _Parts(key, count, views, width, compute, report, should_stop)
    if not parts.complete(lambda: feature_store.open_store(key, views) is not None):
        return None
    store = feature_store.complete_store(key, count, views, lambda: (width, facts, parts.piece), report, should_stop)
    if store is not None:
        parts.remove()
    return store


class _Parts:
    """The parts of one store, from the point of view of one process."""

    def __init__(
        self,
        key: str,
        count: int,
        views: Sequence[str],
        width: int,
        compute: Compute,
        report: Report,
        should_stop: Callable[[], bool],
    ):
        self._home, self._count, self._width = feature_store.stores_folder() / f"{key}.parts", count, width
        self._compute, self._total, self._reported_at = compute, count * len(views), 0.0
        self._report, self._should_stop = report, should_stop
        starts = range(0, count, _PART)
        self._parts = {f"{view}-{start:08d}": (view, start) for view in views for start in starts}

    def complete(self, should_leave: Callable[[], bool]) -> bool:
        """Work on the parts until all are complete; return False if `should_stop` was true before that."""
        names = tuple(self._parts)
        return shared_work.compute_parts(
            self._home, names, self._is_done, self._work_on, should_leave, self._is_stopped
        )

    def _is_done(self, name: str) -> bool:
        view, start = self._parts[name]
        part = self._store(view, start)
        return part.done(view) == part.count

    def _work_on(self, name: str) -> bool:
        """Continue a part; return False if `should_stop` was true after a piece."""
        view, start = self._parts[name]
        part = self._store(view, start)
        table = part.continue_table(view, lambda first, stop: self._compute(view, start + first, start + stop))
        return not any(self._is_stopped() for _ in table)

    def _is_stopped(self) -> bool:
        self._report_progress()
        return self._should_stop()

    def piece(self, view: str, start: int, stop: int) -> bytes:
        """Return a part's features of these pictures if they are intact; else compute them."""
        part = self._store(view, start // _PART * _PART)
        return part.piece(view, start % _PART // PIECE) or self._compute(view, start, stop)

    def remove(self) -> None:
        disk.remove_folder(self._home)

    def _store(self, view: str, start: int) -> Store:
        return Store(self._home / f"{view}-{start:08d}", min(_PART, self._count - start), self._width)

    def _report_progress(self) -> None:
        if time.monotonic() - self._reported_at > _TELL_S:
            self._report(sum(self._store(*part).done(part[0]) for part in self._parts.values()), self._total)
            self._reported_at = time.monotonic()
