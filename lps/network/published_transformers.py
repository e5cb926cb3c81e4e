"""Build vision transformers from published checkpoint files of DINO, DINOv2, MAE and CLIP.

A. Dosovitskiy et al.: An Image is Worth 16x16 Words. ICLR 2021. The network is timm's. Its parts (layer scale,
registers, a norm before the first block, a gated multilayer perceptron) are read from the names and shapes of the
file's tensors. Imports timm, so import this module only for such a network.
"""

import math
import re
from dataclasses import dataclass
from functools import partial

import torch
from timm.layers import QuickGELU, SwiGLUPacked
from timm.models import vision_transformer as timm_transformers
from torch import Tensor, nn

from lps.errors import UserError
from lps.network.checkpoint_names import store_under
from lps.network.tokens import pool_tokens, resize_positions

_HEADS = {1280: 16, 1408: 16, 1664: 16}  # number of heads of widths whose heads are not 64 wide
_PATCHES, _CLIP_PATCHES = "patch_embed.proj.weight", "conv1.weight"
_MAX_SIZES = {"width": 4096, "depth": 100, "hidden": 32_768, "patch": 64, "registers": 64, "grid": 128}
# Parts of a block in the order of checkpoints: states of optimizers identify parameters only by their order.
_ORDER = ("norm1", "norm2", "attn", "ls1", "ls2", "mlp")
_GATED = {"fc1": "w12", "fc2": "w3"}  # layers of a gated perceptron: timm's name, DINOv2's


