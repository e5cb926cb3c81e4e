"""Share of confident predictions, and how many of these are right, by predicted group.

NumPy arrays of class ids. A label of a seen class is right if it is the image's class; one of a novel class if its
cluster is matched with the image's class (Hungarian, novel ids with novel classes, over all images).
"""

from dataclasses import dataclass

import numpy as np

from lps.data.classes import Classes
from lps.scores.metrics import contingency, match_ids


@dataclass(frozen=True)
class Adoption:
    """Counts of images of one predicted group. right and wrong: of the passing ones, if the truth is known."""

    images: int
    passing: int
    right: int
    wrong: int

    @property
    def rate(self) -> float | None:
        """Return the share of the group that passes."""
        return self.passing / self.images if self.images else None

    @property
    def purity(self) -> float | None:
        """Return the share of right ones among the passing images of known truth."""
        num_known = self.right + self.wrong
        return self.right / num_known if num_known else None


def adoption(
    predicted: np.ndarray, confidence: np.ndarray, truth: np.ndarray, classes: Classes, thresholds: dict[str, float]
) -> dict[str, Adoption]:
    """Count the images that pass, by the group that the prediction belongs to.

    predicted, truth: ids (n,), truth -1 where unknown; confidence (n,) in [0, 1]; thresholds: by "seen", "novel", one
    of them may be missing.
    """
    predicted, truth = predicted.astype(np.int64), truth.astype(np.int64)
    called_seen = predicted < classes.seen
    is_right = np.where(called_seen, predicted == truth, _matched(predicted, truth, classes) == truth)
    groups = {}
    for group, rows in (("seen", called_seen), ("novel", ~called_seen)):
        if group in thresholds:
            passing = rows & (confidence >= thresholds[group])
            is_known = passing & (truth >= 0)
            right = int((is_known & is_right).sum())
            groups[group] = Adoption(int(rows.sum()), int(passing.sum()), right, int(is_known.sum()) - right)
    return groups


def _matched(predicted: np.ndarray, truth: np.ndarray, classes: Classes) -> np.ndarray:
    """Return novel ids as their matched novel classes; other ids are -2, which is no class."""
    first = classes.seen
    is_novel = (predicted >= first) & (truth >= first)
    size = int(max(classes.total, predicted.max(initial=0) + 1, truth.max(initial=0) + 1)) - first
    mapped = np.full(first + size, -2)
    if is_novel.any():
        mapped[first:] = first + match_ids(contingency(predicted[is_novel] - first, truth[is_novel] - first, size))
    return mapped[predicted]
