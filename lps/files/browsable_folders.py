"""Limit which folders a user may browse: their home, and those in `$LPS_FOLDERS`."""

import os
from collections.abc import Callable
from pathlib import Path

from lps.errors import UserError, shorten
from lps.files.atomic import as_user_error

_MAX_ENTRIES = 500  # entries in a list


def allowed_roots() -> list[Path]:
    """Return the top folders for browsing; `$LPS_FOLDERS` lists paths like `$PATH`."""
    extra = [Path(part) for part in os.environ.get("LPS_FOLDERS", "").split(os.pathsep) if part]
    return list(dict.fromkeys(path.resolve() for path in (Path.home(), *extra) if path.is_dir()))


def is_home(folder: Path) -> bool:
    """Return whether it is the whole home folder, which may be browsed but not used as data."""
    return folder == Path.home().resolve()


def check_folder(text: str | os.PathLike, also: tuple[Path, ...] = (), endings: tuple[str, ...] = ()) -> Path:
    """Return an allowed folder as a path without links; raises `UserError`.

    also: further allowed roots. endings: of files that are accepted in place of a folder.
    """
    with as_user_error("folder", f"{shorten(str(text))} cannot be read"):
        try:
            path = Path(text).expanduser().resolve()
            is_folder = path.is_dir() or path.suffix.lower() in endings and path.is_file()
        except (ValueError, RuntimeError):  # a null byte in the text, or an unknown user behind ~
            is_folder = False
    if not is_folder:
        raise UserError("folder", f"{shorten(str(text))} is not a folder on this machine")
    if not any(path.is_relative_to(root) for root in (*allowed_roots(), *(root.resolve() for root in also))):
        allowed = ", ".join(shorten(str(root)) for root in allowed_roots())
        raise UserError(
            "folder", f"{shorten(str(path))} is not inside {allowed}; set LPS_FOLDERS=FOLDER to allow another folder"
        )
    return path


def list_files(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """Return the files in an allowed folder with one of these endings, by name; raises `UserError`."""
    files = _list_entries(folder, lambda entry: entry.is_file(follow_symlinks=False))
    return [path for path in files if path.name.lower().endswith(endings)][:_MAX_ENTRIES] if endings else []


def list_subfolders(folder: Path) -> list[Path]:
    """Return the folders in an allowed folder by name, without hidden ones and links; raises `UserError`."""
    return _list_entries(folder, lambda entry: entry.is_dir(follow_symlinks=False))[:_MAX_ENTRIES]


def _list_entries(folder: Path, is_listed: Callable[[os.DirEntry], bool]) -> list[Path]:
    with as_user_error("folder", f"{shorten(str(folder))} cannot be read"), os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if not entry.name.startswith(".") and is_listed(entry))
    return [folder / name for name in names]
