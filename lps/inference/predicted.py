"""Predictions of new pictures as they are shown and taken away. No torch here."""

import math
from dataclasses import dataclass, field

import numpy as np

from lps.errors import UserError, shorten
from lps.inference.none_of_these import DEFAULT_KEEP, TradeOff

NONE = "none of these"


@dataclass(frozen=True)
class Predicted:
    """One row a picture: its file below `root`, or its number where it came out of an array.

    predicted int64: the model's id; cluster int64: the same after a person's merges and splits; confidence float32;
    distance float32: as of `none_of_these`; nearest int64 (n, k): image ids of the run, the most alike first; theirs:
    the clusters of these.

    titles, groups: name, and seen, novel or "", by cluster. rejected: clusters that a person called no class. lost:
    names that nothing at this epoch continues. epoch: of the weights. skipped: (name, reason) of files left out.
    kinds: rows of pictures that may be a novel class each, as of `new_kinds`, the largest first.
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

    def threshold(self, keep: float | None = None) -> float:
        """The distance that keeps such a share of the pictures of known classes, without it `DEFAULT_KEEP`.

        Raises `UserError` for no share.
        """
        check_share(keep)
        return math.inf if keep == 1 else self.trade_off.threshold(DEFAULT_KEEP if keep is None else keep)

    def is_none(self, threshold: float) -> np.ndarray:
        """bool (n,): farther from everything than the threshold, or of a cluster that a person rejected."""
        return (self.distance > threshold) | np.isin(self.cluster, sorted(self.rejected))

    def names(self) -> list[str]:
        """What every picture is called, were it one of these."""
        return [self.titles[cluster] for cluster in self.cluster.tolist()]

    def kind_in_words(self, kind: tuple[int, ...]) -> str:
        """A line on one of `kinds`, with its first pictures."""
        first = ", ".join(shorten(self.files[row]) for row in kind[:3])
        words = f"{len(kind):,} pictures that are similar to each other and to no known class"
        return f"possible novel class: {words} ({first}, …)"


def check_share(keep: float | None) -> None:
    """Raises `UserError` for a number that is not a share."""
    if keep is not None and not 0 < keep <= 1:
        raise UserError("keep", f"{keep:g} is not a share; expected more than 0 and at most 1")
