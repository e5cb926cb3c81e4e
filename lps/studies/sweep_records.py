"""Store the request of a sweep beside its runs, and list the sweeps. Standard library only.

The runs have the tag `sweep:NAME`; `.sweeps/<digest of the name>.json` has the last request under that name.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lps.errors import UserError, shorten
from lps.files import disk, versions
from lps.files.atomic import read_json, write_json
from lps.store.desired_state import stored_number
from lps.store.run_folders import list_runs
from lps.store.runs import Run

PREFIX = "sweep:"  # of the tag with the sweep's name
_FOLDER = ".sweeps"


@dataclass(frozen=True)
class SweepRecord:
    """A started sweep. runs: newest first. request: see `write_sweep_record`, {} without one. time: unix seconds.

    problem: why the stored request cannot be read; "" if it can, or if nothing is stored.
    """

    name: str
    runs: tuple[Run, ...]
    request: Mapping[str, object] = field(default_factory=dict)
    time: float = 0.0
    problem: str = ""

    @property
    def tag(self) -> str:
        return PREFIX + self.name


def write_sweep_record(root: Path, name: str, request: Mapping[str, object]) -> None:
    """Store the request: {"layout": {...}} or {"preset": {...}}, in JSON types. Raises `OSError`."""
    disk.make_folder(root / _FOLDER)
    record = {"name": name, "time": round(time.time(), 3), "asked": dict(request)}
    write_json(_path(root, name), versions.with_version("sweep", record))


def read_sweep_record(root: Path, name: str) -> tuple[dict, float]:
    """Return (request, unix seconds); ({}, 0) if nothing is stored or the file is damaged.

    Raises `UserError` for a record of a newer program.
    """
    stored = read_json(_path(root, name))
    versions.check_version("sweep", stored.get("version"), f"record of sweep {shorten(name)}")
    request, time_s = stored.get("asked"), stored.get("time")
    if stored.get("name") != name or not isinstance(request, dict):
        return {}, 0.0
    return request, stored_number(time_s, 0.0)


def list_sweeps(root: Path) -> list[SweepRecord]:
    """List the sweeps of the runs in `root`, the one with the newest run first."""
    runs_by_tag: dict[str, list[Run]] = {}
    for run in list_runs(root):
        for tag in run.meta()["tags"]:
            if tag.startswith(PREFIX) and tag != PREFIX:
                runs_by_tag.setdefault(tag.removeprefix(PREFIX), []).append(run)
    return [_record_of(root, name, tuple(runs)) for name, runs in runs_by_tag.items()]


def _record_of(root: Path, name: str, runs: tuple[Run, ...]) -> SweepRecord:
    try:
        return SweepRecord(name, runs, *read_sweep_record(root, name))
    except UserError as error:
        return SweepRecord(name, runs, problem=str(error))


def _path(root: Path, name: str) -> Path:
    return root / _FOLDER / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
