"""Kernel locks: a file is held exactly as long as a process lives that has its descriptor. Standard library only."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

INSTEAD = ".folder.lock"


def claim(path: Path, patience: float = 1.0) -> int | None:
    """An exclusive kernel lock on `path` as an open descriptor, None where somebody else holds it.

    Waits up to `patience` seconds, since a reader's probe holds a shared lock for a moment.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock on `path` (tried with a shared lock, let go at once)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
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
def locked(folder: Path) -> Iterator[None]:
    """One at a time, over all processes and threads, inside the `with`: a kernel lock on the folder itself."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        if not _lock_folder(descriptor):
            os.close(descriptor)
            descriptor = os.open(folder / INSTEAD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lock_folder(descriptor: int) -> bool:
    """False on NFS, which wants a file that is open for writing (EBADF, flock(2)); the folders of a cluster are there.

    All machines see the same refusal, so all of them lock the file `INSTEAD`.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        return False
    return True


def boot_id() -> str:
    """A name for the time since the machine started; "" where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def is_file_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at `path` (it may have been deleted or moved meanwhile)."""
    try:
        ours, there = os.fstat(descriptor), os.stat(path)
    except OSError:
        return False
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
