"""Runs from Python: results equal the files, and the examples of docs/api.md work."""

import json
import re
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from lps import api
from lps.analysis.labels import label_all
from lps.cluster.executors import slurm
from lps.errors import UserError
from lps.scheduler import launcher as processes
from lps.store.events import read_events
from lps.store.run_folders import list_runs
from lps.store.snapshots import read_snapshot
from lps.store.summary import summarize
from tests.sample_runs import RunWriter, held, make_run

ROOT = Path(__file__).resolve().parent.parent
FAKE = (sys.executable, str(ROOT / "tests" / "fake_trainer.py"))


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs"), epochs=2, name="a sample")


@pytest.fixture
def started(monkeypatch):
    """Make runs that the API starts do what `plan` says."""
    plan = {"do": "finish"}
    create, begin = api.run_folders.create_run, processes.launch

    def planned(*arguments):
        run = create(*arguments)
        (run.folder / "plan.json").write_text(json.dumps(plan))
        return run

    monkeypatch.setattr(api.run_folders, "create_run", planned)
    monkeypatch.setattr(api.launcher, "launch", lambda run, **more: begin(run, FAKE, **more))
    resume = processes.resume
    monkeypatch.setattr(api.launcher, "resume", lambda run: resume(run, FAKE))
    return plan


def test_a_run_is_handed_to_a_cluster_with_what_was_asked(tmp_path, monkeypatch):
    asked, checked = [], []
    monkeypatch.setattr(slurm, "check", checked.append)
    monkeypatch.setattr(api.launcher, "launch", lambda run, on: asked.append((run.folder, on)))
    more = {"partition": "gpu", "cpus": 4, "extra": ["--constraint=a100", "--exclusive"]}
    run = api.launch(runs=tmp_path, device="cuda", on=more)  # a GPU that this machine need not have
    plain = api.launch(runs=tmp_path, on={})
    texts = ["partition=gpu", "cpus=4", "extra=--constraint=a100", "extra=--exclusive"]
    assert asked == [(run.folder, slurm.read_options(texts)), (plain.folder, slurm.read_options([]))]
    assert checked == [on for _, on in asked]


@pytest.mark.parametrize("on", ["slurm", ["partition=gpu"], {"color": "red"}, {"cpus": 0}, {"extra": "rm -rf /"}])
def test_what_no_cluster_understands_writes_nothing(tmp_path, on):
    with pytest.raises(UserError, match="^(on|slurm[a-z ]*): "):
        api.launch(runs=tmp_path, on=on)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_launch_wait_events(tmp_path, started):
    run = api.launch(dataset="digits", method="lps", seed=3, epochs=5, runs=tmp_path, name="mine")
    assert run.wait(timeout=60) == "finished" == run.state
    assert [event["kind"] for event in run.events()] == ["start", "finish"]
    assert run.name == "mine" and run.folder.parent == tmp_path and "-digits-lps-s3-" in run.id
    assert (run.config["epochs"], run.config["seed"]) == (5, 3) and "doing finish" in run.log()


@pytest.mark.slow
def test_unequal_labels_are_warned_of_with_the_advised_prior(tmp_path, started):
    unequal = {"split_rule": "stratified", "split_labeled_imbalance": 10}
    with pytest.warns(UserWarning, match="prior = confident"), pytest.warns(UserWarning, match="instead of 200"):
        runs = [api.launch(runs=tmp_path, **unequal | {"split_labeled_imbalance": 200})]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        runs += [api.launch(runs=tmp_path), api.launch(runs=tmp_path, prior="confident", **unequal)]
    for run in runs:
        run.wait(60)


@pytest.mark.slow
def test_settings_have_their_names_with_dots_or_underscores(tmp_path, started):
    one = api.launch(runs=tmp_path, split_labeled_ratio=0.25, margin_scale=5, use_margin=False)
    two = api.launch(runs=tmp_path, **{"split.labeled_ratio": 0.25, "margin_scale": 5.0, "use_margin": False})
    assert one.config == two.config and one.config["split.labeled_ratio"] == 0.25 and one.config["use_margin"] is False
    assert one != two and one.config != api.launch(runs=tmp_path).config
    for run in (one, two):
        run.wait(60)


