"""Versions of the files: older ones read as before, newer ones are refused in one sentence."""

import json
import shutil

import numpy as np
import pytest

from lps.errors import UserError
from lps.files import versions
from lps.settings.config import Config, configure
from lps.store import events, run_folders, snapshots
from lps.store.run_folders import create_run
from lps.store.runs import Run
from lps.studies import sweep_records

NEWER = r"was made by a newer LPS Studio \(version 2; this one reads up to 1\)"


@pytest.fixture
def run(tmp_path) -> Run:
    return create_run(tmp_path, configure({"epochs": 3}), "a name")


def change(path, **values):
    """Rewrite an object with other values; None takes one out."""
    stored = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: value for key, value in stored.items() if value is not None}))


def test_recorded_runs_without_versions_read_as_before(tmp_path):
    for recorded in run_folders.recorded_runs():
        run = Run(shutil.copytree(recorded.folder, tmp_path / recorded.id))
        change(run.folder / "config.json", version=None)
        told = [json.loads(line) for line in run.events.read_text().splitlines()]
        bare = [{key: value for key, value in event.items() if key != "version"} for event in told]
        run.events.write_text("".join(json.dumps(event) + "\n" for event in bare))
        with np.load(run.folder / "split.npz") as stored:
            arrays = {name: stored[name] for name in stored.files if name != "version"}
        np.savez_compressed(run.folder / "split.npz", **arrays)
        assert run.state().name == "finished" and events.check_version(run.events) == 0
        assert snapshots.read_split(run.folder)[0].classes.total == 10


def test_settings_of_any_older_version_are_read_and_of_a_newer_one_refused(run):
    path = run.folder / "config.json"
    assert json.loads(path.read_text())["version"] == 1
    for version in (None, 0, 1):
        change(path, version=version)
        assert run.config() == configure({"epochs": 3})
    change(path, version=2)
    assert run.state().name == "unreadable" and "newer LPS Studio (version 2" in run.state().reason


@pytest.mark.parametrize("version", ["1", -1, 1.0, True, [], {}, 10**30])
def test_what_is_no_version_is_one_sentence(version):
    with pytest.raises(UserError, match="^config.json: (is damaged|was made by a newer)"):
        Config.from_json(json.dumps({"version": version}))


def test_events_of_a_newer_program_are_neither_shown_nor_gone_on_with(run):
    for version in ("", '"version":0,', '"version":1,'):
        run.events.write_text(f'{{{version}"kind":"start","step":0,"epoch":0,"time":1,"values":{{}}}}\n')
        events.EventWriter(run.events).close()
        assert run.state().name == "queued"
    run.events.write_text('{"version":2,"kind":"start"}\n')
    with pytest.raises(UserError, match=NEWER):
        events.EventWriter(run.events)
    assert run.state().name == "unreadable" and "newer" in run.state().reason


def test_a_start_tells_the_version(run):
    writer = events.EventWriter(run.events)
    writer.append("start", step=0, epoch=0, values={})
    writer.close()
    assert events.read_events(run.events)[0][0]["version"] == versions.VERSIONS["events.jsonl"]


def test_texts_of_a_newer_program_are_not_written_over(run):
    change(run.folder / "meta.json", version=None)
    run.write_meta(name="b")
    assert run.meta()["name"] == "b" and run.read_json("meta.json")["version"] == 1
    change(run.folder / "meta.json", version=2)
    with pytest.raises(UserError, match=NEWER):
        run.write_meta(name="c")
    assert run.meta()["name"] == "b"


def test_arrays(tmp_path):
    path = tmp_path / "a.npz"
    snapshots.write_arrays(path, points=np.ones((2, 2)))
    assert snapshots.read_arrays(path, ("points",)).keys() == {"points"}
    np.savez(path, points=np.ones((2, 2)))
    assert snapshots.read_arrays(path, ("points",))["points"].sum() == 4
    np.savez(path, version=np.array(2), other=np.ones(2))
    with pytest.raises(UserError, match=NEWER):
        snapshots.read_arrays(path, ("points",))


def test_the_record_of_a_sweep(run):
    run.write_meta(add=["sweep:s"])
    sweep_records.write_sweep_record(run.root, "s", {"layout": {}})
    (path,) = (run.root / ".sweeps").glob("*.json")
    for version in (1, None):
        change(path, version=version)
        assert sweep_records.list_sweeps(run.root)[0].request == {"layout": {}}
    change(path, version=2)
    (known,) = sweep_records.list_sweeps(run.root)
    assert known.request == {} and "newer LPS Studio (version 2" in known.problem
