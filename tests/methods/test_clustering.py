"""Neighbours and clusters on points whose answer is known."""

from itertools import product

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from lps.methods.parts import clustering
from lps.methods.parts.clustering import (
    cluster_centres,
    cluster_confidence,
    kmeans,
    knn_accuracy,
    nearest_centres,
    principal_axes,
    semi_supervised_kmeans,
    squared_distances,
    unit_rows,
)
from lps.scores.metrics import matched_accuracy
from lps.training.evaluate import sample_rows


def blobs(per_class=30, classes=4, noise=0.05, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), per_class)
    return np.eye(classes)[labels] + noise * generator.standard_normal((len(labels), classes)), labels


def test_separate_blobs_are_found_and_noise_is_not():
    points, labels = blobs()
    assert matched_accuracy(kmeans(points, 4, seed=0), labels, 4) == 1 and knn_accuracy(points, labels) == 1
    noise = np.random.default_rng(0).standard_normal((120, 8))
    assert knn_accuracy(noise, labels) < 0.5


def test_knn_leaves_the_image_itself_out():
    """Every point has one twin of another class: with itself counted the answer would be right, without it wrong."""
    points = np.repeat(np.eye(6), 2, axis=0)
    labels = np.tile([0, 1], 6)
    assert knn_accuracy(points, labels, neighbours=1) == 0


def test_knn_in_blocks_equals_knn_at_once():
    points, labels = blobs(noise=0.6)
    assert knn_accuracy(points, labels, block=7) == knn_accuracy(points, labels)


def test_unit_rows_have_length_one_and_zero_stays_zero():
    rows = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    assert np.allclose(np.linalg.norm(rows, axis=1), [1, 0])


@pytest.mark.parametrize("n", [10, 2000, 5000])
def test_the_sample_of_a_snapshot_is_even_over_classes_and_always_the_same(n):
    truth = np.random.default_rng(1).integers(0, 10, n)
    rows = sample_rows(truth, 0, 2000)
    assert len(rows) == min(n, 2000) == len(set(rows)) and np.array_equal(rows, sample_rows(truth, 0, 2000))
    assert np.array_equal(sample_rows(truth, 0, None), np.arange(n))
    shares = np.bincount(truth[rows], minlength=10) / len(rows) - np.bincount(truth, minlength=10) / n
    assert np.abs(shares).max() < 0.01


@pytest.mark.parametrize("n, clusters", [(0, 4), (1, 4), (3, 4), (4, 4), (9, 1)])
def test_kmeans_makes_no_more_clusters_than_there_are_points(n, clusters):
    points = np.random.default_rng(0).standard_normal((n, 5))
    ids = kmeans(points, clusters, seed=0)
    assert ids.dtype == np.int64 and len(ids) == n and len(set(ids)) == min(n, clusters)


def test_confidence_of_kmeans_is_one_minus_the_ratio_of_the_two_nearest_distances():
    points, labels = blobs(noise=0.3)
    points = np.float32(points)
    ids = kmeans(points, 4, seed=0, normalize=False)
    tensors = torch.from_numpy(points), torch.from_numpy(ids)
    nearest, confidence = nearest_centres(tensors[0], cluster_centres(*tensors, 4))
    assert torch.equal(nearest, tensors[1])
    for row, point in enumerate(points):
        distances = sorted(np.linalg.norm(point - points[ids == k].mean(0)) for k in range(4))
        assert confidence[row] == pytest.approx(1 - distances[0] / distances[1], abs=1e-4)


def test_confidence_of_kmeans_with_one_cluster_no_point_or_skipped_ids():
    points = torch.tensor([[0.0, 0], [0, 0], [1, 1]])

    def nearest(points, ids):
        return nearest_centres(points, cluster_centres(points, torch.tensor(ids, dtype=torch.int64), 4))

    assert (nearest(points, [0, 0, 0])[1] == 1).all()
    ids, confidence = nearest(points, [0, 0, 3])
    assert (confidence == 1).all() and ids.tolist() == [0, 0, 3]  # the empty ids 1 and 2 are no neighbours
    assert [len(part) for part in nearest(points[:0], [])] == [0, 0]
    ids, confidence = nearest_centres(points, torch.full((4, 2), torch.nan))
    assert not ids.any() and not confidence.any()  # nothing to go to


