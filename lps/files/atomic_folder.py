"""Create folders completely or not at all: fill a draft beside the target, then rename it. Standard library only.

The process that fills a draft holds a kernel lock on it, so an unlocked draft is abandoned and can be removed.
"""

import errno
import fcntl
import glob
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lps.errors import UserError, shorten
from lps.files import disk
from lps.files.atomic import as_user_error, read_small, write_json
from lps.files.locks import folder_lock, is_file_at

MARK = "export.json"  # marks an exported folder, which another export may replace
_TOKEN = 8 * "[0-9a-f]"  # pattern of the end of a draft's name
_UNLOCKED_S = 86_400.0  # age of an abandoned draft where folders cannot be locked (NFS)


@contextmanager
def draft_folder(parent: Path, name: str, mode: int = 0o700) -> Iterator[Path]:
    """Create an empty folder in `parent` to fill and rename, and remove it at the end if it was not renamed.

    Abandoned drafts of the same name are removed first. Raises `OSError`.
    """
    remove_abandoned_drafts(parent, f".{glob.escape(name)}.{_TOKEN}.tmp")
    while True:
        draft = parent / f".{name}.{secrets.token_hex(4)}.tmp"
        draft.mkdir(mode=mode)
        with suppress(FileNotFoundError):  # removed as abandoned between the two calls
            descriptor = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with suppress(OSError):  # the file system has no locks on folders
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if is_file_at(descriptor, draft):
                break
            os.close(descriptor)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        os.close(descriptor)


def abandoned_drafts(parent: Path, pattern: str = ".*.tmp") -> list[Path]:
    """Return the abandoned drafts in `parent`, by name. pattern: as in `Path.glob`."""
    drafts = []
    for path in sorted(parent.glob(pattern)):
        descriptor = _claim(path)
        if descriptor is not None:
            os.close(descriptor)
            drafts.append(path)
    return drafts


def remove_abandoned_drafts(parent: Path, pattern: str) -> None:
    """Remove the abandoned drafts in `parent`."""
    for path in parent.glob(pattern):
        descriptor = _claim(path)
        if descriptor is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(descriptor)


def _claim(draft: Path) -> int | None:
    """Open and lock the folder; None if another process holds it, or it is not a folder."""
    try:
        descriptor = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    except OSError as error:  # held, or a file system without locks on folders (NFS: EBADF; flock(2))
        if error.errno != errno.EWOULDBLOCK and time.time() - os.fstat(descriptor).st_ctime > _UNLOCKED_S:
            return descriptor
    os.close(descriptor)
    return None


def new_folder(target: Path, fill: Callable[[Path], None]) -> Path:
    """Create the folder `target` with what `fill` writes, completely or not at all, and return it.

    Raises `UserError` if it exists or cannot be written.
    """
    target = Path(os.path.abspath(target))
    with as_user_error("to", f"{shorten(str(target))} was not written"):
        target.parent.mkdir(parents=True, exist_ok=True)
        refuse_existing(target)
        with draft_folder(target.parent, target.name, 0o777) as draft:
            fill(draft)
            with folder_lock(target.parent):
                refuse_existing(target)
                draft.rename(target)
        disk.sync_folder(target.parent)
    return target


def refuse_existing(target: Path) -> None:
    """Raise `UserError` if `target` exists: nothing is ever overwritten."""
    if os.path.lexists(target):
        raise UserError("to", f"{shorten(str(target))} already exists; choose another folder")


@contextmanager
def draft_of(target: Path, facts: dict) -> Iterator[Path]:
    """Yield a folder to fill, which then replaces an earlier export at `target`; an error leaves all unchanged.

    facts: the content of `MARK`. If the process is killed between the two renames, the earlier export stays beside
    `target` and the next export restores it. Raises `UserError` if `target` is not an export or nothing can be written.
    """
    target = Path(os.path.abspath(target))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with folder_lock(target.parent):
            _finish_replacing(target)
        check_place(target)
        with draft_folder(target.parent, target.name, 0o777) as draft:
            yield draft
            write_json(draft / MARK, facts)
            with folder_lock(target.parent):
                _replace(draft, target)
        disk.sync_folder(target.parent)
    except OSError as error:
        raise UserError("into", f"{shorten(str(target))} was not written ({error.strerror or error})") from None


def _replace(draft: Path, target: Path) -> None:
    """Rename `draft` to `target` and remove an earlier export there."""
    check_place(target)
    previous = draft.with_name(f"{draft.name}.old")
    if target.exists():
        target.rename(previous)
    draft.rename(target)
    shutil.rmtree(previous, ignore_errors=True)


def _finish_replacing(target: Path) -> None:
    """Restore what a killed `_replace` moved away if nothing is in its place, else remove it."""
    for previous in target.parent.glob(f".{glob.escape(target.name)}.{_TOKEN}.tmp.old"):
        if previous.is_symlink() or not previous.is_dir():
            continue
        if os.path.lexists(target):
            shutil.rmtree(previous, ignore_errors=True)
        else:
            previous.rename(target)


def check_place(target: Path) -> None:
    """Raise `UserError` if something other than an export or an empty folder is at `target`."""
    if not os.path.lexists(target):
        return
    if not target.is_symlink() and target.is_dir():
        try:
            read_small(target / MARK)
            return
        except OSError:
            if not any(target.iterdir()):
                return
    raise UserError("into", f"{shorten(str(target))} already exists and is not an export; choose another folder")
