"""Decode picture files to squares of uint8 RGB: find them, decode in several threads, list the unreadable ones."""

import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from lps.datasets import Images, as_image, quoted
from lps.datasets.readers.decoding import Source, Unreadable, decode, squeezed
from lps.datasets.readers.picture_cache import Writer, cached_images
from lps.errors import UserError, shorten
from lps.files.atomic import clean_line

ENDINGS = frozenset(".png .jpg .jpeg .bmp .gif .webp .tif .tiff .ppm .pgm .pbm".split())
_CHUNK = 256  # pictures in memory at once
_CHUNK_BYTES = 64 << 20  # bytes of their files, if these are in memory
IN_MEMORY = 64 << 20  # bytes of resized pictures that are faster to make again than to cache
DEEPEST = 32  # deepest nesting of folders


@dataclass
class Listing:
    """Files below `root` in a fixed order, the last `num_test` for testing, and (name, reason) of skipped files."""

    root: Path
    files: list[tuple[str, int, int, int]] = field(default_factory=list)  # name below root, bytes, times of changes
    labels: list[int] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    num_test: int = 0
    _folders: set[tuple[int, int]] = field(default_factory=set, repr=False)  # already visited for one label

    def __post_init__(self):
        self._prefix = os.path.join(self.root, "")  # prefix of all paths below `root`

    def add(self, folder: Path, label: int) -> int:
        """Append every picture file below `folder`; returns their number."""
        self._folders = {_identity(self.root)} - {_identity(folder)}
        return self._append(self._walk(folder, 1), label)

    def add_files(self, paths: Iterable[os.PathLike], label: int) -> int:
        """Append the pictures among these files (paths or directory entries); returns their number."""
        return self._append(self._pictures(paths), label)

    def _append(self, files: Iterable[tuple[str, os.stat_result]], label: int) -> int:
        """Append files, given as (path below `root`, stat result)."""
        before = len(self.files)
        self.files += [(name, status.st_size, status.st_mtime_ns, status.st_ctime_ns) for name, status in files]
        self.labels += [label] * (len(self.files) - before)
        return len(self.files) - before

    def skip(self, path: Path | str, reason: str) -> None:
        name = path if isinstance(path, str) else self._name(path)
        self.skipped.append((clean_line(name, 1000), reason))

    def digest(self) -> str:
        """Return an identifier of the files' names, sizes, times and labels."""
        text = repr((self.files, self.labels, self.skipped, self.num_test))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _name(self, path: os.PathLike) -> str:
        """Return the path of a file or folder below `root`."""
        return os.fspath(path).removeprefix(self._prefix)

    def _walk(self, folder: Path | os.DirEntry, depth: int) -> Iterator[tuple[str, os.stat_result]]:
        """Yield picture files below `folder`, sorted, to a limited depth; every folder once, even if linked twice."""
        if depth > DEEPEST:
            self.skip(folder, f"is more than {DEEPEST} folders deep")
            return
        identity = _identity(folder)
        if identity in self._folders:
            self.skip(folder, "is a link to a folder that was already read")
            return
        self._folders.add(identity)
        yield from self._pictures(scan_folder(folder), depth)

    def _pictures(self, paths: Iterable[os.PathLike], depth: int = 0) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the pictures among these files, with one stat each; other files are recorded with the reason.

        depth: of the folder with these entries, to include those in its sub-folders; 0 leaves them out.
        """
        for path in paths:
            name = path.name
            try:
                status = path.stat()
                if depth and stat.S_ISDIR(status.st_mode):
                    yield from self._walk(path, depth + 1)
                elif not stat.S_ISREG(status.st_mode):
                    self.skip(path, "is not a regular file")
                elif name[name.rfind(".") :].lower() not in ENDINGS:
                    self.skip(path, "is not a picture of a known format")
                else:
                    yield self._name(path), status
            except OSError as error:
                self.skip(path, f"cannot be read ({error.strerror})")


def _identity(folder: os.PathLike) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def scan_folder(folder: os.PathLike) -> list[os.DirEntry]:
    """Return the entries of `folder`, sorted, without hidden files; raises `OSError`.

    An entry knows whether it is a folder without another system call, which matters for a million files.
    """
    with os.scandir(folder) as entries:
        return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)


def is_folder(entry: os.DirEntry) -> bool:
    """Return whether it is a folder or a link to one; False if that cannot be determined."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def list_entries(folder: Path) -> list[Path]:
    """Return the result of `scan_folder` as paths."""
    return [folder / entry.name for entry in scan_folder(folder)]


def folder_stamp(path: str | None) -> object:
    """Return modification times of the folder and its sub-folders: fast, but misses files that changed in place."""
    if not path:
        return ()
    try:
        with os.scandir(path) as entries:
            inner = [(entry.name, entry.stat().st_mtime_ns) for entry in entries if is_folder(entry)]
        return ((Path(path).name, os.stat(path).st_mtime_ns), *inner)
    except OSError:
        return ()


