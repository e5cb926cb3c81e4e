"""The benchmarks of Review and of cluster flags, on a made-up run with known mistakes."""

import numpy as np
import pytest

from benchmarks import cluster_flags, review
from lps.analysis import review_order
from tests.sample_runs import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs"), epochs=6, lucky=False)


def test_decisions_add_what_was_wrong(run, monkeypatch):
    monkeypatch.setattr(review, "DECISIONS", (5, 1000))
    monkeypatch.setattr(review, "_DRAWS", 3)
    monkeypatch.setitem(review.ORDERS, "review", review.by_confidence)  # a thousand questions take seconds
    found = review.gains(run)
    desk = review_order.read_review_session(run, 6)
    truth, predicted = desk.targets[desk.split.unlabeled], desk.network.predicted
    wrong = (truth != predicted)[desk.rows]
    assert found["before"] == pytest.approx(100 * (truth == predicted).mean())
    for name in ("review", "least confident", "random"):
        assert 0 <= found[name][0] <= found[name][1] == pytest.approx(100 * wrong.sum() / len(truth))
    assert found["least confident"][0] > found["random"][0]
    assert [row["decisions"] for row in review.table([found, found])] == [0, 5, 1000]


def test_the_order_of_the_page_is_asked_anew_after_every_answer(run, monkeypatch):
    monkeypatch.setattr(review, "DECISIONS", (6,))
    desk = review_order.read_review_session(run, 6)
    order = review.by_review(desk, np.zeros(len(desk.rows), int))
    assert len(set(order)) == 6
    assert order[0] == review_order.assess_doubts(desk, review.Naming()).next(desk.around, [], 1)[0]


def test_what_is_said_of_clusters_is_held_against_the_truth(run, monkeypatch):
    monkeypatch.setattr(cluster_flags, "_EPOCHS", 6)
    found = cluster_flags.clusters_of("digits, few, 0", run)
    assert len(found) == 10 and all(0 < one["parts"][0] <= one["parts"][2] + 1e-9 for one in found)
    assert all(one["right"]["looks mixed"] == (one["purity"] < 0.8) for one in found)
    said = np.array([True, True, False, False])
    right = np.array([True, False, True, False])
    made = [{"run": run, "data": "digits", "said": {"x": s}, "right": {"x": r}} for s, r in zip(said, right)]
    row = cluster_flags.rates(made)[0]
    assert (row["clusters"], row["true of"], row["said of"], row["right"]) == (4, 2, 2, 1)
    assert row["precision"] == row["recall"] == "50 % (50 to 50)", "one run, drawn again and again, is the same"
