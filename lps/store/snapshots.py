"""Arrays that a run writes for display: `split.npz` once, `snapshots/epoch-*.npz` every epoch. NumPy only."""

import io
import math
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lps.data.classes import Classes
from lps.data.split import Split, with_cluster_names
from lps.datasets.readers.array_file import ArrayFile, ArrayHead
from lps.errors import UserError, shorten
from lps.files import versions
from lps.files.atomic import clean_line, disk_error_in_words, open_regular, write_whole
from lps.files.versions import MAX_ARRAYS, MAX_CLASSES, MAX_EPOCHS, MAX_IMAGES, MAX_WIDTH
from lps.store.events_tail import read_recent
from lps.store.runs import Run

# Kind of numbers (of NumPy's dtype), the longest array, bytes of an entry at most.
_IMAGES, _CLASSES, _SCALAR = (MAX_IMAGES,), (MAX_CLASSES,), ()
_ARRAY_KINDS = {
    **dict.fromkeys("labeled unlabeled test validation confirmed images given targets".split(), ("iu", _IMAGES, 8)),
    **dict.fromkeys("predicted test_predicted feature_index index".split(), ("iu", _IMAGES, 8)),
    **dict.fromkeys("seen total seed epoch pictures named decisions added_to_seen".split(), ("iu", _SCALAR, 8)),
    **dict.fromkeys(("class_order", "rows"), ("iu", _CLASSES, 8)),
    **dict.fromkeys(("class_names", "names"), ("U", _CLASSES, 4096)),
    **dict.fromkeys(("parent", "rule"), ("U", _SCALAR, 4096)),
    "threshold": ("f", _SCALAR, 8),
    "confidence": ("f", _IMAGES, 8),
    "points": ("f", (MAX_IMAGES, 2), 8),
    "features": ("f", (MAX_IMAGES, MAX_WIDTH), 4),
}
MAX_VALUES = 8 << 20  # features x images that a page reads: 32 MB as float32
_LARGE = 16 << 20  # bytes of features that are not compressed
MAX_POINTS = 50_000  # images whose features a page reads
_MAX_IDS = 1000  # predicted ids beyond this, and beyond the classes, are damage
NO_EPOCH_YET = "no epoch has been evaluated yet"
NAME = re.compile(r"epoch-([0-9]{1,9})\.npz")


@dataclass(frozen=True)
class Snapshot:
    """The predictions of the network after an epoch.

    predicted int16 and confidence float16: for every unlabeled image, in the order of the split's `unlabeled`;
    test_predicted: for every test image, in the order of `test`. features float16 (m, d): of a class-stratified sample
    with image ids feature_index int32 (m,).
    """

    predicted: np.ndarray
    confidence: np.ndarray
    features: np.ndarray
    feature_index: np.ndarray
    test_predicted: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int16))


def write_split(folder: Path, split: Split, truth: np.ndarray) -> None:
    """Write `split.npz` once. truth: class id of every image, -1 unknown."""
    if not (folder / "split.npz").exists():
        write_arrays(
            folder / "split.npz",
            labeled=split.labeled,
            unlabeled=split.unlabeled,
            targets=truth.astype(np.int16),
            class_order=split.class_order,
            class_names=np.array(split.class_names),
            seen=np.array(split.classes.seen),
            total=np.array(split.classes.total),
            seed=np.array(split.seed),
            test=split.test,
            validation=split.validation,
            confirmed=split.confirmed,
        )


def read_split(folder: Path) -> tuple[Split, np.ndarray]:
    """Return (split, class id of every image) of a run folder; raises `UserError` if it is missing or damaged."""
    arrays = read_arrays(
        folder / "split.npz",
        ("labeled", "unlabeled", "targets", "class_order", "class_names", "seen", "seed"),
        optional=("total", "test", "validation", "confirmed"),
    )
    _check_split(arrays)
    names = tuple(clean_line(name) or str(i) for i, name in enumerate(arrays["class_names"]))
    classes = Classes(int(arrays["seen"]), int(arrays.get("total", len(names))))
    names = with_cluster_names(names, classes.seen, arrays["targets"])
    optional_ids = {name: arrays[name] for name in ("test", "validation", "confirmed") if name in arrays}
    labeled, unlabeled, class_order = (arrays[name] for name in ("labeled", "unlabeled", "class_order"))
    split = Split(labeled, unlabeled, classes, class_order, names, int(arrays["seed"]), **optional_ids)
    return split, arrays["targets"].astype(np.int64)


