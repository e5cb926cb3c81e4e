"""DS3L: both steps of the bilevel problem against plain gradients and finite differences in float64."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Inference, Progress, build
from lps.network.network import Network, Outputs
from lps.settings.config import configure

CLASSES = Classes(seen=3, total=6)
MIDDLE = Progress(10, 20, 0, 10)
FACTOR = 10 * math.exp(-5 * 0.25)


class Backbone(nn.Sequential):
    num_features = 6

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh())


class Small(nn.Module):
    """A smooth network with batch norm, small enough for finite differences."""

    def __init__(self):
        super().__init__()
        self.backbone, self.classifier = Backbone(), None

    def forward(self, images):
        features = self.backbone(images)
        return Outputs(features, self.classifier(features))

    def forward_views(self, views):
        return [self(view) for view in views]


def scene(labeled=6, unlabeled=8, seed=0, network=None, classes=CLASSES, size=2, **hyperparameters):
    torch.manual_seed(seed)
    method = build(configure({"method": "ds3l"} | hyperparameters), network or Small(), classes)
    ours, theirs = (tuple(torch.randn(n, 1, size, size) for _ in range(2)) for n in (labeled, unlabeled))
    return method, Batch(ours, torch.randint(classes.seen, (labeled,)), theirs, torch.arange(unlabeled))


def image_scene(classes=CLASSES, **options):
    """The method on a network of ours, and images that it can look at."""
    network = Network(configure({"method": "ds3l"}), 1, classes.total)
    return scene(network=network, size=8, classes=classes, **options)


def exact(module):
    return copy.deepcopy(module).double()


def inner_loss(network, weigh, batch, factor, constant_weights):
    """The objective of a float64 network, row by row; with weights that depend on it, or not."""
    first, second = (network(view.double()).logits.softmax(dim=1) for view in batch.views())
    labeled = len(batch.targets)
    supervised = -sum(first[i, batch.targets[i]].log() for i in range(labeled)) / labeled
    top = bottom = 0.0
    for i in range(labeled, len(first)):
        weight = weigh(first[i].detach() if constant_weights else first[i]).squeeze()
        squares = sum((second[i, k] - first[i, k].detach()) ** 2 for k in range(first.shape[1]))
        top = top + weight * squares / first.shape[1]
        bottom = bottom + weight
    return supervised, factor * top / bottom


def outer_loss(network, weigh, batch, factor, lr):
    """Cross-entropy of the labeled rows in the second view after a plain step of a copy, float64."""
    moved = copy.deepcopy(network)
    inner = sum(inner_loss(moved, weigh, batch, factor, constant_weights=False))
    gradients = torch.autograd.grad(inner, list(moved.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(moved.parameters(), gradients):
            parameter -= lr * gradient
        return F.cross_entropy(moved(batch.labeled_views[1].double()).logits, batch.targets).item()


def test_the_weight_network_steps_along_the_finite_differences_of_the_outer_loss():
    method, batch = scene(labeled=4, unlabeled=5, virtual_lr=0.5, weight_lr=0.01)
    network, weigh = exact(method.network), exact(method.weight_network)
    measured = method.loss(batch, MIDDLE)[1]
    assert measured["image_weight/outer_loss"] == pytest.approx(
        outer_loss(network, weigh, batch, FACTOR, 0.5), rel=1e-5
    )
    scale = max(parameter.grad.abs().max() for parameter in method.weight_network.parameters())
    for name, parameter in method.weight_network.named_parameters():
        before = dict(weigh.named_parameters())[name].detach().clone()
        for index in torch.randperm(parameter.numel())[:5].tolist():
            sides = []
            for change in (1e-4, -1e-4):
                moved = copy.deepcopy(weigh)
                dict(moved.named_parameters())[name].view(-1)[index] += change
                sides.append(outer_loss(network, moved, batch, FACTOR, 0.5))
            gradient = parameter.grad.view(-1)[index].item()
            assert gradient == pytest.approx((sides[0] - sides[1]) / 2e-4, rel=2e-3, abs=1e-4 * scale.item())
            step = (parameter.detach() - before).view(-1)[index].item()  # the first of Adam: lr * g / (|g| + eps)
            assert step == pytest.approx(-0.01 * gradient / (abs(gradient) + 1e-8), rel=1e-3, abs=1e-7)


def test_the_real_step_sees_the_new_weights_as_constants():
    method, batch = scene(weight_lr=0.5, supervised_weight=0.5)
    network, before = exact(method.network), exact(method.weight_network)
    loss, measured = method.loss(batch, MIDDLE)
    after = exact(method.weight_network)
    loss.backward()
    supervised, consistency = inner_loss(network, after, batch, FACTOR, constant_weights=True)
    (0.5 * supervised + consistency).backward()
    assert measured["loss/cross_entropy"] == pytest.approx(0.5 * supervised.item(), rel=1e-5)
    assert measured["loss/consistency"] == pytest.approx(consistency.item(), rel=1e-5)
    assert loss.item() == pytest.approx((0.5 * supervised + consistency).item(), rel=1e-5) == measured["loss/total"]
    for ours, theirs in zip(method.network.parameters(), network.parameters()):
        assert torch.allclose(ours.grad.double(), theirs.grad, rtol=1e-3, atol=1e-6)
    assert consistency.item() != pytest.approx(inner_loss(network, before, batch, FACTOR, True)[1].item(), rel=1e-4)
    probabilities = network(batch.views()[0].double()).logits.softmax(dim=1)[6:]
    assert measured["image_weight/mean"] == pytest.approx(after(probabilities).mean().item(), rel=1e-4)
    assert measured["image_weight/deviation"] == pytest.approx(after(probabilities).std(correction=0).item(), rel=1e-3)


def test_the_weight_network_belongs_to_its_own_optimizer():
    method, batch = scene()
    before = copy.deepcopy(method.weight_network)
    gradients = {id(p) for p in method.parameters() if p.requires_grad}
    assert gradients == {id(p) for p in method.network.parameters()}
    loss = method.loss(batch, MIDDLE)[0]
    learnt = [p.clone() for p in method.weight_network.parameters()]
    given = [p.grad.clone() for p in method.weight_network.parameters()]
    loss.backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(given, method.weight_network.parameters()))
    assert all(not torch.equal(a, b) for a, b in zip(learnt, before.parameters()))


def test_learning_weights_makes_virtual_steps_help_the_labels():
    """On one batch, the network held still: the loss behind the virtual step falls, and the weights come apart.

    They are divided by their sum, so only their ratios mean something.
    """
    method, batch = scene(virtual_lr=0.5, weight_lr=0.01)
    history = [method.loss(batch, MIDDLE)[1] for _ in range(60)]
    outer = [measured["image_weight/outer_loss"].item() for measured in history]
    assert outer[-1] < outer[20] < outer[0]
    spread = [measured["image_weight/deviation"] / measured["image_weight/mean"] for measured in history]
    assert spread[-1] > 10 * spread[0]


def test_the_judging_pass_leaves_the_running_statistics_alone():
    method, batch = scene()
    alone = copy.deepcopy(method.network)
    alone.forward_views(batch.views())
    method.loss(batch, MIDDLE)
    for ours, theirs in zip(method.network.buffers(), alone.buffers()):
        assert torch.equal(ours, theirs)


def test_the_ramp_is_as_long_as_the_run():
    method, _ = scene()
    assert method.ramp(Progress(0, 20, 0, 10)) == pytest.approx(10 * math.exp(-5))
    assert method.ramp(Progress(10, 20, 0, 10)) == pytest.approx(FACTOR)
    assert method.ramp(Progress(19, 20, 9, 10)) == pytest.approx(10, rel=1e-3)


@pytest.mark.parametrize("bias, limit", [(200.0, 1.0), (-200.0, 0.0)])
def test_saturated_weights_are_the_plain_pi_model_or_no_consistency(bias, limit):
    method, batch = scene()
    with torch.no_grad():
        method.weight_network[2].bias.fill_(bias)
    network = exact(method.network)
    loss, measured = method.loss(batch, MIDDLE)
    loss.backward()
    assert measured["image_weight/mean"] == limit and measured["image_weight/deviation"] == 0
    _, mean = inner_loss(network, lambda p: p.new_ones(1), batch, FACTOR, constant_weights=True)
    assert measured["loss/consistency"] == pytest.approx(limit * mean.item(), rel=1e-5)
    assert all(torch.isfinite(p.grad).all() for p in method.parameters() if p.grad is not None)


def test_frozen_stages_take_no_part_in_the_virtual_step():
    config = configure({"method": "ds3l", "network.freeze_until": "layer3"})
    method, batch = scene(network=Network(config, 1, 6), size=8)
    method.loss(batch, MIDDLE)[0].backward()
    assert method.network.backbone.layer3[0].conv1.weight.grad is None
    assert method.network.backbone.layer4[0].conv1.weight.grad.abs().sum() > 0


def test_rejection_by_confidence_or_by_weight():
    outputs = Outputs(torch.eye(4, 6), torch.tensor([[9.0, 0, 0], [0, 9, 0], [1, 0, 0], [0, 1, 0]]))
    inference = Inference(None, lambda: outputs, None, seed=0)
    prediction = scene()[0].predict(inference)
    assert prediction.ids[:2].tolist() == [0, 1] and (prediction.ids[2:] >= 3).all()
    method, _ = scene(rejection="weight")
    with torch.no_grad():  # weight above a half for what looks like the first class
        for parameter in method.weight_network.parameters():
            parameter.zero_()
        method.weight_network[0].weight[0, 0] = method.weight_network[2].weight[0, 0] = 10.0
        method.weight_network[2].bias.fill_(-50.0)
    prediction = method.predict(inference)
    assert prediction.ids.tolist()[::2] == [0, 0] and (prediction.ids[1::2] >= 3).all()
    assert prediction.measurements["rejected/share"] == 0.5


@pytest.mark.parametrize("labeled, rejected", [(0, 2), (2, 3), (100, 4)])
def test_rejection_of_as_many_images_as_classes_of_one_size_would_have_novel_ones(labeled, rejected):
    """Half of the classes are novel: half of all images, which is more than half of the unlabeled ones."""
    method, _ = scene(rejection="novel_share")
    outputs = Outputs(torch.eye(4, 6), torch.arange(12.0).view(4, 3) % 5)
    targets = torch.zeros(labeled, dtype=torch.int64)
    prediction = method.predict(Inference(None, lambda: outputs, targets, seed=0))
    weights = method.weigh(outputs.logits.softmax(dim=1))
    is_novel = prediction.ids >= 3
    assert is_novel.sum() == rejected
    assert rejected == 4 or weights[is_novel].max() <= weights[~is_novel].min()


def test_without_the_state_of_the_outer_optimizer_the_weights_would_differ():
    method, batch = scene(weight_lr=0.01)
    method.loss(batch, MIDDLE)
    fresh, _ = scene(weight_lr=0.01)
    fresh.load_state_dict(method.state_dict())
    fresh.weight_optimizer = torch.optim.Adam(fresh.weight_network.parameters(), lr=0.01)
    method.loss(batch, MIDDLE), fresh.loss(batch, MIDDLE)
    assert not torch.equal(method.weight_network[0].weight, fresh.weight_network[0].weight)
