"""The NumPy formulas of the Explain page against the method's own torch code, closed forms and naive loops."""

import itertools
import math

import numpy as np
import pytest
import torch

from lps.data.classes import Classes
from lps.methods import Progress
from lps.methods.lps import LPS, MIN_SHARE
from lps.methods.parts.losses import margin_cross_entropy
from lps.methods.parts.pseudo_labels import TINY, kl_from_estimate, kl_from_prior, pseudo_labels
from lps.scores import margin_math
from lps.scores.purity import adoption

DIRECTIONS = (margin_math.PRIOR_FIRST, margin_math.ESTIMATE_FIRST)


def distributions():
    """Even and uneven ones, of few and many classes, some with classes that get nothing at all."""
    random = np.random.default_rng(3)
    drawn = [random.dirichlet(np.full(k, spread)) for k in (2, 10, 100) for spread in (0.05, 1.0, 50.0)]
    return [*drawn, np.array([1.0, 0, 0, 0]), np.array([0.5, 0.5, 0, 0]), np.full(7, 1 / 7)]


def method(**settings) -> LPS:
    return LPS(None, Classes(2, 4), **settings)


@pytest.mark.parametrize("pi_hat", distributions(), ids=len)
def test_divergences_are_those_of_training(pi_hat):
    tensor = torch.tensor(pi_hat)
    assert margin_math.TINY == TINY
    np.testing.assert_allclose(margin_math.kl_from_prior(pi_hat), kl_from_prior(tensor).item(), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        margin_math.kl_from_estimate(pi_hat), kl_from_estimate(tensor).item(), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("scale", [0.0, 1.0, 10.0])
def test_margins_are_those_of_training(direction, scale):
    assert margin_math.MIN_SHARE == MIN_SHARE
    trained, random = method(margin_scale=scale, kl_direction=direction), np.random.default_rng(9)
    for pi_hat in distributions():
        for prior in (None, random.dirichlet(np.ones(len(pi_hat)))):
            trained.class_prior = None if prior is None else torch.tensor(prior)
            expected = trained.margins(torch.tensor(pi_hat)).numpy()
            got = margin_math.margins(pi_hat, margin_math.kl(pi_hat, direction, prior), scale, prior)
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)
            trained.class_prior = None if prior is None else torch.tensor(prior, dtype=torch.float32)
            single = trained.margins(torch.tensor(pi_hat, dtype=torch.float32)).numpy()  # what a run records
            np.testing.assert_allclose(got, single, rtol=2e-5, atol=2e-5)


def test_loss_and_gradient_are_those_of_training():
    random = np.random.default_rng(0)
    for k, margin in itertools.product((2, 10, 100), (0.0, 0.7, 16.0)):
        logits, target = random.normal(0, 3, k), int(random.integers(k))
        tensor = torch.tensor(logits, dtype=torch.float32, requires_grad=True)
        margins = torch.zeros(k).index_fill(0, torch.tensor([target]), margin)
        (loss,) = margin_cross_entropy(tensor[None], torch.tensor([target]), margins)
        (expected,) = torch.autograd.grad(loss, tensor)
        np.testing.assert_allclose(margin_math.cross_entropy(logits, target, margin), loss.item(), rtol=1e-5, atol=2e-6)
        got = margin_math.cross_entropy_gradient(logits, target, margin)
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(margin_math.softmax(logits), torch.tensor(logits).softmax(0).numpy(), rtol=1e-12)


def test_threshold_is_that_of_training():
    epochs, steps = 8, 5
    by_epoch, by_step = method(), method(threshold_clock="iteration")
    for epoch in range(epochs):
        moments = [Progress(epoch, epochs, step, steps) for step in range(steps)]
        assert margin_math.threshold_novel(margin_math.done_in_epoch(epoch + 1, epochs)) == by_epoch.threshold_novel(
            moments[0]
        )
        recorded = np.mean([by_step.threshold_novel(moment) for moment in moments])
        got = margin_math.threshold_novel(margin_math.done_in_epoch(epoch + 1, epochs, "iteration"))
        # the mean over the steps of an epoch lies half a step before its middle
        assert got - recorded == pytest.approx(0.4 * 0.5 / (steps * epochs))


