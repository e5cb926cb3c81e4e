"""Images among landmarks: the most similar ones are found, places lie between theirs, and maps of many are of all."""

import json
import time

import numpy as np
import pytest

from lps.analysis import projection
from lps.analysis.projection import Landmarks, unit_rows
from lps.store import snapshots
from tests.sample_runs import make_run


def clustered(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(directions of 16 numbers, the one of 20 groups that each belongs to)."""
    random = np.random.default_rng(seed)
    centers, groups = np.random.default_rng(99).normal(size=(20, 16)), random.integers(0, 20, count)
    return unit_rows((centers[groups] + 0.3 * random.normal(size=(count, 16))).astype(np.float32)), groups


@pytest.fixture(scope="module")
def known():
    features, groups = clustered(3000, 0)
    places = np.stack([groups % 5, groups // 5], axis=1) + 0.1 * np.random.default_rng(1).normal(size=(3000, 2))
    return Landmarks(features, places, 0)


def test_nearly_all_nearest_landmarks_are_those_of_a_search_of_all(known):
    asked, _ = clustered(500, 2)
    exact = np.argsort(-(asked @ known.features.T), axis=1)[:, :8]
    rows, cosines = known.nearest(asked)
    recall = np.mean([len(set(a) & set(b)) / 8 for a, b in zip(rows, exact)])
    assert recall > 0.95 and (np.diff(cosines, axis=1) <= 0).all()
    assert np.allclose(cosines, np.take_along_axis(asked @ known.features.T, rows, axis=1), atol=1e-5)


def test_images_lie_in_the_group_that_they_are_most_like(known):
    asked, groups = clustered(500, 2)
    places = known.place(asked)
    assert np.isfinite(places).all()
    middle = np.stack([groups % 5, groups // 5], axis=1)
    assert (np.abs(places - middle).max(axis=1) < 0.5).mean() > 0.98


@pytest.fixture
def many(tmp_path, monkeypatch):
    """A run whose features count as too many for one map."""
    monkeypatch.setattr(projection, "MAX_POINTS", 500)
    monkeypatch.setattr(projection, "LANDMARKS", 300)
    return make_run(tmp_path, epochs=2)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_a_map_of_many_images_has_all_of_them_and_is_always_the_same(many, method):
    path = projection.compute_map(many, method, 2)
    found, stored = projection.read_map(many, method, 2), snapshots.read_snapshot(many.snapshots, 2)
    assert found.index.tolist() == stored.feature_index.tolist() and np.isfinite(found.points).all()
    assert len(np.unique(found.points, axis=0)) > 0.9 * len(found.points)
    with np.load(path) as arrays:
        said = json.loads(str(arrays["parameters"]))
    assert said.get("landmarks") == (None if method == "pca" else 300)
    path.unlink()
    projection.compute_map(many, method, 2)
    assert np.array_equal(projection.read_map(many, method, 2).points, found.points)


@pytest.mark.slow
def test_a_map_in_the_background_can_be_cancelled(tmp_path):
    run = make_run(tmp_path, epochs=2)
    projection.start_map(run, "umap", 2)
    projection.cancel_map(run, "umap", 2)
    while projection.map_progress(run, "umap", 2).is_working:
        time.sleep(0.1)
    assert projection.map_progress(run, "umap", 2).state == "cancelled" and not list(run.projections.glob("*.npz"))
