"""Clusters and neighbours in feature space: k-means and k-nearest-neighbour quality of a backbone.

Features are L2-normalised first: without it k-means on SimCLR features loses about half of its accuracy.
"""

import numpy as np
from sklearn.cluster import KMeans


def unit(features: np.ndarray) -> np.ndarray:
    """Rows (n, d) at length 1, float32."""
    features = np.asarray(features, np.float32)
    return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)


def kmeans(features: np.ndarray, clusters: int, seed: int, restarts: int = 10) -> np.ndarray:
    """Cluster ids (n,) of the best of `restarts` k-means on unit features (n, d)."""
    return KMeans(clusters, n_init=restarts, random_state=seed).fit_predict(unit(features)).astype(np.int64)


def knn_accuracy(features: np.ndarray, labels: np.ndarray, neighbours: int = 10, block: int = 4096) -> float:
    """Share of images whose class is the commonest among its `neighbours` nearest others (cosine), leave-one-out."""
    points, total = unit(features), int(labels.max()) + 1
    hits = 0
    for start in range(0, len(points), block):
        similarity = points[start : start + block] @ points.T
        similarity[np.arange(len(similarity)), np.arange(start, start + len(similarity))] = -np.inf
        count = min(neighbours, len(points) - 1)
        nearest = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
        votes = np.zeros((len(nearest), total), np.int64)
        np.add.at(votes, (np.arange(len(nearest))[:, None], labels[nearest]), 1)
        hits += int((votes.argmax(1) == labels[start : start + block]).sum())
    return hits / len(points)