@dataclass(frozen=True)
class Build:
    """The dimensions of a transformer. patch: pixels a side; grid: patches a side of its own position embedding.

    is_clip: GELU as x * sigmoid(1.702 x) and a larger epsilon, which OpenAI's CLIP was trained with.
    """

    width: int
    depth: int
    patch: int
    hidden: int
    grid: int
    registers: int = 0
    has_scale: bool = False
    has_first_norm: bool = False
    is_gated: bool = False
    is_clip: bool = False

    def options(self) -> dict[str, object]:
        """Return the arguments of timm's `VisionTransformer`; registers are added later."""
        hidden = 2 * self.hidden if self.is_gated else self.hidden
        activation = nn.SiLU if self.is_gated else QuickGELU if self.is_clip else nn.GELU
        return {
            "patch_size": self.patch,
            "embed_dim": self.width,
            "depth": self.depth,
            "num_heads": _HEADS.get(self.width, self.width // 64),
            "mlp_ratio": (hidden + 0.5) / self.width,  # timm rounds the product down
            "init_values": 1.0 if self.has_scale else None,
            "pre_norm": self.has_first_norm,
            "norm_layer": partial(nn.LayerNorm, eps=1e-5 if self.is_clip else 1e-6),
            "act_layer": activation,
            "mlp_layer": SwiGLUPacked if self.is_gated else timm_transformers.Mlp,
        }


class PublishedTransformer(timm_transformers.VisionTransformer):
    """(n, 3 or 1, size, size) -> (n, num_features), at least float32; grey pictures count as three channels.

    tokens: features are the class token, the mean of the patches, or both, one after the other; each after the last
    norm. `size` has to be a multiple of the patches' side.
    """

    def __init__(self, build: Build, size: int, tokens: str = "class"):
        if size % build.patch:
            nearest_size = max(1, round(size / build.patch)) * build.patch
            raise UserError(
                "network.image_size",
                f"{size} is not a multiple of the patch size, {build.patch} pixels; try {nearest_size}",
            )
        if build.has_first_norm:  # the order of random draws is fixed, so that seeds reproduce earlier runs
            nn.Conv2d(3, build.width, build.patch)
        super().__init__(img_size=size, num_classes=0, weight_init="skip", **build.options())
        self.build, self.tokens = build, tokens
        self.num_features = build.width * (2 if tokens == "both" else 1)
        self.cls_token, self.pos_embed = (nn.Parameter(torch.zeros_like(t)) for t in (self.cls_token, self.pos_embed))
        if build.registers:
            self.register_tokens = nn.Parameter(torch.zeros(1, build.registers, build.width))
        for block in self.blocks:
            for name in _ORDER:
                part = getattr(block, name)
                delattr(block, name)
                block.add_module(name, part)
        if build.is_gated:
            ends = [(f"blocks.{n}.mlp.", f".{kind}") for n in range(build.depth) for kind in ("weight", "bias")]
            store_under(
                self, {a + own_name + z: a + stored + z for a, z in ends for own_name, stored in _GATED.items()}
            )

    def _pos_embed(self, x: Tensor) -> Tensor:
        """Add position embeddings as timm does, with registers, which have none, between class token and patches."""
        x = super()._pos_embed(x)
        if not self.build.registers:
            return x
        return torch.cat([x[:, :1], self.register_tokens.expand(x.shape[0], -1, -1), x[:, 1:]], dim=1)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.forward_features(x if x.shape[1] == 3 else x.expand(-1, 3, -1, -1))
        return pool_tokens(seen, 1 + self.build.registers, self.tokens)

    def stages(self) -> dict[str, tuple[nn.Module, ...]]:
        """Return patches, then block1 and so on; the last norm belongs to the last block."""
        parts = {"patches": (self.patch_embed, self.norm_pre)}
        parts |= {f"block{number}": (part,) for number, part in enumerate(self.blocks, start=1)}
        return parts | {f"block{self.build.depth}": (self.blocks[-1], self.norm)}

    def loose_parameters(self) -> list[nn.Parameter]:
        """Return the parameters outside of the stages; they freeze with the first."""
        return list(self.parameters(recurse=False))

    def fitted(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of a file under the names and with the grid of this network."""
        return resize_positions(tensors_by_dino_name(tensors), self.pos_embed.shape[1], 1)


def tensors_by_dino_name(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the transformer's tensors under DINO's names, without any prefix; raises `UserError` if there is none.

    Of a teacher and a student, the teacher's. Tensors of other parts (decoder, head, projection) keep their names.
    """
    beginnings = [key.removesuffix(_PATCHES) for key in tensors if key.endswith(_PATCHES)]
    clip = [key.removesuffix(_CLIP_PATCHES) for key in tensors if key.endswith(_CLIP_PATCHES)]
    beginnings += [start for start in clip if f"{start}class_embedding" in tensors]
    if not beginnings:
        raise UserError(
            "network.checkpoint",
            "has no vision transformer in a known layout (DINO, DINOv2, MAE, CLIP); expected a tensor"
            f" {_PATCHES} or class_embedding",
        )
    start = min(beginnings, key=lambda words: ("teacher" not in words, "student" in words, len(words)))
    own_tensors = {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}
    if "class_embedding" in own_tensors:
        # Not part of any network here
        projection = {key: own_tensors.pop(key) for key in ("proj",) if key in own_tensors}
        tensors_by_name = timm_transformers._convert_openai_clip(own_tensors, None, prefix="") | projection
    else:
        chunk, block = r"^blocks\.\d+\.(\d+)\.", r"blocks.\1."  # DINOv2 may put its blocks into chunks
        tensors_by_name = {re.sub(chunk, block, key): value for key, value in own_tensors.items()}
    return tensors_by_name | {key: value for key, value in tensors.items() if not key.startswith(start)}


def build_of(tensors: dict[str, Tensor], layout: str) -> Build:
    """Return the dimensions of the transformer in a file; raises `UserError` if it is not one of `layout`.

    tensors: as named in the file; only their shapes are used. layout: dino, dinov2, mae or clip.
    """
    own_tensors = tensors_by_dino_name(tensors)
    _check_layout(own_tensors, layout)
    try:
        width, channels, patch, _ = own_tensors[_PATCHES].shape
        is_gated = "blocks.0.mlp.w12.weight" in own_tensors
        first_layer = own_tensors[f"blocks.0.mlp.{'w12' if is_gated else 'fc1'}.weight"]
        hidden = len(first_layer) // (2 if is_gated else 1)
        numbers = [int(match[1]) for match in (re.match(r"blocks\.(\d{1,4})\.", key) for key in own_tensors) if match]
        registers = own_tensors["register_tokens"].shape[1] if "register_tokens" in own_tensors else 0
        grid = math.isqrt(own_tensors["pos_embed"].shape[1] - 1)
    except (KeyError, ValueError, IndexError) as error:
        missing = f"{error.args[0]} is missing" if isinstance(error, KeyError) else "its tensors have other shapes"
        raise UserError("network.checkpoint", f"has an incomplete vision transformer: {missing}") from None
    sizes = {"width": width, "depth": max(numbers) + 1, "hidden": hidden, "patch": patch}
    sizes |= {"registers": registers, "grid": grid}
    for name, value in sizes.items():
        if value > _MAX_SIZES[name]:
            raise UserError("network.checkpoint", f"has a {name} of {value}; expected at most {_MAX_SIZES[name]}")
    if channels != 3 or (width % 64 and width not in _HEADS) or not (width and patch and hidden and grid):
        raise UserError(
            "network.checkpoint",
            f"has {channels} input channels and width {width}; expected 3 channels and a multiple of 64 as width",
        )
    return Build(
        **sizes,
        has_scale="blocks.0.ls1.gamma" in own_tensors,
        has_first_norm="norm_pre.weight" in own_tensors,
        is_gated=is_gated,
        is_clip=layout == "clip",
    )


def _check_layout(own_tensors: dict[str, Tensor], layout: str) -> None:
    """Raise `UserError` if the file has another layout; those of DINO and MAE can't be distinguished."""
    file_layout = (
        "clip" if "norm_pre.weight" in own_tensors else "dinov2" if "blocks.0.ls1.gamma" in own_tensors else "dino"
    )
    if file_layout != ("dino" if layout == "mae" else layout):
        titles = {"clip": "CLIP (vit:clip)", "dinov2": "DINOv2 (vit:dinov2)", "dino": "DINO or MAE (vit:dino, vit:mae)"}
        raise UserError("network.checkpoint", f"has the layout of {titles[file_layout]}, not of vit:{layout}")
