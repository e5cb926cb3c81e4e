"""Backbones by name: float images (n, channels, height, width) -> features (n, num_features).

Each has `num_features` and `stages()`: by name, first to last, the modules that are frozen together.
"""

import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn

from lps import architectures
from lps.architectures import STAGES
from lps.parameters import ConfigError


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

    def stages(self) -> dict[str, tuple[nn.Module, ...]]:
        return {name: (getattr(self, name),) for name in STAGES}


# googlenet and inception_v3 have classifiers half-way, whose outputs would stand beside the features.
OPTIONS = dict.fromkeys(("googlenet", "inception_v3"), {"aux_logits": False, "init_weights": True})


class TorchvisionModel(nn.Module):
    """A classification model of torchvision up to the input of its last layer; grey pictures count as three channels.

    Without dropout and stochastic depth: torch's global random numbers follow from no seed and step, so that a resumed
    run would end with other numbers.
    """

    def __init__(self, name: str):
        super().__init__()
        self.name = name
        self.model = torchvision.models.get_model(name, weights=None, **OPTIONS.get(name, {}))
        self.classifier, self.num_features = _take_off_classifier(self.model)
        for module in self.model.modules():
            if isinstance(module, (nn.Dropout, torchvision.ops.StochasticDepth)):
                module.p = 0.0

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x if x.shape[1] == 3 else x.expand(-1, 3, -1, -1))

    def stages(self) -> dict[str, tuple[nn.Module, ...]]:
        """stem and layer1 to layer4 of residual networks, else the parts of `features` or, without it, of the model."""
        if architectures.RESIDUAL.match(self.name):
            model = self.model
            return {"stem": (model.conv1, model.bn1)} | {name: (getattr(model, name),) for name in STAGES[1:]}
        parts = getattr(self.model, "features", self.model).named_children()
        head = self.classifier.partition(".")[0]
        return {name: (part,) for name, part in parts if name != head and any(True for _ in part.parameters())}


def _take_off_classifier(model: nn.Module) -> tuple[str, int]:
    """Replace the last layer (squeezenet: convolution) by the identity; gives its path and what went into it."""
    kind = nn.Linear if any(isinstance(module, nn.Linear) for module in model.modules()) else nn.Conv2d
    path, layer = [(path, module) for path, module in model.named_modules() if isinstance(module, kind)][-1]
    model.set_submodule(path, nn.Identity())
    return path, layer.in_features if kind is nn.Linear else layer.in_channels


# Signed features, because after a ReLU all 64 share a large positive mean: cosines with the random class vectors then
# hardly differ between images, and whole classes start on one vector. Over 20 epochs novel classes merged in 4 of 6
# development runs with the ReLU and in 2 of 10 without it; over 40 epochs without it in none of 10.
OWN = {
    "digits_resnet": lambda channels: ResNet(channels, (16, 32, 64, 64), (1, 2, 2, 1), (1, 1, 1, 1), True),
    "cifar_resnet18": lambda channels: ResNet(channels, (64, 128, 256, 512), (1, 2, 2, 2), (2, 2, 2, 2)),
}


def build(name: str, channels: int) -> nn.Module:
    """The backbone that `network.name` names, with random weights; raises `ConfigError` for what there is not."""
    if name in OWN:
        return OWN[name](channels)
    architectures.check_name(name)
    if channels not in (1, 3):
        raise ConfigError("network.name", f"{name} takes pictures of 1 or 3 channels, not of {channels}")
    return TorchvisionModel(architectures.torchvision_name(name))


def freeze(name: str, backbone: nn.Module, last_frozen: str) -> list[nn.Module]:
    """Keep gradients from the stages up to `last_frozen` ("none": of no stage); gives their modules.

    Autograd then records nothing before the first stage that learns: frozen stages keep no activations.
    """
    stages = backbone.stages()
    architectures.check_stage(name, last_frozen, tuple(stages))
    if last_frozen == "none":
        return []
    count = list(stages).index(last_frozen) + 1
    frozen = [module for group in list(stages.values())[:count] for module in group]
    for module in frozen:
        module.requires_grad_(False)
    if isinstance(backbone, TorchvisionModel):
        for parameter in backbone.model.parameters(recurse=False):  # vit's class token belongs to no part
            parameter.requires_grad_(False)
    return frozen


def check_images(name: str, channels: int, height: int, width: int) -> None:
    """Raise `ConfigError` where the backbone cannot take pictures of this shape; costs no memory and little time."""
    if name in OWN:
        return
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        try:
            build(name, channels).eval()(torch.empty(2, channels, height, width))
        except NotImplementedError:  # regnets compute their widths with tensors; they take any size
            return
        except (RuntimeError, AssertionError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            reason = str(error).partition("\n")[0]
            raise ConfigError(
                "network.name", f"{name} cannot take pictures of {height} x {width} pixels ({reason})"
            ) from None
