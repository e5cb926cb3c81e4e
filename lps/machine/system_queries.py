"""Query the system with psutil: processes by environment or open file, and the file system of a folder."""

from collections.abc import Iterator
from pathlib import Path

import psutil


def processes_of_runs() -> Iterator[tuple[int, Path]]:
    """Yield (pid, folder of the run in LPS_RUN) of the processes of runs, as far as this user may see it."""
    for process in psutil.process_iter(["environ"]):
        if folder := (process.info["environ"] or {}).get("LPS_RUN"):
            yield process.pid, Path(folder)


def processes_that_opened(path: Path) -> list[int]:
    """Return the pids of this user's processes that have the file open, ascending."""
    resolved_path = str(path.resolve())
    files = psutil.process_iter(["open_files"])
    return sorted(
        process.pid for process in files if resolved_path in {file.path for file in process.info["open_files"] or ()}
    )


def file_system(path: Path) -> str:
    """Return the file system type of `path`, such as ext4 or nfs4; "" if the system does not report it."""
    mounts = [mount for mount in psutil.disk_partitions(all=True) if path.resolve().is_relative_to(mount.mountpoint)]
    return max(mounts, key=lambda mount: len(mount.mountpoint)).fstype if mounts else ""
