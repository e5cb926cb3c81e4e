"""A run that goes on with confirmed labels: from weights or afresh, resumed, blind to the hidden truth."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from lps.analysis import naming
from lps.data.classes import Classes
from lps.errors import UserError
from lps.inference import continued_training
from lps.settings.config import configure
from lps.store import inherited_files
from lps.store.run_folders import create_run
from lps.store.snapshots import read_split
from lps.training import loop as training
from lps.training import parent_weights
from tests.short_runs import assert_same_end, events, finished_run, numbers, state, stop_and_resume

pytestmark = pytest.mark.slow  # they train


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    run = finished_run(tmp_path_factory.mktemp("runs"), "lps")
    naming.record_steps(run, 2, [{"do": "name", "id": 5, "name": "5"}, {"do": "name", "id": 6, "name": "six"}])
    return run


def child_of(parent, from_weights=True, seed=0):
    changes = {"seed": seed} if seed else {}
    planned = continued_training.plan_continued_training(parent, rule="all", from_weights=from_weights, changes=changes)

    def bring(folder):
        inherited_files.write_inherited(folder, planned.confirmed, planned.weights)

    return create_run(parent.root, planned.config, copy_files=bring)


@pytest.fixture(scope="module")
def child(parent):
    run = child_of(parent)
    assert training.train(run) == 0
    return run


@pytest.fixture(scope="module")
def afresh(parent):
    run = child_of(parent, from_weights=False)
    assert training.train(run) == 0
    return run


def test_it_trains_on_the_confirmed_labels_from_the_weights_of_its_parent(child, afresh):
    split, targets = read_split(child.folder)
    confirmed = inherited_files.read_confirmed(child)
    assert split.classes == Classes(7, 10) and split.class_names[5:7] == ("5", "six")
    assert np.isin(confirmed.images, split.labeled).all() and (targets[confirmed.images] == confirmed.given).all()
    start = events(child)[0]["values"]
    assert start["images/labeled"] == len(split.labeled) and start["classes/seen"] == 7
    assert numbers(child)["eval", 1]["accuracy/all"] > numbers(afresh)["eval", 1]["accuracy/all"]


def test_a_resumed_one_ends_with_the_same_numbers(parent, child, monkeypatch):
    broken = child_of(parent)
    stop_and_resume(broken, monkeypatch, (1, 4))
    assert_same_end(child, broken)


def test_the_hidden_truth_has_no_part_in_it(parent, afresh, monkeypatch):
    """Shuffle what scores know of the unlabeled images: the plan and the training numbers stay bit for bit."""
    real = training.prepare

    def scrambled(config, confirmed):
        material = real(config, confirmed)
        truth, hidden = material.truth.copy(), material.split.unlabeled
        truth[hidden] = np.random.default_rng(0).permutation(truth[hidden])
        return replace(material, truth=truth)

    monkeypatch.setattr(training, "prepare", scrambled)
    run = child_of(parent, from_weights=False)
    assert training.train(run) == 0
    for epoch in (1, 2):
        assert numbers(run)["train", epoch] == numbers(afresh)["train", epoch]
        assert numbers(run)["eval", epoch]["accuracy/all"] < numbers(afresh)["eval", epoch]["accuracy/all"]


@pytest.mark.parametrize("file", ["confirmed.npz", "start.pt"])
def test_a_run_whose_files_are_gone_says_so(parent, file):
    run = child_of(parent)
    (run.folder / file).unlink()
    assert training.train(run) == 1
    assert events(run)[-1]["kind"] == "fail" and file.partition(".")[0] in events(run)[-1]["reason"]


def test_rows_of_the_classifier_go_to_the_classes_that_continue_them(parent):
    run = child_of(parent)
    config, stored = run.config(), state(parent)
    torch.manual_seed(5)
    method = training.build(configure(config.flat()), training.prepare(config, inherited_files.read_confirmed(run)))[0]
    before = method.network.classifier.weight.detach().clone()
    parent_weights.load_parent_weights(method, stored, torch.tensor([0, 1, 2, 3, 4, 6, 5, -1, 8, 99]))
    rows, there = method.network.classifier.weight, stored["network.classifier.weight"]
    assert torch.equal(rows[5], there[6]) and torch.equal(rows[6], there[5]) and torch.equal(rows[8], there[8])
    assert torch.equal(rows[7], before[7]) and torch.equal(rows[9], before[9])
    short = {name: value for name, value in stored.items() if "backbone" not in name}
    with pytest.raises(UserError, match="network.continues: does not match the network: network.backbone"):
        parent_weights.load_parent_weights(method, short, torch.arange(10))
