"""Lock files and folders with kernel locks, which end with the process that holds the descriptor. Standard library
only.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lps.files import disk

FALLBACK = ".folder.lock"  # locked in place of a folder on NFS


def try_lock(path: Path, patience: float = 1.0) -> int | None:
    """Take an exclusive kernel lock on `path` and return its open descriptor; None if another process holds it.

    Waits up to `patience` seconds, since a reader's check holds a shared lock for a moment. Raises `OSError` for a
    link, a pipe and anything else that is not a regular file.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            descriptor = disk.open_own(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_file_at(descriptor, path):
                return descriptor
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                os.close(descriptor)
                raise
        os.close(descriptor)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.01)


@contextmanager
def hold_together(path: Path) -> Iterator[None]:
    """Hold a shared lock on `path`, which other processes may hold too; meanwhile `try_lock` returns None.

    Creates the folder of `path` again if a process removes it that has just tried the lock.
    """
    while True:
        disk.make_folder(path.parent)
        try:
            descriptor = disk.open_own(path)
        except FileNotFoundError:
            continue
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if is_file_at(descriptor, path):
            break
        os.close(descriptor)  # removed between the two calls
    try:
        yield
    finally:
        os.close(descriptor)


def write_owner(lock: int, text: str) -> None:
    """Record the holder in a lock file (a descriptor); disk errors are ignored, since no lock depends on it."""
    if os.fstat(lock).st_nlink > 1:  # it has a hard link elsewhere, so writing would change another file
        return
    with suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, text.encode(), 0)


def is_held(path: str | os.PathLike) -> bool:
    """Return whether a living process holds the lock on `path` (tried with a shared lock, released at once)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


@contextmanager
def wait_for_lock(
    path: Path, should_stop: Callable[[], bool], report: Callable[[], None], subject: str
) -> Iterator[bool]:
    """Wait for the lock on `path` and yield True while it is held; yield False if `should_stop` becomes true before.

    Calls `report` repeatedly while waiting. subject: what the other process creates, for the message. The file is
    removed at the end.
    """
    disk.make_folder(path.parent)
    descriptor = try_lock(path)
    if descriptor is None:
        print(f"another process is creating the same {subject}; waiting for it", flush=True)
    while descriptor is None:
        if should_stop():
            yield False
            return
        report()
        disk.make_folder(path.parent)  # a cleanup may have removed it
        descriptor = try_lock(path)
    try:
        yield True
    finally:
        disk.remove(path)  # locked until it is closed; waiting processes look for the file again
        os.close(descriptor)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Let only one thread of one process at a time into the `with` block, by a kernel lock on the folder itself."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        if not _lock_folder(descriptor):
            fallback = disk.open_own(folder / FALLBACK)
            os.close(descriptor)
            descriptor = fallback
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lock_folder(descriptor: int) -> bool:
    """Lock the folder; return False on NFS, which only locks files that are open for writing (EBADF, flock(2)).

    All machines of a cluster see the same refusal, so all of them lock the file `FALLBACK`.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        return False
    return True


def boot_id() -> str:
    """Return the kernel's id of the time since the machine started; "" if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def is_missing(path: Path) -> bool:
    """Return whether nothing has this path; False if the file system does not answer."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def is_own_file(path: str | os.PathLike) -> bool:
    """Return whether a lock can be taken at this path: a regular file, or nothing yet, and no link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return True


def is_file_at(descriptor: int, path: Path) -> bool:
    """Return whether the open file is still the one at `path` (it may have been deleted or moved)."""
    try:
        own_file, at_path = os.fstat(descriptor), os.lstat(path)
    except OSError:
        return False
    return (own_file.st_dev, own_file.st_ino) == (at_path.st_dev, at_path.st_ino)
