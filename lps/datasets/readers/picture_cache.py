"""Cache of decoded pictures: on disk, apart from the user's other files, and memory-mapped afterwards.

The cache folder is that of `lps.files.user_folders`. `pictures/<data set>-<source>/<content>/` holds `pixels.u8` (rows
of uint8), `labels.npy`, `facts.json` and, of squeezed pictures, `sizes.npy`; a new content of the same source replaces
the old one. `pixels.sha256` is a digest of all pixels with the state of their file when it was read: so a start over
19 GB of them reads none.

Pictures that would take more than LPS_DECODED_GB, or than the disk has, are kept by reference where they can be read
one by one: no `pixels.u8`, and for shards `places.npy`. They are decoded once, to find out which are readable, and
then at every access (`lps.datasets.readers.picture_references`).
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
from typing import TYPE_CHECKING

import numpy as np

from lps.datasets import Images, quoted
from lps.errors import UserError, shorten
from lps.files.atomic import open_regular, read_json, write_json
from lps.files.locks import folder_lock
from lps.files.user_folders import cache_folder

if TYPE_CHECKING:
    from lps.datasets.readers.picture_references import PictureReferences

_MAX_FACTS = 1 << 30  # bytes of the names of all files
_SETTLED_NS = 2 * 10**9  # after this time another change would get another time stamp
_FORMAT = 2  # raise it when the pixels or names of the same files change


def _most_decoded() -> int:
    """Return the most bytes of decoded pictures that are cached per data set if they can also be read one by one.

    16 GB, or the environment variable LPS_DECODED_GB; raises `UserError` if that is not a number.
    """
    setting = os.environ.get("LPS_DECODED_GB", "16")
    try:
        gigabytes = float(setting)
    except ValueError:
        gigabytes = math.nan
    if not 0 <= gigabytes < math.inf:
        raise UserError("LPS_DECODED_GB", f"{shorten(setting)} is not a number of gigabytes; expected 0 or more")
    return int(gigabytes * 1e9)


class Writer:
    """Receives pictures of one shape, one after the other.

    most: bytes from which they are kept by reference, without writing; None: no limit. is_by_reference: whether
    this limit was reached.
    """

    def __init__(self, file, most: int | None = None):
        self._file, self._most = file, most
        self.shape: tuple[int, ...] | None = None  # height, width, channels
        self.count = 0
        self.is_by_reference = False
        self.places: list[tuple[int, int]] = []
        self._digest = hashlib.sha256()

    def add(self, pixels: np.ndarray, place: tuple[int, int] | None = None) -> None:
        """Append uint8 (n, height, width, channels). place: (offset, bytes) of a single picture in its shard."""
        assert pixels.dtype == np.uint8 and self.shape in (None, pixels.shape[1:])
        self.shape = pixels.shape[1:]
        self.count += len(pixels)
        if self._most is not None:
            self._digest.update(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))
            self.places += [] if place is None else [place]
            if not self.is_by_reference and self.count * math.prod(self.shape) > self._most:
                self.is_by_reference = True
                self._file.truncate(0)
        if not self.is_by_reference:
            self._file.write(np.ascontiguousarray(pixels).data)

    def digest(self, sizes: np.ndarray | None) -> str:
        """Return the sha256 of all pixels, channels first, then the sizes, as in `lps.data.batches.Pictures.feed`."""
        digest = self._digest.copy()
        digest.update(b"" if sizes is None else np.ascontiguousarray(sizes, np.int64))
        return digest.hexdigest()


def cached_images(
    source: tuple, content: str, make: Callable[[Writer], Images], space: int, root: Path | None = None
) -> Images:
    """Return the images of `source` (data set, path, size, ...) in the state `content`, made now if they are missing.

    `make` writes the pixels and returns the rest; its `Images.pixels` are ignored. space: upper limit of the bytes of
    pixels, 0 if unknown. root: the folder below which `Images.file_names` can be read one by one, or at
    their places in shards; None if they cannot. Raises `UserError` if the disk is full; an error in `make`
    leaves nothing behind.
    """
    home = cache_folder() / "pictures" / f"{source[0]}-{_digest(repr(source[1:]))}"
    folder = home / _digest(f"{_FORMAT} {content}")
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with folder_lock(home):  # a second process finds the finished work
            return _read(folder, root) or _write(home, folder, make, space, root)
    except OSError as error:
        raise UserError(
            "dataset.path",
            f"its decoded pictures cannot be stored in {quoted(home)} ({error.strerror or error}); "
            "set LPS_CACHE to a folder with enough space",
        ) from None


def digest_of(pixels: Path, compute: Callable[[], str]) -> str:
    """Return the result of `compute`, which reads a whole file of `cached_images`; cached until the file changes."""
    memory, before = pixels.with_suffix(".sha256"), _state(pixels)
    remembered = read_json(memory)
    if remembered.get("state") == before and "sha256" in remembered:
        return str(remembered["sha256"])
    digest = compute()
    if before == _state(pixels) and time.time_ns() - max(before[3:]) > _SETTLED_NS:
        with suppress(OSError):  # without the cache it is computed again
            write_json(memory, {"state": before, "sha256": digest})
    return digest


def _state(path: Path) -> list[int]:
    """Return file facts that change with every write, and with a copy."""
    status = os.stat(path, follow_symlinks=False)
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _write(home: Path, folder: Path, make: Callable[[Writer], Images], space: int, root: Path | None) -> Images:
    for entry in home.iterdir():  # other contents, and leftovers of killed processes; open maps stay valid
        shutil.rmtree(entry, ignore_errors=True)
    if os.path.lexists(folder):
        raise OSError(
            0, f"{folder.name} has the name of this data set's cache folder, but it is no cache folder; remove it"
        )
    free = shutil.disk_usage(home).free
    if free < space and root is None:
        raise OSError(0, f"{space / 1e9:.1f} GB are needed")
    limit = None  # nothing is kept by reference
    if root is not None:
        limit = min(_most_decoded(), free)
        limit = limit if not space else 0 if space > limit else None
    draft = home / f".{folder.name}.tmp"
    draft.mkdir()
    try:
        with open(draft / "pixels.u8", "wb") as file:
            writer = Writer(file, limit)
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
        np.save(draft / "labels.npy", images.labels.astype(np.int64))
        if images.sizes is not None:
            np.save(draft / "sizes.npy", images.sizes)
        if writer.is_by_reference:
            (draft / "pixels.u8").unlink()
            facts["by_reference"] = {"digest": writer.digest(images.sizes), "is_whole": images.sizes is not None}
            if writer.places:
                np.save(draft / "places.npy", np.array(writer.places, np.int64))
        (draft / "facts.json").write_text(json.dumps(facts))
        os.rename(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return _read(folder, root)


def _read(folder: Path, root: Path | None) -> Images | None:
    """Read the cache in `folder`; None if it is missing or damaged. Follows no links and waits for no pipe."""
    try:
        with open_regular(folder / "facts.json") as file:
            facts = json.loads(file.read(_MAX_FACTS))
        shape = tuple(facts["shape"])
        pixels = _open_references(folder, facts, root) if "by_reference" in facts else _mapped(folder, shape)
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


def _mapped(folder: Path, shape: tuple[int, ...]) -> np.ndarray:
    with open_regular(folder / "pixels.u8") as file:
        if min(shape) < 1 or os.fstat(file.fileno()).st_size != math.prod(shape):
            raise ValueError("it has another size")
        return np.memmap(file, np.uint8, "r", shape=shape)


def _open_references(folder: Path, facts: dict, root: Path | None) -> "PictureReferences":
    from lps.datasets.readers.picture_references import PictureReferences  # Pillow, only if pictures must be decoded

    reference, (count, height, width, channels) = facts["by_reference"], facts["shape"]
    names = tuple(facts["file_names"])
    if (
        root is None
        or height != width
        or channels != 3
        or len(names) != count
        or not isinstance(reference["digest"], str)
    ):
        raise ValueError("these are not references to picture files")
    has_places = os.path.lexists(folder / "places.npy")
    places = _read_array(folder / "places.npy", (count, 2)) if has_places else None
    return PictureReferences(root, names, height, reference["is_whole"] is True, places, reference["digest"])


def _read_array(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """Read the int64 array of this shape that `np.save` wrote; raises `ValueError` for any other file."""
    with open_regular(path) as file:
        np.lib.format.read_magic(file)
        if np.lib.format.read_array_header_1_0(file) != (shape, False, np.dtype(np.int64)):
            raise ValueError("it is a different array")
        return np.frombuffer(file.read(8 * math.prod(shape)), np.int64).reshape(shape).copy()


def _is_sound(images: Images) -> bool:
    """Return whether the parts are consistent."""
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
