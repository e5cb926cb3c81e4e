"""Slots for training runs: one per GPU and a configurable number on the processor."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lps.errors import shown
from lps.files import disk
from lps.files.atomic import read_small, remove_abandoned
from lps.files.locks import is_held, try_lock, write_owner
from lps.machine import devices, memory
from lps.machine.devices import available_gpus
from lps.scheduler import queue
from lps.settings.config import Config
from lps.store.runs import RUN_ID, Run

_RUN_BYTES = 2 << 30  # of memory for each run on the CPU, where the number of slots is automatic


@dataclass(frozen=True)
class Slot:
    """A slot for one run at a time. gpus: the uuids that its training process may see; empty: those of the caller."""

    name: str
    gpus: tuple[str, ...] = ()


def take_over(run: Run, slot: int) -> None:
    """Record the new holder in a slot's lock file, and clean up after the previous run.

    If its runner was killed during a write and the run is not resumed, a temporary file would stay forever.
    """
    sweep_after(run.root, slot)
    write_owner(slot, run.id)


def sweep_after(root: Path, slot: int) -> None:
    """Remove unlocked temporary files of the run named in a slot's lock file (a descriptor)."""
    name = os.pread(slot, 256, 0).decode("ascii", "replace")
    if RUN_ID.fullmatch(name) and not is_held(root / name / "lock"):
        remove_abandoned(root / name)


def slot_holders(root: Path) -> list[Run]:
    """Return the runs named in the lock files of held slots."""
    names = set()
    for path in (Path(root) / ".slots").glob("*.lock"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if is_held(path):
                names.add(str(read_small(path), "ascii"))
    return [Run(Path(root) / name) for name in sorted(names) if RUN_ID.fullmatch(name)]


def lock_free_slots(root: Path, candidates: list[Slot], needed: int) -> dict[Slot, int]:
    """Lock `needed` free slots, or none; return slot -> lock descriptor. Only one process at a time looks for slots."""
    folder = root / ".slots"
    disk.make_folder(folder)
    locks: dict[Slot, int] = {}
    try:
        for slot in candidates:
            path = folder / f"{slot.name}.lock"
            lock = None if is_held(path) else try_lock(path)
            if lock is not None:
                locks[slot] = lock
            if len(locks) == needed:
                return locks
    except OSError:
        release_slots(locks)
        raise
    release_slots(locks)
    return {}


def blocked_by(root: Path) -> str:
    """Explain what blocks every start in a folder: a link in place of a lock file; "" if nothing does."""
    folder = Path(root) / ".slots"
    for path in (folder, Path(root) / ".sched.lock", Path(root) / ".waker.lock", *sorted(folder.glob("*.lock"))):
        if path.is_symlink():
            return f"{shown(str(path))}: it is a link, and links are not followed"
    return f"{shown(str(folder))}: it is not a folder" if os.path.lexists(folder) and not folder.is_dir() else ""


def release_slots(slots: Mapping[Slot, int]) -> None:
    for lock in slots.values():
        os.close(lock)


def slots_for(config: Config, root: Path) -> tuple[list[Slot], int]:
    """Return the slots that a run may use, and how many of them it takes."""
    candidates = _slots(config.device, root, cpu_slots(root, cpu_threads(config)))
    return candidates, _needed_slots(config, candidates)


def _needed_slots(config: Config, candidates: list[Slot]) -> int:
    return 1 if candidates[0].name.startswith("cpu") else min(config.processes, len(candidates))


def num_parallel_runs(configs: Iterable[Config], root: Path) -> int:
    """Return how many of these runs an otherwise idle machine trains at a time."""
    names, most_needed, configs = set(), 1, list(configs)
    number = chosen_cpu_slots(root) or _fitting_runs(map(cpu_threads, configs))
    for config in {(config.device, config.processes): config for config in configs}.values():
        candidates = _slots(config.device, root, number)
        names |= {slot.name for slot in candidates}
        most_needed = max(most_needed, _needed_slots(config, candidates))
    return max(1, len(names) // most_needed)


def every_slot(root: Path, threads: int | None = None) -> list[Slot]:
    """Return all slots of this machine: GPUs first, then those of the CPU. threads: of the next run, if known."""
    gpus = [Slot(f"cuda-{gpu.index}", (gpu.uuid,)) for gpu in available_gpus()]
    return gpus + _slots("cpu", root, cpu_slots(root, threads))


def is_on_cpu(config: Config) -> bool:
    """Return whether a run trains on the CPU of this machine."""
    return config.device == "cpu" or (config.device == "auto" and not available_gpus())


def cpu_threads(config: Config) -> int:
    """Return how many cores a run on the CPU takes."""
    return config.threads or devices.available_cores()


def _slots(device: str, root: Path, cpu_number: int) -> list[Slot]:
    """Return the slots of a `device` setting, at least one; `auto` is a GPU if there is one."""
    gpus = [] if device == "cpu" else available_gpus()
    uuids = tuple(gpu.uuid for gpu in gpus)
    if device.startswith("cuda:"):
        named = [Slot(f"cuda-{gpu.index}", uuids) for gpu in gpus if gpu.name == device]
    else:
        named = [Slot(f"cuda-{gpu.index}", (gpu.uuid,)) for gpu in gpus]
    # If a run's GPU has disappeared since the launch, it starts on a CPU slot: its trainer then ends with the reason.
    return named or [Slot(name) for name in _cpu_slot_names(root, cpu_number)]


def _cpu_slot_names(root: Path, number: int) -> list[str]:
    """Return `number` names. After the number was lowered, runs on the extra slots count until they end."""
    folder = Path(root) / ".slots"
    names = [f"cpu-{index}" for index in range(number)]
    extra = sorted(path.stem for path in folder.glob("cpu-*.lock") if path.stem not in names and is_held(path))
    if not extra:
        return names
    busy = [name for name in names if is_held(folder / f"{name}.lock")]
    free = [name for name in names if name not in busy]
    return [*busy, *extra, *free[: max(0, number - len(busy) - len(extra))]]


def cpu_slots(root: Path, threads: int | None = None) -> int:
    """Return how many runs may use the CPU at a time: the chosen number, else as many as the cores allow.

    threads: of the next run, if known. The threads of all concurrent runs must fit on the cores, so a run without a
    limit trains alone.
    """
    if number := chosen_cpu_slots(root):
        return number
    active_configs = [
        config for run in slot_holders(root) if (config := run.config_if_readable()) and is_on_cpu(config)
    ]
    return _fitting_runs([*map(cpu_threads, active_configs), *([threads] if threads else [])])


def chosen_cpu_slots(root: Path) -> int | None:
    """Return LPS_CPU_SLOTS, else the setting of the queue; None: automatic."""
    return cpu_slots_from_environment() or queue.read_switch(root).cpu_slots


def _fitting_runs(threads: Iterable[int]) -> int:
    """Return how many runs with up to so many threads fit on the cores and in the memory; 1 if there are none."""
    cores, total = devices.available_cores(), memory.total_memory()
    number = cores // max(threads, default=cores)
    return max(1, number if total is None else min(number, total // _RUN_BYTES))


def cpu_slots_from_environment() -> int | None:
    """Return the value of LPS_CPU_SLOTS, None if it is not set; raises `UserError`."""
    text = os.environ.get("LPS_CPU_SLOTS")
    if text is None:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= 9
    return queue.check_cpu_slots(int(text) if is_number else text, "LPS_CPU_SLOTS")