@pytest.mark.slow
def test_the_folder_of_the_runs_is_that_of_the_command_line(tmp_path, started, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "by name"))
    run = api.launch()
    assert run.wait(60) == "finished" and api.list_runs() == [run] == api.list_runs(tmp_path / "by name")
    assert api.list_runs(tmp_path / "elsewhere") == []


@pytest.mark.slow
def test_stop_and_resume(tmp_path, started):
    started["do"] = "wait"
    run = api.launch(runs=tmp_path)
    assert next(run.follow())["kind"] == "start"
    with pytest.raises(TimeoutError, match="is still running after 0.1 s"):
        run.wait(timeout=0.1)
    run.stop()
    assert run.wait(60) == "stopped" and run.reason == "stopped by request"
    (run.folder / "plan.json").write_text('{"do": "finish"}')
    run.resume()
    assert run.wait(60) == "finished"


@pytest.mark.slow
def test_a_failure_is_a_state_with_a_reason(tmp_path, started):
    started["do"] = "fail"
    run = api.launch(runs=tmp_path)
    assert run.wait(60) == "failed" and run.reason == "the loss is not finite"


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"lr": -1}, "lr: -1.0 is not a number from 1e-08 to 100"),
        ({"epochs": 1.5}, "epochs: 1.5 is not a whole number"),
        ({"speed": 1}, "speed: is not a setting of lps; choices: "),
        ({"method": "lsp"}, "method: 'lsp' is not one of "),
        ({"dataset": "../x"}, "dataset: '../x' is not one of "),
        ({"seed": "0"}, "seed: '0' is not a whole number"),
        ({"split_num_seen": 11}, "split.num_seen: 11"),
        ({"dataset": "folder", "dataset_path": "/nowhere"}, "dataset.path: "),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(tmp_path, started, settings, words):
    with pytest.raises(UserError, match=re.escape(words)):
        api.launch(runs=tmp_path / "runs", **settings)
    assert not (tmp_path / "runs").exists()


def test_what_it_gives_is_what_the_files_say(sample):
    run = api.find_run(sample.id[-6:], runs=sample.root)
    events, _ = read_events(sample.events)
    assert run.events() == events and run.events("train") == [e for e in events if e["kind"] == "train"]
    accuracies = [e["values"]["accuracy/novel"] for e in events if e["kind"] == "eval"]
    assert run.curve("accuracy/novel") == ([1, 2], accuracies)
    assert run.curve("no such name") == ([], []) and run.summary() == summarize(sample)
    assert (run.state, run.name, run.config) == ("finished", "a sample", sample.config().flat())
    assert repr(run) == f"<Run {sample.id}: finished, epoch 2>"
    assert {run, api.Run(sample.folder), api.Run(str(sample.folder))} == {run}
    assert run.snapshot().predicted.tolist() == read_snapshot(sample.snapshots, 2).predicted.tolist()
    assert run.snapshot(1).predicted.tolist() == read_snapshot(sample.snapshots, 1).predicted.tolist()


def test_labels_are_rows(sample):
    rows, labels = api.Run(sample.folder).labels(), label_all(sample)
    assert [row["image"] for row in rows] == labels.images.tolist()
    assert [row["name"] for row in rows] == list(labels.names)
    labeled = [row for row in rows if row["source"] == "labeled"]
    assert labeled and all(
        row["predicted"] is row["cluster"] is row["confidence"] is row["file"] is None for row in labeled
    )
    predicted = [row for row in rows if row["source"] == "predicted"]
    assert predicted and all(0 <= row["predicted"] < 10 and 0 < row["confidence"] <= 1 for row in predicted)
    assert json.loads(json.dumps(rows)) == rows


def test_what_is_not_there_yet_is_said(tmp_path):
    run = api.Run(make_run(tmp_path, "queued").folder)
    assert run.events() == [] and run.log() == "" and run.summary()["epochs"] == 0
    with pytest.raises(UserError, match="no epoch has been evaluated yet"):
        run.snapshot()
    with pytest.raises(UserError, match="is not in"):
        api.find_run("abcdef", runs=tmp_path)


