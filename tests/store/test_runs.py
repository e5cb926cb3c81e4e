"""Run folders: the state that their files add up to, events with torn tails, locks, creation and deletion."""

import errno
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lps.__main__ import main
from lps.errors import UserError
from lps.files.atomic import clean_line, write_json, write_whole
from lps.files.atomic_folder import draft_folder
from lps.files.locks import boot_id, is_held, try_lock
from lps.scheduler import launcher
from lps.settings.config import configure
from lps.store import events, run_folders, runs
from lps.store.events import EventWriter, drop_repeated, end_of_events, read_events, read_last_event, replace_non_finite
from lps.store.run_folders import create_run, delete_run, find_run, list_runs
from lps.store.runs import RUN_ID, STATES, Run

CONFIG = configure({"device": "cpu"})
same_folder = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def run(tmp_path) -> Run:
    return create_run(tmp_path / "runs", CONFIG)


def write(run, want=None, process=None, ended=None):
    """The records of a run, each as (attempt, word)."""
    if want:
        write_json(run.folder / "want.json", {"attempt": want[0], "want": want[1]})
    if process:
        write_json(run.folder / "process.json", {"attempt": process, "boot_id": boot_id()})
    if ended:
        write_json(run.folder / "exit.json", {"attempt": ended[0], "state": ended[1], "reason": "why", "kind": "bug"})


STATE_TABLE = [  # lock held, want, process, exit -> name, attempt
    (False, None, None, None, "queued", 1),
    (False, (1, "run"), None, None, "queued", 1),
    (False, (1, "stop"), None, None, "stopped", 1),
    (False, (1, "kill"), None, None, "stopped", 1),
    (False, (1, "stop"), None, (1, "stopped"), "stopped", 1),
    (False, (1, "run"), 1, None, "crashed", 1),
    (False, (1, "stop"), 1, None, "crashed", 1),
    (False, (1, "run"), 1, (1, "finished"), "finished", 1),
    (False, (1, "run"), 1, (1, "failed"), "failed", 1),
    (False, (1, "stop"), 1, (1, "stopped"), "stopped", 1),
    (False, (1, "run"), 1, (1, "nonsense"), "crashed", 1),
    (False, (1, "run"), None, (1, "finished"), "finished", 1),
    (False, (2, "run"), 1, (1, "stopped"), "queued", 2),
    (False, (2, "run"), 1, None, "queued", 2),
    (False, (2, "stop"), 1, (1, "failed"), "stopped", 2),
    (False, (2, "run"), 2, (1, "stopped"), "crashed", 2),
    (False, (2, "run"), 2, (2, "finished"), "finished", 2),
    (True, None, None, None, "starting", 1),
    (True, (1, "run"), None, None, "starting", 1),
    (True, (1, "stop"), None, None, "stopping", 1),
    (True, (1, "run"), 1, None, "running", 1),
    (True, (1, "stop"), 1, None, "stopping", 1),
    (True, (1, "kill"), 1, None, "stopping", 1),
    (True, (2, "run"), 1, (1, "stopped"), "starting", 2),
    (True, (2, "run"), 2, (1, "stopped"), "running", 2),
    (True, (2, "stop"), 2, (1, "stopped"), "stopping", 2),
    (True, (1, "run"), 1, (1, "finished"), "finished", 1),  # the record is the last act; the lock follows in a moment
]


@pytest.mark.parametrize(("held", "want", "process", "ended", "name", "attempt"), STATE_TABLE)
def test_state_follows_from_lock_and_records(run, held, want, process, ended, name, attempt):
    write(run, want, process, ended)
    lock = try_lock(run.lock) if held else None
    state = run.state()
    assert (state.name, state.attempt) == (name, attempt)
    assert state.is_over == (name in runs.OVER) and state.is_alive == (name in runs.ALIVE)
    assert state.is_moving == (not state.is_over and name != "unreadable")
    if lock is not None:
        os.close(lock)


def interrupted_states(run, monkeypatch, between):
    """The states that a reader can see while `between()` happens before its first, second, ... look at the folder."""
    for moment in range(8):
        looks = iter(range(100))

        def look(real, moment=moment, looks=looks):
            def looking(*arguments):
                if next(looks) == moment:
                    between()
                return real(*arguments)

            return looking

        with monkeypatch.context() as patch:
            patch.setattr(Run, "read_json", look(Run.read_json))
            patch.setattr(runs, "is_held", look(is_held))
            yield run.state().name


