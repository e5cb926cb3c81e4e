"""Rows of long lists of runs, stored between processes: one file per runs folder, `run_rows/` in the cache folder.

The first line is the sha256 of the rest, which is one JSON object. The file is never needed: a damaged, foreign, too
large or unwritable one is ignored. Who stores a row checks whether it is still valid (`lps.analysis.run_index`).
"""

import contextlib
import hashlib
import json
from pathlib import Path

from lps.files.atomic import open_regular, write_whole
from lps.files.user_folders import cache_folder

MAX_BYTES = 64 << 20  # of a file: about 40,000 runs


def read_index(root: Path, code: str) -> dict:
    """Return what `write_index` stored for the runs in `root` with the same `code`; empty without it."""
    try:
        with open_regular(_path(root)) as file:
            data = file.read(MAX_BYTES + 1)
        digest, _, text = data.partition(b"\n")
        if len(data) > MAX_BYTES or hashlib.sha256(text).hexdigest().encode() != digest:
            return {}
        stored = json.loads(str(text, "utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) and stored.get("stamp") == _stamp(root, code) else {}


def write_index(root: Path, code: str, content: dict) -> None:
    """Store `content`, which JSON can hold; does nothing if it is too large or the disk refuses.

    code: changes with the code that computes the content.
    """
    text = json.dumps({"stamp": _stamp(root, code)} | content, separators=(",", ":")).encode()
    if len(text) + 100 <= MAX_BYTES:
        path = _path(root)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(path, hashlib.sha256(text).hexdigest().encode() + b"\n" + text, is_durable=False)


def _stamp(root: Path, code: str) -> list:
    return [str(root.absolute()), code]


def _path(root: Path) -> Path:
    digest = hashlib.sha256(str(root.absolute()).encode("utf-8", "surrogateescape")).hexdigest()
    return cache_folder() / "run_rows" / f"{digest[:32]}.json"
