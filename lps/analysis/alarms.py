"""Detect runs that go wrong without failing: collapse, empty novel classes, few pseudo-labels, a growing gap.

Takes records, returns alarms, and knows no runs or pages. Standard library only. The thresholds were chosen on 71 runs
of eleven methods on digits: of those that end with an accuracy on all of at least 0.85, one has an alarm at its end,
and it does have an empty class.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lps.wording import counted

PATIENCE = 5  # consecutive epochs that a problem must last; the first epochs vary a lot
HEAP = 3.0  # a class is overfull from this many times its expected number of images
GROWTH = 0.10  # fraction by which the gap must grow within the epochs that are read
FEW = 0.02  # share of the novel predictions below which pseudo-labels teach next to nothing: docs/results.md, CIFAR-100
WARM_UP = 10  # epochs in which few predictions are confident in any run
TITLES = {"collapse": "Collapse", "empty": "Empty classes", "unconfident": "Few pseudo-labels", "gap": "Growing gap"}


@dataclass(frozen=True)
class Alarm:
    """A problem at the newest epoch. kind: a key of `TITLES`; epoch: the newest one."""

    kind: str
    epoch: int
    words: str

    @property
    def title(self) -> str:
        return TITLES[self.kind]


def find_alarms(
    evaluations: Sequence[tuple[int, dict]],
    seen: int,
    *,
    training: dict | None = None,
    shares: Sequence[float] | None = None,
) -> list[Alarm]:
    """Return the alarms of a run, the most serious first.

    evaluations: (epoch, values) of the newest ones, oldest first. seen: number of seen classes. training: values of the
    newest training record. shares: true share of every class among the images, (classes,), where it is known; else
    every class should have the same.
    """
    epoch = evaluations[-1][0] if evaluations else 0
    counts = [list(values.get("class/count_predicted") or []) for _, values in evaluations[-PATIENCE:]]
    alarms = [
        _collapse(counts, shares),
        _empty(counts, seen),
        _unconfident(training or {}) if epoch >= WARM_UP else "",
        _gap([values.get("accuracy/gap") for _, values in evaluations]),
    ]
    return [Alarm(kind, epoch, words) for kind, words in zip(TITLES, alarms, strict=True) if words]


def _collapse(counts: list[list], shares: Sequence[float] | None) -> str:
    """Alarm for an overfull class in each of the newest `PATIENCE` epochs; the class may differ between epochs."""
    if not _is_complete(counts):
        return ""
    excess = [_heaps(row, shares) for row in counts]
    if min(times for times, _ in excess) <= HEAP:
        return ""
    times, share = excess[-1]
    fair = "its true share" if shares is not None else "an equal share"
    return f"one class holds {100 * share:.0f} % of the images, {times:.1f} times {fair}"


def _heaps(row: list, shares: Sequence[float] | None) -> tuple[float, float]:
    """Return (ratio to the expected size, share) of the fullest class; expected: the larger of even and true share."""
    fair_share, total = 1 / len(row), sum(row)
    fair = [fair_share] * len(row)
    if shares is not None and len(shares) == len(row):
        fair = [max(fair_share, share) for share in shares]
    return max((count / total / part, count / total) for count, part in zip(row, fair, strict=True))


def _empty(counts: list[list], seen: int) -> str:
    """Alarm for novel classes that got no image in any of the newest `PATIENCE` epochs."""
    if not _is_complete(counts) or not seen:
        return ""
    always = sum(not any(column) for column in list(zip(*counts, strict=True))[seen:])
    if not always:
        return ""
    return f"{counted(always, 'novel class')} {'has' if always == 1 else 'have'} had no image for {PATIENCE} epochs"


def _unconfident(training: dict) -> str:
    """Alarm for novel classes that are learned from almost no pseudo-label; LPS and NACH have a threshold for them."""
    share, threshold = training.get("pseudo_label/rate/novel"), training.get("threshold/novel")
    if share is None or threshold is None or share >= FEW:
        return ""
    return (
        f"only {100 * share:.2g} % of the images that are predicted as a novel class reach the confidence of "
        f"{threshold:.2g} for a pseudo-label. Lower thresholds for novel classes may help, especially with many classes"
    )


def _gap(gaps: list) -> str:
    """Alarm for a gap that is at least `GROWTH` above its earlier minimum in each of the newest `PATIENCE` epochs."""
    numeric_gaps = [gap for gap in gaps if isinstance(gap, (int, float))]
    before, now = numeric_gaps[:-PATIENCE], numeric_gaps[-PATIENCE:]
    if not before or min(now) - min(before) < GROWTH or min(now) < GROWTH:
        return ""
    return f"the gap grew by {100 * (now[-1] - min(before)):.0f} points within {len(numeric_gaps)} epochs"


def _is_complete(counts: list[list]) -> bool:
    """Return whether there are enough epochs, all with valid counts for the same number of classes."""
    if len(counts) < PATIENCE or len({len(row) for row in counts}) != 1:
        return False
    return all(row and all(isinstance(n, (int, float)) and n >= 0 for n in row) and sum(row) > 0 for row in counts)
