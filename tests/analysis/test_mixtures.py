"""Which clusters look mixed, and the parts of one: made clusters of one, two and three kinds."""

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from lps.analysis import mixed_clusters

WIDTH = 32


def kinds(*sizes: int, apart: float = 3.0, seed: int = 0) -> np.ndarray:
    """Features of so many pictures of each kind, whose centres are `apart` spreads from each other."""
    draws = np.random.default_rng(seed)
    centers = np.eye(WIDTH)[: len(sizes)] * apart + 10 * np.eye(WIDTH)[-1]
    return np.concatenate([center + draws.normal(0, 0.5, (size, WIDTH)) for center, size in zip(centers, sizes)])


def test_the_clearest_third_of_the_clusters_strewn_among_several_others_is_suspected():
    features = np.concatenate([kinds(100, seed=1), kinds(100, seed=2) * -1])
    here = np.r_[np.arange(100) % 2, 2 + np.arange(100) % 4]  # a class cut in two, and one strewn over four clusters
    sure = np.array([0.3, 0.3, 0.6, 0.7, 0.8, 0.9, np.nan])
    assert np.flatnonzero(mixed_clusters.find_mixed(features, here, sure)).tolist() == [2, 3], "two of six at most"
    sure[2:5] = 0.95
    assert not mixed_clusters.find_mixed(features, here, sure).any(), "the parts of one class are no mixture"
    few = np.r_[:100, 100:128]  # seven pictures of each of four clusters
    assert not mixed_clusters.find_mixed(features[few], here[few], np.full(6, 0.6)).any(), "too few to say"
    assert mixed_clusters.find_mixed(np.zeros((0, 4)), np.zeros(0, int), np.full(3, 0.6)).tolist() == [False] * 3


def parted(features: np.ndarray, count: int) -> np.ndarray:
    return mixed_clusters.split_points(mixed_clusters.leading_components(features), count)


@pytest.mark.parametrize("sizes", [(30, 50), (20, 60, 40)])
def test_parts_are_the_kinds_the_largest_first(sizes):
    parts = parted(kinds(*sizes), len(sizes))
    assert sorted(np.bincount(parts).tolist(), reverse=True) == np.bincount(parts).tolist() == sorted(sizes)[::-1]
    ends = np.cumsum(sizes)
    assert all(len(set(parts[start:end].tolist())) == 1 for start, end in zip([0, *ends], ends))


def test_what_cannot_be_told_apart_does_no_harm():
    assert parted(np.ones((5, 4)), 3).shape == (5,)
    assert parted(np.full((4, 2), np.nan), 2).shape == (4,)


def test_a_sample_of_a_part_has_typical_and_far_pictures():
    features = np.concatenate([kinds(90, seed=3), kinds(10, seed=4) * -1])
    shown = mixed_clusters.spread_over(features, 20).tolist()
    assert len(set(shown)) == 20 and sum(row >= 90 for row in shown) == 2, "a tenth of the part, so of the sample"
    assert shown[0] < 90 <= shown[-1], "from the most typical to the least typical"
    assert sorted(mixed_clusters.spread_over(features, 200).tolist()) == [*range(100)]


def test_the_separation_is_the_silhouette():
    def separated(features: np.ndarray, parts: np.ndarray) -> float:
        return mixed_clusters.separation(mixed_clusters.leading_components(features), parts)

    features = np.random.default_rng(0).normal(size=(40, 6)) + 3
    parts = np.r_[[0] * 20, [1] * 19, 2]
    expected = silhouette_score(mixed_clusters.leading_components(features), parts)
    assert separated(features, parts) == pytest.approx(expected)
    assert separated(features, np.zeros(40, int)) == 0.0
    assert separated(kinds(30, 30), np.arange(60) // 30) > 0.4 > separated(kinds(60), parted(kinds(60), 2))
    assert separated(np.ones((4, 3)), np.array([0, 0, 1, 1])) == 0.0, "equal pictures"


def test_the_nearest():
    features = kinds(30, 30)
    near = mixed_clusters.nearest_to(features, np.array([2, 5]))
    assert set(near[:20].tolist()) <= set(range(30)) - {2, 5} and len(near) == 58
    assert len(mixed_clusters.nearest_to(features, np.array([], int))) == 0
