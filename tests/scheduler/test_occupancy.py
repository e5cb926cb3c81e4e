"""What runs where and when it will be over: the plan against a simulation by hand, the estimates against costs."""

import json
import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lps.files.atomic import write_json
from lps.files.locks import boot_id, try_lock
from lps.scheduler import costs, launcher, overview, queue, run_slots
from lps.scheduler.costs import Span
from lps.settings.config import configure
from lps.store.runs import Run
from tests.queued_runs import asked, beginning, hold, make, record_course

NOW = 1_800_000_000.0


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_CPU_SLOTS", "2")
    monkeypatch.setattr("lps.store.run_folders.RECORDED", tmp_path / "recorded")
    monkeypatch.setattr(launcher, "has_daemon", lambda root: True)
    monkeypatch.setattr(costs, "load_per_core", lambda: 1.0)
    return tmp_path / "runs"


def finished(root, seconds, **settings) -> Run:
    run = make(root, **settings)
    write_json(run.folder / "want.json", {"want": "run", "attempt": 1, "time": 1.0})
    write_json(run.folder / "process.json", {"attempt": 1, "started": 1000.0})
    write_json(run.folder / "exit.json", {"attempt": 1, "state": "finished", "time": 1000.0 + seconds})
    return run


@pytest.fixture
def alive(root):
    with beginning(root, NOW) as begin:
        yield begin


def by_id(found):
    return {item.run.id: item for item in found.waiting}


def test_nothing_is_nothing(root):
    found = overview.read_queue(root, NOW)
    assert (list(found.slots), found.running, found.waiting, found.end_time, found.num_unknown) == (
        ["cpu-0", "cpu-1"], [], [], None, 0,
    )  # fmt: skip
    assert overview.end_in_words(found, NOW) == ""


def test_every_slot_takes_the_next_run_of_the_line(root, alive):
    """By hand: cpu-0 is free after 30 s, cpu-1 after 100 s; then 50 s each, but for the held one."""
    finished(root, 50.0, seed=99)
    first = alive(make(root, seed=1), "cpu-0", phase="train", step=70, steps=100, eta_s=30.0)
    second = alive(make(root, seed=2), "cpu-1", phase="train", step=50, steps=100, eta_s=100.0)
    a, b, c, d = asked(root, 3, 4, 5, 6)
    hold(b)
    found = overview.read_queue(root, NOW)
    assert [(item.run, item.slots, item.left_s) for item in found.running] == [
        (first, ("cpu-0",), 30.0), (second, ("cpu-1",), 100.0),
    ]  # fmt: skip
    assert found.running[0].share == 0.7 and found.slots == {"cpu-0": True, "cpu-1": True}
    times = {run.id: (item.start, item.end) for run, item in zip((a, b, c, d), found.waiting)}
    assert [times[run.id] for run in (a, b, c, d)] == [
        (NOW + 30, NOW + 80), (None, None), (NOW + 80, NOW + 130), (NOW + 100, NOW + 150),
    ]  # fmt: skip
    assert (found.end_time, found.num_unknown, found.num_held) == (NOW + 150, 0, 1)
    hour = time.strftime("%H:%M", time.localtime(NOW + 150))
    assert overview.end_in_words(found, NOW) == f"done at about {hour} (in about 2 min)"


def test_what_is_of_unknown_length_makes_the_end_the_earliest_one(root, alive):
    finished(root, 50.0, method="orca", seed=9)
    alive(make(root, seed=1), "cpu-0")
    (known,) = asked(root, 2, method="orca")
    (unknown,) = asked(root, 3)
    (later,) = asked(root, 4, method="orca")
    found = overview.read_queue(root, NOW)
    items = by_id(found)
    assert found.num_unknown == 2 and items[unknown.id].seconds is None
    assert not items[known.id].certain and not items[later.id].certain  # behind the one that runs; behind anything
    assert "at the earliest" in overview.end_in_words(found, NOW) and "2 runs" in overview.end_in_words(found, NOW)


def test_where_nothing_is_known_no_end_is_said(root):
    asked(root, 1, 2)
    found = overview.read_queue(root, NOW)
    words = "end unknown until a run like these has finished"
    assert found.end_time is None and overview.end_in_words(found, NOW) == words
    queue.set_paused(root, True)
    found = overview.read_queue(root, NOW)
    assert overview.end_in_words(found, NOW) == "waiting runs start when the queue resumes"


