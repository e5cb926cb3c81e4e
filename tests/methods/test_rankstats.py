"""RankStats: pairs by ranking and every term against loops in float64, its two heads, its ramp and its stages."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scenes import CLASSES, WIDTH, inference, pixel_scene, scene, softmax

from lps.data.classes import Classes
from lps.methods import Progress, build
from lps.methods.rankstats import pairwise_cross_entropy, same_ranking
from lps.network.network import Network
from lps.settings.config import configure, parameters

JOINT = Progress(10, 20, 0, 10)


def rankstats(outputs=CLASSES.seen + CLASSES.total, **options):
    return scene("rankstats", 2, outputs=outputs, **options)


def naive_pairs(features, top_k):
    sets = [set(np.argsort(-row)[:top_k]) for row in np.maximum(np.asarray(features, np.float64), 0)]
    return np.array([[first == second for second in sets] for first in sets])


def naive(method, batch, progress, top_k, height):
    """Every term of the joint loss with loops."""
    z = method.network.logits.detach().double().numpy()
    h = method.network.features.detach().numpy()
    labeled, rows, seen = len(batch.targets), z.shape[1], CLASSES.seen
    p = [[softmax(row[:seen]) for row in view] for view in z]
    q = [[softmax(row[seen:]) for row in view] for view in z]
    positive = naive_pairs(h[0][labeled:], top_k)
    free = range(labeled, rows)
    pairs = [
        -math.log((q[0][j] @ q[1][i] if positive[i - labeled, j - labeled] else 1 - q[0][j] @ q[1][i]) + 1e-7)
        for i in free
        for j in free
    ]
    consistency = sum(
        np.mean([(one[i] - other[i]) ** 2 for i in range(rows)]) for one, other in ((p[0], p[1]), (q[0], q[1]))
    )
    first = math.floor(method.supervised_share * progress.epochs + 0.5)
    length = 0.25 * (progress.epochs - first)
    weight = height * math.exp(-5 * (1 - min(progress.epoch - first, length) / length) ** 2)
    off = positive.sum() - len(positive)
    return {
        "loss/cross_entropy": np.mean([-math.log(p[0][i][batch.targets[i]]) for i in range(labeled)]),
        "loss/pairwise": np.mean(pairs),
        "loss/consistency": weight * consistency,
        "consistency_weight": weight,
        "pi_hat": np.mean([q[0][i] for i in free], axis=0),
    }, off / (len(positive) * (len(positive) - 1))


@pytest.mark.parametrize(
    "options",
    [{}, {"supervised_share": 0.33}, {"top_k": 1, "consistency_weight": 3.0}],
    ids=["default", "after a supervised stage", "other constants"],
)
@pytest.mark.parametrize("epoch", [7, 8, 19])
def test_every_term_equals_the_naive_one(options, epoch):
    method, batch = rankstats(seed=epoch, unlabeled=12, **options)
    method.network.features.data.abs_()  # no ties among rectified entries
    now = Progress(epoch, 20, 0, 10)
    _, measured = method.loss(batch, now)
    height = options.get("consistency_weight", 5.0)
    expected, rate = naive(method, batch, now, options.get("top_k", 5), height)
    for name, value in expected.items():
        assert np.allclose(measured[name], value, rtol=1e-4, atol=1e-6), name
    numerator, denominator = measured["pair/positive_rate"]
    assert numerator / denominator == pytest.approx(rate)


@pytest.mark.parametrize("top_k", [1, 2, 5])
def test_pairs_are_rows_with_the_same_largest_entries(top_k):
    features = torch.rand(40, 6, generator=torch.Generator().manual_seed(top_k))
    positive = same_ranking(features, top_k)
    assert np.array_equal(positive, naive_pairs(features, top_k))
    assert torch.equal(positive, positive.T) and positive.diagonal().all() and 0 < positive.float().mean() < 1


def test_the_order_of_the_largest_entries_does_not_matter():
    first, second, third = [9.0, 8, 7, 0, 1], [7.0, 9, 8, 1, 0], [7.0, 9, 0, 8, 1]
    assert same_ranking(torch.tensor([first, second, third]), 3).tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]


def test_rows_of_few_positive_entries_still_have_a_ranking():
    positive = same_ranking(torch.zeros(4, 8), 5)
    assert positive.all()  # the same zeros fill up every row


@pytest.mark.parametrize("positive", [True, False])
def test_products_that_round_above_one_stay_finite(positive):
    rows = torch.tensor([[1 + 1e-6, 0.0], [1 + 1e-6, 0.0]], requires_grad=True)
    loss = pairwise_cross_entropy(rows, rows, torch.full((2, 2), positive))
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(rows.grad).all()
    assert loss.item() == pytest.approx(0 if positive else -math.log(1e-7), abs=1e-5)


def test_rankings_carry_no_gradient_and_the_second_view_of_labeled_rows_only_that_of_consistency():
    method, batch = rankstats(consistency_weight=0.0)
    method.loss(batch, JOINT)[0].backward()
    gradient = method.network.logits.grad.abs().sum(dim=2)
    assert method.network.features.grad is None
    assert (gradient[0] > 0).all() and (gradient[1, 5:] > 0).all() and (gradient[1, :5] == 0).all()
    seen = method.network.logits.grad[..., : CLASSES.seen]
    assert (seen[:, 5:] == 0).all() and (method.network.logits.grad[:, :5, CLASSES.seen :] == 0).all()
    method, batch = rankstats()
    method.loss(batch, JOINT)[0].backward()
    assert (method.network.logits.grad.abs().sum(dim=2) > 0).all()


def test_the_supervised_stage_learns_from_labeled_rows_in_one_view():
    method, batch = pixel_scene("rankstats", supervised_share=0.33)  # of 20 epochs: the first seven
    loss, measured = method.loss(batch, Progress(6, 20, 0, 10))
    loss.backward()
    seen = method.network.classifier(batch.labeled_views[0].flatten(1))[:, : CLASSES.seen]
    assert loss.item() == pytest.approx(F.cross_entropy(seen, batch.targets).item(), rel=1e-5)
    assert set(measured) == {"loss/cross_entropy", "loss/total"}
    assert batch.labeled_views[0].grad.abs().sum() > 0 and batch.labeled_views[1].grad is None
    assert all(view.grad is None for view in batch.unlabeled_views)
    assert "loss/pairwise" in method.loss(batch, Progress(7, 20, 0, 10))[1]
    assert "loss/pairwise" in pixel_scene("rankstats")[0].loss(batch, Progress(0, 20, 0, 10))[1]


def test_the_ramp_is_that_of_the_number_of_classes_unless_told():
    def at(epoch, total, **options):
        method, _ = pixel_scene("rankstats", classes=Classes(3, total), supervised_share=0.0, **options)
        return method.consistency_at(Progress(epoch, 200, 0, 10))

    known = parameters("rankstats")["consistency_weight"]
    assert known.optional and known.parse("none") is None and known.parse("2") == 2.0
    assert at(50, 10) == 5 and at(49, 10) == pytest.approx(5 * math.exp(-5 / 2500))
    assert at(150, 11) == 50 and at(75, 11) == pytest.approx(50 * math.exp(-5 / 4))
    assert at(0, 10, ramp_share=0.0, consistency_weight=2.0) == 2 and at(199, 10, consistency_weight=0.0) == 0


def test_heads_are_linear_on_rectified_features():
    config = configure({"method": "rankstats"})
    method = build(config, Network(config, 1, 10), Classes(4, 10))
    assert method.network(torch.zeros(2, 1, 8, 8)).logits.shape == (2, 14)
    features = torch.randn(3, 64)
    assert torch.equal(method.network.classifier(features), method.network.classifier(features.relu()))


def test_the_prediction_is_the_second_head():
    method, _ = rankstats()
    logits = torch.randn(20, 9, generator=torch.Generator().manual_seed(0))
    logits[:, : CLASSES.seen] += 100
    prediction = method.predict(inference(logits[:0], logits, torch.zeros(0, dtype=torch.int64)))
    assert prediction.ids.tolist() == [int(np.argmax(row[CLASSES.seen :])) for row in logits.numpy()]
    expected = [softmax(row[CLASSES.seen :]).max() for row in logits.numpy()]
    assert np.allclose(prediction.confidence, expected, rtol=1e-5)


def test_no_more_entries_are_compared_than_there_are():
    method, batch = rankstats(top_k=1000)
    assert method.top_k == WIDTH and method.loss(batch, JOINT)[1]["pair/positive_rate"].numerator == 9 * 8
