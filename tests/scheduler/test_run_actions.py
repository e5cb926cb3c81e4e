"""Which actions a run allows: every state by a table, and that the commands behind them agree."""

import pytest

from lps.errors import UserError
from lps.files.atomic import write_json
from lps.scheduler import launcher, run_actions
from lps.store.runs import STATES, Run, State
from tests.sample_runs import held, make_run

ALLOWED = {
    "queued": {"stop"}, "starting": {"stop"}, "running": {"stop"}, "stopping": {"kill"}, "unknown": {"stop"},
    "finished": {"delete"}, "stopped": {"resume", "delete"}, "failed": {"resume", "delete"},
    "crashed": {"resume", "delete"},
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in STATES if name != "unreadable"])
def test_every_state_allows_its_actions(tmp_path, name):
    run = make_run(tmp_path, "finished", epochs=1, written=1)
    assert set(run_actions.possible_actions(run, State(name))) == {"rename", "copy"} | ALLOWED[name]


def test_a_run_that_ends_at_once_already_allows_no_other_end(tmp_path):
    run = make_run(tmp_path, "finished", epochs=1, written=1)
    write_json(run.folder / "want.json", {"want": "kill", "attempt": 1, "time": 1.0})
    assert run_actions.possible_actions(run, State("stopping")) == ["rename", "copy"]


def test_recordings_are_copied_and_strange_folders_left_alone(tmp_path):
    run = make_run(tmp_path, "finished", epochs=1, written=1)
    write_json(run.folder / "recorded.json", {"version": 1})
    assert run_actions.possible_actions(run, run.state()) == ["copy"]
    assert run_actions.possible_actions(Run(tmp_path / "mine"), State("unreadable")) == []
    # A recording all the same
    assert run_actions.possible_actions(Run(tmp_path / run.id), State("unreadable")) == ["copy"]


@pytest.mark.parametrize("state", ["queued", "running", "finished", "stopped", "failed", "crashed"])
def test_what_is_not_offered_is_refused_or_changes_nothing(tmp_path, monkeypatch, state):
    monkeypatch.setattr(launcher, "dispatch", lambda *_: [])
    run = make_run(tmp_path, state, epochs=2, written=1)
    with held(*([run] if state == "running" else [])):
        for action in {"resume", "delete"} - set(run_actions.possible_actions(run, run.state())):
            before = (run.folder / "want.json").read_bytes() if (run.folder / "want.json").exists() else b""
            if (state, action) == ("queued", "delete"):
                continue  # a run that nobody has launched may go by a command
            with pytest.raises(UserError):
                run_actions.ACTS[action](run)
            assert not before or (run.folder / "want.json").read_bytes() == before
