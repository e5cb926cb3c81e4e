"""Pictures that were decoded once: kept on disk beside nothing else of the person's, and memory-mapped afterwards.

They live in the cache folder (`lps.files.cache`). `pictures/<data set>-<source>/<content>/` holds `pixels.u8` (rows of
uint8), `labels.npy`, `facts.json` and, of squeezed pictures, `sizes.npy`; a new content of the same source replaces the
old one. `pixels.sha256` is a digest of all pixels with what the system said of their file when it was read: so a start
over 19 GB of them reads none.
"""

import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from lps.datasets import Images, quoted
from lps.errors import UserError
from lps.files.atomic import open_regular, read_small, write_json
from lps.files.cache import cache_folder
from lps.files.locks import locked

_MOST_FACTS = 1 << 30  # bytes of the names of all files
_SETTLED_NS = 2 * 10**9  # from a file's last change to where another one would be sure to have another time
_FORMAT = 2  # raise it when the same files shall give other pixels or names


class Writer:
    """Takes pictures of one shape, one after the other."""

    def __init__(self, file):
        self._file = file
        self.shape: tuple[int, ...] | None = None  # height, width, channels
        self.count = 0

    def add(self, pixels: np.ndarray) -> None:
        """Append uint8 (n, height, width, channels)."""
        assert pixels.dtype == np.uint8 and self.shape in (None, pixels.shape[1:])
        self.shape = pixels.shape[1:]
        self.count += len(pixels)
        self._file.write(np.ascontiguousarray(pixels).data)


def kept(source: tuple, content: str, make: Callable[[Writer], Images], space: int) -> Images:
    """The images of `source` (data set, path, size, ...) in the state `content`, made where they are not there yet.

    `make` writes the pixels and gives the rest; its `Images.pixels` are not looked at. space: bytes that the pixels
    take at most. Raises `UserError` where the disk has no room; whatever `make` raises leaves nothing behind.
    """
    home = cache_folder() / "pictures" / f"{source[0]}-{_digest(repr(source[1:]))}"
    folder = home / _digest(f"{_FORMAT} {content}")
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(home):  # whoever comes second finds the work done
            found = _read(folder)
            return found or _write(home, folder, make, space)
    except OSError as error:
        raise UserError(
            "dataset.path",
            f"its decoded pictures cannot be stored in {quoted(home)} ({error.strerror or error}); "
            "set LPS_CACHE to a folder with enough space",
        ) from None


def digest_of(pixels: Path, compute: Callable[[], str]) -> str:
    """What `compute` finds by reading a whole file of `kept`, remembered beside it until the file changes."""
    memory, before = pixels.with_suffix(".sha256"), _state(pixels)
    try:
        remembered = json.loads(read_small(memory))
        if remembered["state"] == before:
            return str(remembered["sha256"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    found = compute()
    if before == _state(pixels) and time.time_ns() - max(before[3:]) > _SETTLED_NS:
        with suppress(OSError):  # then it is computed again
            write_json(memory, {"state": before, "sha256": found})
    return found


def _state(path: Path) -> list[int]:
    """What changes with every write to a file, and with a copy of it."""
    about = os.stat(path, follow_symlinks=False)
    return [about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _write(home: Path, folder: Path, make: Callable[[Writer], Images], space: int) -> Images:
    for old in home.iterdir():  # other contents, and what a killed process left; who maps them still has them
        shutil.rmtree(old, ignore_errors=True)
    if os.path.lexists(folder):
        raise OSError(0, f"{folder.name} blocks the folder; remove it")
    if shutil.disk_usage(home).free < space:
        raise OSError(0, f"{space / 1e9:.1f} GB are needed")
    fresh = home / f".{folder.name}.tmp"
    fresh.mkdir()
    try:
        with open(fresh / "pixels.u8", "wb") as file:
            writer = Writer(file)
            images = make(writer)
            file.flush()
            os.fsync(file.fileno())
        facts = {
            "shape": [writer.count, *writer.shape],
            "class_names": images.class_names,
            "num_test": images.num_test,
            "skipped": images.skipped,
            "file_names": images.file_names,
        }
        np.save(fresh / "labels.npy", images.labels.astype(np.int64))
        if images.sizes is not None:
            np.save(fresh / "sizes.npy", images.sizes)
        (fresh / "facts.json").write_text(json.dumps(facts))
        os.rename(fresh, folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return _read(folder)


def _read(folder: Path) -> Images | None:
    """What is kept in `folder`; None where it is not there or damaged. No link is followed, no pipe waited for."""
    try:
        with open_regular(folder / "facts.json") as file:
            facts = json.loads(file.read(_MOST_FACTS))
        shape = tuple(facts["shape"])
        with open_regular(folder / "pixels.u8") as file:
            if min(shape) < 1 or os.fstat(file.fileno()).st_size != math.prod(shape):
                return None
            pixels = np.memmap(file, np.uint8, "r", shape=shape)
        has_sizes = os.path.lexists(folder / "sizes.npy")
        images = Images(
            pixels=pixels,
            labels=_read_array(folder / "labels.npy", shape[:1]),
            class_names=tuple(facts["class_names"]),
            num_test=facts["num_test"],
            skipped=tuple((name, reason) for name, reason in facts["skipped"]),
            file_names=tuple(facts["file_names"]),
            sizes=_read_array(folder / "sizes.npy", (shape[0], 2)) if has_sizes else None,
        )
    except (OSError, ValueError, KeyError, TypeError, EOFError, RecursionError, OverflowError):
        return None
    return images if _is_sound(images) else None


def _read_array(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """The int64 array of this shape that `np.save` wrote; raises `ValueError` for any other file."""
    with open_regular(path) as file:
        np.lib.format.read_magic(file)
        if np.lib.format.read_array_header_1_0(file) != (shape, False, np.dtype(np.int64)):
            raise ValueError("it is a different array")
        return np.frombuffer(file.read(8 * math.prod(shape)), np.int64).reshape(shape).copy()


def _is_sound(images: Images) -> bool:
    """Whether the parts fit each other."""
    count, (pairs, classes) = len(images.pixels), (images.skipped, images.class_names)
    texts = (*classes, *images.file_names, *(text for pair in pairs for text in pair))
    return (
        images.pixels.ndim == 4
        and all(isinstance(text, str) for text in texts)
        and type(images.num_test) is int
        and 0 <= images.num_test <= count
        and len(images.file_names) in (0, count)
        and images.labels.min() >= -1
        and images.labels.max() < max(1, len(classes))
        and (images.sizes is None or images.sizes.min() >= 1)
    )
