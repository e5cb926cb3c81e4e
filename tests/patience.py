"""Wait for other processes, and check whether they are alive."""

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 60
# For the code of a process that signals shall end: tests in the background, or under nohup, hand it ignored ones.
LISTENS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
LISTENS += "; [signal.signal(one, signal.SIG_DFL) for one in (signal.SIGQUIT, signal.SIGHUP)]"


def until(condition: Callable[[], object], patience_s: float = PATIENCE_S, pause_s: float = 0.01):
    """Call `condition` until it is true, up to a deadline; return its value."""
    end = time.monotonic() + patience_s
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(pause_s)
    return value


def is_gone(pid: int) -> bool:
    """Return whether the process has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
