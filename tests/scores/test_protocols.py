"""Every protocol against brute force, and the relations between them that hold for any predictions."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lps.data.classes import Classes
from lps.scores import protocols
from lps.scores.metrics import match_ids
from lps.scores.protocols import PROTOCOLS, open_world, score

CLASSES = Classes(seen=2, total=4)
ids = st.integers(0, 3)
rows = st.lists(st.tuples(ids, ids), min_size=1, max_size=30)


def arrays(pairs):
    predicted, truth = (np.array(side) for side in zip(*pairs))
    return predicted, truth


def best(predicted, truth):
    """(accuracy, mapped ids) of the best permutation; the first of equals, so only the accuracy is unique."""
    if len(truth) == 0:
        return float("nan")
    return max(np.mean(np.array(mapping)[predicted] == truth) for mapping in permutations(range(4)))


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(rows)
def test_brute_force(pairs):
    predicted, truth = arrays(pairs)
    seen = truth < 2
    parts = {"seen": best(predicted[seen], truth[seen]), "novel": best(predicted[~seen], truth[~seen])}
    v1 = score(predicted, truth, CLASSES, "gcd_v1", True)
    assert v1.seen == pytest.approx(parts["seen"], nan_ok=True) and v1.novel == pytest.approx(
        parts["novel"], nan_ok=True
    )
    weights = [(seen.mean(), parts["seen"]), (1 - seen.mean(), parts["novel"])]
    assert v1.all == pytest.approx(sum(w * a for w, a in weights if w > 0))
    assert score(predicted, truth, CLASSES, "gcd_v2", True).all == pytest.approx(best(predicted, truth))
    stays = (predicted < 2) == seen
    strict = score(predicted, truth, CLASSES, "strict", False)
    kept = ~seen & stays
    if (~seen).any():
        expected = best(predicted[kept], truth[kept]) * kept.sum() / (~seen).sum() if kept.any() else 0
        assert strict.novel == pytest.approx(expected)
    if seen.any():
        assert strict.seen == pytest.approx((predicted[seen] == truth[seen]).mean())
    assert np.isnan(strict.conflict)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.permutations(range(4)))
def test_a_perfect_clustering_is_perfect_whatever_its_ids_are_called(truth, order):
    truth = np.array(truth)
    for name in PROTOCOLS:
        found = score(np.array(order)[truth], truth, CLASSES, name, True)
        for value in (found.seen, found.novel, found.all):
            assert np.isnan(value) or value == 1
        assert np.isnan(found.conflict) if name == "strict" else found.conflict == 0


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(rows)
def test_relations(pairs):
    predicted, truth = arrays(pairs)
    scores = {name: score(predicted, truth, CLASSES, name, False) for name in PROTOCOLS}
    orca, v1, v2, strict = (scores[name] for name in ("orca", "gcd_v1", "gcd_v2", "strict"))
    tolerance = 1e-9
    assert orca.all == v2.all <= v1.all + tolerance
    if (truth >= 2).any():
        assert orca.novel == v1.novel >= v2.novel - tolerance
        assert strict.novel <= orca.novel + tolerance
    if (truth < 2).any():
        assert orca.seen == strict.seen <= v1.seen + tolerance
        assert v1.seen >= v2.seen - tolerance


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(rows, st.permutations(range(2)), st.permutations(range(2, 4)))
def test_names_of_ids_matter_only_where_they_should(pairs, seen_order, novel_order):
    predicted, truth = arrays(pairs)
    novel_renamed = np.array([0, 1, *novel_order])[predicted]
    seen_renamed = np.array([*seen_order, 2, 3])[predicted]
    for name in PROTOCOLS:
        before = score(predicted, truth, CLASSES, name, False)
        after = score(novel_renamed, truth, CLASSES, name, False)
        for key in ("seen", "novel", "all", "nmi"):
            if name in ("gcd_v2", "gcd_v2_balanced") and key != "all":
                continue  # equally good matchings may share the hits out differently
            if (name, key) == ("gcd_v2_balanced", "all"):
                continue
            assert getattr(before, key) == pytest.approx(getattr(after, key), nan_ok=True)
        if name == "orca":
            swapped = score(seen_renamed, truth, CLASSES, name, False)
            assert swapped.novel == pytest.approx(before.novel, nan_ok=True) and swapped.all == pytest.approx(
                before.all
            )


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(rows)
def test_what_training_logs_is_the_brute_force_of_the_default_protocol(pairs):
    predicted, truth = arrays(pairs)
    is_seen = truth < 2
    for aligned in (True, False):
        logged = open_world(predicted, truth, CLASSES, seen_is_aligned=aligned)
        raw = np.mean(predicted[is_seen] == truth[is_seen]) if is_seen.any() else np.nan
        seen = raw if aligned else best(predicted[is_seen], truth[is_seen])
        novel, total = best(predicted[~is_seen], truth[~is_seen]), best(predicted, truth)
        assert logged["accuracy/seen"] == pytest.approx(seen, nan_ok=True)
        assert logged["accuracy/novel"] == pytest.approx(novel, nan_ok=True)
        assert logged["accuracy/gap"] == pytest.approx(seen - novel, nan_ok=True)
        assert logged["accuracy/all"] == pytest.approx(total)
        mean = sum(w * a for w, a in ((is_seen.mean(), seen), ((~is_seen).mean(), novel)) if w > 0)
        assert logged["accuracy/conflict"] == pytest.approx(mean - total, abs=1e-9)
        assert sum(logged["class/count_predicted"]) == len(truth)


def test_the_balanced_mean_is_over_classes():
    truth = np.array([0] * 9 + [2])
    predicted = np.array([0] * 9 + [3])
    balanced = score(predicted, truth, CLASSES, "gcd_v2_balanced", True)
    assert balanced.all == 1 and score(
        np.array([0] * 8 + [1, 3]), truth, CLASSES, "gcd_v2_balanced", True
    ).all == pytest.approx(17 / 18)


def test_without_truth_there_are_no_scores_and_an_unknown_protocol_is_named():
    assert np.isnan(score(np.array([1]), np.array([-1]), CLASSES, "orca", True).all)
    with pytest.raises(ValueError, match="'best' is not one of orca"):
        score(np.array([1]), np.array([1]), CLASSES, "best", True)


def test_one_evaluation_matches_everything_once(monkeypatch):
    made = []
    monkeypatch.setattr(protocols, "match_ids", lambda counts: made.append(counts) or match_ids(counts))
    open_world(np.array([0, 1, 3, 2]), np.array([0, 1, 2, -1]), CLASSES)
    assert len(made) == 1 and made[0].sum() == 3
