"""`.npz` files, read with bounds: what each array says of itself is checked before anything is unpacked."""

import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy

from lps.datasets import quoted
from lps.errors import UserError
from lps.files.atomic import clean_line
from lps.files.untrusted_files import RATIO, SLACK, Allowance, open_zip, zip_members

_LONGEST_HEAD = 1 << 16  # bytes
_PIECE = 16 << 20  # bytes of an array that are unpacked at a time
_AT_ONCE = 1 << 20  # bytes that are asked of the archive at a time; `open_zip` refuses more than 4 MB


_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, NotImplementedError, RuntimeError, KeyError)


class WrongSize(ValueError):
    """An array is not as large as its head says."""


class ArrayHead(NamedTuple):
    """What an array says of itself.

    start: bytes before its values. by_columns: the first axis runs fastest (Fortran order).
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    by_columns: bool
    start: int

    @property
    def size(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize


class ArrayFile:
    """An open `.npz`: each head is read once, and values only of arrays whose head is sound.

    A damaged file raises `ValueError`, `KeyError` for a missing array, or any error of `zipfile` and `zlib`.
    """

    def __init__(self, file: BinaryIO):
        self.packed = os.fstat(file.fileno()).st_size
        self._archive = open_zip(file)
        self.names = frozenset(info.filename.removesuffix(".npy") for info in self._archive.infolist())
        self._heads: dict[str, ArrayHead] = {}

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(self, *_) -> None:
        self._archive.close()

    def check_members(self, most_bytes: int) -> None:
        """Raise `UserError` where the archive is made to deceive, or unpacks to more than `most_bytes`."""
        zip_members(self._archive, Allowance(self.packed, most_bytes), self.packed)

    def unpacked_size(self, name: str) -> int:
        """Bytes that the archive says an array unpacks to, with its head."""
        return self._archive.getinfo(f"{name}.npy").file_size

    def head(self, name: str) -> ArrayHead:
        """What an array says of itself; raises `WrongSize` where that is not what the archive holds."""
        if name not in self._heads:
            with self._archive.open(f"{name}.npy") as stream:
                head = read_head(stream)
            if not head.dtype.hasobject and head.start + head.size != self.unpacked_size(name):
                raise WrongSize(f"{name} does not have the length in its header")
            self._heads[name] = head
        return self._heads[name]

    def read(self, name: str) -> np.ndarray:
        """A whole array."""
        head = self.head(name)
        with self._archive.open(f"{name}.npy") as stream:
            stream.read(head.start)
            values = _read_exactly(stream, head.size)
            stream.read(1)  # beyond the end zipfile compares the checksum
        return np.ndarray(head.shape, head.dtype, values, order="F" if head.by_columns else "C")

    def pieces(self, name: str) -> Iterator[np.ndarray]:
        """The rows of an array, as many at a time as 16 MB hold; all at once for one that lies by columns."""
        head = self.head(name)
        if head.by_columns or not head.shape:
            yield self.read(name)
            return
        width = math.prod(head.shape[1:]) * head.dtype.itemsize
        step = max(1, _PIECE // max(1, width))
        with self._archive.open(f"{name}.npy") as stream:
            stream.read(head.start)
            for start in range(0, head.shape[0], step):
                count = min(step, head.shape[0] - start)
                yield np.ndarray((count, *head.shape[1:]), head.dtype, _read_exactly(stream, count * width))
            stream.read(1)

    def rows(self, name: str, rows: np.ndarray) -> np.ndarray:
        """The given rows (ascending) of an array; the others are never in memory together."""
        head = self.head(name)
        if len(rows) and rows[-1] >= head.shape[0]:
            raise ValueError(f"{name} is shorter than its array")
        selected = np.empty((len(rows), *head.shape[1:]), head.dtype)
        start = 0
        for piece in self.pieces(name):
            first, end = np.searchsorted(rows, (start, start + len(piece)))
            selected[first:end] = piece[rows[first:end] - start]
            start += len(piece)
        return selected


@contextmanager
def opened(
    path: str | None, names: Sequence[str], check: Callable[[dict[str, ArrayHead]], None], expected: str
) -> Iterator[tuple[ArrayFile, dict[str, ArrayHead]]]:
    """A `.npz` and the heads of those of its arrays that have these names, after `check`.

    What is wrong with the file, also inside the `with`, becomes a `UserError`. expected: in words, of what is missing.
    """
    if path is None:
        raise UserError("dataset.path", f"is missing; expected {expected}")
    if not os.path.isfile(path):  # which, unlike a Path, takes a name of any length
        reason = "is not a file" if os.path.exists(path) else "does not exist"
        raise UserError("dataset.path", f"{quoted(path)} {reason}; expected {expected}")
    try:
        with open(path, "rb") as file, ArrayFile(file) as stored:
            heads = {name: stored.head(name) for name in names if name in stored.names}
            if objects := [name for name, head in heads.items() if head.dtype.hasobject]:
                raise UserError(
                    "dataset.path", f"{objects[0]} has Python objects; expected numbers (or texts of fixed width)"
                )
            check(heads)
            size = sum(map(stored.unpacked_size, heads))
            if size > RATIO * stored.packed + SLACK:
                raise UserError("dataset.path", f"unpacks to {size >> 20:,} MB, more than {RATIO} times its size")
            yield stored, heads
    except MemoryError:
        raise UserError("dataset.path", f"{quoted(path)} does not fit in this machine's memory") from None
    except UserError:
        raise
    except PermissionError as error:
        raise UserError("dataset.path", f"{quoted(path)} cannot be read ({error.strerror})") from None
    except _DAMAGE as error:
        reason = "is damaged" if zipfile.is_zipfile(path) else "is not a .npz file (or is damaged)"
        raise UserError("dataset.path", f"{quoted(path)} {reason}: {clean_line(error)}") from None


def read_head(stream: BinaryIO) -> ArrayHead:
    """The head of an `.npy` file; raises `ValueError` for what is none."""
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(npy.read_magic(stream))
    if read_header is None:
        raise ValueError("an array of an unknown version")
    try:
        shape, by_columns, dtype = read_header(stream, max_header_size=_LONGEST_HEAD)
    except (MemoryError, RecursionError, SyntaxError, TypeError, tokenize.TokenError):  # NumPy reads it as Python
        raise ValueError("the header of an array cannot be read") from None
    if any(side < 0 for side in shape):
        raise ValueError("an array has a negative dimension")
    return ArrayHead(shape, dtype, by_columns and len(shape) > 1, stream.tell())


def _read_exactly(stream: BinaryIO, count: int) -> bytearray:
    values = bytearray(count)
    view, filled = memoryview(values), 0
    while filled < count:
        length = stream.readinto(view[filled : filled + _AT_ONCE])
        if not length:
            raise EOFError("an array ends before its last value")
        filled += length
    return values
