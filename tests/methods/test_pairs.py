"""Partners against a search row by row, and the pairs' loss against its definition and PyTorch's own cross-entropy."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scenes import naive_partners, softmax

from lps.methods.parts.losses import pair_loss, pair_partners, same_class_partners, similarities


def draw(labeled, unlabeled, seed=0, width=6):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(labeled + unlabeled, width, generator=generator)
    return features, torch.randint(3, (labeled,), generator=generator)


@pytest.mark.parametrize("labeled, unlabeled", [(1, 1), (1, 9), (7, 1), (12, 20)])
def test_partners_are_those_of_a_search(labeled, unlabeled):
    for seed in range(4):
        features, targets = draw(labeled, unlabeled, seed)
        partners = pair_partners(similarities(features, 1.0), targets)
        assert partners.tolist() == naive_partners(features.numpy(), targets.tolist()), seed


def test_a_labeled_row_gets_another_of_its_class_and_only_a_single_one_itself():
    targets = torch.tensor([0, 1, 0, 2, 1, 0])
    assert same_class_partners(targets).tolist() == [2, 4, 5, 3, 1, 0]
    assert same_class_partners(torch.zeros(4, dtype=torch.int64)).tolist() == [1, 2, 3, 0]
    assert same_class_partners(torch.arange(5)).tolist() == [0, 1, 2, 3, 4]


def test_a_duplicate_is_a_neighbour_and_the_row_itself_never_is():
    features = torch.tensor([[1.0, 0], [0, 1], [0, 1], [0, 1], [0, 0]])
    partners = pair_partners(similarities(features, 1.0), torch.tensor([0]))
    assert (partners != torch.arange(5))[1:].all() and set(partners[1:4].tolist()) <= {1, 2, 3}


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_the_cross_entropy_of_positive_pairs(seed):
    generator = torch.Generator().manual_seed(seed)
    first, second = (torch.randn(7, 5, generator=generator) * 3 for _ in range(2))
    partners = torch.randint(7, (7,), generator=generator)
    naive = -np.mean([math.log(softmax(first[i]) @ softmax(second[j])) for i, j in enumerate(partners.tolist())])
    products = (first.softmax(1) * second.softmax(1)[partners]).sum(1)
    loss = pair_loss(first, second, partners).item()
    assert loss == pytest.approx(naive, rel=1e-6)
    assert loss == pytest.approx(F.binary_cross_entropy(products, torch.ones(7)).item(), rel=1e-5)


def test_certain_agreement_costs_nothing_and_certain_disagreement_is_finite_with_a_gradient():
    """Where products of probabilities would round above 1, or be 0."""
    same = torch.tensor([[20.0, 0, 0, 0], [0, 20.0, 0, 0]]).requires_grad_()
    agreed = pair_loss(same, same, torch.tensor([0, 1]))
    assert agreed.item() == pytest.approx(0, abs=1e-6)
    far = (same.detach() * 20).requires_grad_()
    apart = pair_loss(far, far, torch.tensor([1, 0]))
    (agreed + apart).backward()
    assert apart.item() == pytest.approx(400 - math.log(2), rel=1e-5)
    assert torch.isfinite(same.grad).all() and far.grad.abs().sum() > 0.1


def test_both_halves_of_a_pair_carry_gradient():
    first, second = (torch.randn(3, 4, generator=torch.Generator().manual_seed(s)).requires_grad_() for s in (0, 1))
    pair_loss(first, second, torch.tensor([1, 2, 0])).backward()
    assert (first.grad.abs().sum(1) > 0).all() and (second.grad.abs().sum(1) > 0).all()
    first, second = (t.detach().requires_grad_() for t in (first, second))
    pair_loss(first, second, torch.tensor([1, 1, 1])).backward()
    assert second.grad[0].abs().sum() == 0 < second.grad[1].abs().sum()
