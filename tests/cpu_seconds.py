"""List what each test takes of a processor, in seconds, all processes that it starts included.

`python -m tests.cpu_seconds ARGUMENTS OF PYTEST` prints the 40 most expensive tests. Other work on the machine changes
these numbers less than durations. Processes whose parent has ended are counted, too: they become children of this one.
"""

import contextlib
import os
import subprocess
import sys
from collections import Counter

import psutil
import pytest

from lps.machine.processes import become_subreaper

_COUNTER = "LPS_CPU_SECONDS"  # in the environment: the process below which all are counted
_taken: Counter = Counter()


def seconds_below(process: int) -> float:
    """Return the time of a process and of all below it, with those that have ended and were waited for."""
    root, total = psutil.Process(process), 0.0
    for each in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has ended
            total += sum(each.cpu_times()[:4])  # user and system, its own and its children's
    return total


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    process = int(os.environ[_COUNTER])
    before = seconds_below(process)
    result = yield
    _taken[item.nodeid] += seconds_below(process) - before
    return result


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"{_taken.total():.1f} s of a processor in tests")
    for name, seconds in _taken.most_common(40):
        terminalreporter.write_line(f"{seconds:8.1f}  {name}")


def main() -> int:
    become_subreaper()
    command = [sys.executable, "-m", "pytest", "-p", "tests.cpu_seconds", "-n", "0", *sys.argv[1:]]
    tests = subprocess.Popen(command, env=os.environ | {_COUNTER: str(os.getpid())})
    while True:
        process, status = os.wait()
        if process == tests.pid:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
