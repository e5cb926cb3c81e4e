"""What is measured with the ground truth: open-world accuracy after Hungarian matching, NMI, ARI, per-class accuracy.

NumPy arrays of class ids; ids below `classes.seen` are seen. Matching (clusters to classes, for evaluation only) lives
here and nowhere else, so there is one definition of every number.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from lps.split import Classes


def contingency(predicted: np.ndarray, truth: np.ndarray, size: int) -> np.ndarray:
    """(size, size) counts: rows are predicted ids, columns true ids."""
    return np.bincount(predicted * size + truth, minlength=size * size).reshape(size, size)


def match(counts: np.ndarray) -> np.ndarray:
    """The one-to-one map predicted id -> true id with the largest total count (Hungarian)."""
    rows, columns = linear_sum_assignment(counts, maximize=True)
    assigned = np.empty(len(counts), np.int64)
    assigned[rows] = columns
    return assigned


def matched_accuracy(predicted: np.ndarray, truth: np.ndarray, size: int) -> float:
    """Best agreement over one-to-one maps from predicted to true ids; NaN for no images."""
    if len(truth) == 0:
        return float("nan")
    counts = contingency(predicted, truth, size)
    return float(counts[np.arange(size), match(counts)].sum() / len(truth))


def open_world(
    predicted: np.ndarray, truth: np.ndarray, classes: Classes, *, seen_is_aligned: bool = True
) -> dict[str, object]:
    """The measurements of one evaluation, by event name; images of unknown truth (-1) are left out.

    seen: raw agreement, or matched on seen images alone where ids are not aligned; novel: matched on novel images
    alone; all: matched on everything with one map; gap = seen - novel; conflict = the weighted mean of seen and novel
    minus all. Empty when no truth is known.
    """
    known = truth >= 0
    predicted, truth = predicted[known], truth[known]
    if len(truth) == 0:
        return {}
    size = int(max(classes.total, predicted.max() + 1, truth.max() + 1))
    is_seen = truth < classes.seen
    counts = contingency(predicted, truth, size)
    mapped = match(counts)[predicted]
    if seen_is_aligned and is_seen.any():
        seen = (predicted[is_seen] == truth[is_seen]).mean()
    else:
        seen = matched_accuracy(predicted[is_seen], truth[is_seen], size)
    novel = matched_accuracy(predicted[~is_seen], truth[~is_seen], size)
    total = (mapped == truth).mean()
    weight = is_seen.mean()
    mean = sum(w * a for w, a in ((weight, seen), (1 - weight, novel)) if w > 0)
    values = {"accuracy/seen": seen, "accuracy/novel": novel, "accuracy/all": total, "accuracy/gap": seen - novel}
    values["accuracy/conflict"] = mean - total
    values["nmi/all"] = normalized_mutual_info_score(truth, predicted)
    if (~is_seen).any():
        values["nmi/novel"] = normalized_mutual_info_score(truth[~is_seen], predicted[~is_seen])
        values["ari/novel"] = adjusted_rand_score(truth[~is_seen], predicted[~is_seen])
    shown = max(classes.total, int(truth.max()) + 1)
    values["class/accuracy"] = class_accuracy(mapped, truth, shown).tolist()
    values["class/count_predicted"] = np.bincount(mapped, minlength=shown)[:shown].tolist()
    return {name: value if isinstance(value, list) else float(value) for name, value in values.items()}


def agreement(predicted: np.ndarray, truth: np.ndarray, *, seen_is_aligned: bool) -> float:
    """Accuracy on images of seen classes: raw, or after the best matching where ids do not mean classes."""
    if len(truth) == 0 or seen_is_aligned:
        return float((predicted == truth).mean()) if len(truth) else float("nan")
    return matched_accuracy(predicted, truth, int(max(predicted.max(), truth.max())) + 1)


def class_accuracy(mapped: np.ndarray, truth: np.ndarray, total: int) -> np.ndarray:
    """Share of every true class that got its id, (total,); NaN for a class without images."""
    sizes = np.bincount(truth, minlength=total)[:total].astype(float)
    hits = np.bincount(truth[mapped == truth], minlength=total)[:total]
    return np.divide(hits, sizes, out=np.full(total, np.nan), where=sizes > 0)
