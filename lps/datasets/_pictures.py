"""Picture files to equal squares of uint8 RGB: found, decoded by several threads; what cannot be read is listed."""

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from lps.datasets import Images, quoted
from lps.datasets._store import Writer, kept
from lps.files import clean_line
from lps.parameters import ConfigError

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
ENDINGS = frozenset(".png .jpg .jpeg .bmp .gif .webp .tif .tiff .ppm .pgm .pbm".split())
CHUNK = 256  # pictures in memory at a time
IN_MEMORY = 64 << 20  # bytes of resized pictures that are quicker made than looked for
DEEP_MODES = ("I;16", "I;16L", "I;16B", "I;16N", "I")  # 16 bits a grey pixel


class Unreadable(Exception):
    """A file that gives no picture; the message is the reason."""


@dataclass
class Listing:
    """Files below `root` in a fixed order, the last `num_test` for testing, and (name, reason) of what was left out."""

    root: Path
    files: list[tuple[str, int, int]] = field(default_factory=list)  # name below root, bytes, time of change
    labels: list[int] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    num_test: int = 0

    def add(self, folder: Path, label: int) -> int:
        """Append every picture file below `folder`; gives how many there were."""
        before = len(self.files)
        root = self.root.stat()
        for path in self._walk(folder, {(root.st_dev, root.st_ino)}):
            entry = path.stat()
            self.files.append((str(path.relative_to(self.root)), entry.st_size, entry.st_mtime_ns))
        self.labels += [label] * (len(self.files) - before)
        return len(self.files) - before

    def skip(self, path: Path | str, reason: str) -> None:
        name = path if isinstance(path, str) else str(path.relative_to(self.root))
        self.skipped.append((clean_line(name, 1000), reason))

    def digest(self) -> str:
        """A name for the files' names, sizes and times, and for their labels."""
        text = repr((self.files, self.labels, self.skipped, self.num_test))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _walk(self, folder: Path, above: set[tuple[int, int]]) -> Iterator[Path]:
        """Picture files below `folder`, sorted; a link to a folder that leads back up is not followed."""
        here = folder.stat()
        if (here.st_dev, here.st_ino) in above:
            self.skip(folder, "is a link back to a folder that it lies in")
            return
        for path in entries(folder):
            try:
                mode = path.stat().st_mode
                if stat.S_ISDIR(mode):
                    yield from self._walk(path, above | {(here.st_dev, here.st_ino)})
                elif not stat.S_ISREG(mode):
                    self.skip(path, "is no regular file")
                elif path.suffix.lower() not in ENDINGS:
                    self.skip(path, "is no picture of a known kind")
                else:
                    yield path
            except OSError as error:
                self.skip(path, f"cannot be read ({error.strerror})")


