"""Kernel locks where a folder cannot be locked: NFS wants a file that is open for writing."""

import errno
import fcntl
import os
import stat
import threading

import pytest

from lps import locks
from lps.locks import locked

flock = fcntl.flock


@pytest.fixture(params=["local", "nfs"])
def folder(request, tmp_path, monkeypatch):
    def as_nfs(descriptor, operation):
        if operation & fcntl.LOCK_EX and stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(descriptor, operation)

    if request.param == "nfs":
        monkeypatch.setattr(locks.fcntl, "flock", as_nfs)
    return tmp_path


def test_one_at_a_time_is_inside(folder):
    inside, order = threading.Event(), []

    def second():
        inside.wait(20)
        with locked(folder):
            order.append("second")

    other = threading.Thread(target=second)
    other.start()
    with locked(folder):
        inside.set()
        other.join(0.2)
        order.append("first")
    other.join(20)
    assert order == ["first", "second"]


def test_other_errors_are_told(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    with pytest.raises(OSError, match="No locks available"), locked(tmp_path):
        pass
