"""List the devices that a run can use here, and why one is missing; asks the driver without importing torch.

Uses nvidia-smi and not the driver's library: a runner asks too, and it only has the standard library, holds locks and
must not be affected by a driver that hangs or crashes.
"""

import csv
import os
import shutil
import subprocess
import time
from dataclasses import dataclass

from lps.errors import UserError, shorten
from lps.wording import counted

_QUESTION = ("nvidia-smi", "--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader,nounits")
PATIENCE_S = 10
_MAX_AGE_S = 30

_cache: tuple[float, list["Device"]] | None = None


@dataclass(frozen=True)
class Device:
    """A device by the name that `Config.device` takes: cpu, cuda:0, ...

    index, uuid: the driver's names of a GPU, independent of CUDA_VISIBLE_DEVICES. bytes: its memory, None if unknown.
    """

    name: str
    label: str
    available: bool = True
    reason: str = ""
    index: int = 0
    uuid: str = ""
    bytes: int | None = None


def list_devices(max_age_s: float = _MAX_AGE_S) -> list[Device]:
    """Return the CPU, then the GPUs that CUDA_VISIBLE_DEVICES leaves visible, or an unavailable cuda:0 with the reason.

    The driver's answer is cached for `max_age_s` seconds.
    """
    global _cache
    if _cache is None or time.monotonic() - _cache[0] >= max_age_s:
        gpus, reason = _gpus()
        cpu = Device("cpu", f"CPU, {counted(available_cores(), 'core')}")
        _cache = time.monotonic(), [cpu, *(gpus or [Device("cuda:0", "GPU", False, reason)])]
    return list(_cache[1])


def available_gpus() -> list[Device]:
    """Return the GPUs that a run can use."""
    return [device for device in list_devices() if device.available and device.name != "cpu"]


def check_device(name: str, processes: int = 1) -> None:
    """Raise `UserError` if a run with these settings (auto, cpu, cuda, cuda:N) could not start here."""
    devices = list_devices()
    names = [device.name for device in devices if device.available]
    if name in ("auto", "cuda") and 1 < len(names) <= processes:
        count = len(names) - 1
        raise UserError("processes", f"{processes} is more than the {count} GPUs here; every process needs one")
    if name in ("auto", *names) or (name == "cuda" and len(names) > 1):
        return
    missing = next((f": {device.reason}" for device in devices if not device.available), "")
    raise UserError("device", f"{name} is not available{missing}; choices: auto, {', '.join(names)}")


def available_cores() -> int:
    """Return how many CPU cores this process may use; in a SLURM job, which may be unbound, at most its share."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    slurm_cpus = os.environ.get("SLURM_CPUS_ON_NODE", "")
    return min(cores, int(slurm_cpus)) if slurm_cpus.isascii() and slurm_cpus.isdigit() and int(slurm_cpus) else cores


def _gpus() -> tuple[list[Device], str]:
    """Return the visible GPUs, or none and the reason."""
    if shutil.which(_QUESTION[0]) is None:
        return [], "no NVIDIA driver found (nvidia-smi is not installed)"
    try:
        answer = subprocess.run(
            _QUESTION, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        return [], f"the NVIDIA driver does not respond (nvidia-smi took more than {PATIENCE_S} s)"
    except OSError as error:
        return [], f"nvidia-smi cannot be run ({error.strerror})"
    if answer.returncode:
        lines = (answer.stdout + answer.stderr).strip().splitlines()
        message = lines[0][:200] if lines else f"exit code {answer.returncode}"
        return [], f"the NVIDIA driver reports: {message}"
    rows = [[cell.strip() for cell in row] for row in csv.reader(answer.stdout.splitlines())]
    return _visible([row for row in rows if len(row) == 4], os.environ.get("CUDA_VISIBLE_DEVICES"))


def _visible(rows: list[list[str]], visible_devices: str | None) -> tuple[list[Device], str]:
    """Return the GPUs among `rows` (index, uuid, name, MiB) that CUDA_VISIBLE_DEVICES admits, in its order.

    As in CUDA, an entry is a number or the beginning of a uuid, and the first entry without a match ends the list.
    """
    if not rows:
        return [], "the NVIDIA driver found no GPU"
    if visible_devices is None:
        return [_gpu(number, *row) for number, row in enumerate(rows)], ""
    visible = []
    for entry in (part.strip() for part in visible_devices.split(",")):
        fitting = [row for row in rows if entry and (row[0] == entry or row[1].startswith(entry))]
        if len(fitting) != 1 or fitting[0] in visible:
            break
        visible += fitting
    hidden = f"CUDA_VISIBLE_DEVICES={shorten(visible_devices)} hides every GPU"
    return [_gpu(number, *row) for number, row in enumerate(visible)], hidden


def _gpu(number: int, index: str, uuid: str, name: str, memory_mib: str) -> Device:
    size = int(memory_mib) << 20 if memory_mib.isdigit() else None
    memory = f", {round(size / 2**30)} GiB" if size is not None else ""
    return Device(f"cuda:{number}", name + memory, index=int(index), uuid=uuid, bytes=size)
