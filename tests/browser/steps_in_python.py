"""A step of LPS in torch, for the trainings of Explain that browsers do, and random batches that both get.

Tests import this where they run: torch takes seconds, and every worker collects every file.
"""

import torch
from torch import nn

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Progress
from lps.methods.lps import LPS
from lps.network.network import CosineClassifier, Outputs
from lps.ui.explain import plane, what_if

WIDTH = 16  # of the features of the head


class Linear(nn.Module):
    """Logits of points in the plane, each view by itself."""

    def __init__(self, weights):
        super().__init__()
        self.weights = nn.Parameter(torch.tensor(weights))

    def forward_views(self, views):
        return [Outputs(view, view @ self.weights[:, :2].T + self.weights[:, 2]) for view in views]


class Head(nn.Module):
    """The classifier of the app on features as they are, each view by itself."""

    def __init__(self, weights, scale):
        super().__init__()
        self.classifier = CosineClassifier(WIDTH, len(weights), scale)
        self.classifier.weight.data = torch.tensor(weights)

    def forward_views(self, views):
        return [Outputs(view, self.classifier(view)) for view in views]


def points(seed: int, **changes) -> dict:
    """A batch of three views of points in the plane, a model with a past, and settings."""
    return _asked(seed, plane.simulation_settings() | changes, rows=20, labeled=7, width=2, inputs=3, scale=3)


def features(seed: int, novel: int, **changes) -> dict:
    """A batch of three views of features, a head with a past, and settings."""
    settings = what_if.training_settings() | {"seen": 10 - novel, "total": 10} | changes
    return _asked(seed, settings, rows=64, labeled=16, width=WIDTH, inputs=WIDTH, scale=1)


def _asked(seed, settings, rows, labeled, width, inputs, scale) -> dict:
    random = torch.Generator().manual_seed(seed)
    views = torch.randn(3, rows, width, generator=random).tolist()
    targets = torch.randint(settings["seen"], (labeled,), generator=random).tolist()
    weights = (scale * torch.randn(settings["total"], inputs, generator=random)).tolist()
    past = torch.randn(settings["total"], inputs, generator=random).tolist()
    return {"views": views, "targets": targets, "weights": weights, "past": past, "settings": settings}


def step_of_points(one: dict) -> dict:
    """The loss of `lps.methods.lps` on the batch with its terms, and the weights after a step of torch's SGD."""
    names = ("margin_scale", "entropy_weight", "temperature", "pseudo_label_weight", "unsupervised_weight")
    total, measured, weights = _step(one, Linear(one["weights"]), names)
    terms = ("adaptive_margin", "pseudo_label_contrastive", "unsupervised_contrastive", "entropy")
    terms = [float(measured[f"loss/{name}"]) for name in terms]
    pi_hat, margins = (measured[name].tolist() for name in ("pi_hat", "margin"))
    return {"terms": terms, "total": total, "piHat": pi_hat, "margins": margins, "weights": weights}


def step_of_features(one: dict) -> dict:
    """As `step_of_points`, of the head."""
    head = Head(one["weights"], one["settings"]["cosine_scale"])
    total, measured, weights = _step(one, head, ("margin_scale", "entropy_weight", "temperature"))
    kl, margins = float(measured["kl/margin"]), measured["margin"].tolist()
    return {"total": total, "kl": kl, "margins": margins, "weights": weights}


def _step(one, network, names) -> tuple[float, dict, list]:
    settings, labeled = one["settings"], len(one["targets"])
    method = LPS(network, Classes(settings["seen"], settings["total"]), **{name: settings[name] for name in names})
    views = [torch.tensor(view) for view in one["views"]]
    known, unknown = (tuple(view[part] for view in views) for part in (slice(labeled), slice(labeled, None)))
    batch = Batch(known, torch.tensor(one["targets"]), unknown, torch.arange(len(unknown[0])))
    loss, measured = method.loss(batch, Progress(5, 20, 0, 1))
    optimizer = torch.optim.SGD(network.parameters(), lr=settings["lr"], momentum=settings["momentum"])
    (weights,) = network.parameters()
    optimizer.state[weights]["momentum_buffer"] = torch.tensor(one["past"])
    loss.backward()
    optimizer.step()
    return loss.item(), measured, weights.tolist()
