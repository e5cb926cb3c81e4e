"""FixMatch against loops in float64; the moving average against its recursion; what is rejected and what is learnt."""

import math

import numpy as np
import pytest
import scenes
import torch
from scenes import CLASSES

from lps.methods import Inference, Progress, build
from lps.network.network import Network, Outputs
from lps.settings.config import configure

START = Progress(0, 20, 0, 10)


def fixmatch(classes=CLASSES, **options):
    return scenes.scene("fixmatch", views=2, classes=classes, outputs=classes.seen, **options)


def test_the_loss_equals_loops():
    method, batch = fixmatch(unlabeled_weight=0.7, threshold=0.8)
    _, measured = method.loss(batch, START)
    weak, strong = method.network.logits.detach().double().numpy()

    def log_softmax(row):
        return row - row.max() - math.log(np.exp(row - row.max()).sum())

    supervised = np.mean([-log_softmax(weak[i])[int(batch.targets[i])] for i in range(5)])
    sure = [i for i in range(5, 14) if np.exp(log_softmax(weak[i])).max() >= 0.8]
    pseudo = 0.7 * sum(-log_softmax(strong[i])[weak[i].argmax()] for i in sure) / 9
    assert 0 < len(sure) < 9
    assert measured["loss/cross_entropy"] == pytest.approx(supervised, rel=1e-5)
    assert measured["loss/pseudo_label"] == pytest.approx(pseudo, rel=1e-5)
    rate, confidence = (measured[f"pseudo_label/{name}/seen"] for name in ("rate", "confidence"))
    assert rate.numerator / rate.denominator == pytest.approx(len(sure) / 9)
    assert confidence.numerator / 9 == pytest.approx(
        np.mean([np.exp(log_softmax(z)).max() for z in weak[5:]]), rel=1e-5
    )


def test_gradient_reaches_labeled_weak_rows_and_confident_strong_rows_alone():
    method, batch = fixmatch(threshold=0.8)
    method.loss(batch, START)[0].backward()
    weak, strong = method.network.logits.grad.abs().sum(dim=2)
    confident = method.network.logits[0].softmax(dim=1).amax(dim=1) >= 0.8
    assert (weak[:5] > 0).all() and (weak[5:] == 0).all()
    assert (strong[:5] == 0).all() and torch.equal(strong[5:] > 0, confident[5:])
    assert all(parameter.grad is None for parameter in method.average.parameters())


def small(**hyperparameters):
    config = configure({"method": "fixmatch"} | hyperparameters)
    return build(config, Network(config, 1, CLASSES.total), CLASSES)


def test_the_average_follows_its_recursion_and_takes_over_the_statistics():
    method = small(average_decay=0.4)
    method.start_epoch(None, START)
    expected = method.network.classifier.weight.detach().double().clone()
    for step, decay in enumerate([2 / 11, 3 / 12, 4 / 13, 5 / 14, 6 / 15, 0.4, 0.4, 0.4]):
        with torch.no_grad():
            method.network.classifier.weight.normal_()
            method.network.backbone.stem[1].running_mean.fill_(step)
        method.after_step()
        expected = decay * expected + (1 - decay) * method.network.classifier.weight.detach().double()
        assert torch.allclose(method.average.classifier.weight.double(), expected, atol=1e-6)
        assert (method.average.backbone.stem[1].running_mean == step).all()


def test_the_average_starts_at_the_weights_of_the_first_epoch_and_goes_on_in_later_ones():
    method = small()
    assert method.network.classifier.out_features == method.average.classifier.out_features == 3
    with torch.no_grad():
        method.network.backbone.stem[0].weight.fill_(0.5)  # as when the SimCLR weights are loaded
    method.start_epoch(None, START)
    assert (method.average.backbone.stem[0].weight == 0.5).all()
    with torch.no_grad():
        method.network.backbone.stem[0].weight.fill_(1.0)
    method.start_epoch(None, Progress(1, 20, 0, 10))
    assert (method.average.backbone.stem[0].weight == 0.5).all()


def test_the_average_is_looked_at_and_not_trained():
    method = small()
    assert method.evaluated_network is method.average
    assert small(use_average=False).evaluated_network is not method.average
    trained = {id(p) for p in method.parameters() if p.requires_grad}
    assert trained == {id(p) for p in method.network.parameters()}


def test_a_row_is_rejected_below_the_threshold_unless_the_classifier_has_the_last_word():
    sure, unsure = torch.tensor([9.0, 0, 0]), torch.tensor([1.0, 0, 0])
    outputs = Outputs(torch.eye(4, 8), torch.stack([sure, unsure, unsure, unsure]))
    inference = Inference(None, lambda: outputs, None, seed=0)
    prediction = small().predict(inference)
    assert prediction.ids[0] == 0 and sorted(prediction.ids[1:].tolist()) == [3, 4, 5]
    assert prediction.measurements["rejected/share"] == 0.75
    closed = small(rejection="closed_set_argmax").predict(inference)
    assert (closed.ids == 0).all() and closed.measurements["rejected/share"] == 0
