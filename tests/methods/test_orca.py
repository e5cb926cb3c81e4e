"""ORCA's terms against a naive float64 transcription of section 2 of the reference, row by row."""

import math

import numpy as np
import pytest
import torch
from scenes import inference, naive_partners, scene, softmax

from lps.methods import Progress

START = Progress(epoch=0, epochs=20, step=0, steps=10)


def orca(uncertainty=0.3, **options):
    method, batch = scene("orca", views=2, **options)
    method.uncertainty.fill_(uncertainty)
    return method, batch


def naive(method, batch, shift):
    z1, z2 = method.network.logits.detach().double().numpy()
    features, targets = method.network.features[0].detach().numpy(), batch.targets.tolist()
    labeled, rows = len(targets), len(z1)
    partners = naive_partners(features, targets)
    supervised = 0.0
    for i, y in enumerate(targets):
        top = math.exp(z1[i][y] + shift)
        supervised -= math.log(top / (top + sum(math.exp(z) for j, z in enumerate(z1[i]) if j != y))) / labeled
    pairs = -sum(math.log(softmax(z1[i]) @ softmax(z2[partners[i]])) for i in range(rows)) / rows
    mean = sum(softmax(row) for row in z1) / rows
    return {
        "loss/cross_entropy": supervised,
        "loss/pairwise": method.pairwise_weight * pairs,
        "loss/entropy": method.entropy_weight * float(np.sum(mean * np.log(mean))),
        "pi_hat": mean,
    }


@pytest.mark.parametrize("uncertainty, shift", [(0.0, 0.0), (0.3, 3.0), (0.5, 5.0), (0.9, 5.0)])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_term_equals_the_naive_one(uncertainty, shift, seed):
    method, batch = orca(uncertainty, seed=seed, pairwise_weight=0.7, entropy_weight=2.0)
    _, measured = method.loss(batch, START)
    for name, value in naive(method, batch, shift).items():
        assert np.allclose(measured[name], value, rtol=1e-5, atol=1e-6), name
    assert measured["margin"].tolist() == pytest.approx([shift] * 3 + [0] * 3)
    assert measured["uncertainty"].item() == pytest.approx(uncertainty)


def test_uncertainty_is_one_minus_the_mean_confidence_of_unlabeled_images_alone():
    method, _ = orca()
    unlabeled = torch.tensor([[0.0] * 6, [100.0, 0, 0, 0, 0, 0], [math.log(3), *[-math.inf] * 4, 0.0]])
    with torch.inference_mode():
        seen = inference(torch.full((4, 6), torch.nan), unlabeled.clone(), torch.zeros(4, dtype=torch.int64))
    with torch.no_grad():
        method.start_epoch(seen, START)
    assert method.uncertainty.item() == pytest.approx(1 - (1 / 6 + 1 + 3 / 4) / 3)
    assert not method.uncertainty.is_inference()


def test_gradient_goes_through_both_views_of_a_pair_and_not_through_neighbours():
    method, batch = orca(entropy_weight=0.0)
    method.loss(batch, START)[0].backward()
    first, second = method.network.logits.grad
    partners = set(naive_partners(method.network.features[0].detach().numpy(), batch.targets.tolist()))
    assert (first.abs().sum(1) > 0).all()
    assert {i for i, row in enumerate(second.abs().sum(1)) if row > 0} == partners
    assert method.network.features.grad is None
