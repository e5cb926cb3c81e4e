"""Replace files atomically, verify them, or read them with a limit. Standard library only."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lps.errors import UserError
from lps.files import disk
from lps.files.locks import is_file_at

SMALL_FILE = 1 << 20  # bytes; a larger JSON file of ours counts as damaged
_READ_SIZE = 1 << 16  # bytes
_UNTRUSTED = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW  # flags for opening untrusted files


_PRIVATE, PUBLIC = 0o600, 0o666  # modes of files; the user's umask reduces the second


def write_whole(path: Path, data: bytes, mode: int = _PRIVATE, is_durable: bool = True) -> None:
    """Replace `path` by `data`, or leave it as it was: temporary file, fsync, rename, fsync of the folder.

    mode: `PUBLIC` for exported files; files of runs are private to their owner. is_durable: False leaves out both
    fsync, for files that can be made again after a power cut. Raises `OSError`, and its subclass `disk.TooSmall` before
    anything is written.
    """
    disk.check_fits(path, len(data))
    temporary, descriptor = _create_temporary(path, mode)
    try:
        disk.write(descriptor, data)
        if is_durable:
            disk.sync(descriptor)
        disk.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove(temporary)
        raise
    finally:
        os.close(descriptor)
    if is_durable:
        disk.sync_folder(path.parent)


def _create_temporary(path: Path, mode: int) -> tuple[Path, int]:
    """Create a file beside `path`, locked while its descriptor is open so that `remove_abandoned` leaves it."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        descriptor = disk.create(temporary, mode)
        with contextlib.suppress(OSError):  # the file system has no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if is_file_at(descriptor, temporary):
            return temporary, descriptor
        os.close(descriptor)  # removed as abandoned between the two calls


def remove_abandoned(folder: Path, below: bool = True) -> None:
    """Remove the unlocked temporary files in `folder` (and `below`), whose writers were killed."""
    for path in folder.glob("**/.*.tmp" if below else ".*.tmp"):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | _UNTRUSTED)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                disk.remove(path)
            finally:
                os.close(descriptor)


def write_checked(path: Path, data: bytes) -> None:
    """Replace `path`, then its record `.json` with size and sha256; the new bytes count once the record exists."""
    write_whole(path, data)
    write_json(path.with_suffix(".json"), {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})


def read_checked(path: Path) -> bytes | None:
    """Return the bytes that `write_checked` wrote; None if they or their record are missing or damaged."""
    record = read_json(path.with_suffix(".json"))
    if "sha256" not in record:
        return None
    try:
        with open_regular(path) as file:
            data = file.read()
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == record["sha256"] else None


def write_json(path: Path, value: dict) -> None:
    """Replace `path` by a JSON object, as `write_whole` does; raises `ValueError` for non-finite numbers."""
    write_whole(path, json.dumps(value, allow_nan=False, indent=1).encode() + b"\n")


def clean_line(text: str, limit: int = 120) -> str:
    """Return text as one printable line: control and format characters become spaces, at most `limit` characters."""
    text = unicodedata.normalize("NFC", str(text)[: 4 * limit])
    clean = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    return clean[:limit].strip()


@contextlib.contextmanager
def as_user_error(name: str, message: str) -> Iterator[None]:
    """Turn disk errors inside into a `UserError`: `message`, with the reason in brackets."""
    try:
        yield
    except OSError as error:
        raise UserError(name, f"{message} ({disk_error_in_words(error)})") from None


def disk_error_in_words(error: OSError) -> str:
    """Describe a disk error in words."""
    if isinstance(error, disk.TooSmall):
        return f"the disk is full: {error.in_words()}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    if error.errno == errno.EROFS:
        return "the disk is read-only"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "permission denied; the folder may belong to another user"
    if error.errno == errno.ELOOP:
        return "it is a link, and links are not followed"
    return error.strerror or str(error) or type(error).__name__


def open_regular(
    path: str | os.PathLike, mode: str = "rb", buffering: int = -1, *, follows_links: bool = False
) -> BinaryIO:
    """Open a regular file like `open`, without following a link or waiting for a pipe; raises `OSError`.

    Use it for every file of a run that is not small, since the run may come from an untrusted source. follows_links:
    for files that the user named.
    """
    extra_flags = _UNTRUSTED & ~os.O_NOFOLLOW if follows_links else _UNTRUSTED
    file = open(path, mode, buffering, opener=lambda path, flags: os.open(path, flags | extra_flags, _PRIVATE))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    return file


def read_small(path: str | os.PathLike) -> bytes:
    """Return the bytes of one of our small files; raises `OSError`, also for links, pipes and large files."""
    descriptor = os.open(path, os.O_RDONLY | _UNTRUSTED)
    data = b""
    try:
        while len(data) <= SMALL_FILE and (part := os.read(descriptor, _READ_SIZE)):
            data += part
    finally:
        os.close(descriptor)
    if len(data) > SMALL_FILE:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return data


def read_json(path: str | os.PathLike) -> dict:
    """Return the object in one of our small JSON files; {} if the file is missing or damaged."""
    try:
        value = json.loads(read_small(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def fingerprint(path: str | os.PathLike) -> tuple[int, int, int, int] | None:
    """Return the identity, size and times of a file, which change with its content; None without a file."""
    try:
        file_stat = os.stat(path)
    except OSError:
        return None
    return file_stat.st_ino, file_stat.st_size, file_stat.st_mtime_ns, file_stat.st_ctime_ns