def write_snapshot(folder: Path, epoch: int, snapshot: Snapshot) -> None:
    write_arrays(folder / f"epoch-{epoch:04d}.npz", **vars(snapshot))


def read_snapshot(folder: Path, epoch: int, thinned: bool = False) -> Snapshot:
    """Read the snapshot of an epoch; raises `UserError` if it is missing or damaged.

    thinned: read the features of at most `MAX_POINTS` images, evenly spread, and `MAX_VALUES` numbers in all; the
    others are never in memory.
    """
    required = ("predicted", "confidence", "features", "feature_index")
    path = folder / f"epoch-{epoch:04d}.npz"
    thinned_names = ("features", "feature_index") if thinned else ()
    snapshot = Snapshot(**read_arrays(path, required, optional=("test_predicted",), thinned=thinned_names))
    pairs = ((snapshot.predicted, snapshot.confidence), (snapshot.features, snapshot.feature_index))
    if any(len(first) != len(second) for first, second in pairs):
        raise UserError(path.name, "is damaged (its arrays are inconsistent)")
    return snapshot


def read_thinned_features(folder: Path, epoch: int, most: int = MAX_POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Return (features, feature_index) of a thinned snapshot, or of at most `most` of its images, evenly spread.

    The predictions are not read. Raises `UserError`.
    """
    with open_features(folder, epoch) as stored:
        shape = stored.head("features").shape
        rows = _thinned_rows(shape[0], math.prod(shape[1:]))
        rows = np.arange(shape[0]) if rows is None else rows
        rows = rows[_spread_rows(len(rows), most)]
        return stored.rows("features", rows), stored.rows("feature_index", rows)


def _spread_rows(count: int, most: int) -> np.ndarray:
    """Return at most `most` of `count` rows, evenly spread, ascending."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(int)


def _thinned_rows(count: int, width: int = 1) -> np.ndarray | None:
    """Return evenly spread rows of `count` with `width` values each: at most `MAX_POINTS`, and `MAX_VALUES` in all.

    None for all of them.
    """
    most = min(MAX_POINTS, max(2, MAX_VALUES // max(1, width)))
    return None if count <= most else _spread_rows(count, most)


def snapshot_epochs(folder: Path) -> list[int]:
    """Return the epochs that have a snapshot, ascending."""
    names = (NAME.fullmatch(path.name) for path in folder.glob("epoch-*.npz"))
    return sorted(epoch for match in names if match and (epoch := int(match[1])) <= MAX_EPOCHS)


def check_ids(name: str, predicted: np.ndarray, ids: np.ndarray, classes: Classes, images: str = "unlabeled") -> None:
    """Raise `UserError` unless an array of the file `name` has one class id for each of the images `ids`.

    Counts by pairs of ids need memory in proportion to the square of the largest id.
    """
    if predicted.shape != ids.shape or predicted.dtype.kind not in "iu":
        raise UserError(name, f"does not have one class id for each of the {len(ids)} {images} images")
    id_limit = max(_MAX_IDS, classes.total)
    if len(predicted) and not 0 <= predicted.min() <= predicted.max() < id_limit:
        value_range = f"{predicted.min()} to {predicted.max()}"
        raise UserError(name, f"has class ids from {value_range}; expected 0 to {id_limit - 1}")


def stored_epochs(run: Run) -> list[int]:
    """Return the epochs that have a snapshot, at least one; raises `UserError` with the reason if there is none."""
    if epochs := snapshot_epochs(run.snapshots):
        return epochs
    if read_recent(run.events, 1).epoch:
        raise UserError("predictions", "were not found in the folder of the run")
    raise UserError("predictions", NO_EPOCH_YET)


def write_arrays(path: Path, **arrays: np.ndarray) -> None:
    """Write an .npz with its version, completely or not at all.

    Large features are not compressed: compression would save a tenth of their space and take most of the reading time.
    """
    buffer = io.BytesIO()
    large = {name: arrays.pop(name) for name in ("features",) if name in arrays and arrays[name].nbytes > _LARGE}
    np.savez_compressed(buffer, **({"version": np.array(versions.VERSIONS["arrays"])} | arrays))
    with zipfile.ZipFile(buffer, "a") as archive:
        for name, array in large.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            archive.writestr(f"{name}.npy", member.getbuffer())
    write_whole(path, buffer.getvalue())


def read_arrays(path: Path, names, optional=(), thinned: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """Return the named arrays of an .npz, and existing `optional` ones; raises `UserError` if damaged or missing.

    thinned: arrays of which only some rows are read, those of `_thinned_rows` for the first of them. Runs of earlier
    versions have fewer arrays; of a file of a later version only the version is read.
    """
    with _open_arrays(path) as stored:
        array_names = [*names, *(name for name in optional if name in stored.names)]
        rows = None
        if thinned:
            shape = stored.head(thinned[0]).shape
            rows = _thinned_rows(shape[0], math.prod(shape[1:]))
        size = 0
        for name in array_names:
            array_bytes = _check_head(path.name, name, stored.head(name))
            size += array_bytes if rows is None or name not in thinned else array_bytes * len(rows) // shape[0]
        if size > MAX_ARRAYS:
            expected = f"expected at most {MAX_ARRAYS >> 20} MB"
            raise UserError(path.name, f"takes {size / 2**20:,.0f} MB of memory; {expected}")
        arrays = {name: stored.read(name) for name in array_names if rows is None or name not in thinned}
        if rows is not None:
            arrays |= {name: stored.rows(name, rows) for name in thinned}
    return arrays


@contextmanager
def open_features(folder: Path, epoch: int) -> Iterator[ArrayFile]:
    """Open a snapshot whose arrays `features` and `feature_index` are sound, to read it in parts.

    Damage that is found while reading, also inside the `with`, becomes a `UserError`.
    """
    path = folder / f"epoch-{epoch:04d}.npz"
    with _open_arrays(path) as stored:
        features, index = stored.head("features"), stored.head("feature_index")
        for name, head in {"features": features, "feature_index": index}.items():
            _check_head(path.name, name, head)
        if features.shape[0] != index.shape[0]:
            raise UserError(path.name, "is damaged (its arrays are inconsistent)")
        yield stored


@contextmanager
def _open_arrays(path: Path) -> Iterator[ArrayFile]:
    """Open an .npz of a known version; any damage, also inside the `with`, becomes a `UserError`."""
    try:
        with open_regular(path) as file, ArrayFile(file) as stored:
            if "version" in stored.names:
                _check_head(path.name, "seed", stored.head("version"))
                versions.check_version("arrays", stored.read("version").item(), path.name)
            yield stored
    except FileNotFoundError:
        raise UserError(path.name, "does not exist yet") from None
    except OSError as error:
        raise UserError(path.name, f"cannot be read ({disk_error_in_words(error)})") from None
    except KeyError:
        raise UserError(path.name, "is damaged (arrays are missing)") from None
    except UserError:
        raise
    except Exception:  # a damaged archive fails in any layer, with any error
        raise UserError(path.name, "is damaged (its arrays cannot be read)") from None


def _check_head(file_name: str, name: str, head: ArrayHead) -> int:
    """Return the bytes that an array takes; raises `UserError` unless it has the form for its name."""
    kinds, limits, width = _ARRAY_KINDS.get(name, (head.dtype.kind, head.shape, head.dtype.itemsize))
    dtype, shape = head.dtype, head.shape
    if dtype.hasobject or dtype.kind not in kinds or len(shape) != len(limits) or dtype.itemsize > width:
        raise UserError(
            file_name, f"is damaged ({name} has an unexpected type or shape: {shorten(f'{dtype} {shape}')})"
        )
    if any(side > limit for side, limit in zip(shape, limits)):
        raise UserError(file_name, f"is damaged ({name} has the shape {shape}; expected at most {limits})")
    return head.size if name != "features" else math.prod(shape) * 4  # they are worked with as float32


def _check_split(arrays: dict[str, np.ndarray]) -> None:
    """Raise `UserError` for numbers that no split has."""
    images, classes = len(arrays["targets"]), len(arrays["class_order"])
    ids = [arrays[name] for name in ("labeled", "unlabeled", "test", "validation", "confirmed") if name in arrays]
    checks = [(ids_of_part, 0, images) for ids_of_part in ids]
    checks += [(arrays["class_order"], 0, classes), (arrays["targets"], -1, classes)]
    checks += [(arrays[name].reshape(1), 1, MAX_CLASSES + 1) for name in ("seen", "total") if name in arrays]
    is_outside = any(len(part) and not (least <= part.min() and part.max() < end) for part, least, end in checks)
    names = len(arrays["class_names"])
    seen, total = int(arrays["seen"]), int(arrays.get("total", names))  # a model may look for fewer than there are
    if is_outside or not classes <= names <= max(classes, total) or seen > total:
        raise UserError("split.npz", "is damaged (its numbers are inconsistent)")
