"""None of these: from which distance on a picture is none of what a run knows, and what that costs.

The distance of a picture is the mean cosine distance to its nearest training images (Sun, Ming, Zhu, Li:
Out-of-Distribution Detection with Deep Nearest Neighbors, ICML 2022, whose k-th distance it replaces by the mean of k).
How many foreign pictures a threshold catches is not said: taking out known clusters in turn promised 99.7 % where the
features were trained to part them, and 80 % of truly new kinds were caught.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lps.wording import counted

NEIGHBOURS = 5
DEFAULT_KEEP = 0.95  # of the pictures of known classes
_STEPS = 201  # thresholds of a curve
_QUERIES = 2000  # pictures that a curve rests on, at most
_BLOCK = 256  # pictures that are compared with all others at a time
_FEWEST = 10  # withheld labels that a threshold has to keep, too


@dataclass(frozen=True)
class TradeOff:
    """Shares by threshold, each (steps,), thresholds ascending.

    kept: of pictures of known classes at most that far from the others. measured: on what, in words. withheld: number
    of withheld labels; withheld_kept, right: shares of them that are kept, and kept under their own name.
    """

    thresholds: np.ndarray
    kept: np.ndarray
    measured: str
    withheld: int
    withheld_kept: np.ndarray
    right: np.ndarray

    def threshold(self, share: float) -> float:
        """The smallest threshold that keeps so many pictures of known classes, and of those with withheld labels."""
        both = np.minimum(self.kept, self.withheld_kept) if self.withheld >= _FEWEST else self.kept
        enough = np.flatnonzero(both >= share - 1e-9)
        return float(self.thresholds[enough[0]]) if len(enough) else float("inf")

    def in_words(self, threshold: float) -> str:
        """What a threshold keeps, and on what that was measured."""
        at = int(np.searchsorted(self.thresholds, threshold, side="right")) - 1
        if at < 0:
            return f"accepts no picture; measured on {self.measured}"
        sentence = f"accepts {_percent(self.kept[at])} of pictures of known classes"
        sentence += f"; measured on {self.measured}"
        if self.withheld:
            named = (
                f"{_percent(self.withheld_kept[at])} are accepted and {_percent(self.right[at])} get the right class"
            )
            label = "with a withheld label (all of them of labeled classes)"
            sentence += f"; of {counted(self.withheld, 'picture')} {label}, {named}"
        return f"{sentence}; how many pictures of other classes it rejects is not known"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def nearest_images(points: np.ndarray, compared: np.ndarray, count: int = NEIGHBOURS) -> tuple[np.ndarray, np.ndarray]:
    """(cosine distances float32 (n, k), rows int64 (n, k)) of the nearest of `compared` (m, d), nearest first.

    points: (n, d); both float32 and at length 1. k: `count`, fewer where there are no more.
    """
    nearest_of_blocks = [_least(1 - points[part] @ compared.T, count) for part in _blocks(len(points))]
    return tuple(np.concatenate(column) for column in zip(*nearest_of_blocks))


def _least(distances: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    count = min(count, distances.shape[1])
    rows = np.argpartition(distances, count - 1, axis=1)[:, :count]
    near = np.take_along_axis(distances, rows, axis=1)
    order = np.argsort(near, axis=1, kind="stable")
    return np.take_along_axis(near, order, axis=1).clip(min=0), np.take_along_axis(rows, order, axis=1)


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, min(count, start + _BLOCK)) for start in range(0, count, _BLOCK))


def measure_trade_off(points: np.ndarray, withheld: np.ndarray, is_right: np.ndarray) -> TradeOff:
    """What thresholds keep, by the training images alone.

    points: float32 (m, d) at length 1. withheld: rows whose label is known and was withheld; is_right: of these,
    whether their cluster has the label's name.
    """
    queries = np.unique(np.concatenate([np.linspace(0, len(points) - 1, _QUERIES).astype(np.int64), withheld]))
    query_distances = _distances(points, queries)
    thresholds = np.unique(np.quantile(query_distances, np.linspace(0, 1, _STEPS)).astype(np.float32))
    withheld_distances = query_distances[np.searchsorted(queries, withheld)]
    return TradeOff(
        thresholds,
        _share(query_distances, thresholds),
        counted(len(queries), "training image"),
        len(withheld),
        _share(withheld_distances, thresholds),
        _share(np.where(is_right, withheld_distances, np.inf), thresholds),
    )


def _distances(points: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """float32: mean distance of every picture asked about to its nearest other ones."""
    distances_to_others = np.empty(len(queries), np.float32)
    for part in _blocks(len(queries)):
        rows = queries[part]
        distances = 1 - points[rows] @ points.T
        distances[np.arange(len(rows)), rows] = np.inf
        distances_to_others[part] = _least(distances, NEIGHBOURS)[0].mean(axis=1)
    return distances_to_others


def _share(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Share of `values` up to each threshold; 1 where there are none."""
    return (values[:, None] <= thresholds).mean(axis=0) if len(values) else np.ones(len(thresholds))
