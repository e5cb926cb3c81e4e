"""SimCLR + k-means: the clusters of unit features, matched; nothing is trained."""

import json

import numpy as np
import pytest
import torch

from lps.data.classes import Classes
from lps.methods import Inference, build
from lps.network.network import Outputs
from lps.scores.metrics import matched_accuracy
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.training.loop import RunTraining, train

CLASSES = Classes(seen=2, total=4)


def directions(per_class=20, seed=0):
    """Points whose class is their direction; their length means nothing: unit features are easy, raw ones are not."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(4), per_class)
    lengths = generator.choice([0.2, 1, 20], size=(len(labels), 1))
    points = (np.eye(4)[labels] + 0.02 * generator.standard_normal((len(labels), 4))) * lengths
    return torch.tensor(points, dtype=torch.float32), labels


def predict(features, classes=CLASSES, **hyperparameters):
    method = build(configure({"method": "simclr"} | hyperparameters), torch.nn.Identity(), classes)
    unlabeled = Outputs(features, torch.zeros(len(features), classes.total))
    return method.predict(Inference(lambda: pytest.fail("labels are not looked at"), lambda: unlabeled, None, seed=0))


def test_clusters_are_directions_unless_normalization_is_off():
    features, labels = directions()
    prediction = predict(features)
    assert matched_accuracy(prediction.ids.numpy(), labels, 4) == 1
    assert prediction.ids.dtype == torch.int64 and prediction.confidence.min() > 0.8
    raw = predict(features, normalize=False)
    assert matched_accuracy(raw.ids.numpy(), labels, 4) < 0.8
    assert raw.confidence.min() >= 0 and raw.confidence.max() <= 1


def test_more_restarts_never_fit_worse():
    features = torch.tensor(np.random.default_rng(1).standard_normal((60, 3)), dtype=torch.float32)

    def inertia(ids):
        points = torch.nn.functional.normalize(features, dim=1)
        return sum((points[ids == k] - points[ids == k].mean(0)).square().sum().item() for k in ids.unique())

    one, many = (inertia(predict(features, Classes(4, 8), restarts=n).ids) for n in (1, 30))
    assert many < one


def test_the_same_seed_gives_the_same_clusters_and_single_points_do_no_harm():
    features, _ = directions()
    assert torch.equal(predict(features).ids, predict(features).ids)
    prediction = predict(features[::20])  # as many images as clusters
    assert sorted(prediction.ids.tolist()) == [0, 1, 2, 3] and (prediction.confidence == 1).all()
    same = predict(torch.ones(6, 4))  # one point, six times
    assert torch.isfinite(same.confidence).all() and (same.ids == 0).all()


@pytest.mark.slow
def test_a_run_is_one_evaluation_that_equals_the_baseline_of_the_start_features(tmp_path):
    short = {"epochs": 7, "pretrain.epochs": 1, "threads": 1, "dataset.images_per_class": 60}
    run = create_run(tmp_path, configure({"method": "simclr"} | short))
    assert train(run) == 0
    events = [json.loads(line) for line in run.events.read_text().splitlines()]
    assert [event["kind"] for event in events] == ["start", "pretrain", "start", "eval", "finish"]
    start, evaluation = events[2]["values"], events[3]["values"]
    for name in ("seen", "novel", "all"):
        assert evaluation[f"accuracy/{name}"] == pytest.approx(start[f"baseline/kmeans/{name}"], abs=0.02)
    assert evaluation["accuracy/seen"] > 0.3  # matched: raw agreement of arbitrary ids would be near a tenth
    assert train(run) == 0  # a run that is resumed when done changes nothing
    again = [json.loads(line) for line in run.events.read_text().splitlines()][len(events) :]
    assert [event["kind"] for event in again] == ["start", "finish"]


@pytest.mark.slow
def test_pretraining_is_a_run_that_is_watched_stopped_and_resumed(tmp_path):
    """Stopped in the middle of the second epoch: every epoch is told once, with the numbers of an unbroken run."""
    settings = configure({"method": "simclr", "pretrain.epochs": 3, "threads": 1})

    def told(run, kind):
        events = [json.loads(line) for line in run.events.read_text().splitlines()]
        return [(event["epoch"], event["values"]) for event in events if event["kind"] == kind]

    unbroken = create_run(tmp_path / "a", settings)
    assert train(unbroken) == 0
    run = create_run(tmp_path / "b", settings)
    attempt = RunTraining(run)
    write, steps = attempt._progress.write, 14  # 1797 // 128 a pretraining epoch

    def write_and_stop(phase, epoch, epochs, step, total):
        write(phase, epoch, epochs, step, total)
        attempt._stop = phase == "pretrain" and step == steps + 5

    attempt._progress.write = write_and_stop
    assert attempt.carry_out() == 0
    attempt.events.close()
    assert [epoch for epoch, _ in told(run, "pretrain")] == [1] and len(told(run, "stop")) == 1
    assert train(run) == 0
    assert told(run, "pretrain") == told(unbroken, "pretrain") and len(told(run, "pretrain")) == 3
    (scores,), (others,) = told(run, "eval"), told(unbroken, "eval")
    assert {k: v for k, v in scores[1].items() if "time" not in k} == {
        k: v for k, v in others[1].items() if "time" not in k
    }
