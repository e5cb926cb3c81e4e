"""Provide the operations that write files of runs: few enough for tests to make each of them fail.

Code that writes a file of a run calls them through this module (`disk.write(...)`). All raise `OSError`. Standard
library only.
"""

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path

_UNKNOWN = 2**63  # free bytes if the file system does not report them


class TooSmall(OSError):
    """Raised before writing if a file does not fit on its disk. needed, free: bytes."""

    def __init__(self, path: Path, needed: int, free: int):
        super().__init__(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        self.needed, self.free = needed, free

    def in_words(self) -> str:
        """Return "2.7 MB are needed, but only 0.1 MB are free", in powers of ten; in bytes if the file is small."""
        if self.needed < 100_000:
            return f"{self.needed:,} bytes are needed, but only {self.free:,} are free"
        return f"{self.needed / 1e6:.1f} MB are needed, but only {int(self.free / 1e5) / 10:.1f} MB are free"


def free_bytes(folder: Path) -> int:
    """Return the bytes that this user can still write on the disk of `folder`; `_UNKNOWN` if not reported."""
    try:
        usage = os.statvfs(folder)
    except OSError:
        return _UNKNOWN
    blocks = usage.f_bavail if os.geteuid() else usage.f_bfree  # some blocks are reserved for root
    return blocks * usage.f_frsize if usage.f_blocks else _UNKNOWN


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below `folder` in bytes; files that vanish meanwhile count 0."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total


def check_fits(path: Path, size: int) -> None:
    """Raise `TooSmall` if a file of `size` bytes does not fit on the disk of `path`."""
    free = free_bytes(path.parent)
    if size > free:
        raise TooSmall(path, size, free)


def create(path: Path, mode: int = 0o600) -> int:
    """Create an empty file, open for writing; by default private to its owner."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def open_end(path: Path) -> int:
    """Open a file for reading and for writing at its end; created if missing."""
    return open_own(path, os.O_APPEND)


def open_own(path: str | os.PathLike, flags: int = 0) -> int:
    """Open a file for reading and writing; created if missing, private to its owner.

    flags: further flags. Anything but a regular file is refused, since a link could lead anywhere.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    return descriptor


def write(descriptor: int, data: bytes) -> None:
    """Write all of `data`; after an error, some of it may be written."""
    remainder = memoryview(data)
    while remainder:
        remainder = remainder[os.write(descriptor, remainder) :]


def truncate(descriptor: int, size: int) -> None:
    """Keep only the first `size` bytes."""
    os.ftruncate(descriptor, size)


def sync(descriptor: int) -> None:
    """Wait until the disk has the file's bytes. After an error their state is unknown: do not call it again."""
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the folder's entries."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(old: Path, new: Path) -> None:
    """Rename `old` to `new` atomically."""
    os.replace(old, new)


def link(old: Path, new: Path) -> None:
    """Give a file a second name."""
    os.link(old, new)


def remove(path: Path) -> None:
    """Remove a file; nothing happens if it is missing."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def make_folder(path: Path) -> None:
    """Create a folder for this user only and sync its parent, which must exist; nothing happens if the folder exists.

    A link is refused, so that what is written into the folder stays below its parent, and so is anything else that is
    not a folder.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if os.path.islink(path):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path)) from None
        if os.path.lexists(path) and not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path)) from None
        return
    sync_folder(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder and its content, as far as possible."""
    shutil.rmtree(path, ignore_errors=True)
