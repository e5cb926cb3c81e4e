"""The benchmarks of Review and of mixed clusters, on a made run whose mistakes are known."""

import numpy as np
import pytest

from benchmarks import mixtures, review
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
    desk = review_order.read_desk(run, 6)
    truth, predicted = desk.targets[desk.split.unlabeled], desk.network.predicted
    wrong = (truth != predicted)[desk.rows]
    assert found["before"] == pytest.approx(100 * (truth == predicted).mean())
    for name in ("review", "least confident", "random"):
        assert 0 <= found[name][0] <= found[name][1] == pytest.approx(100 * wrong.sum() / len(truth))
    assert found["least confident"][0] > found["random"][0]
    assert [row["decisions"] for row in review.table([found, found])] == [0, 5, 1000]


def test_the_order_of_the_page_is_asked_anew_after_every_answer(run, monkeypatch):
    monkeypatch.setattr(review, "DECISIONS", (6,))
    desk = review_order.read_desk(run, 6)
    order = review.by_review(desk, np.zeros(len(desk.rows), int))
    assert len(set(order)) == 6
    assert order[0] == review_order.doubts(desk, review.Naming()).next(desk.around, [], 1)[0]


def test_rates_of_the_warning(run):
    found = mixtures.clusters_of(run)
    assert {one["data"] for one in found} == {"digits"} and all(
        0 < one["purity"] <= one["in 3"] + 1e-9 for one in found
    )
    made = [{"data": "digits", "purity": 0.95, "warned": True, "elsewhere": 0.1, "surplus": 0, "in 2": 1, "in 3": 1}]
    made += [made[0] | {"purity": 0.5, "elsewhere": 0.3}, made[0] | {"purity": 0.5, "warned": False}]
    row = mixtures.rates(made)[-1]
    assert (row["pure"], row["warned"], row["mixed"], row["caught"]) == (1, "100 %", 2, "50 %")
    assert row["elsewhere, AUC"] == "0.75" and row["purity, purity"] == "50 %"
