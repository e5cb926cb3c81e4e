"""BaCon: its terms row by row in float64, the estimate of class sizes, who is drawn, who learns from what."""

import math

import numpy as np
import pytest
import torch
from scenes import CLASSES, scene, softmax, unit

from lps.errors import UserError
from lps.methods import Inference, Progress
from lps.methods.bacon import estimated_sizes, most_confident_rows, scattered_numbers
from lps.network.network import Outputs
from lps.settings.config import configure

LATE = Progress(19, 20, 0, 10)
SIZES = [40.0, 10.0, 5.0, 30.0, 12.0, 3.0]


def bacon(seed=0, **options):
    method, batch = scene("bacon", 2, seed=seed, outputs=16, unlabeled=20, **options)
    method.class_sizes.copy_(torch.tensor(SIZES))
    return method, batch


def naive(method, batch, epoch=19, share=0.35, rho=1.1, tau_r=0.5, alpha=0.0, beta=0.5, tau=0.07):
    """What BaCon adds to SimGCD from the definitions, with loops over the rows of both views."""
    targets, labeled = batch.targets.tolist(), len(batch.targets)
    sizes = np.array(SIZES)
    prototypes = [unit(row) for row in method.prototypes]
    z = [[np.array([unit(row) @ c for c in prototypes]) / 0.1 for row in view] for view in method.labeler.features]
    mean = np.mean([softmax(row) for view in z for row in view], axis=0)
    r = mean / sizes**rho
    r = r / r.sum()
    lowered = tau_r * np.log(sizes / sizes.sum())
    s = [np.mean([softmax(view[i] - lowered) for view in z], axis=0) for i in range(len(z[0]))]
    drawn = list(range(labeled))
    for k in range(CLASSES.total):
        mine = [i for i in range(labeled, len(s)) if s[i].argmax() == k]
        rate = (sizes.min() / sizes[k]) ** (alpha if k in targets else beta)
        positions = batch.unlabeled_positions.tolist()
        hits = sum((positions[i - labeled] * 0.6180339887498949 + epoch * 0.7548776662466927) % 1 < rate for i in mine)
        drawn += sorted(mine, key=lambda i: -s[i].max())[:hits]
    drawn = sorted(drawn)
    v = [unit(method.network.logits[view][i]) for view in (0, 1) for i in drawn]
    soft = [s[i] for i in drawn] * 2
    rows, losses = len(v), []
    for a in range(rows):
        denominator = sum(math.exp(v[a] @ v[c] / tau) for c in range(rows) if c != a)
        m = [0.0 if b == a else 1.0 if b % len(drawn) == a % len(drawn) else soft[a] @ soft[b] for b in range(rows)]
        logs = [-math.log(math.exp(v[a] @ v[b] / tau) / denominator) for b in range(rows)]
        losses.append(sum(w * one for w, one in zip(m, logs)) / sum(m))
    return {
        "loss/entropy": (1 - share) * (np.sum(r * np.log(r)) + math.log(len(r))),
        "loss/soft_contrastive": share / 2 * np.mean(losses),
        "drawn": len(drawn) / len(s),
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options, constants", [
    ({}, {}),
    ({"prior_exponent": 0.5, "adjustment": 1.5, "supervised_weight": 0.6}, dict(rho=0.5, tau_r=1.5, share=0.6)),
    ({"sampling_labeled": 0.8, "sampling_unlabeled": 0.1}, dict(alpha=0.8, beta=0.1)),
])  # fmt: skip
def test_its_terms_are_those_of_the_definitions(seed, options, constants):
    method, batch = bacon(seed, **options)
    _, measured = method.loss(batch, LATE)
    expected = naive(method, batch, **constants)
    rate = measured["drawn/rate"]
    assert rate.numerator.item() / rate.denominator.item() == pytest.approx(expected.pop("drawn"))
    for name, value in expected.items():
        assert measured[name].item() == pytest.approx(value, rel=1e-4), name


