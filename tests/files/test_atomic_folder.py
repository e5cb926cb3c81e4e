"""Drafts of folders: those of killed processes are removed, other drafts and users' files stay."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lps.files import atomic_folder
from lps.files.atomic_folder import MARK, abandoned_drafts, draft_folder, draft_of

ROOT = Path(__file__).resolve().parents[2]
KILLED = """
import os, signal, sys
from pathlib import Path
from lps.files import atomic_folder
with atomic_folder.draft_folder(Path(sys.argv[1]), sys.argv[2]) as draft:
    (draft / "half").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
"""
KILLED_BETWEEN = """
import os, signal, sys
from pathlib import Path
from lps.files import atomic_folder
rename = Path.rename
def rename_and_die(self, target):
    rename(self, target)
    os.kill(os.getpid(), signal.SIGKILL)
Path.rename = rename_and_die
with atomic_folder.draft_of(Path(sys.argv[1]), {}) as draft:
    (draft / "new").write_text("x")
"""


def killed(code: str, *words: str) -> None:
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, timeout=60)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", ["plain", "a[b]", "a*", "what?"])
def test_a_killed_draft_goes_with_the_next_of_its_name_and_no_other_does(tmp_path, name):
    killed(KILLED, str(tmp_path), name)
    killed(KILLED, str(tmp_path), "about")
    (own,) = (path for path in abandoned_drafts(tmp_path) if not path.name.startswith(".about."))
    with draft_folder(tmp_path, name):
        assert not own.exists() and len(abandoned_drafts(tmp_path)) == 1
    assert [path.name.split(".")[1] for path in tmp_path.iterdir()] == ["about"]


def test_a_folder_of_a_person_is_no_draft(tmp_path):
    for name in (".labels.notes.tmp", ".labels.0123.tmp", ".labels.more.01234567.tmp"):
        (tmp_path / name).mkdir()
    with draft_folder(tmp_path, "labels"):
        assert len([path for path in tmp_path.iterdir() if path.name != "labels"]) == 4


def exported(target: Path, name: str) -> None:
    with draft_of(target, {}) as draft:
        (draft / name).write_text("x")


@pytest.mark.parametrize("name", ["out", "out[1]"])
def test_an_export_that_is_killed_while_it_replaces_another_loses_none(tmp_path, name):
    target = tmp_path / name
    exported(target, "old")
    killed(KILLED_BETWEEN, str(target))
    assert not target.exists(), "between the two renames"
    with pytest.raises(RuntimeError), draft_of(target, {}):
        assert sorted(os.listdir(target)) == sorted([MARK, "old"]), "the earlier one is back"
        raise RuntimeError
    assert sorted(os.listdir(target)) == sorted([MARK, "old"])
    exported(target, "newer")
    assert sorted(os.listdir(target)) == sorted([MARK, "newer"]) and [*tmp_path.iterdir()] == [target]


def test_what_was_replaced_goes_where_its_successor_is_there(tmp_path):
    exported(tmp_path / "out", "old")
    left = tmp_path / ".out.01234567.tmp.old"
    left.mkdir()
    assert abandoned_drafts(tmp_path) == [], "it may be the only copy, which nobody is told to remove"
    exported(tmp_path / "out", "new")
    assert [*tmp_path.iterdir()] == [tmp_path / "out"]


def test_where_folders_cannot_be_locked_a_draft_is_left_after_a_day(tmp_path, monkeypatch):
    (tmp_path / ".out.01234567.tmp").mkdir()

    def flock(descriptor, how):
        raise OSError(atomic_folder.errno.ENOLCK, "no locks")

    monkeypatch.setattr(atomic_folder.fcntl, "flock", flock)
    assert abandoned_drafts(tmp_path) == []
    monkeypatch.setattr(atomic_folder, "_UNLOCKED_S", -1)
    assert len(abandoned_drafts(tmp_path)) == 1
