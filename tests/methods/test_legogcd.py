"""LegoGCD: its two terms beside SimGCD's row by row in float64, who carries gradient, what is remembered."""

import json
import math

import numpy as np
import pytest
import torch
from scenes import CLASSES, pixel_scene, scene, softmax, unit

from lps.methods import Progress
from lps.methods.legogcd import kl_of_views, official_disagreement
from lps.settings import catalog
from lps.settings.config import Config, configure

LATE = Progress(19, 20, 0, 10)
OPTIONS = dict(known_weight=3.0, agreement_weight=0.5, known_threshold=0.4, known_temperature=0.2, margin=1.5)


def naive(
    method, labeled, weight=2.0, agreement=1.0, threshold=0.95, sharp=0.05, margin=0.4, share=0.35, student=0.1,
    is_official=True,
):  # fmt: skip
    """Both terms from the definitions, with loops over the rows of both views."""
    prototypes = [unit(row) for row in method.prototypes]
    views = [[np.array([unit(row) @ c for c in prototypes]) for row in view] for view in method.network.features]
    p = [[softmax(row / student) for row in view] for view in views]
    twice = [[softmax(row) if is_official else row for row in view] for view in p]
    divergences = [sum(a * np.log(of_a / of_b)) for a, of_a, of_b in zip(p[0], *twice)]
    remembered = method.mean_prediction.double().numpy()
    known = []
    for view, predicted in zip(views, p):
        for number, (cosines, row) in enumerate(zip(view, predicted)):
            is_chosen = number >= labeled and row.max() >= threshold and row.argmax() < CLASSES.seen
            apart = np.log(softmax(cosines / sharp + margin * np.log(remembered)))
            known.append(-sum(softmax(cosines / sharp) * apart) if is_chosen else 0.0)
    return {
        "loss/agreement": (1 - share) * agreement * np.mean(divergences),
        "loss/known": weight * np.mean(known),
        "chosen": sum(value != 0 for value in known),
        "mean": np.mean([softmax(row) for view in views for row in view], axis=0),
    }


@pytest.mark.parametrize(
    "options, constants",
    [
        ({}, {}),
        ({"known_threshold": 0.5}, {"threshold": 0.5}),
        (OPTIONS, dict(weight=3.0, agreement=0.5, threshold=0.4, sharp=0.2, margin=1.5)),
        ({"agreement": "kl", "known_threshold": 0.5}, {"threshold": 0.5, "is_official": False}),
    ],
    ids=["default", "many known", "other constants", "the paper's equation"],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_both_terms_equal_the_naive_ones(options, constants, seed):
    method, batch = scene("legogcd", 2, seed=seed, unlabeled=20, outputs=16, **options)
    method.mean_prediction.copy_(torch.tensor(softmax(np.arange(CLASSES.total) / 2)))
    expected = naive(method, len(batch.targets), **constants)
    _, measured = method.loss(batch, LATE)
    for name in ("loss/agreement", "loss/known"):
        assert measured[name].item() == pytest.approx(expected[name], rel=1e-4), name
    assert measured["known/rate"].numerator == expected["chosen"] and measured["known/rate"].denominator == 40
    assert options == {} or expected["chosen"] > 0


def test_the_rest_is_simgcd():
    method, batch = scene("legogcd", 2, outputs=16)
    plain, _ = scene("simgcd", 2, outputs=16)
    plain.prototypes.data = method.prototypes.data
    total, measured = method.loss(batch, LATE)
    expected, theirs = plain.loss(batch, LATE)
    assert all(torch.equal(measured[name], theirs[name]) for name in theirs if name != "loss/total")
    added = measured["loss/agreement"] + measured["loss/known"]
    assert total.item() == pytest.approx((expected + added).item(), rel=1e-5)


def test_the_mean_prediction_moves_slowly_and_after_its_use():
    method, batch = scene("legogcd", 2, outputs=16, margin_decay=0.9)
    even = torch.full((CLASSES.total,), 1 / CLASSES.total)
    assert torch.equal(method.mean_prediction, even)
    expected = 0.9 * even + 0.1 * torch.tensor(naive(method, len(batch.targets))["mean"], dtype=torch.float32)
    method.loss(batch, LATE)
    assert torch.allclose(method.mean_prediction, expected) and not method.mean_prediction.requires_grad


def test_labeled_rows_and_those_of_novel_classes_are_left_alone():
    method, batch = scene("legogcd", 2, unlabeled=40, known_threshold=0.0)
    logits = torch.randn(45, CLASSES.total, generator=torch.Generator().manual_seed(0))
    expected = logits.argmax(dim=1) < CLASSES.seen
    expected[:5] = False
    assert torch.equal(method.taken_for_seen(logits, 5), expected) and expected.any()
    method.known_threshold = 1.0
    assert not method.taken_for_seen(logits, 5).any()


def test_views_are_pulled_together_from_both_sides():
    logits = torch.randn(2, 7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    kl_of_views(*logits).backward()
    first, second = logits.detach().softmax(dim=2)
    assert torch.allclose(logits.grad[1], (second - first) / 7)
    assert logits.grad[0].abs().sum() > 0
    assert kl_of_views(logits[0], logits[0]).item() == 0


def test_the_official_form_is_bounded_where_the_divergence_is_not():
    """Two views that are sure of different classes: log(e / (e + k - 1)) - log(1 / (e + k - 1)) = 1."""
    logits = 100 * torch.eye(10, dtype=torch.float64)
    other = logits.roll(1, dims=1)
    assert official_disagreement(logits, other).item() == pytest.approx(1)
    assert kl_of_views(logits, other).item() == pytest.approx(100)
    assert official_disagreement(logits, logits).item() == 0


def test_a_run_that_was_made_before_the_setting_existed_has_kl():
    stored = json.loads(configure({"method": "legogcd", "known_threshold": 0.97}).to_json())
    assert stored.pop("agreement") == "official"
    assert Config.from_json(json.dumps(stored)).hyperparameters["agreement"] == "kl"


def test_gradient_reaches_what_simgcds_reaches():
    method, batch = pixel_scene("legogcd", known_threshold=0.0)
    method.loss(batch, LATE)[0].backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in method.parameters())


def test_it_has_the_settings_of_simgcd_beside_its_own():
    own, simgcd = catalog.method_info("legogcd").parameters, catalog.method_info("simgcd").parameters
    names = "known_weight agreement_weight agreement known_threshold known_temperature margin margin_decay"
    assert own.keys() - simgcd.keys() == set(names.split())
    assert simgcd.items() <= own.items()
    method, _ = scene("legogcd", 2, supervised_weight=0.6)
    assert method.supervised_weight == 0.6 and math.isclose(method.margin, 0.4)
