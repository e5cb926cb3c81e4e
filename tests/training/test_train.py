"""The loop on real digits: the files of a run, no leak of the truth, and a resumed run equals an unbroken one."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from lps.analysis.run_scores import score_run
from lps.data import sources
from lps.files import disk
from lps.files.atomic import write_checked
from lps.settings.config import configure
from lps.store import snapshots
from lps.store.events import EventWriter, drop_repeated, read_events
from lps.store.run_folders import create_run
from lps.store.runs import Run
from lps.store.summary import summarize
from lps.training import checkpoints
from lps.training import end_reason as training_failure
from lps.training import loop as training
from tests.patience import until
from tests.shares import ALL, in_turn
from tests.short_runs import FEW, assert_same_end, numbers

pytestmark = pytest.mark.slow  # every one of them trains
ROOT = Path(__file__).resolve().parents[2]
TINY = {"epochs": 3, "pretrain.epochs": 1, "threads": 1} | FEW


def make_run(root, **settings):
    return create_run(root, configure(TINY | settings))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("runs"))
    assert training.train(run) == 0
    return run


def once_more(finished, tmp_path):
    """The very run that was trained, in a folder of its own: what a second training would end with, bit for bit."""
    return Run(Path(shutil.copytree(finished.folder, tmp_path / finished.id)))


def history(run):
    return drop_repeated(read_events(run.events)[0])


def test_progress_tells_how_long_a_stop_may_take(tmp_path, monkeypatch):
    """So that the runner, which knows no torch, lets a long step or evaluation finish."""
    run, clock = make_run(tmp_path), [1000.0]
    monkeypatch.setattr(training.time, "monotonic", lambda: clock[0])
    events = EventWriter(run.events)
    progress, told = training.ProgressFile(run, events), []

    def write(*arguments, after_s=0.0, **more):
        clock[0] += after_s
        progress.write(*arguments, **more)
        told.append(run.stop_s())

    write("prepare", 0, 9, 0, 1)
    write("train", 0, 9, 0, 900, after_s=500)
    write("train", 0, 9, 1, 900, after_s=70)
    write("train", 0, 9, 2, 900, after_s=65)
    write("train", 0, 9, 2, 900, ahead_s=280)
    assert told == [0, 0, 70, 70, 280] and run.grace_s() == 840
    for step in range(3, 60):
        write("train", 1, 9, step, 900, after_s=2)
    assert told[-1] == 2 and run.grace_s() == 60
    write("train", 1, 9, 60, 900, after_s=66)
    assert run.stop_s() == 66
    progress = training.ProgressFile(run, events)  # of the next attempt, which has measured nothing yet
    write("train", 1, 9, 60, 900)
    assert run.stop_s() == 66


def test_a_run_leaves_the_events_that_the_formats_promise(finished):
    events = history(finished)
    assert [e["kind"] for e in events] == ["start", "pretrain", "start", *["train", "eval"] * 3, "finish"]
    documented = (ROOT / "docs" / "formats.md").read_text()
    for event in events:
        for name in event["values"]:
            group, _, rest = name.rpartition("/")
            assert f"`{name}`" in documented or f"`/{rest}`" in documented or f"`{group}/*`" in documented, name
    train, evaluation = events[-3]["values"], events[-2]["values"]
    terms = [v for k, v in train.items() if k.startswith("loss/") and k != "loss/total"]
    assert sum(terms) == pytest.approx(train["loss/total"], rel=1e-4)
    assert len(train["pi_hat"]) == len(train["margin"]) == len(evaluation["class/accuracy"]) == 10
    assert evaluation["accuracy/gap"] == pytest.approx(evaluation["accuracy/seen"] - evaluation["accuracy/novel"])
    assert events[2]["values"]["baseline/kmeans/all"] > 0.2
    for line in finished.events.read_text().splitlines():
        json.loads(line, parse_constant=lambda word: pytest.fail(word))


def test_the_snapshot_belongs_to_the_evaluation(finished):
    split, truth = snapshots.read_split(finished.folder)
    snapshot = snapshots.read_snapshot(finished.snapshots, 3)
    from lps.scores.protocols import open_world

    values = open_world(snapshot.predicted.astype(np.int64), truth[split.unlabeled], split.classes)
    assert values["accuracy/all"] == history(finished)[-2]["values"]["accuracy/all"]
    assert set(snapshot.feature_index) <= set(split.unlabeled)
    assert snapshot.features.shape == (len(snapshot.feature_index), 64)
    assert snapshots.snapshot_epochs(finished.snapshots) == [1, 2, 3]


def test_the_summary_tells_last_and_best(finished):
    summary = summarize(finished)
    scores = [e["values"]["accuracy/all"] for e in history(finished) if e["kind"] == "eval"]
    assert summary["epochs"] == 3 and summary["last"]["accuracy/all"] == scores[-1]
    assert summary["best"]["accuracy/all"] == max(scores) == scores[summary["best"]["epoch"] - 1]


def test_withheld_labels_and_test_images_are_scored_and_not_trained_on(tmp_path):
    asked = {"split.test_ratio": 0.1, "split.validation_ratio": 0.2, "epochs": 2, "network.fused_views": True}
    run = create_run(tmp_path, configure(TINY | asked))
    assert training.train(run) == 0
    split, truth = snapshots.read_split(run.folder)
    values = [e["values"] for e in history(run) if e["kind"] == "eval"]
    facts = history(run)[0]["values"]
    assert (facts["images/test"], facts["images/validation"]) == (len(split.test), len(split.validation)) == (60, 27)
    for epoch in (1, 2):
        said = snapshots.read_snapshot(run.snapshots, epoch)
        chosen = said.predicted[split.validation_rows] == truth[split.validation]
        assert values[epoch - 1]["accuracy/validation"] == chosen.mean()
        is_seen = truth[split.test] < split.classes.seen
        tested = said.test_predicted[is_seen] == truth[split.test][is_seen]
        assert values[epoch - 1]["test/accuracy/seen"] == tested.mean()
        assert score_run(run, images="test", select="last" if epoch == 2 else "oracle").scores.seen >= 0
    judged = [v["accuracy/validation"] for v in values]
    best = max((1, 2), key=lambda epoch: (judged[epoch - 1], epoch))
    assert score_run(run, select="validation").epoch == best
    assert summarize(run)["best"]["accuracy/validation"] == max(judged)
    assert summarize(run)["best_by"] == "accuracy/validation"
    without_test = configure(TINY | asked | {"split.test_ratio": 0.0})
    assert len(training.prepare(without_test).training[0]) == len(truth) == 600
    assert len(training.prepare(run.config()).training[0]) == 600 - 60


def test_pretraining_is_done_once(finished):
    again = create_run(finished.root, configure(TINY | {"margin_scale": 3.0}))
    assert training.train(again) == 0
    (event,) = [e for e in history(again) if e["kind"] == "pretrain"]
    assert event["values"]["pretrain/reused"] == 1 and event["values"]["pretrain/knn_accuracy"] > 0.5


def test_the_truth_of_unlabeled_images_cannot_reach_training(finished, tmp_path, monkeypatch):
    """Shuffle the truth of every unlabeled image: training numbers stay bit for bit, only the evaluation changes."""
    split, truth = snapshots.read_split(finished.folder)
    scrambled = truth.copy()
    scrambled[split.unlabeled] = np.random.default_rng(0).permutation(truth[split.unlabeled])
    real = training.prepare

    def prepare(config, confirmed):
        material = real(config, confirmed)
        return type(material)(material.images, scrambled, material.split, material.plan)

    monkeypatch.setattr(training, "prepare", prepare)
    run = make_run(tmp_path)
    training.train(run)
    ours, theirs = numbers(run), numbers(finished)
    for epoch in (1, 2, 3):
        assert ours["train", epoch] == theirs["train", epoch]
        assert ours["eval", epoch]["accuracy/all"] < theirs["eval", epoch]["accuracy/all"]


def test_the_same_seed_gives_the_same_numbers_and_another_does_not(finished, tmp_path, monkeypatch):
    """Also where the pixels are too many for the device."""
    monkeypatch.setattr("lps.datasets.ON_DEVICE", 0)
    same, other = make_run(tmp_path / "a"), make_run(tmp_path / "b", seed=1)
    training.train(same), training.train(other)
    assert numbers(same) == numbers(finished) != numbers(other)


def test_a_step_of_a_training_is_measured_before_the_next_one_ends(tmp_path, monkeypatch):
    run = make_run(tmp_path, **{"epochs": 1, "pretrain.epochs": 0})
    told, real = [], training.parallel.add_up_gradients

    def slow(*arguments):
        told.append((run.read_json("progress.json")["phase"], run.stop_s()))
        time.sleep(1.2)
        real(*arguments)
        if len(told) == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(training.parallel, "add_up_gradients", slow)
    assert training.train(run) == 0
    assert [phase for phase, _ in told] == ["train"] * 3
    assert all(1.2 <= seconds < 30 for _, seconds in told[1:])


def test_what_a_method_does_between_two_epochs_is_told_beforehand(tmp_path, monkeypatch):
    """No stop is looked at from the last step of an epoch to the first one of the next: evaluation and start."""
    run, told = make_run(tmp_path, **{"epochs": 2, "pretrain.epochs": 0}), []
    build, write = training.build, training.ProgressFile.write

    def slow_to_start(*arguments):
        method, optimizer = build(*arguments)
        monkeypatch.setattr(method, "start_epoch", lambda *_: time.sleep(1.5))
        return method, optimizer

    def listen(self, *arguments):
        told.append(arguments[-1])
        write(self, *arguments)

    monkeypatch.setattr(training, "build", slow_to_start)
    monkeypatch.setattr(training.ProgressFile, "write", listen)
    assert training.train(run) == 0
    evaluations = [event["values"]["time/eval_s"] for event in history(run) if event["kind"] == "eval"]
    ahead = [seconds for seconds in told if isinstance(seconds, float) and seconds > 0]
    _, _, start, end = ahead  # before the start of an epoch, and at its end
    assert start >= 1.5 and end >= evaluations[0] + 1.5


def test_what_a_method_does_before_its_first_step_is_told_by_what_k_means_took(tmp_path, monkeypatch):
    run, told = make_run(tmp_path, **{"epochs": 1, "pretrain.epochs": 0}), []
    build, start_quality = training.build, training.start_quality

    def look_at_the_beginning(*arguments):
        method, optimizer = build(*arguments)
        monkeypatch.setattr(method, "start_epoch", lambda *_: told.append(run.stop_s()))
        return method, optimizer

    monkeypatch.setattr(training, "build", look_at_the_beginning)
    monkeypatch.setattr(training, "start_quality", lambda *given: time.sleep(1.5) or start_quality(*given))
    assert training.train(run) == 0
    assert len(told) == 1 and 1.5 <= told[0] < 60


@pytest.mark.parametrize("phase", ["pretrain", "train"])
@pytest.mark.parametrize("deleted", in_turn(["folder", "all in the folder", "events"], 3))
def test_a_training_without_a_runner_notices_within_a_second_that_its_run_was_deleted(
    tmp_path, monkeypatch, deleted, phase
):
    """Not at the end of the epoch: that may be minutes away. A deletion may get stuck where files are written."""
    run = make_run(tmp_path, **{"epochs": 1, "pretrain.epochs": 1})
    real, since = training.ProgressFile.write, []

    def write(self, now, epoch, epochs, step, steps, *more, **named):
        if now == phase and step and not since:
            if deleted != "events":
                shutil.rmtree(run.folder)
            if deleted == "all in the folder":
                run.folder.mkdir()
            if deleted == "events":
                run.events.unlink()
            since.append(time.monotonic())
        elif since:
            time.sleep(0.3)
            since.append(time.monotonic())
        real(self, now, epoch, epochs, step, steps, *more, **named)

    monkeypatch.setattr(training.ProgressFile, "write", write)
    assert training.train(run) == 1
    assert 1 <= len(since) < 8, "it went on for too many steps"
    assert not (run.folder / "exit.json").exists() and not list(tmp_path.glob("*/checkpoints/*.pt"))


@pytest.mark.turn(0, 3)
def test_kill_9_and_resume_changes_nothing(finished, tmp_path):
    """A real process, killed after its first committed epoch; the next attempt ends with the unbroken run's numbers."""
    run = next(run for run in map(killed, [tmp_path] * 5) if history(run)[-1]["kind"] != "finish")
    assert training.train(run) == 0
    starts = [e for e in read_events(run.events)[0] if e["kind"] == "start"]
    assert starts[-1]["epoch"] >= 1 and history(run)[-1]["kind"] == "finish"
    assert_same_end(run, finished)


