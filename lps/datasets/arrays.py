"""Pictures in one `.npz` file: x_train, y_train, and where there are any x_test, y_test, class_names.

x_*: uint8 (n, height, width) or (n, height, width, channels) with 1 or 3 channels. y_*: whole numbers (n,), -1 where
the class is unknown. class_names: one text a class; without it the names are the numbers. Every header is looked at
before anything is unpacked, and nothing in the file can run code.
"""

import math
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from lps.datasets import Images, quoted
from lps.files import clean_line
from lps.parameters import ConfigError

TITLE = "Arrays in a file"
SUMMARY = "One .npz: x_train (uint8 n,h,w[,channels]), y_train (-1 unknown); optional x_test, y_test, class_names."
PATH = "The .npz file"

RECIPE = {
    "epochs": 200,
    "batch_size": 512,
    "network.name": "cifar_resnet18",
    "network.freeze_until": "layer3",
    "views": "cifar",
    "pretrain.epochs": 500,
    "pretrain.batch_size": 512,
    "pretrain.optimizer": "sgd",
    "pretrain.lr": 0.06,
    "pretrain.weight_decay": 5e-4,
    "pretrain.projector_outputs": 128,
    "pretrain.temperature": 0.5,
}

KNOWN = ("x_train", "y_train", "x_test", "y_test", "class_names")
LARGEST = 64 << 30  # bytes of one array
SMALLEST = 4  # pixels of a side; fewer tell no classes apart
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, NotImplementedError, RuntimeError, KeyError)


