"""Descriptions of clusters, against loops over sets of images and against cases that can be checked by eye."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lps.analysis import clusters
from lps.analysis.clusters import Assignment, describe_clusters
from lps.data.classes import Classes
from lps.data.split import Split
from lps.errors import UserError
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.store.snapshots import Snapshot, write_snapshot

pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40)


def described(assigned, truth, ids=None, num_classes=None, **more):
    assigned, truth = np.array(assigned), np.array(truth)
    ids = np.arange(assigned.max() + 1) if ids is None else np.array(ids)
    count = int(truth.max()) + 1 if num_classes is None else num_classes
    confidence = more.pop("confidence", np.full(len(assigned), 0.5, np.float32))
    return describe_clusters(assigned, confidence, truth, ids, count, **more)


def jaccard(one: set, other: set) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0


def members(assigned, cluster) -> set:
    return {i for i, value in enumerate(assigned) if value == cluster}


@settings(deadline=None, max_examples=60)
@given(pairs)
def test_overlap_is_that_of_sets(rows):
    then, now = map(np.array, zip(*rows))
    found = clusters.jaccard_overlap(now, then, (5, 5))
    for a in range(5):
        for b in range(5):
            assert found[a, b] == pytest.approx(jaccard(members(now, a), members(then, b)))


@settings(deadline=None, max_examples=60)
@given(pairs)
def test_stability_and_heirs_are_the_largest_overlaps(rows):
    then, now = map(np.array, zip(*rows))
    ids = np.arange(5)
    stable = clusters.cluster_stability(now, ids, [then, now])
    heirs = clusters.successors(then, now)
    for i in ids:
        if members(now, i):
            best = max(jaccard(members(now, i), members(then, j)) for j in range(5))
            assert stable[i] == pytest.approx((best + 1) / 2)  # a cluster overlaps wholly with itself
        else:
            assert math.isnan(stable[i])
    for j in range(then.max() + 1):
        shares = {i: jaccard(members(then, j), members(now, i)) for i in range(5)}
        if members(then, j):
            assert shares[heirs[j]] == pytest.approx(max(shares.values()))
        else:
            assert heirs[j] == -1


def test_of_no_images_no_id_has_an_heir():
    none = np.zeros(0, np.int64)
    assert clusters.successors(none, none).tolist() == []


def test_stability_does_not_ask_what_ids_are_called():
    now = np.array([0, 0, 1, 1, 2, 2])
    assert clusters.cluster_stability(now, np.arange(3), [(now + 1) % 3]).tolist() == [1, 1, 1]
    assert np.isnan(clusters.cluster_stability(now, np.arange(3), [])).all()


def test_confusion_counts_known_images_of_the_named_clusters_alone():
    counts = clusters.confusion_counts(np.array([7, 7, 2, 9, 2]), np.array([0, 1, 1, 0, -1]), np.array([2, 7]), 2)
    assert counts.tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize("ids", [[0, 1, 2], [2, 5, 9], [-1, 4], [3, 20_000], []])
def test_many_images_find_their_cluster_as_few_do(ids, monkeypatch):
    assigned, ids = np.random.default_rng(0).integers(-2, 12, 300), np.array(ids, np.int64)
    expected = [list(ids).index(cluster) if cluster in ids else -1 for cluster in assigned]
    assert clusters.cluster_indices(assigned, ids).tolist() == expected
    monkeypatch.setattr(clusters, "_MAX_LOOKED_UP", 100)
    assert clusters.cluster_indices(assigned, ids).tolist() == expected


def test_nearest_cluster_by_mean_direction():
    features = np.array([[1, 0], [2, 0.1], [0, 3], [-1, 0.0], [0, 0]], float)
    nearest, cosine = clusters.nearest_clusters(features, np.array([0, 0, 1, 2, 4]), 5)
    unit = features[:3] / np.linalg.norm(features[:3], axis=1, keepdims=True)
    mean = unit[0] + unit[1]
    assert nearest.tolist() == [1, 0, 1, -1, -1]  # the fourth has no image, the fifth no direction
    assert cosine[0] == pytest.approx(mean @ unit[2] / np.linalg.norm(mean)) and np.isnan(cosine[3:]).all()
    assert clusters.nearest_clusters(features[:1], np.array([0]), 1)[0].tolist() == [-1]


@settings(deadline=None, max_examples=60)
@given(pairs, st.randoms())
def test_sizes_shares_and_confidence_are_those_of_a_loop(rows, random):
    assigned, truth = zip(*rows)
    truth = tuple(t if random.random() < 0.8 else -1 for t in truth)
    confidence = np.array([random.random() for _ in rows], np.float32)
    for c in described(assigned, truth, range(5), 5, confidence=confidence):
        mine = members(assigned, c.id)
        known = [truth[i] for i in mine if truth[i] >= 0]
        counts = sorted((known.count(t) for t in range(5)), reverse=True)
        assert (c.size, c.known) == (len(mine), len(known))
        if mine:
            assert c.confidence == pytest.approx(np.mean([confidence[i] for i in mine], dtype=float))
        if known:
            assert c.purity == pytest.approx(counts[0] / len(known)) and known.count(c.majority) == counts[0]
            assert c.runner_up_share == pytest.approx(counts[1] / len(known))
            assert c.runner_up == -1 if counts[1] == 0 else known.count(c.runner_up) == counts[1]
        else:
            assert c.majority == c.matched == -1 and math.isnan(c.purity)
        if c.matched >= 0:
            assert c.matched_share == pytest.approx(known.count(c.matched) / len(known)) and c.matched_share <= c.purity
        else:
            assert math.isnan(c.matched_share)


def test_the_matching_is_one_to_one_and_leaves_strangers_without_a_class():
    found = described([0] * 5 + [1] * 3 + [2], [0] * 5 + [0, 0, 1] + [0])
    assert [c.matched for c in found] == [0, 1, -1]
    assert [c.majority for c in found] == [0, 0, 0]


def test_the_matched_class_is_not_always_the_most_frequent_one():
    one, other = described([0] * 9 + [1] * 10, [1] * 9 + [1] * 5 + [2] * 3 + [3] * 2, num_classes=4)
    assert (one.matched, one.matched_share, one.majority, one.purity) == (1, 1.0, 1, 1.0)
    assert (other.matched, other.matched_share) == (2, 0.3) == (other.runner_up, other.runner_up_share)
    assert (other.majority, other.purity) == (1, 0.5), "purity is the share of the most frequent class, not the matched"


def test_flags_have_words_for_people():
    titles = {key: flag.text for key, flag in clusters.FLAGS.items()}
    assert titles == {"split": "part of a class", "merge": "mixes classes", "mixed": "looks mixed"}
    for key, flag in clusters.FLAGS.items():
        assert flag.meaning in clusters.explain_flag(key)
        assert "{where}" in flag.advice
        assert f"What to do**: {flag.advice.format(where='below')}" in clusters.explain_flag(key, "below")
    assert "mark it as not a class" in clusters.FLAGS["mixed"].advice, "a split helps no cluster of leftovers"


def test_flags():
    truth = [0] * 10 + [1] * 10 + [2] * 10 + [3] * 10
    perfect = described(truth, truth, range(5))
    assert [c.flags for c in perfect] == [(), (), (), (), ()]
    halves = described([0] * 5 + [4] * 5 + truth[10:], truth)
    assert [c.flags for c in halves] == [("split",), (), (), (), ("split",)]
    merged = described([0] * 10 + [1] * 10 + [2] * 10 + [2] * 4 + [3] * 6, truth)
    assert [c.flags for c in merged] == [(), (), ("merge",), ()]
    barely = described([0] * 10 + [1] * 10 + [2] * 10 + [2] * 3 + [3] * 7, truth)
    assert [c.flags for c in barely] == [(), (), (), ()]  # three of ten are less than a third
    shaken = described(truth, truth, earlier=[np.array(truth[1:] + [0])[::-1] * 0, np.arange(40)])
    assert shaken[0].stability == pytest.approx((0.25 + 0.1) / 2)
    hidden = [-1 if i % 4 == 0 else c for i, c in enumerate(truth)]
    halves = described([0] * 5 + [4] * 5 + truth[10:], hidden)
    assert not any(c.flags for c in halves) and halves[0].is_trusted, "a quarter without a class is too much for a flag"


def test_clusters_with_a_flag_are_counted_once_whatever_the_number_of_their_flags():
    sound = described([0, 0], [-1, -1], ids=[0], num_classes=1)[0]
    doubtful = replace(sound, flags=("merge", "mixed"))
    assert clusters.flags_in_words([sound]) == "no cluster has a flag"
    assert clusters.flags_in_words([sound, doubtful]) == "1 cluster has a flag"
    assert clusters.flags_in_words([doubtful, sound, doubtful]) == "2 clusters have a flag"


def test_a_cluster_that_the_user_made_is_judged_only_by_its_classes():
    ids, made = [0, 0, 1, 1, 2, 2], {"earlier": [np.zeros(6, int)], "made_by_user": {1, 2, 3}, "ids": range(4)}
    found = described(ids, [-1, -1, -1, -1, 2, 2], num_classes=3, **made)
    assert [clusters.marks_of(c) for c in found] == [(), ("made",), (), ()], "the last one is empty"
    assert [np.isnan(c.stability) for c in found] == [False, True, True, True], "the model never had these clusters"
    assert clusters.flags_in_words(found) == "no cluster has a flag, 1 is not judged"
    assert "split or a merge" in clusters.explain_flag("made")


def test_what_is_left_of_a_labeled_class_gets_no_flag():
    truth = [0] * 10 + [1] * 10 + [2] * 10
    shares = [0] * 5 + [1] * 5 + [1] * 10 + [2] * 10  # cluster 1 has half of class 0
    options = {"mixed": {0, 2}, "labeled": {0: 40}}
    assert [c.flags for c in described(shares, truth, **options)] == [("mixed",), ("merge",), ("mixed",)]
    found = described(shares, truth, leftovers={0}, **options)
    assert [clusters.marks_of(c) for c in found] == [("rest",), ("merge",), ("mixed",)]
    assert [c.labeled for c in found] == [40, 0, 0] and "1 is not judged" in clusters.flags_in_words(found)


def test_two_clusters_are_twins_if_each_is_nearest_to_the_other_and_neither_has_a_flag():
    directions = np.array([[1, 0, 0], [1, 0.1, 0], [0, 1, 0.2], [0, 0.7, 0.7]])

    def twins(**more):
        found = described(range(4), [-1] * 4, num_classes=1, features=directions, feature_rows=np.arange(4), **more)
        return [twin and twin.id for twin in (clusters.unflagged_twin(found, i) for i in range(5))]

    assert twins() == [1, 0, 3, 2, None]
    assert twins(mixed={1}) == twins(made_by_user={0}) == [None, None, 3, 2, None]
    directions[2] = [1, 0.3, 0]
    assert twins() == [1, 0, None, None, None], "the nearest of cluster 2 is 1, which is nearer to 0"


def test_without_truth_the_rest_is_known():
    features = np.array([[1, 0], [1, 0.1], [0, 1]], np.float16)
    found = described(
        [0, 0, 1, 1],
        [-1, -1, -1, -1],
        num_classes=2,
        earlier=[np.array([0, 0, 1, 1])],
        features=features,
        feature_rows=np.array([0, 1, 2]),
    )
    assert [(c.size, c.stability, c.nearest, c.flags) for c in found] == [(2, 1.0, 1, ()), (2, 1.0, 0, ())]
    assert all(c.matched == c.majority == -1 and not c.is_trusted for c in found)


def test_a_few_withheld_labels_are_no_truth_about_a_cluster():
    truth = [0, 0, -1, -1, -1, -1, 0, 0]
    found = described([0] * 6 + [1] * 2, truth, withheld=np.array([0, 1, 6, 7]), num_classes=2)
    assert [(c.withheld, c.known, c.purity) for c in found] == [(2, 2, 1.0), (2, 2, 1.0)]
    assert [c.is_trusted for c in found] == [False, True] and found[0].matched == -1
    assert found[0].flags == found[1].flags == (), "two of six say too little for a split"


def test_a_biography_tells_ids_and_what_became_of_them():
    past = {2: np.array([0, 0, 1, 1]), 1: np.array([1, 1, 0, 1]), 3: np.array([4, 4, 4, 2])}
    stored = {epoch: Assignment(ids, np.array([0.1, 0.2, 0.3, 0.4]) * epoch) for epoch, ids in past.items()}
    heirs = {epoch: clusters.successors(ids, past[3]) for epoch, ids in past.items()}
    told = clusters.prediction_history(3, stored, heirs)
    assert [(m.epoch, m.predicted) for m in told] == [(1, 1), (2, 1), (3, 2)]
    assert [m.confidence for m in told] == pytest.approx([0.4, 0.8, 1.2])
    assert [m.heir for m in told] == [4, 2, 2]


@pytest.fixture
def run(tmp_path):
    return create_run(tmp_path, configure({}))


def split_of(count: int) -> Split:
    every = np.arange(count)
    return Split(every[:0], every, Classes(1, 3), np.arange(3), ("a", "b", "c"), 0)


@pytest.mark.parametrize("predicted", [[0, 1], [0, 1, 2, 0], [0, 1, -1], [0, 1, 30_000]])
def test_predictions_that_do_not_fit_are_refused(run, predicted):
    run.snapshots.mkdir()
    ids = np.array(predicted, np.int16)
    write_snapshot(run.snapshots, 1, Snapshot(ids, np.zeros(len(ids), np.float16), np.zeros((0, 2)), np.zeros(0, int)))
    with pytest.raises(UserError, match="epoch-0001.npz: has |does not have"):
        clusters.read_assignment(run, 1, split_of(3))


def test_predictions_are_read_back(run):
    run.snapshots.mkdir()
    ids = np.array([2, 0, 1], np.int16)
    write_snapshot(run.snapshots, 1, Snapshot(ids, np.ones(3, np.float16), np.zeros((0, 2)), np.zeros(0, int)))
    found = clusters.read_assignment(run, 1, split_of(3))
    assert found.predicted.tolist() == [2, 0, 1] and found.confidence.dtype == np.float32
    with pytest.raises(UserError, match="does not exist yet"):
        clusters.read_assignment(run, 2, split_of(3))
