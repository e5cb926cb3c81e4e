"""Compute the pseudo-labels of a batch: which rows are confident, and the class distribution that they add up to."""

import math
from typing import NamedTuple

from torch import Tensor

from lps.data.classes import Classes
from lps.methods.parts.losses import TINY
from lps.methods.parts.measurements import Ratio


class PseudoLabels(NamedTuple):
    """Per row: class id, confidence (largest probability), whether it is confident. Nothing carries a gradient."""

    labels: Tensor  # int64 (n,)
    confidence: Tensor  # float32 (n,)
    confident: Tensor  # bool (n,)


def pseudo_labels(probabilities: Tensor, threshold_seen, threshold_novel, classes: Classes) -> PseudoLabels:
    """Return pseudo-labels; a row is confident if its probability reaches the threshold of its label's group.

    probabilities: (n, classes.total). LPS paper, section 3: 0.95 for seen, 0.4 + 0.4 t/T for novel.
    """
    confidence, labels = probabilities.detach().max(dim=1)
    is_seen = labels < classes.seen
    confident = (is_seen & (confidence >= threshold_seen)) | (~is_seen & (confidence >= threshold_novel))
    return PseudoLabels(labels, confidence, confident)


def pseudo_label_rates(unlabeled: PseudoLabels, classes: Classes) -> dict[str, Ratio]:
    """Return share of confident rows and mean confidence among unlabeled rows predicted as seen, and as novel."""
    rates = {}
    is_seen = unlabeled.labels < classes.seen
    for group, rows in (("seen", is_seen), ("novel", ~is_seen)):
        rates[f"pseudo_label/rate/{group}"] = Ratio((unlabeled.confident & rows).sum(), rows.sum())
        rates[f"pseudo_label/confidence/{group}"] = Ratio((unlabeled.confidence * rows).sum(), rows.sum())
    return rates


def class_distribution(probabilities: Tensor, weights: Tensor) -> Tensor:
    """Return pi_hat (classes,): the mean of the rows' probabilities (n, classes), weighted by 0/1 `weights` (n,)."""
    weights = weights.to(probabilities.dtype)
    return (weights[:, None] * probabilities).sum(0) / weights.sum().clamp_min(1)


def distribution_measurements(pi_hat: Tensor, prior: Tensor | None = None) -> dict[str, Tensor]:
    """Return an estimated class distribution (classes,) and its KL to and from the prior; None: equal shares."""
    return {"pi_hat": pi_hat, "kl": kl_from_prior(pi_hat, prior), "kl/reverse": kl_from_estimate(pi_hat, prior)}


def kl_from_prior(estimate: Tensor, prior: Tensor | None = None) -> Tensor:
    """Return KL(q || p) = sum_k q_k log(q_k / p_k) of an estimate p (k,); large if a class is rarely predicted.

    prior q (k,): None is the uniform one, for which it is -log k - mean_k log p_k.
    """
    if prior is None:
        return -estimate.clamp_min(TINY).log().mean(-1) - math.log(estimate.shape[-1])
    return (prior * (prior.clamp_min(TINY).log() - estimate.clamp_min(TINY).log())).sum(-1)


def kl_from_estimate(estimate: Tensor, prior: Tensor | None = None) -> Tensor:
    """Return KL(p || q) = sum_k p_k log(p_k / q_k) of an estimate p (k,).

    prior q (k,): None is the uniform one, for which it is log k + sum_k p_k log p_k, at most log k.
    """
    if prior is None:
        return math.log(estimate.shape[-1]) + (estimate * estimate.clamp_min(TINY).log()).sum(-1)
    return (estimate * (estimate.clamp_min(TINY).log() - prior.clamp_min(TINY).log())).sum(-1)
