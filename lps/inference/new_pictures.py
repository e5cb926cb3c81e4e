"""Read new pictures as a run reads its own: from a folder, shards, an .npz or an array, piece by piece.

A file that cannot be used is listed as skipped. If no picture of an array can be used, a `UserError` is raised.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from lps.data.batches import Pictures
from lps.data.vectors import GivenVectors
from lps.datasets import Images, Vectors, arrays, embeddings, quoted
from lps.datasets.readers import vector_files
from lps.datasets.readers.decoding import Source, Unreadable, decode, squeezed
from lps.datasets.readers.item_pictures import ItemPictures
from lps.datasets.readers.pictures import Listing, decode_all, resize_pixels
from lps.datasets.readers.shards import Shards
from lps.datasets.readers.vector_files import VectorTable, is_vector_file
from lps.errors import UserError, shorten
from lps.files.atomic import as_user_error, clean_line
from lps.files.versions import MAX_IMAGES
from lps.settings.config import Config
from lps.wording import counted

PIECE = 256  # pictures in memory at a time
_PART = 4 * PIECE  # files of a folder that one of several processes takes at a time
_COLOURED = 16  # of 255; channels of a grey picture stored as a JPEG differ by less
_EXPECTED = "a folder of pictures or shards, a .npz file with pictures, or a file of vectors (.npy, .npz, .parquet)"
_IN_FILES = ("folder", "shards", "imagenet100")  # data sets with pictures of any size


@dataclass(frozen=True)
class PictureForm:
    """The size and kind of a run's pictures.

    height, width: pixels. is_whole: every picture was resized as a whole, without keeping its aspect ratio. is_brought:
    the data set was resized to this size, so arrays of other sizes can be resized too.
    """

    height: int
    width: int
    channels: int
    is_whole: bool
    is_brought: bool
    are_vectors: bool = False  # and no pictures: of `channels` numbers

    @classmethod
    def from_pictures(cls, config: Config, images: Pictures) -> "PictureForm":
        if isinstance(images, GivenVectors):
            return cls(0, 0, images.shape[1], False, False, True)
        _, channels, height, width = images.shape
        is_brought = config.dataset in _IN_FILES or config.dataset_image_size is not None
        return cls(height, width, channels, images.sizes is not None, is_brought)

    @property
    def in_words(self) -> str:
        if self.are_vectors:
            return f"vectors of {counted(self.channels, 'number')}"
        return f"{self.height} x {self.width} pixels with {counted(self.channels, 'channel')}"


@dataclass
class NewPictures:
    """Pictures that are read on demand.

    names: of the pictures that `pieces` has returned so far. skipped: (name, reason) of pictures left out. count: the
    largest possible number, None if unknown. root: the folder of the files, None for arrays and shards. parts: the same
    pictures in order, for several processes; () if they cannot be divided. stamp: changes when a file does.
    """

    make: Callable[["NewPictures"], Iterator[Images]]
    count: int | None = None
    root: Path | None = None
    parts: Sequence["NewPictures"] = ()
    stamp: object = None
    names: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def pieces(self) -> Iterator[Images]:
        """Yield all pictures in order, up to `PIECE` at a time; raises `UserError` if there are none or too many."""
        for piece in self.make(self):
            if len(self.names) > MAX_IMAGES:
                break
            yield piece
        self.check_count(len(self.names))

    def check_count(self, count: int) -> None:
        """Raise `UserError` if `count` usable pictures are too many or none."""
        if count > MAX_IMAGES:
            raise UserError("pictures", f"are more than {MAX_IMAGES:,}; predict them in parts")
        if not count:
            raise UserError("pictures", self._nothing_usable())

    def _nothing_usable(self) -> str:
        if not self.skipped:
            return "none found; expected at least one"
        name, reason = self.skipped[0]
        more = f", and {counted(len(self.skipped) - 1, 'more file')}" if len(self.skipped) > 1 else ""
        return f"none can be used: {shorten(name)} {reason}{more}"


def open_pictures(source: str | os.PathLike | np.ndarray, form: PictureForm) -> NewPictures:
    """Open the pictures of a folder and its sub-folders, of an .npz, or of an array uint8 (n, height, width[, 3]).

    Raises `UserError` if the source has no pictures or does not exist.
    """
    source = check_source(source)
    if form.are_vectors or isinstance(source, str | os.PathLike) and is_vector_file(source) and not _is_npz(source):
        return _open_vectors(source, form)
    if isinstance(source, np.ndarray):
        return _open_array(source, form)
    if os.path.isdir(source):
        return _open_folder(Path(source), form)
    return NewPictures(lambda new_pictures: _numbered(new_pictures, _unpacked(os.fspath(source)), form))


def check_source(source) -> str | os.PathLike | np.ndarray:
    """Return a path, or an array made of anything else; raises `UserError` if it cannot contain pictures."""
    if not isinstance(source, str | os.PathLike):
        try:
            array = np.asarray(source)
        except (TypeError, ValueError, RuntimeError):  # such as lists of unequal lengths, or a tensor on a GPU
            array = np.array(None)
        if array.dtype.hasobject:
            kind = type(source).__name__
            raise UserError("pictures", f"are not an array of numbers but {kind}; expected an array, or {_EXPECTED}")
        return array
    if os.path.isdir(source):
        return source
    if not os.path.exists(source) or not is_vector_file(source):
        actual = "is another kind of file" if os.path.exists(source) else _why_absent(source)
        raise UserError("pictures", f"{quoted(source)} {actual}; expected {_EXPECTED}")
    return source


def _is_npz(source: str | os.PathLike) -> bool:
    return os.path.splitext(source)[1].lower() == ".npz"


def _why_absent(source: str | os.PathLike) -> str:
    try:
        os.stat(source)
    except PermissionError:
        return "cannot be read because you have no access to a folder above it"
    except (OSError, ValueError):  # ValueError: a name that none can have
        pass
    return "does not exist"


# ---------------------------------------------------------------------------------------------------- files


def _open_folder(folder: Path, form: PictureForm) -> NewPictures:
    listing = Listing(folder)
    with as_user_error("pictures", f"{quoted(folder)} cannot be read"):
        listing.add(folder, -1)
        shards = Shards.of(folder)
    if not listing.files and (shards.training or shards.test):
        return _open_shards(shards, form)
    if not listing.files:
        raise UserError("pictures", f"{quoted(folder)} has no pictures")
    files = [name for name, *_ in listing.files]
    new_pictures = open_files(folder, files, form)
    new_pictures.skipped += listing.skipped
    new_pictures.stamp = listing.digest()
    new_pictures.parts = [
        open_files(folder, files[start : start + _PART], form) for start in range(0, len(files), _PART)
    ]
    return new_pictures


def open_files(folder: Path, files: list[str], form: PictureForm) -> NewPictures:
    """Open some files of a folder, given by their paths below it."""

    def make(new_pictures: NewPictures) -> Iterator[Images]:
        return _decoded(((name, folder / name) for name in files), form, new_pictures)

    return NewPictures(make, len(files), folder)


def _open_shards(shards: Shards, form: PictureForm) -> NewPictures:
    """Open the pictures of shards as the data set `shards` reads them; labels are ignored."""
    parts = [
        NewPictures(partial(_from_shard, replace(shards, skipped=[], has_labels=False), shard, form))
        for shard in (*shards.training, *shards.test)
    ]
    return NewPictures(partial(_joined, parts), parts=parts, stamp=shards.stamp())


def _from_shard(shards: Shards, shard: os.DirEntry, form: PictureForm, new_pictures: NewPictures) -> Iterator[Images]:
    with _as_picture_errors():
        sources = ((sample.name, sample.content) for sample in shards.samples([shard]))
        yield from _decoded(sources, form, new_pictures)
    new_pictures.skipped += shards.skipped


def _joined(parts: Sequence[NewPictures], new_pictures: NewPictures) -> Iterator[Images]:
    for part in parts:
        for images in part.make(part):
            new_pictures.names += part.names[-len(images.pixels) :]
            yield images
        new_pictures.skipped += part.skipped


def _decoded(sources: Iterable[tuple[str, Source]], form: PictureForm, new_pictures: NewPictures) -> Iterator[Images]:
    """Yield pictures by name, each from a file or from the bytes of one."""
    names: deque[str] = deque()

    def contents() -> Iterator[Source]:
        for name, source in sources:
            names.append(name)
            yield source

    pixels, sizes = [], []
    for num_done, picture in enumerate(decode_all(contents(), form.height, partial(_prepare, form)), 1):
        if isinstance(picture, str):
            new_pictures.skipped.append((clean_line(names.popleft(), 1000), picture))
        else:
            new_pictures.names.append(names.popleft())
            pixels.append(picture[0])
            sizes.append(picture[1])
        if num_done % PIECE == 0 and pixels:
            yield _images(np.stack(pixels), np.array(sizes, np.int64) if form.is_whole else None)
            pixels, sizes = [], []
    if pixels:
        yield _images(np.stack(pixels), np.array(sizes, np.int64) if form.is_whole else None)


def _prepare(form: PictureForm, source: Source, size: int) -> tuple[np.ndarray, tuple[int, int]]:
    """Return (pixels, original height and width) of a picture; raises `Unreadable`."""
    pixels, sides = squeezed(source, size) if form.is_whole else (decode(source, form.height, form.width), (0, 0))
    if form.channels == 1:
        if int((pixels.max(axis=2) - pixels.min(axis=2)).max()) > _COLOURED:
            raise Unreadable("is in colour, but the run was trained on grey pictures")
        pixels = pixels[..., :1]
    return pixels, sides


def _images(pixels: np.ndarray, sizes: np.ndarray | None = None) -> Images:
    return Images(pixels, np.full(len(pixels), -1), (), sizes=sizes)


# ---------------------------------------------------------------------------------------------------- vectors


def _open_vectors(source: str | os.PathLike | np.ndarray, form: PictureForm) -> NewPictures:
    """Open the vectors of a file, as the data set `embeddings` reads it, or of an array (n, d); labels are ignored."""
    if not form.are_vectors:
        raise UserError(
            "pictures", f"{quoted(source)} has vectors; this run was trained on pictures of {form.in_words}"
        )
    with _as_picture_errors(f"{embeddings.NOUN}s"):
        if not isinstance(source, np.ndarray) and not is_vector_file(source):
            raise UserError("dataset.path", f"{quoted(source)} has pictures; this run was trained on {form.in_words}")
        is_array = isinstance(source, np.ndarray)
        table = vector_files.of_columns({"vector": source}) if is_array else vector_files.read_vectors(source)
        width = table.values.shape[2]
        if width != form.channels:
            raise UserError("dataset.path", f"are vectors of {width} numbers; this run was trained on {form.in_words}")
        vector_files.check_values(table)
        pixels = embeddings.item_pictures(table, Path() if is_array else Path(source).parent)
    return NewPictures(partial(_read_table, table, pixels), len(table.ids))


def _read_table(table: VectorTable, pixels: ItemPictures, new_pictures: NewPictures) -> Iterator[Images]:
    zero, scale = np.zeros(table.values.shape[2], np.float32), np.ones(table.values.shape[2], np.float32)
    for start in range(0, len(table.ids), PIECE):
        rows = np.arange(start, min(start + PIECE, len(table.ids)))
        new_pictures.names += table.ids[start : start + PIECE]
        vectors = Vectors(table.values[start : start + PIECE], zero, scale, 1.0)  # the plain view needs no statistics
        yield replace(_images(pixels.take(rows)), vectors=vectors)


# ---------------------------------------------------------------------------------------------------- arrays


def _open_array(pixels: np.ndarray, form: PictureForm) -> NewPictures:
    if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4):
        raise UserError("pictures", f"are {pixels.dtype} {pixels.shape}; expected uint8 (n, height, width, channels)")
    pixels = pixels if pixels.ndim == 4 else pixels[..., None]
    return NewPictures(lambda new_pictures: _numbered(new_pictures, iter([pixels]), form), len(pixels))


def _unpacked(path: str) -> Iterator[np.ndarray]:
    with _as_picture_errors():
        yield from arrays.pictures_alone(path)


@contextmanager
def _as_picture_errors(name: str = "pictures") -> Iterator[None]:
    """Report errors of a data set as errors of the new pictures (or of `name`)."""
    try:
        yield
    except UserError as error:
        raise UserError(name, str(error).partition(": ")[2]) from None


def _numbered(new_pictures: NewPictures, parts: Iterator[np.ndarray], form: PictureForm) -> Iterator[Images]:
    """Yield pictures that are named by their numbers, from 0."""
    for part in parts:
        for start in range(0, len(part), PIECE):
            pixels = _fitted(part[start : start + PIECE], form)
            new_pictures.names += map(str, range(len(new_pictures.names), len(new_pictures.names) + len(pixels)))
            sizes = np.full((len(pixels), 2), pixels.shape[1:3], np.int64) if form.is_whole else None
            yield _images(np.ascontiguousarray(pixels), sizes)


def _fitted(pixels: np.ndarray, form: PictureForm) -> np.ndarray:
    """Resize pictures (m, height, width, channels) to the size of the run's; raises `UserError` if they do not fit."""
    _, height, width, channels = pixels.shape
    if channels == form.channels and (height, width) == (form.height, form.width):
        return pixels
    if channels == form.channels and form.is_brought and not form.is_whole:
        return np.stack(list(resize_pixels(pixels, form.height, form.width)))
    actual = PictureForm(height, width, channels, False, False).in_words
    raise UserError("pictures", f"have {actual}; this run was trained on pictures of {form.in_words}")
