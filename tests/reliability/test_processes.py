"""Trainers, runners and servers killed at random, and disks that refuse, with the real runner around a fast trainer."""

import json
import os
import subprocess
import sys
import tempfile

import pytest

from lps.scheduler import launcher
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.store.runs import Run
from tests.reliability.processes import ROOT, kill_and_count, leftovers
from tests.reliability.small_disk import enter, fill_bytes, make_room, reason_against
from tests.shares import ALL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
TRAINER = (sys.executable, "-m", "tests.reliability.counting_trainer")


def carry_out(command) -> dict:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    if reason := reason_against(folder):
        pytest.skip(f"no disk can be mounted here: {reason}")
    return folder


@pytest.fixture
def public_folder():
    """Everybody may enter it, which is not so of the folders that pytest gives."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


@pytest.mark.turn(1, 3)
def test_random_kills_of_trainer_runner_and_server_lose_nothing(tmp_path):
    done, wrong = kill_and_count(tmp_path, kills=20, seed=1)
    assert done["server"] and done["runner"] and done["trainer"]
    assert not wrong and not leftovers(tmp_path)


def test_a_training_on_a_full_disk_says_so_and_goes_on_when_there_is_space(small_disk):
    found = carry_out(enter(small_disk, "small_disk", "3"))
    assert not found["wrong"] and found["refused"] >= (5 if ALL else 1)


def test_the_end_of_a_run_is_recorded_on_a_full_disk(small_disk):
    found = carry_out(enter(small_disk, "test_processes"))
    assert found["full"] == ["failed", "disk_full"] and "no space left" in found["reason"]
    assert found["full at the start"] == ["failed", "disk_full"]
    assert found["resumed"] == ["finished", ""]


REFUSED = ("rename", "tag", "note", "stop", "delete", "launch")


@pytest.mark.parametrize("why, words", [("read-only", "the disk is read-only"), ("foreign", "permission denied")])
def test_in_a_folder_that_cannot_be_written_to_everything_is_shown_and_nothing_changed(why, words, request):
    if why == "read-only":
        command = enter(request.getfixturevalue("small_disk"), "visitor", why)
    elif os.geteuid() == 0:
        folder = request.getfixturevalue("public_folder")
        command = [sys.executable, "-m", "tests.reliability.visitor", str(folder), why]
    else:
        pytest.skip("only root can become somebody else")
    found = carry_out(command)
    assert not found["changed"]
    assert {name: code for name, (code, _) in found["said"].items() if code} == dict.fromkeys(REFUSED, 2)
    for name in REFUSED:
        said = found["said"][name][1]
        assert words in said and said.count("\n") == 1 and "Traceback" not in said


def fill_disk(folder) -> dict:
    """What the records say of a run whose disk is full in its midst, at its start, and not any more."""

    def standing() -> list[str]:
        state = launcher.wait_for_end(run, 60)
        return [state.name, state.kind]

    os.environ["COUNTING_FILL"] = str(folder)
    run = Run(create_run(folder / "runs", configure({})).folder)
    launcher.launch(run, TRAINER)
    found = {"full": standing(), "reason": run.state().reason}
    del os.environ["COUNTING_FILL"]
    make_room(folder)
    fill_bytes(folder, 30_000)
    launcher.resume(run, TRAINER)
    found["full at the start"] = standing()
    make_room(folder)
    launcher.resume(run, TRAINER)
    return found | {"resumed": standing()}


if __name__ == "__main__":
    from pathlib import Path

    print(json.dumps(fill_disk(Path(sys.argv[1]))))
