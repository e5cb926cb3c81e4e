"""Compute loss terms as pure functions of tensors, in float32 whatever the network's precision.

Shapes: n rows, k classes. Masks are dense (0/1 weights multiply rows), so shapes do not depend on how many rows pass.
In a pair (two rows that count as the same class), the partner is the row index of the second one; the labeled rows of a
batch come first.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

TINY = 1e-8  # least share inside a logarithm
_MASKED = -1e30  # excludes an entry from a log-sum-exp; finite, so that its gradient is 0 and not NaN


def margin_cross_entropy(logits: Tensor, targets: Tensor, margins: Tensor) -> Tensor:
    """Return -log softmax of each row's target after `margins[target]` was added to its logit (LPS eq. for l_AM).

    logits (n, k), targets int64 (n,), margins (k,) of at least 0; returns (n,). Margins of 0 give plain cross-entropy.
    """
    logits = logits.float()
    target_margins = margins.to(logits.dtype)[targets]
    shift = torch.zeros_like(logits).scatter(1, targets[:, None], target_margins[:, None])
    return F.cross_entropy(logits + shift, targets, reduction="none")


def negative_entropy_of_mean(logits: Tensor, prior: Tensor | None = None) -> Tensor:
    """Return the entropy term of the mean prediction p (k,) against a prior q (k,); smallest for p = q.

    Without a prior: sum_k p_k log p_k = KL(p || u) - log k, u_k = 1 / k, the papers' term. With one: sum_k p_k log p_k
    - sum_k p_k log(k q_k) = KL(p || q) - log k; the constant changes no gradient and keeps the values of both
    comparable. Shares of q count as at least 1e-8 inside the logarithm.
    """
    mean = logits.float().softmax(dim=1).mean(dim=0)
    negative_entropy = (mean * mean.clamp_min(TINY).log()).sum()
    if prior is None:
        return negative_entropy
    return negative_entropy - (mean * (len(prior) * prior.clamp_min(TINY)).log()).sum()


def similarities(vectors: Tensor, temperature: float, normalize: bool = True) -> Tensor:
    """Return inner products of (n, d) rows over the temperature, float32 (n, n), with a masked diagonal."""
    vectors = vectors.float()
    if normalize:
        vectors = F.normalize(vectors, dim=1)
    with torch.autocast(vectors.device.type, enabled=False):
        products = vectors @ vectors.T / temperature
    return products.masked_fill(torch.eye(len(vectors), dtype=torch.bool, device=vectors.device), _MASKED)


def supervised_contrastive(similarity: Tensor, labels: Tensor, chosen: Tensor, variant: str = "in") -> Tensor:
    """Return the supervised contrastive loss among the chosen rows, mean over them; 0 if none is chosen.

    similarity (n, n) from `similarities`, labels (n,), chosen bool (n,). For an anchor a with positives P(a) (other
    chosen rows with its label): variant "in" is -log of the mean over P(a) of the softmax, "out" the mean of the -logs.
    """
    positive = (labels[:, None] == labels[None, :]) & chosen[None, :] & chosen[:, None]
    positive.fill_diagonal_(False)
    count = positive.sum(1)
    total = _logsumexp_of(similarity, chosen[None, :].expand_as(similarity))
    if variant == "in":
        of_positives = _logsumexp_of(similarity, positive) - count.clamp_min(1).log()
    else:
        of_positives = torch.where(positive, similarity, 0.0).sum(1) / count.clamp_min(1)
    anchors = chosen & (count > 0)
    per_row = torch.where(anchors, total - of_positives, 0.0)
    return per_row.sum() / chosen.sum().clamp_min(1)


def _logsumexp_of(values: Tensor, included: Tensor) -> Tensor:
    """Return log sum exp over the included columns of every row, (n, n) bool; a finite dummy for a row without any.

    Excluded entries are minus infinity, since a CPU takes four times as long for the exponential of a large finite
    number. A row without any has to stay finite, or its gradient would be NaN.
    """
    outside = torch.where(included.any(dim=1, keepdim=True), -torch.inf, _MASKED)
    return torch.where(included, values, outside).logsumexp(dim=1)


def two_view_contrastive(similarity: Tensor, chosen: Tensor, normalizer: str = "batch") -> Tensor:
    """Return NT-Xent over the chosen rows of two stacked views; the positive of a row is its other view.

    similarity (2b, 2b), chosen bool (2b,). The denominator runs over all other rows; the sum over chosen rows is
    divided by 2b ("batch") or by the number of chosen rows ("subset"); 0 if none is chosen.
    """
    rows = len(similarity)
    partner = torch.arange(rows, device=similarity.device).roll(rows // 2)
    per_row = similarity.logsumexp(dim=1) - similarity.gather(1, partner[:, None]).squeeze(1)
    total = torch.where(chosen, per_row, 0.0).sum()
    return total / rows if normalizer == "batch" else total / chosen.sum().clamp_min(1)


def nt_xent(projections: Tensor, temperature: float) -> Tensor:
    """Return the mean over 2n rows (two stacked views) of the cross-entropy of finding the other view."""
    all_rows = torch.ones(len(projections), dtype=torch.bool, device=projections.device)
    return two_view_contrastive(similarities(projections, temperature), all_rows)


def labeled_contrastive(projections: list[Tensor], targets: Tensor, temperature: float) -> Tensor:
    """Return the contrastive loss by label among labeled rows of all views; the mean over positives is outside the log.

    projections: one (n, d) per view, targets int64 (labeled,).
    """
    similarity = similarities(labeled_rows(projections, targets), temperature)
    all_rows = torch.ones(len(similarity), dtype=torch.bool, device=similarity.device)
    return supervised_contrastive(similarity, targets.repeat(len(projections)), all_rows, variant="out")


def labeled_rows(views: list[Tensor], targets: Tensor) -> Tensor:
    """Return the labeled rows, first in each view, of all views (views * labeled, d), one view after the other."""
    return torch.cat([view[: len(targets)] for view in views])


# ------------------------------------------------------------------------------- pairs of rows of the same class


def pair_partners(similarity: Tensor, targets: Tensor) -> Tensor:
    """Return int64 (n,): another row of the same class for labeled rows, the nearest other row for unlabeled ones.

    similarity (n, n) with the diagonal masked out (`similarities`), targets int64 (labeled,).
    """
    return torch.cat([same_class_partners(targets), similarity[len(targets) :].argmax(dim=1)])


def same_class_partners(targets: Tensor) -> Tensor:
    """Return int64 (n,): the next row of the same class, cyclic in the batch; the row itself if it is alone.

    Rows come in random order, so the next one is each of the others with the same probability. This equals the
    original's random partner, without a loop and without a random number that a resumed run would have to repeat.
    """
    n = len(targets)
    rows = torch.arange(n, device=targets.device)
    distance = (rows[None, :] - rows[:, None] - 1) % n  # of row j behind row i; i itself comes last
    return distance.masked_fill(targets[:, None] != targets[None, :], n).argmin(dim=1)


def pair_loss(first_logits: Tensor, second_logits: Tensor, partners: Tensor) -> Tensor:
    """Return -mean_i log sum_k p_ik q_{partner(i) k}, p and q the softmax of two views' logits (n, k).

    Binary cross-entropy of positive pairs, in log space: a pair of probability 0 has a finite loss and a gradient, and
    no product can round above 1.
    """
    first, second = first_logits.float().log_softmax(dim=1), second_logits.float().log_softmax(dim=1)
    return -(first + second[partners]).logsumexp(dim=1).mean()
