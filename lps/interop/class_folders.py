"""Write pictures into one sub-folder per class, beside a table, as a folder or as a .zip made while it is sent."""

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
    """Yield "folder/file" for every picture, unique even on a file system that ignores case.

    files: paths; only the last part is used. numbers: prefix for a file name that its folder has already.
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
    """Write a new folder, completely or not at all, and return it; raises `UserError`.

    pictures: ("folder/file", picture), where the picture is a file to copy (to link to with `links`), or pixels, uint8
    (height, width, channels), which become a PNG file. table: (file name, text).
    """
    return new_folder(target, lambda draft: _fill(draft, pictures, table, links))


def _fill(draft: Path, pictures: Iterable[tuple[str, Path | np.ndarray]], table: tuple[str, str], links: bool) -> None:
    for relative_path, picture in pictures:
        path = draft / relative_path
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
    """Yield the content of `write_class_folders`, below one folder called `name`, as a .zip in pieces.

    Nothing is written to disk and only one piece is in memory at a time. Pictures are stored uncompressed, since their
    formats are compressed already. Raises `OSError` for a missing file.
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
    """Write-only stream for an archive, which cannot seek; `take_written` removes what was written."""

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
    """Map every name to a folder name that all file systems accept, unique even where case does not count."""
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
    """Return a name without separators, reserved characters and words, leading dots, or dots and spaces at the end."""
    text = unicodedata.normalize("NFC", name)
    text = "".join("_" if c in '/\\:*?"<>|' or not c.isprintable() else c for c in text)
    text = text.encode("utf-8", "replace")[:_LONGEST_NAME].decode("utf-8", "ignore").strip().rstrip(". ")
    text = "_" + text if text.startswith(".") else text
    plain = text or "class"
    return f"{plain}_" if {plain.casefold(), plain.partition(".")[0].casefold()} & RESERVED else plain


def free_path(parent: Path, name: str, suffix: str = "") -> Path:
    """Return `parent / name + suffix`, with a number after `name` if that path exists already."""
    path, number = parent / f"{name}{suffix}", 1
    while os.path.lexists(path):
        number += 1
        path = parent / f"{name}-{number}{suffix}"
    return path
