"""Hungarian matching and scores based on it. NumPy arrays of class ids.

Matching (clusters to classes, for evaluation only) is implemented only here; `protocols` computes scores from it.
"""

import numpy as np
import scipy  # imports its parts on first use, which keeps the start of the dashboard fast


def contingency(predicted: np.ndarray, truth: np.ndarray, size: int) -> np.ndarray:
    """Return (size, size) counts: rows are predicted ids, columns true ids."""
    return np.bincount(predicted * size + truth, minlength=size * size).reshape(size, size)


def match_ids(counts: np.ndarray) -> np.ndarray:
    """Return the one-to-one map predicted id -> true id with the largest total count (Hungarian)."""
    rows, columns = scipy.optimize.linear_sum_assignment(counts, maximize=True)
    assigned = np.empty(len(counts), np.int64)
    assigned[rows] = columns
    return assigned


def matched_accuracy(predicted: np.ndarray, truth: np.ndarray, size: int) -> float:
    """Return the best agreement over one-to-one maps from predicted to true ids; NaN for no images."""
    if len(truth) == 0:
        return float("nan")
    counts = contingency(predicted, truth, size)
    return float(counts[np.arange(size), match_ids(counts)].sum() / len(truth))


def agreement(predicted: np.ndarray, truth: np.ndarray, *, seen_is_aligned: bool) -> float:
    """Return accuracy on images of seen classes: direct, or after the best matching if ids do not mean classes."""
    if len(truth) == 0 or seen_is_aligned:
        return float((predicted == truth).mean()) if len(truth) else float("nan")
    return matched_accuracy(predicted, truth, int(max(predicted.max(), truth.max())) + 1)


def accuracy_by_size(by_class: np.ndarray, sizes: np.ndarray) -> dict[str, float]:
    """Return mean and standard deviation of the accuracy over classes, and means over large, medium and small classes.

    by_class: (k,) accuracy, NaN for a class without images; sizes: (k,) training images of every class. balanced: the
    mean over classes; std: their standard deviation (population). With n_max and n_min the largest and smallest size,
    few has the classes up to n_min^(2/3) n_max^(1/3) images, many those from n_min^(1/3) n_max^(2/3) on, and medium the
    others: thirds of the range on a logarithmic scale, so that they follow the data and each has a third of the classes
    on an exponential curve. The three are left out if n_max < 2 n_min, and each if it has no class.
    """
    has_value = ~np.isnan(by_class) & (sizes > 0)
    accuracy, count = by_class[has_value], sizes[has_value].astype(float)
    if len(accuracy) == 0:
        return {}
    scores = {"balanced": float(accuracy.mean()), "std": float(accuracy.std())}
    low, high = count.min(), count.max()
    if high < 2 * low:
        return scores
    small, large = low ** (2 / 3) * high ** (1 / 3), low ** (1 / 3) * high ** (2 / 3)
    is_few, is_many = count <= small * (1 + 1e-9), count >= large * (1 - 1e-9)
    groups = {"many": is_many, "medium": ~is_few & ~is_many, "few": is_few}
    return scores | {name: float(accuracy[members].mean()) for name, members in groups.items() if members.any()}


def prior_error(prior: np.ndarray, shares: np.ndarray, predicted: np.ndarray, truth: np.ndarray, seen: int) -> float:
    """Return total variation 1/2 sum_k |q_k - t_k| between a prior (k,) and the true shares (k,), in [0, 1].

    Seen ids are the seen classes. A novel id counts as its matched novel class (Hungarian, over images
    of novel classes predicted as novel), since a model does not know which of its ids is which. predicted, truth: (n,)
    class ids; images of unknown truth (-1), and of classes without a model id, are left out.
    """
    total = len(prior)
    is_novel = (predicted >= seen) & (truth >= seen) & (truth < total)
    moved = np.array(prior, float)
    if total > seen:
        counts = contingency(
            predicted[is_novel].astype(np.int64) - seen, truth[is_novel].astype(np.int64) - seen, total - seen
        )
        moved[seen + match_ids(counts)] = prior[seen:]
    return float(np.abs(moved - shares).sum() / 2)


def class_accuracy(mapped: np.ndarray, truth: np.ndarray, total: int) -> np.ndarray:
    """Return the share of every true class with the right id, (total,); NaN for a class without images."""
    sizes = np.bincount(truth, minlength=total)[:total].astype(float)
    hits = np.bincount(truth[mapped == truth], minlength=total)[:total]
    return np.divide(hits, sizes, out=np.full(total, np.nan), where=sizes > 0)
