"""Launch, stop and resume runs: every run is a detached process, independent of its caller.

A request is a file (`want.json`). `dispatch` starts the requested runs in the order of the queue (lps.scheduler.queue)
as slots become free. It is called by every launch, by every runner at its end, and at every page refresh. While runs
wait, a small process (lps.scheduler.queue_daemon) calls it too. So the queue continues after a runner was killed, and
crashed runs are retried while no page is open. A slot is a kernel lock in `runs/.slots/`. The runner holds it together
with the run's own lock; the kernel frees both when the runner dies. A run of several processes on GPUs takes one slot
for each process, all at once or none.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from lps.cluster import executors, job_options
from lps.cluster.jobs import JOB_FILE
from lps.errors import UserError, shorten, shown
from lps.files.atomic import disk_error_in_words, read_json
from lps.files.locks import boot_id, is_held, try_lock
from lps.files.program_location import SOURCE
from lps.machine.devices import available_cores, check_device
from lps.machine.processes import find_by_command_words, start_ticks, wake_one
from lps.scheduler import cluster_submit, queue
from lps.scheduler.run_slots import (
    Slot,
    blocked_by,
    every_slot,
    lock_free_slots,
    release_slots,
    slot_holders,
    slots_for,
    take_over,
)
from lps.settings.config import Config
from lps.store.desired_state import positive_integer
from lps.store.runs import Run, State
from lps.wording import counted

TRAINER = (sys.executable, "-m", "lps", "train", "--run")  # the run's folder follows


def launch(
    run: Run,
    trainer=TRAINER,
    *,
    retries: int | None = None,
    priority: int | None = None,
    on: job_options.Options | None = None,
) -> State:
    """Request the first attempt of a run and start it if a slot is free. A second call for a run changes nothing.

    trainer: the training command; the run's folder is appended. retries: how often a crashed run is started again
    automatically (default 0). on: job options of an execution backend; they exclude retries and priority. Raises
    `UserError` if the run is a recording or unreadable, its device is missing, no process can be started, or the
    backend refuses.
    """
    _request_attempts([run], _first_attempt, trainer, retries, priority, on)
    return run.state()


def launch_all(
    runs: Sequence[Run],
    trainer=TRAINER,
    *,
    retries: int | None = None,
    priority: int | None = None,
    on: job_options.Options | None = None,
    name: str = "",
) -> None:
    """Request many runs in this order and look for free slots once. On a cluster they are one array of jobs, `name`.

    Runs that ended unfinished are resumed, on this machine or on the backend of `on`, wherever they ran before.
    Waiting, active and finished runs are not changed. All runs are checked before the first request is written. Raises
    `UserError` as `launch` does, and for a run that is stopping.
    """
    _request_attempts(runs, _next_attempt, trainer, retries, priority, on, name)


def _request_attempts(
    runs: Sequence[Run],
    find_attempt,
    trainer,
    retries: int | None,
    priority: int | None,
    on: job_options.Options | None = None,
    name: str = "",
) -> None:
    """Write a request for every run for which `find_attempt` returns an attempt, then start what can start."""
    runs = [Run(run.folder.resolve()) for run in runs]
    check_request(retries, priority, on)
    for run in runs:
        run.check_writable()
        _check_place(run.config(), on)
        find_attempt(run)
    if on is not None:
        cluster_submit.submit_runs([run for run in runs if find_attempt(run)], on, trainer, name)
        return
    last_order = 0.0
    for run in runs:
        with run.changing():
            if attempt := find_attempt(run):
                request = {"retries": retries, "priority": priority, "last_order": last_order, "on": ""}
                last_order = queue.request_attempt(run, "run", attempt, **request).order
                (run.folder / JOB_FILE).unlink(missing_ok=True)  # of the job that carried it out before
    for root in dict.fromkeys(run.root for run in runs):
        dispatch(root, trainer)


def check_request(retries: int | None, priority: int | None, on: job_options.Options | None = None) -> None:
    """Raise `UserError` for numbers out of range, and for any number with `on`: a cluster has its own queue."""
    for name, number, check in (
        ("retries", retries, queue.check_retries),
        ("priority", priority, queue.check_priority),
    ):
        if number is None:
            continue
        check(number)
        if on is not None:
            raise UserError(
                name, f"{number} cannot be used {executors.EXECUTORS[on.executor].INSTEAD[name]}; remove it"
            )


def resume(run: Run, trainer=TRAINER) -> State:
    """Request another attempt of a stopped, failed or crashed run; it continues from the newest checkpoint.

    A run of a cluster is submitted there again, with the same options. Raises `UserError` for a run in any other state,
    and as `launch` does.
    """
    run = Run(run.folder.resolve())
    run.check_writable()
    with run.changing():
        state = run.state()
        if not state.is_over or state.name == "finished":
            reason = f" ({state.reason})" if state.name == "unreadable" else ""
            sentence = f"{run.id} is {state.name}{reason}; only stopped, failed and crashed runs can be resumed"
            raise UserError("run", sentence)
        on = cluster_submit.options_of(run)
        _check_place(run.config(), on)
        if on is None:
            queue.request_attempt(run, "run", state.attempt + 1)
    if on is not None:
        cluster_submit.submit_runs([run], on, trainer)
        return run.state()
    dispatch(run.root, trainer)
    return run.state()


def stop(run: Run, kill: bool = False) -> State:
    """Ask a run to write a checkpoint and end, or with `kill` to end at once. A queued run is cancelled.

    Does nothing if the run is over. The runner reads the request within a second; until it ends, the state is
    `stopping`.
    """
    run = Run(run.folder.resolve())
    run.check_writable()
    with run.changing():
        state = run.state()
        is_escalation = run.desired().want == "kill" and state.name == "stopping"
        if state.is_moving and not is_escalation:
            queue.request_attempt(run, "kill" if kill else "stop", state.attempt)
        elif queue.is_due(run, state):  # it is over, but would be retried
            queue.request_attempt(run, "stop", state.attempt)
        if state.is_alive and not run.desired().on:
            _wake_runner(run)
        is_remote = not state.is_over and bool(run.desired().on)
    if is_remote:
        cluster_submit.end_job(run, kill)
    return run.state()


def wait_for_end(run: Run, timeout: float | None = None) -> State:
    """Wait until a run is over or unreadable, at most `timeout` seconds; return its state.

    A crashed run that will be retried is not over.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        state = run.state()
        if state.name == "stopping" and not run.desired().on:
            _wake_runner(run)
        is_last = state.name == "unreadable" or (state.is_over and not queue.is_due(run, state))
        if is_last or (deadline is not None and time.monotonic() >= deadline):
            return state
        time.sleep(0.1)


