"""Labels to take away: a table that spreadsheets open safely, and a folder with one sub-folder of pictures a class.

The folder can also come as a .zip that is made while it is sent.
"""

import io
import os
import shutil
import unicodedata
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from lps.analysis.labels import Labels, label_all, pictures
from lps.datasets import Images
from lps.errors import Refusal, shorten
from lps.files import tables
from lps.files.atomic import PUBLIC, refused, write_whole
from lps.files.drafts import new_folder
from lps.store.runs import Run
from lps.store.snapshots import read_split

_COLUMNS = ("image", "file", "predicted", "cluster", "name", "confidence", "group", "source")
_TABLE = "labels.csv"
_UNNAMED = "unlabeled"  # sub-folder of rejected images; the data set `folder` takes it for images of unknown class
RESERVED = {_UNNAMED, "unlabelled", "_unlabeled", "_unlabelled", "test", "con", "prn", "aux", "nul", _TABLE} | {
    f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10)
}
_FOLDER_LIMIT = 120  # bytes of a sub-folder's name
_PIECE = 1 << 20  # bytes of a picture that are in memory at a time


def export(run: Run, to: Path, epoch: int | None = None, links: bool = False) -> Labels:
    """Write the labels of a run at an epoch (see `label_all`): as a table where `to` ends in .csv, else as a folder.

    Gives the labels; raises `Refusal`. A table can be written without the pictures, then without file names.
    """
    split, targets = read_split(run.folder)
    found = label_all(run, epoch)
    if to.suffix.lower() != ".csv":
        path = run.config().dataset_path
        write_folder(to, found, pictures(run, split, targets), Path(path) if path else None, links)
        return found
    if links:
        raise Refusal("links", "are made in folders only; leave it out, or write to a folder")
    try:
        names = pictures(run, split, targets).file_names
    except Refusal:
        names = ()
    _write_csv(to, found, names)
    return found


# ---------------------------------------------------------------------------------------------------- a table


def as_csv(labels: Labels, file_names: tuple[str, ...] = ()) -> str:
    """One line an image, `_COLUMNS` first. file_names: of every image of the data set, () where images are no files."""
    rows: list[Sequence] = [_COLUMNS]
    columns = labels.images, labels.predicted, labels.cluster, labels.confidence
    numbers = zip(*(column.tolist() for column in columns))
    for (image, predicted, cluster, confidence), name, group, source in zip(
        numbers, labels.names, labels.groups, labels.sources
    ):
        file = tables.file_cell(file_names[image]) if file_names else ""
        ids = ["" if number < 0 else number for number in (predicted, cluster)]
        sure = "" if np.isnan(confidence) else f"{confidence:.4f}"
        rows.append([image, file, *ids, tables.cell(name), sure, group, source])
    return tables.csv_text(rows)


def _write_csv(path: Path, labels: Labels, file_names: tuple[str, ...] = ()) -> None:
    """The table as a file, whole or not at all; raises `Refusal`."""
    with refused("to", f"{shorten(str(path))} cannot be written"):
        write_whole(path, as_csv(labels, file_names).encode(), PUBLIC)


# ---------------------------------------------------------------------------------------------------- a folder


def write_folder(target: Path, labels: Labels, images: Images, root: Path | None = None, links: bool = False) -> Path:
    """A sub-folder of pictures a class and `labels.csv`, all there or nothing; gives the folder.

    Where the data set's images are files below `root`, they are copied under their own names, or linked to; else the
    pixels are written as PNG. Raises `Refusal`, also where something is at `target` already.
    """
    if links and not images.file_names:
        raise Refusal("links", "cannot be made: the images of this data set are no files; leave it out")
    return new_folder(target, lambda draft: _fill(draft, labels, images, root, links))


def _fill(draft: Path, labels: Labels, images: Images, root: Path | None, links: bool) -> None:
    for place, image in _places(labels, images):
        (draft / place).parent.mkdir(exist_ok=True)
        _place(draft / place, image, images, root, links)
    write_whole(draft / _TABLE, as_csv(labels, images.file_names).encode(), PUBLIC)


