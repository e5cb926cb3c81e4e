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
from lps.files.versions import MOST_ARRAYS, MOST_CLASSES, MOST_EPOCHS, MOST_IMAGES, MOST_WIDTH
from lps.store.events_tail import read_recent
from lps.store.runs import Run

# Kind of numbers (of NumPy's dtype), the longest array, bytes of an entry at most.
_IMAGES, _CLASSES, _ONE = (MOST_IMAGES,), (MOST_CLASSES,), ()
_FORMS = {
    **dict.fromkeys("labeled unlabeled test validation confirmed images given targets".split(), ("iu", _IMAGES, 8)),
    **dict.fromkeys("predicted test_predicted feature_index index".split(), ("iu", _IMAGES, 8)),
    **dict.fromkeys("seen total seed epoch pictures named decisions".split(), ("iu", _ONE, 8)),
    **dict.fromkeys(("class_order", "rows"), ("iu", _CLASSES, 8)),
    **dict.fromkeys(("class_names", "names"), ("U", _CLASSES, 4096)),
    **dict.fromkeys(("parent", "rule"), ("U", _ONE, 4096)),
    "threshold": ("f", _ONE, 8),
    "confidence": ("f", _IMAGES, 8),
    "points": ("f", (MOST_IMAGES, 2), 8),
    "features": ("f", (MOST_IMAGES, MOST_WIDTH), 4),
}
MOST_VALUES = 8 << 20  # features x images that a page looks at: 32 MB as float32
_LARGE = 16 << 20  # bytes of features that are not compressed
MOST_POINTS = 50_000  # images whose features a page looks at
_MOST_IDS = 1000  # predicted ids beyond this, and beyond the classes, are damage
NOT_YET = "no epoch has been evaluated yet"
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
    """`split.npz`, once; truth: class id of every image, -1 unknown."""
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
    """(split, class id of every image) of a run folder; raises `UserError` where it is missing or damaged."""
    arrays = read_arrays(
        folder / "split.npz",
        ("labeled", "unlabeled", "targets", "class_order", "class_names", "seen", "seed"),
        optional=("total", "test", "validation", "confirmed"),
    )
    _check_split(arrays)
    names = tuple(clean_line(name) or str(i) for i, name in enumerate(arrays["class_names"]))
    classes = Classes(int(arrays["seen"]), int(arrays.get("total", len(names))))
    names = with_cluster_names(names, classes.seen, arrays["targets"])
    more = {name: arrays[name] for name in ("test", "validation", "confirmed") if name in arrays}
    split = Split(
        arrays["labeled"], arrays["unlabeled"], classes, arrays["class_order"], names, int(arrays["seed"]), **more
    )
    return split, arrays["targets"].astype(np.int64)


def write_snapshot(folder: Path, epoch: int, snapshot: Snapshot) -> None:
    write_arrays(folder / f"epoch-{epoch:04d}.npz", **vars(snapshot))


def read_snapshot(folder: Path, epoch: int, thinned: bool = False) -> Snapshot:
    """The snapshot of an epoch; raises `UserError` where it is missing or damaged.

    thinned: with the features of at most `MOST_POINTS` images, evenly spread, and `MOST_VALUES` in all; the others are
    never in memory.
    """
    required = ("predicted", "confidence", "features", "feature_index")
    path = folder / f"epoch-{epoch:04d}.npz"
    few = ("features", "feature_index") if thinned else ()
    snapshot = Snapshot(**read_arrays(path, required, optional=("test_predicted",), thinned=few))
    pairs = ((snapshot.predicted, snapshot.confidence), (snapshot.features, snapshot.feature_index))
    if any(len(first) != len(second) for first, second in pairs):
        raise UserError(path.name, "is damaged (its arrays are inconsistent)")
    return snapshot


def read_thinned_features(folder: Path, epoch: int, most: int = MOST_POINTS) -> tuple[np.ndarray, np.ndarray]:
    """(features, feature_index) of a thinned snapshot, or of at most `most` images evenly spread among its images.

    The predictions are not read. Raises `UserError`.
    """
    with open_features(folder, epoch) as stored:
        shape = stored.head("features").shape
        rows = _kept_rows(shape[0], math.prod(shape[1:]))
        rows = np.arange(shape[0]) if rows is None else rows
        rows = rows[_spread_rows(len(rows), most)]
        return stored.rows("features", rows), stored.rows("feature_index", rows)


