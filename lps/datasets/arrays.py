"""Pictures in one `.npz` file: x_train, y_train, and where there are any x_test, y_test, class_names.

x_*: uint8 (n, height, width) or (n, height, width, channels) with 1 or 3 channels. y_*: whole numbers (n,), -1 where
the class is unknown. class_names: one text a class; without it the names are the numbers. Every header is looked at
before anything is unpacked, and nothing in the file can run code.
"""

import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from lps.datasets import Images, quoted
from lps.datasets._array_heads import HEADER, head_of
from lps.datasets._recipes import PHOTOS
from lps.datasets._store import Writer, kept
from lps.errors import Refusal
from lps.files.atomic import clean_line
from lps.files.untrusted_files import RATIO, SLACK
from lps.machine import memory
from lps.wording import data_size

TITLE = "Arrays in a file"
SUMMARY = "One .npz: x_train (uint8 n,h,w[,channels]), y_train (-1 unknown); optional x_test, y_test, class_names."
PATH = "The .npz file"

RECIPE = PHOTOS

_KNOWN = ("x_train", "y_train", "x_test", "y_test", "class_names")
_PIXELS = ("x_train", "x_test")
_ALONE = ("x", *_PIXELS)  # pictures without a word about their classes
LARGE = 512 << 20  # bytes of pixels that are mapped from the disk
_PIECE = 16 << 20  # bytes of pixels that are unpacked at a time
_ROOM = 0.8  # of the free memory, for what is not mapped from the disk
_SMALLEST = 4  # pixels of a side; fewer tell no classes apart
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, NotImplementedError, RuntimeError, KeyError)


