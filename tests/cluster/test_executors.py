"""What a place away from this machine has to offer, shown with one that tests alone have (folder_place.py)."""

import contextlib
import inspect
import json
import os
import re
import signal

import pytest

from lps import api
from lps.__main__ import main
from lps.cluster import executors, jobs
from lps.cluster.executors import EXECUTORS, Executor
from lps.cluster.jobs import JOB_FILE
from lps.errors import UserError
from lps.files.atomic import write_json
from lps.scheduler import launcher
from lps.settings.config import configure
from lps.store.events import read_events
from lps.store.run_folders import create_run
from tests.cluster import folder_place
from tests.patience import until
from tests.queued_runs import TRAINER, at_work
from tests.visiting import whole_form

PLAIN = folder_place.read_options([])
PATIENCE_S = 40  # a deadline, never a sleep


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The folder of jobs of a place that is known for the test."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    monkeypatch.setenv("LPS_TEST_JOBS", str(folder))
    monkeypatch.setitem(EXECUTORS, folder_place.NAME, folder_place)
    monkeypatch.setattr(folder_place, "board", folder_place.FolderBoard())
    monkeypatch.setattr(jobs, "RETRY_S", 0.0)
    yield folder
    for path in folder.glob("*.json"):
        with contextlib.suppress(ProcessLookupError):
            folder_place.cancel(path.stem)


@pytest.fixture
def run(tmp_path, place):
    return create_run(tmp_path / "runs", configure({"device": "cpu"}))


def begin(run, do="finish"):
    write_json(run.folder / "plan.json", {"do": do})
    launcher.launch(run, TRAINER, on=PLAIN)
    return run


def kinds(run):
    return [event["kind"] for event in read_events(run.events)[0]]


def test_every_place_offers_what_the_house_asks_for(place):
    offered = {*Executor.__annotations__, *(name for name, _ in inspect.getmembers(Executor, inspect.isfunction))}
    offered = {name for name in offered if name[0] != "_"}
    assert len(offered) > 10
    for name, module in EXECUTORS.items():
        assert name == module.NAME and not {one for one in offered if not hasattr(module, one)}, name
        assert set(module.INSTEAD) == {"retries", "priority"}
        for function, asked in inspect.getmembers(Executor, inspect.isfunction):
            if function in offered:
                theirs = inspect.signature(getattr(module, function)).parameters
                assert [*inspect.signature(asked).parameters][1:] == [*theirs], f"{name}.{function}"


@pytest.mark.slow
def test_a_run_is_carried_from_launch_to_finished(run):
    begin(run)
    assert run.desired().on == "folder_place" and run.waiting_attempt() == 0, "nobody here starts it"
    assert launcher.wait_for_end(run, PATIENCE_S).name == "finished"
    assert run.read_json("process.json")["slot"] == f"folder_place-{run.read_json(JOB_FILE)['job']}"
    assert kinds(run) == ["start", "finish"]


@pytest.mark.slow
def test_a_run_is_stopped_and_resumed_there(run, place):
    at_work(begin(run, "wait"))
    launcher.stop(run)
    state = launcher.wait_for_end(run, PATIENCE_S)
    assert (state.name, state.reason) == ("stopped", "stopped by request")
    write_json(run.folder / "plan.json", {"do": "finish"})
    launcher.resume(run, TRAINER)
    assert run.desired().on == "folder_place" and run.read_json(JOB_FILE)["job"] == "1", "it goes back, as another job"
    state = launcher.wait_for_end(run, PATIENCE_S)
    assert (state.name, state.attempt) == ("finished", 2)


def test_a_run_that_waits_there_is_cancelled(run, place):
    (place / "full").touch()
    begin(run)
    assert (run.state().name, run.state().reason) == ("queued", "job 0 waits in the folder: the machine is full")
    assert launcher.stop(run).reason == "cancelled before it started"
    assert json.loads((place / "0.json").read_text())["state"] == "cancelled" and not run.log.exists()


