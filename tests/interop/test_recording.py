"""Recordings: what they contain, that they reveal nothing about the machine, and that nothing changes them."""

import hashlib
import json
import shlex
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest

from lps import __main__
from lps.analysis import labels, naming, projection
from lps.errors import UserError
from lps.files.disk import folder_bytes
from lps.interop import recording
from lps.interop.recording import record_run
from lps.scheduler import launcher
from lps.settings.config import configure, parse_settings
from lps.store import run_folders, thumbnails
from lps.store.run_folders import delete_run, find_run, list_runs, recorded_runs
from lps.store.runs import Run
from lps.store.snapshots import read_snapshot, read_split, snapshot_epochs
from lps.store.summary import summarize
from lps.ui.pictures import points
from tests import sample_runs

ROOT = Path(__file__).parents[2]
EPOCHS = 6


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A finished run whose settings, log and events name places of this machine."""
    root = tmp_path_factory.mktemp("source")
    settings = {"dataset.path": str(root / "data"), "use_margin": False}
    run = sample_runs.make_run(root, "finished", epochs=EPOCHS, settings=settings, log=f"{socket.gethostname()}\n")
    with run.events.open("a") as file:
        event = {"kind": "fail", "step": 1, "epoch": EPOCHS, "time": 1.0, "values": {}, "reason": str(root)}
        texts = event | {"kind": "eval", "values": {"place": str(root), "deep": [str(root)]}}
        file.write(json.dumps(event) + "\n" + json.dumps(texts) + "\n")
    run.write_meta(notes=f"lies in {root}")
    return run


@pytest.fixture(scope="module")
def recorded(source, tmp_path_factory):
    """Its recording; tests leave it as it is."""
    return record_run(source, tmp_path_factory.mktemp("recorded"), "A name")


def digest(folder: Path) -> str:
    """Of the names and bytes of all files."""
    parts = [
        f"{path.relative_to(folder)}".encode() + path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def test_it_reads_like_the_run(source, recorded):
    assert recorded.is_recorded and not source.is_recorded
    assert recorded.state().name == "finished" and recorded.id == source.id and recorded.title == "A name"
    there, here = source.config().flat(), recorded.config().flat()
    assert here == there | {"dataset.path": None}
    for one, two in zip(read_split(source.folder), read_split(recorded.folder)):
        assert np.array_equal(getattr(one, "unlabeled", one), getattr(two, "unlabeled", two))


def test_measurements_keep_five_digits(source, recorded):
    there, here = summarize(source), summarize(recorded)
    assert here["epochs"] == there["epochs"] == EPOCHS
    for name, value in there["last"].items():
        if name not in ("place", "deep"):
            assert np.allclose(np.float64(here["last"][name]), np.float64(value), rtol=5e-5), name
    assert recorded.events.stat().st_size < source.events.stat().st_size


def test_every_epoch_keeps_its_predictions_and_the_last_one_features(source, recorded):
    assert snapshot_epochs(recorded.snapshots) == list(range(1, EPOCHS + 1))
    for epoch in range(1, EPOCHS + 1):
        there, here = (read_snapshot(run.snapshots, epoch) for run in (source, recorded))
        assert np.array_equal(there.predicted, here.predicted) and np.array_equal(there.confidence, here.confidence)
        assert len(here.features) == (recording.SAMPLE if epoch == EPOCHS else 0)
    where = np.searchsorted(there.feature_index, here.feature_index)
    assert np.array_equal(there.features[where], here.features)


@pytest.mark.parametrize("epoch", [1, 3, EPOCHS])
def test_points_lie_where_the_run_has_them(source, recorded, epoch):
    shutil.rmtree(source.projections, ignore_errors=True)
    there, here = (points.read_points(run, epoch).set_index("image") for run in (source, recorded))
    assert len(here) == recording.SAMPLE
    there = there.loc[here.index]
    for axis in ("x", "y"):
        assert np.allclose(there[axis], here[axis], atol=2e-3)
    assert there["predicted"].equals(here["predicted"])


def test_maps_that_were_there_come_along(source, tmp_path):
    path = projection.compute_map(source, "pca", EPOCHS)
    shutil.copyfile(path, path.with_name(f"tsne-epoch-{EPOCHS:04d}.npz"))
    try:
        made = record_run(source, tmp_path)
    finally:
        shutil.rmtree(source.projections)
    assert points.read_points(made, EPOCHS, "tsne") is not None and points.read_points(made, EPOCHS, "umap") is None


def test_nothing_in_it_names_the_machine(source, recorded):
    names = {str(path.relative_to(recorded.folder)) for path in recorded.folder.iterdir()}
    expected = "config.json meta.json recorded.json exit.json events.jsonl split.npz snapshots projections"
    assert names == set(expected.split())
    for path in recorded.folder.rglob("*.json*"):
        text = path.read_text()
        for secret in (str(source.root), str(Path.home()), "lies in", "sample"):
            assert secret not in text, (path.name, secret)


def test_the_command_makes_such_a_run(source, recorded):
    words = shlex.split(recorded.read_json("recorded.json")["command"])
    assert words[:4] == ["python", "-m", "lps", "train"]
    options = list(zip(words[4::2], words[5::2]))
    chosen = {name: value for name, value in options if name != "--set"}
    typed = parse_settings([value for name, value in options if name == "--set"], chosen["--method"])
    asked = {"dataset": chosen["--dataset"], "method": chosen["--method"], "seed": int(chosen["--seed"])}
    assert configure(asked | typed) == recorded.config()
    assert typed == {"epochs": EPOCHS, "use_margin": False}


@pytest.mark.parametrize("most, expected", [(99, "12345"), (5, "12345"), (3, "135"), (2, "15"), (0, "15")])
def test_epochs_that_do_not_fit_are_left_out_evenly(most, expected):
    assert recording.spread_epochs([1, 2, 3, 4, 5], most) == [int(epoch) for epoch in expected]
    assert recording.spread_epochs([7], most) == [7]


def test_a_long_run_keeps_fewer_epochs(source, recorded, tmp_path, monkeypatch):
    whole = folder_bytes(recorded.folder)
    monkeypatch.setattr(recording, "SIZE", whole - 12_000)
    made = record_run(source, tmp_path)
    kept = snapshot_epochs(made.snapshots)
    assert 2 <= len(kept) < EPOCHS and (kept[0], kept[-1]) == (1, EPOCHS)
    assert folder_bytes(made.folder) <= whole - 12_000


def test_what_cannot_be_small_is_refused_and_leaves_nothing(source, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "SIZE", 20_000)
    with pytest.raises(UserError, match="MB as a recording; expected at most 0 MB"):
        record_run(source, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_only_finished_runs_are_recorded(tmp_path):
    for state in ("stopped", "queued"):
        run = sample_runs.make_run(tmp_path / "runs", state, epochs=3)
        with pytest.raises(UserError, match=f"is {state}; only finished runs"):
            record_run(run, tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_a_name_is_given_once(source, recorded):
    with pytest.raises(UserError, match="is already recorded in .*"):
        record_run(source, recorded.root, "Another name")
    assert list_runs(recorded.root) == [recorded]


def test_a_start_from_a_file_of_this_machine_is_refused(tmp_path):
    settings = {"network.start": "checkpoint", "network.checkpoint": "weights.pt"}
    run = sample_runs.make_run(tmp_path / "runs", "finished", epochs=2, settings=settings)
    with pytest.raises(UserError, match="network.checkpoint: is a path that exists only on this machine"):
        record_run(run, tmp_path / "to")


def test_nothing_changes_a_recording(recorded):
    before = digest(recorded.folder)
    step = {"do": "name", "id": 7, "name": "zebra"}
    changes = [
        lambda: recorded.write_meta(name="mine"),
        lambda: delete_run(recorded),
        lambda: naming.record_steps(recorded, EPOCHS, [step]),
        lambda: naming.undo_last(recorded, EPOCHS),
        lambda: projection.compute_map(recorded, "pca"),
        lambda: launcher.launch(recorded),
        lambda: launcher.resume(recorded),
        lambda: launcher.stop(recorded, kill=True),
    ]
    for change in changes:
        with pytest.raises(UserError, match="read-only"):
            change()
    assert digest(recorded.folder) == before


def test_an_own_run_of_the_same_settings_can_be_changed(source):
    source.write_meta(tags=["mine"])  # the control of the test above
    assert source.meta()["tags"] == ["mine"]


def test_recordings_are_found_where_no_own_run_is_called_so(source, recorded, tmp_path, monkeypatch):
    monkeypatch.setattr(run_folders, "RECORDED", recorded.root)
    assert recorded_runs() == [recorded]
    assert find_run(tmp_path, recorded.id) == find_run(tmp_path, recorded.id[-6:]) == recorded
    assert find_run(source.root, recorded.id[-6:]) == source
    with pytest.raises(UserError):
        find_run(tmp_path, "absent")


def test_on_the_command_line(source, recorded, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run_folders, "RECORDED", tmp_path / "to")
    own = ["--runs", str(source.root)]
    assert __main__.main(["record", source.id, "--to", str(tmp_path / "to"), "--name", "Shown", *own]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "to" / source.id)
    assert __main__.main(["list", "--recorded", "--json", "--runs", str(tmp_path)]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["id"], row["name"], row["state"], row["epochs"]) == (source.id, "Shown", "finished", EPOCHS)
    assert __main__.main(["rename", source.id, "x", "--runs", str(tmp_path / "none")]) == 2
    assert "read-only" in capsys.readouterr().err
    assert __main__.main(["record", source.id, source.id, "--to", str(tmp_path), "--name", "One", *own]) == 2
    assert "cannot name 2 recordings" in capsys.readouterr().err


def test_the_recordings_that_come_along_are_whole_small_and_alike():
    found = {run.title: run for run in recorded_runs()}
    photographs = [name for name in found if name.startswith("Photographs: ")]
    assert photographs == ["Photographs: LPS", "Photographs: no margin"]
    assert sorted(found.keys() - photographs) == [
        "FixMatch",
        "LPS",
        "LPS without entropy",
        "LPS without margin",
        "ORCA",
        "Unequal sizes: equal prior",
        "Unequal sizes: estimated prior",
    ]
    for name, run in found.items():
        alike = next(
            (kind for kind in ("Photographs: LPS", "Unequal sizes: equal prior") if name[:9] == kind[:9]), "LPS"
        )
        first = read_split(found[alike].folder)
        assert run.state().name == "finished"
        assert folder_bytes(run.folder) < (1_000_000 if name in photographs else 420_000)
        assert thumbnails.has_thumbnails(run) == (name in photographs)
        assert recording.without_local_paths(run.config()) == run.config()
        split, targets = read_split(run.folder)
        assert np.array_equal(split.unlabeled, first[0].unlabeled) and np.array_equal(targets, first[1])
        assert snapshot_epochs(run.snapshots) == list(range(1, run.config().epochs + 1))
        assert len(labels.load_pictures(run, split, targets).pixels) == len(targets)
        for path in run.folder.rglob("*.json*"):
            assert '"/' not in path.read_text(), path
    assert not list(run_folders.RECORDED.rglob("*.pt")) and folder_bytes(run_folders.RECORDED) < 4_000_000


def test_a_copy_of_a_recording_elsewhere_is_one_too(recorded, tmp_path):
    shutil.copytree(recorded.folder, tmp_path / recorded.id)
    assert Run(tmp_path / recorded.id).is_recorded


def test_what_a_start_tells_of_precision_and_clusters_comes_along_and_no_other_word(tmp_path):
    run = sample_runs.make_run(tmp_path, epochs=1)
    told = '"precision": "bf16", "test_clusters": "/home/somebody", "kind": "start"'
    run.events.write_text(run.events.read_text().replace('"kind": "start"', told))
    starts = [json.loads(line) for line in recording._events(run).splitlines() if b'"start"' in line]
    assert starts and all(start["precision"] == "bf16" and "test_clusters" not in start for start in starts)