def test_a_paused_queue_promises_the_end_of_what_runs_alone(root, alive):
    finished(root, 500.0, seed=99)
    alive(make(root, seed=1), "cpu-0", phase="train", step=70, steps=100, eta_s=30.0)
    asked(root, 2, 3)
    assert overview.read_queue(root, NOW).end_time == NOW + 530
    queue.set_paused(root, True)
    found = overview.read_queue(root, NOW)
    hour = time.strftime("%H:%M", time.localtime(NOW + 30))
    assert found.end_time == NOW + 30 and all(item.start is None is item.end for item in found.waiting)
    assert overview.end_in_words(found, NOW) == (
        f"end of the current runs at about {hour} (in about 30 s); waiting runs start when the queue resumes"
    )


@pytest.mark.parametrize(("phase", "left"), [("train", costs.ENDING_S), ("pretrain", 200 + costs.ENDING_S)])
def test_a_phase_that_is_over_is_not_said_beside_the_time_of_the_next(root, alive, phase, left):
    finished(root, 200.0, seed=99)
    alive(make(root, seed=1), "cpu-0", phase=phase, step=100, steps=100, eta_s=None)
    (item,) = overview.read_queue(root, NOW).running
    assert item.share is None and item.left_s == left


def test_the_time_of_the_next_try_is_waited_for(root):
    finished(root, 50.0, seed=99)
    (run,) = asked(root, 1)
    wish = run.desired()
    queue.write_desired_state(run, overview.replace(wish, not_before=NOW + 200, retries=1, retried=1))
    (item,) = overview.read_queue(root, NOW).waiting
    assert (item.start, item.end) == (NOW + 200, NOW + 250)


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        ({"phase": "train", "eta_s": 40.0}, 40.0),
        ({"phase": "train", "eta_s": 40.0, "time": NOW - 15}, 25.0),
        ({"phase": "pretrain", "eta_s": 5.0}, 5 + 200 + costs.ENDING_S),  # the training phase comes after it
        ({"phase": "train", "eta_s": None}, 140.0),
        ({"phase": "train", "eta_s": 1e300}, 140.0),
        ({"phase": "train", "eta_s": 3.0, "time": NOW - 500}, 140.0),  # of the attempt before
        ({}, 140.0),
    ],
)
def test_what_is_left_of_a_run(root, alive, progress, expected):
    finished(root, 200.0, seed=99)
    alive(make(root, seed=1), "cpu-0", **progress)
    assert overview.read_queue(root, NOW).running[0].left_s == expected


def test_a_run_that_should_be_over_is_not_said_to_be_about_to_end(root, alive):
    finished(root, 20.0, seed=99)
    alive(make(root, seed=1), "cpu-0")
    left = overview.read_queue(root, NOW).running[0].time_left
    assert left.likely == 0 and overview.time_left_in_words(left) == "longer than expected"
    assert overview.time_left_in_words(Span.about(240.0)) == "about 4 min left"
    assert overview.time_left_in_words(Span.about(240.0, 2.0)) == "about 2 to 8 min left"
    assert overview.time_left_in_words(Span(0.0, 0.0, 20.0)) == "up to 20 s left"
    assert overview.time_left_in_words(None) == overview.time_left_in_words(Span(9, 9, 999)) == "no estimate yet"


def test_a_run_that_pretrains_at_a_third_of_the_usual_pace_is_expected_to_train_so_too(root, alive):
    """By hand: usually 8 + 20 + 40 s; now 20 steps of pretraining have taken 15 s, so 45 s are to come, and 120 s."""
    record_course(finished(root, 1.0, seed=99, epochs=40), start=8, pretrained=20, epoch=1.0)
    alive(make(root, seed=1, epochs=40), "cpu-0", phase="pretrain", step=25, steps=100, eta_s=45.0)
    (waiting,) = asked(root, 2, epochs=40)
    found = overview.read_queue(root, NOW)
    assert found.running[0].left_s == pytest.approx(45 + 120 + costs.ENDING_S)
    assert found.waiting[0].run == waiting and found.waiting[0].seconds == pytest.approx(3 * (8 + 20 + 40))


def test_what_is_asked_of_a_kind_alone_knows_its_running_runs_too(root, alive):
    record_course(finished(root, 1.0, seed=99, epochs=40), start=8, pretrained=20, epoch=1.0)
    run = alive(make(root, seed=1, epochs=40), "cpu-0", phase="pretrain", step=25, steps=100, eta_s=45.0)
    config = run.config()
    assert costs.known_costs(root, {costs.cost_kind(config)}).estimate(config).span.likely == pytest.approx(
        3 * (8 + 40)
    )
    assert costs.known_costs(root).estimate(config).span.likely == pytest.approx(8 + 20 + 40)


