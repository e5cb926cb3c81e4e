"""Measure how busy each device is: processor and memory of the machine, of every GPU, and of a run's processes.

Asks the system (psutil) and the driver (its own library, with a time limit). A value that cannot be measured is None.
For pages: the runner, which only has the standard library, does not import this.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import psutil
import pynvml

from lps.machine.devices import available_cores
from lps.machine.processes import descendants, start_ticks

PATIENCE_S = 5.0

_asking = threading.Lock()  # held until the driver answers: if it hangs, only one thread waits for it


@dataclass(frozen=True)
class MachineLoad:
    """Load of the machine. cores: usable here; load: mean runnable processes of the last minute; memory in bytes."""

    cores: int
    load: float | None
    memory_used: int | None
    memory_total: int | None


@dataclass(frozen=True)
class Gpu:
    """Usage of a GPU. index, uuid: the driver's names; memory in bytes; busy: recent share of time in use.

    processes: bytes of its memory by process.
    """

    index: int
    uuid: str
    memory_used: int | None
    memory_total: int | None
    busy: float | None
    processes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Share:
    """Usage of one run's processes: their number, bytes of memory and of GPU memory (None: unknown).

    processor_s: seconds of one core that the living processes have used so far; the difference of two calls is their
    load.
    """

    processes: int
    memory: int
    processor_s: float
    gpu_memory: int | None = None


def machine_load() -> MachineLoad:
    """Return the present load of the machine."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        load = None
    try:
        memory = psutil.virtual_memory()
    except OSError:
        return MachineLoad(available_cores(), load, None, None)
    return MachineLoad(available_cores(), load, memory.total - memory.available, memory.total)


def processor_times() -> tuple[float, float] | None:
    """Return (busy, all) seconds of all cores since the machine started; None if the system does not report them."""
    try:
        times = psutil.cpu_times()
    except OSError:
        return None
    total = sum(times[:8])  # on Linux, the remaining fields are already included in these
    return total - times.idle - getattr(times, "iowait", 0.0), total


def busy_share(before: tuple[float, float] | None, after: tuple[float, float] | None) -> float | None:
    """Return the share of all cores that was busy between two `processor_times`; None if no time has passed."""
    if before is None or after is None or after[1] <= before[1]:
        return None
    return min(1.0, max(0.0, (after[0] - before[0]) / (after[1] - before[1])))


def gpu_usage() -> list[Gpu]:
    """Return the usage of every GPU; [] without GPUs, or without an answer in time."""
    if not _asking.acquire(timeout=PATIENCE_S):
        return []
    answer: SimpleQueue[list[Gpu]] = SimpleQueue()
    threading.Thread(target=_ask, args=(answer,), name="driver", daemon=True).start()
    try:
        return answer.get(timeout=PATIENCE_S)
    except Empty:
        return []


def gpu_processes(gpus: Iterable[Gpu]) -> dict[int, int]:
    """Return bytes of GPU memory by process, over all GPUs of `gpu_usage`."""
    memory_by_pid: Counter[int] = Counter()
    for gpu in gpus:
        memory_by_pid.update(gpu.processes)
    return dict(memory_by_pid)


def read_runner_usage(process: Mapping, on_gpus: Mapping[int, int] | None = None) -> Share | None:
    """Return the usage of a run's runner and its descendants; None if it does not run on this machine.

    process: the run's process.json. on_gpus: the result of `gpu_processes`, if available. A pid that was reused is
    recognized by its start time.
    """
    runner, ticks = process.get("runner_pid"), process.get("runner_ticks")
    if type(runner) is not int or type(ticks) is not int or start_ticks(runner) != ticks:
        return None
    pids = [runner, *descendants(runner)]
    usages = [used for used in map(_process_usage, pids) if used is not None]
    if not usages:
        return None
    used = [on_gpus[pid] for pid in pids if pid in on_gpus] if on_gpus else []
    memory, seconds = map(sum, zip(*usages, strict=True))
    return Share(len(usages), memory, seconds, sum(used) if used else None)


def _process_usage(pid: int) -> tuple[int, float] | None:
    """Return (bytes of memory, seconds of processor time) of one process; None if it has ended."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return process.memory_info().rss, times.user + times.system
    except psutil.Error:
        return None


def _ask(answer: SimpleQueue) -> None:
    """Put the driver's answer into the queue that `gpu_usage` waits for; [] if the driver is absent or fails."""
    try:
        pynvml.nvmlInit()
        try:
            answer.put([_gpu(index) for index in range(pynvml.nvmlDeviceGetCount())])
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        answer.put([])
    finally:
        _asking.release()


def _gpu(index: int) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    # Without what the driver reserves
    memory = _ask_driver(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    of_memory = (None, None) if memory is None else (memory.used, memory.total)
    busy = _ask_driver(pynvml.nvmlDeviceGetUtilizationRates, handle)
    share = None if busy is None else min(1.0, busy.gpu / 100)
    processes = _ask_driver(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) or []
    by_process = {process.pid: process.usedGpuMemory for process in processes if process.usedGpuMemory is not None}
    return Gpu(index, pynvml.nvmlDeviceGetUUID(handle), *of_memory, share, by_process)


def _ask_driver(query: Callable, *arguments: Any) -> Any:
    """Call a function of the driver's library; None if it has no answer for this device."""
    try:
        return query(*arguments)
    except pynvml.NVMLError:
        return None