def dispatch(root: Path, trainer=TRAINER) -> list[Run]:
    """Start the queued runs for which a slot is free, in the order of the queue, and return them.

    Safe to call from any number of processes and threads: each call waits for the previous one, which may have read the
    queue too early. Raises `UserError` if no process can be started.
    """
    root = Path(root).resolve()
    if not queue.has_pending(root):
        return []
    _wake_daemon(root)  # it may have been suspended when it was its turn
    queue_lock = None
    try:
        queue_lock = try_lock(root / ".sched.lock", queue.TURN_PATIENCE_S)
        if queue_lock is None:
            return []
        started = _start_waiting(root, trainer)
        _start_daemon(root, trainer)
        return started
    except OSError as error:
        location = f"{shown(error.filename)}: " if error.filename else ""
        message = f"no run can be started in {shorten(str(root))} ({location}{disk_error_in_words(error)})"
        raise UserError("runs", message) from None
    finally:
        if queue_lock is not None:
            os.close(queue_lock)


def has_daemon(root: Path) -> bool:
    """Return whether a process will start the waiting runs: the queue daemon or the runner of an active run.

    True also if nothing waits or the queue is paused; otherwise False if an obstacle blocks the folder.
    """
    root = Path(root)
    if blocked_by(root):
        return not queue.has_pending(root)
    return (
        is_held(root / ".waker.lock")
        or not queue.has_pending(root)
        or any(is_held(path) for path in (root / ".slots").glob("*.lock"))
    )


def ensure_daemon(root: Path) -> None:
    """Restart the queue if its daemon or a runner was killed, and resume suspended ones.

    Call it wherever the queue or a pending stop is shown. It resumes the daemon, the runners of stopping runs, and the
    runners of deleted runs, which would hold their slots forever. Raises nothing: a reader may not be allowed to start
    processes.
    """
    root = Path(root)
    with contextlib.suppress(UserError, OSError):
        for run in slot_holders(root):
            if run.desired().want in ("stop", "kill") or not (run.folder / "config.json").exists():
                _wake_runner(run)
        _wake_daemon(root)
        if not is_held(root / ".waker.lock"):
            dispatch(root)


def _wake_runner(run: Run) -> None:
    _wake(run.folder, "process.json", "runner")


def _wake_daemon(root: Path) -> None:
    if is_held(root / ".waker.lock"):
        _wake(root, ".waker.lock", "waker")


_STARTED_AS = {  # the second name was used up to 0.3.0; such processes may still exist
    "runner": ("lps.scheduler.runner", "lps.running.runner"),
    "waker": ("lps.scheduler.queue_daemon", "lps.running.waker"),
}


def _wake(folder: Path, name: str, process_name: str) -> None:
    """Resume a suspended process of ours: the one that recorded itself in `folder / name` as `process_name`.

    If no living process is recorded there, it may have been suspended too early: look for its command line.
    """
    record = read_json(folder / name)
    pid, ticks = (positive_integer(record.get(f"{process_name}_{key}")) for key in ("pid", "ticks"))
    if record.get("boot_id") == boot_id() and pid and start_ticks(pid) == ticks:
        wake_one(pid, ticks)
        return
    for module in _STARTED_AS[process_name]:
        for process in find_by_command_words("-m", module, str(folder.resolve())):
            wake_one(process, start_ticks(process))


