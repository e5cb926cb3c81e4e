"""Whatever happens to the processes of a run, what is shown of it is right. How soon is measured by the command."""

import os
import random
import subprocess

import pytest

from lps.files.atomic import write_json
from tests.reliability.process_faults import FAULTS, at_work, suffer, until
from tests.reliability.stops import stop_at_random, stop_training
from tests.reliability.trials import Workshop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_what_is_shown_after_a_fault_is_right(tmp_path, fault):
    assert suffer(tmp_path, fault).wrong == []


@pytest.mark.parametrize("trap", ["zombie", "reused pid"])
def test_who_believes_in_pids_shows_a_dead_run_as_alive(tmp_path, trap):
    """The control: in both cases there is a process with the recorded pid, and the lock knows better."""
    with at_work(tmp_path, "wait", "careless") as scene:
        scene.kill(scene.runner)
        scene.expect("crashed")
        if trap == "reused pid":
            scene.beside.append(subprocess.Popen(["sleep", "600"]))
            record = scene.run.read_json("process.json") | {"runner_pid": scene.beside[-1].pid}
            write_json(scene.run.folder / "process.json", record)
        os.kill(scene.runner, 0)  # does not raise: "alive"
        assert scene.run.state().name == "crashed"
    assert not scene.wrong


def test_what_is_shown_wrongly_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.reliability.process_faults.PATIENCE_S", 1.0)
    with at_work(tmp_path, "wait") as scene:
        scene.expect("finished")
        assert len(scene.wrong) == 1 and "is not finished" in scene.wrong[0]
        assert until(lambda: scene.run.state().is_alive)


def test_a_stop_at_any_moment_leaves_a_checkpoint_and_no_process(tmp_path):
    draws = random.Random(1)
    for number in range(2):
        assert stop_at_random(tmp_path / str(number), draws)[1] == []


def test_a_real_training_that_is_stopped_has_saved_the_step_it_stopped_at(tmp_path):
    workshop, draws, stopped = Workshop(tmp_path), random.Random(2), 0
    for _ in range(3):
        in_midst, wrong = stop_training(workshop, draws)
        assert wrong == []
        stopped += in_midst
    assert stopped >= 1
