"""SimGCD: its five terms row by row in float64, targets without gradient, the schedule of their temperature."""

import math

import numpy as np
import pytest
import torch
from scenes import CLASSES, WIDTH, naive_contrast, pixel_scene, scene, softmax, unit

from lps.data.classes import Classes
from lps.methods import Inference, Progress, build
from lps.methods._distilled import self_distillation
from lps.network.network import Network, Outputs
from lps.settings.config import configure

LATE = Progress(19, 20, 0, 10)  # the teacher's temperature is at its end
EARLY = Progress(0, 20, 0, 10)
TERMS = (
    "loss/consistency",
    "loss/entropy",
    "loss/unsupervised_contrastive",
    "loss/cross_entropy",
    "loss/supervised_contrastive",
)


def naive(method, batch, teacher=0.04, student=0.1, share=0.35, entropy=1.0, tau=0.07, unsupervised_tau=1.0):
    """Every term from the definitions, with loops over the rows of both views."""
    prototypes = [unit(row) for row in method.prototypes]
    cosines = [[unit(row) @ c for c in prototypes] for view in method.network.features for row in view]
    rows, labeled = len(cosines) // 2, len(batch.targets)
    everyone = range(2 * rows)
    other = [(a + rows) % (2 * rows) for a in everyone]
    p = [softmax(np.divide(row, student)) for row in cosines]
    q = [softmax(np.divide(row, teacher)) for row in cosines]
    # The head's outputs are recorded as logits.
    by_label, apart = naive_contrast(method.network.logits, batch.targets, tau, unsupervised_tau)
    members = [a for a in everyone if a % rows < labeled]
    mean = np.mean(p, axis=0)
    return {
        "loss/consistency": (1 - share) * np.mean([-sum(q[other[a]] * np.log(p[a])) for a in everyone]),
        "loss/entropy": -(1 - share) * entropy * -sum(mean * np.log(mean)),
        "loss/unsupervised_contrastive": (1 - share) * apart,
        "loss/cross_entropy": share * np.mean([-math.log(p[a][batch.targets[a % rows]]) for a in members]),
        "loss/supervised_contrastive": share * by_label,
        "pi_hat": mean,
        "kl": sum(np.log(1 / len(mean) / mean)) / len(mean),
        "kl/reverse": sum(mean * np.log(mean * len(mean))),
    }


OTHERS = dict(
    supervised_weight=0.6,
    entropy_weight=4.0,
    student_temperature=0.2,
    teacher_temperature_end=0.05,
    unsupervised_temperature=0.3,
    supervised_temperature=0.5,
)
CONSTANTS = dict(share=0.6, entropy=4.0, student=0.2, teacher=0.05, unsupervised_tau=0.3, tau=0.5)


