"""A store of features on disk: complete, or completed by the next process; damaged data are never read."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lps.data import feature_store
from lps.errors import UserError
from lps.files import disk
from lps.files.locks import try_lock
from lps.training.end_reason import explain_failure
from tests.data.store_faults import COUNT, VIEWS, WIDTH, content, is_right, make
from tests.patience import until

ROOT = Path(__file__).resolve().parents[2]


def test_features_are_computed_once_and_read_as_they_were_written():
    told = []
    store, asked = make("a", report=lambda done, total: told.append((done, total)))
    assert is_right(store) and asked == [(view, start) for view in VIEWS for start in (0, 256, 512)]
    assert told[0] == (0, 1200) and told[-1] == (1200, 1200)
    assert [done for done, _ in told] == sorted(d for d, _ in told)
    again, asked = make("a")
    assert again == store and asked == []
    assert not store.lock.exists() and (store.count, store.width, store.key) == (COUNT, WIDTH, "a")


def test_more_views_are_computed_beside_those_that_are_there():
    assert make("a", views=VIEWS[:1])[1] == [("plain", 0), ("plain", 256), ("plain", 512)]
    store, asked = make("a")
    assert asked == [("weak-0", 0), ("weak-0", 256), ("weak-0", 512)] and is_right(store)


def test_a_stop_keeps_whole_pieces_and_the_next_one_goes_on():
    store, asked = make("a", should_stop=lambda: True)
    assert store is None and asked == []
    asked_so_far = []
    store, asked = make("a", should_stop=lambda: bool(asked_so_far.append(0)) or len(asked_so_far) > 3)
    assert store is None and asked == [("plain", 0), ("plain", 256), ("plain", 512)]
    assert make("a")[1] == [("weak-0", 0), ("weak-0", 256), ("weak-0", 512)]


@pytest.mark.parametrize(
    "harm, again",
    [
        (lambda store: flip(store.table("plain"), 300 * 2 * WIDTH), [("plain", 256), ("plain", 512)]),
        (lambda store: flip(store.table("weak-0"), 0), [("weak-0", 0), ("weak-0", 256), ("weak-0", 512)]),
        (lambda store: os.truncate(store.table("plain"), 10), [("plain", 0), ("plain", 256), ("plain", 512)]),
        (lambda store: os.truncate(store.table("plain"), 3599), [("plain", 512)]),
        (lambda store: append(store.table("plain"), b"more"), []),
        (lambda store: store.table("plain").unlink(), [("plain", 0), ("plain", 256), ("plain", 512)]),
        (lambda store: write(store, "plain", b"nonsense\n"), [("plain", 0), ("plain", 256), ("plain", 512)]),
        (lambda store: write(store, "plain", b"[" * 100_000), [("plain", 0), ("plain", 256), ("plain", 512)]),
        (lambda store: write(store, "plain", b'{"rows": 1e999}\n'), [("plain", 0), ("plain", 256), ("plain", 512)]),
        (lambda store: cut_last_line(store, "plain"), [("plain", 512)]),
        (lambda store: (store.folder / "facts.json").write_text("{"), [(v, s) for v in VIEWS for s in (0, 256, 512)]),
        (lambda store: (store.folder / "facts.json").write_text('{"count": 600, "width": 4}'), "all"),
    ],
)  # fmt: skip
def test_what_is_damaged_is_noticed_and_made_again(harm, again):
    store, _ = make("a")
    harm(store)
    again = [(v, s) for v in VIEWS for s in (0, 256, 512)] if again == "all" else again
    assert feature_store.open_store("a", VIEWS) is None
    store, asked = make("a")
    assert asked == again and is_right(store) and feature_store.open_store("a", VIEWS) == store


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def append(path, data):
    with path.open("ab") as file:
        file.write(data)


def write(store, view, data):
    (store.folder / f"{view}.pieces").write_bytes(data)


def cut_last_line(store, view):
    path = store.folder / f"{view}.pieces"
    os.truncate(path, path.stat().st_size - 3)


@pytest.mark.slow
def test_a_kill_and_a_full_disk_at_every_operation_cost_one_piece(tmp_path):
    """In a process without threads, whose children die. It prints what went wrong, and how many faults there were."""
    command = [sys.executable, "-m", "tests.data.store_faults", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    *wrong, last = done.stdout.splitlines()
    assert wrong == [] and done.stderr == "" and int(last.removeprefix("faults: ")) > 100


def test_a_disk_that_is_too_small_is_said_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr(disk, "free_bytes", lambda folder: 1000 if folder.name == "a" else 1 << 40)
    with pytest.raises(disk.TooSmall, match="No space left") as error:
        make("a")
    assert error.value.needed == 7200 and list((feature_store.stores_folder() / "a").glob("*.f16")) == []


def test_a_write_that_fails_names_the_store(monkeypatch):
    def full(descriptor, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(disk, "write", full)
    with pytest.raises(OSError, match="No space left") as error:
        make("a")
    assert error.value.filename == str(feature_store.stores_folder() / "a")
    assert not list(feature_store.stores_folder().glob("*.lock"))


@pytest.mark.slow
def test_the_second_process_waits_for_the_first_and_tells_how_far_it_is(capsys):
    make("a", should_stop=lambda: make_once("a"))
    store = feature_store.Store(feature_store.stores_folder() / "a", COUNT, WIDTH)
    lock, told, result = try_lock(store.lock), [], []
    waiting = threading.Thread(
        target=lambda: result.append(make("a", report=lambda done, total: told.append((done, total))))
    )
    waiting.start()
    until(lambda: told)
    assert told[0] == (256, 1200)
    os.close(lock)
    waiting.join(60)
    assert is_right(result[0][0]) and result[0][1][0] == ("plain", 256)
    assert "another process is creating the same features" in capsys.readouterr().out


def make_once(key):
    """Whether a piece of the store has counted."""
    return bool(feature_store.Store(feature_store.stores_folder() / key, COUNT, WIDTH).pieces("plain"))


def test_whoever_waits_takes_over_when_the_maker_is_killed(tmp_path):
    code = (
        "import sys, time; from tests.data.store_faults import make\n"
        "make('a', report=lambda done, total: done and (print(done, flush=True), time.sleep(600)))"
    )
    maker = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert maker.stdout.readline() == b"256\n"
    result = []
    waiting = threading.Thread(target=lambda: result.append(make("a")))
    waiting.start()
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    maker.stdout.close()
    waiting.join(60)
    assert is_right(result[0][0]) and result[0][1][0] == ("plain", 256)


@pytest.mark.slow
def test_whoever_waits_may_be_asked_to_stop():
    feature_store.stores_folder().mkdir(parents=True)
    lock = try_lock(feature_store.stores_folder() / "a.lock")
    assert make("a", should_stop=lambda: True) == (None, [])
    os.close(lock)


def test_the_key_follows_from_everything_that_matters():
    keys = {feature_store.store_key("x", about) for about in ({"a": 1}, {"a": 2}, {"b": 1}, {"a": "1"})}
    assert len(keys) == 4 and all(key.startswith("x-") for key in keys)
    assert feature_store.store_key("x", {"a": 1, "b": 2}) == feature_store.store_key("x", {"b": 2, "a": 1})


def test_a_list_tells_what_is_there_and_what_it_cost():
    assert feature_store.list_stores() == []
    store, _ = make("a")
    make("b", should_stop=lambda: make_once("b"))
    (feature_store.stores_folder() / "c").mkdir()
    first, second = feature_store.list_stores()
    assert first.store == store and first.rows == {"plain": 600, "weak-0": 600} and second.rows == {"plain": 256}
    assert first.bytes > store.size(2) == 7200 and first.facts["settings"] == {"dataset": "none"}
    assert first.picture_s == pytest.approx(first.seconds / 1200) and not first.is_written


@pytest.mark.slow
def test_a_store_is_deleted_whole_and_not_while_it_is_made():
    store, _ = make("a")
    lock = try_lock(store.lock)
    assert feature_store.list_stores()[0].is_written
    with pytest.raises(UserError, match="features: a is being computed; first stop the run that computes it"):
        feature_store.delete_store(store)
    os.close(lock)
    feature_store.delete_store(store)
    assert feature_store.list_stores() == [] and list(feature_store.stores_folder().iterdir()) == []
    assert len(make("a")[1]) == 6


def test_facts_of_absurd_sizes_are_not_believed():
    store, _ = make("a")
    for facts in ({"count": 10**12, "width": 3}, {"count": 600, "width": True}, {"count": "600", "width": 3}, [1]):
        (store.folder / "facts.json").write_text(json.dumps(facts))
        assert feature_store.open_store("a", VIEWS) is None and feature_store.list_stores() == []


def test_a_link_in_place_of_a_table_is_not_followed(tmp_path):
    store, _ = make("a")
    other = tmp_path / "other"
    other.write_bytes(content("plain", 0, COUNT))
    store.table("plain").unlink()
    store.table("plain").symlink_to(other)
    assert feature_store.open_store("a", VIEWS) is None
    with pytest.raises(OSError):
        make("a")
    assert other.read_bytes() == content("plain", 0, COUNT)


def test_what_was_read_through_once_is_not_read_again_until_it_is_written_to(monkeypatch):
    store, _ = make("a")
    assert not list(store.folder.glob("*.checked"))  # too new to tell a later change by its time
    monkeypatch.setattr(feature_store, "_SETTLED_NS", -1)
    assert feature_store.open_store("a", VIEWS) == store and len(list(store.folder.glob("*.checked"))) == 2
    read = []
    monkeypatch.setattr(feature_store.Store, "sound", lambda store, view: read.append(view) or [])
    assert feature_store.open_store("a", VIEWS) == store and read == []
    at = store.table("plain").stat()
    flip(store.table("plain"), 5)
    os.utime(store.table("plain"), ns=(at.st_atime_ns, at.st_mtime_ns))  # the time of a change cannot be set back
    assert feature_store.open_store("a", VIEWS) is None and read == ["plain"]


def test_damage_below_the_system_is_found_by_reading_all(monkeypatch):
    store, _ = make("a")
    monkeypatch.setattr(feature_store, "_SETTLED_NS", -1)
    assert feature_store.open_store("a", VIEWS) == store
    monkeypatch.setattr(feature_store.Store, "_was_checked", lambda store, view: True)
    flip(store.table("plain"), 5)
    assert not store.check("plain") and store.check("weak-0")
    # Three pieces: all of them are among those that are compared
    assert feature_store.open_store("a", ["plain"]) is None
    monkeypatch.setattr(feature_store, "_drawn", lambda count: [2])
    assert feature_store.open_store("a", ["plain"]) == store


def _as_link(store, elsewhere):
    store.folder.rename(elsewhere)
    store.folder.symlink_to(elsewhere)
    (elsewhere / "plain.f16").write_bytes(b"somebody's")


def _as_file(store, elsewhere):
    shutil.rmtree(store.folder)
    store.folder.write_text("somebody's")


def _table_as_pipe(store, elsewhere):
    store.table("plain").unlink()
    os.mkfifo(store.table("plain"))


def _table_as_folder(store, elsewhere):
    store.table("plain").unlink()
    store.table("plain").mkdir()


def _lock_as_link(store, elsewhere):
    elsewhere.write_text("somebody's")
    store.lock.symlink_to(elsewhere)
    store.table("plain").write_bytes(b"")


@pytest.mark.parametrize("put", [_as_link, _as_file, _table_as_pipe, _table_as_folder, _lock_as_link])
def test_what_is_no_store_or_file_of_its_own_is_neither_followed_nor_waited_for(put, tmp_path):
    """A run that needs it ends with the name of what is in the way, and as an error of the disk."""
    store, _ = make("a")
    put(store, tmp_path / "elsewhere")
    before = {path: path.read_bytes() for path in tmp_path.glob("elsewhere*/**/*") if path.is_file()}
    with pytest.raises(OSError) as error:
        make("a")
    assert {path: path.read_bytes() for path in before} == before
    kind, words = explain_failure(error.value)
    assert kind == "io_error" and str(feature_store.stores_folder() / "a") in words
    assert words.endswith("fix it and resume")


def test_a_link_to_nowhere_in_a_store_does_not_hide_it_from_the_list():
    store, _ = make("a")
    (store.folder / "note").symlink_to(store.folder / "nowhere")
    (kept,) = feature_store.list_stores()
    assert kept.rows == dict.fromkeys(VIEWS, COUNT) and kept.bytes > store.size(2)
