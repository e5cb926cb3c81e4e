"""The split: disjoint, covering, labeled only in seen classes, a pure function of its settings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lps.config import configure
from lps.parameters import ConfigError
from lps.split import open_world_split

NAMES = tuple("abcdefgh")


def labels_of(size, seed):
    generator = np.random.default_rng(seed)
    return np.concatenate([np.arange(8), generator.integers(0, 8, size)])


@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 1000),
    size=st.integers(60, 300),
    num_seen=st.integers(1, 7),
    rule=st.sampled_from(["bernoulli", "stratified"]),
    which=st.sampled_from(["first", "random"]),
    ratio=st.floats(0.3, 0.9),
)
def test_every_split_keeps_its_promises(seed, size, num_seen, rule, which, ratio):
    labels = labels_of(size, seed)
    config = configure(
        {
            "split.num_seen": num_seen,
            "split.rule": rule,
            "split.seen_classes": which,
            "split.seed": seed,
            "split.labeled_ratio": ratio,
        }
    )
    try:
        split = open_world_split(labels, NAMES, config)
    except ConfigError as error:
        assert "without a labeled image" in str(error)
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
        ({"split.seen_classes": "1,8"}, "names class 8; the classes are 0 to 7"),
        ({"split.labeled_ratio": 1e-6}, "without a labeled image"),
        ({"split.seen_classes": "0,1,2,3,4,5,6,7"}, "8 of 8 classes seen"),
    ],
)
def test_settings_that_do_not_fit_the_data_are_one_sentence(settings_, words):
    with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
        open_world_split(labels_of(200, 0), NAMES, configure(settings_))
