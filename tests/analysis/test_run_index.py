"""Rows of runs that are over, stored for other processes: those that would be read now, or none."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lps.analysis import run_index
from lps.analysis.alarms import Alarm
from lps.analysis.run_index import Measured
from lps.files import folder_cache
from lps.scheduler import queue
from lps.store import row_index
from lps.store.run_folders import _list_anew, list_runs
from tests import sample_runs
from tests.report.test_report import without_the_last_class
from tests.sample_runs import make_run, rewritten
from tests.servers import ROOT

COUNT = 4


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Some finished runs."""
    root = tmp_path_factory.mktemp("made")
    for number in range(COUNT):
        settings = {"seed": number, "margin_scale": float(number)}
        make_run(root, "finished", name=f"run {number}", settings=settings, epochs=2)
    return root


@pytest.fixture
def root(made, tmp_path, monkeypatch):
    """Some finished runs, all of whose rows are stored as soon as they are read."""
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(run_index, "_MIN_UNSAVED", 1)
    monkeypatch.setattr(folder_cache, "_SETTLED_NS", 0)  # as of folders that are older than this test's
    run_index._readings.cache_clear()
    yield Path(shutil.copytree(made, tmp_path / "runs"))
    run_index._readings.cache_clear()


@pytest.fixture
def computed(monkeypatch):
    """The runs whose rows were computed from their files."""
    runs, compute = [], run_index._entry
    monkeypatch.setattr(run_index, "_entry", lambda run: runs.append(run) or compute(run))
    return runs


def read_anew(root):
    """Read the rows as a new process does."""
    run_index._readings.cache_clear()
    return run_index.read_rows(list_runs(root))


def row_anew(run):
    """Read all rows as a new process does; return that of one run."""
    return next(row for row in read_anew(run.root) if row.run == run)


def file_of(root):
    return row_index._path(root)


def test_a_second_process_reads_no_records_of_runs_that_are_over(root, computed):
    first = read_anew(root)
    assert len(computed) == COUNT
    again = read_anew(root)
    assert again == first and len(computed) == COUNT
    for row, stored in zip(first, again, strict=True):
        assert repr(stored) == repr(row) and stored.state.is_settled
        assert stored.config.flat() == row.config.flat() and list(stored.config.flat()) == list(row.config.flat())
        assert hash(stored.tags) == hash(row.tags) and stored.troubles == row.troubles
    assert file_of(root).stat().st_mode & 0o777 == 0o600


def test_alarms_recordings_and_texts_come_back(root, computed):
    run = rewritten(make_run(root, "failed", name="Ünicode \ud800"), without_the_last_class)
    run.write_meta(tags=["mine", "ours"], notes="two\nlines", hidden=True)
    first, row = read_anew(root), row_anew(run)
    assert row.measured.alarms and row.tags == ("mine", "ours") and row.hidden
    count = len(computed)
    assert list(map(repr, read_anew(root))) == list(map(repr, first)) and len(computed) == count


@pytest.mark.parametrize("name", ["config.json", "meta.json", "want.json", "process.json", "exit.json", "events.jsonl"])
def test_a_changed_file_makes_its_row_anew(root, computed, name):
    read_anew(root)
    run = list_runs(root)[1]
    computed.clear()
    os.utime(run.folder / name, ns=(1, 1))
    read_anew(root)
    assert computed == [run]
    read_anew(root)
    assert computed == [run], "the new row is stored, too"


def row_without_cache(run):
    measured = run_index._measure(run) if run.events.exists() else Measured()
    return replace(run_index._entry(run), measured=measured)


def write_over(source, target):
    """Write over each file in place and set its old times, as `cp -a` does."""
    for path in source.folder.glob("*.*"):
        (target.folder / path.name).write_bytes(path.read_bytes())
        shutil.copystat(path, target.folder / path.name)


def replace_same_size(path, old, new):
    """Change a file so that its size and modification time stay the same."""
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes().replace(old, new))
    os.utime(path, ns=times)


def swap(one, other):
    one.folder.rename(one.root / ".away")
    other.folder.rename(one.folder)
    (one.root / ".away").rename(other.folder)


