"""Manage processes: find descendants and start times, and make processes end together.

Functions of Linux that another system lacks are left out there. Standard library only.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from lps.errors import UserError

MAX_WORKERS = 64
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # from <linux/prctl.h>


def become_subreaper() -> None:
    """Make orphaned descendants children of this process, so that none can escape (Linux; no effect elsewhere)."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants(session: int | None = None) -> None:
    """Kill and reap all descendants of this process; on systems without /proc the process group `session`."""
    while True:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if session is not None and not Path("/proc/self/stat").exists():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(session, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def wake(pid: int) -> None:
    """Continue a process and its descendants if they were suspended; others do not notice."""
    for number in (pid, *descendants(pid)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(number, signal.SIGCONT)


def wake_one(pid: int, ticks: int) -> None:
    """Continue one suspended process; do nothing if `pid` is not the process that began at `ticks`.

    Its descendants stay as they are: a user may have suspended them on purpose.
    """
    if start_ticks(pid) == ticks:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGCONT)


def find_by_command_words(*words: str) -> list[int]:
    """Return the pids of processes whose command line has these words in this order, from /proc; empty without it."""
    pattern, pids = b"".join(b"\0" + os.fsencode(argument) for argument in words) + b"\0", []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if pattern in (entry / "cmdline").read_bytes():
                pids.append(int(entry.name))
    return pids


def descendants(ancestor: int) -> list[int]:
    """Return the pids of all children, their children and so on, from /proc; empty without it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int(_stat_fields(int(entry.name))[1])
            children.setdefault(parent, []).append(int(entry.name))
    pids, generation = [], children.get(ancestor, [])
    while generation:
        pids += generation
        generation = [child for pid in generation for child in children.get(pid, [])]
    return pids


def start_ticks(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; with the boot id it reveals a reused pid."""
    try:
        return int(_stat_fields(pid)[19])
    except OSError:
        return None


def _stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on: state, parent, ..., start (20th of these)."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def die_with_parent():
    """Return a `preexec_fn` that asks the kernel to kill the child when this process dies (Linux); None elsewhere."""
    if _prctl is None:
        return None
    parent = os.getpid()

    def ask():
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the call
            os._exit(1)

    return ask


def check_workers(count: int) -> None:
    """Raise `UserError` for an invalid number of processes that share work on this machine."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_WORKERS:
        raise UserError("workers", f"{count} is not a whole number from 1 to {MAX_WORKERS}")


def _begin_worker(prepare: Callable[[], None] | None, number: int, processes: int) -> None:
    """Prepare a child and give it share `number` of the cores; runs before the child starts its program."""
    if prepare:
        prepare()
    _take_cores(number, processes)


def _take_cores(number: int, processes: int) -> None:
    """Bind this thread, and threads that it starts later, to share `number` of `processes` of its cores."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        size = max(1, len(cores) // processes)
        start = number * size % len(cores)
        os.sched_setaffinity(0, cores[start : start + size])


@contextlib.contextmanager
def workers(count: int, command: Sequence[str]) -> Iterator[list[subprocess.Popen]]:
    """Start `count` processes that work beside this one inside the `with`; interrupt them and wait at the end.

    Each process, including this one, gets an equal share of the cores inside the `with`, so that their threads do not
    compete (Linux).
    """
    own_cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    children = [
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # this process reports what stops the workers
            preexec_fn=partial(_begin_worker, die_with_parent(), number, count + 1),
        )
        for number in range(1, count + 1)
    ]
    try:
        if count:
            _take_cores(0, count + 1)
        yield children
    finally:
        if own_cores is not None:
            os.sched_setaffinity(0, own_cores)
        for child in children:
            child.send_signal(signal.SIGINT)
            child.wait()


def prefer_as_victim(pid: int) -> None:
    """Let the kernel kill the training process before the dashboard if memory runs out."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("500")


def _find_prctl():
    """Return the C function, loaded before any fork; None if the system has none."""
    try:
        return ctypes.CDLL(None).prctl if sys.platform == "linux" else None
    except (OSError, AttributeError):
        return None


_prctl = _find_prctl()
