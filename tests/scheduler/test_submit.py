"""The only way to create a run: checks and their number, what is created before anything starts, no other way."""

import re
from pathlib import Path

import pytest

from lps.errors import UserError
from lps.scheduler import launcher, preflight, submit
from lps.scheduler.submit import RunRequest
from lps.settings.config import configure
from lps.store import run_folders
from lps.store.run_folders import create_run, list_runs

PACKAGE = Path(submit.__file__).parents[1]
SEEDS = [configure({"seed": seed, "device": "cpu"}) for seed in range(3)]


@pytest.fixture
def launched(monkeypatch):
    """What is handed to the launcher, and how."""
    calls = []
    monkeypatch.setattr(launcher, "launch", lambda run, *rest, **how: calls.append(([run.id], rest, how)))
    monkeypatch.setattr(
        launcher, "launch_all", lambda runs, *rest, **how: calls.append(([r.id for r in runs], rest, how))
    )
    return calls


def test_what_differs_in_the_seed_alone_is_checked_once(monkeypatch):
    looked, judged, fetched = [], [], []
    monkeypatch.setattr(
        preflight, "check_config", lambda config, here: looked.append((config.dataset, config.seed, here))
    )
    monkeypatch.setattr("lps.data.sources.fetch", lambda *which: fetched.append(which))
    faster, linear = configure({"lr": 0.5}), configure({"network.name": "resnet50", "network.start": "random"})
    submit.check_configs([*SEEDS, faster, linear], on_this_machine=False, check_start=judged.append)
    assert looked == [("digits", 0, False), ("digits", 0, False), ("digits", 0, False)] and not fetched
    assert judged == [SEEDS[0], linear], "start weights do not depend on the learning rate"
    submit.check_configs(SEEDS, fetch=True)
    assert looked[3:] == [("digits", 0, True)] and fetched == [("digits", None)] and len(judged) == 2


def test_all_folders_stand_and_are_noted_before_the_first_run_starts(tmp_path, launched):
    noted = []
    runs = submit.create_runs(
        tmp_path,
        [RunRequest(config, f"run {config.seed}", "visit") for config in SEEDS],
        on_created=lambda runs: noted.append((len(list_runs(tmp_path)), len(launched))),
        retries=2,
    )
    assert noted == [(3, 0)] and [run.meta()["name"] for run in runs] == ["run 0", "run 1", "run 2"]
    assert launched == [([run.id], (), {"retries": 2}) for run in runs]
    again = submit.create_runs(tmp_path, [RunRequest(config, "", "visit") for config in SEEDS])
    assert [run.id for run in again] == [run.id for run in runs]


def test_nothing_starts_where_a_folder_cannot_be_made(tmp_path, launched, monkeypatch):
    def refuse(root, config, *more):
        if config.seed == 2:
            raise UserError("runs", "no room")
        return create_run(root, config, *more)

    monkeypatch.setattr(run_folders, "create_run", refuse)
    with pytest.raises(UserError, match="no room"):
        submit.create_runs(tmp_path, [RunRequest(config) for config in SEEDS])
    assert not launched


def test_an_array_is_asked_for_at_once_with_the_runs_that_there_are(tmp_path, launched):
    old = create_run(tmp_path, SEEDS[0])
    runs = submit.create_runs(
        tmp_path, [RunRequest(SEEDS[0], run=old), RunRequest(SEEDS[1])], ("train",), array="two", on=None
    )
    assert runs[0] == old and len(list_runs(tmp_path)) == 2
    assert launched == [([run.id for run in runs], (("train",),), {"name": "two", "on": None})]


def test_there_is_no_other_door():
    opened = re.compile(r"\bcreate_run\(|\b(?:launcher|processes)\.launch(?:_all)?\(")
    found = {path.name for path in PACKAGE.rglob("*.py") if opened.search(path.read_text(encoding="utf-8"))}
    assert found == {"submit.py", "run_folders.py"}
