"""The operations that write the files of runs: few enough for tests to make each of them fail.

Code that writes a file of a run calls them through this module (`disk.write(...)`). Standard library only. All raise
`OSError`.
"""

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path

_UNKNOWN = 2**63  # bytes that are free where the file system does not tell


class TooSmall(OSError):
    """Raised before writing if a file does not fit on its disk; needed and free in bytes."""

    def __init__(self, path: Path, needed: int, free: int):
        super().__init__(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        self.needed, self.free = needed, free

    def in_words(self) -> str:
        """ "2.7 MB are needed, but only 0.1 MB free", in powers of ten; in bytes where the file is small."""
        if self.needed < 100_000:
            return f"{self.needed:,} bytes are needed, but only {self.free:,} are free"
        return f"{self.needed / 1e6:.1f} MB are needed, but only {int(self.free / 1e5) / 10:.1f} MB are free"


def free_bytes(folder: Path) -> int:
    """Return the bytes that this user can still write on the disk of `folder`; `_UNKNOWN` if not available."""
    try:
        usage = os.statvfs(folder)
    except OSError:
        return _UNKNOWN
    blocks = usage.f_bavail if os.geteuid() else usage.f_bfree  # some are kept for the administrator
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
    """Raise `TooSmall` where a file of `size` bytes has no room; what is free stays free for words about it."""
    free = free_bytes(path.parent)
    if size > free:
        raise TooSmall(path, size, free)


def create(path: Path, mode: int = 0o600) -> int:
    """A new, empty file, open for writing; for its owner alone where `mode` does not say otherwise."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def open_end(path: Path) -> int:
    """A file open for reading and for writing at its end; created where it is missing."""
    return open_own(path, os.O_APPEND)


def open_own(path: str | os.PathLike, flags: int = 0) -> int:
    """A file open for reading and writing, created where it is missing; for its owner alone.

    flags: further flags. What stands there and is no regular file is refused: a link could lead anywhere.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    return descriptor


def write(descriptor: int, data: bytes) -> None:
    """All of `data`, or some of it and an error."""
    remainder = memoryview(data)
    while remainder:
        remainder = remainder[os.write(descriptor, remainder) :]


def truncate(descriptor: int, size: int) -> None:
    """Leave the first `size` bytes."""
    os.ftruncate(descriptor, size)


def sync(descriptor: int) -> None:
    """Wait until the disk has the file's bytes. After an error nothing is known of them: do not ask again."""
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the disk knows the folder's entries."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(old: Path, new: Path) -> None:
    """Rename `old` to `new` atomically."""
    os.replace(old, new)


def link(old: Path, new: Path) -> None:
    """A second name for a file."""
    os.link(old, new)


def remove(path: Path) -> None:
    """Take a name away; nothing happens where it is missing."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def make_folder(path: Path) -> None:
    """A folder for this user alone, known to the disk; nothing happens where it exists. Its parent must.

    A link is refused, wherever it leads: what is written into such a folder stays where its parent is. So is what is no
    folder.
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
    """Take away a folder and what is in it, as far as possible."""
    shutil.rmtree(path, ignore_errors=True)