def existing_folder(path: str | None, expected: str) -> Path:
    """Return `path` if it is an existing folder; raises `UserError`."""
    if path is None:
        raise UserError("dataset.path", f"nothing is given; expected {expected}")
    if not os.path.isdir(path):  # accepts a name of any length, unlike a Path
        reason = "is a file" if os.path.exists(path) else "does not exist"
        raise UserError("dataset.path", f"{quoted(path)} {reason}; expected {expected}")
    return Path(path)


def cached_listing(
    dataset: str, listing: Listing, class_names: tuple[str, ...], size: int, is_whole: bool = False
) -> Images:
    """Return the readable pictures of a listing as squares of `size` pixels, from the cache or decoded now.

    is_whole: decode with `squeezed` and store sizes, instead of `decode`. Raises `UserError` if a class keeps no
    training image.
    """
    return cached_images(
        (dataset, str(listing.root.resolve()), size),
        listing.digest() + repr(class_names) + " whole" * is_whole,
        lambda writer: _decode_listing(listing, class_names, size, writer, is_whole),
        space=len(listing.files) * size * size * 3,
        root=listing.root,
    )


def _decode_listing(
    listing: Listing, class_names: tuple[str, ...], image_size: int, writer: Writer, is_whole: bool
) -> Images:
    """Decode the files of `listing` into `writer`; returns the `Images` of the readable ones, without pixels."""
    rows, skipped, sizes = [], list(listing.skipped), []
    decode_one = squeezed if is_whole else decode
    pictures = decode_all([listing.root / name for name, *_ in listing.files], image_size, decode_one)
    for row, picture in enumerate(_with_progress(pictures, len(listing.files))):
        if isinstance(picture, str):
            skipped.append((clean_line(listing.files[row][0], 1000), picture))
        else:
            pixels, size = picture if is_whole else (picture, None)
            writer.add(pixels[None])
            sizes.append(size)
            rows.append(row)
    labels = np.array([listing.labels[row] for row in rows], np.int64)
    first_test = len(listing.files) - listing.num_test
    num_test = sum(row >= first_test for row in rows)
    check_classes(labels[: len(labels) - num_test], class_names)
    names = tuple(listing.files[row][0] for row in rows)  # unchanged, even if not valid text
    measured = np.array(sizes, np.int64) if is_whole else None
    return Images(np.zeros(0, np.uint8), labels, class_names, num_test, tuple(skipped), names, measured)


def check_classes(labels: np.ndarray, class_names: Sequence[str]) -> None:
    """Raise `UserError` for a class without a training picture; labels: int64 (n,) of the training pictures."""
    present = set(np.unique(labels).tolist())
    for label, name in enumerate(class_names):
        if label not in present:
            raise UserError(
                "dataset.path", f"class {shorten(name)} has no readable training picture; expected at least one"
            )


def resize_images(images: Images, size: int, source: tuple, content: str) -> Images:
    """Return the same images with pixels (n, size, size, channels): short side resized, centre cropped.

    Large results are cached on disk under `source` and `content`, as `kept` explains.
    """
    count, channels = len(images.pixels), images.pixels.shape[3]
    if count * size * size * channels < IN_MEMORY:
        return replace(images, pixels=np.stack(list(resize_pixels(images.pixels, size))))

    def make(writer: Writer) -> Images:
        for picture in _with_progress(resize_pixels(images.pixels, size), count):
            writer.add(picture[None])
        return images

    return cached_images(source, content, make, space=count * size * size * channels)


def resize_pixels(pixels: np.ndarray, size: int, width: int | None = None) -> Iterator[np.ndarray]:
    """Resize every image to uint8 (size, width or size, channels)."""

    def fit(i: int) -> np.ndarray:
        image = as_image(pixels[i])
        fitted = ImageOps.fit(image, (width or size, size), Image.Resampling.BICUBIC)
        return np.asarray(fitted).reshape(size, width or size, -1)

    with ThreadPoolExecutor(_threads()) as pool:
        for start in range(0, len(pixels), _CHUNK):
            yield from pool.map(fit, range(start, min(start + _CHUNK, len(pixels))))


def decode_all(sources: Iterable[Source], size: int, decode_one: Callable) -> Iterator:
    """Yield the result of `decode_one` for every picture in order, or the reason of its failure. Reads ahead."""

    def attempt(source: Source):
        try:
            return decode_one(source, size)
        except Unreadable as error:
            return str(error)

    with ThreadPoolExecutor(_threads()) as pool:
        for chunk in _chunks(sources):
            yield from pool.map(attempt, chunk)


def _chunks(sources: Iterable[Source]) -> Iterator[list[Source]]:
    """Yield at most `_CHUNK` pictures each, and little more than `_CHUNK_BYTES` if they are in memory already."""
    chunk: list[Source] = []
    size = 0
    for source in sources:
        chunk.append(source)
        size += len(source) if isinstance(source, bytes) else 0
        if len(chunk) == _CHUNK or size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _threads() -> int:
    return max(1, min(32, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))


def _with_progress(pictures: Iterator, total: int) -> Iterator:
    """Show a progress bar on a terminal if the work takes a while."""
    if total < 2000 or not sys.stderr.isatty():
        return pictures
    try:
        from tqdm import tqdm
    except ImportError:
        return pictures
    return tqdm(pictures, "Decoding", total, unit=" pictures")