@dataclass(frozen=True)
class Header:
    """What an array says of itself before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype


def load(path: str | None, image_size: int | None = None) -> Images:
    """The images of the file; `datasets.load` does the resizing. Raises `ConfigError`."""
    arrays = _read(path)
    arrays |= {name: arrays[name].astype(np.int64) for name in ("y_train", "y_test") if name in arrays}
    x, y = arrays["x_train"], arrays["y_train"]
    num_test = 0
    if "x_test" in arrays:
        num_test = len(arrays["x_test"])
        x, y = np.concatenate([x, arrays["x_test"]]), np.concatenate([y, arrays["y_test"]])
    return Images(x if x.ndim == 4 else x[..., None], y, _class_names(arrays), num_test)


def stamp(path: str | None) -> object:
    """When the file changed, and its size."""
    try:
        found = Path(path or "").stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size


def _read(path: str | None) -> dict[str, np.ndarray]:
    """The known arrays of the file, checked for types, shapes and lengths."""
    if path is None:
        raise ConfigError("dataset.path", "is missing; expected a .npz file with x_train and y_train")
    if not os.path.isfile(path):  # which, unlike a Path, takes a name of any length
        what = "is no file" if os.path.exists(path) else "does not exist"
        raise ConfigError("dataset.path", f"{quoted(path)} {what}; expected a .npz file with x_train and y_train")
    try:
        with zipfile.ZipFile(path) as archive:
            headers = _headers(archive)
            _check(headers)
            return {name: _array(archive, name) for name in headers}
    except MemoryError:
        raise ConfigError("dataset.path", f"{quoted(path)} does not fit in this machine's memory") from None
    except ConfigError:
        raise
    except PermissionError as error:
        raise ConfigError("dataset.path", f"{quoted(path)} cannot be read ({error.strerror})") from None
    except DAMAGE as error:
        what = "is damaged" if zipfile.is_zipfile(path) else "is not a .npz file (or is damaged)"
        raise ConfigError("dataset.path", f"{quoted(path)} {what}: {clean_line(error)}") from None


def _headers(archive: zipfile.ZipFile) -> dict[str, Header]:
    """What the known arrays say of themselves; other members are not looked at. Raises `ConfigError`, `ValueError`."""
    headers = {}
    for name in KNOWN:
        try:
            member = archive.getinfo(f"{name}.npy")
        except KeyError:
            continue
        with archive.open(member) as file:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(file)
            size = file.tell() + math.prod(shape) * dtype.itemsize
        if dtype.hasobject:
            raise ConfigError(
                "dataset.path", f"{name} holds Python objects; expected numbers (or texts of fixed width)"
            )
        if member.file_size > LARGEST:
            raise ConfigError("dataset.path", f"{name} takes {member.file_size / 2**30:.0f} GiB; expected at most 64")
        if size != member.file_size:
            raise ValueError(f"{name} is not as long as its header says")
        headers[name] = Header(shape, dtype)
    return headers


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as file:
        return npy.read_array(file, allow_pickle=False)


def _check(headers: dict[str, Header]) -> None:
    """Types, shapes and lengths, as far as the headers tell."""
    for name in ("x_train", "y_train"):
        if name not in headers:
            raise ConfigError("dataset.path", f"the file has no {name}; expected x_train and y_train")
    if ("x_test" in headers) != ("y_test" in headers):
        there, missing = ("x_test", "y_test") if "x_test" in headers else ("y_test", "x_test")
        raise ConfigError("dataset.path", f"the file has {there} but no {missing}; expected both or none")
    for part in ("train", "test"):
        if f"x_{part}" in headers:
            _check_part(f"x_{part}", headers[f"x_{part}"], f"y_{part}", headers[f"y_{part}"])
    if headers["x_train"].shape[0] == 0:
        raise ConfigError("dataset.path", "x_train holds no image")
    if "x_test" in headers and headers["x_test"].shape[1:] != headers["x_train"].shape[1:]:
        train, test = headers["x_train"].shape[1:], headers["x_test"].shape[1:]
        raise ConfigError("dataset.path", f"images of x_test have the shape {test}, those of x_train {train}")
    names = headers.get("class_names")
    if names and (len(names.shape) != 1 or names.dtype.kind not in "US"):
        raise ConfigError("dataset.path", f"class_names is {_words(names)}; expected one text a class")


def _check_part(x_name: str, x: Header, y_name: str, y: Header) -> None:
    if x.dtype != np.uint8:
        raise ConfigError("dataset.path", f"{x_name} holds {x.dtype}; expected uint8, that is 0 to 255")
    if not (len(x.shape) == 3 or (len(x.shape) == 4 and x.shape[3] in (1, 3))) or 0 in x.shape[1:]:
        raise ConfigError(
            "dataset.path",
            f"{x_name} has the shape {x.shape}; expected (images, height, width) or (images, height, width, channels) "
            "with 1 or 3 channels",
        )
    if y.dtype.kind not in "iu" or len(y.shape) != 1:
        raise ConfigError("dataset.path", f"{y_name} is {_words(y)}; expected one whole number an image")
    if y.shape[0] != x.shape[0]:
        raise ConfigError("dataset.path", f"{x_name} has {x.shape[0]} images and {y_name} {y.shape[0]} labels")
    if min(x.shape[1:3]) < SMALLEST:
        height, width = x.shape[1:3]
        raise ConfigError(
            "dataset.path", f"{x_name} holds images of {height} x {width} pixels; expected {SMALLEST} a side at least"
        )


def _words(header: Header) -> str:
    return f"{header.dtype} of the shape {header.shape}"


def _class_names(arrays: dict[str, np.ndarray]) -> tuple[str, ...]:
    """The names of the classes, after a check that they fit the labels and that each has an image."""
    y = arrays["y_train"]
    for name in ("y_train", "y_test"):
        if name in arrays and arrays[name].min(initial=0) < -1:
            raise ConfigError("dataset.path", f"{name} holds {arrays[name].min()}; expected -1 (unknown) or a class id")
    if y.max() < 0:
        raise ConfigError("dataset.path", "y_train knows no class; expected some labels that are not -1")
    if y.max() >= len(y):
        raise ConfigError("dataset.path", f"y_train holds {y.max()}; expected class ids 0, 1, 2, ... without gaps")
    counts = np.bincount(y[y >= 0])
    names = tuple(str(i) for i in range(len(counts)))
    if "class_names" in arrays:
        given = arrays["class_names"]
        texts = [t.decode("utf-8", "replace") if isinstance(t, bytes) else t for t in given.tolist()]
        names = tuple(clean_line(text) or str(i) for i, text in enumerate(texts))
        if len(set(names)) < len(names):
            raise ConfigError("dataset.path", "class_names holds a name twice; expected a different one for each class")
        if len(names) < len(counts):
            raise ConfigError("dataset.path", f"class_names has {len(names)} names, but y_train goes to {y.max()}")
    missing = np.flatnonzero(np.bincount(y[y >= 0], minlength=len(names)) == 0)
    if len(missing):
        raise ConfigError("dataset.path", f"class {missing[0]} ({names[missing[0]]}) has no image in y_train")
    if "y_test" in arrays and arrays["y_test"].max(initial=-1) >= len(names):
        raise ConfigError("dataset.path", f"y_test holds {arrays['y_test'].max()}; y_train ends at {len(names) - 1}")
    return names
