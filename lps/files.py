"""Small files that are whole or absent: replaced atomically, read with a limit. Standard library only."""

import errno
import json
import os
import secrets
import unicodedata
from pathlib import Path

SMALL_FILE = 1 << 20  # bytes; a JSON file of ours that is larger is damaged


def write_whole(path: Path, data: bytes) -> None:
    """Replace `path` by `data`, or leave it as it was: temp file, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the disk knows the folder's entries."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: dict) -> None:
    """Replace `path` by a JSON object, as `write_whole` does; raises `ValueError` for non-finite numbers."""
    write_whole(path, json.dumps(value, allow_nan=False, indent=1).encode() + b"\n")


def clean_line(text: str, limit: int = 120) -> str:
    """A name as one printable line: control and format characters become spaces, at most `limit` characters."""
    text = unicodedata.normalize("NFC", str(text)[: 4 * limit])
    return "".join(c if c.isprintable() else " " for c in text)[:limit].strip()


def read_small(path: Path) -> bytes:
    """The bytes of one of our small files; raises `OSError`, also for links and huge files. Pipes do not block it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(descriptor, "rb") as file:
        data = file.read(SMALL_FILE + 1)
    if len(data) > SMALL_FILE:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return data
