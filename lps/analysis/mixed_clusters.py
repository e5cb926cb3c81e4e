"""Detect clusters that look mixed, and the pictures that would form their parts.

A cluster looks mixed if many of the nearest neighbours of its pictures are in other clusters, by the features after the
first epoch: training pulls the pictures of a cluster together, also those of another class. `python -m
benchmarks.cluster_flags` measures how often that is right; the thresholds were chosen on other runs than those that it
reports. Whether k-means splits a cluster better than chance (the gap of Tibshirani, Walther and Hastie 2001) was right
for 1 of 11 clusters there and is not used. NumPy only.
"""

import numpy as np

from lps.analysis.projection import nearest_rows, unit_rows

ELSEWHERE = 0.28  # share of the nearest pictures in other clusters from which a cluster looks mixed
_SURE = 0.9  # mean confidence from which a cluster does not look mixed
FEWEST = 8  # smallest cluster that is judged
PARTS = (2, 3)  # numbers of parts that a cluster can be split into
_NEIGHBOURS = 5  # few, so that those of a small cluster can all be in it
_DIRECTIONS, _ROUNDS = 10, 15
_MAX_IMAGES = 5000  # sample size of the neighbour search


def find_mixed(features: np.ndarray, cluster_places: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """Return bool (count,): which clusters look mixed.

    features (m, d): after the first epoch. cluster_places (m,): index of each picture's cluster, -1 for none.
    confidence (count,): mean over each cluster's pictures.
    """
    if len(cluster_places) > _MAX_IMAGES:
        rows = np.linspace(0, len(cluster_places) - 1, _MAX_IMAGES).round().astype(int)
        features, cluster_places = features[rows], cluster_places[rows]
    sizes = np.bincount(cluster_places[cluster_places >= 0], minlength=len(confidence))
    return (
        (sizes >= FEWEST)
        & (confidence < _SURE)
        & (neighbours_elsewhere(features, cluster_places, len(confidence)) >= ELSEWHERE)
    )


def neighbours_elsewhere(
    features: np.ndarray, cluster_places: np.ndarray, count: int, neighbours: int = _NEIGHBOURS
) -> np.ndarray:
    """Return (count,): share of the nearest neighbours of each cluster's pictures in other clusters; 0 if empty."""
    nearest = nearest_rows(features, neighbours)
    shares = (
        (cluster_places[nearest] != cluster_places[:, None]).mean(axis=1)
        if nearest.size
        else np.zeros(len(cluster_places))
    )
    sums = np.bincount(cluster_places[cluster_places >= 0], weights=shares[cluster_places >= 0], minlength=count)
    return sums / np.maximum(np.bincount(cluster_places[cluster_places >= 0], minlength=count), 1)


def split_features(features: np.ndarray, count: int) -> np.ndarray:
    """Return int (m,): part 0 to count - 1 of each of the features (m, d) of a cluster; part 0 is the largest."""
    labels = _parted(_leading(features), count)
    order = np.argsort(-np.bincount(labels, minlength=count), kind="stable")
    return np.argsort(order)[labels]


def most_typical(features: np.ndarray, count: int) -> np.ndarray:
    """Return at most `count` rows of features (m, d), sorted by cosine with the mean direction."""
    rows = unit_rows(features)
    return np.argsort(-(rows @ rows.mean(axis=0)), kind="stable")[:count]


def nearest_to(features: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the other rows of features (m, d), sorted by cosine with the mean of `rows`; none if `rows` is empty."""
    directions = unit_rows(features)
    if not len(rows):
        return rows
    order = np.argsort(-(directions @ directions[rows].mean(axis=0)), kind="stable")
    return order[~np.isin(order, rows)]


def _leading(features: np.ndarray) -> np.ndarray:
    """Return (m, at most 10): unit features (m, d) projected on their principal components."""
    rows = unit_rows(features)
    rows -= rows.mean(axis=0)
    left_vectors, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    return (left_vectors * sizes)[:, :_DIRECTIONS]


def _parted(points: np.ndarray, count: int) -> np.ndarray:
    """Return the k-means part int (m,) of points (m, d); the first parts are equally large along the first axis."""
    labels = points[:, 0].argsort(kind="stable").argsort(kind="stable") * count // max(1, len(points))
    for _ in range(_ROUNDS):
        member = (labels[:, None] == np.arange(count)).astype(points.dtype)
        sizes = member.sum(axis=0)
        centers = member.T @ points / np.maximum(sizes, 1)[:, None]
        distances = (points**2).sum(axis=1)[:, None] + (centers**2).sum(axis=1) - 2 * points @ centers.T
        distances[:, sizes == 0] = np.inf
        new_parts = distances.argmin(axis=1)
        if (new_parts == labels).all():
            break
        labels = new_parts
    return labels