def entries(folder: Path) -> list[Path]:
    """What lies in `folder`, sorted, without hidden files; raises `OSError`."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def folder_stamp(path: str | None) -> object:
    """The times at which the folder and its sub-folders changed: quick, but blind to a file that changed in place."""
    try:
        root = Path(path or "")
        return tuple((p.name, p.stat().st_mtime_ns) for p in [root, *root.iterdir()] if p.is_dir()) if path else ()
    except OSError:
        return ()


def existing_folder(path: str | None, expected: str) -> Path:
    """`path` as a folder that is there; raises `ConfigError`."""
    if path is None:
        raise ConfigError("dataset.path", f"is missing; expected {expected}")
    if not os.path.isdir(path):  # which, unlike a Path, takes a name of any length
        what = "is a file" if os.path.exists(path) else "does not exist"
        raise ConfigError("dataset.path", f"{quoted(path)} {what}; expected {expected}")
    return Path(path)


def stored(listing: Listing, class_names: tuple[str, ...], image_size: int, writer: Writer) -> Images:
    """Decode the files of `listing` into `writer`; gives the `Images` of those that could be, without pixels.

    Raises `ConfigError` where a class keeps no training image.
    """
    rows, skipped = [], list(listing.skipped)
    pictures = _decoded([listing.root / name for name, _, _ in listing.files], image_size)
    for row, picture in enumerate(_with_progress(pictures, len(listing.files))):
        if isinstance(picture, str):
            skipped.append((clean_line(listing.files[row][0], 1000), picture))
        else:
            writer.add(picture[None])
            rows.append(row)
    labels = np.array([listing.labels[row] for row in rows], np.int64)
    first_test = len(listing.files) - listing.num_test
    num_test = sum(row >= first_test for row in rows)
    present = np.unique(labels[: len(labels) - num_test])
    for label, name in enumerate(class_names):
        if label not in present:
            raise ConfigError("dataset.path", f"class {name!r} has no readable picture; expected at least one")
    names = tuple(listing.files[row][0] for row in rows)  # as they are, also where they are no text: they are opened
    return Images(np.zeros(0, np.uint8), labels, class_names, num_test, tuple(skipped), names)


def decode(path: Path, size: int) -> np.ndarray:
    """One file as uint8 (size, size, 3): turned as its camera says, short side resized, centre kept.

    Transparent parts become white, 16-bit greys keep their upper half; of several frames the first is taken. Raises
    `Unreadable`.
    """
    try:
        with Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > Image.MAX_IMAGE_PIXELS:  # Pillow itself stops at twice as many
                raise Unreadable(f"has {image.width} x {image.height} pixels, more than Pillow takes for safe")
            image.draft(None, (2 * size, 2 * size))  # a JPEG is decoded at a fraction of its size where that is enough
            image = ImageOps.exif_transpose(image)
            return np.asarray(ImageOps.fit(_rgb(image), (size, size), Image.Resampling.BICUBIC))
    except Unreadable:
        raise
    except FileNotFoundError:
        raise Unreadable("is gone") from None
    except UnidentifiedImageError:
        raise Unreadable("holds no picture of a known kind") from None
    except MemoryError:
        raise Unreadable("does not fit in memory") from None
    except Exception:  # a damaged file can make a decoder fail in any way
        raise Unreadable("cannot be decoded: it is cut short or damaged") from None


def resized(images: Images, size: int, source: tuple, content: str) -> Images:
    """The same images with pixels (n, size, size, channels): short side resized, centre kept.

    Many of them are kept on disk under `source` and `content`, as `kept` explains.
    """
    count, channels = len(images.pixels), images.pixels.shape[3]
    if count * size * size * channels < IN_MEMORY:
        return replace(images, pixels=np.stack(list(_resized(images.pixels, size))))

    def make(writer: Writer) -> Images:
        for picture in _with_progress(_resized(images.pixels, size), count):
            writer.add(picture[None])
        return images

    return kept(source, content, make, space=count * size * size * channels)


def _resized(pixels: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Every image as uint8 (size, size, channels)."""

    def fit(i: int) -> np.ndarray:
        image = Image.fromarray(np.ascontiguousarray(pixels[i].squeeze(-1) if pixels.shape[3] == 1 else pixels[i]))
        return np.asarray(ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC)).reshape(size, size, -1)

    with ThreadPoolExecutor(_threads()) as pool:
        for start in range(0, len(pixels), CHUNK):
            yield from pool.map(fit, range(start, min(start + CHUNK, len(pixels))))


def _decoded(paths: list[Path], size: int) -> Iterator[np.ndarray | str]:
    """Every picture in order, or the reason why there is none."""

    def attempt(path: Path) -> np.ndarray | str:
        try:
            return decode(path, size)
        except Unreadable as error:
            return str(error)

    with ThreadPoolExecutor(_threads()) as pool:
        for start in range(0, len(paths), CHUNK):
            yield from pool.map(attempt, paths[start : start + CHUNK])


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in DEEP_MODES:
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise Unreadable("has grey values of more than 16 bits")
        return Image.fromarray((values >> 8).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise Unreadable("has grey values that are not whole numbers")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def _threads() -> int:
    return max(1, min(32, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))


def _with_progress(pictures: Iterator, total: int) -> Iterator:
    """A bar on the terminal, where there is one and the work takes a while."""
    if total < 2000 or not sys.stderr.isatty():
        return pictures
    try:
        from tqdm import tqdm
    except ImportError:
        return pictures
    return tqdm(pictures, "Decoding", total, unit=" pictures")