def _places(labels: Labels, images: Images) -> Iterator[tuple[str, int]]:
    """(sub-folder and name, image) of every picture; no two places are the same, even where case does not count."""
    folders = folder_names(sorted(set(labels.names) - {""})) | {"": _UNNAMED}
    taken: set[tuple[str, str]] = set()
    width = len(str(len(images.labels) - 1))
    for image, name in zip(labels.images.tolist(), labels.names):
        folder = folders[name]
        own = Path(images.file_names[image]).name if images.file_names else f"{image:0{width}d}.png"
        if (folder, own.casefold()) in taken:
            own = f"{image:0{width}d}-{own}"
        taken.add((folder, own.casefold()))
        yield f"{folder}/{own}", image


def _place(path: Path, image: int, images: Images, root: Path | None, links: bool) -> None:
    """One picture: the original file or a link to it, else the pixels."""
    original = _original(image, images, root)
    if original is None:
        _picture(images, image).save(path, "PNG")
    elif links:
        path.symlink_to(original)
    else:
        shutil.copyfile(original, path)


def _original(image: int, images: Images, root: Path | None) -> Path | None:
    """The file that an image comes from, None where it comes from none; raises `Refusal` where it is gone."""
    if not images.file_names or root is None:
        return None
    original = root.resolve() / images.file_names[image]
    if not original.is_file():
        name = shorten(images.file_names[image])
        raise Refusal("dataset.path", f"{name} is not there any more, so nothing was written")
    return original


def _picture(images: Images, image: int) -> Image.Image:
    pixels = images.pixels[image]
    return Image.fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels))


# ---------------------------------------------------------------------------------------------------- a .zip


def as_zip(labels: Labels, images: Images, root: Path | None, name: str) -> Iterator[bytes]:
    """What `write_folder` writes, below one folder called `name`, as a .zip in pieces; raises `Refusal` before the
    first one.

    Nothing is on the disk meanwhile, and no more than a piece in memory. Pictures are stored as they are: they are
    packed already.
    """
    places = [(place, image, _original(image, images, root)) for place, image in _places(labels, images)]
    return _zipped(places, as_csv(labels, images.file_names).encode(), images, name)


def _zipped(places: Sequence[tuple[str, int, Path | None]], table: bytes, images: Images, name: str) -> Iterator[bytes]:
    sink = _Pieces()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr(f"{name}/{_TABLE}", table, zipfile.ZIP_DEFLATED)
        for place, image, original in places:
            with archive.open(f"{name}/{place}", "w") as target, _content(images, image, original) as source:
                while piece := source.read(_PIECE):
                    target.write(piece)
                    yield sink.taken()
    yield sink.taken()


def _content(images: Images, image: int, original: Path | None) -> io.BufferedIOBase:
    if original is not None:
        return open(original, "rb")
    out = io.BytesIO()
    _picture(images, image).save(out, "PNG")
    out.seek(0)
    return out


class _Pieces(io.RawIOBase):
    """What an archive is written into: it cannot go back, and what was written is taken away."""

    def __init__(self):
        self._written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self._written += data
        return len(data)

    def taken(self) -> bytes:
        """What was written since this was asked last."""
        data = bytes(self._written)
        self._written.clear()
        return data


def folder_names(names: list[str]) -> dict[str, str]:
    """For every name a folder name that all file systems take, no two the same even where case does not count."""
    found: dict[str, str] = {}
    for name in names:
        plain, number = folder_name(name), 1
        unique = plain
        while unique.casefold() in {other.casefold() for other in found.values()}:
            number += 1
            unique = f"{plain} ({number})"
        found[name] = unique
    return found


def folder_name(name: str) -> str:
    """A name without separators, reserved characters and words, leading dots, or dots and spaces at the end."""
    text = unicodedata.normalize("NFC", name)
    text = "".join("_" if c in '/\\:*?"<>|' or not c.isprintable() else c for c in text)
    text = text.encode("utf-8", "replace")[:_FOLDER_LIMIT].decode("utf-8", "ignore").strip().rstrip(". ")
    text = "_" + text if text.startswith(".") else text
    plain = text or "class"
    return f"{plain}_" if {plain.casefold(), plain.partition(".")[0].casefold()} & RESERVED else plain


def free_folder(parent: Path, name: str) -> Path:
    """`parent / name`, with a number where that exists already."""
    path, number = parent / name, 1
    while os.path.lexists(path):
        number += 1
        path = parent / f"{name}-{number}"
    return path