def test_who_passes_is_who_passes_in_training():
    random = np.random.default_rng(1)
    classes = Classes(3, 6)
    probabilities = random.dirichlet(np.full(6, 0.3), 500)
    found = pseudo_labels(torch.tensor(probabilities), 0.9, 0.5, classes)
    predicted, confidence = found.labels.numpy(), found.confidence.numpy()
    got = adoption(predicted, confidence, np.full(500, -1), classes, {"seen": 0.9, "novel": 0.5})
    for group, rows in (("seen", predicted < 3), ("novel", predicted >= 3)):
        assert got[group].images == rows.sum()
        assert got[group].passing == (rows & found.confident.numpy()).sum() > 0
        assert got[group].purity is None  # nobody knows


@pytest.mark.parametrize("k", [2, 7, 10, 100])
def test_at_the_prior_everything_is_exactly_zero(k):
    random = np.random.default_rng(k)
    for prior in (None, random.dirichlet(np.ones(k))):
        pi_hat = margin_math.uniform(k) if prior is None else prior
        for direction in DIRECTIONS:
            assert margin_math.kl(pi_hat, direction, prior) == 0
            assert not margin_math.margins(pi_hat, margin_math.kl(pi_hat, direction, prior), 10, prior).any()


def test_divergences_of_a_single_class():
    only = np.eye(5)[2]
    assert margin_math.kl_from_estimate(only) == pytest.approx(math.log(5))
    assert margin_math.kl_from_prior(only) == pytest.approx(-math.log(5) - 4 / 5 * math.log(margin_math.TINY))


def test_divergences_from_any_prior_by_a_loop():
    random = np.random.default_rng(5)
    prior, pi_hat = random.dirichlet(np.ones(6), 2)
    forward = sum(p * math.log(p / q) for p, q in zip(prior, pi_hat))
    backward = sum(q * math.log(q / p) for p, q in zip(prior, pi_hat))
    assert margin_math.kl(pi_hat, margin_math.PRIOR_FIRST, prior) == pytest.approx(forward)
    assert margin_math.kl(pi_hat, margin_math.ESTIMATE_FIRST, prior) == pytest.approx(backward)
    assert forward != pytest.approx(backward)
    order = random.permutation(6)
    assert margin_math.kl_from_prior(pi_hat[order], prior[order]) == pytest.approx(forward)


def test_a_class_that_should_not_be_there_does_not_break_a_prior():
    assert margin_math.kl_from_prior(np.array([0.25, 0.5, 0.25]), np.array([0.5, 0.5, 0])) == pytest.approx(
        0.5 * math.log(2)
    )


def test_the_most_frequent_class_has_the_whole_margin():
    pi_hat = np.array([0.4, 0.3, 0.2, 0.1])
    np.testing.assert_allclose(margin_math.margins(pi_hat, 0.25, 8), [2.0, 1.5, 1.0, 0.5])


def test_classes_that_are_predicted_too_often_by_one_factor_are_held_back_alike():
    prior = np.array([0.6, 0.2, 0.1, 0.1])
    pi_hat = prior * [1.2, 1.2, 0.2, 0.2]
    np.testing.assert_allclose(margin_math.margins(pi_hat, 0.5, 2, prior), [1, 1, 1 / 6, 1 / 6])
    equal = margin_math.uniform(4)
    np.testing.assert_allclose(margin_math.margins(pi_hat, 0.5, 2, equal), margin_math.margins(pi_hat, 0.5, 2))


def test_a_class_that_should_hardly_be_there_does_not_take_the_margin_from_others():
    prior, pi_hat = np.array([0.5, 0.4999, 0.0001]), np.array([0.6, 0.39, 0.01])
    held_back = margin_math.margins(pi_hat, 1, 1, prior)
    assert held_back[0] == held_back.max() == 1, "a hundred times too often, but of a batch that is chance"


def test_the_margin_of_an_image_multiplies_its_odds():
    logits, margin = np.array([0.3, -1.0, 2.0]), 0.7
    before, after = (margin_math.probabilities(logits, 0, m)[0] for m in (0, margin))
    assert after / (1 - after) == pytest.approx(np.exp(margin) * before / (1 - before))


