"""The images that the network takes for most alike: nearest neighbours among the features of a snapshot."""

from dataclasses import dataclass

import numpy as np

from lps.snapshots import Snapshot


@dataclass(frozen=True)
class Neighbours:
    """The nearest first. images: ids int64 (k,); distances: float64 (k,), 1 - cosine, from 0 to 2."""

    images: np.ndarray
    distances: np.ndarray


def nearest(snapshot: Snapshot, image: int, count: int) -> Neighbours | None:
    """The `count` images, or as many as there are, whose features point most in the direction of those of `image`.

    None where the snapshot does not hold the features of `image`. The length of features does not matter: the cosine
    classifier does not look at it either.
    """
    from sklearn.neighbors import NearestNeighbors  # half a second, only where neighbours are asked for

    index = snapshot.feature_index.astype(np.int64)
    own = np.flatnonzero(index == image)
    others = np.flatnonzero(index != image)
    if not len(own) or not len(others):
        return None
    features = snapshot.features.astype(np.float32)
    search = NearestNeighbors(n_neighbors=min(count, len(others)), metric="cosine", algorithm="brute")
    distances, rows = search.fit(features[others]).kneighbors(features[own[:1]])
    return Neighbours(index[others][rows[0]], distances[0].astype(np.float64))
