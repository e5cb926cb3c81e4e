"""Neighbours and clusters on points whose answer is known."""

import numpy as np
import pytest
import torch

from lps.clustering import kmeans, kmeans_confidence, knn_accuracy, unit
from lps.evaluate import sample_rows
from lps.metrics import matched_accuracy


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
    rows = unit(np.array([[3.0, 4.0], [0.0, 0.0]]))
    assert np.allclose(np.linalg.norm(rows, axis=1), [1, 0])


@pytest.mark.parametrize("n", [10, 2000, 5000])
def test_the_sample_of_a_snapshot_is_even_over_classes_and_always_the_same(n):
    truth = np.random.default_rng(1).integers(0, 10, n)
    rows = sample_rows(truth, seed=0)
    assert len(rows) == min(n, 2000) == len(set(rows)) and np.array_equal(rows, sample_rows(truth, seed=0))
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
    confidence = kmeans_confidence(torch.from_numpy(points), torch.from_numpy(ids)).numpy()
    for row, point in enumerate(points):
        distances = sorted(np.linalg.norm(point - points[ids == k].mean(0)) for k in range(4))
        assert confidence[row] == pytest.approx(1 - distances[0] / distances[1], abs=1e-4)


def test_confidence_of_kmeans_with_one_cluster_no_point_or_skipped_ids():
    points = torch.tensor([[0.0, 0], [0, 0], [1, 1]])
    assert (kmeans_confidence(points, torch.tensor([0, 0, 0])) == 1).all()
    assert (kmeans_confidence(points, torch.tensor([0, 0, 3])) == 1).all()  # the empty ids 1 and 2 are no neighbours
    assert len(kmeans_confidence(points[:0], torch.tensor([], dtype=torch.int64))) == 0
