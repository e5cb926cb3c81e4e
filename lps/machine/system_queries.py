"""Which processes belong to what, and which file system a folder is on; asked of the system by psutil."""

from collections.abc import Iterator
from pathlib import Path

import psutil


def processes_with(variable: str) -> Iterator[tuple[int, str]]:
    """(id, value) of the processes that have an environment variable, as far as this user may see it."""
    for process in psutil.process_iter(["environ"]):
        if variable in (process.info["environ"] or {}):
            yield process.pid, process.info["environ"][variable]


def processes_that_opened(path: Path) -> list[int]:
    """The ids of the processes of this user that have the file open, ascending."""
    wanted = str(path.resolve())
    files = psutil.process_iter(["open_files"])
    return sorted(
        process.pid for process in files if wanted in {file.path for file in process.info["open_files"] or ()}
    )


def file_system(path: Path) -> str:
    """The kind of file system that `path` is on, such as ext4 or nfs4; "" where the system does not say."""
    mounts = [mount for mount in psutil.disk_partitions(all=True) if path.resolve().is_relative_to(mount.mountpoint)]
    return max(mounts, key=lambda mount: len(mount.mountpoint)).fstype if mounts else ""
