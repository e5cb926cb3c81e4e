"""The queue without processes: order, holding back, pausing, trying again, and files that are old or damaged."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lps.__main__ import main
from lps.analysis import run_index
from lps.errors import UserError
from lps.files.atomic import write_json
from lps.files.locks import boot_id, try_lock
from lps.scheduler import launcher, queue
from lps.store import desired_state
from lps.store.desired_state import DesiredState
from lps.store.runs import Run
from tests.queued_runs import hold, make, waiting_runs

NOW = 1_800_000_000.0


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.delenv("LPS_CPU_SLOTS", raising=False)
    monkeypatch.delenv("LPS_RETRY_S", raising=False)
    return tmp_path / "runs"


@pytest.fixture
def started(monkeypatch):
    """What would have been started, in order; slots are free again at once."""
    found = []
    monkeypatch.setattr(launcher, "_spawn", lambda run, attempt, *_: found.append((run.id, attempt)))
    monkeypatch.setattr(launcher, "_start_daemon", lambda *_: None)
    monkeypatch.setattr(launcher, "_end_leftovers", lambda *_: None)
    return found


def asked(root, count, **more) -> list[Run]:
    runs = [make(root, seed=number) for number in range(count)]
    for run in runs:
        queue.request_attempt(run, "run", 1, **more)
    return runs


def names(root, runs) -> str:
    """The line as letters: the first of `runs` is "a"."""
    ids = [run.id for run in runs]
    return "".join("abcdefghij"[ids.index(run.id)] for run in waiting_runs(root))


def crash(run, attempt=1):
    """What a runner leaves behind that is killed in the middle."""
    write_json(run.folder / "process.json", {"attempt": attempt, "boot_id": boot_id()})


def end(run, attempt=1, **more):
    crash(run, attempt)
    write_json(run.folder / "exit.json", {"attempt": attempt, "kind": "", "reason": ""} | more)


def stored(run) -> bytes:
    return (run.folder / "want.json").read_bytes()


@pytest.mark.parametrize(
    ("moves", "expected"), [("d", "dabce"), ("a", "abcde"), ("ce", "ecabd"), ("edcba", "abcde"), ("bb", "bacde")]
)
def test_first_goes_before_all_others_and_changes_the_order_of_no_two_of_them(root, moves, expected):
    runs = asked(root, 5)
    for letter in moves:
        queue.put_first(runs["abcde".index(letter)])
    assert names(root, runs) == expected


def test_first_writes_nothing_but_its_own_wish(root):
    runs = asked(root, 5)
    before = [stored(run) for run in runs]
    queue.put_first(runs[2])
    assert [stored(run) == old for run, old in zip(runs, before)] == [True, True, False, True, True]


def test_a_higher_priority_goes_first_and_first_takes_it_over(root):
    runs = asked(root, 4)
    queue.set_priority(runs[3], 5)
    queue.set_priority(runs[2], -1)
    assert names(root, runs) == "dabc"
    queue.put_first(runs[0])
    assert names(root, runs) == "adbc" and runs[0].desired().priority == 5
    late = make(root)
    queue.request_attempt(late, "run", 1)
    assert names(root, [*runs, late]) == "adbec"


def test_runs_asked_for_at_the_same_moment_can_be_put_first(root):
    runs = asked(root, 4)
    for run in runs:
        queue.write_desired_state(run, DesiredState("run", 1, NOW, order=NOW))
    expected = sorted(runs, key=lambda run: run.id)
    for turn in range(120):
        queue.put_first(expected[1 + turn % 3])
        expected.insert(0, expected.pop(1 + turn % 3))
        assert waiting_runs(root) == expected


@pytest.mark.parametrize("number", [1001, -1001, 1.5, True, "1", None])
def test_a_priority_is_a_whole_number(root, number):
    (run,) = asked(root, 1)
    with pytest.raises(
        UserError, match="^priority: .* is not a whole number from -1000 to 1000; higher priorities start first"
    ):
        queue.set_priority(run, number)


def test_only_what_waits_can_be_moved(root):
    run = make(root)
    reasons = {"not launched": lambda: None, "finished": lambda: end(run, state="finished")}
    for word, happen in reasons.items():
        happen()
        for act in (queue.put_first, queue.retry_now, lambda run: queue.set_priority(run, 1)):
            with pytest.raises(UserError, match=f"^run: {run.id} is {word}; only waiting runs are in"):
                act(run)
    assert not (run.folder / "want.json").exists()


def test_launching_many_keeps_their_order_and_looks_for_slots_once(root, started, monkeypatch):
    pumps = []
    monkeypatch.setattr(launcher, "dispatch", lambda *_: pumps.append(1))
    runs = [make(root, seed=seed) for seed in (3, 1, 2)]
    launcher.launch_all(runs, retries=2, priority=7)
    assert waiting_runs(root) == runs and len(pumps) == 1
    assert {(run.desired().retries, run.desired().priority) for run in runs} == {(2, 7)}


def test_launching_many_resumes_what_broke_off_and_leaves_the_rest_alone(root, started):
    new, finished, failed, waits = runs = [make(root, seed=seed) for seed in range(4)]
    end(finished, state="finished")
    end(failed, state="failed", kind="bug")
    queue.request_attempt(waits, "run", 1)
    before = stored(waits)
    launcher.launch_all(runs)
    assert (new.desired().attempt, failed.desired().attempt, stored(waits)) == (1, 2, before)
    assert not (finished.folder / "want.json").exists()


def test_nothing_is_asked_for_where_one_of_many_cannot_be(root, started):
    good, bad = make(root), make(root, seed=1)
    (bad.folder / "config.json").write_text("{")
    with pytest.raises(UserError):
        launcher.launch_all([good, bad])
    assert not (good.folder / "want.json").exists()


@pytest.mark.parametrize("again", [queue.retry_now, queue.put_first])
def test_a_run_that_an_earlier_version_held_keeps_its_place_and_is_passed_over(root, started, again):
    runs = asked(root, 3)
    hold(runs[0])
    queue.set_priority(runs[0], 5)  # leaves it held
    assert names(root, runs) == "abc" and [queue.queue_position(run) for run in runs] == [0, 0, 1]
    state = runs[0].state()
    assert (state.name, state.reason) == (
        "queued",
        "put on hold by an older version of LPS Studio; retry it in the queue to start it",
    )
    launcher.dispatch(root)
    assert [name for name, _ in started] == [runs[1].id, runs[2].id]
    again(runs[0])
    launcher.dispatch(root)
    assert started[2][0] == runs[0].id and runs[0].state().reason == ""


def test_a_held_run_does_not_keep_a_waker(root):
    runs = asked(root, 2)
    assert queue.has_pending(root)
    for run in runs:
        hold(run)
    assert not queue.has_pending(root)


def test_a_paused_queue_starts_nothing_and_goes_on(root, started):
    run = make(root)
    queue.set_paused(root, True)
    assert launcher.launch(run).name == "queued" and not started and not queue.has_pending(root)
    assert queue.read_switch(root).paused and abs(queue.read_switch(root).since - time.time()) < 60
    queue.set_paused(root, False)
    launcher.dispatch(root)
    assert started == [(run.id, 1)]


def test_a_damaged_queue_file_pauses_nothing_and_is_said(root, started):
    """Two hundred other contents are read in hostile/test_bad_files.py."""
    asked(root, 1)
    (root / queue.SWITCH).write_text('{"paused": "yes"}', encoding="utf-8")
    assert queue.read_switch(root).problem == ".queue.json is damaged and was ignored: the queue is not paused"
    launcher.dispatch(root)
    assert len(started) == 1
    queue.set_paused(root, False)
    assert queue.read_switch(root) == replace(queue.Switch(), since=queue.read_switch(root).since)


def test_a_link_in_place_of_the_queue_file_is_not_followed(root, tmp_path):
    asked(root, 1)
    (tmp_path / "elsewhere.json").write_text('{"paused": true}')
    (root / queue.SWITCH).symlink_to(tmp_path / "elsewhere.json")
    assert queue.read_switch(root).problem and not queue.read_switch(root).paused


def test_nobody_starts_a_run_while_somebody_changes_the_queue(root, started, monkeypatch):
    monkeypatch.setattr(queue, "TURN_PATIENCE_S", 0.05)
    (run,) = asked(root, 1)
    with queue.lock_queue(root):
        assert launcher.dispatch(root) == [] and started == []
        with pytest.raises(UserError, match="^queue: is busy; try again in a moment$"):
            queue.put_first(run)
    assert launcher.dispatch(root) == [run]


def test_there_is_no_queue_where_there_is_no_folder(tmp_path):
    with pytest.raises(UserError, match="^queue: there are no runs in "):
        queue.set_paused(tmp_path / "nowhere", True)
    assert waiting_runs(tmp_path / "nowhere") == [] and not queue.has_pending(tmp_path / "nowhere")


def test_a_crashed_run_waits_longer_each_time_and_at_last_stays_crashed(root, started, monkeypatch):
    clock = [NOW]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    first, second = asked(root, 2, retries=3)
    hold(second)
    waits = []
    for attempt in (1, 2, 3, 4):
        launcher.dispatch(root)
        assert started[-1] == (first.id, attempt)
        crash(first, attempt)
        assert first.state().name == "crashed"
        launcher.dispatch(root)
        if attempt == 4:
            break
        state = first.state()
        assert (state.name, state.attempt, first.desired().retried) == ("queued", attempt + 1, attempt)
        assert state.reason.endswith(f"(retry {attempt} of 3)") and state.reason.startswith("starts again at ")
        assert names(root, [first, second]) == "ab"  # its old place
        begin = clock[0]
        clock[0] = first.desired().not_before - 0.01
        assert launcher.dispatch(root) == []
        clock[0] = first.desired().not_before
        waits.append(clock[0] - begin)
    assert waits == [30, 120, 480]
    assert first.state().name == "crashed" and len(started) == 4 and not queue.has_pending(root)


def test_the_hour_of_the_next_try_is_said():
    wish = DesiredState("run", 2, NOW, retries=3, retried=1, not_before=NOW + 60)
    hour = time.strftime("%H:%M", time.localtime(NOW + 60))
    assert desired_state.waiting_reason(wish, NOW) == f"starts again at {hour} (retry 1 of 3)"
    assert desired_state.waiting_reason(wish, NOW + 60) == "starts again after a crash (retry 1 of 3)"


ENDINGS = [
    ({"state": "finished"}, False),
    ({"state": "failed", "kind": "bug"}, False),
    ({"state": "failed", "kind": "killed"}, False),  # most likely out of memory: it would be again
    ({"state": "failed", "kind": "out_of_memory"}, False),
    ({"state": "failed", "kind": "disk_full"}, False),
    ({"state": "stopped", "kind": ""}, False),
    ({"state": "stopped", "kind": "preempted"}, True),
    (None, True),  # crashed
]


@pytest.mark.parametrize(("record", "again"), ENDINGS)
@pytest.mark.parametrize("retries", [0, 1])
def test_what_is_tried_again_by_itself(root, started, record, again, retries):
    (run,) = asked(root, 1, retries=retries)
    crash(run) if record is None else end(run, **record)
    launcher.dispatch(root)
    assert (run.desired().attempt == 2) == (run.state().name == "queued") == (again and retries == 1)


@pytest.mark.parametrize("want", ["stop", "kill"])
def test_what_a_person_wanted_to_end_is_not_tried_again_after_a_crash(root, started, want):
    (run,) = asked(root, 1, retries=3)
    queue.request_attempt(run, want, 1)
    crash(run)
    launcher.dispatch(root)
    assert run.state().name == "crashed"


def test_a_crashed_run_that_is_stopped_before_it_comes_back_stays(root, started):
    (run,) = asked(root, 1, retries=3)
    crash(run)
    launcher.stop(run)
    launcher.dispatch(root)
    assert run.state().name == "crashed" and started == []


def test_a_running_run_with_retries_keeps_a_waker_and_one_without_does_not(root):
    for retries, expected in ((1, True), (0, False)):
        (run,) = asked(root / str(retries), 1, retries=retries)
        crash(run)
        lock = try_lock(run.lock)
        assert run.state().name == "running" and queue.has_pending(run.root) is expected
        os.close(lock)


def test_a_retry_means_now(root, started):
    (run,) = asked(root, 1, retries=1)
    crash(run)
    assert launcher.dispatch(root) == []
    queue.retry_now(run)
    assert launcher.dispatch(root) == [run] and started == [(run.id, 2)]


def test_priority_and_retries_stay_when_a_person_resumes_and_count_from_the_beginning(root, started):
    (run,) = asked(root, 1, retries=2, priority=4)
    crash(run)
    launcher.dispatch(root)
    assert run.desired().retried == 1
    launcher.stop(run)
    launcher.resume(run)
    wish = run.desired()
    assert (wish.attempt, wish.priority, wish.retries, wish.retried, wish.not_before) == (3, 4, 2, 0, 0)


def test_a_time_that_no_back_off_explains_holds_nothing_back(root, started):
    """The clock was wrong when it was written, or the file came from elsewhere."""
    (run,) = asked(root, 1)
    queue.write_desired_state(run, replace(run.desired(), not_before=time.time() + 10 * 365 * 86_400))
    assert launcher.dispatch(root) == [run]


def test_two_pumps_at_once_ask_for_one_retry(root, started):
    (run,) = asked(root, 1, retries=3)
    crash(run)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: launcher.dispatch(root), range(8)))
    assert run.desired().attempt == 2 and run.desired().retried == 1 and started == []


def test_the_first_wait_can_be_set(monkeypatch):
    waits = {
        "2": [2, 8, 32],
        "soon": [30, 120, 480],
        "-1": [0, 0, 0],
        "9000": [9000, 36_000, 86_400],
        "inf": [86_400] * 3,
    }
    for text, expected in waits.items():
        monkeypatch.setenv("LPS_RETRY_S", text)
        assert [queue.retry_after_s(number) for number in (1, 2, 3)] == expected


def test_wishes_of_before_are_read_as_before(root, started):
    runs = [make(root, seed=seed) for seed in range(3)]
    for run, asked_at in zip(runs, (2.0, 3.0, 1.0)):
        write_json(run.folder / "want.json", {"want": "run", "attempt": 1, "time": asked_at})
    assert names(root, runs) == "cab"
    launcher.dispatch(root)
    assert started == [(runs[number].id, 1) for number in (2, 0, 1)]


def test_a_plain_wish_is_written_as_before(root):
    (run,) = asked(root, 1)
    assert set(json.loads(stored(run))) == {"want", "attempt", "time"}


@given(
    st.builds(
        DesiredState,
        st.sampled_from(desired_state.WANTS),
        st.integers(1, 99),
        st.floats(0, 2e9),
        st.integers(-1000, 1000),
        st.floats(-2e9, 2e9),
        st.booleans(),
        st.integers(0, 3),
        st.integers(0, 3),
        st.floats(0, 2e9),
    )
)
def test_a_wish_survives_its_file(wish):
    assert desired_state.parse_desired_state(json.loads(json.dumps(wish.to_json()))) == wish


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), lambda v: st.lists(v, max_size=2)
)


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from(list(DesiredState().to_json() | DesiredState("run", 1, 1, 1, 2, True, 1, 1, 1).to_json())),
        values,
    )
)
def test_any_object_is_a_wish_that_can_be_compared(stored):
    wish = desired_state.parse_desired_state(stored)
    assert wish.order == wish.order and wish.not_before == wish.not_before
    assert wish.attempt >= 0 and wish.retries >= 0 and abs(wish.priority) <= 1000
    assert desired_state.parse_desired_state(wish.to_json()) == wish
    assert isinstance(desired_state.waiting_reason(wish, NOW), str)


def test_runs_that_are_over_are_not_read_again(root, monkeypatch):
    """500 finished runs shall cost the queue no more than a look at their folders."""
    runs = asked(root, 3)
    for run in runs[:2]:
        end(run, state="finished")
    monkeypatch.setattr("lps.files.folder_cache._SETTLED_NS", 0)
    assert waiting_runs(root) == runs[2:]
    read = []
    original = Run.read_json
    monkeypatch.setattr(Run, "read_json", lambda run, name: read.append(run.id) or original(run, name))
    assert waiting_runs(root) == runs[2:] and read == []
    time.sleep(0.02)  # the folder gets another time
    queue.request_attempt(runs[0], "run", 2)
    assert waiting_runs(root) == [runs[2], runs[0]] and set(read) == {runs[0].id}


def test_of_runs_whose_rows_are_known_only_those_that_may_start_again_are_read(root, monkeypatch):
    runs = asked(root, 3)
    end(runs[0], state="finished")
    end(runs[1], state="stopped", kind="preempted")
    monkeypatch.setattr("lps.files.folder_cache._SETTLED_NS", 0)
    run_index.read_rows(runs)
    read = []
    original = Run.read_json
    monkeypatch.setattr(Run, "read_json", lambda run, name: read.append(run.id) or original(run, name))
    assert waiting_runs(root) == runs[2:] and set(read) == {runs[1].id, runs[2].id}
    wish = runs[0].folder / "want.json"  # as `cp -r` writes over a run: the folder does not change
    wish.write_text(wish.read_text().replace('"attempt": 1', '"attempt": 2').replace('"attempt":1', '"attempt":2'))
    assert waiting_runs(root) == [runs[0], runs[2]]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["ask", "stop", "crash", "end", "delete"])), max_size=12))
def test_what_is_remembered_is_what_is_there(tmp_path_factory, steps):
    """The oracle reads every file anew."""
    root = tmp_path_factory.mktemp("known") / "runs"
    runs = [make(root, seed=seed) for seed in range(3)]
    for number, what in steps:
        run = runs[number]
        attempt = max(1, run.state().attempt)
        if what == "ask":
            queue.request_attempt(run, "run", attempt + 1)
        elif what == "stop":
            queue.request_attempt(run, "stop", attempt)
        elif what == "crash":
            crash(run, attempt)
        elif what == "end":
            end(run, attempt, state="finished")
        else:
            (run.folder / "want.json").unlink(missing_ok=True)
        expected = sorted((r for r in runs if r.waiting_attempt()), key=lambda r: (r.desired().order, r.id))
        assert waiting_runs(root) == expected


def test_a_run_that_cannot_be_read_keeps_no_waker_and_stops_nobody(root, started):
    bad, good = asked(root, 2)
    (bad.folder / "config.json").write_text("{")
    assert launcher.dispatch(root) == [good]
    queue.request_attempt(good, "stop", 1)
    assert waiting_runs(root) == [bad] and not queue.has_pending(root)


def test_a_recording_is_neither_launched_nor_stopped_nor_moved(root, started):
    run = make(root)
    write_json(run.folder / "recorded.json", {"version": 1})
    acts = (launcher.launch, launcher.resume, launcher.stop, queue.put_first, queue.retry_now)
    for act in (*acts, lambda run: launcher.launch_all([run])):
        with pytest.raises(UserError, match="is a recording and read-only"):
            act(run)
    assert not (run.folder / "want.json").exists() and started == []


@pytest.fixture
def lps(root, capsys):
    """A command: its exit code, what it printed and what it said on stderr."""

    def call(*arguments):
        try:
            code = main([*arguments, "--runs", str(root)])
        except SystemExit as exit_:
            code = exit_.code
        return (code or 0, *capsys.readouterr())

    return call


def test_the_command_line_changes_the_line(root, started, lps, monkeypatch):
    monkeypatch.setattr(launcher, "dispatch", lambda *_: [])
    runs = asked(root, 4)
    short = [run.id[-6:] for run in runs]
    assert lps("queue", "first", short[2]) == (0, "", "") and names(root, runs) == "cabd"
    assert lps("queue", "priority", short[1], "3") == (0, "", "") and names(root, runs)[0] == "b"
    assert lps("queue", "priority", short[1], "-3") == (0, "", "") and names(root, runs)[3] == "b"
    hold(runs[0])
    assert lps("queue", "retry", short[0])[0] == 0 and not runs[0].desired().held
    assert lps("queue", "cancel", short[0]) == (0, "", "") and runs[0].state().name == "stopped"
    assert lps("queue", "pause") == (0, "", "") and queue.read_switch(root).paused
    assert lps("queue", "resume") == (0, "", "") and not queue.read_switch(root).paused
    assert lps("queue", "retry", short[0])[0] == 0 and runs[0].desired().attempt == 2


def test_the_queue_in_words_and_as_json(root, started, lps):
    runs = asked(root, 3)
    hold(runs[1])
    queue.set_paused(root, True)
    code, out, err = lps("queue")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "cpu-0  free" and lines[1].startswith("3 waiting, 1 of them on hold; paused since ")
    assert [line.split()[:2] for line in lines[2:5]] == [[str(n), run.id] for n, run in enumerate(runs, 1)]
    assert "put on hold by an older version" in lines[3]
    told = json.loads(lps("queue", "--json")[1])
    assert [item["run"] for item in told["waiting"]] == [run.id for run in runs]
    assert [item["held"] for item in told["waiting"]] == [False, True, False]
    assert told["paused"] and told["slots"] == [{"slot": "cpu-0", "free": True}] and told["unknown"] == 0
    (root / queue.SWITCH).write_text("{")
    assert lps("queue")[2] == ".queue.json is damaged and was ignored: the queue is not paused\n"
    assert started == [(runs[0].id, 1), (runs[2].id, 1)]


def test_an_empty_queue_in_words(root, lps):
    root.mkdir()
    assert lps("queue") == (0, "cpu-0  free\n0 waiting\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["queue", "first", "nobody"], "run: 'nobody' is not in "),
        *[
            (["queue", name, "{run}"], f"queue: {name} was removed; use {instead}")
            for name, instead in (
                ("up", "`first` or `priority N`\n"),
                ("down", "`priority N`\n"),
                ("last", "`priority N` with a number below 0\n"),
                ("hold", "`cancel` (and later `retry`) for one run, or `pause` for the whole queue\n"),
                ("release", "`retry` or `first`\n"),
            )
        ],
        (["queue", "up"], "queue: up was removed; use `first` or `priority N`\n"),
        (["queue", "sideways"], "invalid choice: 'sideways' (choose from 'pause', 'resume', 'slots', 'first', "),
        (["queue", "sideways"], "'priority', 'cancel', 'retry')\n"),
        (["queue", "priority", "{run}", "high"], "'high' is not a whole number"),
        (["queue", "priority", "{run}", "5000"], "priority: 5000 is not a whole number from -1000 to 1000"),
        (["queue", "cancel", "{over}"], "is finished and not waiting"),
        (["queue", "retry", "{over}"], "is finished; only stopped, failed and crashed runs can be resumed"),
        (["queue", "first", "{over}"], "is finished; only waiting runs are in the queue"),
        (["launch", "--retries", "9"], "retries: 9 is not a whole number from 0 to 3"),
        (["sweep", "--retries", "-1"], "retries: -1 is not a whole number from 0 to 3"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(root, started, lps, arguments, said):
    run, over = asked(root, 2)
    end(over, state="finished")
    code, out, err = lps(*(text.format(run=run.id, over=over.id) for text in arguments))
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1


def test_a_stop_that_takes_long_is_told_with_the_way_to_cut_it_short(root, lps):
    (run,) = asked(root, 1)
    lock = try_lock(run.lock)
    write_json(run.folder / "progress.json", {"stop_s": 70})
    code, out, said = lps("stop", run.id)
    assert (code, out) == (0, "") and run.desired().want == "stop"
    assert "the current step to finish (up to 70 s)" in said
    assert said.endswith(f"python -m lps stop --kill {run.id} ends it now\n")
    assert "after 210 s, the run is killed" in lps("list")[1]
    assert lps("stop", "--kill", run.id) == (0, "", "") and run.desired().want == "kill"
    os.close(lock)


def test_stopping_what_is_over_says_so(root, lps):
    (run,) = asked(root, 1)
    end(run, state="finished")
    assert lps("stop", run.id) == (0, "", f"{run.id} is already finished; there is nothing to stop\n")
    assert run.desired().want == "run"


def test_a_queue_that_stands_still_is_started_again_by_whoever_looks(root, started, lps):
    """No waker and no runner is left: the next command starts what waits; a page looks in the same way."""
    for command in (["queue"], ["list"], ["show"]):
        (run,) = asked(root, 1)
        started.clear()
        assert not launcher.has_daemon(root)
        lps(*command, *([run.id] if command == ["show"] else []))
        assert (run.id, 1) in started, command
        queue.request_attempt(run, "stop", 1)


def test_a_queue_that_cannot_be_started_again_is_said_to_stand_still(root, lps, monkeypatch):
    asked(root, 1)
    monkeypatch.setattr(launcher, "dispatch", lambda *_: [])
    code, out, _ = lps("queue")
    assert code == 0 and "the queue is blocked" in out and "python -m lps queue" in out
    assert json.loads(lps("queue", "--json")[1])["stands_still"] is True
    queue.set_paused(root, True)
    assert json.loads(lps("queue", "--json")[1])["stands_still"] is False
