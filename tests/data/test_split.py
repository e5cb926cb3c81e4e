"""The split: disjoint, covering, labeled only in seen classes, a pure function of its settings."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lps.data.classes import Classes
from lps.data.split import imbalanced_counts, open_world_split, with_cluster_names
from lps.errors import UserError
from lps.settings.config import configure

NAMES = tuple("abcdefgh")


def labels_of(size, seed):
    generator = np.random.default_rng(seed)
    return np.concatenate([np.arange(8), generator.integers(0, 8, size)])


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 1000),
    size=st.integers(60, 300),
    num_seen=st.integers(1, 7),
    rule=st.sampled_from(["bernoulli", "stratified", "exact"]),
    which=st.sampled_from(["first", "random"]),
    ratio=st.floats(0.3, 0.9),
)
def test_every_split_keeps_its_promises(seed, size, num_seen, rule, which, ratio):
    labels = labels_of(size, seed)
    drawn = {"num_seen": num_seen, "rule": rule, "seen_classes": which, "seed": seed, "labeled_ratio": ratio}
    config = configure({f"split.{name}": value for name, value in drawn.items()})
    try:
        split = open_world_split(labels, NAMES, config)
    except UserError as error:
        assert "has no labeled image" in str(error)
        return
    truth = split.targets(labels)
    assert sorted([*split.labeled, *split.unlabeled]) == list(range(len(labels)))
    assert (truth[split.labeled] < split.classes.seen).all() and split.classes.seen == num_seen
    assert set(truth[split.unlabeled]) >= set(range(num_seen, 8))  # every novel image is unlabeled
    assert sorted(split.class_order) == list(range(8))
    assert [NAMES[i] for i in split.class_order] == list(split.class_names)
    assert (split.class_order[truth] == labels).all()
    again = open_world_split(labels, NAMES, config)
    assert np.array_equal(again.labeled, split.labeled) and np.array_equal(again.class_order, split.class_order)


@pytest.mark.parametrize("ratio, labeled", [(0.1, 2597), (0.5, 12597)])
def test_sizes_of_the_original_code_on_cifar(ratio, labeled):
    """50,000 images, half the classes seen: the counts of the original code's Bernoulli draws with seed 0."""
    labels = np.random.default_rng(5).permutation(np.repeat(np.arange(10), 5000))
    split = open_world_split(labels, tuple("0123456789"), configure({"split.labeled_ratio": ratio}))
    assert len(split.labeled) == labeled and len(split.unlabeled) == 50_000 - labeled


def test_stratified_keeps_the_ratio_of_every_class():
    labels = np.repeat(np.arange(8), 40)
    split = open_world_split(labels, NAMES, configure({"split.rule": "stratified", "split.labeled_ratio": 0.25}))
    assert np.bincount(labels[split.labeled]).tolist() == [10, 10, 10, 10]


@pytest.mark.parametrize("seed, ratio", [(0, 0.5), (3, 0.31)])
def test_an_exact_share_is_drawn_as_in_the_code_of_gcd(seed, ratio):
    """Its function: seed numpy, then choose so many of the positions of all seen-class images."""
    labels = labels_of(401, 5)
    config = configure({"split.rule": "exact", "split.labeled_ratio": ratio, "split.seed": seed})
    split = open_world_split(labels, NAMES, config)
    seen = np.flatnonzero(labels < 4)
    np.random.seed(seed)
    drawn = np.random.choice(range(len(seen)), replace=False, size=(int(ratio * len(seen)),))
    assert split.labeled.tolist() == sorted(seen[drawn])


@pytest.mark.parametrize("order", ["permuted", "seen", "novel"])
def test_an_imbalanced_split_falls_along_the_curve_without_drawing_twice(order):
    labels = np.random.default_rng(3).permutation(np.repeat(np.arange(8), 300))
    settings_ = {"split.imbalance": 20.0, "split.imbalance_order": order, "split.rule": "stratified", "split.seed": 5}
    split = open_world_split(labels, NAMES, configure(settings_))
    truth = split.targets(labels)
    counts = np.bincount(truth[split.training], minlength=8)
    assert sorted(counts, reverse=True) == [int(300 * 20 ** (-i / 7) + 1e-9) for i in range(8)]
    assert len(np.unique(split.training)) == len(split.training) == counts.sum()
    seen, novel = counts[:4], counts[4:]
    assert order == "permuted" or (seen.min() > novel.max()) == (order == "seen")
    again = open_world_split(labels, NAMES, configure(settings_))
    other = open_world_split(labels, NAMES, configure(settings_ | {"split.seed": 6}))
    assert np.array_equal(again.training, split.training) and not np.array_equal(other.training, split.training)
    labeled = np.bincount(truth[split.labeled], minlength=8)
    assert (np.abs(labeled[:4] - counts[:4] / 2) <= 0.5).all() and not labeled[4:].any()


