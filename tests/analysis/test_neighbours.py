"""Nearest neighbours among features: brute force in float64, and queries without an answer."""

import numpy as np
import pytest

from lps.analysis.projection import nearest_images
from lps.store.snapshots import Snapshot


def snapshot(count=40, width=6, seed=0) -> Snapshot:
    draw = np.random.default_rng(seed)
    index = draw.permutation(1000)[:count].astype(np.int32)
    features = draw.normal(size=(count, width)).astype(np.float16)
    return Snapshot(np.zeros(5, np.int16), np.zeros(5, np.float16), features, index)


def by_hand(found: Snapshot, image: int) -> list[tuple[float, int]]:
    """Every other image with one minus the cosine, nearest first."""
    rows = {int(i): row.astype(np.float64) for i, row in zip(found.feature_index, found.features)}
    own = rows.pop(image)
    cosine = {i: row @ own / np.sqrt((row @ row) * (own @ own)) for i, row in rows.items()}
    return sorted((1 - value, i) for i, value in cosine.items())


@pytest.mark.parametrize("count", [1, 7, 39, 100])
def test_the_nearest_are_those_of_brute_force(count):
    stored = snapshot()
    image = int(stored.feature_index[11])
    found, expected = nearest_images(stored, image, count), by_hand(stored, image)[:count]
    assert found.images.tolist() == [i for _, i in expected]
    assert np.allclose(found.distances, [distance for distance, _ in expected], atol=1e-5)


def test_an_image_is_not_its_own_neighbour_even_where_others_are_equal_to_it():
    stored = snapshot()
    stored.features[[3, 5, 8]] = stored.features[3]
    image = int(stored.feature_index[3])
    found = nearest_images(stored, image, 2)
    assert set(found.images.tolist()) == {int(stored.feature_index[5]), int(stored.feature_index[8])}
    assert np.allclose(found.distances, 0, atol=1e-6)


def test_lengths_of_features_do_not_matter():
    stored = snapshot()
    image = int(stored.feature_index[0])
    before = nearest_images(stored, image, 9).images.tolist()
    stored.features[::2] *= np.float16(4)
    assert nearest_images(stored, image, 9).images.tolist() == before


def test_images_without_features_and_lonely_ones_have_none():
    stored = snapshot()
    assert nearest_images(stored, 5000, 3) is None
    assert nearest_images(snapshot(count=1), int(snapshot(count=1).feature_index[0]), 3) is None
