"""Possible novel classes: new pictures that are far from everything known and like each other.

A picture is far if its distance to the training images exceeds that of a share `_KNOWN_SHARE` of the known classes'
pictures. Two far pictures are neighbours if their distance is below that of a share `_ALIKE` of these
pictures to their neighbours. DBSCAN makes the kinds (Ester, Kriegel, Sander, Xu, KDD 1996). Both shares were chosen on
two draws of `python -m benchmarks.new_kinds`, which measures on other draws how often the rule is right.
"""

import numpy as np
from sklearn.cluster import DBSCAN

from lps.inference.none_of_these import NEIGHBOURS, TradeOff

_KNOWN_SHARE, _ALIKE = 0.8, 0.7
FEWEST = 10  # pictures of a kind
MOST = 5000  # pictures that are compared with each other, the newest: 25 million distances


def is_far(distance: np.ndarray, curve: TradeOff) -> np.ndarray:
    """bool (n,): which pictures are gathered. distance: (n,), as of `none_of_these`; curve: what thresholds keep."""
    return distance > curve.threshold(_KNOWN_SHARE)


def find_new_classes(points: np.ndarray, distance: np.ndarray, curve: TradeOff) -> tuple[tuple[int, ...], ...]:
    """The kinds among new pictures, each as ascending rows, the largest first.

    points: float (g, d) at length 1, of the last g pictures that are far; distance: (n,), of all.
    """
    gathered, near = np.flatnonzero(is_far(distance, curve)), curve.threshold(_ALIKE)
    gathered, recent = gathered[-MOST:], points[-MOST:].astype(np.float32)
    if len(gathered) < FEWEST or not 0 < near < np.inf:
        return ()
    distances = (1 - recent @ recent.T).clip(min=0)
    labels = DBSCAN(eps=near, min_samples=NEIGHBOURS, metric="precomputed").fit_predict(distances)
    kinds = [gathered[labels == label].tolist() for label in range(labels.max() + 1)]
    return tuple(sorted((tuple(kind) for kind in kinds if len(kind) >= FEWEST), key=len, reverse=True))
