"""Read `.npz` files within bounds: every array's header is checked before anything is unpacked."""

import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy

from lps.datasets import quoted
from lps.errors import UserError
from lps.files.atomic import clean_line
from lps.files.untrusted_files import RATIO, SLACK, Allowance, open_zip, zip_members
from lps.files.versions import MAX_ARRAYS

_LONGEST_HEAD = 1 << 16  # bytes
_PIECE = 16 << 20  # bytes of an array that are unpacked at once
_AT_ONCE = 1 << 20  # bytes requested from the archive at once; `open_zip` refuses more than 4 MB
_SPARSE = 4  # rows of an array for each one that is read, from which the others are skipped
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a member of a .zip: its signature, lengths of its name and extra field


_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, NotImplementedError, RuntimeError, KeyError)


class WrongSize(ValueError):
    """The size of an array differs from its header."""


class ArrayHead(NamedTuple):
    """The header of an array.

    start: bytes before its values. by_columns: whether the first axis runs fastest (Fortran order).
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    by_columns: bool
    start: int

    @property
    def size(self) -> int:
        """Return the size of the values in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


class ArrayFile:
    """An open `.npz`: each header is read once, and values only of arrays with a valid header.

    A damaged file raises `ValueError`, `KeyError` for a missing array, or any error of `zipfile` and `zlib`.
    """

    def __init__(self, file: BinaryIO):
        self.packed = os.fstat(file.fileno()).st_size
        self._file = file
        self._archive = open_zip(file)
        self.names = frozenset(info.filename.removesuffix(".npy") for info in self._archive.infolist())
        self._heads: dict[str, ArrayHead] = {}

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(self, *_) -> None:
        self._archive.close()

    def check_members(self) -> None:
        """Raise `UserError` if the archive is malicious, or unpacks to more than `MAX_ARRAYS` bytes."""
        zip_members(self._archive, Allowance(self.packed, MAX_ARRAYS), self.packed)

    def unpacked_size(self, name: str) -> int:
        """Return the unpacked size of an array with its header in bytes, according to the archive."""
        return self._archive.getinfo(f"{name}.npy").file_size

    def head(self, name: str) -> ArrayHead:
        """Return the header of an array; raises `WrongSize` if the archive's size differs from it."""
        if name not in self._heads:
            with self._archive.open(f"{name}.npy") as stream:
                head = read_head(stream)
            if not head.dtype.hasobject and head.start + head.size != self.unpacked_size(name):
                raise WrongSize(f"{name} is not as long as its header says")
            self._heads[name] = head
        return self._heads[name]

    def read(self, name: str) -> np.ndarray:
        """Read a whole array."""
        head = self.head(name)
        with self._archive.open(f"{name}.npy") as stream:
            stream.read(head.start)
            values = _read_exactly(stream, head.size)
            stream.read(1)  # zipfile verifies the checksum at the end
        return np.ndarray(head.shape, head.dtype, values, order="F" if head.by_columns else "C")

    def pieces(self, name: str) -> Iterator[np.ndarray]:
        """Yield the rows of an array in pieces of 16 MB; an array in column order in one piece."""
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
        """Return the given rows (ascending) of an array; the others are never in memory together.

        A few rows of an array that is not compressed are read alone, so its checksum is not verified.
        """
        head = self.head(name)
        if len(rows) and rows[-1] >= head.shape[0]:
            raise ValueError(f"{name} has {head.shape[0]} rows; expected at least {rows[-1] + 1}")
        selected = np.empty((len(rows), *head.shape[1:]), head.dtype)
        is_stored = self._archive.getinfo(f"{name}.npy").compress_type == zipfile.ZIP_STORED
        if is_stored and not head.by_columns and selected.nbytes and len(rows) * _SPARSE <= head.shape[0]:
            self._read_stored_rows(name, head, rows, memoryview(selected.reshape(-1).view(np.uint8)))
            return selected
        start = 0
        for piece in self.pieces(name):
            first, end = np.searchsorted(rows, (start, start + len(piece)))
            selected[first:end] = piece[rows[first:end] - start]
            start += len(piece)
        return selected

    def _read_stored_rows(self, name: str, head: ArrayHead, rows: np.ndarray, values: memoryview) -> None:
        """Read rows of an uncompressed array from their places in the archive into `values`."""
        descriptor, member = self._file.fileno(), self._archive.getinfo(f"{name}.npy")
        local_header = os.pread(descriptor, _LOCAL_HEADER.size, member.header_offset)
        signature, name_length, extra_length = _LOCAL_HEADER.unpack(local_header)
        if signature != b"PK\3\4":
            raise zipfile.BadZipFile(f"{name} has no header")
        start = member.header_offset + _LOCAL_HEADER.size + name_length + extra_length + head.start
        width = head.size // head.shape[0]
        for number, offset in enumerate((start + rows.astype(np.int64) * width).tolist()):
            if os.preadv(descriptor, (values[number * width : (number + 1) * width],), offset) != width:
                raise EOFError("an array ends before its last value")


@contextmanager
def opened(
    path: str | None, is_wanted: Callable[[str], object], check: Callable[[dict[str, ArrayHead]], None], expected: str
) -> Iterator[tuple[ArrayFile, dict[str, ArrayHead]]]:
    """Open a `.npz` and yield it with the headers of the arrays whose names are wanted, after `check`.

    Errors of the file, also inside the `with`, become a `UserError`. expected: description of missing parts.
    """
    if path is None:
        raise UserError("dataset.path", f"nothing is given; expected {expected}")
    if not os.path.isfile(path):  # accepts a name of any length, unlike a Path
        reason = "is not a file" if os.path.exists(path) else "does not exist"
        raise UserError("dataset.path", f"{quoted(path)} {reason}; expected {expected}")
    try:
        with open(path, "rb") as file, ArrayFile(file) as stored:
            heads = {name: stored.head(name) for name in sorted(stored.names) if is_wanted(name)}
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
    """Read the header of an `.npy` file; raises `ValueError` if it is invalid."""
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(npy.read_magic(stream))
    if read_header is None:
        raise ValueError("an array of an unknown version")
    try:
        shape, by_columns, dtype = read_header(stream, max_header_size=_LONGEST_HEAD)
    except (MemoryError, RecursionError, SyntaxError, TypeError, tokenize.TokenError):  # NumPy parses it as Python
        raise ValueError("the header of an array cannot be read") from None
    if any(side < 0 for side in shape):
        raise ValueError("an array has a negative dimension")
    if max(shape, default=0) >> 63:
        raise ValueError("an array has a dimension beyond 2^63")
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
