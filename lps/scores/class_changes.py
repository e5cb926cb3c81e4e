"""Compare two runs class by class, on the pictures without a label that both predict. NumPy only."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class _ClassChange:
    """One class in the run before and in the run that went on from it.

    withheld: pictures of known class; right_before, right_after: how many of them each run predicts correctly. before:
    pictures that the first run put in the class; stayed: how many of them the second one puts there, too.
    """

    name: str
    withheld: int
    right_before: int
    right_after: int
    before: int
    stayed: int


def compare_classes(
    names: Sequence[str], before: np.ndarray, after: np.ndarray, truth: np.ndarray
) -> list[_ClassChange]:
    """Return one change for each of `names`.

    before, after, truth: names (n,) of the same pictures; truth: "" if unknown.
    """
    changes = []
    for name in names:
        of_class, was, remains = truth == name, before == name, (before == name) & (after == name)
        num_right = int((of_class & was).sum()), int((of_class & (after == name)).sum())
        changes.append(_ClassChange(name, int(of_class.sum()), *num_right, int(was.sum()), int(remains.sum())))
    return changes


def changes_in_words(changes: Sequence[_ClassChange]) -> str:
    """Describe which classes got worse on withheld labels, with n, and changes that cannot be measured."""
    measured = [change for change in changes if change.withheld]
    worse = [change for change in measured if change.right_after < change.right_before]
    listed = ", ".join(f"{c.name} ({c.right_before} → {c.right_after} of {c.withheld})" for c in worse)
    sentences = [f"Fewer withheld labels are predicted correctly than in the run before: {listed}."] if worse else []
    if measured and not worse:
        sentences.append(
            f"No class with withheld labels got worse ({len(measured)} checked): none has fewer correct predictions of "
            "these labels than in the run before."
        )
    smaller_classes = [change for change in changes if not change.withheld and change.stayed < change.before]
    if smaller_classes:
        moved = ", ".join(f"{c.name} ({c.before - c.stayed} of {c.before})" for c in smaller_classes)
        sentences.append(
            "Some classes have no withheld labels, and part of their pictures are now predicted as another class: "
            f"{moved}. Check these classes on Clusters."
        )
    return " ".join(sentences)
