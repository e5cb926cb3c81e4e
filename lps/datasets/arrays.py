"""Pictures in one `.npz` file: x_train, y_train, and optionally x_test, y_test, class_names.

x_*: uint8 (n, height, width) or (n, height, width, channels) with 1 or 3 channels. y_*: whole numbers (n,), -1 where
the class is unknown. class_names: one text per class; without it the names are the numbers. Every header is checked
before anything is unpacked, and nothing in the file can run code.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from lps.datasets import Images, repeated
from lps.datasets._recipes import PHOTOS
from lps.datasets.readers.array_file import ArrayFile, ArrayHead, opened
from lps.datasets.readers.picture_cache import Writer, cached_images
from lps.errors import UserError
from lps.files.atomic import clean_line
from lps.machine import memory
from lps.wording import data_size

TITLE = "Arrays in a file"
SUMMARY = "One .npz: x_train (uint8 n,h,w[,channels]), y_train (-1 unknown); optional x_test, y_test, class_names."
PATH = "The .npz file"

RECIPE = PHOTOS

_KNOWN = ("x_train", "y_train", "x_test", "y_test", "class_names")
_EXPECTED = "a .npz file with x_train and y_train"
_PIXELS = ("x_train", "x_test")
_ALONE = ("x", *_PIXELS)  # arrays of pictures without class information
LARGE = 512 << 20  # bytes of pixels that are memory-mapped
_ROOM = 0.8  # share of the free memory for arrays that are not mapped
_SMALLEST = 4  # pixels of a side; smaller pictures do not show classes


def load(path: str | None, image_size: int | None = None) -> Images:
    """Load the images of the file; `lps.data.sources.load` resizes them. Raises `UserError`.

    Large arrays are unpacked piece by piece into the cache of decoded pictures, and mapped from there.
    """
    with opened(path, _KNOWN.__contains__, _check, _EXPECTED) as (stored, heads):
        size = sum(math.prod(head.shape) for name, head in heads.items() if name in _PIXELS)
        _check_memory(heads, is_mapped=size >= LARGE)
        if size >= LARGE:
            source = ("arrays", os.path.abspath(path))
            return cached_images(source, repr(stamp(path)), lambda writer: _unpacked(stored, heads, writer), space=size)
        pixels = [stored.read(name) for name in _PIXELS if name in heads]
        x = pixels[0] if len(pixels) == 1 else np.concatenate(pixels)
        return replace(_without_pixels(stored, heads), pixels=x if x.ndim == 4 else x[..., None])


def pictures_alone(path: str) -> Iterator[np.ndarray]:
    """Yield the pictures of a file, uint8 (m, height, width, channels) piece by piece, ignoring classes.

    Reads `x`, else x_train and then x_test. Raises `UserError`.
    """
    with opened(path, _ALONE.__contains__, _check_alone, _EXPECTED) as (stored, heads):
        _check_memory(heads, is_mapped=True)
        for name in ("x",) if "x" in heads else _PIXELS:
            if name in heads:
                for pixels in stored.pieces(name):
                    yield pixels if pixels.ndim == 4 else pixels[..., None]


def _check_alone(heads: dict[str, ArrayHead]) -> None:
    if not heads:
        raise UserError("dataset.path", f"the file has no pictures; expected one of {', '.join(_ALONE)}")
    for name, head in heads.items():
        _check_pixels(name, head)
        _check_sides(name, head)


def _check_memory(heads: dict[str, ArrayHead], is_mapped: bool) -> None:
    """Raise `UserError` if the arrays that must be in memory at once need more than a share of the free memory.

    Of mapped pixels these are the arrays in column order; `kept` checks the disk.
    """
    free = memory.free_memory()
    for name, head in heads.items():
        is_piecewise = is_mapped and name in _ALONE and not head.by_columns
        # An array in column order is in memory twice: unpacked, and row by row.
        needed = 0 if is_piecewise else head.size * (2 if name in _ALONE else 3)
        if free and needed > _ROOM * free[0]:
            reason = " because it is stored in Fortran order" if is_mapped and name in _ALONE else ""
            raise UserError(
                "dataset.path",
                f"{name} takes {data_size(needed)} of memory{reason}, and {data_size(free[0])} are free; "
                f"expected at most {100 * _ROOM:.0f} % of the free memory",
            )


def _unpacked(stored: ArrayFile, heads: dict[str, ArrayHead], writer: Writer) -> Images:
    """Write the pixels of the file; return the rest."""
    labels_only = _without_pixels(stored, heads)
    for name in _PIXELS:
        if name in heads:
            for pixels in stored.pieces(name):
                writer.add(pixels if pixels.ndim == 4 else pixels[..., None])
    return labels_only


def _without_pixels(stored: ArrayFile, heads: dict[str, ArrayHead]) -> Images:
    """Return labels and names, checked."""
    arrays = {name: stored.read(name) for name in heads if name not in _PIXELS}
    arrays |= {name: arrays[name].astype(np.int64) for name in ("y_train", "y_test") if name in arrays}
    labels = [arrays[name] for name in ("y_train", "y_test") if name in arrays]
    num_test = len(labels[1]) if len(labels) == 2 else 0
    return Images(np.zeros(0, np.uint8), np.concatenate(labels), _class_names(arrays), num_test)


def stamp(path: str | None) -> object:
    """Return modification time and size of the file."""
    try:
        status = Path(path or "").stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size


def is_coloured(path: str | None) -> bool:
    """Return whether the pictures of the file have three channels, from its headers; False if it cannot be read."""
    try:
        with opened(path, _KNOWN.__contains__, _check, _EXPECTED) as (_, heads):
            return heads["x_train"].shape[3:] == (3,)
    except UserError:
        return False


def _check(headers: dict[str, ArrayHead]) -> None:
    """Check types, shapes and lengths as far as the headers show them."""
    for name in ("x_train", "y_train"):
        if name not in headers:
            raise UserError("dataset.path", f"the file has no {name}; expected x_train and y_train")
    if ("x_test" in headers) != ("y_test" in headers):
        present, missing = ("x_test", "y_test") if "x_test" in headers else ("y_test", "x_test")
        raise UserError("dataset.path", f"the file has {present} but no {missing}; expected both or none")
    for part in ("train", "test"):
        if f"x_{part}" in headers:
            _check_part(f"x_{part}", headers[f"x_{part}"], f"y_{part}", headers[f"y_{part}"])
    if headers["x_train"].shape[0] == 0:
        raise UserError("dataset.path", "x_train has no images")
    if "x_test" in headers and headers["x_test"].shape[1:] != headers["x_train"].shape[1:]:
        train, test = headers["x_train"].shape[1:], headers["x_test"].shape[1:]
        raise UserError("dataset.path", f"images of x_test have the shape {test}, those of x_train {train}")
    names = headers.get("class_names")
    if names and (len(names.shape) != 1 or names.dtype.kind not in "US"):
        raise UserError("dataset.path", f"class_names is {_shape_in_words(names)}; expected one text per class")


def _check_pixels(x_name: str, x: ArrayHead) -> None:
    if x.dtype != np.uint8:
        raise UserError("dataset.path", f"{x_name} holds {x.dtype}; expected uint8, that is 0 to 255")
    if not (len(x.shape) == 3 or (len(x.shape) == 4 and x.shape[3] in (1, 3))) or 0 in x.shape[1:]:
        raise UserError(
            "dataset.path",
            f"{x_name} has the shape {x.shape}; expected (images, height, width) or (images, height, width, channels) "
            "with 1 or 3 channels",
        )


def _check_part(x_name: str, x: ArrayHead, y_name: str, y: ArrayHead) -> None:
    _check_pixels(x_name, x)
    if y.dtype.kind not in "iu" or len(y.shape) != 1:
        raise UserError("dataset.path", f"{y_name} is {_shape_in_words(y)}; expected one whole number per image")
    if y.shape[0] != x.shape[0]:
        raise UserError("dataset.path", f"{x_name} has {x.shape[0]} images and {y_name} {y.shape[0]} labels")
    _check_sides(x_name, x)


def _check_sides(x_name: str, x: ArrayHead) -> None:
    if min(x.shape[1:3]) < _SMALLEST:
        height, width = x.shape[1:3]
        raise UserError(
            "dataset.path",
            f"{x_name} holds images of {height} x {width} pixels; expected at least {_SMALLEST} per side",
        )


def _shape_in_words(header: ArrayHead) -> str:
    return f"{header.dtype} of the shape {header.shape}"


def _class_names(arrays: dict[str, np.ndarray]) -> tuple[str, ...]:
    """Return the class names after checking that they fit the labels and that each class has an image."""
    y = arrays["y_train"]
    for name in ("y_train", "y_test"):
        if name in arrays and arrays[name].min(initial=0) < -1:
            raise UserError("dataset.path", f"{name} holds {arrays[name].min()}; expected -1 (unknown) or a class id")
    if y.max() < 0:
        raise UserError("dataset.path", "y_train has no known class; expected some labels that are not -1")
    if y.max() >= len(y):
        raise UserError("dataset.path", f"y_train holds {y.max()}; expected class ids 0, 1, 2, ... without gaps")
    counts = np.bincount(y[y >= 0])
    names = tuple(str(i) for i in range(len(counts)))
    if "class_names" in arrays:
        stored_names = arrays["class_names"]
        texts = [t.decode("utf-8", "replace") if isinstance(t, bytes) else t for t in stored_names.tolist()]
        names = tuple(clean_line(text) or str(i) for i, text in enumerate(texts))
        if twice := repeated(names):
            raise UserError("dataset.path", f"class_names has {twice} twice; expected a different name for each class")
        if len(names) < len(counts):
            raise UserError(
                "dataset.path", f"class_names has {len(names)} names, but y_train has class ids up to {y.max()}"
            )
    missing = np.flatnonzero(np.bincount(y[y >= 0], minlength=len(names)) == 0)
    if len(missing):
        raise UserError("dataset.path", f"class {missing[0]} ({names[missing[0]]}) has no image in y_train")
    if "y_test" in arrays and arrays["y_test"].max(initial=-1) >= len(names):
        highest = arrays["y_test"].max()
        raise UserError(
            "dataset.path", f"y_test holds class {highest}; expected only classes of y_train, 0 to {len(names) - 1}"
        )
    return names
