"""Propose novel classes: groups of new pictures that are far from all training images and similar to each other.

A picture is far if its distance to the training images is larger than that of a share `_KNOWN_SHARE` of the pictures of
known classes. Two far pictures are neighbours if their distance is smaller than the distance of a share `_ALIKE` of
these pictures to their neighbours. DBSCAN forms the groups (Ester, Kriegel, Sander, Xu, KDD 1996). Both shares were
chosen on two draws of `python -m benchmarks.new_kinds`, which measures on other draws how often the rule is right.
"""

import numpy as np
from sklearn.cluster import DBSCAN

from lps.inference.rejection import NEIGHBOURS, TradeOff

_KNOWN_SHARE, _ALIKE = 0.8, 0.7
FEWEST = 10  # pictures of a kind
MAX_COMPARED_PICTURES = 5000  # pictures that are compared with each other, the newest: 25 million distances


def is_far(distance: np.ndarray, curve: TradeOff) -> np.ndarray:
    """Return which pictures are far from the training images, bool (n,).

    distance: (n,), see `rejection`; curve: shares of pictures of known classes by threshold.
    """
    return distance > curve.threshold(_KNOWN_SHARE)


def propose_classes(points: np.ndarray, distance: np.ndarray, curve: TradeOff) -> tuple[tuple[int, ...], ...]:
    """Return the groups of similar new pictures, each as ascending rows, the largest group first.

    points: float (g, d) at length 1, of the last g pictures that are far; distance: (n,), of all pictures.
    """
    gathered, closeness = np.flatnonzero(is_far(distance, curve)), curve.threshold(_ALIKE)
    gathered, recent = gathered[-MAX_COMPARED_PICTURES:], points[-MAX_COMPARED_PICTURES:].astype(np.float32)
    if len(gathered) < FEWEST or not 0 < closeness < np.inf:
        return ()
    distances = (1 - recent @ recent.T).clip(min=0)
    labels = DBSCAN(eps=closeness, min_samples=NEIGHBOURS, metric="precomputed").fit_predict(distances)
    kinds = [gathered[labels == label].tolist() for label in range(labels.max() + 1)]
    return tuple(sorted((tuple(kind) for kind in kinds if len(kind) >= FEWEST), key=len, reverse=True))
