"""Kernel locks where a folder cannot be locked: NFS wants a file that is open for writing."""

import errno
import fcntl
import os
import stat
import threading

import pytest

from lps.files import disk, locks
from lps.files.locks import folder_lock, is_held, try_lock

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


@pytest.mark.slow
def test_one_at_a_time_is_inside(folder):
    inside, order = threading.Event(), []

    def second():
        inside.wait(20)
        with folder_lock(folder):
            order.append("second")

    other = threading.Thread(target=second)
    other.start()
    with folder_lock(folder):
        inside.set()
        other.join(0.2)
        order.append("first")
    other.join(20)
    assert order == ["first", "second"]


def test_other_errors_are_told(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    with pytest.raises(OSError, match="No locks available"), folder_lock(tmp_path):
        pass


LEADS = ("link", "link to nothing", "link to a folder", "pipe", "folder")


def lead(path, kind):
    """Something at `path` that is no file of its own; gives what a link leads to."""
    elsewhere = path.with_name("elsewhere")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(elsewhere)
        if kind == "link":
            elsewhere.write_bytes(b"a letter")
        elif kind == "link to a folder":
            elsewhere.mkdir()
    return elsewhere


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", LEADS)
@pytest.mark.parametrize("take", [try_lock, disk.open_own, disk.open_end])
def test_what_is_no_file_of_its_own_is_neither_followed_nor_taken(tmp_path, kind, take):
    path = tmp_path / "lock"
    elsewhere = lead(path, kind)
    was = elsewhere.read_bytes() if kind == "link" else elsewhere.exists()
    with pytest.raises(OSError):
        take(path)
    assert (elsewhere.read_bytes() if kind == "link" else elsewhere.exists()) == was
    assert not is_held(path)


def test_a_lock_is_not_ours_any_more_where_a_link_to_it_stands(tmp_path):
    path = tmp_path / "lock"
    descriptor = try_lock(path)
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert not locks.is_file_at(descriptor, path) and not is_held(path) and is_held(tmp_path / "moved")
    os.close(descriptor)


def test_the_lock_in_place_of_a_folder_follows_no_link(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    lead(tmp_path / locks.FALLBACK, "link to nothing")
    with pytest.raises(OSError, match="symbolic"), folder_lock(tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_a_link_is_not_taken_for_one(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "inside").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="symbolic"):
        disk.make_folder(tmp_path / "inside")
    disk.make_folder(tmp_path / "outside")
