"""Nearest neighbours among many points: which are found, how many, and that every machine finds the same.

`python -m tests.reliability cases` searches with NN-descent itself; the suite has a stand-in for it.
"""

import json
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from lps.analysis.audit import audit_features, parts_of
from lps.errors import UserError
from lps.scores import neighbours
from lps.scores.neighbours import nearest_neighbours, recall_in_words
from lps.studies import audit_files
from tests.shares import ALL


@pytest.fixture(scope="module")
def points():
    """600 points of unit length around 12 centres; 40 of them are the same point."""
    draws = np.random.default_rng(0)
    rows = draws.normal(size=(12, 16))[draws.integers(0, 12, 600)] + 0.4 * draws.normal(size=(600, 16))
    rows[100:140] = rows[100]
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_few_points_are_compared_exactly(points):
    found = nearest_neighbours(points, 5)
    away = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(away, np.inf)
    assert np.allclose(found.distances, np.sort(away, axis=1)[:, :5], atol=1e-3)
    assert found.recall is None and recall_in_words(None) == ""


class StandIn:
    """What NN-descent gives, without the 40 processor seconds in which Numba compiles it: every point itself first."""

    def __init__(self, points, metric, n_neighbors, random_state, n_jobs, **_):
        assert (metric, random_state, n_jobs) == ("euclidean", 0, 1), "every machine finds the same"
        distances, rows = NearestNeighbors(n_neighbors=n_neighbors + 1).fit(points).kneighbors(points)
        near = np.r_[: n_neighbors - 1, n_neighbors]  # the last neighbour but one is missed
        self.neighbor_graph = rows[:, near], distances[:, near].astype(np.float32)


def put(monkeypatch, search) -> None:
    module = ModuleType("pynndescent")
    module.__spec__, module.NNDescent = ModuleSpec("pynndescent", None), search
    monkeypatch.setitem(sys.modules, "pynndescent", module)


@pytest.mark.slow
@pytest.mark.parametrize("is_real", [False, True] if ALL else [False])
def test_many_points_are_compared_approximately_and_the_recall_is_measured(points, monkeypatch, is_real):
    if not is_real:
        put(monkeypatch, StandIn)
    exact = nearest_neighbours(points, 10)
    monkeypatch.setattr(neighbours, "EXACT", 500)
    first, again = nearest_neighbours(points, 10), nearest_neighbours(points, 10)
    assert np.array_equal(first.rows, again.rows) and np.array_equal(first.distances, again.distances)
    assert not (first.rows == np.arange(600)[:, None]).any() and (first.rows >= 0).all()
    away = np.linalg.norm(points[first.rows] - points[:, None], axis=2)
    assert np.allclose(first.distances, away, atol=1e-3), "distances are those of the rows"
    share = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(exact.rows[200:].tolist(), first.rows[200:].tolist())])
    assert 0.8 < first.recall <= 1 and first.recall == pytest.approx(share, abs=0.05)
    assert f"{100 * first.recall:.1f} %" in recall_in_words(first.recall)


def test_the_recall_is_the_share_of_neighbours_as_near_as_the_exact_ones(points):
    exact = nearest_neighbours(points[200:], 10).distances
    half = np.where(np.arange(10) < 5, exact, exact[:, -1:] + 0.1)
    assert neighbours._measure_recall(points[200:], exact) == 1
    assert neighbours._measure_recall(points[200:], half) == pytest.approx(0.5, abs=1e-6)


def test_points_that_the_graph_lost_are_compared_exactly(points, monkeypatch):
    class Lossy:
        def __init__(self, points, n_neighbors, **_):
            rows = np.tile(np.arange(n_neighbors, dtype=np.int32), (len(points), 1))
            rows[7, 3:] = -1
            self.neighbor_graph = rows, np.zeros(rows.shape, np.float32)

    put(monkeypatch, Lossy)
    exact = nearest_neighbours(points, 10)
    distances, rows = neighbours._search_approximately(points, 10)
    assert rows[7].tolist() == exact.rows[7].tolist() and np.array_equal(distances[7], exact.distances[7])


def test_without_the_package_few_are_compared_exactly_and_many_refused_in_a_sentence(points, monkeypatch):
    exact = nearest_neighbours(points, 5)
    monkeypatch.setattr(neighbours, "EXACT", 500)
    monkeypatch.setattr(neighbours.importlib.util, "find_spec", lambda name: None)
    assert np.array_equal(nearest_neighbours(points, 5).rows, exact.rows)
    monkeypatch.setattr(neighbours, "_EXACT_WITHOUT", 599)
    with pytest.raises(
        UserError, match="600 images needs the package umap-learn.* at most 599.*pip install umap-learn"
    ):
        nearest_neighbours(points, 5)


def test_the_check_stores_the_smaller_recall_of_its_searches(points, tmp_path, monkeypatch):
    recalls = [0.97, 0.93]

    def approximate(points, count, report):
        return neighbours.Neighbours(*neighbours._search_exactly(points, np.arange(len(points)), count), recalls.pop(0))

    monkeypatch.setattr("lps.analysis.audit.nearest_neighbours", approximate)
    labels = np.where(np.arange(600) % 2, -1, 0)
    assert audit_features(points, labels, parts_of(labels, 0)).recall == 0.93
    path = tmp_path / "found.json"
    audit_files.write(path, audit_files.Audited(600, (), dict.fromkeys(audit_files.KINDS, 0), 0.93))
    assert audit_files.read_findings(path).recall == 0.93
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(stored | {"recall": 2}))
    with pytest.raises(UserError, match="damaged"):
        audit_files.read_findings(path)
    del stored["recall"]  # of an earlier version
    path.write_text(json.dumps(stored))
    assert audit_files.read_findings(path).recall is None
