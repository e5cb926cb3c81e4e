"""Quality of features before training: nearest neighbours, k-means, a linear classifier."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from lps.data.batches import Pictures
from lps.methods.parts.clustering import kmeans, knn_accuracy
from lps.scores.metrics import matched_accuracy
from lps.settings.config import Config
from lps.training.evaluate import infer_features, sample_rows

LOOKED_AT = 10_000  # images that are measured; k-means and neighbours of 50,000 would cost more than some epochs
_HELD_OUT = 6  # stream of random numbers under the seed


def feature_quality(
    backbone: nn.Module, images: Pictures, truth: Tensor, config: Config, seed: int
) -> dict[str, float]:
    """Return kNN (leave-one-out, k = 10), k-means and linear accuracy on images of known truth; {} if they are too few.

    truth: int64 (n,), -1 unknown. Above `LOOKED_AT` known images a sample is measured, stratified by
    class and fixed by the seed.
    """
    labels = truth.cpu().numpy()
    labeled_rows = np.flatnonzero(labels >= 0)
    rows = labeled_rows[sample_rows(labels[labeled_rows], seed, LOOKED_AT)]
    if len(rows) < 2:
        return {}
    features = infer_features(backbone, images.part(rows), config)
    labels = labels[rows]
    total = int(labels.max()) + 1
    quality = {
        "pretrain/knn_accuracy": knn_accuracy(features, labels),
        "pretrain/kmeans_accuracy": matched_accuracy(kmeans(features, total, seed), labels, total),
    }
    linear = linear_accuracy(features, labels, seed)
    return quality if linear is None else quality | {"pretrain/linear_accuracy": linear}


def linear_accuracy(features: np.ndarray, labels: np.ndarray, seed: int) -> float | None:
    """Return accuracy of logistic regression on a random third of the rows (n, d), fitted to the rest, or None.

    None for one class. Features standardised, scikit-learn default L2 penalty ||w||^2 / 2 plus the summed losses.
    """
    shuffled = np.random.default_rng([seed, _HELD_OUT]).permutation(len(labels))
    tested, learned = np.split(shuffled, [len(labels) // 3])
    if len(tested) == 0 or len(np.unique(labels[learned])) < 2:
        return None
    mean, deviation = features[learned].mean(axis=0), features[learned].std(axis=0)
    points = (features - mean) / np.maximum(deviation, 1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # harmless for an accuracy of two or three digits
        classifier = LogisticRegression(max_iter=100).fit(points[learned], labels[learned])
    return float((classifier.predict(points[tested]) == labels[tested]).mean())