def test_an_attempt_that_ends_while_its_state_is_read_is_no_crash(run, monkeypatch):
    held = []

    def end():
        write(run, ended=(1, "finished"))
        os.close(held.pop())

    write(run, (1, "run"), 1)
    answers = set()
    held.append(try_lock(run.lock))
    for answer in interrupted_states(run, monkeypatch, end):
        answers.add(answer)
        (run.folder / "exit.json").unlink(missing_ok=True)
        held += [try_lock(run.lock)] if not held else []
    os.close(held.pop())
    assert answers == {"running", "finished"}


def test_an_attempt_that_begins_while_its_state_is_read_is_no_crash(run, monkeypatch):
    held = []

    def begin():
        held.append(try_lock(run.lock))
        write(run, process=1)

    write(run, (1, "run"))
    answers = set()
    for answer in interrupted_states(run, monkeypatch, begin):
        answers.add(answer)
        (run.folder / "process.json").unlink(missing_ok=True)
        while held:
            os.close(held.pop())
    assert answers == {"queued", "starting", "running"}


def test_reboot_and_reason(run):
    write(run, (1, "run"), 1)
    assert run.state().reason == "the run's processes were killed"
    write_json(run.folder / "process.json", {"attempt": 1, "boot_id": "of yesterday"})
    assert "restarted" in run.state().reason


def test_foreign_empty_and_damaged_folders_are_listed_with_a_reason(tmp_path, run):
    root = run.root
    (root / "pictures").mkdir()
    (root / "link").symlink_to(tmp_path)
    (root / "a file").touch()
    os.mkfifo(root / "pictures" / "want.json")
    damaged = create_run(root, CONFIG)
    for content in (b"", b"{", b"[]", b"\xff\xfe", b"{}" * 10, b'{"lr": NaN}', b'{"no such": 1}', b" " * 2**21):
        (damaged.folder / "config.json").write_bytes(content)
        state = damaged.state()
        assert state.name == "unreadable" and "config" in state.reason + state.kind and "\n" not in state.reason
    (damaged.folder / "config.json").unlink()
    (damaged.folder / "config.json").symlink_to("/etc/hostname")
    assert damaged.state().name == "unreadable"
    assert {r.id for r in list_runs(root)} == {run.id, damaged.id, "pictures"}
    assert list_runs(root)[-1].id == "pictures"
    assert Run(root / "pictures").state().reason == "config.json: is missing: this folder is not a run"
    assert list_runs(root / "nowhere") == []
    with pytest.raises(UserError, match="is a file, where a folder should be"):
        list_runs(root / "a file")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
words = st.sampled_from(["run", "stop", "finished", "failed", 1, 2, -1, 1.0, True, 10**400, None]) | json_values
records = st.dictionaries(
    st.sampled_from(["attempt", "want", "state", "reason", "kind", "boot_id", "name", "tags", "rev"]), words
).map(lambda record: json.dumps(record).encode())
contents = st.binary(max_size=30) | json_values.map(lambda value: json.dumps(value).encode()) | records


@pytest.mark.slow
@same_folder
@given(st.dictionaries(st.sampled_from(["want.json", "process.json", "exit.json", "meta.json"]), contents))
def test_no_content_of_the_small_files_raises(run, files):
    for path in run.folder.glob("*.json"):
        if path.name != "config.json":
            path.unlink()
    for name, content in files.items():
        (run.folder / name).write_bytes(content)
    state = run.state()
    assert state.name in STATES and state.reason.isprintable() and state.kind.isprintable()
    assert type(state.attempt) is int and 0 <= state.attempt < 2**53
    assert run.title and run.title.isprintable()
    if "process.json" in files and "exit.json" not in files and not run.read_json("process.json"):
        assert state.name == "crashed" and not run.waiting_attempt()  # damaged, but something did begin


def test_ids_have_the_documented_form_and_folders_are_private(run):
    assert RUN_ID.fullmatch(run.id) and f"-{CONFIG.dataset}-{CONFIG.method}-s0-" in run.id
    assert run.folder.stat().st_mode & 0o777 == run.root.stat().st_mode & 0o777 == 0o700
    assert run.config() == CONFIG
    assert sorted(path.name for path in run.folder.iterdir()) == ["config.json", "lock", "meta.json"]


