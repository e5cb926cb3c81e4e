"""List files of untrusted folders and archives one by one, and refuse them before they cost anything.

Standard library only. Nothing is extracted here: callers get checked names and streams that end at the declared size.
Links, devices, absolute names, `..`, encrypted or sparse members, too many or too large members, and archives that
unpack to far more than their size are a `UserError`.
"""

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from lps.errors import UserError, shorten
from lps.files.atomic import open_regular
from lps.wording import data_size

MAX_ENTRIES = 10_000
MAX_BYTES = 16 << 30  # unpacked
RATIO = 200  # most unpacked bytes per packed byte
SLACK = 16 << 20  # unpacked bytes that are exempt from `RATIO`
_CHUNK = 1 << 20  # bytes that are copied at a time
_MAX_AT_ONCE = 4 << 20  # bytes that are read in one piece: no list of members of ours is longer
_UNPACKERS: dict[bytes, Callable] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}  # by first bytes
_DAMAGES = (zipfile.BadZipFile, zipfile.LargeZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError,
           NotImplementedError, RuntimeError, ValueError)  # fmt: skip


@dataclass(frozen=True)
class UntrustedFile:
    """A file: its name with slashes, its size in bytes, and how to open it; open it before you take the next one."""

    name: str
    size: int
    open: Callable[[], BinaryIO]

    def copy_to(self, target: BinaryIO) -> None:
        """Write the bytes into an open file; raises `UserError` if their number differs from the declared size."""
        remaining = self.size
        with self.open() as stream:
            while remaining and (chunk := stream.read(min(_CHUNK, remaining))):
                remaining -= len(chunk)
                target.write(chunk)
            if remaining or stream.read(1):
                raise UserError("archive", f"has a {shorten(self.name)} whose size differs from the archive's list")


class Allowance:
    """Budget of a source: counts entries and declared bytes.

    packed: bytes of the archive; None for folders, whose sizes are real. max_entries: None for the default.
    """

    def __init__(self, packed: int | None, max_bytes: int = MAX_BYTES, max_entries: int | None = None):
        self._entries, self._bytes = 0, 0
        self._ratio = None if packed is None else RATIO * packed + SLACK
        self._most, self._max_entries = max_bytes, max_entries or MAX_ENTRIES

    def admit(self, name: str, size: int) -> None:
        """Count an entry; raises `UserError` if its name is unsafe or the entries are too many or too large."""
        check_name(name)
        self._entries += 1
        self._bytes += size
        if self._entries > self._max_entries:
            raise UserError("archive", f"has more than {self._max_entries:,} entries")
        if size < 0 or self._bytes > self._most:
            raise UserError(
                "archive",
                f"unpacks to more than {data_size(self._most)}; the limit is exceeded by the entry {shorten(name)}",
            )
        if self._ratio is not None and self._bytes > self._ratio:
            raise UserError(
                "archive",
                f"unpacks to more than {RATIO} times its size (a zip bomb); the limit is exceeded by the entry "
                f"{shorten(name)}",
            )


def check_name(name: str) -> None:
    """Raise `UserError` for a name that could lead out of the folder it is unpacked in, on any system."""
    parts = name.split("/")
    hostile = not name or name.startswith("/") or ".." in parts or "\\" in name or ":" in parts[0]
    if hostile or not name.isprintable() or len(name) > 1024 or max(len(part.encode()) for part in parts) > 255:
        raise UserError("archive", f"has an entry called {shorten(name)}, which is not a safe file name")


@contextmanager
def open_entries(
    path: Path, max_bytes: int = MAX_BYTES, max_entries: int | None = None
) -> Iterator[Iterator[UntrustedFile]]:
    """Yield the regular files of a folder, a .zip, or a .tar (plain, gzip, bzip2, xz); raises `UserError`."""
    try:
        if path.is_dir():
            yield _folder_files(path, Allowance(None, max_bytes, max_entries))
            return
        with open_regular(path, follows_links=True) as file:
            allowance = Allowance(os.fstat(file.fileno()).st_size, max_bytes, max_entries)
            head = file.read(8)
            file.seek(0)
            yield _zip_files(file, allowance) if head[:2] == b"PK" else _tar_files(file, head, allowance)
    except _DAMAGES as error:
        if isinstance(error, UserError):
            raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError("archive", f"{shorten(path.name)} is damaged or not an archive ({reason})") from None
    except OSError as error:
        raise UserError("path", f"{shorten(str(path))} cannot be read ({error.strerror or error})") from None