@pytest.mark.slow
def test_a_machine_that_is_taken_away_lets_the_run_go_on_later(run, place):
    at_work(begin(run, "wait"))
    (place / "full").touch()
    write_json(run.folder / "plan.json", {"do": "finish"})
    os.kill(run.read_json("process.json")["runner_pid"], signal.SIGTERM)
    until(lambda: run.ended_attempt() == 1)
    ending = run.read_json("exit.json")
    assert ending["kind"] == "preempted" and ending["reason"].startswith("interrupted by the folder; it continues")
    assert until(lambda: run.state().name == "queued")
    (place / "full").unlink()
    state = launcher.wait_for_end(run, PATIENCE_S)
    assert (state.name, state.attempt) == ("finished", 2) and run.read_json(JOB_FILE)["job"] == "0", "the same job"


@pytest.mark.slow
def test_a_job_that_is_lost_is_a_crash(run, place):
    (place / "full").touch()
    begin(run)
    os.kill(json.loads((place / "0.json").read_text())["pid"], signal.SIGKILL)
    state = until(lambda: state if (state := run.state()).is_over else None)
    words = "job 0 ended as LOST and the run did not record how it ended, before the run's process started"
    assert (state.name, state.reason) == ("crashed", words)


@pytest.mark.slow
def test_several_runs_are_handed_over_together(tmp_path, place):
    runs = [create_run(tmp_path / "runs", configure({"device": "cpu", "seed": seed})) for seed in (0, 1)]
    launcher.launch_all(runs, TRAINER, on=PLAIN, name="two")
    assert [run.read_json(JOB_FILE)["job"] for run in runs] == ["0_0", "0_1"]
    assert [launcher.wait_for_end(run, PATIENCE_S).name for run in runs] == ["finished"] * 2


def test_what_the_place_refuses_is_one_sentence_and_leaves_the_run_as_it_was(run, place, capsys):
    (place / "closed").touch()
    with pytest.raises(UserError, match="^folder_place: job submission failed: the folder is closed$"):
        launcher.launch(run, TRAINER, on=PLAIN)
    assert not (run.folder / "want.json").exists() and not (run.folder / JOB_FILE).exists()
    with pytest.raises(UserError, match="^retries: 2 cannot be used in a folder, which has none; remove it$"):
        launcher.launch(run, TRAINER, on=PLAIN, retries=2)
    words = ["launch", "--runs", str(run.root), "--on", "folder_place", "--folder_place"]
    assert main([*words, "cpus=9"]) == 2
    assert "folder_place cpus: 9 is more than the 8 of the machine" in capsys.readouterr().err
    assert main([*words, "gpus=1"]) == 2
    assert "folder_place: 'gpus' is not an option; choices: cpus" in capsys.readouterr().err
    with pytest.raises(UserError, match="^on: 'mars' is not a known cluster system; choices: .*folder_place"):
        api.launch(runs=run.root, on={"place": "mars"})
    with pytest.raises(UserError, match="^folder_place cpus: 9 is more"):
        api.launch(runs=run.root, on={"place": "folder_place", "cpus": 9})
    assert [path.name for path in run.root.iterdir() if path.name[0] != "."] == [run.id], "nothing was made"


@pytest.mark.slow
def test_a_place_that_falls_silent_makes_no_end_of_a_run(run, place):
    (place / "full").touch()
    begin(run)
    (place / "silent").touch()
    folder_place.board._asked = float("-inf")
    state = run.state()
    assert state.name == "unknown" and state.is_alive
    assert re.fullmatch(r"unknown since \d\d:\d\d: the folder says nothing; .*", state.reason)
    (place / "silent").unlink()
    assert until(lambda: run.state().name == "queued")
    (place / "full").unlink()
    assert launcher.wait_for_end(run, PATIENCE_S).name == "finished"


def test_a_place_that_another_version_knows_is_left_alone(run):
    """Else the queue of this machine would start what goes on there."""
    write_json(run.folder / "want.json", {"want": "run", "attempt": 1, "time": 1.0, "on": "mars"})
    assert run.state().name == "unknown" and "mars is not a known cluster system; choices: " in run.state().reason
    assert launcher.dispatch(run.root, TRAINER) == [] and executors.executor_title("mars") == "mars"
    with pytest.raises(UserError, match="^mars: mars could not cancel the job .*mars is not a known cluster system"):
        launcher.stop(run)


@pytest.mark.slow
def test_the_launch_form_offers_it_with_its_options(place, tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    at = whole_form()
    choice = at.segmented_control(key="place:on")
    assert "the folder" in choice.options
    choice.set_value("folder_place").run()
    at.selectbox(key="place:cpus").set_value("2").run()
    assert not at.exception and "--on folder_place" in at.code[0].value
