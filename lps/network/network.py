"""The network: image batch -> `Outputs(features, logits)`, and which of its stages are trained."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lps.network import backbones, parallel

if TYPE_CHECKING:  # only for types: the network does not depend on checks of settings
    from lps.settings.config import Config


_MIN_SPREAD = 1e-4  # smallest spread of features, relative to their root mean square


class Outputs(NamedTuple):
    """features (n, d) after global average pooling, logits (n, classes)."""

    features: Tensor
    logits: Tensor


class CosineClassifier(nn.Module):
    """logits = scale * cos(weight_k, features); no bias."""

    def __init__(self, num_features: int, num_classes: int, scale: float):
        super().__init__()
        self.weight = nn.Parameter(F.normalize(torch.empty(num_classes, num_features).uniform_(-1, 1), dim=1))
        self.scale = scale

    def forward(self, features: Tensor) -> Tensor:
        return self.scale * F.linear(F.normalize(features, dim=1), F.normalize(self.weight, dim=1))


def projection_head(features: int, width: int | None, outputs: int) -> nn.Module:
    """Build three layers in the place of a classifier, so that the network's logits are the projections.

    width: of the two hidden layers; by default 2048 as in GCD and SimGCD, but at most 4 times the features.
    """
    width = min(2048, 4 * features) if width is None else width
    return nn.Sequential(
        nn.Linear(features, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, outputs)
    )


def channels_last(images: Tensor) -> Tensor:
    """Arrange images channels last in memory, which is fastest for convolutions; stored features stay as they are."""
    return images.contiguous(memory_format=torch.channels_last) if images.dim() == 4 else images


class FeatureHead(nn.Module):
    """The trained part of a network on stored features: features (n, width) -> (n, num_features).

    It starts as a projection to the principal components, which preserves distances, so measurements
    of the start weights are measurements of the backbone. The perceptron beside the projection adds nothing
    at first, since its last layer starts at 0.
    """

    def __init__(self, width: int, outputs: int, hidden: int):
        super().__init__()
        self.num_features = min(width, outputs)
        self.projection = nn.Linear(width, self.num_features)
        self.perceptron = None
        if hidden:
            last = nn.Linear(hidden, self.num_features)
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
            self.perceptron = nn.Sequential(nn.Linear(self.num_features, hidden), nn.GELU(), last)

    def forward(self, features: Tensor) -> Tensor:
        projected = self.projection(features)
        return projected if self.perceptron is None else projected + self.perceptron(projected)

    @torch.no_grad()
    def begin_at(self, pieces: Iterator[Tensor]) -> None:
        """Initialize the projection with the principal components of features given piece by piece.

        They are scaled to a mean square of 1. If features differ by less than a ten-thousandth of their size,
        that share of their size is used as their spread, so that weights stay bounded, and a warning is logged.
        """
        sample = torch.cat(list(pieces)).double()
        least_spread = _MIN_SPREAD * sample.square().mean().sqrt()
        mean = sample.mean(dim=0)
        sample -= mean
        _, vectors = torch.linalg.eigh(sample.T @ sample)
        axes = vectors.flip(1)[:, : self.num_features].T
        axes = axes * axes.gather(1, axes.abs().argmax(dim=1, keepdim=True)).sign()
        spread = (sample @ axes.T).square().mean().sqrt()
        if spread <= least_spread:
            print("The features of all images are nearly equal; nothing can be learned from them.", flush=True)
        scale = torch.maximum(spread, least_spread)
        axes = axes / torch.where(scale > 0, scale, 1.0)
        self.projection.weight.copy_(axes)
        self.projection.bias.copy_(-axes @ mean)


class Network(nn.Module):
    """Backbone and classifier; stages up to `freeze_until` get no gradient."""

    def __init__(self, config: "Config", channels: int, num_classes: int):
        """channels: of the images; for stored features their number, with a `FeatureHead` as the backbone."""
        super().__init__()
        is_stored = config.features == "stored"
        if is_stored:
            self.backbone = FeatureHead(channels, config.features_width, config.features_hidden)
        else:
            self.backbone = backbones.build_backbone(config, channels)
        width = self.backbone.num_features
        if config.network_head == "cosine":
            self.classifier = CosineClassifier(width, num_classes, config.network_cosine_scale)
        else:
            self.classifier = nn.Linear(width, num_classes)
        self.fused_views = config.network_fused_views
        self.frozen = (
            [] if is_stored else backbones.freeze(config.network_name, self.backbone, config.network_freeze_until)
        )
        self.frozen_batchnorm = config.network_frozen_batchnorm

    def train(self, mode: bool = True) -> "Network":
        """Set the mode as usual, but frozen stages stay in evaluation mode if their batch norm must not adapt."""
        super().train(mode)
        if self.frozen_batchnorm == "eval":
            for module in self.frozen:
                module.eval()
        return self

    def forward(self, images: Tensor) -> Outputs:
        features = self.backbone(channels_last(images))
        return Outputs(features, self.classifier(features))

    def forward_views(self, views: list[Tensor]) -> list[Outputs]:
        """Return one `Outputs` per view: a pass each, as in the original code, so that batch norm sees each view alone;
        or, with `fused_views`, one pass over all, in which the views share their batch statistics.

        With several ranks, each passes its own rows, and the outputs are those of all rows
        (`lps.network.parallel`).
        """
        own_outputs = self._passes([parallel.own_rows(view) for view in views])
        return [Outputs(*(parallel.gather(part, len(view)) for part in out)) for out, view in zip(own_outputs, views)]

    def _passes(self, views: list[Tensor]) -> list[Outputs]:
        if not self.fused_views:
            return [self(view) for view in views]
        outputs = self(torch.cat(views))
        sizes = [len(view) for view in views]
        return [Outputs(*parts) for parts in zip(outputs.features.split(sizes), outputs.logits.split(sizes))]


def precision(config: "Config", device: torch.device) -> str:
    """Return fp32 or bf16, as `precision` resolves on a device: auto is bf16 on a GPU; CPUs are much slower in it."""
    if config.precision != "auto":
        return config.precision
    return "bf16" if device.type == "cuda" else "fp32"


def autocast(config: "Config", device: torch.device):
    """Return the context of a training step in the config's `precision`."""
    if precision(config, device) == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()
