"""Views change images one by one, and every batch is a function of (seed, epoch, step)."""

import numpy as np
import pytest
import torch

from lps import datasets
from lps.batches import plan_batches, seeded, training_batches
from lps.config import configure
from lps.split import Classes, Split, open_world_split
from lps.views import FAMILIES

CPU = torch.device("cpu")
DIGITS = datasets.load("digits")
IMAGES = torch.from_numpy(np.ascontiguousarray(DIGITS.pixels.transpose(0, 3, 1, 2)))
VIEWS = FAMILIES["digits"]


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_keeps_shape_and_scale_and_leaves_its_input_alone(name):
    before = IMAGES[:64].clone()
    out = VIEWS[name](IMAGES[:64], seeded(CPU, 1))
    assert out.shape == before.shape and out.dtype == torch.float32 and torch.equal(IMAGES[:64], before)
    assert out.abs().max() < 5 and out.std() > 0.1


@pytest.mark.parametrize("name", ["weak", "strong", "simclr"])
def test_the_same_generator_state_gives_the_same_view_and_another_one_does_not(name):
    first, again, other = (VIEWS[name](IMAGES[:32], seeded(CPU, key)) for key in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


@pytest.mark.parametrize("name", ["weak", "strong"])
def test_every_image_gets_its_own_parameters(name):
    copies = VIEWS[name](IMAGES[:1].repeat(16, 1, 1, 1), seeded(CPU, 1))
    assert len({tuple(copy.flatten().tolist()) for copy in copies}) == 16


def test_the_weak_view_changes_less_than_the_strong_one():
    plain = VIEWS["plain"](IMAGES)
    weak, strong = ((VIEWS[n](IMAGES, seeded(CPU, 3)) - plain).abs().mean() for n in ("weak", "strong"))
    assert 0 < weak < 0.8 * strong


def make_split(labeled, unlabeled):
    ids = np.arange(labeled + unlabeled)
    return Split(ids[:labeled], ids[labeled:], Classes(1, 2), np.arange(2), ("a", "b"), 0)


@pytest.mark.parametrize(
    "labeled, unlabeled, size, expected",
    [
        (12_597, 37_403, 512, (128, 384, 98)),  # CIFAR, 50 % and 10 % labeled: the sizes of the original code
        (2_597, 47_403, 512, (26, 486, 99)),
        (1, 999, 128, (1, 127, 1)),
        (5, 5, 512, (5, 507, 1)),
        (999, 1, 2, (1, 1, 999)),
    ],
)
def test_the_batch_is_shared_out_by_set_size(labeled, unlabeled, size, expected):
    plan = plan_batches(make_split(labeled, unlabeled), size)
    assert (plan.labeled, plan.unlabeled, plan.steps) == expected


def epoch_of(first_step=0, epoch=3, seed=0):
    config = configure({"seed": seed})
    split = open_world_split(DIGITS.labels, DIGITS.class_names, config)
    targets = torch.from_numpy(split.targets(DIGITS.labels)[split.labeled])
    views = (VIEWS["weak"], VIEWS["strong"])
    plan = plan_batches(split, config.batch_size)
    return split, plan, list(training_batches(IMAGES, targets, split, views, plan, config, epoch, first_step))


def test_an_epoch_passes_once_over_the_labeled_and_evenly_over_the_unlabeled():
    split, plan, batches = epoch_of()
    assert len(batches) == plan.steps and {len(b.targets) for b in batches} == {plan.labeled}
    assert all(
        b.labeled_views[0].shape[0] == plan.labeled and b.unlabeled_views[1].shape[0] == plan.unlabeled for b in batches
    )
    counts = np.bincount(torch.cat([b.unlabeled_positions for b in batches]).numpy(), minlength=len(split.unlabeled))
    assert counts.max() - counts.min() <= 1
    assert max(b.targets.max().item() for b in batches) < split.classes.seen


def test_positions_and_targets_belong_to_the_images():
    """With the plain view every image in the batch can be recognised."""
    config = configure({})
    split = open_world_split(DIGITS.labels, DIGITS.class_names, config)
    truth = split.targets(DIGITS.labels)
    plan, plain = plan_batches(split, 128), lambda images, generator: images.float()
    targets = torch.from_numpy(truth[split.labeled])
    batch = next(training_batches(IMAGES, targets, split, (plain,), plan, config, 0))
    expected = IMAGES[torch.from_numpy(split.unlabeled)[batch.unlabeled_positions]].float()
    assert torch.equal(batch.unlabeled_views[0], expected)
    pool = {tuple(IMAGES[i].flatten().tolist()): truth[i] for i in split.labeled}
    for image, target in zip(batch.labeled_views[0], batch.targets):
        assert pool[tuple(image.flatten().int().tolist())] == target


def test_starting_in_the_middle_of_an_epoch_gives_its_remaining_batches():
    whole, rest = epoch_of()[2], epoch_of(first_step=5)[2]
    assert len(rest) == len(whole) - 5
    for a, b in zip(whole[5:], rest):
        assert torch.equal(a.unlabeled_views[1], b.unlabeled_views[1]) and torch.equal(a.targets, b.targets)


def test_epochs_and_seeds_differ():
    first, other_epoch, other_seed = epoch_of()[2][0], epoch_of(epoch=4)[2][0], epoch_of(seed=1)[2][0]
    assert not torch.equal(first.unlabeled_positions, other_epoch.unlabeled_positions)
    assert not torch.equal(first.unlabeled_positions, other_seed.unlabeled_positions)
