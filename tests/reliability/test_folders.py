"""A fault at every operation with which a run is made, named, asked for and deleted: nothing is seen by halves."""

import json
import os
import signal

import pytest

from lps.errors import UserError
from lps.scheduler import queue
from lps.settings.config import configure
from lps.store.run_folders import create_run, delete_run, list_runs
from lps.store.runs import Run
from tests.reliability.faults import KINDS, FaultyDisk
from tests.reliability.operations import points
from tests.shares import in_turn

FAULTS = [kind for kind in KINDS if kind != "deleted"]
CONFIG = configure({})


def make_name_ask_delete(root):
    """What a page does to a run in its life, in five files and two folders."""
    run = create_run(root, CONFIG, "first", token="once")
    run.write_meta(name="second", notes="a note")
    with run.changing():
        queue.request_attempt(run, "run", 1)
    with run.changing():
        queue.request_attempt(run, "stop", 1)
    delete_run(run)


def in_a_process(folder, kind="", at=0):
    """(exit code, sentence, operations) of the above with a fault; 0 where all went well, 1 where it was refused."""
    (folder / "backups").mkdir()
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            faulty = FaultyDisk(kind, at)
            faulty.install(folder / "backups", folder / "runs")
            said = ""
            try:
                make_name_ask_delete(folder / "runs")
                code = 0
            except UserError as error:
                code, said = 1, str(error)
            (folder / "said.json").write_text(json.dumps([said, faulty.seen]))
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, *(json.loads((folder / "said.json").read_text()) if code >= 0 else ("", []))


@pytest.fixture(scope="module")
def operations(tmp_path_factory):
    code, _, seen = in_a_process(tmp_path_factory.mktemp("whole"))
    assert code == 0 and len(seen) > 30
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("kind", in_turn(FAULTS, 2))
def test_nothing_is_seen_by_halves(kind, operations, tmp_path):
    for at in points(operations, kind):
        folder = tmp_path / str(at)
        folder.mkdir()
        code, said, _ = in_a_process(folder, kind, at)
        where = f"{kind} at {at} ({operations[at - 1]})"
        if kind in ("full", "full from", "io"):
            assert code in (0, 1), f"{where}: {code}"
            assert code == 0 or ("disk is full" if kind != "io" else "Input/output error") in said, f"{where}: {said}"
            assert not list((folder / "runs").glob("*/.*.tmp")), where
        else:
            assert code in (0, -signal.SIGKILL), f"{where}: {code}"
        assert_whole(folder / "runs", where)


def assert_whole(root, where):
    """Whatever is there can be read and taken up again, and what was left by halves goes with the next of its kind."""
    for run in list_runs(root):
        assert run.state().name in ("queued", "stopped"), where
        assert (run.meta()["name"], run.meta()["notes"]) in (("first", ""), ("second", "a note")), where
    run = create_run(root, CONFIG, "third", token="once")
    assert len(list_runs(root)) == 1 and isinstance(run, Run), where
    run.write_meta(tags=["after"])
    assert not list(root.glob("*/.*.tmp")) and not list((root / ".incoming").iterdir()), where
    delete_run(run)
    assert list_runs(root) == [], where
