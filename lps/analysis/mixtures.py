"""Does a cluster look mixed, and which pictures would be its parts?

A cluster looks mixed where many of the pictures nearest to its own are in other clusters and the network is not sure of
it. `python -m benchmarks.cluster_flags` measures how often that is right; the thresholds were chosen on other runs than
those that it reports. Whether k-means parts a cluster better than chance (the gap of Tibshirani, Walther and Hastie
2001) was right for 1 of 11 clusters there and is no sign any more. NumPy only.
"""

import numpy as np

from lps.analysis.projection import nearest_rows, unit_rows

ELSEWHERE = 0.16  # share of the nearest pictures in other clusters from which on a cluster looks mixed
SURE = 0.85  # mean confidence from which on it does not
FEWEST = 8  # pictures of a cluster that is judged
PARTS = (2, 3)  # in which a cluster can be split
_NEIGHBOURS = 10
_DIRECTIONS, _ROUNDS = 10, 15
_MOST_IMAGES = 5000  # whose neighbours are looked for


def suspected(features: np.ndarray, cluster_places: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """bool (count,): which clusters look mixed.

    features (m, d); here (m,): the place of every picture's cluster, -1 for none; confidence (count,): the mean one of
    every cluster's pictures.
    """
    if len(cluster_places) > _MOST_IMAGES:
        rows = np.linspace(0, len(cluster_places) - 1, _MOST_IMAGES).round().astype(int)
        features, cluster_places = features[rows], cluster_places[rows]
    sizes = np.bincount(cluster_places[cluster_places >= 0], minlength=len(confidence))
    return (sizes >= FEWEST) & (confidence < SURE) & (elsewhere(features, cluster_places, len(confidence)) >= ELSEWHERE)


def elsewhere(features: np.ndarray, cluster_places: np.ndarray, count: int) -> np.ndarray:
    """(count,): of the nearest pictures of every cluster's pictures the share that is in others; 0 for an empty one."""
    nearest = nearest_rows(features, _NEIGHBOURS)
    shares = (
        (cluster_places[nearest] != cluster_places[:, None]).mean(axis=1)
        if nearest.size
        else np.zeros(len(cluster_places))
    )
    sums = np.bincount(cluster_places[cluster_places >= 0], weights=shares[cluster_places >= 0], minlength=count)
    return sums / np.maximum(np.bincount(cluster_places[cluster_places >= 0], minlength=count), 1)


def split(features: np.ndarray, count: int) -> np.ndarray:
    """int (m,): the part, 0 to count - 1, that each of the features (m, d) of a cluster goes to; the largest is 0."""
    labels = _parted(_leading(features), count)
    order = np.argsort(-np.bincount(labels, minlength=count), kind="stable")
    return np.argsort(order)[labels]


def typical(features: np.ndarray, count: int) -> np.ndarray:
    """At most `count` rows of features (m, d), those first that point most in the direction of all."""
    rows = unit_rows(features)
    return np.argsort(-(rows @ rows.mean(axis=0)), kind="stable")[:count]


def nearest_to(features: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The other rows of features (m, d), those first that point most in the mean direction of `rows`; none for none."""
    directions = unit_rows(features)
    if not len(rows):
        return rows
    order = np.argsort(-(directions @ directions[rows].mean(axis=0)), kind="stable")
    return order[~np.isin(order, rows)]


def _leading(features: np.ndarray) -> np.ndarray:
    """(m, at most 10): directions of features (m, d), along those in which they differ most."""
    rows = unit_rows(features)
    rows -= rows.mean(axis=0)
    left_vectors, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    return (left_vectors * sizes)[:, :_DIRECTIONS]


def _parted(points: np.ndarray, count: int) -> np.ndarray:
    """int (m,): the part of each of the points (m, d) by k-means, which begins with parts of equal size along the first
    direction."""
    labels = points[:, 0].argsort(kind="stable").argsort(kind="stable") * count // max(1, len(points))
    for _ in range(_ROUNDS):
        member = (labels[:, None] == np.arange(count)).astype(points.dtype)
        sizes = member.sum(axis=0)
        centers = member.T @ points / np.maximum(sizes, 1)[:, None]
        away = (points**2).sum(axis=1)[:, None] + (centers**2).sum(axis=1) - 2 * points @ centers.T
        away[:, sizes == 0] = np.inf
        new_parts = away.argmin(axis=1)
        if (new_parts == labels).all():
            break
        labels = new_parts
    return labels