@pytest.mark.slow
def test_one_token_gives_one_folder_over_threads_and_processes(tmp_path):
    code = "import sys; from pathlib import Path\nfrom lps.store.run_folders import create_run\n"
    code += "from lps.settings.config import configure\n"
    code += "print(create_run(Path(sys.argv[1]), configure({'device': 'cpu'}), token='abc').id)"
    command = [sys.executable, "-c", code, str(tmp_path / "runs")]
    others = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(runs.__file__).parents[2]) for _ in "12"
    ]
    with ThreadPoolExecutor(8) as pool:
        ours = set(pool.map(lambda _: create_run(tmp_path / "runs", CONFIG, token="abc").id, range(24)))
    theirs = {process.communicate()[0].strip() for process in others}
    assert ours == theirs and len(ours) == 1
    assert [run.id for run in list_runs(tmp_path / "runs")] == list(ours)


def test_another_token_other_settings_or_no_token_give_another_folder(tmp_path):
    other = configure({"device": "cpu", "epochs": 3})
    made = [create_run(tmp_path, config, token=token) for config in (CONFIG, other) for token in ("a", "b", None, None)]
    assert len({run.id for run in made}) == 8
    delete_run(made[0])
    assert create_run(tmp_path, CONFIG, token="a").state().name == "queued"


def test_a_half_made_folder_is_never_seen(tmp_path, monkeypatch):
    def fail(path, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run_folders, "write_whole", fail)
    with pytest.raises(UserError, match="cannot be used for a new run .the disk is full."):
        create_run(tmp_path, CONFIG)
    assert list_runs(tmp_path) == [] and list((tmp_path / ".incoming").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="runs: .*/file' is a file, where a folder should be"):
        create_run(tmp_path / "file", CONFIG)


def test_delete_moves_to_the_trash_and_forgets_old_trash(run, monkeypatch):
    other = create_run(run.root, CONFIG)
    delete_run(run)
    trash = run.root / ".trash"
    assert list_runs(run.root) == [other] and [p.name.split(".")[0] for p in trash.iterdir()] == [run.id]
    monkeypatch.setattr(run_folders, "TRASH_DAYS", -1)
    delete_run(other)
    assert list(trash.iterdir()) == []


def test_a_draft_that_is_held_stays_whatever_the_clock_says(run, monkeypatch):
    place = run.root / ".incoming"
    (place / "left.1234").mkdir(parents=True)
    later = time.time() + 7200
    monkeypatch.setattr(run_folders.time, "time", lambda: later)
    with draft_folder(place, "import") as draft:
        (draft / "half").write_text("x")
        delete_run(run)
        assert list(place.iterdir()) == [draft] and (draft / "half").exists()


def test_delete_is_refused_while_the_lock_is_held(run):
    write(run, (1, "run"), 1)
    lock = try_lock(run.lock)
    with pytest.raises(UserError, match="is running; stop it"):
        delete_run(run)
    os.close(lock)
    delete_run(run)
    with pytest.raises(UserError, match="no longer exists"):
        launcher.stop(run)
    with pytest.raises(UserError, match="already deleted"):
        delete_run(run)


def test_delete_foreign_folder(run):
    (run.root / "pictures").mkdir()
    delete_run(Run(run.root / "pictures"))
    assert list_runs(run.root) == [run]


def test_find_run(run):
    other = create_run(run.root, CONFIG)
    assert find_run(run.root, run.id) == find_run(run.root, run.id[-6:]) == find_run(Path("/"), str(run.folder)) == run
    hostile = ["", "..", "../..", "/", "/etc", ".trash", "a\0b", "/" + "x" * 5000, "x" * 5000, "𝟙", "*", "~"]
    for text in [*hostile, run.id + "\n"]:
        with pytest.raises(UserError, match="^run: "):
            find_run(run.root, text)
    tail = f"s0-{run.id[-6:]}"
    (run.root / f"20260101-000000-digits-other-{tail}").mkdir()
    with pytest.raises(UserError, match="matches 2 runs"):
        find_run(run.root, tail)
    assert other in list_runs(run.root)


def test_meta_keeps_the_text_that_was_saved_first(run):
    run.write_meta(name="a\u202eb\nc", tags=["x", "x", " "], rev=1)
    assert run.meta() == {"name": "a b c", "notes": "", "tags": ["x"], "hidden": False, "rev": 2}
    with pytest.raises(UserError, match="revision 2, not 1"):
        run.write_meta(notes="from another tab", rev=1)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: run.write_meta(notes=str(n)), range(8)))
    assert run.meta()["rev"] == 10


