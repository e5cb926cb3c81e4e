"""The trash: its content, for how long, and that a restored run equals the deleted one."""

import json
import os
import time

import pytest

from lps.__main__ import main
from lps.errors import UserError
from lps.settings.config import configure
from lps.store.run_folders import TRASH_DAYS, create_run, delete_run, deleted_runs, list_runs, restore_run

CONFIG = configure({"device": "cpu"})


@pytest.fixture
def run(tmp_path):
    made = create_run(tmp_path / "runs", CONFIG, "a name")
    (made.folder / "snapshots").mkdir()
    (made.folder / "snapshots" / "epoch-0001.npz").write_bytes(b"numbers")
    return made


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_restored_run_is_the_deleted_one_byte_for_byte(run):
    before, state = contents(run.folder), run.state()
    delete_run(run)
    assert list_runs(run.root) == []
    assert restore_run(run.root, run.id) == run
    assert contents(run.folder) == before and run.state() == state and deleted_runs(run.root) == []


def test_the_trash_tells_names_and_days(run):
    delete_run(run)
    (item,) = deleted_runs(run.root)
    assert (item.id, item.name) == (run.id, "a name")
    assert item.days_left(item.deleted_at) == TRASH_DAYS == 7
    assert item.days_left(item.deleted_at + 2.5 * 86_400) == pytest.approx(4.5)
    assert item.days_left(item.deleted_at + 99 * 86_400) == 0


def test_the_newest_deletion_comes_first_and_counts(run):
    copies = []
    for letter in "ab":  # a run of this id is deleted twice, as after a restored backup
        folder = run.root / ".trash" / f"{run.id}.{letter * 8}"
        folder.mkdir(parents=True)
        (folder / "meta.json").write_text(json.dumps({"name": letter}))
        copies.append(folder)
    os.rename(run.folder, run.root / ".elsewhere")
    time.sleep(0.02)  # longer than a file system's clock ticks
    os.chmod(copies[0], 0o700)  # sets the change time: "a" is the newer one
    assert [item.name for item in deleted_runs(run.root)] == ["a", "b"]
    assert restore_run(run.root, run.id[-6:]).meta()["name"] == "a"
    assert [item.name for item in deleted_runs(run.root)] == ["b"]


def test_refusals_are_sentences_and_move_nothing(run):
    other = create_run(run.root, CONFIG)
    with pytest.raises(UserError, match="is not in the trash of .*it has nothing"):
        restore_run(run.root, run.id)
    delete_run(run)
    run.folder.mkdir()
    with pytest.raises(UserError, match="is already here"):
        restore_run(run.root, run.id)
    run.folder.rmdir()
    for name in ("../x", "", "zz", other.id):
        with pytest.raises(UserError, match="is not in the trash"):
            restore_run(run.root, name)
    (run.root / ".trash" / f"20260101-000000-digits-orca-s0-{run.id[-6:]}.00000000").mkdir()
    with pytest.raises(UserError, match="matches 2 deleted runs"):
        restore_run(run.root, run.id[-6:])
    assert list_runs(run.root) == [other] and len(deleted_runs(run.root)) == 2


def test_links_and_foreign_entries_are_not_listed(run, tmp_path):
    trash = run.root / ".trash"
    trash.mkdir()
    (trash / "note.txt").touch()
    (trash / f"{run.id}.0123abcd").symlink_to(tmp_path)
    (trash / "no-letters").mkdir()
    assert deleted_runs(run.root) == [] and deleted_runs(run.root / "missing") == []


def test_the_command_line_deletes_restores_tags_and_notes(run, capsys):
    def lps(*arguments):
        code = main([*arguments, "--runs", str(run.root)] if arguments[0] != "tag" else
                    ["tag", "--runs", str(run.root), *arguments[1:]])  # fmt: skip
        return code, capsys.readouterr()

    assert lps("delete", run.id)[0] == 0 and not run.folder.exists()
    code, said = lps("restore", run.id[-6:])
    assert code == 0 and said.out.strip() == str(run.folder) and run.folder.is_dir()
    assert lps("tag", run.id, "+good", "+old one", "-absent")[1].out.splitlines() == ["good", "old one"]
    assert lps("tag", run.id, "-old one")[1].out == "good\n" and run.meta()["tags"] == ["good"]
    code, said = lps("tag", run.id, "good")
    assert code == 2 and "tag: 'good' is not +NAME or -NAME" in said.err and run.meta()["tags"] == ["good"]
    assert lps("note", run.id, "see seed 1")[0] == 0 and run.meta()["notes"] == "see seed 1"
    assert lps("restore", run.id)[0] == 2