def test_gradient_by_differences():
    logits, step = np.array([0.3, -1.0, 2.0, 0.1]), 1e-6
    for target, margin in itertools.product(range(4), (0.0, 1.5)):
        slopes = []
        for change in step * np.eye(4):
            above, below = (margin_math.cross_entropy(z, target, margin) for z in (logits + change, logits - change))
            slopes.append((above - below) / 2 / step)
        np.testing.assert_allclose(margin_math.cross_entropy_gradient(logits, target, margin), slopes, atol=1e-8)


def test_large_logits_stay_finite():
    logits = np.array([1e4, 0.0, -1e4])
    assert margin_math.cross_entropy(logits, 2, 16.0) == pytest.approx(2e4 - 16)
    np.testing.assert_array_equal(margin_math.softmax(logits), [1, 0, 0])


def test_an_example_image_has_the_probability_that_was_asked_for():
    pi_hat = np.array([0.6, 0.3, 0.1, 0.0])
    shares = margin_math.softmax(margin_math.example_logits(pi_hat, 1, 0.4))
    np.testing.assert_allclose(shares, [0.6 * 6 / 7, 0.4, 0.6 / 7, 0], atol=1e-7)
    assert pi_hat[1] == 0.3  # untouched


def test_pull_is_the_ratio_of_the_gradients_at_the_target():
    pi_hat = np.array([0.5, 0.2, 0.2, 0.1])
    for target, sure, margin in itertools.product(range(4), (0.01, 0.4, 0.99), (0.0, 1.0, 30.0)):
        logits = margin_math.example_logits(pi_hat, target, sure)
        with_margin, without = (margin_math.cross_entropy_gradient(logits, target, m)[target] for m in (margin, 0.0))
        assert margin_math.pull_left(sure, margin) == pytest.approx(with_margin / without, abs=1e-9)
    pulls = margin_math.pull_left(0.4, np.array([0.0, 1.0, 2.0]))
    assert pulls[0] == 1 and pulls[0] > pulls[1] > pulls[2]  # a larger margin slows a class down


def right_by_brute_force(predicted, truth, passing, classes):
    """Rows called novel that pass and are right, under the best of all one-to-one maps from novel ids to classes."""
    novel = range(classes.seen, classes.total)
    best = max(
        (dict(zip(novel, order)) for order in itertools.permutations(novel)),
        key=lambda mapped: sum(mapped.get(p) == t for p, t in zip(predicted, truth) if t >= classes.seen),
    )
    return sum(best.get(p) == t for p, t in zip(predicted[passing], truth[passing]))


def test_purity_by_brute_force():
    random, classes = np.random.default_rng(2), Classes(2, 6)
    truth = random.integers(0, 6, 300)
    renamed = np.array([0, 1, 4, 5, 3, 2])[truth]
    predicted = np.where(random.random(300) < 0.7, renamed, random.integers(0, 6, 300))
    confidence = random.random(300)
    got = adoption(predicted, confidence, truth, classes, {"seen": 0.8, "novel": 0.4})
    seen, novel = (predicted < 2) & (confidence >= 0.8), (predicted >= 2) & (confidence >= 0.4)
    assert (got["seen"].passing, got["seen"].right) == (seen.sum(), (predicted[seen] == truth[seen]).sum())
    assert got["novel"].right == right_by_brute_force(predicted, truth, novel, classes)
    assert got["novel"].right > 1.5 * (predicted[novel] == truth[novel]).sum()  # without the matching few are right
    assert got["novel"].right + got["novel"].wrong == novel.sum()


def test_images_of_unknown_truth_are_not_judged():
    predicted, truth = np.array([0, 0, 3, 3]), np.array([0, -1, 2, -1])
    got = adoption(predicted, np.ones(4), truth, Classes(2, 4), {"novel": 0.5})
    assert set(got) == {"novel"}
    assert (got["novel"].passing, got["novel"].right, got["novel"].wrong) == (2, 1, 0)


def test_nobody_is_called_novel():
    got = adoption(np.zeros(3, int), np.ones(3), np.array([0, 2, 2]), Classes(2, 4), {"seen": 0.5, "novel": 0.5})
    assert got["novel"].rate is None and got["novel"].purity is None
    assert got["seen"].purity == pytest.approx(1 / 3)
