"""Arrays that came from elsewhere: each file unpacks to what its heads say, and those of a run fit each other.

A file that may have suffered on its way is left out; one that was made to deceive is refused with the whole run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from lps.files import clean_line
from lps.intake import Allowance, open_zip, zip_members
from lps.parameters import ConfigError, shorten
from lps.runs import Run
from lps.snapshots import read_arrays, read_snapshot, read_split

MOST_ARRAYS = 256 << 20  # unpacked bytes of an .npz
HEADER = 1 << 16  # bytes that the head of an array has at most


class Damaged(ConfigError):
    """A file that is not what was written. Nothing worse: a run can do without most of them."""


def check(run: Run) -> list[str]:
    """Removes damaged snapshots and maps; raises `ConfigError` for a damaged split, and for whatever lies."""
    paths = [*sorted(run.snapshots.glob("*.npz")), *sorted(run.projections.glob("*.npz"))]
    if not (run.folder / "split.npz").exists():
        if paths:
            raise ConfigError("split.npz", f"of {run.id} is missing")
        return []
    check_arrays(run.folder / "split.npz")
    sizes, notes = _check_split(run.folder), []
    for path in paths:
        try:
            check_arrays(path)
            (_check_snapshot if path.parent == run.snapshots else _check_map)(path, *sizes)
        except Damaged as error:
            path.unlink()
            notes.append(f"{error}; it was left out")
    return notes


def check_arrays(path: Path) -> None:
    """Raise `ConfigError` unless an .npz unpacks to the plain arrays that its heads describe, and to no more.

    Only heads are read. A `Damaged` one may have suffered on its way; any other was made to be so.
    """
    packed = path.stat().st_size
    with _named(path), open(path, "rb") as file, open_zip(file) as archive:
        for member in zip_members(archive, Allowance(packed, MOST_ARRAYS), packed):
            with archive.open(member) as stream:
                described = _described(stream)
            if described != member.file_size:
                raise ConfigError(shorten(member.filename), "is not the array that it says it is")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What is wrong inside the `with` becomes a `ConfigError` that names the file."""
    try:
        yield
    except Damaged:
        raise
    except ConfigError as error:
        raise ConfigError(path.name, f"is refused: {error}") from None
    except Exception as error:  # numpy and zipfile raise whatever a damaged head makes them stumble over
        raise Damaged(path.name, f"is damaged ({clean_line(str(error)) or type(error).__name__})") from None


def _described(stream) -> int:
    """Bytes of an .npy file by its own head; raises `ValueError` for objects and foreign formats."""
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError("an array of another version")
    shape, _, dtype = read(stream, max_header_size=HEADER)
    if dtype.hasobject or dtype.names or any(side < 0 for side in shape):
        raise ConfigError("array", "holds something else than numbers or text")
    count = 1
    for side in shape:
        count *= side
    return stream.tell() + count * dtype.itemsize


def _check_split(folder: Path) -> tuple[int, int]:
    """(unlabeled images, all images) of the split; raises `Damaged`."""
    with _named(folder / "split.npz"):
        split, targets = _read(read_split, folder)
        images, classes = len(targets), split.classes
        _expect(targets.ndim == 1 and 1 <= classes.seen <= classes.total <= 100_000)
        _expect(split.class_order.ndim == 1 and len(split.class_names) <= classes.total)
        _expect(images == 0 or -1 <= targets.min() <= targets.max() < classes.total)
        for ids in (split.labeled, split.unlabeled, split.test, split.validation):
            _expect(_are_ids(ids, images))
        return len(split.unlabeled), images


def _check_snapshot(path: Path, unlabeled: int, images: int) -> None:
    with _named(path):
        found = _read(read_snapshot, path.parent, int(path.stem.removeprefix("epoch-")))
        for predicted in (found.predicted, found.test_predicted):
            _expect(predicted.ndim == 1 and predicted.dtype.kind in "iu" and (predicted >= 0).all())
        _expect(len(found.predicted) == unlabeled and found.confidence.shape == (unlabeled,))
        _expect(found.confidence.dtype.kind == found.features.dtype.kind == "f" and found.features.ndim == 2)
        _expect(_are_ids(found.feature_index, images) and len(found.feature_index) == len(found.features))


def _check_map(path: Path, unlabeled: int, images: int) -> None:
    with _named(path):
        stored = _read(read_arrays, path, ("points", "index"))
        _expect(_are_ids(stored["index"], images) and stored["points"].shape == (len(stored["index"]), 2))
        _expect(stored["points"].dtype.kind == "f")


def _read(read, *where):
    """What `read` gives; that it cannot is damage here, whatever it says."""
    try:
        return read(*where)
    except ConfigError as error:
        raise Damaged(error.name, str(error).removeprefix(f"{error.name}: ")) from None


def _are_ids(ids: np.ndarray, images: int) -> bool:
    """Whether these are ids of `images` images."""
    plain = ids.ndim == 1 and ids.dtype.kind in "iu"
    return plain and (len(ids) == 0 or bool(0 <= ids.min() <= ids.max() < images))


def _expect(holds: bool) -> None:
    if not holds:
        raise ValueError("its arrays do not fit each other")