def killed(root):
    """A run that was killed as soon as an epoch was committed; on a busy machine it may have been quicker."""
    run = make_run(root)
    command = [sys.executable, "-m", "lps", "train", "--run", str(run.folder)]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})
    until(lambda: list(run.checkpoints.glob("step-*.json")) or process.poll() is not None, 120)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return run


@pytest.mark.parametrize(
    "how", in_turn(["damaged", "no weights", "keys", "shape", "optimizer", "part", "type", "far"], 2)
)
def test_a_checkpoint_that_cannot_be_gone_on_from_is_passed_over_in_its_own_words(finished, tmp_path, capsys, how):
    run = once_more(finished, tmp_path)
    name, state, _ = checkpoints.load_newest(run.checkpoints)
    method, first, path = state["method"], next(iter(state["method"])), run.checkpoints / f"{name}.pt"
    words = f"checkpoint {name} belongs to a run with other settings"
    if how == "damaged":
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        words = f"checkpoint {name} is damaged"
    elif how == "no weights":
        write_checked(path, b"\x80\x02].")  # an empty list, and its checksum is right
        words = f"checkpoint {name} has the right checksum but contains more than weights"
    elif how == "keys":
        method["other"] = method.pop(first)
    elif how == "shape":
        method[first] = torch.zeros(3, 3, 3)
    elif how == "optimizer":
        state["optimizer"]["param_groups"][0]["params"].pop()
    elif how == "part":
        del state["averages"]
    else:
        state["epoch"] = "two" if how == "type" else 10**6
    if "other settings" in words:
        checkpoints.save_checkpoint(run.checkpoints, name, state)
    assert training.train(run) == 0
    assert words in capsys.readouterr().out
    assert [event["kind"] for event in read_events(run.events)[0] if event["kind"] == "fail"] == []
    assert numbers(run) == numbers(finished)


