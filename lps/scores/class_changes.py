"""Compare two runs class by class, on the pictures without a label that both predict. NumPy only."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lps.wording import counted, listed

_GROWTH, _FEWEST_NEW = 0.2, 5  # share of its pictures and number of pictures by which a class has to grow to be named
_CHANCE = 0.05  # p-value above which a difference of two runs is said to be possible by chance


@dataclass(frozen=True)
class ClassChange:
    """One class in the run before and in the run that went on from it.

    withheld: pictures of known class; right_before, right_after: how many of them each run predicts correctly; lost:
    how many only the first one does. before: pictures that the first run put in the class; stayed: how many of them the
    second one puts there, too.
    """

    name: str
    withheld: int
    right_before: int
    right_after: int
    lost: int
    before: int
    stayed: int


def compare_classes(
    names: Sequence[str],
    before: np.ndarray,
    after: np.ndarray,
    truth: np.ndarray,
    is_right: tuple[np.ndarray, np.ndarray],
) -> list[ClassChange]:
    """Return one change for each of `names`.

    before, after, truth: names (n,) of the same pictures, "" if unknown. is_right: whether the model before and after
    predicts `truth`, each (n,); user decisions do not count.
    """
    changes, (was_right, still_right) = [], is_right
    for name in names:
        of_class, was = truth == name, before == name
        right = of_class & was_right
        parts = of_class, right, of_class & still_right, right & ~still_right, was, was & (after == name)
        changes.append(ClassChange(name, *(int(part.sum()) for part in parts)))
    return changes


def growth_in_words(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Name the classes that grew clearly: "cat grew from 45 to 63 pictures"; "" if none did.

    before, after: number of pictures by class.
    """
    grown = [
        f"{name} grew from {count:,} to {counted(after[name], 'picture')}"
        for name, count in before.items()
        if name in after and count and after[name] - count >= max(_FEWEST_NEW, _GROWTH * count)
    ]
    return listed(grown) if grown else ""


def compare_in_words(changes: Sequence[ClassChange]) -> str:
    """Say how many withheld labels each run predicts correctly, with n; these are the same labels for both."""
    names = ("withheld", "right_before", "right_after", "lost")
    count, before, after, lost = (sum(getattr(change, name) for change in changes) for name in names)
    if not count:
        return "No labels were withheld, so the accuracies of the two runs cannot be compared."
    sentence = f"That run predicts {before} of {counted(count, 'withheld label')} correctly; this run predicts {after}."
    if before == after:
        sentence = f"No difference in total: both runs predict {after} of {counted(count, 'withheld label')} correctly."
    is_chance = before != after and _sign_test(lost, after - before + lost) > _CHANCE
    return sentence + " The difference may be chance." * is_chance


def _sign_test(first: int, second: int) -> float:
    """Return the p-value, two-sided, of two counts that are equally likely."""
    count = first + second
    return min(1.0, 2 * sum(math.comb(count, k) for k in range(min(first, second) + 1)) / 2**count)


def changes_in_words(changes: Sequence[ClassChange]) -> str:
    """Describe which classes got worse or better on withheld labels, with n, and changes that cannot be measured."""
    measured = [change for change in changes if change.withheld]
    worse = [change for change in measured if change.right_after < change.right_before]
    better = [change for change in measured if change.right_after > change.right_before]
    fewer, more = (
        ", ".join(f"{c.name} ({c.right_before} → {c.right_after} of {c.withheld})" for c in some)
        for some in (worse, better)
    )
    sentences = []
    if worse:
        more = f", and more for {more}" if better else ""
        sentences.append(f"Correct predictions of withheld labels: fewer for {fewer}{more}.")
    elif measured:
        more = f"; better: {more}" if better else ""
        sentences.append(f"No class with withheld labels got worse ({len(measured)} checked){more}.")
    smaller_classes = [change for change in changes if not change.withheld and change.stayed < change.before]
    if smaller_classes:
        moved = ", ".join(f"{c.name} ({c.before - c.stayed} of {c.before})" for c in smaller_classes)
        sentences.append(
            "In classes without withheld labels, some pictures that the run before put there, and that still have no "
            f"label, are now in another class: {moved}. This is expected, but some of these changes can be wrong. To "
            "check, open a class below and choose Least confident."
        )
    return " ".join(sentences)