def scattered(free=40, held=9, width=5, classes=3, seed=0, spread=1.0):
    """Free points, pinned points and their pins: noise around random centres."""
    generator = torch.Generator().manual_seed(seed)
    middles = torch.randn(6, width, generator=generator) * 2
    points = middles[torch.arange(free) % 6] + spread * torch.randn(free, width, generator=generator)
    pins = torch.arange(held) % classes
    return points, middles[pins] + spread * torch.randn(held, width, generator=generator), pins


def nobody(points):
    return points[:0], torch.zeros(0, dtype=torch.int64)


def test_empty_clusters_take_the_farthest_points_one_each():
    points = torch.tensor([[0.0, 0], [0.1, 0], [5, 0], [0, 9], [0.2, 0]])
    centres = torch.tensor([[0.0, 0], [50, 50], [60, 60]])
    moved = clustering._move_centres(points, clustering._sums(*nobody(points), 3), centres)
    assert torch.equal(moved[1], points[3]) and torch.equal(moved[2], points[2])
    assert torch.allclose(moved[0], points.mean(0))


@pytest.mark.parametrize("seed", range(3))
def test_the_result_belongs_together_and_pinned_points_stay(seed):
    points, pinned, pins = scattered(seed=seed)
    found = semi_supervised_kmeans(points, pinned, pins, 6, seed=1)
    distances = torch.cdist(points.double(), found.centres.double()).square()
    assert torch.allclose(found.distances.double(), distances, atol=1e-4)
    assert torch.equal(found.ids, distances.argmin(1)) and found.centres.shape == (6, 5)
    members = [torch.cat([points[found.ids == k], pinned[pins == k]]) for k in range(6)]
    assert torch.allclose(found.centres, torch.stack([m.mean(0) for m in members]), atol=1e-2)
    total = sum((m - c).square().sum() for m, c in zip(members, found.centres))
    assert found.inertia.item() == pytest.approx(total.item() / (len(points) + len(pinned)), rel=1e-4)


def test_a_pinned_point_stays_where_it_does_not_belong():
    points = torch.tensor([[0.0, 0], [0, 1], [10, 0], [10, 1]])
    pinned = torch.tensor([[0.0, 0.5], [10, 0.5], [0, 0.5]])
    found = semi_supervised_kmeans(points, pinned, torch.tensor([0, 1, 1]), 2, seed=0)
    assert found.ids.tolist() == [0, 0, 1, 1]
    assert torch.allclose(found.centres[1], torch.tensor([7.5, 0.5]))  # the stray one pulls its cluster's centre


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_many_restarts_find_the_best_of_all_assignments(seed):
    points, pinned, pins = scattered(free=7, held=2, width=2, classes=1, seed=seed)

    def cost(ids):
        ids = torch.tensor([*ids, *pins.tolist()])
        together = torch.cat([points, pinned])
        groups = [together[ids == k] for k in range(3) if (ids == k).any()]
        return sum((g - g.mean(0)).square().sum().item() for g in groups) / len(together)

    best = min(cost(ids) for ids in product(range(3), repeat=7))
    assert semi_supervised_kmeans(points, pinned, pins, 3, seed=0, restarts=60).inertia.item() == pytest.approx(
        best, rel=1e-4
    )


def test_without_pins_it_is_plain_kmeans():
    points, _ = blobs(noise=0.4)
    points = torch.from_numpy(points).float()
    found = semi_supervised_kmeans(points, *nobody(points), 4, seed=0)
    expected = KMeans(4, n_init=10, random_state=0).fit(points.numpy()).inertia_ / len(points)
    assert found.inertia.item() == pytest.approx(expected, rel=1e-3)


def test_a_seed_repeats_and_restarts_never_hurt():
    points, pinned, pins = scattered(free=80, spread=2.0)
    results = [semi_supervised_kmeans(points, pinned, pins, 12, seed=3, restarts=n) for n in (1, 1, 3, 20)]
    assert torch.equal(results[0].ids, results[1].ids) and torch.equal(results[0].centres, results[1].centres)
    assert results[0].inertia >= results[2].inertia >= results[3].inertia
    assert results[3].inertia < results[0].inertia


@pytest.mark.parametrize("clusters", [2, 5, 8])
def test_coinciding_points_and_too_many_clusters_stay_finite(clusters):
    points = torch.ones(6, 3)
    for pinned, pins in (nobody(points), (points[:2], torch.tensor([0, 1]))):
        found = semi_supervised_kmeans(points, pinned, pins, clusters, seed=0, restarts=2)
        assert torch.isfinite(found.centres).all() and found.inertia == 0
        assert torch.isfinite(cluster_confidence(found.distances)).all()


