"""Every loss term against a naive float64 loop over rows, and its limits."""

import math

import numpy as np
import pytest
import torch

from lps.methods.parts.losses import (
    labeled_contrastive,
    margin_cross_entropy,
    nt_xent,
    similarities,
    supervised_contrastive,
    two_view_contrastive,
)


def random_logits(rows, classes, seed=0, scale=3.0):
    return torch.randn(rows, classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


def naive_similarity(vectors, temperature, normalize=True):
    rows = [np.array(v, float) for v in vectors.tolist()]
    if normalize:
        rows = [v / np.linalg.norm(v) for v in rows]
    return [[float(a @ b) / temperature for b in rows] for a in rows]


def naive_supervised(vectors, labels, chosen, temperature, variant):
    s = naive_similarity(vectors, temperature)
    members = [i for i, c in enumerate(chosen) if c]
    total = 0.0
    for a in members:
        positives = [b for b in members if b != a and labels[b] == labels[a]]
        if not positives:
            continue
        denominator = sum(math.exp(s[a][b]) for b in members if b != a)
        shares = [math.exp(s[a][b]) / denominator for b in positives]
        total += -math.log(sum(shares) / len(shares)) if variant == "in" else -np.mean(np.log(shares))
    return total / max(1, len(members))


def naive_two_view(vectors, chosen, temperature, normalizer):
    s, n = naive_similarity(vectors, temperature), len(vectors)
    terms = []
    for a in range(n):
        if chosen[a]:
            other = (a + n // 2) % n
            terms.append(-math.log(math.exp(s[a][other]) / sum(math.exp(s[a][b]) for b in range(n) if b != a)))
    return sum(terms) / (n if normalizer == "batch" else max(1, len(terms)))


def test_margin_cross_entropy_equals_its_definition():
    logits, targets = random_logits(7, 4), torch.tensor([0, 1, 2, 3, 0, 0, 3])
    margins = torch.tensor([0.5, 2.0, 0.0, 9.0])
    expected = []
    for z, y in zip(logits.tolist(), targets.tolist()):
        top = math.exp(z[y] + margins[y].item())
        expected.append(-math.log(top / (top + sum(math.exp(v) for k, v in enumerate(z) if k != y))))
    assert torch.allclose(margin_cross_entropy(logits, targets, margins), torch.tensor(expected), atol=1e-5)


@pytest.mark.parametrize("variant", ["in", "out"])
@pytest.mark.parametrize("temperature", [0.05, 0.1, 0.4])
def test_supervised_contrastive_equals_the_naive_loop(variant, temperature):
    vectors, labels = random_logits(14, 6), torch.randint(3, (14,), generator=torch.Generator().manual_seed(1))
    chosen = torch.rand(14, generator=torch.Generator().manual_seed(2)) < 0.6
    ours = supervised_contrastive(similarities(vectors, temperature), labels, chosen, variant)
    expected = naive_supervised(vectors, labels.tolist(), chosen.tolist(), temperature, variant)
    assert ours.item() == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("normalizer", ["batch", "subset"])
@pytest.mark.parametrize("temperature", [0.05, 0.1, 0.4])
def test_two_view_contrastive_equals_the_naive_loop(normalizer, temperature):
    vectors = random_logits(12, 6)
    chosen = torch.tensor([True, False, True, True, False, False] * 2)
    ours = two_view_contrastive(similarities(vectors, temperature), chosen, normalizer)
    expected = naive_two_view(vectors, chosen.tolist(), temperature, normalizer)
    assert ours.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_nt_xent_and_contrast_by_label_are_the_naive_loops_over_their_rows(temperature):
    first, second = random_logits(7, 5, seed=1), random_logits(7, 5, seed=2)
    everyone = naive_two_view(torch.cat([first, second]), [True] * 14, temperature, "batch")
    assert nt_xent(torch.cat([first, second]), temperature).item() == pytest.approx(everyone, rel=1e-4)

    targets, rows = torch.tensor([2, 0, 2, 1]), torch.cat([first[:4], second[:4]])
    expected = naive_supervised(rows, targets.tolist() * 2, [True] * 8, temperature, "out")
    ours = labeled_contrastive([first, second], targets, temperature)
    assert ours.item() == pytest.approx(expected, rel=1e-4)


def test_one_chosen_image_gives_no_pseudo_label_contrast():
    chosen = torch.tensor([True, False, False] * 2)  # its two views are each other's only company
    loss = supervised_contrastive(similarities(random_logits(6, 4), 0.4), torch.zeros(6, dtype=torch.long), chosen)
    assert loss.item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("normalizer", ["batch", "subset"])
def test_no_chosen_row_gives_zero_and_a_zero_gradient(normalizer):
    vectors = random_logits(8, 4).requires_grad_()
    nobody = torch.zeros(8, dtype=torch.bool)
    similarity = similarities(vectors, 0.05)
    loss = two_view_contrastive(similarity, nobody, normalizer)
    loss = loss + supervised_contrastive(similarity, torch.zeros(8, dtype=torch.long), nobody)
    loss.backward()
    assert loss.item() == 0 and torch.equal(vectors.grad, torch.zeros_like(vectors))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("temperature", [0.05, 0.1, 0.4])
def test_contrast_stays_finite_where_subtracting_the_diagonal_does_not(temperature, dtype):
    """64 images with 64 labels: every row's only positive is its other view; the logits are far apart."""
    for seed in range(5):
        vectors = random_logits(64, 10, seed, scale=10).to(dtype).repeat(2, 1).requires_grad_()
        similarity, everyone = similarities(vectors, temperature), torch.ones(128, dtype=torch.bool)
        loss = supervised_contrastive(similarity, torch.arange(64).repeat(2), everyone)
        loss = loss + two_view_contrastive(similarity, everyone)
        loss.backward()
        assert torch.isfinite(loss) and torch.isfinite(vectors.grad).all()