def test_tags_that_are_added_and_dropped_at_once_are_all_obeyed(run):
    run.write_meta(tags=[f"old {n}" for n in range(8)], hidden=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda n: run.write_meta(add=[f"new {n}", "both"], drop=[f"old {n}"]), range(8)))
    assert set(run.meta()["tags"]) == {"both", *(f"new {n}" for n in range(8))} and len(run.meta()["tags"]) == 9
    assert run.meta()["hidden"]
    run.write_meta(hidden=False, drop=["both", "absent"])
    assert not run.meta()["hidden"] and len(run.meta()["tags"]) == 8


def test_damaged_meta_can_be_replaced(run):
    (run.folder / "meta.json").write_bytes(b'{"name": 3, "rev": "x"')
    run.write_meta(name="new")
    assert (run.title, run.meta()["rev"]) == ("new", 1)


def lines(count: int) -> list[dict]:
    return [
        {"kind": "train", "step": n, "epoch": n, "time": 0.5, "values": {"loss/total": n / 7}} for n in range(count)
    ]


def test_a_torn_tail_at_every_byte_is_neither_read_nor_kept(tmp_path):
    path = tmp_path / "events.jsonl"
    whole = [json.dumps(event).encode() + b"\n" for event in lines(4)]
    data = b"".join(whole)
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        count = data[:cut].count(b"\n")
        assert read_events(path) == (lines(4)[:count], sum(map(len, whole[:count])))
        assert read_last_event(path) == (lines(4)[count - 1] if count else None)
        assert end_of_events(path) == sum(map(len, whole[:count]))
        writer = EventWriter(path)
        writer.append("finish", step=9, epoch=9, values={})
        writer.close()
        events, end = read_events(path)
        assert events[:-1] == lines(4)[:count] and events[-1]["kind"] == "finish" and end == path.stat().st_size


@same_folder
@given(st.lists(st.sampled_from(lines(5)) | st.binary(max_size=20).filter(lambda b: b"\n" not in b)), st.data())
def test_reading_in_pieces_is_reading_at_once(tmp_path, items, data):
    path = tmp_path / "events.jsonl"
    content = b"".join((item if isinstance(item, bytes) else json.dumps(item).encode()) + b"\n" for item in items)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=5)))
    collected, offset = [], 0
    path.unlink(missing_ok=True)
    for cut in (*cuts, len(content)):
        path.write_bytes(content[:cut])
        events, offset = read_events(path, offset)
        collected += events
    expected = [item for item in items if isinstance(item, dict)]
    assert [event for event in collected if event in expected] == collected == expected
    assert read_last_event(path, window=300) == (
        expected[-1] if expected and expected[-1] == items[-1] else read_last_event(path)
    )


event_lines = st.builds(
    lambda kind, values, step: json.dumps(
        {"kind": kind, "values": values, "step": step, "epoch": 0, "time": 1.0}
    ).encode(),
    st.sampled_from(["start", "train", "eval", "finish", "another kind", 7, None]),
    st.dictionaries(st.text(), json_values, max_size=3) | json_values,
    st.integers() | json_values,
)


@pytest.mark.slow
@given(contents | event_lines)
@example(b'{"kind": "eval", "values": {"pi_hat": [0.5]}, "step": 3, "epoch": 1, "time": 1.0}')
@settings(max_examples=200, deadline=None)
def test_no_line_breaks_the_reader(line):
    event = events.parse_event(line)
    assert event is None or event["kind"] in {"start", "pretrain", "train", "eval", "finish", "stop", "fail"}
    assert (event is None) or (isinstance(event["values"], dict) and 0 <= event["step"] < 2**53)


def test_lines_with_impossible_numbers(tmp_path):
    path = tmp_path / "events.jsonl"
    good = '{"kind":"eval","step":1,"epoch":1,"time":2,"values":{"a":NaN,"b":[1e999,-Infinity,1]}}'
    bad = [
        good.replace('"step":1', f'"step":{number}') for number in ("NaN", "1e999", "true", "null", '"1"', "9" * 5000)
    ]
    path.write_text("\n".join([*bad, good, ""]))
    assert [event["values"] for event in read_events(path)[0]] == [{"a": None, "b": [None, None, 1]}]
    path.write_text(good.replace("NaN", str(2**63 - 1)).replace("1e999", str(2**63)) + "\n")
    assert read_events(path)[0][0]["values"] == {"a": 2**63 - 1, "b": [None, None, 1]}


