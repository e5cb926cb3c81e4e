"""The small parts of the store: temporary files and who may sweep them, checked files, a deleted file of events."""

import os
import signal
import subprocess
import sys
import time

import pytest

from lps.files import disk
from lps.files.atomic import read_checked, remove_abandoned, write_checked, write_whole
from lps.store.events import EventWriter, read_events
from tests.reliability.processes import ROOT

WRITER = """
import sys, time
from pathlib import Path
from lps.files import atomic, disk
real = disk.write
def write(descriptor, data):
    real(descriptor, data[:10])
    print("half", flush=True)
    time.sleep(60)
disk.write = write
atomic.write_whole(Path(sys.argv[1]), b"x" * 100)
"""


def test_only_what_nobody_writes_is_swept(tmp_path):
    (tmp_path / "snapshots").mkdir()
    path = tmp_path / "snapshots" / "epoch-0001.npz"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, cwd=ROOT)
    assert writer.stdout.readline() == b"half\n"
    (temporary,) = path.parent.glob(".*.tmp")
    remove_abandoned(tmp_path)
    assert temporary.exists()
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    old = time.time() - 3600
    os.utime(temporary, (old, old))
    remove_abandoned(tmp_path)
    assert not list(path.parent.iterdir())


def test_a_sweep_between_creation_and_lock_costs_nothing(tmp_path, monkeypatch):
    real, swept = disk.create, []

    def create(path, *more):
        descriptor = real(path, *more)
        if not swept:
            swept.append(path)
            remove_abandoned(tmp_path)
        return descriptor

    monkeypatch.setattr(disk, "create", create)
    write_whole(tmp_path / "a", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["a"] and (tmp_path / "a").read_bytes() == b"whole"


def test_links_and_pipes_are_not_swept(tmp_path):
    (tmp_path / "kept").write_text("x")
    (tmp_path / ".a.tmp").symlink_to(tmp_path / "kept")
    (tmp_path / ".folder.tmp").mkdir()
    remove_abandoned(tmp_path)
    assert (tmp_path / "kept").exists() and (tmp_path / ".folder.tmp").exists()


def test_checked_bytes_come_back_or_do_not(tmp_path):
    path = tmp_path / "step-1.bin"
    write_checked(path, b"one")
    assert read_checked(path) == b"one"
    for harm in (b"two", b"", b"one "):
        path.write_bytes(harm)
        assert read_checked(path) is None
    path.write_bytes(b"one")
    for record in (b"", b"[]", b"[" * 100_000, b"\xff", b'{"sha256": 1}'):
        path.with_suffix(".json").write_bytes(record)
        assert read_checked(path) is None
    path.unlink()
    path.mkdir()
    assert read_checked(path) is None


def test_events_of_a_deleted_file_are_refused(tmp_path):
    path = tmp_path / "events.jsonl"
    writer = EventWriter(path)
    writer.append("train", step=1, epoch=1, values={})
    path.unlink()
    with pytest.raises(FileNotFoundError):
        writer.append("train", step=2, epoch=2, values={})
    assert read_events(path) == ([], 0)