def test_a_run_of_a_kind_that_never_finished_is_judged_by_what_it_shows_itself(root, alive):
    """Of its first phase alone the rest is a rule of thumb, so a range is said; of training it is exact."""
    pretraining = alive(make(root, seed=1), "cpu-0", phase="pretrain", step=50, steps=100, eta_s=100.0)
    asked(root, 1)
    found = overview.read_queue(root, NOW)
    left, usual = found.running[0].time_left, costs.pretraining_share(pretraining.config())
    epochs, pretrained = pretraining.config().epochs, pretraining.config().pretrain_epochs
    assert left.likely == pytest.approx(100 + 200 / pretrained * epochs / usual + costs.ENDING_S)
    assert costs.is_wide(left) and " to " in overview.time_left_in_words(left)
    assert found.waiting[0].duration is not None and "done in about" in overview.end_in_words(found, NOW)


def test_the_first_of_two_runs_makes_the_start_weights_for_both(root):
    record_course(finished(root, 1.0, seed=99), start=8, pretrained=20, epoch=1.0)
    asked(root, 1, 1, 2)
    epochs = 8 + make(root).config().epochs
    assert [item.seconds for item in overview.read_queue(root, NOW).waiting] == [epochs + 20, epochs, epochs + 20]


def test_a_queue_that_nobody_looks_after_promises_no_time(root, monkeypatch):
    finished(root, 50.0, seed=99)
    asked(root, 1, 2)
    monkeypatch.undo()
    monkeypatch.setenv("LPS_CPU_SLOTS", "2")
    assert not launcher.has_daemon(root)
    found = overview.read_queue(root, NOW)
    assert (found.has_daemon, found.end_time) == (False, None) and all(item.start is None for item in found.waiting)
    assert overview.end_in_words(found, NOW).startswith("the queue is blocked")
    lock = try_lock(root / ".waker.lock")
    assert overview.read_queue(root, NOW).has_daemon and overview.read_queue(root, NOW).end_time == NOW + 50
    os.close(lock)


def test_a_run_that_starts_has_no_slot_yet(root):
    (run,) = asked(root, 1)
    lock = try_lock(run.lock)
    (item,) = overview.read_queue(root, NOW).running
    assert (item.state.name, item.slots, item.since, item.left_s) == ("starting", (), None, None)
    os.close(lock)


def test_broken_ones_are_those_that_vanished_or_were_preempted(root):
    crashed, preempted, stopped, failed = asked(root, 1, 2, 3, 4)
    for run in (crashed, preempted, stopped, failed):
        write_json(run.folder / "process.json", {"attempt": 1, "boot_id": boot_id()})
    for run, state, kind in ((preempted, "stopped", "preempted"), (stopped, "stopped", ""), (failed, "failed", "bug")):
        write_json(run.folder / "exit.json", {"attempt": 1, "state": state, "kind": kind, "reason": ""})
    assert set(overview.read_queue(root, NOW).interrupted) == {crashed, preempted}


@pytest.mark.parametrize("text", ["", "[]", '{"attempt": 1, "slot": 7, "started": "soon"}', '{"attempt": 1}', "\x00"])
def test_damaged_records_of_a_running_run_are_survived(root, text):
    (run,) = asked(root, 1)
    (run.folder / "process.json").write_text(text)
    (run.folder / "progress.json").write_text(json.dumps({"step": "x", "steps": 0, "eta_s": [], "time": None}))
    lock = try_lock(run.lock)
    (item,) = overview.read_queue(root, NOW).running
    assert item.share is None and item.left_s is None and item.slots == ()
    os.close(lock)


choices = {"seed": st.integers(0, 2), "epochs": st.integers(1, 3), "method": st.sampled_from(["lps", "orca"])}
some = st.fixed_dictionaries(choices | {"lr": st.sampled_from([0.1, 0.2])})


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(some, st.floats(1, 1000)), max_size=6), some)
def test_costs_do_not_depend_on_runs_of_other_kinds(tmp_path_factory, done, wanted):
    root = tmp_path_factory.mktemp("durations") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lps.store.run_folders.RECORDED", root / "none")
        for settings_, seconds in done:
            finished(root, seconds, **settings_)
        run = make(root, **wanted)
        config = run.config()
        expected = costs.known_costs(root, {costs.cost_kind(config)}).estimate(config)
        found = costs.known_costs(root).estimate(config)
    assert (found and found.span.likely) == (None if expected is None else pytest.approx(expected.span.likely))


def test_the_date_is_said_where_it_is_another_one():
    today = time.mktime((2026, 5, 4, 12, 0, 0, 0, 0, -1))
    assert overview.time_of_day(today + 3600, today) == "13:00"
    assert overview.time_of_day(today + 86_400, today) == "2026-05-05 12:00"


def test_the_slots_are_those_that_runs_are_started_on(root):
    assert [slot.name for slot in run_slots.every_slot(root)][-2:] == ["cpu-0", "cpu-1"]
    assert run_slots.slots_for(configure({"device": "cpu"}), root)[1] == 1
