"""Whether there is room for what runs will write: said before they start, and only where it is known to be short."""

import pytest

from lps import disk, preflight
from lps.__main__ import main
from lps.config import configure
from lps.costs import Cost, Known


@pytest.fixture
def left(monkeypatch):
    """Sets what is free, and what a run takes by those that are known: 100 MB an epoch on digits, else nothing."""
    config = configure({"epochs": 1})
    known = Known([Cost(config, 10.0, 100_000_000, epoch_bytes=100_000_000.0)])
    monkeypatch.setattr(preflight.forecasts, "known", lambda root, kinds: known)
    return lambda free: monkeypatch.setattr(disk, "free", lambda folder: free)


def test_a_disk_with_too_little_room_is_told_before_the_start(left, tmp_path):
    run, root = configure({"epochs": 3}), tmp_path / "not" / "there"
    for free, count, says in ((299_000_000, 1, True), (300_000_000, 1, False), (599_999_999, 2, True)):
        left(free)
        words = preflight.shortage([run] * count, root)
        assert bool(words) == says, free
        if words:
            assert "will write about" in words and f"are free in {tmp_path}." in words and words.isprintable()
    left(preflight.PLENTY)
    assert preflight.shortage([run] * 2000, root) == ""
    left(0)
    assert preflight.shortage([], root) == ""


def test_what_nobody_knows_is_told_only_where_there_is_little(left, tmp_path):
    run = configure({"method": "orca"})
    left(preflight.LITTLE - 1)
    assert "nobody knows yet" in preflight.shortage([run], tmp_path)
    left(preflight.LITTLE)
    assert preflight.shortage([run], tmp_path) == ""


def test_the_command_line_says_it(left, tmp_path, capsys):
    left(1_000_000)
    assert main(["sweep", "--dry-run", "--seeds", "0,1", "--runs", str(tmp_path)]) == 0
    assert "The disk is too small: these 2 runs will write about" in capsys.readouterr().err
    left(10**15)
    assert main(["sweep", "--dry-run", "--seeds", "0,1", "--runs", str(tmp_path)]) == 0
    assert "disk" not in capsys.readouterr().err


def test_free_bytes_are_those_of_the_system(tmp_path, monkeypatch):
    import os
    from types import SimpleNamespace

    about = SimpleNamespace(f_bavail=3, f_bfree=5, f_blocks=9, f_frsize=1000)
    monkeypatch.setattr(disk.os, "statvfs", lambda folder: about)
    for user, free in ((0, 5000), (1000, 3000)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert disk.free(tmp_path) == free
        disk.check_fits(tmp_path / "a", free)
        with pytest.raises(disk.TooSmall, match="No space left") as caught:
            disk.check_fits(tmp_path / "a", free + 1)
        assert (caught.value.needed, caught.value.free) == (free + 1, free)
    about.f_blocks = 0  # a file system that does not tell
    disk.check_fits(tmp_path / "a", 2**62)
