"""Evaluation protocols of the field for open-world predictions, computed from stored predictions of any run.

All protocols use the same predicted ids; they differ in who may be matched to whom. `orca` is the default here and
in ORCA, LPS, NACH and OpenNCD; `gcd_v1` and `gcd_v2` are the two metrics of GCD; `strict` follows TRSSL and OpenLDN.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lps.data.classes import Classes
from lps.scores.metrics import accuracy_by_size, class_accuracy, contingency, match_ids, matched_accuracy

PROTOCOLS = {
    "orca": (
        "seen: the predicted class must be the true one; novel: clusters and classes are matched on novel images "
        "alone; all: one matching over all images"
    ),
    "gcd_v1": "seen and novel: clusters and classes are matched on each alone; all: their weighted mean",
    "gcd_v2": "one matching over all images, evaluated on seen and on novel images",
    "gcd_v2_balanced": "like gcd_v2, but averaged over classes instead of images",
    "strict": "like orca, but a novel image predicted as a seen class is wrong, and vice versa",
}
ABOUT_LOW_ALL = (
    f"By the default protocol, that of ORCA's paper, All can be below both Seen and Novel ({PROTOCOLS['orca']})"
)
_NAN = float("nan")


@dataclass(frozen=True)
class Scores:
    """Fractions in [0, 1], NaN without images. seen_is_matched: how `seen` was computed, for display."""

    seen: float
    novel: float
    all: float
    nmi: float  # of novel images
    ari: float  # of novel images
    conflict: float  # weighted mean of seen and novel minus all: the disagreement of their matchings; NaN see `score`
    seen_is_matched: bool

    @property
    def gap(self) -> float:
        """Return seen minus novel accuracy."""
        return self.seen - self.novel


def score(predicted: np.ndarray, truth: np.ndarray, classes: Classes, protocol: str, seen_is_matched: bool) -> Scores:
    """Return the scores under one of `PROTOCOLS`; images of unknown truth (-1) are left out.

    predicted, truth: int (n,) class ids. seen_is_matched affects orca and strict; the other protocols define it. Strict
    counts an id as predicted seen if it is below `seen`, or, if ids have no meaning (matched), if the matching over
    everything maps it to a seen class. Strict has no conflict, and its `all` is not strict.
    """
    predicted, truth = _drop_unknown(predicted, truth)
    if len(truth) == 0:
        return Scores(_NAN, _NAN, _NAN, _NAN, _NAN, _NAN, seen_is_matched)
    return _score(predicted, truth, _mapped(predicted, truth, classes), classes, protocol, seen_is_matched)


def has_low_all(rows: Iterable[tuple[float | None, float | None, float | None]]) -> bool:
    """Return whether All is below both in a row of (seen, novel, all), in percent rounded as shown."""
    known_rows = ([round(percent, 1) for percent in row] for row in rows if None not in row)
    return any(total < seen and total < novel for seen, novel, total in known_rows)


def _drop_unknown(predicted: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both (n,) as int64, without the images of unknown truth."""
    is_known = truth >= 0
    return predicted[is_known].astype(np.int64), truth[is_known].astype(np.int64)


def _size(predicted: np.ndarray, truth: np.ndarray, classes: Classes) -> int:
    """Return one more than the largest possible id."""
    return int(max(classes.total, predicted.max() + 1, truth.max() + 1))


def _mapped(predicted: np.ndarray, truth: np.ndarray, classes: Classes) -> np.ndarray:
    """Return the predicted ids (n,) as classes after one matching over everything."""
    return match_ids(contingency(predicted, truth, _size(predicted, truth, classes)))[predicted]


