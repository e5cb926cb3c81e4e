"""Predictions of new pictures, for display and export. This module does not import torch."""

import math
from dataclasses import dataclass, field

import numpy as np

from lps.errors import UserError, shorten
from lps.inference.rejection import DEFAULT_KEEP, TradeOff

NONE = "none of these"
# So many of the 5 most similar training images in the answer's cluster leave no doubt. With fewer, 10 of 18 answers on
# new photographs were wrong, otherwise 3 of 45; on unlabeled ones of the training, 52 of 89 and 126 of 786.
AGREEING = 4


@dataclass(frozen=True)
class PredictionResult:
    """Predictions, one row per picture.

    files: path below `root`, or the number in an array. predicted int64: the model's id; cluster int64: the cluster
    after the user's merges and splits. confidence float32. distance float32: see `rejection`. nearest int64 (n, k):
    image ids of the run's most similar images, most similar first; theirs: the clusters of these images. titles,
    groups: name and group ("seen", "novel" or "") by cluster. rejected: clusters that the user marked as not a class.
    lost: names that no cluster of this epoch continues. epoch: of the weights. skipped: (name, reason) of files left
    out. kinds: for each possible novel class its rows, see `novel_proposals`, the largest first.
    """

    run: str
    epoch: int
    root: str | None
    files: tuple[str, ...]
    predicted: np.ndarray
    cluster: np.ndarray
    confidence: np.ndarray
    distance: np.ndarray
    nearest: np.ndarray
    theirs: np.ndarray
    titles: dict[int, str]
    groups: dict[int, str]
    rejected: frozenset[int]
    lost: tuple[str, ...]
    trade_off: TradeOff
    skipped: tuple[tuple[str, str], ...] = field(default=())
    kinds: tuple[tuple[int, ...], ...] = field(default=())

    def threshold(self, share: float | None = None) -> float:
        """Return the distance that accepts a share `share` of the pictures of known classes.

        Raises `UserError` for a number that is not a share.
        """
        check_share(share)
        return math.inf if share == 1 else self.trade_off.threshold(DEFAULT_KEEP if share is None else share)

    def is_none(self, threshold: float) -> np.ndarray:
        """Return which pictures are none of the classes, bool (n,): too far away, or in a rejected cluster."""
        return (self.distance > threshold) | np.isin(self.cluster, sorted(self.rejected))

    def is_doubtful(self, threshold: float) -> np.ndarray:
        """Return which pictures get a class that fewer than `AGREEING` of the most similar images are in, bool (n,)."""
        num_agreeing = (self.theirs == self.cluster[:, None]).sum(axis=1)
        return ~self.is_none(threshold) & (num_agreeing < AGREEING)

    def names(self) -> list[str]:
        """Return the name of every picture's cluster, ignoring rejection."""
        return [self.titles[cluster] for cluster in self.cluster.tolist()]

    def kind_in_words(self, kind: tuple[int, ...]) -> str:
        """Describe one of `kinds` in a line, with its first pictures."""
        first = ", ".join(shorten(self.files[row]) for row in kind[:3])
        pictures_text = f"{len(kind):,} pictures that are similar to each other and to no known class"
        return f"possible novel class: {pictures_text} ({first}, …)"


def check_share(share: float | None) -> None:
    """Raise `UserError` for a number that is not a share."""
    if share is not None and not 0 < share <= 1:
        raise UserError("keep", f"{share:g} is not a share; expected more than 0 and at most 1")
