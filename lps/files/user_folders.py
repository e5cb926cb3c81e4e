"""Locate this user's folders: runs, caches, and data that cannot be recomputed (decisions, uploaded pictures)."""

import os
from pathlib import Path

from lps.files.program_location import IS_CLONE, SOURCE


def cache_folder() -> Path:
    """Return the folder for decoded pictures, downloads and stored features; deleting it only costs time.

    `$LPS_CACHE`, else `$XDG_CACHE_HOME/lps-studio`, else `~/.cache/lps-studio`.
    """
    if os.environ.get("LPS_CACHE"):
        return Path(os.environ["LPS_CACHE"]).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "lps-studio"


def data_folder(variable: str, name: str) -> Path:
    """Return `$VARIABLE`, else `$XDG_DATA_HOME/lps-studio/NAME`, else the same in `~/.local/share`."""
    if os.environ.get(variable):
        return Path(os.environ[variable]).absolute()
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base).absolute() / "lps-studio" / name


def runs_folder() -> Path:
    """Return the default folder of the runs: `$LPS_RUNS`, else `./runs` if it exists.

    Otherwise `runs` in the clone of this program, or in the user's data folder if the program is installed.
    """
    local_runs = Path("runs")
    if os.environ.get("LPS_RUNS"):
        return Path(os.environ["LPS_RUNS"])
    if local_runs.is_dir():
        return local_runs
    return SOURCE / local_runs if IS_CLONE else data_folder("LPS_RUNS", "runs")