def test_the_rest_is_simgcd():
    method, batch = bacon()
    plain, _ = scene("simgcd", 2, outputs=16, unlabeled=20)
    plain.prototypes = method.prototypes
    _, mine = method.loss(batch, LATE)
    _, theirs = plain.loss(batch, LATE)
    for name in ("consistency", "cross_entropy", "unsupervised_contrastive"):
        assert mine[f"loss/{name}"].item() == pytest.approx(theirs[f"loss/{name}"].item(), rel=1e-5)
    half = theirs["loss/supervised_contrastive"].item() / 2
    assert mine["loss/supervised_contrastive"].item() == pytest.approx(half, rel=1e-5)
    _, first = method.loss(batch, Progress(0, 20, 0, 10))
    assert "loss/soft_contrastive" not in first
    assert first["loss/supervised_contrastive"].item() == pytest.approx(2 * half, rel=1e-5)


def test_each_network_learns_from_its_own_terms():
    method, batch = bacon()
    method.loss(batch, LATE)[0].backward()
    assert method.network.logits.grad.abs().sum() > 0 and method.network.features.grad is None
    assert method.labeler.features.grad.abs().sum() > 0 and method.labeler.logits.grad is None
    assert method.prototypes.grad.abs().sum() > 0


def test_sizes_of_seen_classes_follow_their_labels_and_the_rest_goes_to_novel_ids():
    # Clusters 0 to 5 hold 50, 8, 20, 4, 30 and 0 images; labels of class 0 are in cluster 2, of 1 in 0, of 2 in 3.
    clusters = torch.tensor([2] * 12 + [0] * 3 + [3] * 2 + [2] * 8 + [0] * 47 + [3] * 2 + [1] * 8 + [4] * 30)
    targets = torch.tensor([0] * 12 + [1] * 3 + [2] * 2)
    found = estimated_sizes(clusters, targets, CLASSES)
    assert found.tolist() == [50, 20, 4, 30, 8, 1], "class 0 has most labels, so the largest of the three sizes"


def test_of_each_class_as_many_as_were_hit_are_taken_and_the_surest_ones():
    ids, confidence = torch.tensor([0, 1, 0, 0, 1, 2]), torch.tensor([0.2, 0.9, 0.8, 0.5, 0.4, 0.3])
    is_hit = torch.tensor([True, False, True, False, True, False])
    assert most_confident_rows(ids, confidence, is_hit, 3).tolist() == [False, True, True, True, False, False]
    assert not most_confident_rows(ids[:0], confidence[:0], is_hit[:0], 3).numel()


def test_numbers_that_draw_images_are_evenly_spread_and_change_with_the_epoch():
    numbers = scattered_numbers(torch.arange(1000), 3)
    assert torch.histc(numbers, 10, 0, 1).min() > 95 and (numbers != scattered_numbers(torch.arange(1000), 4)).all()
    assert torch.equal(numbers, scattered_numbers(torch.arange(1000), 3))


def test_the_estimate_is_made_of_all_training_images_and_predictions_are_clusters():
    generator = torch.Generator().manual_seed(0)
    truth = torch.tensor([0] * 12 + [1] * 6 + [2] * 3 + [0] * 28 + [1] * 4 + [2] * 2 + [3] * 30 + [4] * 12 + [5] * 5)
    points = torch.eye(8)[truth] * 9 + torch.randn(len(truth), 8, generator=generator) * 0.1
    labeled, method = 21, bacon()[0]
    outputs = [Outputs(part, part) for part in (points[:labeled], points[labeled:])]
    looked_at = Inference(lambda: outputs[0], lambda: outputs[1], truth[:labeled], 0)
    method.start_epoch(looked_at, Progress(3, 20, 0, 10))
    assert method.class_sizes.tolist() == SIZES, "not due"
    method.start_epoch(looked_at, Progress(10, 20, 0, 10))
    assert method.class_sizes.tolist() == [40, 10, 5, 30, 12, 5]
    found = method.predict(looked_at)
    pairs = {(int(a), int(b)) for a, b in zip(found.ids, truth[labeled:])}
    assert len(pairs) == 6, "a cluster a class"
    looked_at.fitted.update(found.fitted)
    assert torch.equal(method.predict(looked_at).ids, found.ids)


def test_it_has_an_estimate_of_its_own_and_takes_no_other_prior():
    with pytest.raises(UserError, match="prior: estimated has no effect with BaCon"):
        configure({"method": "bacon", "prior": "estimated"})
