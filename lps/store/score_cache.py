"""Cache of computed scores in the run's folder, `scores.json`, so that a new server need not compute them again.

A stored score is valid while its source files and the code that computed it are unchanged. The file is never needed:
a damaged, foreign or unwritable one is ignored.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from lps.files.atomic import write_whole
from lps.store.runs import Run

FILE = "scores.json"
_SOURCES = ("config.json", "split.npz", "events.jsonl", "exit.json")  # scores depend on these and the snapshots
_MAX_SCORINGS = 64  # stored scorings per run


def source_stamp(run: Run, code: str) -> str:
    """Return a value that changes with the source files of the scores of `run` and with the `code` that scores.

    It hashes time and size of every file; missing files are left out.
    """
    checksum = hashlib.sha256(code.encode())
    for name in _SOURCES:
        with contextlib.suppress(OSError):
            checksum.update(_version(name, os.stat(run.folder / name)))
    with contextlib.suppress(OSError), os.scandir(run.snapshots) as entries:
        for name, status in sorted((entry.name, entry.stat()) for entry in entries if not entry.name.startswith(".")):
            checksum.update(_version(name, status))
    return checksum.hexdigest()


def _version(name: str, status: os.stat_result) -> bytes:
    return f"{name} {status.st_mtime_ns} {status.st_size}\n".encode()


def read_scores(run: Run, stamp: str, scoring: tuple[str, ...]) -> dict | None:
    """Return the stored scores of `run` under `scoring`, for files with this `source_stamp`; None without any."""
    scores = _entries(run, stamp).get(" ".join(scoring))
    return scores if isinstance(scores, dict) else None


def store_scores(run: Run, stamp: str, scoring: tuple[str, ...], values: Mapping[str, object]) -> None:
    """Store `values`, which JSON can hold; does nothing for a recording or if the disk refuses."""
    if run.is_recorded:
        return
    entries = _entries(run, stamp) | {" ".join(scoring): dict(values)}
    entries = dict(list(entries.items())[-_MAX_SCORINGS:])
    with contextlib.suppress(OSError):
        write_whole(run.folder / FILE, json.dumps({"version": 1, "stamp": stamp, "scores": entries}).encode())


def _entries(run: Run, stamp: str) -> dict:
    """Return all stored scores by scoring method; empty if the stamp differs."""
    stored = run.read_json(FILE)
    if stored.get("version") != 1 or stored.get("stamp") != stamp:
        return {}
    entries = stored.get("scores")
    return entries if isinstance(entries, dict) else {}


def digest_of(*paths: Path) -> str:
    """Return a digest of the content of these source files."""
    checksum = hashlib.sha256()
    for path in paths:
        checksum.update(path.read_bytes())
    return checksum.hexdigest()
