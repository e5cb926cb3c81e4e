"""Update the class prior q (classes,) in a method's `class_prior` every few epochs.

The losses that use q: `negative_entropy_of_mean`, `kl_from_prior`, and the Deviations of each method. The prior at the
start of a run, and priors that never change: `lps.data.class_shares`.

Each estimate counts n_k images of class k among N and adds one to each class, so that no share is 0: q_k = (n_k + 1) /
(N + K).

Given and true shares stay as they are, but a model does not know which of its novel ids is which class: the largest
novel share goes to the novel id that is predicted most often, and so on. Of all assignments this one has the least
total variation from the predictions.
"""

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from lps.data.classes import Classes
from lps.methods import Inference, Method
from lps.methods.parts.clustering import kmeans
from lps.settings.config import Config

_MAX_CLUSTERED = 20_000  # clustered images, evenly spread over all: the standard error of a share of 0.1 is then 0.002
_RESTARTS = 3  # of k-means


@torch.no_grad()
def refresh_prior(method: Method, inference: Inference, config: Config, epoch: int) -> None:
    """Update the method's prior in every epoch (0-based) that `prior.every` divides.

    In the first epoch clusters exist already, but predictions are not reliable yet.
    """
    if epoch % config.prior_every or config.prior in ("uniform", "labeled"):
        return
    if config.prior == "estimated":
        _set_prior(method, cluster_counts(method, inference))
    elif epoch > 0 and config.prior == "confident":
        _set_prior(method, confident_counts(method, inference, config.prior_confidence))
    elif epoch > 0:
        seen, total = method.classes.seen, method.classes.total
        method.class_prior[seen:] = _assign_by_rank(
            method.class_prior[seen:], method.predict(inference).ids.bincount(minlength=total)[seen:total]
        )


def _set_prior(method: Method, counts: Tensor) -> None:
    method.class_prior.copy_((counts + 1) / (counts.sum() + len(counts)))


def _assign_by_rank(shares: Tensor, counts: Tensor) -> Tensor:
    """Return the shares (k,) in the order of the counts (k,): the largest share where the largest count is."""
    ordered = torch.empty_like(shares)
    ordered[counts.argsort(descending=True, stable=True)] = shares.sort(descending=True).values
    return ordered


def cluster_counts(method: Method, inference: Inference) -> Tensor:
    """Return images of each class (classes,) by the sizes of as many k-means clusters, as in BaCon (NeurIPS 2023).

    All training images are clustered by the unit features of the current network (of its head, with stored features);
    `_align_clusters` assigns clusters to classes.
    """
    labeled, unlabeled = inference.labeled.features, inference.unlabeled.features
    ids = torch.cat([inference.targets, method.predict(inference).ids])
    points = F.normalize(torch.cat([labeled, unlabeled]).float(), dim=1)
    rows = np.linspace(0, len(points) - 1, min(len(points), _MAX_CLUSTERED)).astype(np.int64)
    is_labeled = rows < len(labeled)
    clusters = kmeans(points.cpu().numpy()[rows], method.classes.total, inference.seed, _RESTARTS)
    classes = _align_clusters(clusters, ids.cpu().numpy()[rows], is_labeled, method.classes)
    counts = np.bincount(classes, minlength=method.classes.total)
    return torch.from_numpy(counts).to(points)


def _align_clusters(clusters: np.ndarray, ids: np.ndarray, is_labeled: np.ndarray, classes: Classes) -> np.ndarray:
    """Return class ids (n,) of clusters (n,), one class per cluster (Hungarian).

    ids (n,): the label of labeled images, the model's prediction of others. Labels outweigh all predictions: they
    decide which clusters are the seen classes. Predictions decide the rest, so that a novel id gets the size of the
    cluster for which the model uses it.
    """
    votes = np.zeros((classes.total, classes.total), np.int64)
    np.add.at(votes, (clusters, ids), np.where(is_labeled, len(ids) + 1, 1))
    _, class_by_cluster = linear_sum_assignment(votes, maximize=True)
    return class_by_cluster[clusters]


def confident_counts(method: Method, inference: Inference, confidence: float) -> Tensor:
    """Return images of each class (classes,): labeled ones by label, unlabeled ones by confident predictions.

    With c_k unlabeled images predicted as k with at least `confidence`, the N_u unlabeled ones count as N_u c_k / sum_j
    c_j, so that images without confidence are distributed in the same way; equal shares if no image is confident.
    """
    prediction, total = method.predict(inference), method.classes.total
    confident = prediction.ids[prediction.confidence >= confidence].bincount(minlength=total)[:total].double()
    unlabeled = confident / confident.sum() if confident.sum() else torch.full_like(confident, 1 / total)
    return inference.targets.bincount(minlength=total).double() + len(prediction.ids) * unlabeled