def test_the_counts_of_bacon_on_cifar():
    """BaCon's index files for an imbalance of 100: 4,494 labeled, 4,490 unlabeled seen, 2,181 novel images."""
    counts = imbalanced_counts(np.full(10, 4500), 100)
    assert counts.tolist() == [4500, 2697, 1617, 969, 581, 348, 208, 125, 75, 45]
    assert counts.sum() == 4494 + 4490 + 2181


@settings(deadline=None, max_examples=60)
@given(
    available=st.lists(st.integers(1, 400), min_size=1, max_size=30),
    imbalance=st.floats(1, 1000),
    labeled_imbalance=st.floats(1, 100),
    seed=st.integers(0, 99),
)
def test_imbalanced_splits_keep_their_promises(available, imbalance, labeled_imbalance, seed):
    counts = imbalanced_counts(np.array(available), imbalance)
    assert (counts >= 1).all() and (counts <= available).all() and (np.diff(counts) <= 0).all()
    labels = labels_of(400, seed)
    asked = {"split.imbalance": imbalance, "split.labeled_imbalance": labeled_imbalance, "split.seed": seed}
    try:
        split = open_world_split(labels, NAMES, configure(asked | {"split.rule": "stratified"}))
    except UserError as error:
        assert "split." in str(error)
        return
    parts = np.concatenate([split.labeled, split.unlabeled, split.test])
    assert len(np.unique(parts)) == len(parts)
    truth = split.targets(labels)
    assert set(truth[split.labeled]) == set(range(split.classes.seen))
    assert set(truth[split.training]) == set(range(8))


def test_an_imbalance_of_one_is_the_split_as_it_always_was():
    labels = labels_of(500, 2)
    plain = open_world_split(labels, NAMES, configure({"split.seed": 3}))
    for order in ("permuted", "seen", "novel"):
        asked = {"split.imbalance": 1.0, "split.labeled_imbalance": 1.0, "split.imbalance_order": order}
        same = open_world_split(labels, NAMES, configure(asked | {"split.seed": 3}))
        assert np.array_equal(same.labeled, plain.labeled) and np.array_equal(same.unlabeled, plain.unlabeled)
    digest = hashlib.sha256(plain.labeled.tobytes() + plain.unlabeled.tobytes()).hexdigest()
    assert digest.startswith("12f3534730fa")  # before imbalance existed


def test_an_imbalanced_split_is_that_of_earlier_versions():
    asked = {"split.seed": 3, "split.imbalance": 5.0, "split.labeled_imbalance": 4.0}
    split = open_world_split(labels_of(500, 2), NAMES, configure(asked))
    digest = hashlib.sha256(split.labeled.tobytes() + split.unlabeled.tobytes()).hexdigest()
    assert digest[:12] == "6b80982f2bf0"


def test_labels_may_be_imbalanced_alone_and_no_image_is_lost():
    labels = np.repeat(np.arange(8), 100)
    plain, falling = (
        open_world_split(labels, NAMES, configure({"split.rule": "stratified", "split.labeled_imbalance": value}))
        for value in (1.0, 10.0)
    )
    assert sorted(np.bincount(labels[falling.labeled])) == [5, 10, 23, 50]
    assert set(falling.labeled) <= set(plain.labeled)
    assert np.array_equal(falling.training, plain.training)  # what has no label any more is unlabeled


def test_test_images_and_images_of_unknown_class_stay():
    labels = np.concatenate([np.tile([*range(8), -1], 50), np.repeat(np.arange(8), 20)])
    split = open_world_split(labels, NAMES, configure({"split.imbalance": 10.0, "split.num_novel": 3}), num_test=160)
    assert len(split.test) == 160 and (labels[split.unlabeled] == -1).sum() == 50
    assert (labels[split.training] >= 0).sum() < 400


