"""Precomputed features on disk: a folder for each backbone and data set, with one table per view.

`features/<data set>-<key>/` in the cache folder (`lps.files.user_folders`) has `facts.json`, and for every view
`NAME.f16`, the features of all pictures in their order, beside `NAME.pieces`, a line for each piece of them: rows,
sha256, seconds. A piece is valid once its line is on disk, and the line is written after the rows: a kill costs one
piece. Opening a table reads all of it and compares the digests; from the first damaged piece on everything is computed
again. `NAME.checked` stores the state of a table's file (size, times, place) at that check: while it is unchanged,
only a few pieces are compared. So every write to a table is noticed before training uses it; silent disk errors are
noticed by `sound`, which reads all, or by chance. The kernel lock on `<key>.lock` beside the folder is held by the one
process that writes. Standard library only.
"""

import hashlib
import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lps.errors import UserError
from lps.files import disk, locks
from lps.files.atomic import open_regular, read_json, remove_abandoned, write_json
from lps.files.user_folders import cache_folder
from lps.files.versions import MAX_IMAGES, MAX_WIDTH

PIECE = 256  # pictures whose features are computed and verified together
_FORMAT = 1  # raise it when the numbers for the same pictures and weights change
_LINE = 160  # most bytes of a piece's line
_VALUE = 2  # bytes of a number
_BLOCK = 1 << 20  # bytes per read
_SOME = 4  # pieces compared in a table that passed a full check
_SETTLED_NS = 2 * 10**9  # after this time another change would get another time stamp

Compute = Callable[[str, int, int], bytes]  # view, start, stop: float16 (rows, width) as bytes
Report = Callable[[int, int], None]  # pictures done over all views, and their total


@dataclass(frozen=True)
class _Piece:
    """A line of the pieces file: number of rows, their digest, and the seconds that they took."""

    rows: int
    sha256: str
    seconds: float

    def line(self) -> bytes:
        return json.dumps({"rows": self.rows, "sha256": self.sha256, "s": round(self.seconds, 4)}).encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> "_Piece | None":
        """Parse a line; None if it is malformed."""
        try:
            fields = json.loads(line)
            piece = cls(int(fields["rows"]), str(fields["sha256"]), float(fields["s"]))
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            return None
        return piece if 0 <= piece.seconds < 1e9 else None


