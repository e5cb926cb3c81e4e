"""Work that a page begins and that outlives it: one detached process per result file, its standing read from files.

While a process lives it holds the lock beside its result; the kernel frees it on any death, so nothing gets stuck.
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

_TAIL = 4096  # bytes of a log that its last line is looked for in
STOP = ".stop"  # a file beside the result: the work shall end
NICENESS = 10  # of what has no slot: where all cores are busy, a run gets nine times as much of them


@dataclass(frozen=True)
class JobState:
    """Where the work is: `state` is absent, working, done, failed or cancelled.

    since: when its last line came, unix seconds.
    """

    state: str
    message: str = ""
    since: float | None = None

    @property
    def is_working(self) -> bool:
        return self.state == "working"


def lps_command(*arguments: str) -> list[str]:
    """`python -m lps ...` with the Python that runs this."""
    return [sys.executable, "-m", "lps", *arguments]


def start_job(result: Path, command: Sequence[str]) -> None:
    """Run `command`, which writes the file `result`; does nothing if that is there or somebody is at it already.

    It waits for no slot, since a person waits for it, and gives way to the runs that have one (`NICENESS`).
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
            with contextlib.suppress(OSError):  # it has ended already
                priority = os.getpriority(os.PRIO_PROCESS, 0)
                os.setpriority(os.PRIO_PROCESS, worker.pid, priority + NICENESS)
    finally:
        os.close(lock)


def note_worker(lock: int, pid: int) -> None:
    """Write into the lock (a descriptor) of a result which process is at it, so that it can be woken to end."""
    write_owner(lock, f"{pid} {processes.start_ticks(pid)}")


def detach(command: Sequence[str], log: Path, lock: int) -> subprocess.Popen:
    """Run `command` in a session of its own; what it says goes into `log`, and it holds the lock from then on."""
    log.unlink(missing_ok=True)  # so that nothing is written through a link
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
    """Where the work on `result` is. Work that shall end is woken where somebody suspended it."""
    log = result.with_suffix(".log")
    if is_held(result.with_suffix(".lock")):
        if is_cancelled(result):
            _wake(result)
        return JobState("working", last_line(log), _changed(log))
    if result.exists():
        return JobState("done")
    if is_cancelled(result):
        return JobState("cancelled")
    if log.exists():
        return JobState("failed", last_line(log) or "the process ended without a message")
    return JobState("absent")


def cancel_job(result: Path) -> None:
    """Ask the work on `result` to end; it looks for that (`is_cancelled`). Nothing happens where nobody is at it."""
    if is_held(result.with_suffix(".lock")):
        write_whole(result.with_suffix(STOP), b"")
        _wake(result)


def _wake(result: Path) -> None:
    """Let the process that noted itself in the lock go on where somebody suspended it."""
    with contextlib.suppress(OSError, ValueError):
        pid, ticks = map(int, read_small(result.with_suffix(".lock")).split())
        processes.wake_one(pid, ticks)


def end_when_cancelled(result: Path) -> None:
    """Let this process end about a second after somebody has cancelled the work on `result` (`cancel_job`).

    For work that cannot look for that by itself, and that leaves nothing by halves. Only where it was begun by
    `start_job`.
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
    """What a process said last in its log; "" where it said nothing."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read(_TAIL).decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""


def _changed(path: Path) -> float | None:
    try:
        return path.stat().st_ctime
    except OSError:
        return None
