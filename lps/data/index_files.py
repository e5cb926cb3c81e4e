"""Published splits as image ids: the folders of index files that BaCon publishes.

`l_k_uq_idxs` has the labeled images of seen classes, `unl_k_uq_idxs` the unlabeled ones, `unl_unk_uq_idxs` those of
novel classes (Bai et al., NeurIPS 2023, folder data_uq_idxs). Each is a NumPy array of ids of training images, as
`.npy` or as torch.save wrote it, which is a pickle in a ZIP. The pickle is read without executing any of it.
"""

import io
import pickle
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lps.errors import UserError, shorten
from lps.files.atomic import SMALL_FILE, read_small

SETTING = "split.index_files"
NAMES = ("l_k_uq_idxs", "unl_k_uq_idxs", "unl_unk_uq_idxs")
_DAMAGES = (OSError, ValueError, LookupError, EOFError, TypeError, AttributeError, MemoryError, NotImplementedError,
            RuntimeError, zipfile.BadZipFile, pickle.UnpicklingError)  # fmt: skip
_PICKLE = "/data.pkl"  # its name inside a file of torch.save
_ARRAY = object()  # stands for numpy.ndarray in a pickle, which could otherwise make one of any size


class IndexedImages(NamedTuple):
    """Ids of training images, int64, ascending; the lists are disjoint."""

    labeled: np.ndarray
    unlabeled: np.ndarray


def read_index_files(folder: str, labels: np.ndarray) -> IndexedImages:
    """Return the split that the files of `folder` describe; raises `UserError`.

    labels: int64 (n,), original class ids of the training images, which the ids index from 0.
    """
    labeled, of_seen, of_novel = (_read(Path(folder), name) for name in NAMES)
    for name, ids in zip(NAMES, (labeled, of_seen, of_novel)):
        if not len(ids) or ids.min() < 0 or ids.max() >= len(labels):
            raise UserError(
                SETTING, f"{name} has ids that are not training images; their ids are 0 to {len(labels) - 1:,}"
            )
    all_ids = np.concatenate([labeled, of_seen, of_novel])
    if len(np.unique(all_ids)) < len(all_ids):
        raise UserError(SETTING, f"{shorten(folder, 120)} names an image twice; expected each image once")
    seen = np.unique(labels[labeled])
    if not np.isin(labels[of_seen], seen).all() or np.isin(labels[of_novel], seen).any():
        raise UserError(
            SETTING, f"{shorten(folder, 120)} does not fit this data set: some classes are both seen and novel"
        )
    return IndexedImages(np.sort(labeled), np.sort(np.concatenate([of_seen, of_novel])))


def _read(folder: Path, name: str) -> np.ndarray:
    """Read one list of ids, int64 (n,)."""
    for path, read in ((folder / f"{name}.npy", _from_npy), (folder / f"{name}.pt", _from_torch)):
        if path.is_file():
            try:
                ids = read(read_small(path))
                is_list = isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind in "iu"
                ids = ids.astype(np.int64) if is_list else None
            except _DAMAGES as error:
                raise UserError(SETTING, f"{shorten(str(path), 120)} cannot be read ({shorten(str(error))})") from None
            if ids is None:
                raise UserError(SETTING, f"{shorten(str(path), 120)} is not a list of whole numbers")
            return ids
    raise UserError(
        SETTING,
        f"{shorten(str(folder), 120)} has no {name}.pt or {name}.npy; expected the three index files of a split, as "
        "the authors of BaCon publish them",
    )


def _from_npy(content: bytes) -> np.ndarray:
    return np.load(io.BytesIO(content), allow_pickle=False)


def _from_torch(content: bytes) -> np.ndarray:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        (member,) = [info for info in archive.infolist() if info.filename.endswith(_PICKLE)]
        if member.file_size > SMALL_FILE:
            raise ValueError("it is too large")
        return _ArrayUnpickler(io.BytesIO(archive.read(member))).load()


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickler that allows only what a pickled NumPy array needs."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) == ("_codecs", "encode"):
            return _encode_latin1
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return _empty_array  # shape, type and bytes are set afterwards
        if (module, name) == ("numpy", "ndarray"):
            return _ARRAY
        if (module, name) == ("numpy", "dtype"):
            return np.dtype
        raise pickle.UnpicklingError(f"it refers to {module}.{name}, which is not an array of numbers")


def _encode_latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError("it is not an array of numbers")
    return text.encode("latin1")


def _empty_array(kind: type, shape: tuple, code: bytes) -> np.ndarray:
    if kind is not _ARRAY or shape != (0,):
        raise pickle.UnpicklingError("it is not an array of numbers")
    return np.empty(0, np.int8)
