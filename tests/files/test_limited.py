"""A limited fork shows what an operation costs before the process itself runs it."""

import os
import signal

import psutil
import pytest

from lps.files import limited_process


def test_what_is_cheap_passes_and_leaves_nothing_behind():
    seen, before = [], psutil.Process().children()
    limited_process.run_limited(lambda: seen.append(1), 100)
    assert seen == [], "it ran in a fork"
    assert psutil.Process().children() == before


def test_an_error_keeps_its_class_and_its_message():
    with pytest.raises(limited_process.Failed, match="bad form") as caught:
        limited_process.run_limited(
            lambda: int("x") if "x".isdigit() else (_ for _ in ()).throw(KeyError("bad form")), 100
        )
    assert caught.value.kind == "KeyError"


@pytest.mark.slow
def test_memory_and_time_are_bounded(monkeypatch):
    with pytest.raises(limited_process.ResourceLimitExceeded, match="128 MB"):
        # More than an earlier test of this process may have freed
        limited_process.run_limited(lambda: bytearray(8 << 30), 100)
    monkeypatch.setattr(limited_process, "_SECONDS", 0)
    with pytest.raises(limited_process.ResourceLimitExceeded, match="more than 1 s"):
        limited_process.run_limited(endless, 100)


def endless():
    while True:
        pass


def test_a_fork_that_the_system_ends_is_no_fault_of_the_file():
    with pytest.raises(MemoryError):
        limited_process.run_limited(lambda: os.kill(os.getpid(), signal.SIGKILL), 100)


@pytest.mark.slow
def test_a_fork_that_only_waits_gives_no_verdict(monkeypatch):
    monkeypatch.setattr(limited_process, "_WALL", 0.05)
    limited_process.run_limited(lambda: os.kill(os.getpid(), signal.SIGSTOP), 100)
