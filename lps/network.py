"""The network: image batch -> `Outputs(features, logits)`, and which of its stages are trained."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lps.config import Config

STAGES = ("stem", "layer1", "layer2", "layer3", "layer4")


class Outputs(NamedTuple):
    """features (n, d) after global average pooling, logits (n, classes)."""

    features: Tensor
    logits: Tensor


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut (He et al. 2016); a 1x1 convolution where the shape changes."""

    def __init__(self, channels_in: int, channels: int, stride: int, signed: bool = False):
        """`signed`: the block ends in the sum itself, without the ReLU that makes every value positive."""
        super().__init__()
        self.signed = signed
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out)) + self.shortcut(x)
        return out if self.signed else F.relu(out, inplace=True)


class ResNet(nn.Module):
    """A residual backbone for small images: 3x3 stem without pooling, four stages, global average pooling."""

    def __init__(
        self,
        channels: int,
        widths: tuple[int, ...],
        strides: tuple[int, ...],
        blocks: tuple[int, ...],
        signed_features: bool = False,
    ):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(channels, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU(inplace=True)
        )
        width_in = widths[0]
        for number, (width, stride, count) in enumerate(zip(widths, strides, blocks), start=1):
            steps = [stride] + [1] * (count - 1)
            stage = [BasicBlock(width_in if i == 0 else width, width, step) for i, step in enumerate(steps)]
            self.add_module(f"layer{number}", nn.Sequential(*stage))
            width_in = width
        self.layer4[-1].signed = signed_features
        self.num_features = widths[-1]
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        for name in STAGES:
            x = getattr(self, name)(x)
        return x.mean(dim=(2, 3))


# Signed features, because after a ReLU all 64 share a large positive mean: cosines with the random class vectors then
# hardly differ between images, and whole classes start on one vector. Over 20 epochs novel classes merged in 4 of 6
# development runs with the ReLU and in 2 of 10 without it; over 40 epochs without it in none of 10.
BACKBONES = {
    "digits_resnet": lambda channels: ResNet(channels, (16, 32, 64, 64), (1, 2, 2, 1), (1, 1, 1, 1), True),
}


class CosineClassifier(nn.Module):
    """logits = scale * cos(weight_k, features); no bias."""

    def __init__(self, num_features: int, num_classes: int, scale: float):
        super().__init__()
        self.weight = nn.Parameter(F.normalize(torch.empty(num_classes, num_features).uniform_(-1, 1), dim=1))
        self.scale = scale

    def forward(self, features: Tensor) -> Tensor:
        return self.scale * F.linear(F.normalize(features, dim=1), F.normalize(self.weight, dim=1))


class Network(nn.Module):
    """Backbone and classifier; stages up to `freeze_until` get no gradient."""

    def __init__(self, config: Config, channels: int, num_classes: int):
        super().__init__()
        self.backbone = BACKBONES[config.network_name](channels)
        width = self.backbone.num_features
        if config.network_head == "cosine":
            self.classifier = CosineClassifier(width, num_classes, config.network_cosine_scale)
        else:
            self.classifier = nn.Linear(width, num_classes)
        self.fused_views = config.network_fused_views
        self.frozen = (
            () if config.network_freeze_until == "none" else STAGES[: STAGES.index(config.network_freeze_until) + 1]
        )
        self.frozen_batchnorm = config.network_frozen_batchnorm
        for stage in self.frozen:
            getattr(self.backbone, stage).requires_grad_(False)

    def train(self, mode: bool = True) -> "Network":
        """As usual, but frozen stages stay in evaluation mode where their batch norm shall not adapt."""
        super().train(mode)
        if self.frozen_batchnorm == "eval":
            for stage in self.frozen:
                getattr(self.backbone, stage).eval()
        return self

    def forward(self, images: Tensor) -> Outputs:
        features = self.backbone(images.contiguous(memory_format=torch.channels_last))
        return Outputs(features, self.classifier(features))

    def forward_views(self, views: list[Tensor]) -> list[Outputs]:
        """One `Outputs` a view: a pass each, as in the original code, so that batch norm sees every view by itself; or,
        with `fused_views`, one pass over all, in which the views share their batch statistics."""
        if not self.fused_views:
            return [self(view) for view in views]
        together = self(torch.cat(views))
        sizes = [len(view) for view in views]
        return [Outputs(*parts) for parts in zip(together.features.split(sizes), together.logits.split(sizes))]
