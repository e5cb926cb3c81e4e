"""Thresholds, the estimated class distribution and both directions of the KL."""

import math

import pytest
import torch

from lps.data.classes import Classes
from lps.methods.parts.pseudo_labels import class_distribution, kl_from_estimate, kl_from_prior, pseudo_labels


def test_each_group_has_its_own_threshold():
    probabilities = torch.tensor(
        [[0.9, 0.05, 0.05], [0.96, 0.02, 0.02], [0.3, 0.2, 0.5], [0.35, 0.3, 0.35], [0.2, 0.2, 0.6]]
    )
    found = pseudo_labels(probabilities, 0.95, 0.5, Classes(seen=2, total=3))
    assert found.labels.tolist()[:3] == [0, 0, 2] and found.labels[4] == 2
    assert found.confident.tolist() == [False, True, True, False, True]


def test_class_distribution_is_the_mean_of_the_chosen_rows():
    probabilities = torch.rand(9, 4).softmax(1)
    chosen = torch.tensor([True, False, True, True, False, False, True, False, True])
    assert torch.allclose(class_distribution(probabilities, chosen), probabilities[chosen].mean(0))
    assert torch.equal(class_distribution(probabilities, torch.zeros(9)), torch.zeros(4))


def test_a_class_without_mass_keeps_both_directions_finite():
    p = torch.tensor([1.0, 0.0])
    assert torch.isfinite(kl_from_prior(p)) and kl_from_estimate(p).item() == pytest.approx(math.log(2), rel=1e-5)


def test_the_text_and_the_code_differ_as_the_reference_says():
    """90 % of the mass on half of 100 classes: a shift of 5.1 in the code's direction, 3.7 in the text's (C = 10)."""
    p = torch.cat([torch.full((50,), 0.9 / 50), torch.full((50,), 0.1 / 50)])
    assert 10 * kl_from_prior(p).item() == pytest.approx(5.1, abs=0.05)
    assert 10 * kl_from_estimate(p).item() == pytest.approx(3.7, abs=0.05)