STRANGE = (  # what a stranger does to the first two runs
    swap,
    write_over,
    lambda one, other: one.folder.rename(one.folder.with_name(one.id[:-2] + "zz")),
    lambda one, other: shutil.rmtree(one.folder),
    lambda one, other: shutil.copytree(other.folder, other.folder.with_name(other.id[:-2] + "yy")),
    lambda one, other: os.truncate(one.events, one.events.stat().st_size // 2),
    lambda one, other: (one.folder / "new").write_bytes(other.events.read_bytes()[:900]),
    lambda one, other: (one.folder / "new").replace(one.events),
    lambda one, other: replace_same_size(one.folder / "exit.json", b"finished", b"crashedx"),
    lambda one, other: (one.folder / "exit.json").write_bytes((other.folder / "exit.json").read_bytes()),
    lambda one, other: replace_same_size(one.folder / "want.json", b'"attempt":1', b'"attempt":7'),
    lambda one, other: (one.folder / "lock").symlink_to("/dev/null"),
    lambda one, other: [path.chmod(0) for path in one.folder.iterdir() if path.is_file()],
    lambda one, other: write_over(other, one),
)


def test_a_visit_shows_the_same_with_and_without_cache_whatever_a_stranger_does(root):
    for number, change in enumerate(STRANGE):
        one, other, *_ = list_runs(root)
        (one.folder / "lock").unlink(missing_ok=True)
        run_index.read_rows(list_runs(root))
        queue.waiting_runs(root)
        change(one, other)
        runs = list_runs(root)
        fresh = [row_without_cache(run) for run in runs]
        assert runs == _list_anew(root), number
        assert list(map(repr, run_index.read_rows(runs))) == list(map(repr, fresh)), number
        assert [entry for _, entry in queue._entries(root) if entry.attempt] == [
            entry for run in runs if (entry := queue._read_entry(run, None)).attempt
        ], number
        assert list(map(repr, read_anew(root))) == list(map(repr, fresh)), number


def test_every_visit_during_a_slow_copy_shows_what_is_there(root, tmp_path, monkeypatch):
    """Files arrive one after another, in two parts each and with their old times, as `cp -a` and rsync give them."""

    def is_split_read(*_, shares=None, **__):
        return [Alarm("collapse", "", "split read" if shares else "split not read")]

    monkeypatch.setattr(run_index.alarms, "find_alarms", is_split_read)
    original = make_run(root, "finished", epochs=2)
    source = original.folder.rename(tmp_path / "source")
    original.folder.mkdir()
    files = sorted(path for path in source.iterdir() if path.is_file())
    for path, size in [(path, path.stat().st_size // parts) for path in files for parts in (2, 1)]:
        (original.folder / path.name).write_bytes(path.read_bytes()[:size])
        shutil.copystat(path, original.folder / path.name)
        same_server = next(row for row in run_index.read_rows(list_runs(root)) if row.run == original)
        assert repr(same_server) == repr(row_anew(original)) == repr(row_without_cache(original)), path.name
    assert same_server.state.name == "finished" and same_server.measured.alarms[0].words == "split read"


def test_a_changed_row_is_shown_as_it_is_now(root):
    read_anew(root)
    run = list_runs(root)[0]
    run.write_meta(name="another")
    assert row_anew(run).name == "another"
    (run.folder / "exit.json").unlink()
    assert row_anew(run).state.name == "crashed"
    (run.folder / "config.json").write_text("{")
    assert row_anew(run).state.name == "unreadable"


def test_runs_that_go_on_are_never_stored(root, computed):
    run = make_run(root, "running")
    with sample_runs.held(run):
        assert row_anew(run).state.name == row_anew(run).state.name == "running"
    assert computed.count(run) == 2 and run.id not in file_of(root).read_text()
    assert row_anew(run).state.name == "crashed"


def test_rows_of_deleted_runs_are_dropped(root):
    read_anew(root)
    gone, *_ = list_runs(root)
    shutil.rmtree(gone.folder)
    make_run(root, "finished", epochs=2)
    read_anew(root)
    assert gone.id not in file_of(root).read_text()


def test_rows_that_were_not_asked_for_stay(root, computed):
    read_anew(root)
    run = make_run(root, "finished", epochs=2)
    run_index._readings.cache_clear()
    run_index.read_rows([run])
    computed.clear()
    read_anew(root)
    assert computed == []


def test_few_new_rows_are_not_worth_writing(root, monkeypatch):
    monkeypatch.setattr(run_index, "_MIN_UNSAVED", COUNT + 1)
    read_anew(root)
    assert not file_of(root).exists()


def test_other_code_reads_anew(root, computed, monkeypatch):
    first = read_anew(root)
    monkeypatch.setattr(run_index, "_digest_code", lambda: "another version")
    assert read_anew(root) == first and len(computed) == 2 * COUNT
    read_anew(root)
    assert len(computed) == 2 * COUNT


def test_code_is_digested_at_its_first_use_and_shares_no_rows_if_its_files_are_newer_than_the_import(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("lps.store.score_cache.digest_of", lambda *_: pytest.fail("digested at import"))
        digest_code = runpy.run_path(run_index.__file__)["_digest_code"]
    assert digest_code() == run_index._digest_code.__wrapped__()
    monkeypatch.setattr(run_index, "_LOADED_NS", 0)
    assert run_index._digest_code.__wrapped__() != run_index._digest_code.__wrapped__()


def test_another_folder_with_the_same_names_is_not_taken_for_this_one(root, computed):
    first = read_anew(root)
    copied = shutil.copytree(root, root.with_name("copied"))
    computed.clear()
    rows = read_anew(copied)
    assert len(computed) == COUNT and [row.name for row in rows] == [row.name for row in first]
    shutil.copy(file_of(root), file_of(copied))
    computed.clear()
    read_anew(copied)
    assert len(computed) == COUNT


DAMAGES = {
    "empty": lambda data: b"",
    "cut off": lambda data: data[:-100],
    "another letter": lambda data: data[:-50] + bytes([data[-50] ^ 1]) + data[-49:],
    "another stamp": lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
}
WRONG_TEXTS = (b"{", b"[1]", b"[" * 200_000, b"\xff", b"{}")
WRONG_CONTENTS = {  # of the file, or of each of its rows
    "rows": (None, [], 3),
    "configs": (None, [], [3], [{}]),
    "row": (3, [], [1], None),
    2: (10**9, None, "x"),
    3: ([3], {"unheard_of": 1}),
    4: (None, {"unheard_of": 1}),
    5: ({"unheard_of": 1}, 3),
    7: ({}, {"tags": 3}),
}


def is_read_and_written_anew(root, computed, change) -> bool:
    first, path = read_anew(root), file_of(root)
    path.write_bytes(change(path.read_bytes()))
    return all(read_anew(root) == first and len(computed) == 2 * COUNT for _ in range(2))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_ignored_and_written_anew(root, computed, damage):
    assert is_read_and_written_anew(root, computed, DAMAGES[damage])


@pytest.mark.parametrize("text", WRONG_TEXTS)
def test_a_file_with_a_right_checksum_may_have_no_rows(root, computed, text):
    first_line = row_index._first_line(root, run_index._digest_code(), text)
    assert is_read_and_written_anew(root, computed, lambda data: first_line + text)


@pytest.mark.parametrize(
    "place, value", [(place, value) for place, values in WRONG_CONTENTS.items() for value in values]
)
def test_a_file_with_a_right_checksum_may_have_wrong_rows(root, computed, place, value):
    def change(data: bytes) -> bytes:
        content = json.loads(data.partition(b"\n")[2])
        if place in content:
            content[place] = value
        for name, row in content["rows"].items() if place not in content else ():
            content["rows"][name] = value if place == "row" else [*row[:place], value, *row[place + 1 :]]
        text = json.dumps(content).encode()
        return row_index._first_line(root, run_index._digest_code(), text) + text

    assert is_read_and_written_anew(root, computed, change)


def test_a_row_is_not_stored_if_a_file_could_not_be_read(root, computed, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(
            "lps.store.events_tail.open_regular", lambda *_, **__: raise_(OSError(24, "too many open files"))
        )
        assert not any(row.measured.recent.newest_values for row in read_anew(root))
    computed.clear()
    assert all(row.measured.recent.newest_values for row in read_anew(root)) and len(computed) == COUNT


def raise_(error: Exception):
    raise error


def test_rows_of_finished_runs_of_a_cluster_are_stored(root, computed):
    for run in list_runs(root):
        desired = json.loads((run.folder / "want.json").read_text())
        (run.folder / "want.json").write_text(json.dumps(desired | {"on": "slurm"}))
    first = read_anew(root)
    assert read_anew(root) == first and len(computed) == COUNT


@pytest.mark.parametrize("name", ["split.npz", "lock"])
def test_a_row_depends_on_the_split_and_the_lock(root, computed, name):
    read_anew(root)
    computed.clear()
    path = list_runs(root)[0].folder / name
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/null")
    row = row_anew(list_runs(root)[0])
    assert len(computed) == 1 and (name != "lock" or row.damages)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_is_not_read(root, computed, make):
    first, path = read_anew(root), file_of(root)
    path.unlink()
    make(path)
    assert read_anew(root) == first and len(computed) == 2 * COUNT


def test_a_file_that_is_too_large_is_neither_read_nor_written(root, computed, monkeypatch):
    first = read_anew(root)
    size = file_of(root).stat().st_size
    monkeypatch.setattr(row_index, "MAX_BYTES", size - row_index._HEAD - 1)
    assert read_anew(root) == first and len(computed) == 2 * COUNT
    file_of(root).unlink()
    read_anew(root)
    assert not file_of(root).exists()


def test_a_cache_folder_that_cannot_be_written_costs_time_alone(root, computed, monkeypatch):
    (root.parent / "file").write_text("no folder")
    monkeypatch.setenv("LPS_CACHE", str(root.parent / "file" / "cache"))
    first = read_anew(root)
    assert read_anew(root) == first and len(computed) == 2 * COUNT


WRITE = """
import sys
from pathlib import Path
from lps.store.row_index import write_index
for _ in range(10):
    write_index(Path(sys.argv[1]), "code", {"rows": {sys.argv[2]: ["x" * 1000] * 1000}})
"""


def test_two_processes_at_once(root):
    """Whoever comes last replaces the file as a whole; a reader finds one of the two."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, root, name], cwd=ROOT) for name in "ab"]
    found = set()
    while any(writer.poll() is None for writer in writers):
        content = row_index.read_index(root, "code")
        assert not content or all(len(row) == 1000 for row in content["rows"].values())
        found.update(content.get("rows", ()))
    assert [writer.returncode for writer in writers] == [0, 0] and found <= {"a", "b"} and found
    assert [path.name for path in file_of(root).parent.iterdir()] == [file_of(root).name]
