"""What a run leaves for looking at: `split.npz` once, `snapshots/epoch-*.npz` every epoch. NumPy only."""

import io
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lps.files import write_whole
from lps.parameters import ConfigError
from lps.split import Classes, Split

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
    names = tuple(str(name) for name in arrays["class_names"])
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
    return Snapshot(**read_arrays(folder / f"epoch-{epoch:04d}.npz", required, optional=("test_predicted",)))


def snapshot_epochs(folder: Path) -> list[int]:
    """The epochs that have a snapshot, ascending."""
    names = (NAME.fullmatch(path.name) for path in folder.glob("epoch-*.npz"))
    return sorted(int(found[1]) for found in names if found)


def write_arrays(path: Path, **arrays: np.ndarray) -> None:
    """A compressed .npz, whole or not at all."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_whole(path, buffer.getvalue())


def read_arrays(path: Path, names, optional=()) -> dict[str, np.ndarray]:
    """The named arrays of an .npz, `optional` ones where it has them; raises `ConfigError` where it is damaged or gone.

    Runs of earlier versions have fewer arrays.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in (*names, *(name for name in optional if name in stored))}
    except FileNotFoundError:
        raise ConfigError(path.name, "is not there yet") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        raise ConfigError(path.name, f"is damaged ({str(error).partition(chr(10))[0]})") from None
