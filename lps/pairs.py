"""Pairs of rows that are taken to show the same class, and the loss that makes their predictions agree.

Shapes: n rows of a batch, the labeled ones first; a partner is the row index of the other half of the pair.
"""

import torch
from torch import Tensor


def pair_partners(similarity: Tensor, targets: Tensor) -> Tensor:
    """int64 (n,): another row of the same class for labeled rows, the nearest other row for unlabeled ones.

    similarity (n, n) with the diagonal masked out (`losses.similarities`), targets int64 (labeled,).
    """
    return torch.cat([same_class_partners(targets), similarity[len(targets) :].argmax(dim=1)])


def same_class_partners(targets: Tensor) -> Tensor:
    """int64 (n,): the next row of the same class, around the end of the batch; the row itself where it is alone.

    Rows come in random order, so the next one is each of the others with the same probability. That is the original's
    random partner, with no loop and no random number that a resumed run would have to repeat.
    """
    n = len(targets)
    rows = torch.arange(n, device=targets.device)
    distance = (rows[None, :] - rows[:, None] - 1) % n  # of row j behind row i; i itself comes last
    return distance.masked_fill(targets[:, None] != targets[None, :], n).argmin(dim=1)


def pair_loss(first_logits: Tensor, second_logits: Tensor, partners: Tensor) -> Tensor:
    """-mean_i log sum_k p_ik q_{partner(i) k}, p and q the softmax of two views' logits (n, k).

    Binary cross-entropy of positive pairs. In log space: a pair of probability 0 has a finite loss and a gradient, and
    no product can round above 1.
    """
    first, second = first_logits.float().log_softmax(dim=1), second_logits.float().log_softmax(dim=1)
    return -(first + second[partners]).logsumexp(dim=1).mean()
