"""Start the waiting runs of one folder, as a process that ends when nothing waits.

    python -m lps.scheduler.queue_daemon FOLDER --lock DESCRIPTOR -- TRAINER...

`lps.scheduler.launcher.dispatch` starts it, never a user. It lives as long as it holds the kernel lock
`.waker.lock`, so there is at most one, and writes its pid into this file so that it can be resumed. It starts runs only
through `dispatch`: it may be killed at any time, and the next call (by a runner, a page or a command) starts another.
It covers two cases that no other process would notice: the runner that should have started the next run was killed, or
the time has come to retry a crashed run. Standard library only.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

from lps.errors import UserError
from lps.files.locks import boot_id, try_lock, write_owner
from lps.machine.processes import start_ticks
from lps.scheduler import launcher, queue

_POLL_S = 2.0
_SPARING = 50  # sleep for 50 times the duration of a dispatch: thousands of runs cost at most 2 % of a core
_LONGEST_S = 60.0  # between two dispatches, if the same run is started again and again and never begins


def _main(arguments: list[str]) -> int:
    separator = arguments.index("--")
    parser = argparse.ArgumentParser(prog="python -m lps.scheduler.queue_daemon")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lock", type=int, required=True)
    options = parser.parse_args(arguments[:separator])
    os.umask(0o077)
    os.set_inheritable(options.lock, False)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    daemon_record = {"boot_id": boot_id(), "waker_pid": os.getpid(), "waker_ticks": start_ticks(os.getpid())}
    write_owner(options.lock, json.dumps(daemon_record))
    _watch(options.folder, options.lock, arguments[separator + 1 :])
    return 0


def _watch(root: Path, lock: int, trainer: list[str]) -> None:
    """Dispatch until nothing waits, then release the lock."""
    pause, dispatch_s, previous = _POLL_S, 0.0, {}
    while not _is_done(root, lock):
        time.sleep(max(pause, _SPARING * dispatch_s))
        cpu_start, started = time.process_time(), {}
        with contextlib.suppress(UserError, OSError):  # no process can be started now; perhaps later
            started = {run.id: run.desired().attempt for run in launcher.dispatch(root, trainer)}
        pause = min(2 * pause, _LONGEST_S) if started.items() & previous.items() else _POLL_S
        previous, dispatch_s = started or previous, time.process_time() - cpu_start


def _is_done(root: Path, lock: int) -> bool:
    """Return whether nothing waits any more; if so, release the lock.

    Both happen under the lock that `dispatch` holds when it looks for a daemon, so no caller can see this process alive
    and then be left without one.
    """
    queue_lock = try_lock(root / ".sched.lock", queue.TURN_PATIENCE_S)
    if queue_lock is None:
        return not root.is_dir()
    try:
        if queue.has_pending(root):
            return False
        os.close(lock)
        return True
    finally:
        os.close(queue_lock)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
