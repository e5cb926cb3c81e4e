"""Rows of long lists of runs, stored between processes: one file per runs folder, `run_rows/` in the cache folder.

The first line has the sha256 of the rest, which is one JSON object, and a stamp of the runs folder and of the code. The
file is never needed: a damaged, foreign, too large or unwritable one is ignored. The reader of a row checks whether it
is still valid (`lps.analysis.run_index`).
"""

import contextlib
import hashlib
import json
import time
from pathlib import Path

from lps.files import disk
from lps.files.atomic import open_regular, remove_abandoned, write_whole
from lps.files.user_folders import cache_folder

MAX_BYTES = 64 << 20  # of a file: about 40,000 runs
_UNUSED_S = 90 * 86_400  # a file that was not written for so long is removed; its runs folder may be gone
_HEAD = 2 * 64 + 2  # bytes of the first line


def read_index(root: Path, code: str) -> dict:
    """Return what `write_index` stored for the runs in `root` with the same `code`; empty without it."""
    try:
        with open_regular(_path(root)) as file:
            head = file.read(_HEAD)
            if not head.endswith(f" {_stamp(root, code)}\n".encode()):
                return {}
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES or head != _first_line(root, code, text):
            return {}
        stored = json.loads(str(text, "utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}


def write_index(root: Path, code: str, content: dict) -> None:
    """Store `content`, which JSON can hold; does nothing if it is too large or the disk refuses.

    code: changes with the code that computes the content.
    """
    text = json.dumps(content, separators=(",", ":")).encode()
    if len(text) <= MAX_BYTES:
        path = _path(root)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(path, _first_line(root, code, text) + text, is_durable=False)
            _remove_unused(path.parent)


def _remove_unused(folder: Path) -> None:
    remove_abandoned(folder, below=False)
    for path in folder.glob("*.json"):
        if time.time() - path.stat().st_mtime > _UNUSED_S:
            disk.remove(path)


def _first_line(root: Path, code: str, text: bytes) -> bytes:
    return f"{hashlib.sha256(text).hexdigest()} {_stamp(root, code)}\n".encode()


def _stamp(root: Path, code: str) -> str:
    return _digest(f"{root.absolute()}\n{code}")


def _path(root: Path) -> Path:
    return cache_folder() / "run_rows" / f"{_digest(str(root.absolute()))[:32]}.json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
