"""Check arrays that came from elsewhere: each file unpacks to what its headers say, and the files of a run fit each
other.

A file that may have been damaged on its way is left out; one that was made to deceive is refused with the whole run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from lps.data.split import Split
from lps.datasets.readers.array_file import ArrayFile, WrongSize
from lps.errors import UserError, shorten
from lps.files.atomic import clean_line
from lps.store import inherited_files
from lps.store.runs import Run
from lps.store.snapshots import check_ids, read_arrays, read_snapshot, read_split


class Damaged(UserError):
    """A damaged file, which may be an accident. A run can do without most of its array files."""


def check_arrays(run: Run) -> list[str]:
    """Remove damaged snapshots and maps, return notes on them; raises `UserError` for bad splits or deceiving files."""
    labels = run.folder / inherited_files.LABELS
    if labels.exists():
        _check_arrays(labels)
        inherited_files.read_confirmed(run)
    paths = [*sorted(run.snapshots.glob("*.npz")), *sorted(run.projections.glob("*.npz"))]
    if not (run.folder / "split.npz").exists():
        if paths:
            raise UserError("split.npz", f"of {run.id} is missing")
        return []
    _check_arrays(run.folder / "split.npz")
    split, targets = read_split(run.folder)
    images, notes = len(targets), []
    for path in paths:
        try:
            _check_arrays(path)
            (_check_snapshot if path.parent == run.snapshots else _check_map)(path, split, images)
        except Damaged as error:
            path.unlink()
            notes.append(f"{error}; it was left out")
    return notes


def _check_arrays(path: Path) -> None:
    """Raise `UserError` unless an .npz unpacks to the plain arrays that its headers describe, and to no more.

    Only headers are read. `Damaged` may be an accident; any other `UserError` means that the file was made to deceive.
    """
    with _naming_file(path), open(path, "rb") as file, ArrayFile(file) as stored:
        stored.check_members()
        for name in stored.names:
            try:
                dtype = stored.head(name).dtype
            except WrongSize:
                raise UserError(shorten(name), "does not match its header") from None
            if dtype.hasobject or dtype.names:
                raise UserError("array", "has values other than numbers or text")


@contextmanager
def _naming_file(path: Path) -> Iterator[None]:
    """Turn errors inside the `with` into a `UserError` that names the file."""
    try:
        yield
    except Damaged:
        raise
    except UserError as error:
        raise UserError(path.name, f"is refused: {error}") from None
    except Exception as error:  # a damaged header makes numpy and zipfile raise anything
        raise Damaged(path.name, f"is damaged ({clean_line(str(error)) or type(error).__name__})") from None


def _check_snapshot(path: Path, split: Split, images: int) -> None:
    with _naming_file(path):
        snapshot = _read_checked(read_snapshot, path.parent, int(path.stem.removeprefix("epoch-")))
        _read_checked(check_ids, path.name, snapshot.predicted, split.unlabeled, split.classes)
        if len(snapshot.test_predicted):
            _read_checked(check_ids, path.name, snapshot.test_predicted, split.test, split.classes, "test")
        _expect(snapshot.confidence.shape == split.unlabeled.shape)
        _expect(_are_ids(snapshot.feature_index, images) and len(snapshot.feature_index) == len(snapshot.features))


def _check_map(path: Path, split: Split, images: int) -> None:
    with _naming_file(path):
        stored = _read_checked(read_arrays, path, ("points", "index"))
        _expect(_are_ids(stored["index"], images) and stored["points"].shape == (len(stored["index"]), 2))


def _read_checked(read_file, *arguments):
    """Call `read_file` and raise its `UserError` as `Damaged`."""
    try:
        return read_file(*arguments)
    except UserError as error:
        raise Damaged(error.name, str(error).removeprefix(f"{error.name}: ")) from None


def _are_ids(ids: np.ndarray, images: int) -> bool:
    """Return whether `ids` are ids of `images` images."""
    plain = ids.ndim == 1 and ids.dtype.kind in "iu"
    return plain and (len(ids) == 0 or bool(0 <= ids.min() <= ids.max() < images))


def _expect(condition: bool) -> None:
    if not condition:
        raise ValueError("its arrays are inconsistent")