def test_a_line_longer_than_what_is_read_at_a_time_is_not_lost(tmp_path):
    path = tmp_path / "events.jsonl"
    whole = [json.dumps(event).encode() + b"\n" for event in lines(2)]
    path.write_bytes(b"".join(whole))
    assert read_events(path, 0, 10) == (lines(2)[:1], len(whole[0]))
    assert read_events(path, len(whole[0]), 10) == (lines(2)[1:], len(whole[0]) + len(whole[1]))


def test_a_file_that_became_another_one_is_read_again(tmp_path):
    path = tmp_path / "events.jsonl"
    assert read_events(path) == ([], 0)
    path.write_bytes(b"".join(json.dumps(event).encode() + b"\n" for event in lines(3)))
    offset = read_events(path)[1]
    path.write_bytes(json.dumps(lines(1)[0]).encode() + b"\n")
    events, smaller = read_events(path, offset)
    assert events == lines(1) and smaller < offset
    path.unlink()
    assert read_events(path, offset) == ([], 0)


def test_last_event_of_an_attempt_without_events_is_none(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(json.dumps(lines(1)[0]).encode() + b'\n{"torn')
    since = end_of_events(path)
    assert read_last_event(path, since) is None
    EventWriter(path).append("stop", step=1, epoch=1, values={})
    assert read_last_event(path, since)["kind"] == "stop"


@pytest.mark.parametrize("deleted_before", ["append", "sync"])
def test_a_deleted_file_is_noticed_before_and_after_an_event_is_written(tmp_path, deleted_before):
    path = tmp_path / "events.jsonl"
    writer = EventWriter(path)
    if deleted_before == "sync":
        writer.append("finish", step=1, epoch=1, values={})
    path.unlink()
    with pytest.raises(FileNotFoundError):
        writer.sync() if deleted_before == "sync" else writer.append("finish", step=1, epoch=1, values={})
    writer.close()


def test_a_full_disk_leaves_no_part_of_a_line(tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"
    writer = EventWriter(path)
    writer.append("train", step=1, epoch=1, values={"loss/total": float("nan"), "pi_hat": [1.0, float("inf")]})
    before, real = path.read_bytes(), os.write

    def half(descriptor, data):
        monkeypatch.setattr(os, "write", full)
        return real(descriptor, data[: len(data) // 2])

    def full(descriptor, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space"):
        writer.append("train", step=2, epoch=2, values={})
    assert path.read_bytes() == before
    monkeypatch.undo()
    writer.append("fail", step=2, epoch=2, values={}, failure="disk_full", reason="no space")
    first, last = read_events(path)[0]
    assert first["values"] == {"loss/total": None, "pi_hat": [1.0, None]} and last["failure"] == "disk_full"


def test_rewind_drops_what_was_done_over():
    def event(kind, epoch, **values):
        return {"kind": kind, "epoch": epoch, "values": values}

    first = [event("pretrain", e) for e in (1, 2, 3)]
    second = [event("pretrain", e) for e in (1, 2)]
    start, train = event("start", 0), [event("train", e) for e in (1, 2, 3)]
    resumed, again = event("start", 1), [event("train", e) for e in (2, 3)]
    assert drop_repeated([*first, *second]) == second
    assert drop_repeated([*second, start, *train]) == [*second, start, *train]
    assert drop_repeated([*second, start, *train, resumed, *again]) == [*second, start, train[0], resumed, *again]
    reused = event("pretrain", 0, **{"pretrain/reused": 1})
    assert drop_repeated([*first, reused, start, *train, start]) == [*first, reused, start, start]


def test_claim_is_exclusive_and_notices_a_folder_in_the_trash(run):
    lock = try_lock(run.lock)
    assert is_held(run.lock) and try_lock(run.lock, patience=0) is None
    os.close(lock)
    assert not is_held(run.lock)
    run.folder.rename(run.root / ".gone")
    assert try_lock(run.lock) is None and not is_held(run.lock)


def test_a_claim_wins_against_probes(run):
    code = "import sys; from pathlib import Path; from lps.files.locks import is_held\n"
    code += "while True: is_held(Path(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(run.lock)]
    probes = [subprocess.Popen(command, cwd=Path(runs.__file__).parents[2]) for _ in range(2)]
    for _ in range(100):
        lock = try_lock(run.lock, patience=5)
        assert lock is not None
        os.close(lock)
    for probe in probes:
        probe.kill()
        probe.wait()


def test_a_failed_write_leaves_the_old_file_and_no_temporary(tmp_path, monkeypatch):
    path = tmp_path / "want.json"
    write_json(path, {"old": 1})
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "I/O error")))
            with pytest.raises(OSError, match="I/O error"):
                write_whole(path, b"new")
        assert json.loads(path.read_text()) == {"old": 1} and list(tmp_path.iterdir()) == [path]


@given(st.text(max_size=300))
def test_clean_line_is_one_printable_line(text):
    line = clean_line(text)
    assert line.isprintable() and len(line) <= 120 and line == line.strip()


def test_finite():
    assert replace_non_finite({"a": [1, float("nan"), (float("-inf"), "x")]}) == {"a": [1, None, [None, "x"]]}


def in_place_of(kind, root, monkeypatch):
    """Put something in the place of the folder of the runs."""
    if kind == "a file":
        root.write_text("x")
    elif kind == "a broken link":
        root.symlink_to(root.parent / "nowhere")
    else:
        root.mkdir()
        refusal = PermissionError(errno.EACCES, "Permission denied", str(root))
        scandir = runs.os.scandir

        def refuse(path="."):
            if str(path).startswith(str(root)):
                raise refusal
            return scandir(path)

        monkeypatch.setattr(runs.os, "scandir", refuse)


@pytest.mark.parametrize("kind", ["a file", "a broken link", "permission denied"])
@pytest.mark.parametrize(
    "words", [["list"], ["show", "abc"], ["sweep", "--dry-run"], ["search", "--list"], ["queue", "pause"]]
)
def test_a_folder_of_runs_that_cannot_be_read_is_not_an_empty_one(tmp_path, monkeypatch, capsys, kind, words):
    root = tmp_path / "runs"
    in_place_of(kind, root, monkeypatch)
    assert main([*words, "--runs", str(root)]) == 2
    said = capsys.readouterr()
    assert kind in said.err and "runs: " in said.err and said.err.count("\n") == 1 and not said.out


def test_a_folder_of_runs_below_a_file_is_told_and_one_that_is_not_there_yet_is_empty(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="^runs: '.*/file' is a file, where a folder should be$"):
        list_runs(tmp_path / "file" / "runs")
    assert list_runs(tmp_path / "none" / "runs") == []


def test_a_run_that_was_deleted_meanwhile_is_called_so(run):
    delete_run(run)
    for act in (run.config, lambda: launcher.launch(run, ("false",))):
        with pytest.raises(UserError, match=f"^run: {run.id} was deleted in the meantime$"):
            act()


def test_an_attempt_beyond_all_counting_is_refused_and_not_written(run, monkeypatch):
    monkeypatch.setattr(launcher, "dispatch", lambda *_: [])
    write(run, (2**53 - 1, "stop"), None, None)
    before = (run.folder / "want.json").read_bytes()
    with pytest.raises(UserError, match="^attempt: 9007199254740992 is an impossible number"):
        launcher.resume(run)
    assert (run.folder / "want.json").read_bytes() == before


def test_who_resumes_an_unreadable_run_reads_why(run):
    values = json.loads((run.folder / "config.json").read_text())
    write_json(run.folder / "config.json", values | {"prior": "given", "prior.shares": "nan 1"})
    with pytest.raises(UserError, match=f"{run.id} is unreadable .prior.shares: nan is not a finite number.*; only"):
        launcher.resume(run)


@pytest.mark.parametrize("text", ["x \ud800", "\udcff", "a\nb \udfff c"])
def test_halves_of_characters_in_texts_are_question_marks(run, text):
    write_json(run.folder / "meta.json", {"name": text, "notes": text, "tags": [text], "rev": 1})
    meta = run.meta()
    assert "?" in meta["notes"] and json.dumps(meta, ensure_ascii=False).encode()
    run.write_meta(name=text, notes=text, tags=["a", text])
    assert json.dumps(run.read_json("meta.json"), ensure_ascii=False).encode()
    assert main(["note", run.id, text, "--runs", str(run.root)]) == 0
    assert run.read_json("meta.json")["notes"] == text.encode("utf-8", "replace").decode()
