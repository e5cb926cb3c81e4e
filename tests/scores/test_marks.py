"""Marks on the epoch axis: cases worked out by hand, a naive search, and invariances."""

import numpy as np
import pytest

from lps.scores import milestones
from lps.scores.milestones import Mark

NAN = np.nan


def kinds(found: list[Mark]) -> dict[str, int]:
    return {mark.kind: mark.epoch for mark in found}


def of_gap(*gap: float) -> dict[str, int]:
    """Marks of a run with this gap at the epochs 1, 2, ..., without a KL; those of novel accuracy alone left out."""
    gap = np.array(gap)
    found = kinds(
        milestones.find_milestones(np.arange(1, len(gap) + 1), 0.5 + gap / 2, 0.5 - gap / 2, np.full(len(gap), NAN))
    )
    return {kind: epoch for kind, epoch in found.items() if kind not in ("best", "fall")}


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        ((0.4, 0.2, 0.06), {}),
        ((0.4, 0.2, 0.04, 0.03), {"gap": 3}),
        ((0.4, -0.2, -0.04), {"gap": 3, "novel ahead": 2}),  # novel far ahead is no closed gap
        ((0.4, 0.04, 0.2, 0.3), {"gap": 2, "gap again": 3}),
        ((0.4, 0.04, 0.2, 0.03, 0.02), {"gap": 2, "gap again": 4}),
        ((0.4, 0.04, 0.2, 0.03, 0.2, 0.3), {"gap": 2, "gap again": 5}),
        ((0.01, 0.02), {"gap": 1}),
        ((0.01, 0.2), {"gap": 1, "gap again": 2}),
        ((0.2, -0.2, 0.2, -0.2), {"novel ahead": 2, "seen ahead": 3}),
        ((-0.2, 0.2), {"seen ahead": 2}),
        ((0.2, 0.0, 0.2), {"gap": 2, "gap again": 3}),
        ((0.2, -0.009, 0.2), {"gap": 2, "gap again": 3}),  # a draw is no overtaking
        ((0.2, 0.0, -0.2), {"gap": 2, "gap again": 3, "novel ahead": 3}),
        ((-0.2, -0.3), {}),  # ahead from the start has overtaken nobody
        ((), {}),
    ],
)
def test_gap_by_hand(gap, expected):
    assert of_gap(*gap) == expected


@pytest.mark.parametrize(
    ("kl", "epoch"),
    [
        ((0.8, 0.5, 0.4, 0.3), 3),
        ((0.8, 1.6, 0.7), None),  # half of the first value, not of the highest
        ((0.8, 0.1, 0.9), 2),
        ((0.0099, 0.001), None),
        ((NAN, 0.8, NAN, 0.39), 4),
        ((NAN, NAN), None),
    ],
)
def test_halving_by_hand(kl, epoch):
    nothing = np.full(len(kl), NAN)
    assert (
        kinds(milestones.find_milestones(np.arange(1, len(kl) + 1), nothing, nothing, np.array(kl))).get("kl") == epoch
    )


def test_words_name_the_epoch():
    found = milestones.find_milestones(
        np.array([5, 10, 15]), np.array([0.9, 0.9, 0.9]), np.array([0.5, 0.88, 0.91]), np.array([1, 0.6, 0.4])
    )
    assert [mark.words for mark in found] == [
        "gap below 5 points at epoch 10",
        "novel overtakes seen at epoch 15",
        "KL halved at epoch 15",
        "best novel accuracy, 91.0 %, at epoch 15",
    ]
    assert (
        milestones.gap_closings(np.array([1, 2]), np.array([0.0, 0.0]))[0].words == "gap below 5 points from the start"
    )


def naive(epochs, seen, novel, kl) -> dict[str, int]:
    """The definitions read aloud, one epoch after the other."""
    rows = [(int(e), s - n) for e, s, n in zip(epochs, seen, novel) if s == s and n == n]
    found, before, lasting = {}, 0, None
    for i, (epoch, gap) in enumerate(rows):
        closed = abs(gap) < 0.05
        if closed:
            found.setdefault("gap", epoch)
        if i and closed != (abs(rows[i - 1][1]) < 0.05):
            lasting = epoch
        sign = int(gap >= 0.01) - int(gap <= -0.01)
        if sign and before and sign != before:
            found.setdefault("novel ahead" if sign < 0 else "seen ahead", epoch)
        before = sign or before
    if "gap" in found and lasting is not None and lasting > found["gap"]:
        found["gap again"] = lasting
    measured = [(int(e), k) for e, k in zip(epochs, kl) if k == k]
    for epoch, value in measured:
        if measured[0][1] >= 0.01 and value <= measured[0][1] / 2:
            found.setdefault("kl", epoch)
    rated = [(n, -int(e)) for e, n in zip(epochs, novel) if n == n]
    if len(rated) > 1:
        found["best"] = -max(rated)[1]
        deepest, when = max((one[0] - other[0], other[1]) for one, other in zip(rated, rated[1:]))
        if deepest >= 0.1:
            found["fall"] = -when
    return found


def test_agrees_with_a_naive_search():
    random = np.random.default_rng(3)
    seen_kinds = set()
    for _ in range(300):
        count = int(random.integers(0, 12))
        epochs = np.cumsum(random.integers(1, 4, count))
        seen, novel = (np.round(random.uniform(0.4, 0.6, count), 2) for _ in range(2))
        kl = random.uniform(0, 0.1, count)
        for values in (seen, novel, kl):
            values[random.random(count) < 0.15] = NAN
        found = milestones.find_milestones(epochs, seen, novel, kl)
        assert kinds(found) == naive(epochs, seen, novel, kl)
        assert [mark.epoch for mark in found] == sorted(mark.epoch for mark in found)
        seen_kinds |= set(kinds(found))
    assert seen_kinds == {"gap", "gap again", "kl", "novel ahead", "seen ahead", "fall", "best"}


def test_the_deepest_fall_of_novel_accuracy_is_told():
    seen, kl = np.full(4, 0.9), np.full(4, np.nan)
    marks = milestones.find_milestones(np.arange(1, 5), seen, np.array([0.5, 0.7, 0.58, 0.38]), kl)
    assert [mark.words for mark in marks if mark.kind == "fall"] == ["novel falls from 58.0 to 38.0 % at epoch 4"]
    marks = milestones.find_milestones(np.arange(1, 4), seen[:3], np.array([0.5, 0.41, 0.32]), kl[:3])
    assert not [mark for mark in marks if mark.kind == "fall"]
