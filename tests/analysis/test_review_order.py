"""The order of pictures on the page Review: beliefs, order and suggestions."""

import numpy as np
import pytest

from lps.analysis import naming, projection, review_order
from lps.analysis.naming import Naming
from lps.analysis.projection import nearest_rows
from lps.analysis.review_order import belief_margins, cluster_beliefs, review_queue
from lps.errors import UserError
from lps.store import snapshots
from tests.sample_runs import make_run

ANGLES = np.deg2rad([0, 4, 9, 90, 95, 101, 40])  # three pictures of a kind, three of another, one between
FEATURES = np.stack([np.cos(ANGLES), np.sin(ANGLES)], 1) * np.array([1, 9, 2, 1, 1, 5, 3])[:, None]
IDS = np.array([3, 8])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs"), epochs=6, lucky=False)


def test_the_nearest_are_those_of_the_same_direction(monkeypatch):
    monkeypatch.setattr(projection, "_PIECE", 2)
    found = nearest_rows(FEATURES, 2)
    assert found[:6].tolist() == [[1, 2], [0, 2], [1, 0], [4, 5], [3, 5], [4, 3]]
    assert nearest_rows(FEATURES[:1], 2).shape == (1, 0) and nearest_rows(FEATURES, 20).shape == (7, 6)
    assert nearest_rows(np.full((3, 2), np.nan), 1).shape == (3, 1)


def test_the_nearest_of_many_pictures_have_the_largest_cosines(monkeypatch):
    monkeypatch.setattr(projection, "_PIECE", 200)
    features = np.random.default_rng(0).normal(size=(701, 4))
    cosines = projection.unit_rows(features) @ projection.unit_rows(features).T
    np.fill_diagonal(cosines, -np.inf)
    found = nearest_rows(features, 5)
    assert np.allclose(np.take_along_axis(cosines, found, axis=1), -np.sort(-cosines, axis=1)[:, :5])
    assert np.array_equal(np.sort(found), np.sort(np.argsort(-cosines, axis=1)[:, :5]))


def test_belief_is_half_the_network_and_half_the_neighbours():
    assigned = np.array([3, 3, 3, 8, 8, 8, 8])
    found = cluster_beliefs(nearest_rows(FEATURES, 2), assigned, np.full(7, 0.8), IDS)
    assert found[0].tolist() == pytest.approx([0.9, 0]) and found[6].tolist() == pytest.approx([0.5, 0.4])
    least = belief_margins(found, np.array([0, 0, 0, 1, 1, 1, 1]))
    assert least.argmin() == 6 and least[6] == pytest.approx(-0.1)
    assert belief_margins(found, np.full(7, -1))[0] == pytest.approx(-0.9), "a picture of no cluster"


def test_pictures_that_are_alike_do_not_follow_each_other(monkeypatch):
    monkeypatch.setattr(review_order, "_APART", 1)
    near = nearest_rows(FEATURES, 2)
    assert review_queue(np.arange(7), near, np.ones(7, bool), 7).tolist() == [0, 3, 1, 4, 2, 5, 6]
    assert review_queue(np.arange(7), near, np.arange(7) < 3, 9).tolist() == [0, 1, 2], "there are no others"
    assert review_queue(np.arange(7), near, np.zeros(7, bool), 9).tolist() == []


def test_wrong_pictures_come_first(run):
    desk = review_order.read_review_session(run, 6)
    found = review_order.assess_doubts(desk, Naming())
    rows = found.next(desk.around, [], 50)
    wrong = desk.targets[desk.split.unlabeled] != desk.network.predicted
    assert wrong[desk.rows[rows]].mean() > 1.5 * wrong.mean()
    first = int(desk.around.images[rows[0]])
    assert first not in desk.around.images[found.next(desk.around, [first], 50)]


def test_what_a_person_said_counts_at_once(run):
    desk = review_order.read_review_session(run, 6)
    row = int(review_order.assess_doubts(desk, Naming()).next(desk.around, [], 1)[0])
    image = int(desk.around.images[row])
    said = naming.apply_step(Naming(), {"do": "assign", "images": [image], "to": 4})
    said = naming.apply_step(said, {"do": "reject", "id": 9})
    found = review_order.assess_doubts(desk, said)
    assert found.ids[found.cluster_index[row]] == 4 and not found.waiting[row] and 9 not in found.ids
    assert not found.waiting[found.cluster_index < 0].any(), "pictures of a cluster that is no class do not wait"
    assert row not in found.next(desk.around, [], len(desk.rows))
    other = int(desk.around.images[5])
    found = review_order.assess_doubts(desk, naming.apply_step(Naming(), {"do": "wrong", "images": [other], "id": 3}))
    assert found.cluster_index[5] == -1 and found.waiting[5] and found.margin[5] < 0
    found = review_order.assess_doubts(desk, naming.apply_step(Naming(), {"do": "nothing", "images": [other]}))
    assert not found.waiting[5]


def test_there_are_always_five_suggestions_and_examples_of_each(run):
    desk = review_order.read_review_session(run, 6)
    found = review_order.assess_doubts(desk, Naming())
    for row in found.next(desk.around, [], 20).tolist():
        places = found.suggestions(row, 5)
        believed = found.believed[row, places]
        assert len(set(places)) == 5 and (np.diff(believed) <= 0).all() and believed[0] == found.believed[row].max()
        for place in places:
            shown = review_order.example_rows(row, desk.around.nearest, found.cluster_index == place, 3)
            assert row not in shown and (found.cluster_index[shown] == place).all()
            others = int((found.cluster_index == place).sum()) - (found.cluster_index[row] == place)
            assert len(set(shown.tolist())) == min(3, others)


def test_features_of_strange_images_are_damage(run, tmp_path):
    own = make_run(tmp_path, epochs=2)
    snapshot = snapshots.read_snapshot(own.snapshots, 2)
    with pytest.raises(UserError, match=r"split.npz: does not exist yet"):
        review_order.read_review_session(make_run(tmp_path, "queued"), 2)
    snapshots.write_snapshot(
        own.snapshots, 2, type(snapshot)(**{**vars(snapshot), "feature_index": snapshot.feature_index + 5000})
    )
    with pytest.raises(UserError, match=r"epoch-0002.npz: has no features of the unlabeled images"):
        review_order.read_review_session(own, 2)
