"""NACH's terms, filter and thresholds against naive float64 loops over section 3 of the reference."""

import itertools
import math

import numpy as np
import pytest
import torch
from scenes import CLASSES, naive_partners, scene, softmax, value

from lps.data.classes import Classes
from lps.methods import Progress
from lps.methods.nach import filtered_partners, logit_adjusted_cross_entropy
from lps.methods.parts.losses import similarities
from lps.methods.parts.pseudo_labels import PseudoLabels

START = Progress(epoch=0, epochs=20, step=0, steps=10)
SOME = {"threshold_seen": 0.9, "gap_start": 0.1}  # thresholds that some rows of a scene pass and some do not


def naive_filter(features, targets, rank):
    """(partners, kept): a loop over the unlabeled rows."""
    labeled, rows = len(targets), len(features)
    unit = [f / np.linalg.norm(f) for f in np.asarray(features, np.float64)]
    partners, kept = naive_partners(features, targets), []
    for i in range(labeled, rows):
        j = partners[i]
        to_labeled = sorted((1.0 if a == j else unit[j] @ unit[a] for a in range(labeled)), reverse=True)
        kept.append(bool(unit[i] @ unit[j] >= to_labeled[min(rank, labeled) - 1]))
        partners[i] = j if kept[-1] else i
    return partners, kept


def naive(method, batch, gap, pairwise=1.0, pseudo=1.0, entropy=1.0):
    z1, z2, z3 = method.network.logits.detach().double().numpy()
    features, targets = method.network.features[0].detach().numpy(), batch.targets.tolist()
    labeled, rows, k = len(targets), len(z1), z1.shape[1]
    partners, kept = naive_filter(features, targets, method.filter_rank)
    q = [softmax(row) for row in z2]
    label = [int(np.argmax(row)) for row in q]
    novel = method.threshold_seen - min(method.gap_scale * gap, method.gap_cap)
    mask = [row[y] >= (method.threshold_seen if y < CLASSES.seen else novel) for row, y in zip(q, label)]
    pi = sum(row for row, chosen in zip(q, mask) if chosen) / sum(mask)
    adjusted = [-math.log(softmax(z3[i] + np.log(pi * k))[label[i]]) for i in range(rows)]
    mean = sum(softmax(row) for row in z1) / rows
    return {
        "loss/cross_entropy": -sum(math.log(softmax(z1[i])[y]) for i, y in enumerate(targets)) / labeled,
        "loss/pairwise": -pairwise * sum(math.log(softmax(z1[i]) @ q[partners[i]]) for i in range(rows)) / rows,
        "loss/logit_adjusted": pseudo * sum(term for term, chosen in zip(adjusted, mask) if chosen) / rows,
        "loss/entropy": entropy * float(np.sum(mean * np.log(mean))),
        "threshold/novel": novel,
        "pair/rejected": 1 - np.mean(kept),
        "pi_hat": pi,
        "kl": -math.log(k) - np.mean(np.log(pi)),
    }, mask


WEIGHTS = {"pairwise_weight": 2.0, "pseudo_label_weight": 3.0, "entropy_weight": 0.5}


@pytest.mark.parametrize("rank", [1, 2, 3, 50])
@pytest.mark.parametrize("options, constants", [({}, {}), (WEIGHTS, dict(pairwise=2, pseudo=3, entropy=0.5))])
def test_every_term_equals_the_naive_one(rank, options, constants):
    method, batch = scene("nach", views=3, filter_rank=rank, **SOME, **options)
    _, measured = method.loss(batch, START)
    expected, mask = naive(method, batch, gap=0.1, **constants)
    assert any(mask) and not all(mask)
    for name, number in expected.items():
        assert np.allclose(value(measured[name]), number, rtol=1e-4, atol=1e-5), name


def test_the_filter_compares_with_the_second_nearest_of_up_to_ten_classes_and_with_the_nearest_of_more():
    ranks = [scene("nach", views=3, classes=Classes(5, total))[0].filter_rank for total in (9, 10, 11, 100)]
    assert ranks == [2, 2, 1, 1]


