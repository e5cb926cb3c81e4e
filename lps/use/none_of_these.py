"""None of these: from which distance on a picture is none of what a run knows, and what that costs.

The distance of a picture is the mean cosine distance to its nearest training images (Sun, Ming, Zhu, Li:
Out-of-Distribution Detection with Deep Nearest Neighbors, ICML 2022, whose k-th distance it replaces by the mean of k).
Nobody has foreign pictures to try it on. So every cluster is taken out in turn: its pictures count as foreign to the
others. That is no guide for a single kind: on 2,000 pictures of CIFAR-10 with two classes left out (five pairs) it said
23 to 34 % caught, and 12 to 54 % were.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lps.wording import counted

NEIGHBOURS = 5
KEPT = 0.95  # of the known pictures, where nobody says otherwise
_STEPS = 201  # thresholds of a curve
_QUERIES = 2000  # pictures that a curve rests on, at most
_BLOCK = 256  # pictures that are compared with all others at a time
_FEWEST = 10  # pictures of a cluster that is taken out, and withheld labels that a threshold is held against


@dataclass(frozen=True)
class TradeOff:
    """Shares by threshold, each (steps,), thresholds ascending.

    kept: of known pictures at most that far from the others. caught: of foreign ones farther away, mean over the
    clusters that were taken out; least, most: of one cluster. measured: on what, in words; withheld, right: withheld
    labels, and shares of them kept and kept under their own name, by threshold.
    """

    thresholds: np.ndarray
    kept: np.ndarray
    caught: np.ndarray
    least: np.ndarray
    most: np.ndarray
    measured: str
    withheld: int
    withheld_kept: np.ndarray
    right: np.ndarray

    def threshold(self, kept: float) -> float:
        """The smallest threshold that keeps so many of the known pictures, and of those with withheld labels."""
        both = np.minimum(self.kept, self.withheld_kept) if self.withheld >= _FEWEST else self.kept
        enough = np.flatnonzero(both >= kept - 1e-9)
        return float(self.thresholds[enough[0]]) if len(enough) else float("inf")

    def in_words(self, threshold: float) -> str:
        """What a threshold keeps and catches, and on what that was measured."""
        at = int(np.searchsorted(self.thresholds, threshold, side="right")) - 1
        if at < 0:
            return f"keeps none; measured on {self.measured}"
        said = f"keeps {_percent(self.kept[at])} of known pictures"
        if np.isfinite(self.caught[at]):
            span = f"{_percent(self.least[at])} to {_percent(self.most[at])} by cluster"
            said += f" and catches about {_percent(self.caught[at])} of foreign ones ({span})"
        said += f"; measured on {self.measured}"
        if self.withheld:
            named = f"{_percent(self.withheld_kept[at])} are kept and {_percent(self.right[at])} get their own name"
            said += f"; of {counted(self.withheld, 'withheld label')} {named}"
        return said


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def nearest(points: np.ndarray, known: np.ndarray, count: int = NEIGHBOURS) -> tuple[np.ndarray, np.ndarray]:
    """(cosine distances float32 (n, k), rows int64 (n, k)) of the nearest of `known` (m, d), nearest first.

    points: (n, d); both float32 and at length 1. k: `count`, fewer where there are no more.
    """
    found = [_least(1 - points[part] @ known.T, count) for part in _blocks(len(points))]
    return tuple(np.concatenate(column) for column in zip(*found))


def _least(distances: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    count = min(count, distances.shape[1])
    rows = np.argpartition(distances, count - 1, axis=1)[:, :count]
    near = np.take_along_axis(distances, rows, axis=1)
    order = np.argsort(near, axis=1, kind="stable")
    return np.take_along_axis(near, order, axis=1).clip(min=0), np.take_along_axis(rows, order, axis=1)


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, min(count, start + _BLOCK)) for start in range(0, count, _BLOCK))


def measure(
    points: np.ndarray, clusters: np.ndarray, withheld: np.ndarray, is_right: np.ndarray, was_trained: bool = False
) -> TradeOff:
    """What thresholds keep and catch, by the training images alone.

    points: float32 (m, d) at length 1; clusters: int64 (m,). withheld: rows whose label is known and was withheld;
    is_right: of these, whether the cluster has the label's name. was_trained: whether the points were trained to part
    these clusters, which is said.
    """
    asked = np.unique(np.concatenate([np.linspace(0, len(points) - 1, _QUERIES).astype(np.int64), withheld]))
    own, foreign = _both_distances(points, clusters, asked)
    everywhere = np.concatenate([own, foreign[np.isfinite(foreign)]])
    thresholds = np.unique(np.quantile(everywhere, np.linspace(0, 1, _STEPS)).astype(np.float32))
    groups = [foreign[clusters[asked] == one] for one in np.unique(clusters[asked])]
    groups = [group for group in groups if len(group) >= _FEWEST and np.isfinite(group).all()]
    caught = np.array([_share(group, thresholds, np.greater) for group in groups])
    caught = caught if len(caught) else np.full((1, len(thresholds)), np.nan)
    held = own[np.searchsorted(asked, withheld)]
    learned = ", which the features learned to part: another kind is caught less often" if was_trained else ""
    return TradeOff(
        thresholds,
        _share(own, thresholds),
        caught.mean(axis=0),
        caught.min(axis=0),
        caught.max(axis=0),
        f"{counted(len(asked), 'training image')}, {counted(len(groups), 'cluster')} taken out in turn{learned}",
        len(withheld),
        _share(held, thresholds),
        _share(np.where(is_right, held, np.inf), thresholds),
    )


def _both_distances(points: np.ndarray, clusters: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance of every picture asked about to all others, and to all of other clusters; inf where there are none."""
    own, foreign = np.empty(len(asked), np.float32), np.empty(len(asked), np.float32)
    for part in _blocks(len(asked)):
        rows = asked[part]
        distances = 1 - points[rows] @ points.T
        distances[np.arange(len(rows)), rows] = np.inf
        own[part] = _least(distances, NEIGHBOURS)[0].mean(axis=1)
        distances[clusters[rows, None] == clusters] = np.inf
        foreign[part] = _least(distances, NEIGHBOURS)[0].mean(axis=1)
    return own, foreign


def _share(values: np.ndarray, thresholds: np.ndarray, holds=np.less_equal) -> np.ndarray:
    """Of `values` those for which `holds(value, threshold)`, by threshold; of none all."""
    return holds(values[:, None], thresholds).mean(axis=0) if len(values) else np.ones(len(thresholds))