def _spread_rows(count: int, most: int) -> np.ndarray:
    """At most `most` of `count` rows, evenly spread, ascending."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(int)


def _kept_rows(count: int, width: int = 1) -> np.ndarray | None:
    """Rows, evenly spread, of `count` with `width` values each: at most `MOST_POINTS`, and `MOST_VALUES` in all.

    None for all of them.
    """
    most = min(MOST_POINTS, max(2, MOST_VALUES // max(1, width)))
    return None if count <= most else _spread_rows(count, most)


def snapshot_epochs(folder: Path) -> list[int]:
    """The epochs that have a snapshot, ascending."""
    names = (NAME.fullmatch(path.name) for path in folder.glob("epoch-*.npz"))
    return sorted(epoch for match in names if match and (epoch := int(match[1])) <= MOST_EPOCHS)


def check_ids(name: str, predicted: np.ndarray, ids: np.ndarray, classes: Classes, images: str = "unlabeled") -> None:
    """Raises `UserError` unless an array of the file `name` holds a class id for each of the images `ids`.

    What is counted by pairs of ids takes memory by the square of the largest one.
    """
    if predicted.shape != ids.shape or predicted.dtype.kind not in "iu":
        raise UserError(name, f"does not have one class id for each of the {len(ids)} {images} images")
    most = max(_MOST_IDS, classes.total)
    if len(predicted) and not 0 <= predicted.min() <= predicted.max() < most:
        value_range = f"{predicted.min()} to {predicted.max()}"
        raise UserError(name, f"has class ids from {value_range}; expected 0 to {most - 1}")


def stored_epochs(run: Run) -> list[int]:
    """As `snapshot_epochs`, at least one; raises `UserError` where there is none, and says why."""
    if epochs := snapshot_epochs(run.snapshots):
        return epochs
    if read_recent(run.events, 1).epoch:
        raise UserError("snapshots", "were not found: the folder has no predictions of any epoch")
    raise UserError("snapshots", NOT_YET)


def write_arrays(path: Path, **arrays: np.ndarray) -> None:
    """A .npz with its version, whole or not at all.

    Large features are not compressed: that saves a tenth of their space, and takes most of the time of reading them.
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
    """The named arrays of an .npz, `optional` ones where it has them; raises `UserError` where it is damaged or gone.

    thinned: those of which only the rows are read that `_kept_rows` names for the first of them. Runs of earlier
    versions have fewer arrays; of one of a later version no more than its number is read.
    """
    with _opened(path) as stored:
        array_names = [*names, *(name for name in optional if name in stored.names)]
        rows = None
        if thinned:
            shape = stored.head(thinned[0]).shape
            rows = _kept_rows(shape[0], math.prod(shape[1:]))
        size = 0
        for name in array_names:
            own = _check_head(path.name, name, stored.head(name))
            size += own if rows is None or name not in thinned else own * len(rows) // shape[0]
        if size > MOST_ARRAYS:
            most = f"expected at most {MOST_ARRAYS >> 20} MB"
            raise UserError(path.name, f"takes {size / 2**20:,.0f} MB of memory; {most}")
        arrays = {name: stored.read(name) for name in array_names if rows is None or name not in thinned}
        if rows is not None:
            arrays |= {name: stored.rows(name, rows) for name in thinned}
    return arrays


@contextmanager
def open_features(folder: Path, epoch: int) -> Iterator[ArrayFile]:
    """The file of a snapshot whose arrays `features` and `feature_index` are sound, to be read in parts.

    What is found to be damaged while it is read, also inside the `with`, becomes a `UserError`.
    """
    path = folder / f"epoch-{epoch:04d}.npz"
    with _opened(path) as stored:
        features, index = stored.head("features"), stored.head("feature_index")
        for name, head in {"features": features, "feature_index": index}.items():
            _check_head(path.name, name, head)
        if features.shape[0] != index.shape[0]:
            raise UserError(path.name, "is damaged (its arrays are inconsistent)")
        yield stored


@contextmanager
def _opened(path: Path) -> Iterator[ArrayFile]:
    """An .npz of a version that is known; whatever is damaged, also inside the `with`, becomes a `UserError`."""
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
    """The bytes that an array takes; raises `UserError` unless it has the form of its name."""
    kinds, most, width = _FORMS.get(name, (head.dtype.kind, head.shape, head.dtype.itemsize))
    dtype, shape = head.dtype, head.shape
    if dtype.hasobject or dtype.kind not in kinds or len(shape) != len(most) or dtype.itemsize > width:
        raise UserError(
            file_name, f"is damaged ({name} has an unexpected type or shape: {shorten(f'{dtype} {shape}')})"
        )
    if any(side > limit for side, limit in zip(shape, most)):
        raise UserError(file_name, f"is damaged ({name} has the shape {shape}; expected at most {most})")
    return head.size if name != "features" else math.prod(shape) * 4  # they are worked with as float32


def _check_split(arrays: dict[str, np.ndarray]) -> None:
    """Raises `UserError` for numbers that no split has."""
    images, classes = len(arrays["targets"]), len(arrays["class_order"])
    ids = [arrays[name] for name in ("labeled", "unlabeled", "test", "validation", "confirmed") if name in arrays]
    checks = [(ids_of_part, 0, images) for ids_of_part in ids] + [
        (arrays["class_order"], 0, classes),
        (arrays["targets"], -1, classes),
    ]
    checks += [(arrays[name].reshape(1), 1, MOST_CLASSES + 1) for name in ("seen", "total") if name in arrays]
    is_outside = any(
        len(values) and not (least <= values.min() and values.max() < end) for values, least, end in checks
    )
    names = len(arrays["class_names"])
    seen, total = int(arrays["seen"]), int(arrays.get("total", names))  # a model may look for fewer than there are
    if is_outside or not classes <= names <= max(classes, total) or seen > total:
        raise UserError("split.npz", "is damaged (its numbers are inconsistent)")