def test_the_filter_is_that_of_a_loop():
    for seed, rank, labeled in itertools.product(range(4), [1, 2, 3, 1000], [1, 2, 8]):
        generator = torch.Generator().manual_seed(seed)
        features = torch.randn(labeled + 12, 3, generator=generator)
        targets = torch.randint(3, (labeled,), generator=generator)
        partners, kept = filtered_partners(similarities(features, 1.0), targets, rank)
        expected, expected_kept = naive_filter(features.numpy(), targets.tolist(), rank)
        assert partners.tolist() == expected and kept.tolist() == expected_kept, (seed, rank, labeled)


def test_a_balanced_estimate_adjusts_nothing_and_a_starved_class_costs_more():
    logits = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    predicted = PseudoLabels(torch.tensor([0, 5, 5, 2]), torch.ones(4), torch.tensor([True, True, False, True]))
    balanced = logit_adjusted_cross_entropy(logits, predicted, torch.full((6,), 1 / 6)).item()
    plain = torch.nn.functional.cross_entropy(logits[[0, 1, 3]], torch.tensor([0, 5, 2]), reduction="sum").item() / 4
    assert balanced == pytest.approx(plain, rel=1e-5)
    starved = logit_adjusted_cross_entropy(logits, predicted, torch.tensor([0.3, 0.3, 0.2, 0.1, 0.1, 0.0]))
    assert balanced < starved.item() < math.inf


def test_thresholds_follow_the_gap():
    method, _ = scene("nach", views=3)
    for gap, threshold in ((1.0, 0.45), (0.25, 0.45), (0.1, 0.75), (0.0, 0.95), (-0.01, 0.97)):
        method.pace_gap.fill_(gap)
        assert method.threshold_novel().item() == pytest.approx(threshold)


def sharp(labels, confidence):
    """Logits whose softmax is `confidence` at the label."""
    logits = torch.zeros(len(labels), 6)
    logits[range(len(labels)), labels] = torch.tensor(confidence).logit() + math.log(5)
    return logits


def test_the_gap_is_that_of_the_batch_means_of_the_last_epoch():
    """Batch 1: seen 0.9, 0.7, novel 0.5; batch 2: seen 0.6 and no novel row. Gap (0.8 + 0.6) / 2 - 0.5."""
    method, batch = scene("nach", views=3, labeled=1, unlabeled=2)
    method.start_epoch(None, START)
    assert method.pace_gap == 1
    for labels, confidence in (([0, 1, 4], [0.9, 0.7, 0.5]), ([0, 1, 2], [0.6, 0.6, 0.6])):
        with torch.no_grad():
            method.network.logits[1] = sharp(labels, confidence)
        assert method.loss(batch, START)[1]["pace_gap"] == 1
    method.start_epoch(None, START)
    assert method.pace_gap.item() == pytest.approx(0.2, abs=1e-6)
    assert method.confidence_sum.tolist() == method.confidence_steps.tolist() == [0, 0]


def test_an_epoch_without_a_novel_prediction_leaves_the_gap_wide_and_finite():
    method, batch = scene("nach", views=3)
    with torch.no_grad():
        method.network.logits[..., CLASSES.seen :] = -30
    measured = method.loss(batch, START)[1]
    assert measured["pseudo_label/rate/novel"].denominator == 0
    method.start_epoch(None, START)
    assert 0.25 < method.pace_gap <= 1 and method.threshold_novel().item() == pytest.approx(0.45)


def test_pseudo_labels_and_neighbours_carry_no_gradient():
    method, batch = scene("nach", views=3, pairwise_weight=0.0, entropy_weight=0.0, **SOME)
    method.loss(batch, START)[0].backward()
    first, second, strong = method.network.logits.grad
    mask = naive(method, batch, gap=0.1)[1]
    assert first[:5].abs().sum() > 0 and first[5:].abs().sum() == 0 and second.abs().sum() == 0
    assert [bool(row > 0) for row in strong.abs().sum(1)] == mask
    assert method.network.features.grad is None