@dataclass(frozen=True)
class _Header:
    """What an array says of itself before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype
    size: int  # bytes of the file


def load(path: str | None, image_size: int | None = None) -> Images:
    """The images of the file; `datasets.load` does the resizing. Raises `Refusal`.

    Many of them are unpacked piece by piece to where decoded pictures are kept, and mapped from there.
    """
    with _opened(path) as (archive, headers):
        size = sum(math.prod(header.shape) for name, header in headers.items() if name in _PIXELS)
        _check_memory(archive, headers, is_mapped=size >= LARGE)
        if size >= LARGE:
            source = ("arrays", os.path.abspath(path))
            return kept(source, repr(stamp(path)), lambda writer: _unpacked(archive, headers, writer), space=size)
        pixels = [_array(archive, name) for name in _PIXELS if name in headers]
        x = pixels[0] if len(pixels) == 1 else np.concatenate(pixels)
        return replace(_without_pixels(archive, headers), pixels=x if x.ndim == 4 else x[..., None])


def pictures_alone(path: str) -> Iterator[np.ndarray]:
    """The pictures of a file, uint8 (m, height, width, channels) some at a time, whatever is said of their classes.

    Those of `x`, else of x_train and then x_test. Raises `Refusal`.
    """
    with _opened(path, _ALONE, _check_alone) as (archive, headers):
        _check_memory(archive, headers, is_mapped=True)
        for name in ("x",) if "x" in headers else _PIXELS:
            if name in headers:
                for pixels in _pieces(archive, name):
                    yield pixels if pixels.ndim == 4 else pixels[..., None]


def _check_alone(headers: dict[str, _Header]) -> None:
    if not headers:
        raise Refusal("dataset.path", f"the file has no pictures; expected one of {', '.join(_ALONE)}")
    for name, header in headers.items():
        _check_pixels(name, header)
        _check_sides(name, header)


def _check_memory(archive: zipfile.ZipFile, headers: dict[str, _Header], is_mapped: bool) -> None:
    """Raises `Refusal` where what has to be in memory as a whole takes more than a share of what is free.

    Of pixels that are mapped these are the arrays that lie column by column; the disk is looked at by `kept`.
    """
    free = memory.free()
    for name, header in headers.items():
        is_piecewise = is_mapped and name in _ALONE and not _is_fortran(archive, name)
        # One that lies column by column is there twice: unpacked, and row by row.
        needed = 0 if is_piecewise else header.size * (2 if name in _ALONE else 3)
        if free and needed > _ROOM * free[0]:
            why = " since it lies column by column (Fortran order)" if is_mapped and name in _ALONE else ""
            raise Refusal(
                "dataset.path",
                f"{name} takes {data_size(needed)} of memory{why}, and {data_size(free[0])} are free; "
                f"expected at most {100 * _ROOM:.0f} % of them",
            )


def _is_fortran(archive: zipfile.ZipFile, name: str) -> bool:
    with archive.open(f"{name}.npy") as file:
        return _order(file)[1]


def _unpacked(archive: zipfile.ZipFile, headers: dict[str, _Header], writer: Writer) -> Images:
    """Writes the pixels of the file; gives the rest."""
    rest = _without_pixels(archive, headers)
    for name in _PIXELS:
        if name in headers:
            for pixels in _pieces(archive, name):
                writer.add(pixels if pixels.ndim == 4 else pixels[..., None])
    return rest


def _pieces(archive: zipfile.ZipFile, name: str) -> Iterator[np.ndarray]:
    """The images of an array, some at a time; at once where they do not lie one behind the other."""
    with archive.open(f"{name}.npy") as file:
        shape, is_fortran = _order(file)
        if is_fortran:
            yield _array(archive, name)
            return
        each = math.prod(shape[1:])
        most = max(1, _PIECE // each)
        for start in range(0, shape[0], most):
            count = min(most, shape[0] - start)
            yield np.frombuffer(_bytes(file, count * each), np.uint8).reshape(count, *shape[1:])
        file.read(1)  # beyond the end its checksum is looked at


def _order(file) -> tuple[tuple[int, ...], bool]:
    """(shape, whether columns come first) of an array whose head was checked."""
    read = {1: npy.read_array_header_1_0, 2: npy.read_array_header_2_0}[npy.read_magic(file)[0]]
    return read(file, max_header_size=HEADER)[:2]


def _bytes(file, count: int) -> bytes:
    found = file.read(count)
    if len(found) < count:
        raise EOFError("an array ends before its last image")
    return found


def _without_pixels(archive: zipfile.ZipFile, headers: dict[str, _Header]) -> Images:
    """Labels and names, checked."""
    arrays = {name: _array(archive, name) for name in headers if name not in _PIXELS}
    arrays |= {name: arrays[name].astype(np.int64) for name in ("y_train", "y_test") if name in arrays}
    labels = [arrays[name] for name in ("y_train", "y_test") if name in arrays]
    num_test = len(labels[1]) if len(labels) == 2 else 0
    return Images(np.zeros(0, np.uint8), np.concatenate(labels), _class_names(arrays), num_test)


def stamp(path: str | None) -> object:
    """When the file changed, and its size."""
    try:
        found = Path(path or "").stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size


def is_coloured(path: str | None) -> bool:
    """Whether the pictures of the file have three channels, by its heads alone; False where it cannot be read."""
    try:
        with _opened(path) as (_, headers):
            return headers["x_train"].shape[3:] == (3,)
    except Refusal:
        return False


@contextmanager
def _opened(
    path: str | None, names: Sequence[str] = _KNOWN, check: Callable | None = None
) -> Iterator[tuple[zipfile.ZipFile, dict[str, _Header]]]:
    """The file, and what those of its arrays that have these names say of themselves, checked by `check`.

    By itself for types, shapes and lengths of the arrays of a data set.

    What is wrong with it, also inside the `with`, becomes a `Refusal`.
    """
    if path is None:
        raise Refusal("dataset.path", "is missing; expected a .npz file with x_train and y_train")
    if not os.path.isfile(path):  # which, unlike a Path, takes a name of any length
        what = "is no file" if os.path.exists(path) else "does not exist"
        raise Refusal("dataset.path", f"{quoted(path)} {what}; expected a .npz file with x_train and y_train")
    try:
        with zipfile.ZipFile(path) as archive:
            headers = _headers(archive, names)
            (check or _check)(headers)
            size = sum(archive.getinfo(f"{name}.npy").file_size for name in headers)
            if size > RATIO * os.path.getsize(path) + SLACK:
                raise Refusal("dataset.path", f"unpacks to {size >> 20:,} MB, more than {RATIO} times its size")
            yield archive, headers
    except MemoryError:
        raise Refusal("dataset.path", f"{quoted(path)} does not fit in this machine's memory") from None
    except Refusal:
        raise
    except PermissionError as error:
        raise Refusal("dataset.path", f"{quoted(path)} cannot be read ({error.strerror})") from None
    except _DAMAGE as error:
        what = "is damaged" if zipfile.is_zipfile(path) else "is not a .npz file (or is damaged)"
        raise Refusal("dataset.path", f"{quoted(path)} {what}: {clean_line(error)}") from None


def _headers(archive: zipfile.ZipFile, names: Sequence[str]) -> dict[str, _Header]:
    """What the arrays of these names say of themselves; others are not looked at. Raises `Refusal`, `ValueError`."""
    headers = {}
    for name in names:
        try:
            member = archive.getinfo(f"{name}.npy")
        except KeyError:
            continue
        with archive.open(member) as file:
            shape, dtype, size, _ = head_of(file)
        if dtype.hasobject:
            raise Refusal("dataset.path", f"{name} holds Python objects; expected numbers (or texts of fixed width)")
        if size != member.file_size:
            raise ValueError(f"{name} is not as long as its header says")
        headers[name] = _Header(shape, dtype, size)
    return headers


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as file:
        return npy.read_array(file, allow_pickle=False, max_header_size=HEADER)


def _check(headers: dict[str, _Header]) -> None:
    """Types, shapes and lengths, as far as the headers tell."""
    for name in ("x_train", "y_train"):
        if name not in headers:
            raise Refusal("dataset.path", f"the file has no {name}; expected x_train and y_train")
    if ("x_test" in headers) != ("y_test" in headers):
        there, missing = ("x_test", "y_test") if "x_test" in headers else ("y_test", "x_test")
        raise Refusal("dataset.path", f"the file has {there} but no {missing}; expected both or none")
    for part in ("train", "test"):
        if f"x_{part}" in headers:
            _check_part(f"x_{part}", headers[f"x_{part}"], f"y_{part}", headers[f"y_{part}"])
    if headers["x_train"].shape[0] == 0:
        raise Refusal("dataset.path", "x_train holds no image")
    if "x_test" in headers and headers["x_test"].shape[1:] != headers["x_train"].shape[1:]:
        train, test = headers["x_train"].shape[1:], headers["x_test"].shape[1:]
        raise Refusal("dataset.path", f"images of x_test have the shape {test}, those of x_train {train}")
    names = headers.get("class_names")
    if names and (len(names.shape) != 1 or names.dtype.kind not in "US"):
        raise Refusal("dataset.path", f"class_names is {_words(names)}; expected one text a class")


def _check_pixels(x_name: str, x: _Header) -> None:
    if x.dtype != np.uint8:
        raise Refusal("dataset.path", f"{x_name} holds {x.dtype}; expected uint8, that is 0 to 255")
    if not (len(x.shape) == 3 or (len(x.shape) == 4 and x.shape[3] in (1, 3))) or 0 in x.shape[1:]:
        raise Refusal(
            "dataset.path",
            f"{x_name} has the shape {x.shape}; expected (images, height, width) or (images, height, width, channels) "
            "with 1 or 3 channels",
        )


def _check_part(x_name: str, x: _Header, y_name: str, y: _Header) -> None:
    _check_pixels(x_name, x)
    if y.dtype.kind not in "iu" or len(y.shape) != 1:
        raise Refusal("dataset.path", f"{y_name} is {_words(y)}; expected one whole number an image")
    if y.shape[0] != x.shape[0]:
        raise Refusal("dataset.path", f"{x_name} has {x.shape[0]} images and {y_name} {y.shape[0]} labels")
    _check_sides(x_name, x)


def _check_sides(x_name: str, x: _Header) -> None:
    if min(x.shape[1:3]) < _SMALLEST:
        height, width = x.shape[1:3]
        raise Refusal(
            "dataset.path", f"{x_name} holds images of {height} x {width} pixels; expected {_SMALLEST} a side at least"
        )


def _words(header: _Header) -> str:
    return f"{header.dtype} of the shape {header.shape}"


def _class_names(arrays: dict[str, np.ndarray]) -> tuple[str, ...]:
    """The names of the classes, after a check that they fit the labels and that each has an image."""
    y = arrays["y_train"]
    for name in ("y_train", "y_test"):
        if name in arrays and arrays[name].min(initial=0) < -1:
            raise Refusal("dataset.path", f"{name} holds {arrays[name].min()}; expected -1 (unknown) or a class id")
    if y.max() < 0:
        raise Refusal("dataset.path", "y_train knows no class; expected some labels that are not -1")
    if y.max() >= len(y):
        raise Refusal("dataset.path", f"y_train holds {y.max()}; expected class ids 0, 1, 2, ... without gaps")
    counts = np.bincount(y[y >= 0])
    names = tuple(str(i) for i in range(len(counts)))
    if "class_names" in arrays:
        given = arrays["class_names"]
        texts = [t.decode("utf-8", "replace") if isinstance(t, bytes) else t for t in given.tolist()]
        names = tuple(clean_line(text) or str(i) for i, text in enumerate(texts))
        if len(set(names)) < len(names):
            raise Refusal("dataset.path", "class_names holds a name twice; expected a different one for each class")
        if len(names) < len(counts):
            raise Refusal("dataset.path", f"class_names has {len(names)} names, but y_train goes to {y.max()}")
    missing = np.flatnonzero(np.bincount(y[y >= 0], minlength=len(names)) == 0)
    if len(missing):
        raise Refusal("dataset.path", f"class {missing[0]} ({names[missing[0]]}) has no image in y_train")
    if "y_test" in arrays and arrays["y_test"].max(initial=-1) >= len(names):
        raise Refusal("dataset.path", f"y_test holds {arrays['y_test'].max()}; y_train ends at {len(names) - 1}")
    return names
