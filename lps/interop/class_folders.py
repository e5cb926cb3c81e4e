"""Pictures sorted into one sub-folder per class, beside a table: names of folders and files, and the writing.

The folder can also come as a .zip that is made while it is sent.
"""

import io
import os
import shutil
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from lps.datasets import as_image
from lps.errors import UserError, shorten
from lps.files.atomic import PUBLIC, write_whole
from lps.files.atomic_folder import new_folder

RESERVED = frozenset("unlabeled unlabelled _unlabeled _unlabelled test con prn aux nul labels.csv".split()) | {
    f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10)
}
_LONGEST_NAME = 120  # bytes of a sub-folder's name
_PIECE = 1 << 20  # bytes of a picture that are in memory at a time


def unique_paths(folders: Iterable[str], files: Iterable[str], numbers: Iterable[str]) -> Iterator[str]:
    """Give "folder/file" for every picture; no two are the same, even on a file system that ignores case.

    files: paths, of which the last part is kept. numbers: put before a name that the folder has already.
    """
    used_names: set[tuple[str, str]] = set()
    for folder, file, number in zip(folders, files, numbers):
        name = Path(file).name
        if (folder, name.casefold()) in used_names:
            name = f"{number}-{name}"
        used_names.add((folder, name.casefold()))
        yield f"{folder}/{name}"


def write_class_folders(
    target: Path, pictures: Iterable[tuple[str, Path | np.ndarray]], table: tuple[str, str], links: bool = False
) -> Path:
    """Write a new folder, all of it or nothing, and give it; raises `UserError`.

    pictures: (place, file to copy, or to link to with `links`); or pixels, uint8 (height, width, channels), which
    become a PNG file. table: (file name, text).
    """
    return new_folder(target, lambda draft: _fill(draft, pictures, table, links))


def _fill(draft: Path, pictures: Iterable[tuple[str, Path | np.ndarray]], table: tuple[str, str], links: bool) -> None:
    for place, picture in pictures:
        path = draft / place
        path.parent.mkdir(exist_ok=True)
        if isinstance(picture, np.ndarray):
            as_image(picture).save(path, "PNG")
        elif links:
            path.symlink_to(picture)
        else:
            _copy(picture, path)
    name, text = table
    write_whole(draft / name, text.encode(), PUBLIC)


def _copy(original: Path, path: Path) -> None:
    try:
        shutil.copyfile(original, path)
    except FileNotFoundError:
        raise UserError("pictures", f"{shorten(original.name)} no longer exists, so nothing was written") from None


def as_zip(pictures: Iterable[tuple[str, Path | np.ndarray]], table: tuple[str, str], name: str) -> Iterator[bytes]:
    """What `write_class_folders` writes, below one folder called `name`, as a .zip in pieces; raises `OSError` for a
    missing file.

    Nothing is on the disk meanwhile, and no more than a piece in memory. Pictures are stored as they are: they are
    packed already.
    """
    sink = _Pieces()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr(f"{name}/{table[0]}", table[1].encode(), zipfile.ZIP_DEFLATED)
        for path, picture in pictures:
            with archive.open(f"{name}/{path}", "w") as target, _content(picture) as source:
                while piece := source.read(_PIECE):
                    target.write(piece)
                    yield sink.take_written()
    yield sink.take_written()


def _content(picture: Path | np.ndarray) -> io.BufferedIOBase:
    if isinstance(picture, Path):
        return open(picture, "rb")
    out = io.BytesIO()
    as_image(picture).save(out, "PNG")
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

    def take_written(self) -> bytes:
        """Return the bytes written since the last call."""
        data = bytes(self._written)
        self._written.clear()
        return data


def folder_names(names: list[str]) -> dict[str, str]:
    """For every name a folder name that all file systems take, no two the same even where case does not count."""
    folder_by_name: dict[str, str] = {}
    for name in names:
        plain, number = folder_name(name), 1
        unique = plain
        while unique.casefold() in {used_folder.casefold() for used_folder in folder_by_name.values()}:
            number += 1
            unique = f"{plain} ({number})"
        folder_by_name[name] = unique
    return folder_by_name


def folder_name(name: str) -> str:
    """A name without separators, reserved characters and words, leading dots, or dots and spaces at the end."""
    text = unicodedata.normalize("NFC", name)
    text = "".join("_" if c in '/\\:*?"<>|' or not c.isprintable() else c for c in text)
    text = text.encode("utf-8", "replace")[:_LONGEST_NAME].decode("utf-8", "ignore").strip().rstrip(". ")
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