@dataclass(frozen=True)
class Store:
    """Features of `count` pictures, `width` numbers each, for the views computed so far."""

    folder: Path
    count: int
    width: int

    @property
    def key(self) -> str:
        """An identifier of pictures, weights and views: other features have another key."""
        return self.folder.name

    @property
    def lock(self) -> Path:
        return self.folder.parent / f"{self.folder.name}.lock"

    def table(self, view: str) -> Path:
        """Return the file of one view: float16 (count, width)."""
        return self.folder / f"{view}.f16"

    def size(self, views: int) -> int:
        """Return the size of this many tables in bytes."""
        return views * self.count * self.width * _VALUE

    def pieces(self, view: str) -> list[_Piece]:
        """Return the recorded pieces of a view, from the first picture on, without reading the features."""
        rows, limit = [], _LINE * -(-self.count // PIECE)
        try:
            with open_regular(self._journal(view)) as file:
                lines = file.read(limit).split(b"\n")[:-1]
        except OSError:
            return []
        for line in lines:
            piece = _Piece.of_line(line)
            if piece is None or piece.rows != self._rows_at(len(rows)):
                break
            rows.append(piece)
        return rows

    def done(self, view: str) -> int:
        """Return the number of pictures of a view on record."""
        return sum(piece.rows for piece in self.pieces(view))

    def sound(self, view: str) -> list[_Piece]:
        """Return the pieces of a view up to the first damaged one, by reading all of them."""
        pieces = self.pieces(view)
        try:
            with open_regular(self.table(view)) as file:
                for number, piece in enumerate(pieces):
                    if _digest_of(file, piece.rows * self.width * _VALUE) != piece.sha256:
                        return pieces[:number]
        except OSError:
            return []
        return pieces

    def is_whole(self, view: str) -> bool:
        """Return whether every picture is done and intact; reads everything if the file may have changed."""
        pieces = self.pieces(view)
        if sum(piece.rows for piece in pieces) != self.count or self.table(view).stat().st_size != self.size(1):
            return False
        if self._was_checked(view):
            return all(self._is_sound(view, number, pieces) for number in _drawn(len(pieces)))
        return self.check(view)

    def check(self, view: str) -> bool:
        """Return whether every picture of a view is intact, by reading all of it."""
        before = self._state(view)
        is_sound = sum(piece.rows for piece in self.sound(view)) == self.count
        if is_sound and before == self._state(view) and time.time_ns() - max(before["times"]) > _SETTLED_NS:
            write_json(self._checked(view), before)
        return is_sound

    def _was_checked(self, view: str) -> bool:
        try:
            return read_json(self._checked(view)) == self._state(view)
        except OSError:
            return False

    def _state(self, view: str) -> dict[str, object]:
        """Return file facts that change with every write to a table or its lines, and with a copy of them."""
        statuses = [os.stat(path, follow_symlinks=False) for path in (self.table(view), self._journal(view))]
        files = [[status.st_dev, status.st_ino, status.st_size] for status in statuses]
        return {
            "places": files,
            "times": [time for status in statuses for time in (status.st_mtime_ns, status.st_ctime_ns)],
        }

    def piece(self, view: str, number: int) -> bytes | None:
        """Return the features of one piece of a view; None if it is missing or damaged."""
        pieces = self.pieces(view)
        try:
            if number >= len(pieces) or not self._is_sound(view, number, pieces):
                return None
            with open_regular(self.table(view)) as file:
                file.seek(number * PIECE * self.width * _VALUE)
                return file.read(pieces[number].rows * self.width * _VALUE)
        except OSError:
            return None

    def _is_sound(self, view: str, number: int, pieces: Sequence[_Piece]) -> bool:
        with open_regular(self.table(view)) as file:
            file.seek(number * PIECE * self.width * _VALUE)
            return _digest_of(file, pieces[number].rows * self.width * _VALUE) == pieces[number].sha256

    def continue_table(self, view: str, compute: Callable[[int, int], bytes]) -> Iterator[int]:
        """Compute the missing part of a view; yields the number of finished pictures after every piece."""
        pieces = self.sound(view)
        rows, journal = disk.open_own(self.table(view)), disk.open_own(self._journal(view))
        try:
            rows_done = sum(piece.rows for piece in pieces)
            _cut_to(rows, rows_done * self.width * _VALUE)
            _cut_to(journal, sum(len(piece.line()) for piece in pieces))
            yield rows_done
            while rows_done < self.count:
                start, stop = time.monotonic(), min(rows_done + PIECE, self.count)
                data = compute(rows_done, stop)
                assert len(data) == (stop - rows_done) * self.width * _VALUE
                piece = _Piece(stop - rows_done, hashlib.sha256(data).hexdigest(), time.monotonic() - start)
                for descriptor, text in ((rows, data), (journal, piece.line())):
                    disk.write(descriptor, text)
                    disk.sync(descriptor)
                rows_done = stop
                yield rows_done
        finally:
            os.close(rows)
            os.close(journal)

    def _journal(self, view: str) -> Path:
        return self.folder / f"{view}.pieces"

    def _checked(self, view: str) -> Path:
        return self.folder / f"{view}.checked"

    def _rows_at(self, number: int) -> int:
        return min(PIECE, self.count - number * PIECE)


def _drawn(count: int) -> list[int]:
    """Return a random choice among this many pieces."""
    return random.sample(range(count), min(_SOME, count))


def _digest_of(file, size: int) -> str:
    checksum = hashlib.sha256()
    while size > 0 and (part := file.read(min(size, _BLOCK))):
        checksum.update(part)
        size -= len(part)
    return checksum.hexdigest() if size == 0 else ""


def _cut_to(descriptor: int, size: int) -> None:
    """Truncate the file to `size` bytes and seek to its end."""
    disk.truncate(descriptor, size)
    os.lseek(descriptor, 0, os.SEEK_END)


def stores_folder() -> Path:
    """Return the folder of all stores of this user."""
    return cache_folder() / "features"


def store_key(dataset: str, facts: Mapping[str, object]) -> str:
    """Return the key of a store: the data set, and a digest of everything that the features depend on."""
    text = json.dumps({"format": _FORMAT} | dict(facts), sort_keys=True)
    return f"{dataset}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def open_store(key: str, views: Sequence[str]) -> Store | None:
    """Return the store with these views complete and intact; None if something is missing or damaged."""
    store = _read(stores_folder() / key)
    try:
        return store if store is not None and all(store.is_whole(view) for view in views) else None
    except OSError:
        return None


def complete_store(
    key: str,
    count: int,
    views: Sequence[str],
    begin: Callable[[], tuple[int, dict[str, object], Compute]],
    report: Report,
    should_stop: Callable[[], bool],
) -> Store | None:
    """Return the store with these views, finished now if needed; None if `should_stop` returned True after a piece.

    begin: called if something must be computed; returns the width, facts for lists of stores, and
    the compute function. While another process is making the store, waits for it; if that dies, continues its work.
    Raises `OSError` if the disk fails; finished pieces remain valid.
    """
    store = open_store(key, views)
    if store is not None:
        return store
    folder = stores_folder() / key
    draft = Store(folder, count, 0)

    def tell() -> None:
        report(sum(draft.done(view) for view in views), count * len(views))

    try:
        folder.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locks.wait_for_lock(draft.lock, should_stop, tell, "features") as is_ours:
            if not is_ours:
                return None
            return open_store(key, views) or _finished(folder, count, views, begin, report, should_stop)
    except disk.TooSmall:
        raise
    except OSError as error:  # a failed write does not name its file
        raise OSError(error.errno, error.strerror, error.filename or str(folder)) from None


def _finished(folder: Path, count: int, views: Sequence[str], begin, report: Report, should_stop) -> Store | None:
    """Return the finished store; the caller holds the lock. None if stopped."""
    width, facts, compute = begin()
    store = _read(folder)
    is_usable = store is not None and (store.count, store.width) == (count, width)
    if not is_usable:
        disk.remove_folder(folder)
    disk.make_folder(folder)  # refuses a link, to write nothing elsewhere
    if not is_usable:
        write_json(folder / "facts.json", {"count": count, "width": width} | facts)
        store = Store(folder, count, width)
    remove_abandoned(folder)
    missing = store.size(len(views)) - sum(store.done(view) for view in views) * width * _VALUE
    disk.check_fits(store.table(views[0]), missing)
    before = 0
    for view in views:
        for rows_done in store.continue_table(view, partial(compute, view)):
            report(before + rows_done, count * len(views))
            if should_stop() and rows_done < count:
                return None
        before += count
    return store


def _read(folder: Path) -> Store | None:
    """Read `facts.json` of a folder; None if it is missing or damaged."""
    facts = _facts_of(folder)
    count, width = facts.get("count"), facts.get("width")
    if type(count) is not int or type(width) is not int:
        return None
    return Store(folder, count, width) if 0 < count <= MAX_IMAGES and 0 < width <= MAX_WIDTH else None


def _facts_of(folder: Path) -> dict:
    """Read how a store was made; {} if that is missing or damaged."""
    facts = read_json(folder / "facts.json")
    return facts if isinstance(facts.get("settings", {}), dict) else {}


@dataclass(frozen=True)
class StoredEntry:
    """One store in a list. rows: pictures done, by view; seconds: computing time; bytes: on disk."""

    store: Store
    facts: dict
    rows: dict[str, int]
    seconds: float
    bytes: int
    is_written: bool  # whether a living process is making it

    @property
    def picture_s(self) -> float | None:
        """Return seconds per view of a picture; None if nothing is done."""
        rows_done = sum(self.rows.values())
        return self.seconds / rows_done if rows_done else None


def list_stores() -> list[StoredEntry]:
    """Return all stores of this user, by name."""
    try:
        folders = sorted(path for path in stores_folder().iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []
    return [_read_entry(store) for store in map(_read, folders) if store is not None]


def _read_entry(store: Store) -> StoredEntry:
    try:
        names = sorted(path.stem for path in store.folder.glob("*.pieces"))
        size = sum(path.lstat().st_size for path in store.folder.iterdir())
    except OSError:
        names, size = [], 0
    pieces = {view: store.pieces(view) for view in names}
    rows = {view: sum(piece.rows for piece in view_pieces) for view, view_pieces in pieces.items()}
    seconds = sum(piece.seconds for view_pieces in pieces.values() for piece in view_pieces)
    return StoredEntry(store, _facts_of(store.folder), rows, seconds, size, locks.is_held(store.lock))


def delete_store(store: Store) -> None:
    """Delete a store; a run that has it open keeps it until it ends. Raises `UserError` while a process writes it."""
    lock = locks.try_lock(store.lock)
    if lock is None:
        raise UserError("features", f"{store.key} is being computed; first stop the run that computes it")
    try:
        disk.remove(store.folder / "facts.json")
        disk.remove_folder(store.folder)
    finally:
        disk.remove(store.lock)
        os.close(lock)
