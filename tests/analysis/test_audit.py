"""Faults planted among features: which are found, and that nothing is found without faults."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from lps.analysis import audit as audits
from lps.analysis.audit import LABELED, TEST, UNLABELED, audit_features, parts_of
from lps.errors import UserError
from lps.scores import neighbours
from lps.scores.neighbours import nearest_neighbours

CLASSES, EACH, WIDTH = 4, 40, 32


@pytest.fixture(scope="module")
def clean():
    """(features, labels) of four clouds of points."""
    draws = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), EACH)
    centres = 3 * draws.normal(size=(CLASSES, WIDTH))
    return (centres[labels] + draws.normal(size=(len(labels), WIDTH))).astype(np.float32), labels


def looked(features, labels, parts=None, **more):
    return audit_features(features, labels, parts_of(labels, 0) if parts is None else parts, **more)


def test_nothing_is_found_where_nothing_is_wrong(clean):
    found = looked(*clean)
    assert found.count == len(clean[1]) and not found.duplicates and not found.denied and len(found.strangers) <= 8


def test_copies_are_found_as_one_group_also_across_parts_and_labels(clean):
    features, labels = clean
    copies = features[[5, 5, 90]] * np.array([[1], [2], [1]]) + 0.01
    parts = np.concatenate([parts_of(labels, 0), [UNLABELED, TEST, LABELED]])
    found = looked(np.concatenate([features, copies]), np.concatenate([labels, [-1, 3, 2]]), parts)
    assert [group.pictures for group in found.duplicates] == [(5, 160, 161), (90, 162)]
    first, second = found.duplicates
    assert first.across == ("labeled", "unlabeled", "test") and first.labels == 2
    assert second.across == ("labeled",) and second.labels == 1 and 0 < second.worst < 0.1


def test_more_copies_than_neighbours_hide_no_picture_from_itself(clean):
    features, labels = np.repeat(clean[0][:2], 40, axis=0), np.repeat([0, 1], 40)
    rows = nearest_neighbours(audits.unit_rows(features), 30).rows
    assert not (rows == np.arange(80)[:, None]).any()
    assert [len(group.pictures) for group in looked(features, labels).duplicates] == [40, 40]


def test_a_picture_far_from_everything_is_found(clean):
    features, labels = clean
    strange = np.zeros((1, WIDTH), np.float32)
    strange[0, 0] = -1e3
    found = looked(np.concatenate([features, strange]), np.append(labels, 0))
    assert found.strangers[0].picture == len(labels) and found.strangers[0].score > audits.FAR


def test_a_label_that_no_neighbour_has_is_found_with_the_one_they_have(clean):
    features, labels = clean
    wrong = labels.copy()
    wrong[[3, 130]] = [1, 0]
    found = looked(features, wrong)
    said = {(one.picture, one.label, one.others, one.share) for one in found.denied}
    assert said == {(3, 1, 0, 1.0), (130, 0, 3, 1.0)}


def test_pictures_without_a_label_are_no_witnesses(clean):
    features, labels = clean
    half = np.where(np.arange(len(labels)) % 2, labels, -1)
    half[41] = 0  # of class 1
    assert [(one.picture, one.others) for one in looked(features, half).denied] == [(41, 1)]
    assert looked(features, np.full(len(labels), -1)).denied == ()


def test_a_copy_does_not_speak_for_its_own_label(clean):
    features, labels = clean
    wrong = np.append(labels, 1)
    wrong[3] = 1
    found = looked(np.concatenate([features, features[3:4]]), wrong)
    assert {one.picture for one in found.denied} == {3, 160}


@pytest.mark.parametrize("turn", [lambda x: x, lambda x: x[:, ::-1], lambda x: np.clip(x + 9, 0, 255)])
def test_colours_tell_copies_whose_features_are_only_near(clean, turn):
    draws = np.random.default_rng(1)
    features, labels = clean
    pixels = draws.integers(0, 256, (len(labels), 32, 48, 3)).astype(np.uint8)
    pixels[80] = turn(pixels[81].astype(int))
    features = features.copy()
    features[80] = features[81] + 0.9 * draws.normal(size=WIDTH)
    assert looked(features, labels).duplicates == ()
    assert [group.pictures for group in looked(features, labels, pixels=pixels).duplicates] == [(80, 81)]
    assert looked(features, labels, pixels=pixels[..., :1]).duplicates == ()


def test_thumbnails_are_means_of_blocks():
    pixels = np.random.default_rng(0).integers(0, 256, (3, 32, 48, 3)).astype(np.uint8)
    expected = pixels.reshape(3, 16, 2, 16, 3, 3).mean(axis=(2, 4)).astype(np.uint8)
    assert np.array_equal(audits._thumbnails(pixels), expected)


def test_blocks_change_nothing_and_each_is_told(clean, monkeypatch):
    features, labels = clean
    whole, told = looked(features, labels), []
    monkeypatch.setattr(neighbours, "_BLOCK", 50)
    assert looked(features, labels, report=told.append) == whole and told == [50 / 160, 100 / 160, 150 / 160, 1.0]


@pytest.mark.parametrize("count", [0, 10])
def test_too_few_pictures_are_refused_in_a_sentence(count):
    with pytest.raises(UserError, match=f"pictures: {count} .*expected 11 to 1,000,000"):
        looked(np.zeros((count, 3)), np.zeros(count, np.int64))


def test_too_many_pictures_are_refused_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr(audits, "_ALWAYS", 20)
    monkeypatch.setattr(audits, "_MAX_VALUES", 75)
    assert looked(np.zeros((25, 3)), np.zeros(25, np.int64)).count == 25
    with pytest.raises(UserError, match="26 images with 3 features each .*expected 11 to 25.*images_per_class"):
        looked(np.zeros((26, 3)), np.zeros(26, np.int64))


def test_features_that_are_all_the_same_are_one_group():
    found = looked(np.ones((30, 4)), np.zeros(30, np.int64))
    assert [len(group.pictures) for group in found.duplicates] == [30] and not found.strangers and not found.denied


def planted_digits(seed):
    """(pixels (n, 64) as features, labels, pairs of rows, strangers, wrong labels): digits with faults among them."""
    draws, digits = np.random.default_rng([seed, 97]), load_digits()
    rows = draws.permutation(len(digits.data))[:1000]
    x, labels = digits.data[rows].astype(np.float32), digits.target[rows]
    of = draws.permutation(len(x))[:30]
    copies = np.clip(x[of] + draws.normal(scale=0.3, size=(30, 64)), 0, 16)
    noise = draws.integers(0, 17, (10, 64))
    wrong = draws.permutation(len(x))[:40]
    given = np.concatenate([labels, labels[of], draws.integers(0, 10, 10)])
    given[wrong] = (given[wrong] + draws.integers(1, 10, 40)) % 10
    pairs = [{a, 1000 + i} for i, a in enumerate(of.tolist())]
    return np.concatenate([x, copies, noise]).astype(np.float32), given, pairs, set(range(1030, 1040)), set(wrong)


@pytest.mark.parametrize("seed", [0, 1])
def test_faults_planted_among_digits_are_found(seed):
    """`benchmarks.planted` in small."""
    features, labels, pairs, strangers, wrong = planted_digits(seed)
    found = looked(features, labels)
    groups = [set(group.pictures) for group in found.duplicates]
    denied = {one.picture for one in found.denied}
    strange = {one.picture for one in found.strangers}
    assert all(any(pair <= group for group in groups) for pair in pairs)
    assert strangers <= strange and len(strange) <= 25
    assert len(denied & wrong) >= 28 and len(denied - wrong - strangers) <= 6