@pytest.mark.parametrize(
    "values, words",
    [
        ({"split.imbalance": 0.5}, r"split\.imbalance: 0\.5 is not a number from 1 to 100000"),
        ({"split.imbalance": float("nan")}, r"split\.imbalance: nan is not a number from"),
        ({"split.labeled_imbalance": -1.0}, r"split\.labeled_imbalance: -1\.0 is not a number from"),
        ({"split.imbalance_order": "tail"}, r"split\.imbalance_order: 'tail' is not one of"),
    ],
)
def test_an_imbalance_that_cannot_be_is_one_sentence(values, words):
    with pytest.raises(UserError, match=words):
        configure(values)


def test_an_imbalance_that_leaves_no_label_is_one_sentence():
    labels = np.repeat(np.arange(8), 40)
    asked = {"split.imbalance": 40.0, "split.labeled_ratio": 0.3, "split.imbalance_order": "novel"}
    for settings_ in (asked, asked | {"dataset.images_per_class": 40}):
        with pytest.raises(
            UserError, match=r"split\.imbalance: with 40, class '.' \(. training images?\) has no label"
        ):
            open_world_split(labels, NAMES, configure(settings_))


def test_hand_picked_classes_come_first_and_unknown_truth_is_unlabeled():
    labels = np.tile([*range(8), -1], 20)
    split = open_world_split(labels, NAMES, configure({"split.seen_classes": "7,2", "split.labeled_ratio": 1.0}))
    assert split.class_names[:2] == ("c", "h") and split.classes.seen == 2
    assert set(labels[split.labeled]) == {2, 7} and set(np.flatnonzero(labels == -1)) <= set(split.unlabeled)
    assert (split.targets(labels)[labels == -1] == -1).all()


@pytest.mark.parametrize(
    "settings_, words",
    [
        ({"split.num_seen": 8}, "8 of 8 classes seen; expected 1 to 7"),
        ({"split.seen_classes": "1,8"}, "includes class 8; the classes are 0 to 7"),
        ({"split.labeled_ratio": 1e-6}, "has no labeled image"),
        ({"split.seen_classes": "0,1,2,3,4,5,6,7"}, "8 of 8 classes seen"),
    ],
)
def test_settings_that_do_not_fit_the_data_are_one_sentence(settings_, words):
    with pytest.raises(UserError, match=words.replace("(", r"\(")):
        open_world_split(labels_of(200, 0), NAMES, configure(settings_))


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 1000),
    own_test=st.integers(0, 40),
    test=st.sampled_from([0.0, 0.1, 0.4]),
    validation=st.sampled_from([0.0, 0.1, 0.5]),
)
def test_test_and_validation_images_keep_their_promises(seed, own_test, test, validation):
    labels = labels_of(300, seed)
    asked = {"split.test_ratio": test if not own_test else 0.0, "split.validation_ratio": validation}
    config = configure(asked | {"split.seed": seed, "split.labeled_ratio": 0.6})
    if 0 < own_test < 8:
        with pytest.raises(UserError, match="too few for 8 classes"):
            open_world_split(labels, NAMES, config, own_test)
        return
    split = open_world_split(labels, NAMES, config, own_test)
    truth = split.targets(labels)
    parts = [split.labeled, split.unlabeled, split.test]
    assert sorted(np.concatenate(parts)) == list(range(len(labels))) == sorted([*split.training, *split.test])
    if own_test:
        assert split.test.tolist() == list(range(len(labels) - own_test, len(labels)))
    elif test:
        assert set(truth[split.test]) == set(range(8))
        for class_id in range(8):
            share = (truth[split.test] == class_id).sum() / (truth == class_id).sum()
            assert abs(share - test) <= 0.5 / (truth == class_id).sum() + 1e-9
    assert (split.unlabeled[split.validation_rows] == split.validation).all()
    assert (truth[split.validation] < split.classes.seen).all() and (len(split.validation) > 0) == (validation > 0)
    assert set(truth[split.labeled]) == set(range(split.classes.seen))
    without = open_world_split(labels, NAMES, configure(config.flat() | {"split.validation_ratio": 0.0}), own_test)
    assert sorted([*split.labeled, *split.validation]) == without.labeled.tolist()


