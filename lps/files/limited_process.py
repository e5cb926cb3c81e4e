"""Try a costly operation in a forked process first, with limited memory and processor time."""

import contextlib
import math
import os
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

_MEMORY = 128 << 20  # bytes beyond what the process uses already
_PER_BYTE = 3  # further bytes of memory per byte of the file
_SECONDS = 5  # of processor time
_BYTES_PER_SECOND = 20 << 20  # bytes of the file that allow one more second
_WALL = 60  # elapsed time allowed per processor time, for a busy machine
_LONGEST = 4000  # bytes of an error's text


class ResourceLimitExceeded(Exception):
    """Raised if the operation exceeded its memory or time; the text says which."""


class Failed(Exception):
    """The operation raised an error; `kind` is the name of its class, the text its message."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


def run_limited(operation: Callable[[], object], size: int) -> None:
    """Run `operation`, which reads a file of `size` bytes, in a fork of this process, and drop its result.

    The fork may take 128 MB of memory and 5 s of processor time, and more in proportion to `size`. Raises
    `ResourceLimitExceeded` if that is too little, `Failed` if the operation raises, and `MemoryError` if the system
    killed the fork. A fork that waits for long without working (a suspended process) is killed and counts as passed.
    """
    memory, seconds = _MEMORY + _PER_BYTE * size, _SECONDS + math.ceil(size / _BYTES_PER_SECOND)
    reader, writer = os.pipe()
    child = _fork()
    if child == 0:
        os.close(reader)
        _run(operation, memory, seconds, writer)
    os.close(writer)
    is_late = threading.Event()
    timer = threading.Timer(_WALL * seconds, lambda: (is_late.set(), os.kill(child, signal.SIGKILL)))
    timer.start()
    try:
        with open(reader, "rb") as pipe:
            kind, _, message = pipe.read(_LONGEST).decode("utf-8", "replace").partition("\n")
    finally:
        timer.cancel()
        timer.join()
        _, status = os.waitpid(child, 0)
    if is_late.is_set():
        return
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) == signal.SIGKILL:
            raise MemoryError("the system killed the process that read the file")
        raise ResourceLimitExceeded(f"reading it took more than {seconds} s or more than {memory >> 20:,} MB of memory")
    if kind == "MemoryError" or "allocate memory" in message:
        raise ResourceLimitExceeded(f"reading it took more than {memory >> 20:,} MB of memory")
    if os.WEXITSTATUS(status):
        raise Failed(kind, message)


def _fork() -> int:
    with warnings.catch_warnings():
        # About threads of torch: the fork starts none and takes no lock
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return os.fork()
        except OSError as error:
            raise MemoryError(f"a process to read the file cannot be started ({error.strerror})") from None


def _run(operation: Callable[[], object], memory: int, seconds: int, writer: int) -> None:
    """Limit this forked process, run the operation, write its error into the pipe, and exit."""
    status = 1
    try:
        used = resource.getrusage(resource.RUSAGE_SELF)
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        _limit(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime) + seconds)
        _limit(resource.RLIMIT_CORE, 0)
        with contextlib.suppress(OSError):  # Linux; elsewhere only the time is limited
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + memory)
        operation()
        status = 0
    except BaseException as error:
        os.write(writer, f"{type(error).__name__}\n{error}".encode("utf-8", "replace")[:_LONGEST])
    finally:
        sys.stdout = sys.stderr = None
        os._exit(status)


def _limit(kind: int, value: int) -> None:
    _, hard_limit = resource.getrlimit(kind)
    resource.setrlimit(kind, (value if hard_limit == resource.RLIM_INFINITY else min(value, hard_limit), hard_limit))
