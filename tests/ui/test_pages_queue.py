"""The Queue page: nothing, one run, many; what is said of devices and of the line, and what its buttons do."""

import os
import time
from datetime import datetime

import pytest

from lps.__main__ import main
from lps.files.atomic import write_json
from lps.files.locks import boot_id, try_lock
from lps.machine import devices, usage
from lps.scheduler import costs, launcher, queue
from lps.ui.queue import page
from lps.ui.shared import time_estimates
from tests.queued_runs import asked, beginning, hold, make, waiting_runs
from tests.shares import in_turn
from tests.visiting import APP, Visit, visit

IS_TENDED = launcher.has_daemon  # which tests of pages do without


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty folder of runs; no process is started, and the driver is not asked."""
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("LPS_CPU_SLOTS", "2")
    monkeypatch.setattr(launcher, "_spawn", lambda *_: None)
    monkeypatch.setattr(launcher, "_start_daemon", lambda *_: None)
    monkeypatch.setattr(usage, "gpu_usage", lambda: [])
    page._read_devices.clear()
    time_estimates._known_costs.clear()
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture
def alive(root):
    with beginning(root) as begin:
        yield begin


def words(at) -> str:
    """All that the page says."""
    parts = [*at.markdown, *at.caption, *at.info, *at.warning, *at.error, *at.subheader]
    bars = [bar.proto.text for bar in at.get("progress")]
    links = [link.proto.label for link in at.get("page_link")]
    return "\n".join([*(part.value for part in parts), *bars, *links])


def ticked(*runs) -> Visit:
    """The page with these rows ticked."""
    at = Visit(str(APP), default_timeout=60)
    at.session_state["queue_chosen"] = [run.id for run in runs]
    at.run()
    at.switch_page("pages/queue.py")
    at.run()
    assert not at.exception
    return at


def press(at, key):
    at.button(key=key).click().run()
    assert not at.exception
    return at


def rows(at) -> list[str]:
    return list(at.dataframe[0].value["Name"])


def seeds(root) -> list[int]:
    return [run.config().seed for run in waiting_runs(root)]


def test_an_empty_queue_and_one_without_a_folder_say_what_to_do(root, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setenv("LPS_RUNS", str(root / "nowhere"))
        assert "No runs are running or waiting." in words(visit("queue"))
    at = visit("queue")
    said = words(at)
    assert "No runs are running or waiting." in said and "Launch a run" in said and "Set up a sweep" in said
    assert "No run is waiting for a slot." not in said
    assert "cpu-0 · free" in said and "cpu-1 · free" in said and not at.dataframe
    assert not [button for button in at.button if button.key == "queue_switch"]


def test_one_run_at_work(root, alive):
    alive(make(root, name="the *only* one"), "cpu-1", phase="train", step=30, steps=100, eta_s=250.0)
    at = visit("queue")
    said = words(at)
    assert "1 running, 0 waiting; done at about " in said.replace("\\", "")
    assert "the \\*only\\* one" in said  # literal, no emphasis
    (bar,) = [bar.proto for bar in at.get("progress") if "cpu" in bar.proto.text]
    assert bar.value == 30 and "about 4 min left" in bar.text and "since " in bar.text
    assert "No run is waiting for a slot." in said and "cpu-0 · free" in said


def test_many_runs_are_one_table_in_the_order_of_the_queue(root, alive):
    alive(make(root), "cpu-0")
    alive(make(root), "cpu-1")
    runs = asked(root, *range(1, 31))
    queue.set_priority(runs[-1], 7)
    hold(runs[0])
    at = visit("queue")
    assert "2 running, 30 waiting (1 held)" in words(at).replace("\\", "")
    frame = at.dataframe[0].value
    assert rows(at)[:3] == ["LPS on digits, seed 30", "LPS on digits, seed 1", "LPS on digits, seed 2"]
    assert list(frame["Place"]) == list(range(1, 31)) and list(frame["Priority"][:2]) == [7, 0]
    waits = frame["Waits for"].fillna("–")
    assert list(waits[:3]) == [
        "–",
        "put on hold by an older version of LPS Studio; retry it in the queue to start it",
        "–",
    ]
    assert "Takes" not in frame and "Retries" not in frame  # nothing stands in them
    assert len(at.button) < 15  # no widget a row


def test_the_next_try_is_said(root, alive):
    alive(make(root), "cpu-0")
    (run,) = asked(root, 1)
    again = queue.replace(run.desired(), attempt=2, retries=3, retried=1, not_before=time.time() + 100)
    queue.write_desired_state(run, again)
    frame = visit("queue").dataframe[0].value
    hour = datetime.fromtimestamp(again.not_before).strftime("%H:%M")
    assert list(frame["Waits for"]) == [f"starts again at {hour} (retry 1 of 3)"] and list(frame["Retries"]) == [
        "1 of 3"
    ]


def test_gpus_with_what_runs_on_them(root, alive, monkeypatch):
    gpus = [usage.Gpu(n, f"GPU-{n}", (n + 1) * 10**9, 8 * 10**9, None if n else 0.5) for n in range(2)]
    known = [devices.Device("cpu", "CPU")]
    known += [devices.Device(f"cuda:{n}", f"Fake {n}", index=n, uuid=f"GPU-{n}") for n in range(2)]
    monkeypatch.setattr(devices, "list_devices", lambda *_: known)
    monkeypatch.setattr(usage, "gpu_usage", lambda: gpus)
    monkeypatch.setattr(usage, "gpu_processes", lambda _: {os.getpid(): 3 * 10**9})
    run = alive(make(root, name="on the second"), "cuda-1", step=1, steps=2)
    mine = {"runner_pid": os.getpid(), "runner_ticks": usage.start_ticks(os.getpid())}
    write_json(run.folder / "process.json", run.read_json("process.json") | mine)
    said = words(visit("queue")).replace("\\", "")
    assert "**GPU 0** :gray[Fake 0]" in said and "**GPU 1** :gray[Fake 1]" in said
    assert "Memory 12 % · 1.0 of 8.0 GB" in said and "Memory 25 % · 2.0 of 8.0 GB" in said
    assert "Processor 50 %" in said and "Processor · not measured yet" in said
    assert "cuda-1 · since " in said and "3.0 GB on the GPU" in said and "cuda-0 · free" in said


def test_a_slot_of_a_run_that_was_removed_is_not_called_free(root, alive):
    run = alive(make(root), "cpu-0")
    run.folder.rename(root / ".away")
    assert "cpu-0 · in use by a run that was removed" in words(visit("queue"))
    (root / ".away").rename(run.folder)


@pytest.mark.parametrize("text", ["{", '{"paused": 7}'])
def test_a_damaged_switch_is_one_sentence_and_the_line_is_there(root, text):
    asked(root, 1)
    (root / queue.SWITCH).write_text(text)
    at = visit("queue")
    assert len(at.warning) == 1 and "damaged and was ignored" in at.warning[0].value
    assert len(rows(at)) == 1


def test_buttons_wait_for_a_choice(root):
    asked(root, 1, 2)
    at = visit("queue")
    for key in ("first", "now", "cancel", "set"):
        assert at.button(key=f"queue_{key}").disabled


@pytest.mark.parametrize(("chosen", "expected"), [((4,), [4, 1, 2, 3, 5]), ((3, 5), [3, 5, 1, 2, 4])])
def test_several_rows_go_first_together_and_stay_ticked(root, chosen, expected):
    runs = asked(root, 1, 2, 3, 4, 5)
    queue.set_paused(root, True)
    at = press(ticked(*(runs[seed - 1] for seed in chosen)), "queue_first")
    assert seeds(root) == expected
    assert rows(at) == [f"LPS on digits, seed {seed}" for seed in expected]
    assert set(at.session_state["queue_chosen"]) == {runs[seed - 1].id for seed in chosen}
    assert f"**{len(chosen)} selected**" in words(at)


def test_a_held_run_is_retried_and_a_run_is_cancelled(root):
    runs = asked(root, 1, 2, 3)
    hold(runs[1])
    at = press(ticked(runs[1]), "queue_now")
    assert not runs[1].desired().held and at.button(key="queue_now").disabled
    at = press(at, "queue_cancel")
    assert runs[1].state().reason == "cancelled before it started" and seeds(root) == [1, 3]
    assert at.session_state["queue_chosen"] == []


def test_priority(root):
    runs = asked(root, 1, 2, 3)
    at = ticked(runs[2])
    at.number_input(key="queue_priority").set_value(9).run()
    press(at, "queue_set")
    assert runs[2].desired().priority == 9 and seeds(root) == [3, 1, 2]


def test_a_pause_and_what_may_start_when_it_ends(root, monkeypatch):
    asked(root, 1)
    at = press(visit("queue"), "queue_switch")
    assert queue.read_switch(root).paused and "The queue is paused since " in words(at)
    found = []
    monkeypatch.setattr(
        "lps.scheduler.launcher.dispatch", lambda at, *_: found.append(queue.read_switch(at).paused) or []
    )
    press(at, "queue_switch")
    assert found[:1] == [False] and not queue.read_switch(root).paused


def test_what_began_meanwhile_is_not_stopped_by_a_click_on_its_old_row(root, alive):
    runs = asked(root, 1, 2)
    at = ticked(runs[0])
    alive(runs[0], "cpu-0")
    at = press(at, "queue_cancel")
    assert runs[0].state().name == "running"
    assert "was not cancelled because it is running now" in at.error[0].value.replace("\\", "")
    assert not press(at, "queue_switch").error  # said once


def test_a_run_that_broke_off_is_tried_again(root):
    (run,) = asked(root, 1)
    write_json(run.folder / "process.json", {"attempt": 1, "boot_id": boot_id()})
    at = visit("queue")
    assert [expander.label for expander in at.expander] == ["Interrupted (1)"]
    assert "the run's processes were killed" in words(at).replace("\\", "")
    at = press(at, f"queue_retry_{run.id}")
    assert run.state().name == "queued" and run.desired().attempt == 2 and not at.expander


def test_names_of_people_are_shown_as_they_are_written(root, alive):
    nasty = "**b** <script>x</script> $x$ :fire: [a](http://x)"
    alive(make(root, name=nasty), "cpu-0")
    run = make(root, name=nasty)
    queue.request_attempt(run, "run", 1)
    at = visit("queue")
    assert rows(at) == [nasty]  # a cell is never markdown
    (label,) = [link.proto.label for link in at.get("page_link") if "script" in link.proto.label]
    assert "\\*\\*b" in label and "\\[a\\]" in label


def test_names_of_a_sweep_have_symbols_and_a_wide_column(root):
    settings = {"margin_scale": 2.0, "entropy_weight": 0.25, "lr": 0.005}
    name = "margin_scale=2, entropy_weight=0.25, lr=0.005, lps seed {}"
    for run in [make(root, name.format(seed), seed=seed, **settings) for seed in (1, 2)]:
        queue.request_attempt(run, "run", 1)
    assert rows(visit("queue")) == [f"C=2, w=0.25, lr=0.005, LPS seed {seed}" for seed in (1, 2)]
    column = page._name_column(waiting_runs(root))
    assert column.config["width"] > 230 and "C = margin_scale" in column.config["help"]


def test_every_page_says_the_same_time_of_one_run_in_the_same_minute(root, alive):
    """A run that pretrains: its phase alone is not what is left of it, wherever it is asked for."""
    progress = {"phase": "pretrain", "epoch": 5, "epochs": 20, "step": 50, "steps": 200, "eta_s": 300.0}
    run = alive(make(root), "cpu-0", **progress)
    left = time_estimates.describe_time_left(run, run.state())
    assert " to " in left and "min left" in left
    for at in (visit("queue"), visit("live", run=run.id), visit("home")):
        assert left in words(at), at


@pytest.mark.parametrize("page_name", in_turn(["home", "runs", "compare", "queue"], 2))
def test_any_page_starts_a_queue_that_stands_still(root, monkeypatch, page_name):
    """And leaves it to the waker that lives."""
    asked(root, 1)
    pumped = []
    monkeypatch.setattr("lps.scheduler.launcher.dispatch", lambda *_: pumped.append(1) or [])
    lock = try_lock(root / ".waker.lock")
    try:
        visit(page_name)
        assert not pumped
    finally:
        os.close(lock)
    visit(page_name)
    assert pumped


@pytest.mark.parametrize("name", [".slots", ".sched.lock", ".slots/cpu-0.lock"])
def test_a_queue_whose_folder_or_lock_is_a_link_stands_still_and_says_why(root, tmp_path, monkeypatch, capsys, name):
    monkeypatch.setattr(launcher, "has_daemon", IS_TENDED)
    asked(root, 1)
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).symlink_to(tmp_path / "elsewhere")
    app = visit("queue")
    assert f"{name}: it is a link, and links are not followed" in words(app).replace("\\", "")
    assert "Takes" not in app.dataframe[0].value and "Starts" not in app.dataframe[0].value
    assert main(["queue", "--runs", str(root)]) == 0
    said = capsys.readouterr().out
    assert "it is a link, and links are not followed); remove this obstacle" in said and "takes about" not in said


def test_a_queue_that_stands_still_promises_no_time(root, monkeypatch):
    asked(root, 1)
    monkeypatch.setattr(launcher, "has_daemon", lambda root: False)
    said = words(visit("queue"))
    assert "The queue is blocked" in said and "done at" not in said


@pytest.mark.parametrize(("most", "is_explained"), [(110.0, False), (900.0, True)])
def test_a_wide_range_of_a_running_run_has_its_reason(root, alive, monkeypatch, most, is_explained):
    alive(make(root, seed=1), "cpu-0", phase="train", step=1, steps=2)
    monkeypatch.setattr(costs.KnownCosts, "time_left", lambda *_: costs.Span(100.0, 90.0, most))
    monkeypatch.setattr(costs, "load_per_core", lambda: 4.0)
    explained = "Some durations are wide ranges: other programs or runs use the processor." in words(visit("queue"))
    assert explained == is_explained
