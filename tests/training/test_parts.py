"""One run on several machines, each played by a parent with ranks of plain Python on this one."""

import json
import os
import signal
import subprocess
import sys

import pytest

from lps.errors import UserError
from lps.files.atomic import write_json
from lps.settings.config import configure
from lps.store.events import read_events
from lps.store.run_folders import create_run
from lps.training import multi_node, ranks
from lps.training.multi_node import Part
from tests.patience import until
from tests.training.test_ranks import PARENT, PATIENCE, RANK, ROOT

PLACE = """
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
(folder / f"place-{rank}").write_text(" ".join(os.environ[name] for name in names))
"""


@pytest.fixture
def run(tmp_path):
    return create_run(tmp_path, configure({"processes": 4, "device": "cpu"}))


def start(run, number: int, body: str, meeting: str = "7.0", grace: float = PATIENCE) -> subprocess.Popen:
    """One of two parts of a run of four ranks that do what `body` says."""
    program = PARENT.replace(", 2, [", ", 4, [")
    about = {"LPS_PARTS": "2", "LPS_PART": str(number), "LPS_MEETING": meeting, "LPS_ADDRESS": "127.0.0.1"}
    command = [sys.executable, "-c", program, str(run.folder), str(grace), RANK + body]
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | about)


def ended(*processes: subprocess.Popen) -> list[int]:
    return [process.wait(PATIENCE) for process in processes]


@pytest.mark.slow
def test_each_part_has_its_ranks_and_all_meet_at_one_place(run):
    write_json(run.folder / multi_node.FILE, {"meeting": "6.0", "address": "10.0.0.1", "port": 1})
    second = start(run, 1, PLACE)
    with pytest.raises(subprocess.TimeoutExpired):  # it waits for the word of its own attempt
        second.wait(1)
    assert ended(start(run, 0, PLACE), second) == [0, 0]
    told = [(run.folder / f"place-{rank}").read_text().split() for rank in range(4)]
    assert [one[:4] for one in told] == [[str(k), str(k % 2), "4", "127.0.0.1"] for k in range(4)]
    assert len({one[4] for one in told}) == 1 and told[0][4] == str(run.read_json(multi_node.FILE)["port"])


@pytest.mark.slow
def test_a_failure_on_another_machine_ends_the_run_and_its_reason_is_recorded(run):
    body = """
if rank == 3:
    ranks.report_rank_failure("bug", "rank 3 has no eyes", 5, 1)
    sys.exit(1)
time.sleep(60)
"""
    first, second = start(run, 0, body, grace=0.5), start(run, 1, body, grace=0.5)
    assert all(code != 0 for code in ended(first, second))
    (event,) = read_events(run.events)[0]
    assert (event["kind"], event["reason"], event["step"]) == ("fail", "rank 3 has no eyes", 5)


@pytest.mark.slow
def test_of_two_machines_the_earlier_reason_counts(run):
    body = """
if rank == 2:
    ranks.report_rank_failure("bug", "the cause", 5, 1)
    sys.exit(1)
if rank == 0:
    until(folder / "meeting-1.json")
    ranks.report_rank_failure("bug", "connection closed by peer", 5, 1)
    sys.exit(1)
"""
    ended(start(run, 0, body), start(run, 1, body))
    assert [event["reason"] for event in read_events(run.events)[0]] == ["the cause"]


@pytest.mark.slow
def test_what_an_earlier_attempt_left_is_no_failure_of_this_one(run):
    multi_node.report_part_failure(
        run, Part(1, 2, "6.0"), {"failure": "bug", "reason": "old", "step": 0, "epoch": 0, "time": 0.0}
    )
    assert multi_node.read_part_reports(run, Part(0, 2, "7.0")) == []
    assert ended(start(run, 0, ""), start(run, 1, "")) == [0, 0] and not read_events(run.events)[0]


def test_a_part_that_still_waits_is_ended_by_a_signal(run):
    second = start(run, 1, "")
    until(lambda: second.poll() is None)
    second.terminate()
    assert second.wait(PATIENCE) == -signal.SIGTERM


@pytest.mark.parametrize("part, count", [("2", "2"), ("-1", "2"), ("x", "2"), ("0", "0")])
def test_a_place_that_does_not_exist_is_one_sentence(monkeypatch, part, count):
    monkeypatch.setenv("LPS_PART", part)
    monkeypatch.setenv("LPS_PARTS", count)
    with pytest.raises(UserError, match="expected LPS_PART from 0 to"):
        multi_node.own_part()


def test_every_part_becomes_a_parent_and_none_trains_beside_the_others(run, tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_PARTS", "2")
    monkeypatch.setenv("LPS_PART", "1")
    assert ranks.ranks_to_start(run) == 4
    alone = create_run(tmp_path, configure({"device": "cpu"}))
    with pytest.raises(UserError, match="^processes: 1 cannot be shared evenly among 2 machines$"):
        ranks.carry_out(alone, ranks.ranks_to_start(alone))
    (run.folder / "config.json").write_text(json.dumps({"method": "nothing"}))
    with pytest.raises(UserError):
        ranks.ranks_to_start(run)
