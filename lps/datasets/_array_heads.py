"""What an .npy file says of itself, read with bounds."""

import math
import tokenize
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy

HEADER = 1 << 16  # bytes that the head of an array has at most


class Head(NamedTuple):
    """size: bytes of the whole file. by_columns: the first axis runs fastest."""

    shape: tuple[int, ...]
    dtype: np.dtype
    size: int
    by_columns: bool


def head_of(stream: BinaryIO) -> Head:
    """What an .npy file says of its array; raises `ValueError` for what is no such head.

    The stream stands at the first number then.
    """
    version = npy.read_magic(stream)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError("an array of another version")
    try:
        shape, by_columns, dtype = read(stream, max_header_size=HEADER)
    except (MemoryError, RecursionError, SyntaxError, TypeError, tokenize.TokenError):  # NumPy reads it as Python
        raise ValueError("the head of an array cannot be read") from None
    if any(side < 0 for side in shape):
        raise ValueError("an array has a side of less than nothing")
    return Head(shape, dtype, stream.tell() + math.prod(shape) * dtype.itemsize, by_columns and len(shape) > 1)