def _score(
    predicted: np.ndarray, truth: np.ndarray, mapped: np.ndarray, classes: Classes, protocol: str, seen_is_matched: bool
) -> Scores:
    """Return `score` for known truth; mapped: see `_mapped`."""
    size = _size(predicted, truth, classes)
    is_seen = truth < classes.seen
    weight = is_seen.mean()
    if protocol == "gcd_v1":
        seen, novel = (matched_accuracy(predicted[part], truth[part], size) for part in (is_seen, ~is_seen))
        total = np.nansum([is_seen.mean() * seen, (1 - is_seen.mean()) * novel])
    elif protocol == "gcd_v2":
        seen, novel, total = (_agreement(mapped, truth, part) for part in (is_seen, ~is_seen, is_seen | True))
    elif protocol == "gcd_v2_balanced":
        per_class = class_accuracy(mapped, truth, max(classes.total, int(truth.max()) + 1))
        seen, novel, total = (_mean(part) for part in (per_class[: classes.seen], per_class[classes.seen :], per_class))
        has_images = ~np.isnan(per_class)
        weight = has_images[: classes.seen].sum() / has_images.sum()
    elif protocol in ("orca", "strict"):
        predicted_seen = (mapped if seen_is_matched else predicted) < classes.seen
        crossed = (predicted_seen != is_seen) if protocol == "strict" else np.zeros(len(truth), bool)
        seen = _seen(predicted, truth, is_seen, crossed, size, seen_is_matched)
        novel = _matched_without(predicted, truth, ~is_seen, crossed, size)
        total = _agreement(mapped, truth, is_seen | True)
    else:
        raise ValueError(f"{protocol!r} is not one of {', '.join(PROTOCOLS)}")
    from sklearn.metrics import adjusted_rand_score  # as in _nmi

    novel_truth, novel_ids = truth[~is_seen], predicted[~is_seen]
    nmi = _nmi(novel_truth, novel_ids) if len(novel_truth) else _NAN
    ari = adjusted_rand_score(novel_truth, novel_ids) if len(novel_truth) else _NAN
    matched = seen_is_matched if protocol in ("orca", "strict") else True
    conflict = _NAN if protocol == "strict" else np.nansum([weight * seen, (1 - weight) * novel]) - total
    return Scores(*(float(value) for value in (seen, novel, total, nmi, ari, round(conflict, 12))), matched)


def _nmi(truth: np.ndarray, predicted: np.ndarray) -> float:
    from sklearn.metrics import normalized_mutual_info_score  # takes half a second to import

    return float(normalized_mutual_info_score(truth, predicted))


def open_world(
    predicted: np.ndarray,
    truth: np.ndarray,
    classes: Classes,
    *,
    seen_is_aligned: bool = True,
    sizes: np.ndarray | None = None,
) -> dict[str, object]:
    """Return the measurements of one evaluation, by event name: the orca scores, and per-class values.

    sizes: training images of every class, by class id, for `accuracy_by_size`; None leaves these scores out.
    Images of unknown truth (-1) are left out; empty when no truth is known.
    """
    predicted, truth = _drop_unknown(predicted, truth)
    if len(truth) == 0:
        return {}
    mapped = _mapped(predicted, truth, classes)
    scores = _score(predicted, truth, mapped, classes, "orca", not seen_is_aligned)
    values = {f"accuracy/{name}": getattr(scores, name) for name in ("seen", "novel", "all", "gap", "conflict")}
    values["nmi/all"] = _nmi(truth, predicted)
    if (truth >= classes.seen).any():
        values |= {"nmi/novel": scores.nmi, "ari/novel": scores.ari}
    shown = max(classes.total, int(truth.max()) + 1)
    by_class = class_accuracy(mapped, truth, shown)
    if sizes is not None:
        sizes = np.pad(sizes, (0, max(0, shown - len(sizes))))[:shown]
        values |= {f"accuracy/{name}": value for name, value in accuracy_by_size(by_class, sizes).items()}
    values["class/accuracy"] = by_class.tolist()
    values["class/count_predicted"] = np.bincount(mapped, minlength=shown)[:shown].tolist()
    return values


def _seen(predicted, truth, is_seen, crossed, size, matched) -> float:
    if matched:
        return _matched_without(predicted, truth, is_seen, crossed, size)
    return _agreement(predicted, truth, is_seen)  # an id that agrees is a seen id, so no image crosses


def _matched_without(predicted, truth, part, crossed, size) -> float:
    """Return matched accuracy on `part`; images in `crossed` count as errors and do not take part in the matching."""
    is_counted = part & ~crossed
    if not part.any():
        return _NAN
    if not is_counted.any():
        return 0.0
    return matched_accuracy(predicted[is_counted], truth[is_counted], size) * is_counted.sum() / part.sum()


def _agreement(ids, truth, part) -> float:
    return (ids[part] == truth[part]).mean() if part.any() else _NAN


def _mean(values) -> float:
    return np.nanmean(values) if not np.isnan(values).all() else _NAN
