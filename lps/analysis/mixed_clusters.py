"""Detect clusters that look mixed, and the pictures that would form their parts.

A cluster looks mixed if its pictures' nearest neighbours, by the features after the first epoch, are in several other
clusters, and it is among the clearest third of a run: training pulls the pictures of a cluster together, also those of
another class. The other cluster with most of these neighbours does not count, because it may be a part of the same
class. `python -m benchmarks.cluster_flags` measures how often that is right. Whether k-means splits a cluster better
than chance (the gap of Tibshirani, Walther and Hastie 2001) was right for 1 of 11 clusters there and is not used. NumPy
only.
"""

import numpy as np

from lps.analysis.projection import nearest_rows, unit_rows

_ELSEWHERE = 0.2  # share of the nearest pictures in all other clusters but one from which a cluster can look mixed
_SURE = 0.9  # mean confidence from which a cluster does not look mixed
_MIN_PER_FLAG = 3  # clusters of a run for each that looks mixed: a flag on most of them would not say where to look
FEWEST = 8  # smallest cluster that is judged
PARTS = (2, 3)  # numbers of parts that a cluster can be split into
_NEIGHBOURS = 5  # few, so that those of a small cluster can all be in it
_DIRECTIONS, _ROUNDS = 10, 15
_MAX_COMPARED = 1000  # rows whose distances to each other are measured
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
    nearest = nearest_rows(features, _NEIGHBOURS)
    doubts = np.zeros(len(confidence))
    for cluster in np.flatnonzero((sizes >= FEWEST) & (confidence < _SURE)):
        share = _share_elsewhere(cluster_places[nearest[cluster_places == cluster]].ravel(), cluster)
        doubts[cluster] = share * (1 - confidence[cluster]) if share >= _ELSEWHERE else 0
    clearest = np.argsort(-doubts, kind="stable")[: max(1, np.count_nonzero(sizes) // _MIN_PER_FLAG)]
    return (doubts > 0) & np.isin(np.arange(len(doubts)), clearest)


def _share_elsewhere(neighbours: np.ndarray, cluster: int) -> float:
    """Return the share of `neighbours` (their clusters) in all other clusters but the one that has most of them."""
    others = neighbours[(neighbours != cluster) & (neighbours >= 0)]
    return (len(others) - np.bincount(others).max(initial=0)) / max(1, len(neighbours))


def leading_components(features: np.ndarray) -> np.ndarray:
    """Return (m, at most 10): unit features (m, d) of a cluster, projected on their principal components."""
    rows = unit_rows(features)
    rows -= rows.mean(axis=0)
    left_vectors, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    return (left_vectors * sizes)[:, :_DIRECTIONS]


def split_points(points: np.ndarray, count: int) -> np.ndarray:
    """Return int (m,): part 0 to count - 1 of each of a cluster's `leading_components`; part 0 is the largest."""
    labels = _parted(points, count)
    order = np.argsort(-np.bincount(labels, minlength=count), kind="stable")
    return np.argsort(order)[labels]


def keep_in_first(parts: np.ndarray, is_kept: np.ndarray) -> np.ndarray:
    """Return the parts int (m,) with all kept rows in part 0, which is the part with most of them."""
    if not is_kept.any():
        return parts
    first = np.bincount(parts[is_kept]).argmax()
    swapped = np.where(parts == first, 0, np.where(parts == 0, first, parts))
    return np.where(is_kept, 0, swapped)


def spread_over(features: np.ndarray, count: int) -> np.ndarray:
    """Return at most `count` rows of features (m, d), evenly spaced from the most typical to the least typical one.

    The most typical row has the largest cosine with the mean direction.
    """
    rows = unit_rows(features)
    order = np.argsort(-(rows @ rows.mean(axis=0)), kind="stable")
    return order[np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int)]


def separation(points: np.ndarray, parts: np.ndarray) -> float:
    """Return the mean silhouette of the parts int (m,) of a cluster's `leading_components`.

    0 if there is only one part. Measured on at most `_MAX_COMPARED` rows.
    """
    rows = np.linspace(0, len(parts) - 1, min(len(parts), _MAX_COMPARED)).round().astype(int)
    points, parts = points[rows].astype(float), parts[rows]
    member = (parts[:, None] == np.unique(parts)).astype(float)
    squares = (points**2).sum(axis=1)
    sums = np.sqrt((squares[:, None] + squares - 2 * points @ points.T).clip(min=0)) @ member
    sizes = member.sum(axis=0)
    own = (sums * member).sum(axis=1) / np.maximum(1, member @ sizes - 1)
    other = np.where(member > 0, np.inf, sums / sizes).min(axis=1)
    is_defined = np.isfinite(other) & (member @ sizes > 1) & (np.maximum(own, other) > 0)
    return float(np.divide(other - own, np.maximum(own, other), out=np.zeros(len(own)), where=is_defined).mean())


def nearest_to(features: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the other rows of features (m, d), sorted by cosine with the mean of `rows`; none if `rows` is empty."""
    directions = unit_rows(features)
    if not len(rows):
        return rows
    order = np.argsort(-(directions @ directions[rows].mean(axis=0)), kind="stable")
    return order[~np.isin(order, rows)]


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
