"""Launch, stop, resume, queue: every run is a detached process of its own, and nothing of it lives in the caller.

A wish is a file (`want.json`); `pump` starts what is wished for as slots become free. It is called by whoever launches,
by every runner at its end and by the pages as they refresh, so no daemon is needed. A slot is a kernel lock in
`runs/.slots/`, held together with the run's own lock by the run's runner: the kernel frees both on any death. A run of
several processes on GPUs takes a slot for each, all at once or none.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from lps.config import Config
from lps.devices import available_gpus, check_device
from lps.files import write_json
from lps.locks import claim, is_held, locked
from lps.parameters import ConfigError, shorten
from lps.runs import Run, State, list_runs

SOURCE = Path(__file__).resolve().parent.parent
TRAINER = (sys.executable, "-m", "lps", "train", "--run")  # the run's folder follows
PUMP_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Slot:
    """A place for one run at a time. gpus: the uuids that its training process may see; none: what the caller sees."""

    name: str
    gpus: tuple[str, ...] = ()


def launch(run: Run, trainer=TRAINER) -> State:
    """Ask for the first attempt of a run and start it if a slot is free; the second call for a run changes nothing.

    trainer: the command that trains, to which the run's folder is added. Raises `ConfigError` where the run is
    unreadable, its device is not there, or no process can be started.
    """
    run = Run(run.folder.resolve())
    _check_place(run.config())
    with locked(run.folder):
        if not (run.folder / "want.json").exists():
            _wish(run, "run", 1)
    pump(run.root, trainer)
    return run.state()


def resume(run: Run, trainer=TRAINER) -> State:
    """Ask for another attempt of a run that is over but not finished; it goes on from the newest checkpoint.

    Raises `ConfigError` for a run in any other state, and as `launch` does.
    """
    run = Run(run.folder.resolve())
    with _locked_run(run):
        state = run.state()
        if not state.is_over or state.name == "finished":
            raise ConfigError("run", f"{run.id} is {state.name}; only stopped, failed and crashed runs can be resumed")
        _check_place(run.config())
        _wish(run, "run", state.attempt + 1)
    pump(run.root, trainer)
    return run.state()


def stop(run: Run, kill: bool = False) -> State:
    """Ask a run to write a checkpoint and end, or with `kill` to end at once; a queued run is cancelled.

    Does nothing for a run that is over. The runner obeys within a second, so the state is `stopping` for a while.
    """
    run = Run(run.folder.resolve())
    with _locked_run(run):
        state = run.state()
        pressing = run.read_json("want.json").get("want") == "kill" and state.name == "stopping"
        if (state.is_alive or state.name == "queued") and not pressing:
            _wish(run, "kill" if kill else "stop", state.attempt)
        return run.state()


def wait(run: Run, timeout: float | None = None) -> State:
    """The state of a run once it is over (or unreadable), or after `timeout` seconds whatever it is by then."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        state = run.state()
        if state.is_over or state.name == "unreadable" or (end is not None and time.monotonic() >= end):
            return state
        time.sleep(0.1)


def queue(root: Path) -> list[Run]:
    """The runs that wait for a slot, the next one first: in the order in which they were asked for."""
    waiting = [run for run in list_runs(root) if run.waiting_attempt() and not is_held(run.lock)]
    return sorted(waiting, key=lambda run: (_asked_at(run), run.id))


def position(run: Run) -> int | None:
    """How many runs are before this one in the queue; None where it does not wait."""
    ids = [other.id for other in queue(run.root)]
    return ids.index(run.id) if run.id in ids else None


def pump(root: Path, trainer=TRAINER) -> list[Run]:
    """Start the queued runs for which a slot is free, first come first served, and return them.

    Safe to call from any number of processes and threads: a pump waits for the one before it, since that one may have
    looked at the queue too early. Raises `ConfigError` where no process can be started.
    """
    root = Path(root).resolve()
    if not queue(root):
        return []
    turn = claim(root / ".sched.lock", PUMP_PATIENCE_S)
    if turn is None:
        return []
    try:
        taken: set[str] = set()
        return [run for run in queue(root) if _start(run, trainer, taken)]
    except OSError as error:
        raise ConfigError("runs", f"no run can be started from {shorten(str(root))} ({error.strerror})") from None
    finally:
        os.close(turn)


def _start(run: Run, trainer, taken: set[str]) -> bool:
    """Start a queued run if there are slots for it. taken: names of slots that are not to be had; added to.

    Slots that a run would have taken if there were enough of them are kept for it: what comes later in the queue and
    needs fewer would otherwise take each as it becomes free.
    """
    try:
        config = run.config()
    except ConfigError:
        return False
    candidates = _slots(config.device)
    needed = 1 if candidates[0].name.startswith("cpu") else min(config.processes, len(candidates))
    slots = _free_slots(run.root, [slot for slot in candidates if slot.name not in taken], needed)
    if not slots:
        taken.update(slot.name for slot in candidates)
        return False
    _end_leftovers(run.root)
    run_lock = claim(run.lock)
    try:
        attempt = run.waiting_attempt() if run_lock is not None else 0
        if attempt:
            _spawn(run, attempt, list(slots), (run_lock, *slots.values()), trainer)
        return bool(attempt)
    finally:
        for lock in slots.values():
            os.close(lock)
        if run_lock is not None:
            os.close(run_lock)


