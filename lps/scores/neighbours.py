"""Nearest neighbours among all points: exact for few, approximate for many, with the measured recall.

Up to `EXACT` points every point is compared with all others, whose time grows with the square of the number. Above,
NN-descent (Dong, Moses and Li 2011, `pynndescent`, which umap-learn needs) refines a graph of neighbours from random
trees. It is seeded and uses one thread, so its result does not depend on the machine's cores.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import NearestNeighbors

from lps.errors import UserError

EXACT = 50_000  # points that are compared with each other
_EXACT_WITHOUT = 100_000  # points that are, where pynndescent is missing
_QUERIES = 1000  # points whose exact neighbours are searched to measure the recall
_BLOCK = 1024  # points that are compared with all others at a time
_CANDIDATES = 60  # neighbours of a point that a round of NN-descent compares
_DELTA = 1e-4  # share of changed neighbours below which it ends
_SEED = 0
_ROUNDING = 1e-3  # a distance that two equal points may have

Tell = Callable[[float], None]


@dataclass(frozen=True)
class Neighbours:
    """The nearest others of every point, nearest first: distances float32 (n, k), rows int (n, k).

    recall: share of the exact neighbours that were found, measured on a sample; None if all are exact.
    """

    distances: np.ndarray
    rows: np.ndarray
    recall: float | None = None


def nearest_neighbours(points: np.ndarray, count: int, report: Tell = lambda share: None) -> Neighbours:
    """Return the `count` nearest others (fewer if there are not as many) of points float32 (n, d).

    report: called with the share done after every block; it may raise to cancel. Raises `UserError` if there are too
    many points for the installed packages.
    """
    count = min(count, len(points) - 1)
    if len(points) <= EXACT:
        return Neighbours(*_search_exactly(points, np.arange(len(points)), count, report))
    if importlib.util.find_spec("pynndescent") is None:
        if len(points) > _EXACT_WITHOUT:
            raise UserError(
                "pictures",
                f"comparing {len(points):,} images needs the package umap-learn; without it, at most "
                f"{_EXACT_WITHOUT:,} can be compared. Install it: pip install umap-learn",
            )
        return Neighbours(*_search_exactly(points, np.arange(len(points)), count, report))
    distances, rows = _search_approximately(points, count)
    report(0.9)
    return Neighbours(distances, rows, _measure_recall(points, distances))


def recall_in_words(recall: float | None) -> str:
    """Describe how many neighbours were found; "" if all were."""
    if recall is None:
        return ""
    found = f"{100 * recall:.1f} % of the true nearest neighbours"
    return f"the fast search found {found}, measured on {_QUERIES:,} pictures"


def _search_exactly(
    points: np.ndarray, queries: np.ndarray, count: int, report: Tell = lambda share: None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (distances float32 (q, k), rows int64 (q, k)) of the points in the rows `queries` (q,)."""
    search = NearestNeighbors(n_neighbors=count + 1, algorithm="brute").fit(points)
    distances, rows = np.empty((len(queries), count), np.float32), np.empty((len(queries), count), np.int64)
    for start in range(0, len(queries), _BLOCK):
        part = slice(start, min(len(queries), start + _BLOCK))
        distances[part], rows[part] = _without_self(*search.kneighbors(points[queries[part]]), queries[part])
        report(part.stop / len(queries))
    return distances, rows


def _without_self(distances: np.ndarray, rows: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Remove each of the `queries` (q,) from its own neighbours (q, k + 1)."""
    is_self = rows == queries[:, None]
    is_self[~is_self.any(axis=1), -1] = True  # exact copies can displace a picture from its own list
    shape = len(rows), rows.shape[1] - 1
    return distances[~is_self].reshape(shape), rows[~is_self].reshape(shape)


def _search_approximately(points: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (distances float32 (n, k), rows int32 (n, k))."""
    from pynndescent import NNDescent  # takes two seconds to import

    index = NNDescent(
        points,
        metric="euclidean",
        n_neighbors=count + 1,
        max_candidates=_CANDIDATES,
        delta=_DELTA,
        random_state=_SEED,
        n_jobs=1,
    )
    rows, distances = index.neighbor_graph
    distances, rows = _without_self(distances, rows, np.arange(len(points)))
    if len(lost := np.flatnonzero((rows < 0).any(axis=1))):  # the graph has fewer neighbours of these
        distances[lost], rows[lost] = _search_exactly(points, lost, count)
    return distances, rows


def _measure_recall(points: np.ndarray, distances: np.ndarray) -> float:
    """Return the share of neighbours that are no further than the exact last one, over `_QUERIES` random points."""
    queries = np.sort(np.random.default_rng(_SEED).choice(len(points), min(_QUERIES, len(points)), replace=False))
    exact, _ = _search_exactly(points, queries, distances.shape[1])
    return float((distances[queries] <= np.maximum(exact[:, -1:] * (1 + 1e-5), _ROUNDING)).mean())
