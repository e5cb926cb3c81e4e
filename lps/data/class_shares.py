"""Class shares among the training images, labeled and unlabeled: the true ones, and those that a run expects.

Batches are drawn from these images in proportion, so the mean prediction of a batch should match the shares. Float64
(classes,) by class id, seen classes first; they add up to 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lps.data.split import Split
from lps.errors import UserError
from lps.settings import given_prior
from lps.settings.config import Config

ADVISED = "confident"  # the prior for unequal classes: docs/concepts/priors.md has the measurements
_HELPED = ("lps",)  # methods with a distinguishable gain from it: docs/when-the-prior-matters.md
_UNEQUAL = 3.0  # label ratio of the largest to the smallest class from which sizes look unequal
_CHANCE = 0.001  # probability that labels of equal classes look unequal


@dataclass(frozen=True)
class PriorAdvice:
    """Advice to try another prior than equal shares. factor: labels of the largest class per label of the smallest."""

    factor: float
    prior: str = ADVISED

    @property
    def words(self) -> str:
        factor = f"{self.factor:.1f}" if self.factor < 10 else f"{self.factor:,.0f}"
        return (
            f"The largest labeled class has {factor} times as many labels as the smallest one. Training expects "
            f"classes of equal size unless you set prior = {self.prior}."
        )


def advise_prior(label_counts: Sequence[int] | np.ndarray, config: Config) -> PriorAdvice | None:
    """Return advice for a run with equal shares whose labels look unequal; None otherwise.

    Only for methods that gained from the advised prior in docs/when-the-prior-matters.md.

    label_counts: labeled images of each seen class so far. Sizes look unequal from a
    factor of 3 on if that is unlikely to be chance (chi-squared test against equal sizes).
    """
    from scipy.special import chdtrc  # imported here to keep the start of the dashboard fast

    if config.prior != "uniform" or config.method not in _HELPED:
        return None
    counts = np.asarray(label_counts, np.float64)
    counts = counts[counts > 0]
    if len(counts) < 2 or counts.max() < _UNEQUAL * counts.min():
        return None
    distance = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    return PriorAdvice(counts.max() / counts.min()) if chdtrc(len(counts) - 1, distance) < _CHANCE else None


def class_sizes(split: Split, truth: np.ndarray) -> np.ndarray:
    """Return int64: number of training images of every class by class id, if known; truth: see `true_shares`."""
    truth_of_training = truth[split.training]
    return np.bincount(truth_of_training[truth_of_training >= 0], minlength=split.classes.total)


def true_shares(split: Split, truth: np.ndarray) -> np.ndarray | None:
    """Return the true shares; None if the class of a training image is unknown.

    truth: int64 (n,), class ids of all images, -1 where unknown. Classes without a model id are left out.
    """
    if (truth[split.training] < 0).any():
        return None
    counts = class_sizes(split, truth)[: split.classes.total]
    return counts / counts.sum()


def first_prior(config: Config, split: Split, truth: np.ndarray) -> np.ndarray | None:
    r"""Return the prior q that a run starts with; None is the uniform one of the papers. Raises `UserError`.

    With K classes, of which K_s are seen, and n_k labeled images of class k:

    - uniform, and estimates (`lps.methods.parts.prior`) before there is one: q_k = 1 / K.
    - labeled: q_k = (K_s / K) n_k / \sum_{j \le K_s} n_j for seen classes and 1 / K for novel ones. The seen classes
      together have the mass K_s / K, as if an average class were as large among the novel ones.
    - given: the numbers of `prior.shares`.
    - oracle: the true shares of all training images, which hidden labels tell.

    truth: as in `true_shares`; only oracle looks at it beyond the labeled images.
    """
    classes = split.classes
    if config.prior == "uniform":
        return None
    if config.prior == "given":
        shares = np.array(given_prior.shares_of(config.prior_shares))
        given_prior.check_count(len(shares), classes.total)
        return shares
    if config.prior == "oracle":
        shares = true_shares(split, truth)
        if shares is None:
            unknown = int((truth[split.training] < 0).sum())
            raise UserError("prior", f"oracle needs the class of every training image, and {unknown:,} are unknown")
        return shares
    shares = np.full(classes.total, 1 / classes.total)
    if config.prior == "labeled":
        counts = np.bincount(truth[split.labeled], minlength=classes.seen)
        shares[: classes.seen] = classes.seen / classes.total * counts / counts.sum()
    return shares