def _free_slots(root: Path, candidates: list[Slot], needed: int) -> dict[Slot, int]:
    """`needed` free slots with the descriptors of their locks, or none. Only one process at a time looks for slots."""
    folder = root / ".slots"
    folder.mkdir(exist_ok=True, mode=0o700)
    found: dict[Slot, int] = {}
    for slot in candidates:
        path = folder / f"{slot.name}.lock"
        lock = None if is_held(path) else claim(path)
        if lock is not None:
            found[slot] = lock
        if len(found) == needed:
            return found
    for lock in found.values():
        os.close(lock)
    return {}


def _slots(device: str) -> list[Slot]:
    """Where a run with this `device` setting may go, at least one: `auto` to a GPU where there is one."""
    gpus = [] if device == "cpu" else available_gpus()
    uuids = tuple(gpu.uuid for gpu in gpus)
    if device.startswith("cuda:"):
        named = [Slot(f"cuda-{gpu.index}", uuids) for gpu in gpus if gpu.name == device]
    else:
        named = [Slot(f"cuda-{gpu.index}", (gpu.uuid,)) for gpu in gpus]
    # A run whose GPU has gone since it was launched starts on a CPU slot, so that its trainer ends with the reason.
    return named or [Slot(f"cpu-{number}") for number in range(cpu_slots())]


def cpu_slots() -> int:
    """How many runs may use the CPU at a time: LPS_CPU_SLOTS, else 1."""
    text = os.environ.get("LPS_CPU_SLOTS", "1")
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1024):
        raise ConfigError("LPS_CPU_SLOTS", f"{shorten(text)} is not a whole number from 1 to 1024")
    return int(text)


def _spawn(run: Run, attempt: int, slots: list[Slot], locks: tuple[int, ...], trainer) -> None:
    """A runner in a session of its own that holds all locks, the run's first, from here on."""
    names, gpus = ",".join(slot.name for slot in slots), ",".join(uuid for slot in slots for uuid in slot.gpus)
    place = ["--attempt", str(attempt), "--slot", names, "--gpus", gpus]
    process = subprocess.Popen(
        [sys.executable, "-m", "lps.runner", str(run.folder), *place, "--locks", *map(str, locks), "--", *trainer],
        pass_fds=locks,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=SOURCE,  # with `-m` Python imports from here: a file in the caller's folder must not pass for a module
        env={name: value for name, value in os.environ.items() if name != "LPS_RUN"},
    )
    threading.Thread(target=process.wait, name=f"reaper of {run.id}", daemon=True).start()


def _end_leftovers(root: Path) -> None:
    """Kill what training processes left behind where nobody did: their runner was killed before it could.

    Such a process says in its environment (LPS_RUN) which run it belonged to, and the lock of this run is free.
    """
    if not hasattr(os, "pidfd_open"):
        return
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) == os.getpid():
            continue
        try:
            handle = os.pidfd_open(int(entry.name))
        except OSError:
            continue
        try:
            folder = _run_of(entry)
            if folder is not None and folder.parent == root and not is_held(folder / "lock"):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                _await_exit(handle)
        except OSError:
            continue
        finally:
            os.close(handle)


def _await_exit(handle: int) -> None:
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    poller.poll(5000)


def _run_of(process: Path) -> Path | None:
    """The folder in LPS_RUN of a process of ours under /proc; raises `OSError` for other people's processes."""
    for item in (process / "environ").read_bytes().split(b"\0"):
        if item.startswith(b"LPS_RUN="):
            return Path(os.fsdecode(item.removeprefix(b"LPS_RUN=")))
    return None


def _check_place(config: Config) -> None:
    check_device(config.device, config.processes)


def _wish(run: Run, want: str, attempt: int) -> None:
    write_json(run.folder / "want.json", {"want": want, "attempt": attempt, "time": round(time.time(), 6)})


def _locked_run(run: Run):
    """The lock under which wishes are written; raises `ConfigError` for a run that has been deleted."""
    if not run.folder.is_dir():
        raise ConfigError("run", f"{run.id} is not there any more")
    return locked(run.folder)


def _asked_at(run: Run) -> float:
    """When the run was asked for, in unix seconds; damaged times come first."""
    stored = run.read_json("want.json").get("time")
    return stored if type(stored) in (int, float) and abs(stored) < 2**53 else 0.0
