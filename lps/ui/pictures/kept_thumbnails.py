"""Thumbnails that were made once, as WebP files in the cache folder, shared by all processes of a user.

A file is named by what it shows: the picture's pixels, or path, size and time of its file, and the thumbnail's size. So
a changed picture gets another file. The oldest files are removed when they take more than `MAX_BYTES`.
"""

import contextlib
import hashlib
import io
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from lps.datasets import Images, as_image
from lps.datasets.readers.picture_references import PictureReferences
from lps.files import disk
from lps.files.atomic import fingerprint, read_small, write_whole
from lps.files.user_folders import cache_folder

MAX_BYTES = 512 << 20
_REMAINING_SHARE = 0.8  # of `MAX_BYTES`, after the oldest files were removed
_WRITES_PER_CHECK = 1000  # files that this process writes between two checks of the total size
_WIDTH_TAG, _HEIGHT_TAG = 0x0100, 0x0101  # of EXIF
_written = _WRITES_PER_CHECK - 1  # so that the first file of a process also checks
_count_lock = threading.Lock()


def key_of_image(images: Images, image: int, side: int) -> tuple:
    """Return what identifies the thumbnail of an image with `side` pixels; reads no picture that is in a file."""
    return _identity(images.pixels, image), images.sides(image), side


def key_of_file(path: Path, side: int) -> tuple:
    """Return what identifies the thumbnail of a picture's file."""
    return os.path.abspath(path), fingerprint(path), side


def _identity(pixels: np.ndarray | PictureReferences, image: int) -> object:
    if isinstance(pixels, PictureReferences):
        return pixels.identity(image)
    values = np.ascontiguousarray(pixels[image])
    return hashlib.sha256(values).hexdigest(), values.shape


def keep_webp(key: tuple, encode: Callable[[], bytes]) -> bytes:
    """Return the WebP file of `key`; `encode` makes it if it is not stored. A full disk only costs time."""
    path = _path(key)
    with contextlib.suppress(OSError):
        data = read_small(path)
        if data[:4] == b"RIFF" and int.from_bytes(data[4:8], "little") + 8 == len(data):
            return data
    data = encode()
    with contextlib.suppress(OSError):
        _write(path, data)
    return data


def keep_pixels(
    key: tuple, compute: Callable[[], tuple[np.ndarray, tuple[int, int]]]
) -> tuple[np.ndarray, tuple[int, int]]:
    """Return (uint8 (height, width, 3), the picture's own height and width), kept as WebP with some loss."""
    data = keep_webp(key, lambda: _encode(*compute()))
    try:
        with Image.open(io.BytesIO(data), formats=("WEBP",)) as image:
            exif, pixels = image.getexif(), np.asarray(image.convert("RGB"))
        return pixels, (int(exif[_HEIGHT_TAG]), int(exif[_WIDTH_TAG]))
    except Exception:  # a damaged file fails in any layer, with any error
        return compute()


def _encode(pixels: np.ndarray, sides: tuple[int, int]) -> bytes:
    out, exif = io.BytesIO(), Image.Exif()
    exif[_HEIGHT_TAG], exif[_WIDTH_TAG] = map(int, sides)
    as_image(pixels).convert("RGB").save(out, "WEBP", quality=90, exif=exif.tobytes())
    return out.getvalue()


def _folder() -> Path:
    return cache_folder() / "thumbnails"


def _path(key: tuple) -> Path:
    digest = hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).hexdigest()
    return _folder() / digest[:2] / f"{digest[2:34]}.webp"


def _write(path: Path, data: bytes) -> None:
    """Write a file in one step, without waiting for the disk: a damaged one is made again."""
    global _written
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, data, is_durable=False)
    with _count_lock:
        _written += 1
        is_due = _written % _WRITES_PER_CHECK == 0
    if is_due:
        remove_oldest()


def remove_oldest() -> None:
    """Remove the oldest files until all take at most 80 % of `MAX_BYTES`, if they take more than that."""
    files = []
    for folder in _folder().glob("*"):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # another process has removed it
                    status = entry.stat(follow_symlinks=False)
                    files.append((status.st_mtime_ns, status.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    if total <= MAX_BYTES:
        return
    for _, size, path in sorted(files):
        if total <= _REMAINING_SHARE * MAX_BYTES:
            return
        with contextlib.suppress(OSError):
            disk.remove(Path(path))
        total -= size