@pytest.mark.parametrize(
    "options, constants, now",
    [({}, {}, LATE), ({}, {"teacher": 0.07}, EARLY), (OTHERS, CONSTANTS, LATE)],
    ids=["default", "at the start", "other constants"],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_term_equals_the_naive_one(options, constants, now, seed):
    method, batch = scene("simgcd", 2, seed=seed, outputs=16, **options)
    _, measured = method.loss(batch, now)
    assert {name for name in measured if name.startswith("loss/")} == {*TERMS, "loss/total"}
    for name, value in naive(method, batch, **constants).items():
        assert np.allclose(measured[name], value, rtol=1e-4, atol=1e-6), name


def test_targets_carry_no_gradient():
    first, second = torch.randn(2, 7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    logits = [first.clone().requires_grad_(), second.clone().requires_grad_()]
    self_distillation(*logits, 2.5).backward()
    for mine, other in ((0, 1), (1, 0)):  # of a cross-entropy with a constant target: (p - q) / rows, halved
        p = logits[mine].detach().softmax(dim=1)
        q = (2.5 * logits[other].detach()).softmax(dim=1)
        assert torch.allclose(logits[mine].grad, (p - q) / 14)


def test_shares_decide_which_rows_learn():
    method, batch = scene("simgcd", 2, outputs=16, supervised_weight=1.0)
    method.loss(batch, LATE)[0].backward()
    for outputs in (method.network.logits, method.network.features):
        moved = outputs.grad.abs().sum(dim=2)
        assert (moved[:, :5] > 0).all() and (moved[:, 5:] == 0).all()
    method, batch = scene("simgcd", 2, outputs=16, supervised_weight=0.0)
    loss, measured = method.loss(batch, LATE)
    loss.backward()
    for outputs in (method.network.logits, method.network.features):
        assert (outputs.grad.abs().sum(dim=2) > 0).all()
    assert measured["loss/cross_entropy"] == measured["loss/supervised_contrastive"] == 0


def temperatures(epochs, **options):
    method, _ = scene("simgcd", 2, **options)
    return [method.teacher_temperature(Progress(epoch, epochs, 3, 10)) for epoch in range(epochs)]


def test_the_teacher_of_200_epochs_is_the_originals():
    assert temperatures(200) == pytest.approx([*np.linspace(0.07, 0.04, 30), *[0.04] * 170])


def test_short_runs_keep_the_share():
    assert temperatures(40) == pytest.approx([*np.linspace(0.07, 0.04, 6), *[0.04] * 34])
    assert temperatures(4) == [0.07, 0.04, 0.04, 0.04] and temperatures(1) == [0.04]
    assert temperatures(3, teacher_share=0.0) == [0.04] * 3
    assert temperatures(2, teacher_share=1.0) == pytest.approx([0.07, 0.04])
    assert temperatures(3, teacher_share=1.0, teacher_temperature_start=0.1) == pytest.approx([0.1, 0.07, 0.04])


def outputs_of(features):
    return Outputs(features, torch.zeros(len(features), 2))


def test_the_classifier_is_a_cosine_with_the_prototypes():
    method, _ = pixel_scene("simgcd", student_temperature=0.2)
    features = torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(0))
    expected = [[unit(h) @ unit(c) / 0.2 for c in method.prototypes] for h in features]
    assert np.allclose(method.class_logits(outputs_of(features)).detach(), expected, rtol=1e-4, atol=1e-5)
    method.prototypes.data *= 7
    assert np.allclose(method.class_logits(outputs_of(3 * features)).detach(), expected, rtol=1e-4, atol=1e-5)


def test_cosines_are_float32_under_bf16():
    method, _ = pixel_scene("simgcd")
    features = torch.randn(50, WIDTH, generator=torch.Generator().manual_seed(0)).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = method.class_logits(outputs_of(features))
    assert logits.dtype == torch.float32 and torch.equal(logits, method.class_logits(outputs_of(features.float())))


@pytest.mark.parametrize("settings", [{}, {"network.head": "linear"}, {"network.cosine_scale": 3.0}])
def test_heads_follow_the_methods_settings_alone(settings):
    config = configure({"method": "simgcd", "student_temperature": 0.2, "projection_outputs": 32} | settings)
    method = build(config, Network(config, 1, 10), Classes(5, 10))
    outputs = method.network(torch.rand(20, 1, 8, 8))
    logits = method.class_logits(outputs)
    assert outputs.logits.shape == (20, 32) and logits.shape == (20, 10) and logits.abs().max() <= 5.001
    assert [layer.out_features for layer in method.network.classifier[::2]] == [256, 256, 32]  # 4 x 64 features


def test_gradient_reaches_prototypes_projection_head_and_both_views():
    method, batch = pixel_scene("simgcd")
    method.loss(batch, LATE)[0].backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in method.parameters())
    assert all(view.grad.abs().sum() > 0 for view in (*batch.labeled_views, *batch.unlabeled_views))


def test_the_prediction_is_the_nearest_prototype_by_cosine():
    method, _ = scene("simgcd", 2)
    features = torch.randn(20, WIDTH, generator=torch.Generator().manual_seed(0))
    prediction = method.predict(
        Inference(lambda: outputs_of(features[:0]), lambda: outputs_of(features), torch.zeros(0, dtype=torch.int64), 0)
    )
    cosines = [[unit(h) @ unit(c) for c in method.prototypes] for h in features]
    assert prediction.ids.tolist() == [int(np.argmax(row)) for row in cosines]
    assert np.allclose(
        prediction.confidence.detach(), [softmax(np.divide(row, 0.1)).max() for row in cosines], rtol=1e-4
    )


def test_seen_ids_are_learned_from_the_labels():
    """A few steps on images that differ: ids of seen classes are the labels' own, and swap with them."""
    for targets in ([0, 1, 2] * 4, [2, 0, 1] * 4):
        method, batch = pixel_scene("simgcd", labeled=12, unlabeled=12, targets=targets, projection_width=8)
        truth = torch.arange(12) % CLASSES.seen
        for view in (*batch.labeled_views, *batch.unlabeled_views):
            view.data = (4 * torch.eye(CLASSES.seen, WIDTH)[truth] + 0.3 * view.data.flatten(1)).view_as(view)
        for epoch in range(30):
            method.zero_grad()
            method.loss(batch, Progress(epoch, 30, 0, 1))[0].backward()
            for parameter in method.parameters():
                parameter.data -= 0.5 * parameter.grad
        labeled = outputs_of(batch.labeled_views[0].detach().flatten(1))
        assert method.class_logits(labeled).argmax(dim=1).tolist() == targets
