"""Means and differences of few samples: Student's and Welch's intervals, Holm's correction, sample size.

Closed forms over the last axis of an array, so that thousands of draws are computed at once. Assumes normal samples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # imports scipy.special on first use, which keeps the start of the dashboard fast

INTERVAL_CONFIDENCE = 0.95  # the "95 %" of every interval and of its texts
CONFIDENCE_TEXT = f"{100 * INTERVAL_CONFIDENCE:g} %"
INTERVAL = f"{CONFIDENCE_TEXT} interval"
POWER = 0.8  # of the sample size of `sample_size_needed`
MAX_SAMPLE_SIZE = 1000
_SURE = 30.0  # standard errors: two or more samples suffice; scipy takes seconds and fails far beyond
_TINY = 1e-9  # a standard error below this is rounding: equal numbers say nothing about their spread


@dataclass(frozen=True)
class MeanEstimate:
    """A mean, or a difference of two, from samples: floats, or arrays of one shape.

    error: its standard error, NaN if unknown. degrees: of freedom.
    """

    mean: np.ndarray | float
    error: np.ndarray | float
    degrees: np.ndarray | float

    @property
    def half_width(self) -> np.ndarray | float:
        """Return half the width of its confidence interval."""
        return t_quantile(self.degrees) * self.error

    @property
    def chance(self) -> np.ndarray | float:
        """Return the two-sided p-value for a true mean of 0."""
        return 2 * scipy.special.stdtr(self.degrees, -np.abs(self.mean) / self.error)


def t_quantile(degrees: np.ndarray | float, comparisons: int = 1) -> np.ndarray | float:
    """Return the half-width of a confidence interval in standard errors, by Student's t.

    comparisons: number of intervals from which this one is reported (Bonferroni's correction).
    """
    return scipy.special.stdtrit(degrees, 1 - (1 - INTERVAL_CONFIDENCE) / 2 / comparisons)


def mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and sample standard deviation; NaN if there are too few values."""
    mean = float(np.mean(values)) if len(values) else math.nan
    return mean, float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def of_mean(values: np.ndarray) -> MeanEstimate:
    """Estimate the mean of samples (..., n) by Student's t."""
    values = np.asarray(values, np.float64)
    n = values.shape[-1]
    spread = np.std(values, axis=-1, ddof=1) if n > 1 else np.full(values.shape[:-1], np.nan)
    return MeanEstimate(values.mean(axis=-1), _error(spread / math.sqrt(n)), np.maximum(n - 1, 1))


def of_pairs(first: np.ndarray, second: np.ndarray) -> MeanEstimate:
    """Estimate the mean of first minus second, both (..., n), by Student's t."""
    return of_mean(np.subtract(first, second))


def of_two(first: np.ndarray, second: np.ndarray) -> MeanEstimate:
    """Estimate the mean of first (..., n) minus that of second (..., m) by Welch's t; spreads may differ."""
    sides = [of_mean(first), of_mean(second)]
    parts = [np.nan_to_num(side.error) ** 2 for side in sides]
    total = parts[0] + parts[1]
    is_estimable = total > 0 if min(np.shape(first)[-1], np.shape(second)[-1]) > 1 else False
    slack = sum(part**2 / side.degrees for part, side in zip(parts, sides))
    degrees = np.where(is_estimable, total**2 / np.where(slack > 0, slack, 1), 1)
    return MeanEstimate(sides[0].mean - sides[1].mean, np.where(is_estimable, np.sqrt(total), np.nan), degrees)


def _error(error: np.ndarray) -> np.ndarray:
    return np.where(error > _TINY, error, np.nan)


def holm(chances: Sequence[float]) -> list[float]:
    """Adjust p-values of simultaneous comparisons, so that one in 20 such families has a false finding.

    Holm (1979): the smallest times their number, the next times one less, monotone; NaN stays and does not count.
    """
    order = sorted((i for i, chance in enumerate(chances) if not math.isnan(chance)), key=lambda i: chances[i])
    corrected, least = [math.nan] * len(chances), 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, chances[i] * (len(order) - rank)))
        corrected[i] = least
    return corrected


def sample_size_needed(effect: float, spreads: Sequence[float]) -> int | None:
    """Return the sample size for an interval without 0 with power `POWER`; None if it exceeds `MAX_SAMPLE_SIZE`.

    Assumes that `effect` is the true difference and `spreads` the true standard deviations: one of paired differences,
    or two of unpaired groups, with this many samples each.
    """
    n = np.arange(2, MAX_SAMPLE_SIZE + 1)
    variances = np.square(spreads)
    degrees = (n - 1) * variances.sum() ** 2 / np.square(variances).sum()
    edge = t_quantile(degrees)
    lift = np.minimum(abs(effect) / np.sqrt(variances.sum() / n), _SURE)
    is_enough = 1 - scipy.special.nctdtr(degrees, lift, edge) >= POWER
    return int(n[np.argmax(is_enough)]) if is_enough.any() else None
