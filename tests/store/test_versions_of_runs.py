"""A run names the version of the program that trained it, and pages show if it is another one."""

import json
import os

import pytest

import lps
from lps.errors import UserError
from lps.store import events, provenance
from lps.store.event_follower import Change, EventFollower
from tests.sample_runs import make_run


def trained_with(root, version):
    run = make_run(root, "finished")
    lines = run.events.read_text().splitlines(keepends=True)
    (at,) = [number for number, line in enumerate(lines) if '"start"' in line]
    event = json.loads(lines[at])
    lines[at] = json.dumps(event | {"machine": {"lps": version} if version else {}}) + "\n"
    run.events.write_text("".join(lines))
    return run


@pytest.mark.parametrize("version", [lps.__version__, ""])
def test_the_same_version_and_an_unknown_one_are_not_mentioned(tmp_path, version):
    assert provenance.other_version(trained_with(tmp_path, version)) == ""


def test_another_version_is_mentioned(tmp_path):
    words = f"Trained with LPS Studio 0.1.0; this is {lps.__version__}. A repeated run may give different numbers."
    assert provenance.other_version(trained_with(tmp_path, "0.1.0")) == words


def test_a_run_records_the_version_that_trains_it():
    assert provenance.machine_facts()["lps"] == lps.__version__


def test_long_events_that_another_run_is_written_over_in_place_are_read_anew(tmp_path):
    """With the same size and time, as `cp -a` of a copy leaves them."""
    path, follower = tmp_path / "events.jsonl", EventFollower(tmp_path / "events.jsonl")

    def write(version: int) -> None:
        event = {"version": version, "kind": "start", "step": 0, "epoch": 0, "time": version, "values": {}}
        path.write_text(f"{json.dumps(event)}\n{'x' * 70_000}\n")
        os.utime(path, (1, 1))

    write(1)
    assert events.check_version(path) == 1 and follower.check() is Change.REPLACED
    assert [event["time"] for event in events.read_head(path)] == [1]
    write(9)
    with pytest.raises(UserError, match="newer"):
        events.check_version(path)
    assert [event["time"] for event in events.read_head(path)] == [9] and follower.check() is Change.REPLACED