@pytest.mark.parametrize("changed", in_turn(["pixels", "labels", "count"], 3))
def test_other_data_than_the_run_began_with_are_refused(tmp_path, changed):
    digits, path = sources.load("digits"), tmp_path / "half.npz"
    pixels, labels = digits.pixels[:200], digits.labels[:200]
    np.savez(path, x_train=pixels, y_train=labels)
    settings = {"dataset": "arrays", "dataset.path": str(path), "network.name": "digits_resnet", "batch_size": 64}
    settings |= {"network.freeze_until": "none", "network.start": "random", "epochs": 1, "threads": 1}
    run = create_run(tmp_path / "runs", configure(settings))
    assert training.train(run) == 0 and training.train(run) == 0, "the same data may be gone on with"
    before = {p: p.read_bytes() for p in run.folder.rglob("*") if p.suffix in (".npz", ".pt")}
    if changed == "pixels":
        pixels = pixels[:, ::-1]
    elif changed == "labels":
        labels = (labels + 1) % 10
    else:
        pixels, labels = pixels[:190], labels[:190]
    np.savez(path, x_train=pixels, y_train=labels)
    assert training.train(run) == 1
    last = history(run)[-1]
    assert last["kind"] == "fail" and last["failure"] == "data"
    assert "have changed since the run started" in last["reason"]
    assert {p: p.read_bytes() for p in run.folder.rglob("*") if p.suffix in (".npz", ".pt")} == before


