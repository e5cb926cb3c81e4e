"""Run background jobs that outlive the page that started them: one detached process per result file.

A living process holds the lock beside its result; the kernel frees the lock on any death, so no job stays locked. The
state of a job is read from files.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lps.files import disk
from lps.files.atomic import open_regular, read_small, write_whole
from lps.files.locks import is_held, try_lock, write_owner
from lps.files.program_location import SOURCE
from lps.machine import processes

_TAIL = 4096  # bytes at the end of a log in which its last line is searched
STOP = ".stop"  # suffix of the file that requests the end of the job
NICENESS = 10  # of jobs without a slot: if all cores are busy, a run gets nine times as much processor time


@dataclass(frozen=True)
class JobState:
    """The state of a job: absent, working, done, failed or cancelled.

    since: unix seconds of its last line.
    """

    state: str
    message: str = ""
    since: float | None = None

    @property
    def is_working(self) -> bool:
        return self.state == "working"


def lps_command(*arguments: str) -> list[str]:
    """Return the command `python -m lps ...` with the Python that runs this process."""
    return [sys.executable, "-m", "lps", *arguments]


def start_job(result: Path, command: Sequence[str]) -> None:
    """Start `command`, which writes the file `result`, unless the result exists or a process works on it already.

    The job waits for no slot, since a user waits for it, and runs at lower priority than runs (`NICENESS`).
    """
    result.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    disk.make_folder(result.parent)
    lock = try_lock(result.with_suffix(".lock"), patience=0)
    if lock is None:
        return
    try:
        if not result.exists():
            result.with_suffix(STOP).unlink(missing_ok=True)
            worker = detach(command, result.with_suffix(".log"), lock)
            note_worker(lock, worker.pid)
            with contextlib.suppress(OSError):  # the process has already ended
                priority = os.getpriority(os.PRIO_PROCESS, 0)
                os.setpriority(os.PRIO_PROCESS, worker.pid, priority + NICENESS)
    finally:
        os.close(lock)


def note_worker(lock: int, pid: int) -> None:
    """Record in the lock (a descriptor) of a result which process works on it, so that it can be woken to end."""
    write_owner(lock, f"{pid} {processes.start_ticks(pid)}")


def detach(command: Sequence[str], log: Path, lock: int) -> subprocess.Popen:
    """Start `command` in its own session; its output goes into `log`, and it holds the lock from then on."""
    log.unlink(missing_ok=True)  # else the output would follow a link
    with open_regular(log, "wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=SOURCE,
            start_new_session=True,
            pass_fds=(lock,),
        )


def job_state(result: Path) -> JobState:
    """Return the state of the job for `result`. A cancelled job is woken if it was suspended.

    A process that has written its result is done, though it may take seconds more to end.
    """
    log = result.with_suffix(".log")
    if is_held(result.with_suffix(".lock")) and not _has_written(result):
        if is_cancelled(result):
            _wake(result)
        return JobState("working", last_line(log), _change_time(log))
    if result.exists():
        return JobState("done")
    if is_cancelled(result):
        return JobState("cancelled")
    if log.exists():
        return JobState("failed", last_line(log) or "the process ended without a message")
    return JobState("absent")


def _has_written(result: Path) -> bool:
    """Return whether the result is newer than the lock, in which a process is recorded when it begins."""
    try:
        return result.stat().st_mtime_ns >= result.with_suffix(".lock").stat().st_mtime_ns
    except OSError:
        return False


def cancel_job(result: Path) -> None:
    """Ask the job for `result` to end; it checks `is_cancelled`. Does nothing if no process works on it."""
    if is_held(result.with_suffix(".lock")):
        write_whole(result.with_suffix(STOP), b"")
        _wake(result)


def _wake(result: Path) -> None:
    """Continue the process recorded in the lock if it was suspended."""
    with contextlib.suppress(OSError, ValueError):
        pid, ticks = map(int, read_small(result.with_suffix(".lock")).split())
        processes.wake_one(pid, ticks)


def end_when_cancelled(result: Path) -> None:
    """End this process about a second after the job for `result` is cancelled (`cancel_job`).

    For jobs that cannot check that themselves and that write their result completely or not at all. Only has an effect
    in processes started by `start_job`.
    """

    def watch() -> None:
        while not is_cancelled(result):
            time.sleep(1)
        os._exit(1)

    if is_held(result.with_suffix(".lock")):
        threading.Thread(target=watch, daemon=True).start()


def is_cancelled(result: Path) -> bool:
    return os.path.lexists(result.with_suffix(STOP))


def last_line(path: Path) -> str:
    """Return the last line of a log; "" if it is empty or missing."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read(_TAIL).decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""


def _change_time(path: Path) -> float | None:
    try:
        return path.stat().st_ctime
    except OSError:
        return None
