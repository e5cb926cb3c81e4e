"""EfficientNet-Lite0 up to its features: timm's implementation, with the names of the published weights.

M. Tan, Q. Le: EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks. ICML 2019. timm's "tf_" models
pad as TensorFlow does, with which these weights were trained. Imports timm, so import it only when needed.
"""

import timm
import torch
from timm.models._efficientnet_blocks import InvertedResidual
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from lps.network.checkpoint_names import store_under

# Layers of a block with expansion and of one without: timm's names, and those of the published weights.
_WIDENING = (
    (("conv_pw", "bn1"), ("expand_conv", "bn0")),
    (("conv_dw", "bn2"), ("depthwise_conv", "bn1")),
    (("conv_pwl", "bn3"), ("project_conv", "bn2")),
)
_PLAIN = ((("conv_dw", "bn1"), ("depthwise_conv", "bn1")), (("conv_pw", "bn2"), ("project_conv", "bn2")))


class EfficientNetLite0(nn.Module):
    """(n, 3 or 1, height, width) -> (n, 1280), at least float32; grey pictures count as three channels."""

    classifier = "fc"  # of the published weights, not used here

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            model = timm.create_model("tf_efficientnet_lite0", num_classes=0, bn_momentum=0.01)
        self.num_features = model.num_features
        self.conv_stem, self.bn0 = model.conv_stem, model.bn1
        self.blocks = nn.Sequential(*(block for stage in model.blocks for block in stage))
        self.conv_head, self.bn1 = model.conv_head, model.bn2
        self.depths = [len(stage) for stage in model.blocks]
        store_under(self, self._published_names())
        convolutions = [module for module in self.modules() if isinstance(module, nn.Conv2d)]
        for module in convolutions:  # the order of random draws is fixed, so that seeds reproduce earlier runs
            module.reset_parameters()
        for module in convolutions:
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = x if x.shape[1] == 3 else x.expand(-1, 3, -1, -1)
        x = self.blocks(self.bn0(self.conv_stem(x)))
        x = self.bn1(self.conv_head(x))
        return x.mean(dim=(2, 3), dtype=torch.promote_types(x.dtype, torch.float32))

    def stages(self) -> dict[str, tuple[nn.Module, ...]]:
        """Return stem, then layer1 to layer7: the blocks of one width each, the last with the final expansion."""
        parts, first = {"stem": (self.conv_stem, self.bn0)}, 0
        for number, count in enumerate(self.depths, start=1):
            parts[f"layer{number}"] = tuple(self.blocks[first : first + count])
            first += count
        return parts | {f"layer{number}": (*parts[f"layer{number}"], self.conv_head, self.bn1)}

    def fold(self) -> None:
        """Merge every batch norm into its convolution; afterwards the network is for evaluation only."""
        _fold(self, "conv_stem", "bn0")
        _fold(self, "conv_head", "bn1")
        for block in self.blocks:
            for (convolution, norm), _ in _layers(block):
                _fold(block, convolution, norm)

    def _published_names(self) -> dict[str, str]:
        """Return the name in the published weights by module name, for all names that differ."""
        names = {}
        for number, block in enumerate(self.blocks):
            pairs = {own_name: stored for layers in _layers(block) for own_name, stored in zip(*layers)}
            for key in block.state_dict():
                part, _, end = key.partition(".")
                names[f"blocks.{number}.{key}"] = f"blocks.{number}.{pairs[part]}.{end}"
        return names


def _layers(block: nn.Module) -> tuple[tuple[tuple[str, str], tuple[str, str]], ...]:
    return _WIDENING if isinstance(block, InvertedResidual) else _PLAIN


def _fold(module: nn.Module, convolution: str, norm: str) -> None:
    """Merge a norm into its convolution; the activation inside timm's norm stays."""
    batch_norm = getattr(module, norm)
    setattr(module, convolution, fuse_conv_bn_eval(getattr(module, convolution), batch_norm))
    setattr(module, norm, batch_norm.act)