def _folder_files(folder: Path, allowance: Allowance) -> Iterator[UntrustedFile]:
    for directory, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted(folders):
            if os.path.islink(os.path.join(directory, name)):
                folders.remove(name)
        for name in sorted(names):
            path = Path(directory) / name
            file_stat = path.lstat()
            if stat.S_ISREG(file_stat.st_mode):
                relative_name = path.relative_to(folder.parent).as_posix()
                allowance.admit(relative_name, file_stat.st_size)
                yield UntrustedFile(relative_name, file_stat.st_size, lambda path=path: open_regular(path))


def open_zip(file: BinaryIO) -> zipfile.ZipFile:
    """Open a .zip, but refuse a list of members that is longer than any of ours."""
    return zipfile.ZipFile(_SizeLimited(file))


def zip_members(archive: zipfile.ZipFile, allowance: Allowance, packed: int) -> list[zipfile.ZipInfo]:
    """Return the regular files of an archive of `packed` bytes, all checked before one is read; raises `UserError`."""
    members, inside = [], 0
    for info in archive.infolist():
        mode = info.external_attr >> 16
        if "\0" in info.orig_filename:
            raise UserError(
                "archive", f"has an entry called {shorten(info.orig_filename)}, which is not a safe file name"
            )
        # The name that it is extracted by, which a Unicode path field (0x7075) may set (Python 3.13).
        allowance.admit(info.filename.rstrip("/") or "/", info.file_size)
        inside += info.compress_size
        if stat.S_IFMT(mode) not in (0, stat.S_IFDIR if info.is_dir() else stat.S_IFREG):
            raise UserError("archive", f"has an entry {shorten(info.filename)} that is not a regular file")
        if info.flag_bits & 0x1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UserError(
                "archive", f"has an entry {shorten(info.filename)} that is encrypted or uses an unknown compression"
            )
        if not info.is_dir():
            members.append(info)
    if inside > packed:
        raise UserError("archive", "has entries that overlap: a zip bomb")
    return members


def _zip_files(file: BinaryIO, allowance: Allowance) -> Iterator[UntrustedFile]:
    with open_zip(file) as archive:
        for info in zip_members(archive, allowance, os.fstat(file.fileno()).st_size):
            yield UntrustedFile(info.filename, info.file_size, lambda info=info: archive.open(info))


def _tar_files(file: BinaryIO, head: bytes, allowance: Allowance) -> Iterator[UntrustedFile]:
    unpack = next((unpack for magic, unpack in _UNPACKERS.items() if head.startswith(magic)), None)
    stream = _Metered(unpack(file) if unpack else file)
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            allowance.admit(member.name.rstrip("/") or "/", member.size)
            stream.allow(member.size)
            if member.isdir():
                continue
            if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
                raise UserError("archive", f"has an entry {shorten(member.name)} that is not a regular file")
            yield UntrustedFile(member.name, member.size, lambda member=member: archive.extractfile(member))


class _SizeLimited(io.BufferedIOBase):
    """A seekable file that refuses reads larger than our programs need."""

    def __init__(self, file: BinaryIO):
        self._file = file

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _MAX_AT_ONCE:
            remaining = os.fstat(self._file.fileno()).st_size - self._file.tell()
            if remaining > _MAX_AT_ONCE or (size or 0) > _MAX_AT_ONCE:
                raise zipfile.BadZipFile(f"its list of members is longer than {_MAX_AT_ONCE >> 20} MB")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


class _Metered:
    """A stream of a .tar that gives no more bytes than its members declare, and a little for what is between them."""

    BETWEEN = 1 << 20  # bytes read ahead, and of one list of attributes
    HEADER = 8192  # bytes before a member

    def __init__(self, file: BinaryIO):
        self._file, self._remaining = file, self.BETWEEN

    def allow(self, size: int) -> None:
        self._remaining = min(self._remaining, self.BETWEEN) + size + self.HEADER

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._remaining -= len(data)
        if self._remaining < -self.BETWEEN:
            raise tarfile.ReadError("it has more data than its members declare")
        return data
