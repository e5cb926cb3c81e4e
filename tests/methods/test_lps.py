"""The LPS objective against a naive float64 transcription of section 1 of the reference, row by row."""

import math

import numpy as np
import pytest
import torch
from scenes import CLASSES, scene, softmax

from lps.methods import Progress
from lps.settings.config import configure


def lps(views=3, **options):
    return scene("lps", views, **options)


def naive(method, batch, h, progress=0.25):
    """Every term of the loss from the definitions, with loops."""
    z = method.network.logits.detach().double().numpy()
    f = method.network.features.detach().double().numpy()
    z1, z2, z3 = z[0], z[-2], z[-1]
    labeled, rows, k = len(batch.targets), z1.shape[0], z1.shape[1]
    q = [softmax(row) for row in z2]
    novel = h["threshold_novel_start"] + (h["threshold_novel_end"] - h["threshold_novel_start"]) * progress
    label, mask = [], []
    for i in range(rows):
        if i < labeled:
            label.append(int(batch.targets[i])), mask.append(True)
        else:
            y = int(np.argmax(q[i]))
            label.append(y), mask.append(q[i][y] >= (h["threshold_seen"] if y < CLASSES.seen else novel))
    pi = sum(q[i] for i in range(rows) if mask[i]) / sum(mask)
    forward = -math.log(k) - np.mean(np.log(pi))
    backward = math.log(k) + float(np.sum(pi * np.log(pi)))
    kl = forward if h["kl_direction"] == "uniform_to_est" else backward
    delta = kl * (h["margin_scale"] if h["use_margin"] else 0) * pi / pi.max()

    def margin_ce(row, y):
        top = math.exp(row[y] + delta[y])
        return -math.log(top / (top + sum(math.exp(row[j]) for j in range(k) if j != y)))

    am = sum(margin_ce(z1[i], label[i]) for i in range(labeled)) / labeled
    am += sum(margin_ce(z3[i], label[i]) for i in range(labeled, rows) if mask[i]) / (rows - labeled)
    v = np.concatenate([f[-2], f[-1]] if h["contrast_space"] == "features" else [z2, z3])
    if h["contrast_space"] != "raw_logits":
        v = v / np.linalg.norm(v, axis=1, keepdims=True)
    s = v @ v.T / h["temperature"]
    label2, mask2, n = label * 2, mask * 2, 2 * rows
    pc, members = 0.0, [i for i in range(n) if mask2[i]]
    for a in members:
        positives = [b for b in members if b != a and label2[b] == label2[a]]
        log_denominator = np.logaddexp.reduce([s[a][b] for b in members if b != a])
        logs = [s[a][b] - log_denominator for b in positives]
        pc += -(np.logaddexp.reduce(logs) - math.log(len(logs))) if h["contrast_variant"] == "in" else -np.mean(logs)
    uc = [
        np.logaddexp.reduce([s[a][b] for b in range(n) if b != a]) - s[a][(a + rows) % n]
        for a in range(n)
        if not mask2[a]
    ]
    mean = np.mean([softmax(row) for row in z1], axis=0)
    return {
        "loss/adaptive_margin": am,
        "loss/pseudo_label_contrastive": h["pseudo_label_weight"] * pc / max(1, len(members)),
        "loss/unsupervised_contrastive": h["unsupervised_weight"]
        * sum(uc)
        / (n if h["contrast_normalizer"] == "batch" else max(1, len(uc))),
        "loss/entropy": h["entropy_weight"] * float(np.sum(mean * np.log(mean))),
        "kl": forward,
        "kl/reverse": backward,
        "kl/margin": kl,
        "pi_hat": pi,
        "margin": delta,
    }


VARIANTS = [
    {},
    {"kl_direction": "est_to_uniform"},
    {"use_margin": False},
    {"contrast_space": "raw_logits", "temperature": 2.0},
    {"contrast_space": "features"},
    {"contrast_normalizer": "subset"},
    {"contrast_variant": "out"},
    {"weak_views": "1"},
    {"pseudo_label_weight": 0.0, "unsupervised_weight": 0.5, "entropy_weight": 2.0, "margin_scale": 3.0},
]


@pytest.mark.parametrize("options", VARIANTS, ids=lambda o: ",".join(f"{k}={v}" for k, v in o.items()) or "default")
@pytest.mark.parametrize("seed", [0, 1])
def test_every_term_equals_the_naive_one(options, seed):
    method, batch = lps(seed=seed, views=2 if options.get("weak_views") == "1" else 3, **options)
    chosen = configure({"method": "lps"} | options).hyperparameters
    _, measured = method.loss(batch, Progress(epoch=5, epochs=20, step=0, steps=10))
    expected = naive(method, batch, chosen)
    for name, value in expected.items():
        assert np.allclose(measured[name], value, rtol=2e-4, atol=2e-5), name


def test_no_gradient_flows_through_pseudo_labels_or_margin():
    """With only the labeled cross-entropy left, the view that makes labels and margin gets no gradient."""
    method, batch = lps(pseudo_label_weight=0.0, unsupervised_weight=0.0, entropy_weight=0.0)
    method.loss(batch, Progress(0, 20, 0, 10))[0].backward()
    gradient = method.network.logits.grad
    assert gradient[0, :5].abs().sum() > 0 and gradient[2, 5:].abs().sum() > 0
    assert gradient[1].abs().sum() == 0 and gradient[0, 5:].abs().sum() == 0 and gradient[2, :5].abs().sum() == 0


def test_the_novel_threshold_moves_with_its_clock():
    by_epoch, _ = lps()
    by_step, _ = lps(threshold_clock="iteration")
    at = Progress(epoch=10, epochs=20, step=5, steps=10)
    assert by_epoch.threshold_novel(at) == pytest.approx(0.6)
    assert by_step.threshold_novel(at) == pytest.approx(0.4 + 0.4 * 105 / 200)


def test_no_novel_prediction_in_the_batch_is_no_division_by_zero():
    method, batch = lps()
    with torch.no_grad():
        method.network.logits[..., CLASSES.seen :] = -30
    loss, measured = method.loss(batch, Progress(0, 20, 0, 10))
    assert torch.isfinite(loss) and torch.isfinite(measured["kl"])
    assert measured["pseudo_label/rate/novel"].denominator == 0