def test_draws_follow_the_weights_and_never_leave_the_rows():
    chances = torch.rand(2000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = torch.tensor([0.0, 1, 0, 3, 0])
    drawn = np.bincount(clustering._draw(weights, chances), minlength=5)
    assert drawn[[0, 2, 4]].sum() == 0 and abs(drawn[3] / 2000 - 0.75) < 0.03
    for nothing in (torch.zeros(4), torch.full((4,), torch.inf)):
        assert set(clustering._draw(nothing, chances[:200]).tolist()) == {0, 1, 2, 3}


def test_a_draw_that_rounds_past_the_end_is_the_last_row():
    assert clustering._draw(torch.ones(5), torch.ones(2, dtype=torch.float64)).tolist() == [4, 4]


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 5000])
def test_a_running_sum_by_rows_is_the_usual_one(count):
    values = torch.rand(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.allclose(clustering._running_sum(values), values.cumsum(dim=0), rtol=1e-13)


@pytest.mark.parametrize("iterations", [1, 5, 200])
def test_rounds_after_the_last_one_change_nothing(iterations, monkeypatch):
    """A GPU is asked only now and then whether k-means is over."""
    points, pinned, pins = scattered(free=200)
    arguments = (points, pinned, pins, 6, 0, 3, iterations)
    expected = semi_supervised_kmeans(*arguments)
    monkeypatch.setattr(clustering, "_CHECK_EVERY", {False: 16})
    found = semi_supervised_kmeans(*arguments)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, expected))


def test_squared_distances_do_not_round_below_zero():
    points = torch.randn(50, 8, generator=torch.Generator().manual_seed(0)) + 300
    distances = squared_distances(points, points)
    assert (distances >= 0).all() and distances.diagonal().max() < 1


def test_confidence_is_zero_halfway_and_one_at_a_centre():
    assert cluster_confidence(torch.tensor([[4.0, 4, 9], [0, 1, 1], [1, 4, 9]])).tolist() == [0, 1, 0.5]
    assert cluster_confidence(torch.tensor([[4.0]])).tolist() == [1]


def test_principal_axes_are_those_of_scikit_learn():
    points = scattered(free=60)[0]
    mean, axes = principal_axes(points, 3)
    expected = PCA(3).fit(points.double().numpy())
    assert np.allclose(mean, expected.mean_, atol=1e-5)
    assert np.allclose(np.abs((axes.double().numpy() * expected.components_).sum(1)), 1, atol=1e-5)


def test_principal_axes_of_fewer_points_than_dimensions_are_orthonormal():
    _, axes = principal_axes(torch.randn(3, 8, generator=torch.Generator().manual_seed(0)), 6)
    assert torch.allclose(axes @ axes.T, torch.eye(6), atol=1e-5)


def test_points_in_blocks_have_the_clusters_that_they_have_together(monkeypatch):
    points, pinned, pins = torch.randn(300, 5), torch.randn(40, 5), torch.arange(40) % 2
    expected = semi_supervised_kmeans(points, pinned, pins, 6, seed=1)
    monkeypatch.setattr(clustering, "_BLOCK", 64)
    found = semi_supervised_kmeans(points, pinned, pins, 6, seed=1)
    assert torch.equal(found.ids, expected.ids) and torch.allclose(found.centres, expected.centres, atol=1e-5)
    assert torch.allclose(found.distances, expected.distances, atol=1e-4)


def test_of_many_points_the_restarts_see_a_sample_and_the_last_rounds_all(monkeypatch):
    centres = 20 * torch.randn(5, 4)
    own = torch.arange(2000) % 5
    points, (pinned, pins) = centres[own] + torch.randn(2000, 4), (centres[:2], torch.arange(2))
    expected = semi_supervised_kmeans(points, pinned, pins, 5, seed=0)
    monkeypatch.setattr(clustering, "_MAX_TRIED", 200)
    found = semi_supervised_kmeans(points, pinned, pins, 5, seed=0)
    assert len(found.ids) == 2000 and found.inertia.item() == pytest.approx(expected.inertia.item(), rel=1e-4)
    assert torch.equal(found.ids, semi_supervised_kmeans(points, pinned, pins, 5, seed=0).ids)
