"""The parent of several ranks, with ranks of plain Python: one reason for a failure, one wish to stop, nothing left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lps.settings.config import configure
from lps.store.events import read_events
from lps.store.run_folders import create_run
from lps.training import ranks
from tests.patience import is_gone, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 20  # seconds; a deadline, never a sleep
PARENT = """
import sys
from pathlib import Path
from lps.training import ranks
from lps.store.runs import Run
ranks.GRACE_S = float(sys.argv[2])
sys.exit(ranks.carry_out(Run(Path(sys.argv[1])), 2, [sys.executable, "-c", sys.argv[3], sys.argv[1]]))
"""
RANK = """
import os, signal, sys, time
from pathlib import Path
from lps.training import ranks
rank, folder = ranks.own_rank()[0], Path(sys.argv[1])
def until(path, longest=60):
    end = time.monotonic() + longest
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)
(folder / f"pid-{rank}").write_text(str(os.getpid()))
"""


@pytest.fixture
def run(tmp_path):
    return create_run(tmp_path, configure({"processes": 2, "device": "cpu"}))


def start(run, body: str, grace: float = PATIENCE) -> subprocess.Popen:
    """The parent of two ranks that do what `body` says."""
    command = [sys.executable, "-c", PARENT, str(run.folder), str(grace), RANK + body]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def outcome(run, body: str, grace: float = PATIENCE) -> tuple[int, list[dict]]:
    """Exit code of the parent and the events of the run."""
    process = start(run, body, grace)
    process.communicate(timeout=PATIENCE)
    return process.returncode, read_events(run.events)[0]


def pids(run) -> list[int]:
    paths = [run.folder / f"pid-{rank}" for rank in (0, 1)]
    until(lambda: all(path.exists() and path.read_text() for path in paths))
    return [int(path.read_text()) for path in paths]


def test_every_rank_is_told_its_place_and_where_to_meet(run):
    names = "('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'MASTER_PORT')"
    process = start(run, f"os.write(1, (' '.join(os.environ[name] for name in {names}) + chr(10)).encode())")
    output, _ = process.communicate(timeout=PATIENCE)
    first, second = sorted(line.split() for line in output.splitlines())
    assert process.returncode == 0
    assert first[:3] == ["0", "2", "0"] and second[:3] == ["1", "2", "1"] and first[3] == second[3]


def test_a_rank_that_fails_ends_one_that_hangs_and_its_reason_is_recorded(run):
    body = "ranks.report_rank_failure('out_of_memory', 'too big', 30, 2) and sys.exit(1) if rank else time.sleep(60)"
    code, (event,) = outcome(run, body, grace=0.2)
    assert code == 1 and (event["kind"], event["failure"], event["reason"]) == ("fail", "out_of_memory", "too big")
    assert (event["step"], event["epoch"]) == (30, 2)
    assert all(is_gone(pid) for pid in pids(run))


def test_of_two_reasons_the_first_counts(run):
    """A rank that loses another one fails too, with a reason that is none."""
    body = """
if rank == 0:
    until(folder / "told")
ranks.report_rank_failure("device" if rank else "bug", "the first" if rank else "connection closed by peer", 0, 0)
(folder / "told").touch()
sys.exit(1)
"""
    code, (event,) = outcome(run, body)
    assert code == 1 and (event["failure"], event["reason"]) == ("device", "the first")


def test_a_rank_killed_from_outside_is_told_by_the_same_signal(run):
    body = """
if rank:
    (folder / "told").touch()
    os.kill(os.getpid(), signal.SIGKILL)
until(folder / "told")
time.sleep(0.3)
ranks.report_rank_failure("bug", "connection closed by peer", 0, 0)
sys.exit(1)
"""
    assert outcome(run, body) == (-signal.SIGKILL, [])


def test_an_error_without_a_report_is_the_exit_code(run):
    assert outcome(run, "rank and sys.exit(2) or time.sleep(60)", grace=0.1) == (2, [])


def test_what_breaks_after_the_first_rank_is_done_changes_nothing(run):
    assert outcome(run, "until(folder / 'done', 0.2 if rank else 0); sys.exit(rank)") == (0, [])


def test_a_stop_reaches_the_first_rank_alone(run):
    """It agrees with the others; rank 1 here would be killed by a SIGTERM."""
    body = """
signal.signal(signal.SIGTERM, (lambda *_: (folder / "agreed").touch()) if rank == 0 else signal.SIG_DFL)
(folder / f"ready-{rank}").touch()
until(folder / "agreed")
sys.exit(0)
"""
    process = start(run, body)
    until(lambda: all((run.folder / f"ready-{rank}").exists() for rank in (0, 1)))
    process.terminate()
    assert process.wait(PATIENCE) == 0 and (run.folder / "agreed").exists()
    process.stdout.close()


def test_a_stop_before_the_first_rank_listens_ends_all(run):
    process = start(run, "time.sleep(60)", grace=0.1)
    both = pids(run)
    process.terminate()
    assert process.wait(PATIENCE) == -signal.SIGTERM and all(is_gone(pid) for pid in both)
    process.stdout.close()


def test_ranks_die_with_their_parent(run):
    process = start(run, "time.sleep(60)")
    both = pids(run)
    process.kill()
    process.wait(PATIENCE)
    process.stdout.close()
    until(lambda: all(is_gone(pid) for pid in both))


def test_who_becomes_a_parent(run, tmp_path, monkeypatch):
    assert ranks.own_rank() == (0, 1) and ranks.ranks_to_start(run) == 2
    assert ranks.ranks_to_start(create_run(tmp_path, configure())) == 0
    with monkeypatch.context() as patch:
        patch.setenv("RANK", "1"), patch.setenv("WORLD_SIZE", "4")  # as schedulers of clusters do
        assert ranks.own_rank() == (0, 1)
        patch.setenv(ranks.TORCHRUN, "none")
        assert ranks.own_rank() == (1, 4) and ranks.ranks_to_start(run) == 0
    (run.folder / "config.json").write_text("{")
    assert ranks.ranks_to_start(run) == 0
    assert not ranks.report_rank_failure("bug", "nobody listens", 0, 0)


def test_a_report_is_one_line_whatever_the_reason(run, monkeypatch):
    reading, writing = os.pipe()
    monkeypatch.setenv(ranks.REPORT, str(writing))
    assert ranks.report_rank_failure("bug", "two\nlines" * 10_000, 1, 0)
    os.close(writing)
    told = json.loads(os.read(reading, 1 << 16))
    os.close(reading)
    assert told["reason"].startswith("two lines") and len(told["reason"]) <= 500
