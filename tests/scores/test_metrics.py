"""Open-world accuracy against brute force over all permutations, and the relations between the protocols' numbers."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lps.data.classes import Classes
from lps.scores.metrics import accuracy_by_size, class_accuracy, contingency, match_ids, matched_accuracy, prior_error
from lps.scores.protocols import open_world


def brute_force(predicted, truth, size):
    return max(np.mean([mapping[p] == t for p, t in zip(predicted, truth)]) for mapping in permutations(range(size)))


ids = st.integers(0, 4)
pairs = st.lists(st.tuples(ids, ids), min_size=1, max_size=40)


@settings(deadline=None, max_examples=60)
@given(pairs)
def test_matching_is_the_best_of_all_permutations(rows):
    predicted, truth = map(np.array, zip(*rows))
    assert matched_accuracy(predicted, truth, 5) == pytest.approx(brute_force(predicted, truth, 5))


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(pairs)
def test_relations_of_the_open_world_numbers(rows):
    predicted, truth = map(np.array, zip(*rows))
    classes = Classes(2, 5)
    values = open_world(predicted, truth, classes)
    seen, weight = truth < 2, np.mean(truth < 2)
    parts = [(w, m) for w, m in ((weight, seen), (1 - weight, ~seen)) if m.any()]
    bound = sum(w * matched_accuracy(predicted[m], truth[m], 5) for w, m in parts)
    assert values["accuracy/all"] <= bound + 1e-9
    if seen.any():
        assert values["accuracy/seen"] <= matched_accuracy(predicted[seen], truth[seen], 5) + 1e-9
    counts = np.nan_to_num(values["class/accuracy"]) * np.bincount(truth, minlength=5)
    assert counts.sum() / len(truth) == pytest.approx(values["accuracy/all"])
    assert sum(values["class/count_predicted"]) == len(truth)


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(pairs, st.permutations([2, 3, 4]))
def test_renaming_novel_ids_changes_nothing(rows, novel):
    predicted, truth = map(np.array, zip(*rows))
    renamed = np.array([0, 1, *novel])[predicted]
    before, after = (open_world(p, truth, Classes(2, 5)) for p in (predicted, renamed))
    for name in ("accuracy/seen", "accuracy/novel", "accuracy/all", "nmi/all"):
        assert before[name] == pytest.approx(after[name], nan_ok=True)


def test_seen_ids_are_not_matched():
    truth = np.array([0, 0, 1, 1, 2, 2])
    swapped = np.array([1, 1, 0, 0, 2, 2])
    values = open_world(swapped, truth, Classes(2, 3))
    assert values["accuracy/seen"] == 0 and values["accuracy/novel"] == 1 and values["accuracy/all"] == 1
    assert values["accuracy/gap"] == -1 and values["accuracy/conflict"] == pytest.approx(1 / 3 - 1)
    assert values["nmi/novel"] == values["ari/novel"] == 1


def test_novel_images_may_use_a_seen_id_but_then_all_pays_for_it():
    truth, predicted = np.array([0, 0, 1, 1]), np.array([0, 0, 0, 0])
    values = open_world(predicted, truth, Classes(1, 2))
    assert (values["accuracy/seen"], values["accuracy/novel"], values["accuracy/all"]) == (1, 1, 0.5)
    assert values["accuracy/conflict"] == 0.5


def test_unknown_truth_is_left_out_and_no_truth_gives_no_numbers():
    known = open_world(np.array([0, 1, 1]), np.array([0, 1, -1]), Classes(1, 2))
    assert known["accuracy/all"] == 1
    assert open_world(np.array([0, 1]), np.array([-1, -1]), Classes(1, 2)) == {}


def test_more_clusters_than_classes_stay_unmatched():
    values = open_world(np.array([0, 1, 7, 7]), np.array([0, 1, 1, 1]), Classes(1, 2))
    assert values["accuracy/novel"] == pytest.approx(2 / 3)


def test_match_is_one_to_one_and_class_accuracy_counts_hits():
    counts = contingency(np.array([0, 0, 1, 2]), np.array([1, 1, 0, 2]), 3)
    assert match_ids(counts).tolist() == [1, 0, 2]
    shares = class_accuracy(np.array([0, 0, 1]), np.array([0, 1, 1]), 3)
    assert shares[0] == 1 and shares[1] == 0.5 and np.isnan(shares[2])


def test_scores_by_class_size_have_relative_thresholds():
    sizes = np.array([1000, 460, 220, 100])  # large from 464 on, small up to 215: thirds of the logarithmic range
    by_class = np.array([0.9, 0.7, 0.5, 0.1])
    found = accuracy_by_size(by_class, sizes)
    assert found["many"] == pytest.approx(0.9) and found["few"] == pytest.approx(0.1)
    assert found["medium"] == pytest.approx(0.6) and found["balanced"] == pytest.approx(0.55)
    assert found["std"] == pytest.approx(np.std(by_class))
    assert accuracy_by_size(by_class, 7 * sizes) == found  # relative to the data
    assert set(accuracy_by_size(by_class, np.array([10, 11, 12, 19]))) == {"balanced", "std"}
    unknown = accuracy_by_size(np.array([0.5, np.nan, 0.7]), np.array([10, 0, 40]))
    assert unknown == pytest.approx({"balanced": 0.6, "std": 0.1, "many": 0.7, "few": 0.5})
    assert accuracy_by_size(np.full(2, np.nan), np.array([1, 1])) == {}


def test_the_error_of_a_prior_follows_the_matching_of_novel_ids():
    truth = np.repeat([0, 1, 2, 3], [4, 2, 3, 1])
    predicted = np.where(truth >= 2, 5 - truth, truth)  # 2 and 3 exchanged
    shares = np.array([0.4, 0.2, 0.3, 0.1])
    exchanged = shares[[0, 1, 3, 2]]
    assert prior_error(exchanged, shares, predicted, truth, 2) == pytest.approx(0)
    assert prior_error(shares, shares, predicted, truth, 2) == pytest.approx(0.2)
    assert prior_error(np.full(4, 0.25), shares, predicted, truth, 2) == pytest.approx(0.2)
    unknown = np.where(truth == 3, -1, truth)
    assert prior_error(np.array([1.0, 0, 0, 0]), shares, predicted, unknown, 2) == pytest.approx(0.6)
    assert prior_error(np.array([0.5, 0.5]), np.array([1.0, 0]), predicted % 2, truth % 2, 2) == pytest.approx(0.5)
