"""Confirmed labels in a split: new ids, no use of the truth, and labels that do not fit."""

from dataclasses import replace

import numpy as np
import pytest

from lps.data.confirmed_labels import Confirmed, add_confirmed
from lps.data.split import open_world_split
from lps.errors import UserError
from lps.settings.config import configure

NAMES = tuple("abcdef")
LABELS = np.tile(np.arange(6), 20)


def split(novel=2, **more):
    settings = {"split.num_seen": 3, "split.num_novel": novel, "split.validation_ratio": 0.2} | more
    return open_world_split(LABELS, NAMES, configure(settings))


def confirmed(images, given, names=("zebra", "E"), **more):
    images, given = np.array(images, np.int64), np.array(given, np.int64)
    usual = {"parent": "p", "epoch": 1, "rule": "all", "threshold": 0.0, "pictures": 1, "named": 1, "decisions": 1}
    return Confirmed(images, given, names, np.zeros(0, np.int64), **usual | more)


def some_unlabeled(count=4):
    base = split()
    return np.setdiff1d(base.unlabeled, base.validation)[:count]


def test_named_classes_follow_the_seen_ones_and_a_known_name_is_the_class_of_the_data_set():
    base, images = split(), some_unlabeled()
    found, truth = add_confirmed(base, LABELS, 6, confirmed(images, [3, 4, 0, 3]))
    assert found.class_names == ("a", "b", "c", "zebra", "E", "d", "f") and found.classes.seen == 5
    assert found.classes.total == 7 and found.class_order.tolist() == [0, 1, 2, 6, 4, 3, 5]
    assert truth[images].tolist() == [3, 4, 0, 3] and np.isin(images, found.labeled).all()
    rest = np.setdiff1d(np.arange(len(LABELS)), images)
    assert (truth[rest] == found.targets(LABELS)[rest]).all() and np.array_equal(found.confirmed, images)
    assert np.array_equal(found.validation, base.validation)
    assert sorted([*found.labeled, *found.unlabeled]) == list(range(len(LABELS)))


def test_more_novel_classes_than_the_data_set_has_are_nameless():
    found, _ = add_confirmed(split(5), LABELS, 6, confirmed(some_unlabeled(), [3, 4, 4, 4]))
    assert found.class_names == ("a", "b", "c", "zebra", "E", "d", "f", "cluster 7", "cluster 8", "cluster 9")
    assert found.classes.total == 10 and sorted(found.class_order) == list(range(10))


def test_no_truth_of_an_unlabeled_image_has_a_part_in_it():
    images, scrambled = some_unlabeled(), LABELS.copy()
    base = split()
    hidden = np.setdiff1d(base.unlabeled, base.validation)
    scrambled[hidden] = np.random.default_rng(0).permutation(LABELS[hidden])
    one, truth = add_confirmed(base, LABELS, 6, confirmed(images, [3, 4, 0, 3]))
    other, changed = add_confirmed(base, scrambled, 6, confirmed(images, [3, 4, 0, 3]))
    assert one.class_names == other.class_names and np.array_equal(one.class_order, other.class_order)
    assert np.array_equal(truth[one.labeled], changed[one.labeled]) and not np.array_equal(truth, changed)


def test_what_does_not_fit_is_refused():
    base = split()
    for images in (base.labeled[:2], base.validation[:2], [len(LABELS)]):
        with pytest.raises(UserError, match="not among the unlabeled images"):
            add_confirmed(base, LABELS, 6, confirmed(images, [3] * len(images)))
    with pytest.raises(UserError, match="has classes that are not among the 5 seen classes"):
        add_confirmed(base, LABELS, 6, confirmed(some_unlabeled(), [3, 4, 5, 3]))
    free = np.setdiff1d(base.unlabeled, base.validation)
    with pytest.raises(UserError, match="leaves 6 unlabeled images for 7 classes; label fewer pictures"):
        add_confirmed(base, LABELS, 6, confirmed(free, [3] * len(free)))


def test_the_digest_is_that_of_the_labels():
    one = confirmed([1, 2], [3, 4])
    assert one.digest == replace(one, parent="q", decisions=9).digest and len(one.digest) == 12
    assert one.digest != confirmed([1, 2], [4, 3]).digest != confirmed([1, 2], [4, 3], ("x", "y")).digest