@pytest.mark.parametrize("name", in_turn(["split.npz", "epoch-0002.npz", "newest"], 3))
def test_a_disk_that_is_too_small_is_told_before_anything_is_written(finished, tmp_path, monkeypatch, name):
    """The check itself: the file that would not fit is not begun, others stay, and space is all it takes."""
    run, before = make_run(tmp_path), {}
    if name == "newest":
        name = sorted(finished.checkpoints.glob("step-*.pt"))[-1].name

    def check(path, size):
        if path.name == name:
            before.update({p: p.read_bytes() for p in run.folder.rglob("*") if p.suffix in (".npz", ".pt")})
            monkeypatch.setattr(disk, "free_bytes", lambda folder: size - 1)
        return real(path, size)

    real = disk.check_fits
    monkeypatch.setattr(disk, "check_fits", check)
    assert training.train(run) == 1
    last = history(run)[-1]
    assert before or name == "split.npz"
    assert (last["kind"], last["failure"]) == ("fail", "disk_full")
    sizes = r"[0-9.,]+ (MB|bytes) are needed, but only [0-9.,]+( MB| bytes)? are free"
    assert re.fullmatch(rf"no space left for {re.escape(name)} \({sizes}\); free some space and resume", last["reason"])
    assert {p: p.read_bytes() for p in before} == before and not list(run.folder.rglob(f"*{name}*"))
    monkeypatch.undo()
    assert training.train(run) == 0
    assert numbers(run) == numbers(finished)


