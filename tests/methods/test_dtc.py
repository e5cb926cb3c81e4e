"""DTC: assignments, targets and every term against loops in float64; stages, averages, and what a checkpoint keeps."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scenes import CLASSES, WIDTH, pixel_scene

from lps.data.classes import Classes
from lps.methods import Inference, Progress, build
from lps.methods.dtc import log_student_t, sharpen_assignments
from lps.network.network import Network, Outputs
from lps.settings.config import configure

EPOCHS = 40  # by default: supervised to epoch 11, warm-up from 12 to 15, then to the end


def at(epoch):
    return Progress(epoch, EPOCHS, 0, 10)


def looked_at(features, seed=0):
    """What DTC may look at: the unlabeled features, and nothing of the labeled images."""
    nothing = torch.zeros(0)
    return Inference(lambda: pytest.fail("labeled"), lambda: Outputs(features, nothing), nothing, seed)


def transferred(consistency="PI", features=30, seed=0, **options):
    """A method whose transfer has begun on random features, a batch, and these features."""
    method, batch = pixel_scene("dtc", seed=seed, consistency=consistency, kmeans_restarts=2, **options)
    seen = torch.randn(features, WIDTH, generator=torch.Generator().manual_seed(seed)) * 2
    start(method, seen, 12)
    return method, batch, seen


def start(method, features, epoch):
    with torch.no_grad():
        method.start_epoch(looked_at(features), at(epoch))


def naive_q(method, features):
    """(n, k) soft assignments in float64."""
    weight, bias = (p.detach().double().numpy() for p in (method.reduction.weight, method.reduction.bias))
    centres = method.centres.detach().double().numpy()
    rows = []
    for h in np.asarray(features, np.float64):
        closeness = [1 / (1 + ((weight @ h + bias - centre) ** 2).sum()) for centre in centres]
        rows.append(np.array(closeness) / sum(closeness))
    return np.stack(rows)


def naive_t(q):
    sizes = q.sum(axis=0)
    rows = [[q[i, k] ** 2 / sizes[k] for k in range(q.shape[1])] for i in range(len(q))]
    return np.array([np.array(row) / sum(row) for row in rows])


def pixels(view):
    return view.detach().flatten(1)


@pytest.mark.parametrize("reduction", ["mean", "batchmean"])
@pytest.mark.parametrize("epoch", [12, 16, 17, 30])
def test_every_term_equals_the_naive_one(reduction, epoch):
    method, batch, _ = transferred(kl_reduction=reduction, ramp_share=0.25)
    _, measured = method.loss(batch, at(epoch))
    q, again = (naive_q(method, pixels(view)) for view in batch.unlabeled_views)
    t = method.targets[:9].double().numpy()
    divisor = q.size if reduction == "mean" else len(q)
    clustering = sum(t[i, k] * math.log(t[i, k] / q[i, k]) for i in range(9) for k in range(6)) / divisor
    weight = 10 * math.exp(-5 * (1 - min(epoch - 16, 6) / 6) ** 2) if epoch >= 16 else 0
    expected = {
        "loss/clustering": clustering,
        "loss/consistency": weight * ((q - again) ** 2).mean(),
        "consistency_weight": weight,
        "pi_hat": q.mean(axis=0),
        "target/distribution": t.mean(axis=0),
    }
    for name, value in expected.items():
        assert np.allclose(measured[name], value, rtol=1e-4, atol=1e-6), name


def test_targets_are_sharper_assignments_of_the_whole_set():
    q = log_student_t(torch.rand(40, 5, generator=torch.Generator().manual_seed(0)) * 9).exp()
    t = sharpen_assignments(q)
    assert np.allclose(t, naive_t(q.double().numpy()), atol=1e-6) and torch.allclose(t.sum(1), torch.ones(40))
    even = torch.stack([q[0].roll(shift) for shift in range(5)])  # clusters of equal size
    assert (entropy(sharpen_assignments(even)) < entropy(even)).all()
    assert torch.allclose(sharpen_assignments(torch.full((4, 3), 1 / 3)), torch.full((4, 3), 1 / 3))


def entropy(rows):
    return -(rows * rows.log()).sum(dim=1)


def test_a_cluster_that_nobody_is_near_does_not_draw_everyone():
    q = torch.tensor([[0.6, 0.4, 0.0], [0.3, 0.7, 0.0], [0.5, 0.5, 1e-30]])
    t = sharpen_assignments(q)
    assert torch.isfinite(t).all() and t[:, 2].max() < 1e-6


@pytest.mark.parametrize("distance", [0.0, 1e4, 1e12, 1e30])
def test_far_points_keep_a_logarithm(distance):
    distances = torch.tensor([[distance, distance, 0.0]], requires_grad=True)
    log_q = log_student_t(distances)
    log_q.sum().backward()
    assert torch.isfinite(log_q).all() and torch.isfinite(distances.grad).all()
    assert log_q.exp().sum().item() == pytest.approx(1, rel=1e-5)


def test_gradient_flows_through_both_views_and_the_centres_and_not_through_targets():
    method, batch, _ = transferred()
    loss = method.loss(batch, at(30))[0]
    loss.backward()
    assert all(view.grad.abs().sum() > 0 for view in batch.unlabeled_views)
    assert all(view.grad is None for view in batch.labeled_views)
    assert method.centres.grad.abs().sum() > 0 and method.reduction.weight.grad.abs().sum() > 0
    assert not method.targets.requires_grad and method.network.classifier.weight.grad is None


def test_the_supervised_stage_learns_from_labeled_rows_in_one_view():
    method, batch = pixel_scene("dtc")
    loss, measured = method.loss(batch, at(11))
    loss.backward()
    expected = F.cross_entropy(method.network.classifier(batch.labeled_views[0].flatten(1)), batch.targets)
    assert loss.item() == pytest.approx(expected.item()) and set(measured) == {"loss/cross_entropy", "loss/total"}
    assert batch.labeled_views[0].grad.abs().sum() > 0 and batch.labeled_views[1].grad is None
    assert all(view.grad is None for view in batch.unlabeled_views) and method.centres.grad is None
    assert method.network.classifier.out_features == CLASSES.seen


def blobs(noise=0.05, classes=6):
    truth = torch.arange(classes).repeat(10)
    return 5 * torch.eye(classes, WIDTH)[truth] + noise * torch.randn(len(truth), WIDTH), truth


def assert_same_partition(ids, truth):
    assert len({(int(i), int(t)) for i, t in zip(ids, truth)}) == len(set(ids.tolist())) == len(set(truth.tolist()))


@pytest.mark.parametrize("from_pca", [False, True])
def test_the_transfer_starts_from_kmeans_in_principal_components(from_pca):
    method, _ = pixel_scene("dtc", init_linear_from_pca=from_pca)
    features, truth = blobs()
    assert_same_partition(method.predict(looked_at(features)).ids, truth)
    start(method, features, 12)
    assert_same_partition(method.targets.argmax(1), truth)
    assert method.targets.shape == (60, 6) and method.centres.shape == (6, 6)
    assert torch.allclose(torch.cdist(method.centres, method.centres).max(), torch.tensor(50.0).sqrt(), rtol=0.02)
    with torch.no_grad():
        q = method.assignments(looked_at(features))
    assert np.allclose(q, naive_q(method, features), rtol=1e-3, atol=1e-5)
    assert torch.allclose(sharpen_assignments(q), method.targets, atol=1e-3) == from_pca
    prediction = method.predict(looked_at(features))
    assert torch.equal(prediction.ids, q.argmax(1)) and torch.equal(prediction.confidence, q.amax(1))


def renewals(consistency, first=12, **options):
    """Epochs whose start changes the targets, while the network stays in motion."""
    method, batch, features = transferred(consistency, **options)
    changed, before = [], method.targets
    for epoch in range(first + 1, EPOCHS):
        with torch.no_grad():
            method.centres += 0.1 * torch.randn_like(method.centres)
        start(method, features, epoch)
        if not torch.equal(method.targets, before):
            changed.append(epoch)
        before = method.targets
    return changed


@pytest.mark.parametrize("consistency", ["PI", "TE", "TEP", "Baseline"])
def test_targets_stay_in_the_warmup_and_are_renewed_on_their_epochs(consistency):
    assert renewals(consistency) == [16, 17, 22, 27, 32, 37]
    assert renewals(consistency, target_interval=10) == [16, 17, 27, 37]


@pytest.mark.parametrize("total, variant, interval", [(10, "PI", 5), (99, "PI", 5), (100, "TE", 10), (200, "TE", 10)])
def test_variant_and_interval_are_those_of_the_original_by_the_number_of_classes(total, variant, interval):
    method, _ = pixel_scene("dtc", classes=Classes(total // 2, total))
    assert (method.consistency, method.target_interval) == (variant, interval)
    assert len(method.views) == (2 if variant == "PI" else 1)
    chosen, _ = pixel_scene("dtc", classes=Classes(total // 2, total), consistency="TEP", target_interval=7)
    assert (chosen.consistency, chosen.target_interval) == ("TEP", 7)


def test_without_a_warmup_the_first_targets_serve_the_first_epoch():
    assert renewals("PI", warmup_share=0.0) == [13, 18, 23, 28, 33, 38]


def test_stages_never_leave_the_run():
    method, _ = pixel_scene("dtc", supervised_share=0.9, warmup_share=0.9)
    assert method.stages(40) == (36, 40) and method.stages(1) == (1, 1)
    assert pixel_scene("dtc", supervised_share=0.0, warmup_share=0.0)[0].stages(1) == (0, 0)


def test_a_renewed_target_is_that_of_the_evaluation():
    method, _, features = transferred()
    start(method, features, 16)
    assert np.allclose(method.targets, naive_t(naive_q(method, features)), rtol=1e-3, atol=1e-6)


def test_the_baseline_has_no_consistency():
    method, batch, _ = transferred("Baseline")
    loss, measured = method.loss(batch, at(30))
    assert method.views == ("weak",) and "loss/consistency" not in measured
    assert loss.item() == measured["loss/clustering"].item()


def test_te_pulls_towards_the_average_of_the_image_s_past():
    method, batch, _ = transferred("TE", average_decay=0.6)
    past, moves = [], torch.Generator().manual_seed(5)
    for visit in range(4):
        measured = method.loss(batch, at(30))[1]
        q = naive_q(method, pixels(batch.unlabeled_views[0]))
        weights = [0.4 * 0.6 ** (len(past) - 1 - i) for i in range(len(past))]
        average = sum(w * p for w, p in zip(weights, past)) / (1 - 0.6**visit) if past else q
        assert measured["loss/consistency"].item() == pytest.approx(
            10 * ((q - average) ** 2).mean(), rel=1e-3, abs=1e-7
        )
        past.append(q)
        with torch.no_grad():
            method.centres += torch.randn(method.centres.shape, generator=moves)
    assert method.visits.tolist() == [4.0] * 9 + [0.0] * 21
    assert measured["loss/consistency"] > 0


def test_te_measures_only_images_that_have_a_past_and_passes_no_gradient_to_it():
    method, batch, _ = transferred("TE")
    with torch.no_grad():
        method._add_to_averages(torch.full((3, 6), 1 / 6), torch.arange(3))
    loss, measured = method.loss(batch, at(30))
    q = naive_q(method, pixels(batch.unlabeled_views[0]))
    assert measured["loss/consistency"].item() == pytest.approx(10 * ((q[:3] - 1 / 6) ** 2).sum() / q.size, rel=1e-3)
    loss.backward()
    assert method.visits[:9].tolist() == [2.0] * 3 + [1.0] * 6 and not method.past.requires_grad


def test_tep_makes_targets_of_averaged_evaluations():
    method, batch, features = transferred("TEP", average_decay=0.5)
    assert "loss/consistency" not in method.loss(batch, at(12))[1]
    past = []
    for epoch in range(16, 23):
        with torch.no_grad():
            method.centres += 0.3 * torch.randn_like(method.centres)
        start(method, features, epoch)
        past += [naive_q(method, features)] if epoch > 16 else []
    weights = [0.5 ** (len(past) - i) for i in range(len(past))]
    average = sum(w * q for w, q in zip(weights, past)) / sum(weights)
    assert np.allclose(method.targets, naive_t(average), rtol=1e-3, atol=1e-6)


def test_images_that_all_look_alike_are_no_division_by_zero():
    method, batch = pixel_scene("dtc")
    start(method, torch.ones(20, WIDTH), 12)
    assert torch.isfinite(method.targets).all() and torch.isfinite(method.loss(batch, at(30))[0])


def test_the_heads_fit_the_network():
    config = configure({"method": "dtc"})
    method = build(config, Network(config, 1, 10), Classes(4, 10))
    assert method.network(torch.zeros(2, 1, 8, 8)).logits.shape == (2, 4) and method.reduction.weight.shape == (10, 64)
    trained = {name for name, parameter in method.named_parameters() if parameter.requires_grad}
    assert {"centres", "reduction.weight", "network.classifier.weight"} <= trained
