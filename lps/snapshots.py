"""What a run leaves for looking at: `split.npz` once, `snapshots/epoch-*.npz` every epoch. NumPy only."""

import io
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lps import schema
from lps.files import clean_line, open_regular, refusal, write_whole
from lps.parameters import ConfigError
from lps.split import Classes, Split

# Kind of numbers (of NumPy's dtype) and dimensions.
FORMS = {name: ("iu", 1) for name in "labeled unlabeled test validation targets class_order".split()}
FORMS |= {name: ("iu", 1) for name in "predicted test_predicted feature_index index".split()}
FORMS |= {"seen": ("iu", 0), "total": ("iu", 0), "seed": ("iu", 0), "class_names": ("U", 1)}
FORMS |= {"confidence": ("f", 1), "features": ("f", 2), "points": ("f", 2)}
NAME = re.compile(r"epoch-([0-9]{1,9})\.npz")


@dataclass(frozen=True)
class Snapshot:
    """What the network said after an epoch.

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
        )


def read_split(folder: Path) -> tuple[Split, np.ndarray]:
    """(split, class id of every image) of a run folder; raises `ConfigError` where it is missing or damaged."""
    arrays = read_arrays(
        folder / "split.npz",
        ("labeled", "unlabeled", "targets", "class_order", "class_names", "seen", "seed"),
        optional=("total", "test", "validation"),
    )
    _check_split(arrays)
    names = tuple(clean_line(name) or str(i) for i, name in enumerate(arrays["class_names"]))
    classes = Classes(int(arrays["seen"]), int(arrays.get("total", len(names))))
    more = {name: arrays[name] for name in ("test", "validation") if name in arrays}
    split = Split(
        arrays["labeled"], arrays["unlabeled"], classes, arrays["class_order"], names, int(arrays["seed"]), **more
    )
    return split, arrays["targets"].astype(np.int64)


def write_snapshot(folder: Path, epoch: int, snapshot: Snapshot) -> None:
    write_arrays(folder / f"epoch-{epoch:04d}.npz", **vars(snapshot))


def read_snapshot(folder: Path, epoch: int) -> Snapshot:
    """The snapshot of an epoch; raises `ConfigError` where it is missing or damaged."""
    required = ("predicted", "confidence", "features", "feature_index")
    path = folder / f"epoch-{epoch:04d}.npz"
    found = Snapshot(**read_arrays(path, required, optional=("test_predicted",)))
    pairs = ((found.predicted, found.confidence), (found.features, found.feature_index))
    if any(len(one) != len(other) for one, other in pairs):
        raise ConfigError(path.name, "is damaged (its arrays do not fit together)")
    return found


def snapshot_epochs(folder: Path) -> list[int]:
    """The epochs that have a snapshot, ascending."""
    names = (NAME.fullmatch(path.name) for path in folder.glob("epoch-*.npz"))
    return sorted(int(found[1]) for found in names if found)


def write_arrays(path: Path, **arrays: np.ndarray) -> None:
    """A compressed .npz with its version, whole or not at all."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **({"version": np.array(schema.VERSIONS["arrays"])} | arrays))
    write_whole(path, buffer.getvalue())


def read_arrays(path: Path, names, optional=()) -> dict[str, np.ndarray]:
    """The named arrays of an .npz, `optional` ones where it has them; raises `ConfigError` where it is damaged or gone.

    Runs of earlier versions have fewer arrays; of one of a later version no more than its number is read.
    """
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as stored:
            if "version" in stored:
                schema.check("arrays", stored["version"].item(), path.name)
            arrays = {name: stored[name] for name in (*names, *(name for name in optional if name in stored))}
    except FileNotFoundError:
        raise ConfigError(path.name, "is not there yet") from None
    except OSError as error:
        raise ConfigError(path.name, f"cannot be read ({refusal(error)})") from None
    except KeyError:
        raise ConfigError(path.name, "is damaged (it lacks arrays that such a file has)") from None
    except ConfigError:
        raise
    except Exception:  # a damaged archive fails in any layer, with any error
        raise ConfigError(path.name, "is damaged (it cannot be read as arrays)") from None
    for name, array in arrays.items():
        kinds, dimensions = FORMS.get(name, (array.dtype.kind, array.ndim))
        if array.dtype.kind not in kinds or array.ndim != dimensions:
            raise ConfigError(path.name, f"is damaged ({name} has another form)")
    return arrays


def _check_split(arrays: dict[str, np.ndarray]) -> None:
    """Raises `ConfigError` for numbers that no split has."""
    images, classes = len(arrays["targets"]), len(arrays["class_order"])
    ids = [arrays[name] for name in ("labeled", "unlabeled", "test", "validation") if name in arrays]
    held = [(each, 0, images) for each in ids] + [(arrays["class_order"], 0, classes), (arrays["targets"], -1, classes)]
    held += [(arrays[name].reshape(1), 1, 2**15) for name in ("seen", "total") if name in arrays]
    is_outside = any(len(values) and not (least <= values.min() and values.max() < end) for values, least, end in held)
    if is_outside or len(arrays["class_names"]) < classes:
        raise ConfigError("split.npz", "is damaged (its numbers do not fit together)")