def test_a_class_with_one_label_keeps_it():
    labels = np.array([0] * 10 + [1] + [2] * 10 + [3] * 10)
    split = open_world_split(
        labels, NAMES[:4], configure({"split.labeled_ratio": 1.0, "split.validation_ratio": 0.5, "split.num_seen": 2})
    )
    assert (labels[split.labeled] == 1).sum() == 1 and (labels[split.labeled] == 0).sum() == 5
    ones = np.array([0, 1, 2, 3] * 3)
    few = configure({"split.rule": "stratified", "split.labeled_ratio": 0.1, "split.validation_ratio": 0.5})
    with pytest.raises(UserError, match=r"split\.validation_ratio: 0\.5 is not possible"):
        open_world_split(ones, NAMES[:4], few)


def test_more_or_fewer_novel_classes_than_there_are():
    labels = labels_of(200, 0)
    more = open_world_split(labels, NAMES, configure({"split.num_novel": 6}))
    assert more.classes == Classes(4, 10) and more.class_names[-2:] == ("cluster 8", "cluster 9")
    assert (more.targets(labels) == open_world_split(labels, NAMES, configure()).targets(labels)).all()
    fewer = open_world_split(labels, NAMES, configure({"split.num_novel": 2}))
    assert fewer.classes == Classes(4, 6) and len(fewer.class_names) == 8 and fewer.targets(labels).max() == 7
    all_seen = open_world_split(labels, NAMES, configure({"split.num_seen": 8, "split.num_novel": 3}))
    assert all_seen.classes == Classes(8, 11)


def test_unknown_images_make_all_known_classes_seen():
    labels = np.where(np.arange(200) < 60, np.arange(200) % 4, -1)
    split = open_world_split(labels, NAMES[:4], configure({"split.num_novel": 3, "split.labeled_ratio": 1.0}))
    assert split.classes == Classes(4, 7) and split.labeled.tolist() == list(range(60))
    with pytest.raises(UserError, match=r"split\.num_novel: is not set, and all 4 classes are seen"):
        open_world_split(labels, NAMES[:4], configure())
    with pytest.raises(UserError, match=r"split\.num_novel: 140 unlabeled images are left for 204 classes"):
        open_world_split(labels, NAMES[:4], configure({"split.num_novel": 200, "split.labeled_ratio": 1.0}))
    with pytest.raises(UserError, match="140 unlabeled items are left for 204 classes"):
        vectors = {"dataset": "embeddings", "dataset.path": "birds.npz", "split.labeled_ratio": 1.0}
        open_world_split(
            labels, NAMES[:4], configure(vectors | {"split.num_novel": 200, "split.validation_ratio": 0.0})
        )
    with pytest.raises(UserError, match=r"split\.test_ratio: 0\.1 must be 0: digits already has 40 test images"):
        open_world_split(labels_of(200, 0), NAMES, configure({"split.test_ratio": 0.1}), 40)


def test_withheld_labels_are_no_truth_where_the_rest_is_unknown():
    labels = np.where(np.arange(200) < 60, np.arange(200) % 4, -1)
    asked = {"split.num_novel": 3, "split.labeled_ratio": 1.0, "split.validation_ratio": 0.2}
    unknown = open_world_split(labels, NAMES[:4], configure(asked))
    assert len(unknown.validation) == 12 and (unknown.judged(unknown.targets(labels)) == -1).all()
    labels = labels_of(200, 0)
    known = open_world_split(labels, NAMES, configure({"split.validation_ratio": 0.2}))
    assert (known.judged(known.targets(labels)) == known.targets(labels)[known.unlabeled]).all()


def test_nameless_classes_of_stored_splits_are_called_as_their_clusters_are():
    unknown = np.array([0, 1, -1, -1])
    names = ("cat", "dog", "new 1", "new 2")
    assert with_cluster_names(names, 2, unknown) == ("cat", "dog", "cluster 2", "cluster 3")
    assert with_cluster_names(names, 2, np.array([0, 1, 2, 3])) == names, "some pictures have these names as labels"
    assert with_cluster_names(("cat", "new 1", "owl"), 2, unknown) == ("cat", "new 1", "owl")
    assert with_cluster_names(("cat", "new 1"), 2, unknown) == ("cat", "new 1")
