"""Backbones by name: float images (n, channels, height, width) -> features (n, num_features).

Each has `num_features` and `stages()`: the modules that are frozen together, by name, first to last. Some have
`loose_parameters()`, which belong to no stage and freeze with the first, `fitted(tensors)`, which converts the tensors
of a file to the network's own names and shapes, and `fold()`, which makes them faster but only fit for evaluation.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lps.errors import UserError
from lps.settings import backbone_names
from lps.settings.backbone_names import LAST_BUT_ONE, STAGES, Preparation

if TYPE_CHECKING:
    from lps.settings.config import Config


class _BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut (He et al. 2016); the shortcut is a 1x1 convolution if the shape changes."""

    def __init__(self, channels_in: int, channels: int, stride: int, signed: bool = False):
        """signed: the block ends in the sum itself, without the ReLU that makes every value positive."""
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


class _ResNet(nn.Module):
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
            stage = [_BasicBlock(width_in if i == 0 else width, width, step) for i, step in enumerate(steps)]
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
        # Means over places, rounded to bf16, would often be equal and cause ties in rankings.
        return x.mean(dim=(2, 3), dtype=torch.promote_types(x.dtype, torch.float32))

    def stages(self) -> dict[str, tuple[nn.Module, ...]]:
        return {name: (getattr(self, name),) for name in STAGES}


# Signed features, because after a ReLU all 64 share a large positive mean: cosines with the random class vectors then
# hardly differ between images, and whole classes start on one vector. Over 20 epochs novel classes merged in 4 of 6
# development runs with the ReLU and in 2 of 10 without it; over 40 epochs without it in none of 10.
_OWN = {
    "digits_resnet": lambda channels: _ResNet(channels, (16, 32, 64, 64), (1, 2, 2, 1), (1, 1, 1, 1), True),
    "cifar_resnet18": lambda channels: _ResNet(channels, (64, 128, 256, 512), (1, 2, 2, 2), (2, 2, 2, 2)),
}


def build_backbone(config: "Config", channels: int) -> nn.Module:
    """Build the backbone of a run, with random weights; raises `UserError` for an unknown one."""
    return build(config.network_name, channels, **_choices(config))


def _choices(config: "Config") -> dict[str, object]:
    """Return the options of `build` that a run chooses."""
    return {"size": config.network_image_size, "tokens": config.network_tokens, "file": config.network_checkpoint}


def build(
    name: str, channels: int, *, size: int | None = None, tokens: str = "class", file: str | None = None
) -> nn.Module:
    """Build the backbone that `network.name` names, with random weights; raises `UserError` for an unknown one.

    size: `network.image_size`. tokens: `network.tokens`. file: source of the dimensions of a vision transformer.
    """
    if name in _OWN:
        return _OWN[name](channels)
    backbone_names.check_name(name)
    if name == backbone_names.GIVEN:
        raise UserError("network.name", f"{name} works only with embeddings (--dataset embeddings); choose a backbone")
    _check_channels(name, channels)
    if name == backbone_names.LITE0:
        _check_timm()
        from lps.network.efficientnet_lite import EfficientNetLite0

        return EfficientNetLite0()
    if backbone_names.torchvision_name(name) is None:
        return _with_own_side(name, backbone_names.preparation(name, size), tokens, file)
    from lps.network.torchvision_models import TorchvisionModel, TorchvisionTransformer

    if backbone_names.is_torchvision_transformer(name):
        return TorchvisionTransformer(backbone_names.torchvision_name(name), size, tokens)
    return TorchvisionModel(backbone_names.torchvision_name(name))


def _check_channels(name: str, channels: int) -> None:
    if channels not in (1, 3):
        raise UserError("network.name", f"{name} takes pictures of 1 or 3 channels, not of {channels}")


def _check_timm() -> None:
    """Raise `UserError` if timm is missing; checked only here, since the small networks work without it."""
    from lps.network.timm_models import library

    library()


def _with_own_side(name: str, preparation: Preparation, tokens: str, file: str | None) -> nn.Module:
    """Build a model of timm, or the vision transformer of a file."""
    _check_timm()
    if timm_name := backbone_names.timm_name(name):
        from lps.network.timm_models import TimmModel

        return TimmModel(timm_name, preparation.size, tokens, preparation.mean, preparation.std)
    from lps.network.weight_files import read_tensors

    if file is None:
        raise UserError("network.checkpoint", f"nothing is given; {name} needs a file of weights")
    from lps.network.published_transformers import PublishedTransformer, build_of

    shapes = read_tensors(Path(file), shapes_alone=True)
    return PublishedTransformer(build_of(shapes, backbone_names.weight_layout(name)), preparation.size, tokens)


def freeze(name: str, backbone: nn.Module, last_frozen: str) -> list[nn.Module]:
    """Disable gradients of the stages up to `last_frozen` ("none": of no stage, "last_but_one": of all but the last).

    Returns the modules of these stages. Autograd then records nothing before the first trained stage: frozen stages
    keep no activations.
    """
    stages = backbone.stages()
    backbone_names.check_stage(name, last_frozen, tuple(stages))
    if last_frozen == "none":
        return []
    count = len(stages) - 1 if last_frozen == LAST_BUT_ONE else list(stages).index(last_frozen) + 1
    frozen = [module for group in list(stages.values())[:count] for module in group]
    for module in frozen:
        module.requires_grad_(False)
    for parameter in getattr(backbone, "loose_parameters", list)():
        parameter.requires_grad_(False)
    return frozen


def check_backbone(config: "Config", channels: int, height: int, width: int) -> None:
    """Check a run's backbone as `check_images` does."""
    check_images(config.network_name, channels, height, width, **_choices(config))


def check_images(name: str, channels: int, height: int, width: int, **choices) -> None:
    """Raise `UserError` if the backbone does not accept pictures of this shape; costs no memory and little time.

    choices: as in `build`.
    """
    if name in _OWN:
        return
    if name == backbone_names.LITE0:
        return _check_channels(name, channels)  # accepts any size, and building it takes seconds
    prepared = backbone_names.preparation(name, choices.get("size"))
    height, width = (prepared.size, prepared.size) if prepared else (height, width)
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        try:
            build(name, channels, **choices).eval()(torch.empty(2, channels, height, width))
        except NotImplementedError:  # regnets compute their widths with tensors; they accept any size
            return
        except (RuntimeError, AssertionError, ValueError) as error:
            if isinstance(error, UserError):
                raise
            reason = str(error).partition("\n")[0]
            raise UserError(
                "network.name", f"{name} cannot take pictures of {height} x {width} pixels ({reason})"
            ) from None