def _start_waiting(root: Path, trainer) -> list[Run]:
    """Requeue crashed runs that are due for a retry, then start waiting runs while there are free slots."""
    if queue.read_switch(root).paused:
        return []
    now = time.time()
    queue.request_retry(root, now)
    taken_slots, slot_names = set(), {slot.name for slot in every_slot(root)}
    started = []
    for run in queue.startable_runs(root, now):
        if _start(run, trainer, taken_slots):
            started.append(run)
        if slot_names <= taken_slots:
            break
    return started


def _start(run: Run, trainer, taken_slots: set[str]) -> bool:
    """Start a queued run if there are slots for it. taken_slots: names of unavailable slots, extended by this call.

    If a run needs more slots or cores than are free, the free ones are reserved for it: later runs that need fewer
    would otherwise take each one as it becomes free.
    """
    config = run.config_if_readable()
    if config is None:
        return False
    candidates, needed = slots_for(config, run.root)
    slots = lock_free_slots(run.root, [slot for slot in candidates if slot.name not in taken_slots], needed)
    if not slots:
        taken_slots.update(slot.name for slot in candidates)
        if candidates[0].name.startswith("cpu"):
            taken_slots.update(f"cpu-{index}" for index in range(available_cores()))
        return False
    _end_leftovers(run.root)
    run_lock = _claim_run(run)
    try:
        attempt = run.waiting_attempt() if run_lock is not None else 0
        if attempt:
            for lock in slots.values():
                take_over(run, lock)
            _spawn(run, attempt, list(slots), (run_lock, *slots.values()), trainer)
        return bool(attempt)
    finally:
        release_slots(slots)
        if run_lock is not None:
            os.close(run_lock)


def _claim_run(run: Run) -> int | None:
    """Lock a run; None if the lock is held or is not a regular file (see `Run.damages`), so that others can start."""
    try:
        return try_lock(run.lock)
    except OSError:
        return None


def _spawn(run: Run, attempt: int, slots: list[Slot], locks: tuple[int, ...], trainer) -> None:
    """Start a runner in its own session; it holds all locks, the run's first."""
    names, gpus = ",".join(slot.name for slot in slots), ",".join(uuid for slot in slots for uuid in slot.gpus)
    slot_options = ["--attempt", str(attempt), "--slot", names, "--gpus", gpus]
    command = ["lps.scheduler.runner", str(run.folder), *slot_options, "--locks", *map(str, locks), "--", *trainer]
    _detach(command, locks, f"reaper of {run.id}")


def _start_daemon(root: Path, trainer) -> None:
    """Start the queue daemon unless it is alive or has nothing to do; the caller holds the queue lock."""
    path = root / ".waker.lock"
    if is_held(path) or not queue.has_pending(root):
        return
    lock = try_lock(path)
    if lock is not None:
        try:
            command = ["lps.scheduler.queue_daemon", str(root), "--lock", str(lock), "--", *trainer]
            _detach(command, (lock,), "reaper of the queue daemon")
        finally:
            os.close(lock)


def _detach(command: list[str], locks: tuple[int, ...], reaper: str) -> None:
    """Start a module of `lps` in its own process and session, with the lock descriptors and no others."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        pass_fds=locks,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=SOURCE,  # with `-m` Python imports from here: a file in the caller's folder must not pass for a module
        env={name: value for name, value in os.environ.items() if name != "LPS_RUN"},
    )
    threading.Thread(target=process.wait, name=reaper, daemon=True).start()


def _end_leftovers(root: Path) -> None:
    """Kill processes that training left behind if its runner was killed before it could.

    The environment of such a process names its run (LPS_RUN), and the lock of this run is free.
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
                poller = select.poll()
                poller.register(handle, select.POLLIN)
                poller.poll(5000)  # until it has ended
        except OSError:
            continue
        finally:
            os.close(handle)


def _run_of(process: Path) -> Path | None:
    """Return the folder in LPS_RUN of this user's process under /proc; raises `OSError` for other users' processes."""
    for item in (process / "environ").read_bytes().split(b"\0"):
        if item.startswith(b"LPS_RUN="):
            return Path(os.fsdecode(item.removeprefix(b"LPS_RUN=")))
    return None


def _check_place(config: Config, on: job_options.Options | None = None) -> None:
    """Raise `UserError` if the run could not train here; an executor checks its own nodes."""
    if on is None:
        check_device(config.device, config.processes)
    elif config.processes % on.parts:
        message = f"{config.processes} cannot be shared evenly among {counted(on.parts, 'part')} of a job"
        raise UserError("processes", f"{message}; a run on several nodes needs the same number on each")
    elif config.device != "cpu" and on.gpus and on.gpus < config.processes:
        raise UserError(
            f"{on.executor} gpus", f"{on.gpus} is fewer than the {config.processes} processes; each needs one"
        )


def _first_attempt(run: Run) -> int:
    """Return 1, or 0 if the run was asked for before."""
    return 0 if os.path.lexists(run.folder / "want.json") else 1


def _next_attempt(run: Run) -> int:
    """Return the attempt to ask for, 0 if it was asked for or is finished; raises `UserError` while the run stops."""
    state = run.state()
    if state.name == "stopping":
        raise UserError("run", f"{run.id} is stopping; start it again when it has stopped")
    if state.is_over:
        return 0 if state.name == "finished" else state.attempt + 1
    return _first_attempt(run)
