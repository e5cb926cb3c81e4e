"""Time the loss of a method with more classes and larger batches, without a network."""

import math

import torch
from torch import nn

from benchmarks.clocks import best_of, clock_of
from lps import methods
from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Method, Progress
from lps.network.network import Network, Outputs
from lps.settings.config import configure

CLASSES, BATCHES = (10, 100, 1000), (128, 256, 512, 1024, 2048)
FIXED_CLASSES, FIXED_BATCH = 100, 512
FEATURES = 512


class Pixels(nn.Module):
    """A backbone that gives its input back."""

    num_features = FEATURES

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)


def loss_action(name: str, classes: int, batch_size: int, device: torch.device):
    """An action: loss of `name` and its gradient with respect to given features and logits of every view."""
    torch.manual_seed(0)
    config = configure({"method": name})
    network = Network(config, 1, classes)
    network.backbone = Pixels()
    network.classifier = nn.Linear(FEATURES, classes)
    method = methods.build(config, network, Classes(classes // 2, classes)).to(device).train()
    labeled = batch_size // 4
    views = [torch.randn(batch_size, 1, 16, FEATURES // 16, device=device) for _ in method.views]
    _answer_without_work(method, views)
    batch = Batch(
        labeled_views=tuple(view[:labeled] for view in views),
        targets=torch.randint(0, classes // 2, (labeled,), device=device),
        unlabeled_views=tuple(view[labeled:] for view in views),
        unlabeled_positions=torch.arange(batch_size - labeled, device=device),
    )
    progress = Progress(0, 40, 0, 10)

    def act() -> None:
        method.zero_grad()
        loss, _ = method.loss(batch, progress)
        loss.backward()

    return act


def _answer_without_work(method: Method, views: list[torch.Tensor]) -> None:
    """`forward_views` gives outputs that were made beforehand, as leaves that take a gradient."""
    with torch.no_grad():
        made = [method.network(view) for view in views]
    made = [Outputs(*(part.clone().requires_grad_() for part in out)) for out in made]

    def forward_views(asked: list[torch.Tensor]) -> list[Outputs]:
        return [Outputs(*(part[: len(view)] for part in out)) for out, view in zip(made, asked)]

    method.network.forward_views = forward_views


def measure(name: str, device: torch.device, rounds: int, classes=CLASSES, batches=BATCHES) -> dict[str, object]:
    """Milliseconds by number of classes and by rows of a batch, and both exponents."""
    places = {("classes", k): (k, FIXED_BATCH) for k in classes} | {("batch", n): (FIXED_CLASSES, n) for n in batches}
    cost = {}
    for place, (k, n) in places.items():
        action = {"loss": loss_action(name, k, n, device)}
        cost[place] = best_of(rounds, action, device)["loss"].by(clock_of(device))
    result = {f"{what} {size}": 1e3 * seconds for (what, size), seconds in cost.items()}
    for what, sizes in (("classes", classes), ("batch", batches)):
        result[f"exponent by {what}"] = exponent(sizes, [cost[what, size] for size in sizes])
    return result


def exponent(sizes, seconds) -> float:
    """The slope of the straight line that fits log seconds over log size best."""
    x, y = ([math.log(value) for value in values] for values in (sizes, seconds))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y))
    return above / sum((a - mean_x) ** 2 for a in x)