def test_runs_are_listed_by_state_and_tag(tmp_path):
    first, second = make_run(tmp_path, epochs=1, pretrain=1), make_run(tmp_path, "stopped", epochs=8, pretrain=1)
    second.write_meta(tags=["sweep:x"])
    assert {run.id for run in api.list_runs(tmp_path)} == {first.id, second.id}
    assert [run.id for run in api.list_runs(tmp_path, state="finished")] == [first.id]
    assert [run.id for run in api.list_runs(tmp_path, tag="sweep:x")] == [second.id]


def test_following_gives_every_event_once_until_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "POLL_S", 0.01)
    writer = RunWriter(tmp_path, epochs=3, pretrain=1)
    writer.begin("running", 1)
    seen = []
    with held(writer.run):
        follower = threading.Thread(target=lambda: seen.extend(api.Run(writer.run.folder).follow()))
        follower.start()
        for epoch in (2, 3):
            time.sleep(0.05)
            writer.write_epoch(epoch)
        writer.end("finished")
    follower.join(30)
    assert seen == read_events(writer.run.events)[0] and seen[-1]["kind"] == "finish"


def test_comparing_is_that_of_the_command_line(tmp_path, sample, capsys):
    from lps.__main__ import main

    other = make_run(sample.root, epochs=2, seed=1)
    runs = [api.Run(sample.folder), api.Run(other.folder)]
    where = ["compare", sample.id, other.id, "--runs", str(sample.root), "--format"]
    for form in ("json", "markdown", "latex", "csv"):
        assert main([*where, form]) == 0
        text = capsys.readouterr().out
        assert api.compare_runs(runs, None if form == "json" else form) == (
            json.loads(text) if form == "json" else text
        )
    assert api.compare_runs(runs)[0]["n"] == 2
    with pytest.raises(UserError, match="compared: has no run"):
        api.compare_runs([])
    with pytest.raises(UserError, match="form: 'html' is not one of markdown, latex, csv"):
        api.compare_runs(runs, "html")


def test_exports(tmp_path, sample):
    run = api.Run(sample.folder)
    assert [path.name for path in api.export_runs([run], "csv", tmp_path / "t")] == [
        "events.csv", "scalars.csv", "runs.csv"
    ]  # fmt: skip
    assert api.export_runs([run], "archive", tmp_path)[0].is_file()
    with pytest.raises(UserError, match="to: 'x' is not one of"):
        api.export_runs([run], "x", tmp_path)


@pytest.mark.slow
def test_importing_the_package_imports_nothing_else():
    code = """
import sys
before = set(sys.modules)
import lps
assert set(sys.modules) - before == {"lps"}, sorted(set(sys.modules) - before)
assert set(lps.API) <= set(dir(lps))
for name in lps.API:
    assert getattr(lps, name).__module__.startswith("lps."), name
assert not {"torch", "streamlit", "pandas", "pyarrow", "tensorboard", "sklearn"} & set(sys.modules)
try:
    lps.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
else:
    raise AssertionError
from lps.scheduler import launcher; from lps.store import runs
assert callable(lps.launch)
assert runs.__name__ == "lps.store.runs"
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def examples() -> str:
    """Return all Python blocks of docs/api.md, in one text."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "api.md").read_text(), re.S | re.M)
    assert len(blocks) >= 7
    return "\n".join(blocks)


@pytest.mark.turn(1, 3)
@pytest.mark.slow
def test_the_examples_of_the_documentation_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()  # else those of the clone are meant
    less = "pretrain_epochs=1, threads=1, dataset_images_per_class=30"  # the same in a few seconds
    source = examples().replace("pretrain_epochs=1", less)
    exec(compile(source, "docs/api.md", "exec"), {"__name__": "examples"})
    said = capsys.readouterr().out
    assert said.startswith("finished\n") and "lr: -1.0 is not a number from 1e-08 to 100" in said
    assert {run.state().name for run in list_runs(tmp_path / "runs")} == {"finished"}
    assert len(list_runs(tmp_path / "runs")) == 2 and (tmp_path / "tables" / "scalars.csv").exists()
