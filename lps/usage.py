"""How much of each device is in use: processor and memory of the machine, of every GPU, and of a run's own processes.

Asked of the kernel (/proc) and of the driver (nvidia-smi, with a time limit). What cannot be had is None, never a
guess. Standard library only.
"""

import csv
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lps.devices import available_cores
from lps.processes import descendants, start_ticks
from lps.runs import Run

PATIENCE_S = 5.0
GPU_QUESTION = "index,uuid,memory.used,memory.total,utilization.gpu"
PROCESS_QUESTION = "gpu_uuid,pid,used_memory"
MIB = 1 << 20
PROC = Path("/proc")


@dataclass(frozen=True)
class Machine:
    """cores: that this process may use; load: runnable processes on average over the last minute; bytes of memory."""

    cores: int
    load: float | None
    memory_used: int | None
    memory_total: int | None


@dataclass(frozen=True)
class Gpu:
    """index, uuid: how the driver calls it; bytes of memory; busy: share of the last moment in which it computed."""

    index: int
    uuid: str
    memory_used: int | None
    memory_total: int | None
    busy: float | None


@dataclass(frozen=True)
class Share:
    """What the processes of one run use: how many there are, bytes of memory and of GPU memory (None: unknown).

    processor_s: seconds of one core that those alive have used so far; the difference of two looks is their load.
    """

    processes: int
    memory: int
    processor_s: float
    gpu_memory: int | None = None


def machine() -> Machine:
    """The machine as it is now."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        load = None
    lines = _lines(PROC / "meminfo")
    known = {name: _kib(rest) for name, _, rest in (line.partition(":") for line in lines)}
    total, available = known.get("MemTotal"), known.get("MemAvailable")
    used = None if total is None or available is None else max(0, total - available)
    return Machine(available_cores(), load, used, total)


def processor_times() -> tuple[int, int] | None:
    """(busy, all) ticks of all cores since the machine started; None where the kernel does not say."""
    for line in _lines(PROC / "stat"):
        if line.startswith("cpu "):
            ticks = [int(text) for text in line.split()[1:9]]
            return sum(ticks) - ticks[3] - ticks[4], sum(ticks)  # without idle and waiting for the disk
    return None


def busy_share(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    """The share of all cores that was busy between two looks, None where there was no time between them."""
    if before is None or after is None or after[1] <= before[1]:
        return None
    return min(1.0, max(0.0, (after[0] - before[0]) / (after[1] - before[1])))


def gpus() -> list[Gpu]:
    """What the driver says of every GPU; nothing where there is none, or no answer in time."""
    found = []
    for row in _ask("--query-gpu=" + GPU_QUESTION):
        if len(row) == 5 and row[0].isdigit():
            busy = _decimal(row[4])
            share = None if busy is None else min(1.0, busy / 100)
            found.append(Gpu(int(row[0]), row[1], _mib(row[2]), _mib(row[3]), share))
    return found


def gpu_processes() -> dict[int, int]:
    """Bytes of GPU memory by process, over all GPUs."""
    found: dict[int, int] = {}
    for row in _ask("--query-compute-apps=" + PROCESS_QUESTION):
        if len(row) == 3 and row[1].isdigit() and (used := _mib(row[2])) is not None:
            found[int(row[1])] = found.get(int(row[1]), 0) + used
    return found


def of_run(run: Run, on_gpus: Mapping[int, int] | None = None) -> Share | None:
    """What the runner of a run and all that descends from it use; None where it does not run on this machine.

    on_gpus: the answer of `gpu_processes`, where it was asked for. A pid that somebody else has by now is noticed by
    the moment at which its process began.
    """
    process = run.read_json("process.json")
    runner, ticks = process.get("runner_pid"), process.get("runner_ticks")
    if type(runner) is not int or type(ticks) is not int or start_ticks(runner) != ticks:
        return None
    pids = [runner, *descendants(runner)]
    memory, seconds, count = 0, 0.0, 0
    for pid in pids:
        found = _of_process(pid)
        if found is not None:
            count, memory, seconds = count + 1, memory + found[0], seconds + found[1]
    if not count:
        return None
    used = [on_gpus[pid] for pid in pids if pid in on_gpus] if on_gpus else []
    return Share(count, memory, seconds, sum(used) if used else None)


def _of_process(pid: int) -> tuple[int, float] | None:
    """(bytes of memory, seconds of processor time) of one process; None where it has ended."""
    try:
        pages = int((PROC / str(pid) / "statm").read_text().split()[1])
        fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])  # 14th and 15th: in its own code, and in the kernel for it
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK")


def _ask(question: str) -> list[list[str]]:
    """The rows of an answer of nvidia-smi; none where it is not there, is too slow or reports an error."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", question, "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = csv.reader(answer.stdout.splitlines()) if answer.returncode == 0 else []
    return [[cell.strip() for cell in row] for row in rows]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _kib(text: str) -> int | None:
    number, _, unit = text.strip().partition(" ")
    return int(number) * 1024 if number.isdigit() and unit == "kB" else None


def _mib(text: str) -> int | None:
    number = _decimal(text)
    return None if number is None else int(number * MIB)


def _decimal(text: str) -> float | None:
    """ "[N/A]" and the like are no number."""
    return float(text) if text.replace(".", "", 1).isdigit() else None
