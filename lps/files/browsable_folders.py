"""The folders that a user may browse: their home, and those in `$LPS_FOLDERS`."""

import os
from pathlib import Path

from lps.errors import UserError, shorten
from lps.files.atomic import as_user_error

MOST = 500  # sub-folders that are listed


def allowed_roots() -> list[Path]:
    """Return the top folders for browsing; `$LPS_FOLDERS` lists paths like `$PATH`."""
    extra = [Path(part) for part in os.environ.get("LPS_FOLDERS", "").split(os.pathsep) if part]
    return list(dict.fromkeys(path.resolve() for path in (Path.home(), *extra) if path.is_dir()))


def is_home(folder: Path) -> bool:
    """Whether it is a whole home, which is to look through and nothing to work with."""
    return folder == Path.home().resolve()


def check_folder(text: str | os.PathLike, also: tuple[Path, ...] = (), endings: tuple[str, ...] = ()) -> Path:
    """A folder that may be looked at, without links; raises `UserError`. also: further roots.

    endings: of files that may stand in its place.
    """
    with as_user_error("folder", f"{shorten(str(text))} cannot be read"):
        try:
            path = Path(text).expanduser().resolve()
            is_folder = path.is_dir() or path.suffix.lower() in endings and path.is_file()
        except (ValueError, RuntimeError):  # a zero in it, no such person
            is_folder = False
    if not is_folder:
        raise UserError("folder", f"{shorten(str(text))} is not a folder on this machine")
    if not any(
        path.is_relative_to(root) for root in (*allowed_roots(), *(folder_also.resolve() for folder_also in also))
    ):
        allowed = ", ".join(shorten(str(root)) for root in allowed_roots())
        raise UserError(
            "folder", f"{shorten(str(path))} is not inside {allowed}; set LPS_FOLDERS=FOLDER to allow another folder"
        )
    return path


def list_files(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """The files in an allowed folder that end so, by name; raises `UserError`."""
    with as_user_error("folder", f"{shorten(str(folder))} cannot be read"), os.scandir(folder) as listed:
        names = sorted(
            entry.name for entry in listed if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)
        )
    return [folder / name for name in names if name.lower().endswith(endings)][:MOST] if endings else []


def list_subfolders(folder: Path) -> list[Path]:
    """The folders in an allowed one by name, without hidden ones and links that lead elsewhere; raises `UserError`."""
    with as_user_error("folder", f"{shorten(str(folder))} cannot be read"), os.scandir(folder) as listed:
        names = sorted(
            entry.name for entry in listed if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
        )
    return [folder / name for name in names[:MOST]]
