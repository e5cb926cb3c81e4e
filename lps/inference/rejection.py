"""Reject pictures of no known class by their distance from the training images; measure what thresholds accept.

The distance of a picture is the mean cosine distance to its nearest training images. Sun, Ming, Zhu, Li
(Out-of-Distribution Detection with Deep Nearest Neighbors, ICML 2022) use the k-th distance; here it is the mean of the
k nearest.

How many pictures of unknown classes a threshold rejects is not estimated. Leaving out known clusters in turn predicted
99.7 % on features that were trained to separate these clusters, but only 80 % of pictures of new classes were rejected.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lps.wording import counted, part_of

NEIGHBOURS = 5
DEFAULT_KEEP = 0.95  # of the pictures of known classes
_STEPS = 201  # thresholds of a curve
_QUERIES = 2000  # pictures that a curve rests on, at most
_BLOCK = 256  # pictures that are compared with all others at a time
_NOTABLE = 0.01  # a larger share than the requested one by this much is explained
_FEWEST = 10  # withheld labels that a threshold has to keep, too


@dataclass(frozen=True)
class TradeOff:
    """The shares of pictures that each threshold accepts, each (steps,), thresholds ascending.

    kept: share of training images within the threshold of the other ones. measured: the pictures that were
    measured, in words. withheld: number of withheld labels; withheld_kept, right: shares of their pictures that
    are accepted, and accepted under their label.
    """

    thresholds: np.ndarray
    kept: np.ndarray
    measured: str
    withheld: int
    withheld_kept: np.ndarray
    right: np.ndarray

    def threshold(self, share: float) -> float:
        """Return the smallest threshold that accepts this share of pictures of known classes and of withheld labels."""
        accepted_share = np.minimum(self.kept, self.withheld_kept) if self.withheld >= _FEWEST else self.kept
        indices = np.flatnonzero(accepted_share >= share - 1e-9)
        return float(self.thresholds[indices[0]]) if len(indices) else float("inf")

    def in_words(self, threshold: float) -> str:
        """Describe in two short sentences what a threshold accepts; `basis` says how that was measured."""
        at = self._row(threshold)
        if at < 0:
            return "No picture gets a class."
        sentence = f"{_percent(self.kept[at])} of the pictures of known classes get a class."
        return f"{sentence} {self.withheld_in_words(threshold)}".rstrip()

    def withheld_in_words(self, threshold: float) -> str:
        """Describe in a sentence what a threshold from the curve does with withheld labels; "" without any.

        The page Live counts the pictures that are right without a threshold.
        """
        if not self.withheld:
            return ""
        at = self._row(threshold)
        shares = self.withheld_kept[at], self.right[at], self.right[-1]
        accepted, right, without_limit = (part_of(share, self.withheld) for share in shares)
        sentence = f"Of {counted(self.withheld, 'picture')} with a withheld label, {accepted} get a class, and {right} "
        more = f"; without the limit, {without_limit} would be right" * (without_limit != right)
        return f"{sentence}the right one{more}."

    def explain_excess(self, threshold: float, share: float) -> str:
        """Say why a threshold accepts more than the requested `share`; "" if it does not."""
        at = self._row(threshold)
        if at < 0 or self.kept[at] < share + _NOTABLE:
            return ""
        is_enough = at > 0 and self.kept[at - 1] >= share - 1e-9
        cause = (
            f"{_percent(share)} of the pictures with a withheld label must get a class, too"
            if is_enough
            else "few pictures were measured, so the limit is coarse"
        )
        return f"In fact, {_percent(self.kept[at])} get a class, because {cause}."

    def _row(self, threshold: float) -> int:
        """Return the row of the curve for a threshold, -1 if it is below all of them."""
        return int(np.searchsorted(self.thresholds, threshold, side="right")) - 1

    @property
    def basis(self) -> str:
        """Say which pictures were measured, and what is not known."""
        about_withheld = " Only labels of seen classes are withheld." * bool(self.withheld)
        unknown = "How many pictures of other classes wrongly get a class is not known."
        return f"Measured on {self.measured}.{about_withheld} {unknown}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def nearest_images(points: np.ndarray, compared: np.ndarray, count: int = NEIGHBOURS) -> tuple[np.ndarray, np.ndarray]:
    """Return (cosine distances float32 (n, k), rows int64 (n, k)) of the nearest `compared` (m, d), nearest first.

    points: (n, d); both are float32 at length 1. k: `count`, or fewer if `compared` has fewer rows.
    """
    nearest_of_blocks = [_mean_of_nearest(1 - points[part] @ compared.T, count) for part in _blocks(len(points))]
    return tuple(np.concatenate(column) for column in zip(*nearest_of_blocks))


def _mean_of_nearest(distances: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    count = min(count, distances.shape[1])
    rows = np.argpartition(distances, count - 1, axis=1)[:, :count]
    nearest = np.take_along_axis(distances, rows, axis=1)
    order = np.argsort(nearest, axis=1, kind="stable")
    return np.take_along_axis(nearest, order, axis=1).clip(min=0), np.take_along_axis(rows, order, axis=1)


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, min(count, start + _BLOCK)) for start in range(0, count, _BLOCK))


def measure_trade_off(points: np.ndarray, withheld: np.ndarray, is_right: np.ndarray) -> TradeOff:
    """Measure what each threshold accepts, on the training images alone.

    points: float32 (m, d) at length 1. withheld: rows with a withheld label; is_right: whether the clusters of these
    rows have the name of the label.
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
    """Return each queried picture's mean distance to its nearest other pictures, float32."""
    distances_to_others = np.empty(len(queries), np.float32)
    for part in _blocks(len(queries)):
        rows = queries[part]
        distances = 1 - points[rows] @ points.T
        distances[np.arange(len(rows)), rows] = np.inf
        distances_to_others[part] = _mean_of_nearest(distances, NEIGHBOURS)[0].mean(axis=1)
    return distances_to_others


def _share(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return the share of `values` up to each threshold; 1 if there are no values."""
    return (values[:, None] <= thresholds).mean(axis=0) if len(values) else np.ones(len(thresholds))
