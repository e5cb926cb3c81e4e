"""Store pictures and vectors that a browser uploads as a folder that the data set `folder` reads.

They are in `$LPS_PICTURES`, else in `pictures` beside the decisions (`lps.files.user_folders.data_folder`). Uploads are
untrusted: names, number, size and packing are limited before a byte is written, links and files that are no pictures
are left out, and a folder is stored completely or not at all.
"""

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from lps.datasets.readers import vector_files
from lps.datasets.readers.pictures import DEEPEST, ENDINGS
from lps.datasets.readers.vector_files import is_vector_file
from lps.errors import UserError, shorten
from lps.files import browsable_folders, disk
from lps.files.atomic import as_user_error
from lps.files.atomic_folder import draft_folder, remove_abandoned_drafts
from lps.files.untrusted_files import Allowance, UntrustedFile, open_entries
from lps.files.user_folders import data_folder
from lps.interop.class_folders import folder_name, free_path
from lps.wording import counted

MAX_PICTURES = 50_000
MAX_BYTES = 8 << 30
ARCHIVES = ("zip", "tar", "tar.gz", "tgz", "tar.bz2", "tar.xz")  # accepted endings
VECTORS = vector_files.ENDINGS
UPLOADED_VECTORS = ("npz", "parquet")  # formats with everything in one file
_JUNK = "__MACOSX"  # folder that macOS adds to archives
_UNNAMED = "pictures"


@dataclass(frozen=True)
class StoredPictures:
    """Stored pictures.

    folder: has another name than `asked_name` if that was taken. left_out: names of the files that were left out.
    """

    folder: Path
    pictures: int
    left_out: tuple[str, ...]
    asked_name: str


def home_folder() -> Path:
    """Return the folder of the stored folders."""
    return data_folder("LPS_PICTURES", "pictures")


def home_of_new() -> Path:
    """Return the folder of uploads for prediction."""
    return home_folder() / ".new"


def folder(text: str) -> Path:
    """Return the folder, or file of vectors, that a page's address names; raises `UserError` if it is not allowed."""
    allowed_path = browsable_folders.check_folder(text, (home_folder(),), VECTORS)
    if browsable_folders.is_home(allowed_path):
        raise UserError("folder", f"{shorten(str(allowed_path))} is your home folder; choose a folder in it")
    return allowed_path


def folder_in_words(folder: Path) -> str:
    """Return a folder as users know it: its path, or its name if this program stores it."""
    return f"{folder.name}, saved by LPS Studio" if folder.parent in (home_folder(), home_of_new()) else str(folder)


def folders(parent: Path | None = None) -> list[Path]:
    """List the stored folders and files of vectors in `parent`, by default `home_folder`, newest first."""
    try:
        inside = [path for path in (parent or home_folder()).iterdir() if not path.name.startswith(".")]
        stored = [path for path in inside if path.is_dir() or is_vector_file(path)]
        return sorted(stored, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    except OSError:
        return []


def delete_upload(path: Path) -> None:
    """Delete a stored folder or file of vectors for good; raises `UserError` if it is none of this program's.

    A link is deleted, not what it leads to.
    """
    if path not in [*folders(), *folders(home_of_new())]:
        raise UserError("pictures", f"{shorten(path.name)} is not an upload of this program, or was deleted already")
    with as_user_error("pictures", f"{shorten(path.name)} cannot be deleted"):
        if path.is_symlink() or path.is_file():
            path.unlink()
        else:
            disk.remove_folder(path)
    if path.exists():
        raise UserError("pictures", f"{shorten(path.name)} was not deleted completely: some files are write-protected")


def keep_vectors(upload: BinaryIO, parent: Path | None = None) -> Path:
    """Store an uploaded file of vectors in `parent` (default: `home_folder`); returns its path, raises `UserError`."""
    parent, name = parent or home_folder(), Path(upload.name)
    with as_user_error("vectors", f"{shorten(str(parent))} cannot store the file"):
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        remove_abandoned_drafts(parent, ".*.tmp")
        size = upload.seek(0, os.SEEK_END)
        upload.seek(0)
        with draft_folder(parent, "upload") as draft:
            disk.check_fits(draft / name.name, size)
            with open(draft / "file", "xb") as target:
                shutil.copyfileobj(upload, target, 1 << 20)
            target = free_path(parent, folder_name(name.stem), name.suffix.lower())
            disk.rename(draft / "file", target)
            disk.sync_folder(parent)
    return target


def keep_archive(archive: Path, parent: Path | None = None) -> StoredPictures:
    """Unpack the pictures of an archive (`ARCHIVES`) below `parent`, by default `home_folder`; raises `UserError`."""
    with open_entries(archive, MAX_BYTES, MAX_PICTURES) as files:
        return _store(files, archive.name.partition(".")[0], parent or home_folder())


def keep_files(uploads: Sequence[BinaryIO], parent: Path | None = None) -> StoredPictures:
    """Store uploaded files below `parent`, as `keep_archive` does.

    uploads: each has a `name`: a file name, or a path that begins with the folder that the user chose.
    """
    allowance, files = Allowance(None, MAX_BYTES, MAX_PICTURES), []
    for upload in uploads:
        size = upload.seek(0, os.SEEK_END)
        upload.seek(0)
        allowance.admit(upload.name, size)
        files.append(UntrustedFile(upload.name, size, lambda upload=upload: upload))
    top = {file.name.partition("/")[0] for file in files}
    return _store(files, top.pop() if len(top) == 1 and "/" in files[0].name else "", parent or home_folder())


def _store(files: Iterable[UntrustedFile], name: str, parent: Path) -> StoredPictures:
    """Store pictures below `parent` under a free name; raises `UserError` and stores nothing then."""
    with as_user_error("pictures", f"{shorten(str(parent))} cannot store the pictures"):
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        remove_abandoned_drafts(parent, ".*.tmp")
        with draft_folder(parent, "upload") as draft:
            pictures, left_out = _fill(draft, files)
            if not pictures:
                files_in_words = counted(len(left_out), "file")
                raise UserError("pictures", f"{files_in_words}, none of which is a picture of a known format")
            asked_name = folder_name(name) if name else _UNNAMED
            target = free_path(parent, asked_name)
            disk.rename(_class_root(draft), target)
            disk.sync_folder(parent)
    return StoredPictures(target, pictures, left_out, asked_name)


def _fill(draft: Path, files: Iterable[UntrustedFile]) -> tuple[int, tuple[str, ...]]:
    """Write pictures below `draft` and return (their number, names of the files left out); raises `UserError`."""
    pictures, left_out = 0, []
    for file in files:
        parts = [part for part in file.name.split("/") if part not in ("", ".")]
        path = draft.joinpath(*parts)
        is_hidden = any(part.startswith(".") or part == _JUNK for part in parts)
        if is_hidden or path.suffix.lower() not in ENDINGS or len(parts) > DEEPEST or path.is_file():
            left_out.append(file.name)
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            target = open(path, "xb")
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise UserError("archive", f"uses {shorten(file.name)} as a file and as a folder") from None
        disk.check_fits(path, file.size)
        with target:
            file.copy_to(target)
        pictures += 1
    return pictures, tuple(left_out)


def _class_root(draft: Path) -> Path:
    """Return the folder of the classes: `draft`, or its only folder if that has folders itself."""
    inside = list(draft.iterdir())
    if len(inside) == 1 and inside[0].is_dir() and any(path.is_dir() for path in inside[0].iterdir()):
        return inside[0]
    return draft