def test_when_every_checkpoint_is_damaged_the_run_begins_again_and_ends(finished, tmp_path):
    run = once_more(finished, tmp_path)
    for path in run.checkpoints.glob("step-*.pt"):
        path.write_bytes(path.read_bytes()[:1000])
    assert training.train(run) == 0
    assert_same_end(run, finished)


@pytest.mark.parametrize(
    "settings, failure, words",
    [
        (
            {"lr": 100.0, "network.head": "linear", "schedule": "constant", "epochs": 60, "pretrain.epochs": 0},
            "diverged",
            "try an lr below 100",
        ),
        ({"device": "cuda:7"}, "config", "cuda:7 is not available"),
        ({"split.labeled_ratio": 0.0001}, "config", "has no labeled image"),
    ],
)
def test_a_failure_is_an_event_with_its_kind_and_one_sentence(tmp_path, settings, failure, words, capsys):
    run = make_run(tmp_path, **settings)
    assert training.train(run) == 1
    event = history(run)[-1]
    assert (event["kind"], event["failure"]) == ("fail", failure) and words in event["reason"]
    assert "Traceback" not in capsys.readouterr().err


def test_a_bug_is_told_with_its_traceback_in_the_log(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training, "evaluate", lambda *a: 1 / 0)
    run = make_run(tmp_path, **{"pretrain.epochs": 0})
    assert training.train(run) == 1
    assert history(run)[-1]["failure"] == "bug" and "Traceback" in capsys.readouterr().err


def test_failures_are_sorted_by_their_cause():
    full = OSError(28, "No space left on device", "/runs/x")
    assert training_failure.explain_failure(full)[0] == "disk_full"
    assert training_failure.explain_failure(torch.OutOfMemoryError("CUDA out of memory"))[0] == "out_of_memory"
    assert training_failure.explain_failure(KeyError("x"))[0] == "bug"


def test_lps_passes_what_an_untrained_network_does_not(tmp_path):
    """A control: the same protocol with a learning rate of nothing and no pretraining stays far below. All digits train
    twice as long, and only their gap and share of classes fall."""
    some = {"dataset.images_per_class": None if ALL else 60, "batch_size": 128 if ALL else 32}
    nothing = make_run(tmp_path, **some, **{"pretrain.epochs": 0, "lr": 1e-8, "epochs": 1})
    length = {"pretrain.epochs": 12, "epochs": 15} if ALL else {"pretrain.epochs": 8, "epochs": 8}
    everything = make_run(tmp_path, **some, **length, seed=101)
    for run in (nothing, everything):
        assert training.train(run) == 0
    untrained, trained = (summarize(run)["last"] for run in (nothing, everything))
    for name, bound in (("accuracy/all", 0.75), ("accuracy/novel", 0.6), ("accuracy/seen", 0.95)):
        assert trained[name] > bound - (0 if ALL else 0.05) > untrained[name] + 0.2, name
    if not ALL:
        return
    first = next(e for e in history(everything) if e["kind"] == "eval")["values"]
    assert trained["kl"] < 0.5 * next(e for e in history(everything) if e["kind"] == "train")["values"]["kl"]
    assert trained["accuracy/gap"] < first["accuracy/gap"]


def test_the_data_set_is_the_real_one():
    images = sources.load("digits")
    assert images.pixels.shape == (1797, 8, 8, 1) and images.pixels.max() == 255 and images.num_classes == 10
