"""Read memory from the system: free bytes, also within a container, and processes killed because memory ran out.

Only Linux reports these; elsewhere every result is None. Standard library only.
"""

import contextlib
import ctypes
import re
from functools import cache
from pathlib import Path

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _NEVER = -1, -3, 2**31 - 1  # of glibc's malloc.h
_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def free_memory(proc: Path = _PROC, groups: Path = _GROUPS) -> tuple[int, bool] | None:
    """Return (free bytes, whether the limit of a control group and not the machine sets them)."""
    available = re.search(r"^MemAvailable:\s*([0-9]+) kB", _read(proc / "meminfo"), re.MULTILINE)
    if not available:
        return None
    machine = int(available[1]) << 10
    limited = [bytes_left for bytes_left in _free_in_groups(proc, groups) if bytes_left < machine]
    return (max(0, min(limited)), True) if limited else (machine, False)


def total_memory(proc: Path = _PROC, groups: Path = _GROUPS) -> int | None:
    """Bytes of memory of the machine, or of our control group if it may use less."""
    total = re.search(r"^MemTotal:\s*([0-9]+) kB", _read(proc / "meminfo"), re.MULTILINE)
    if not total:
        return None
    names = ("memory.max", "memory.limit_in_bytes")
    limits = [_read(folder / name).strip() for folder in _folders(proc, groups) for name in names]
    return min([int(total[1]) << 10, *(int(limit) for limit in limits if limit.isdigit())])


def count_oom_kills(proc: Path = _PROC, groups: Path = _GROUPS) -> int | None:
    """Return how many processes the kernel killed because memory ran out: of our control group, else of the machine."""
    for folder in _folders(proc, groups):
        for name in ("memory.events", "memory.oom_control"):
            if match := re.search(r"^oom_kill ([0-9]+)$", _read(folder / name), re.MULTILINE):
                return int(match[1])
    match = re.search(r"^oom_kill ([0-9]+)$", _read(proc / "vmstat"), re.MULTILINE)
    return int(match[1]) if match else None


@cache
def keep_freed() -> None:
    """Let this process keep freed memory for its next tensors, however large, if the C library is glibc.

    Otherwise blocks of more than 32 MB return to the system at once, and the next block is filled with zeros page by
    page before it is written.
    """
    with contextlib.suppress(OSError, AttributeError):
        change = ctypes.CDLL(None).mallopt
        change(_MMAP_THRESHOLD, _NEVER)
        change(_TRIM_THRESHOLD, _NEVER)


def _free_in_groups(proc: Path, groups: Path) -> list[int]:
    """Return the free bytes under the limits of our control group and its parents."""
    free_bytes = []
    for folder in _folders(proc, groups):
        names = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
        for limit, used in ((_read(folder / a).strip(), _read(folder / b).strip()) for a, b in names):
            if limit.isdigit() and used.isdigit():
                free_bytes.append(int(limit) - int(used))
    return free_bytes


def _folders(proc: Path, groups: Path) -> list[Path]:
    """Return our control group and its parents, ours first: of cgroup v2, and of v1 for memory."""
    folders = []
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, _, fields = line.partition(":")
        controllers, _, path = fields.partition(":")
        if controllers in ("", "memory"):
            inner = Path(path.lstrip("/"))
            base = groups / controllers
            folders += [base / part for part in (inner, *inner.parents)]
    return list(dict.fromkeys(folders))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
