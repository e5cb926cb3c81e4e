"""A vision transformer as a checkpoint file has it, for the published files of DINO, DINOv2, MAE and CLIP.

A. Dosovitskiy et al.: An Image is Worth 16x16 Words. ICLR 2021. The four share one network: what a file has (layer
scale, registers, a norm before the first block, a gated multilayer perceptron) is read from its tensors' names and
shapes. Names here are those of DINO; those of CLIP are translated. Our own, since torchvision's has neither layer scale
nor registers nor the norm before the first block; a test holds the rest of it against torchvision's.
"""

import math
import re
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lps.errors import Refusal

_HEADS = {1280: 16, 1408: 16, 1664: 16}  # of widths whose heads are not 64 wide
_PATCHES, _CLIP_PATCHES = "patch_embed.proj.weight", "conv1.weight"
# Names of CLIP, as they stand after what begins all of them, and ours.
_TRANSLATED = (
    (r"^class_embedding$", "cls_token"),
    (r"^positional_embedding$", "pos_embed"),
    (r"^conv1\.", "patch_embed.proj."),
    (r"^ln_pre\.", "norm_pre."),
    (r"^ln_post\.", "norm."),
    (r"^transformer\.resblocks\.", "blocks."),
    (r"\.ln_([12])\.", r".norm\1."),
    (r"\.attn\.in_proj_", ".attn.qkv."),
    (r"\.attn\.out_proj\.", ".attn.proj."),
    (r"\.mlp\.c_fc\.", ".mlp.fc1."),
    (r"\.mlp\.c_proj\.", ".mlp.fc2."),
)
_MOST = {"width": 4096, "depth": 100, "hidden": 32_768, "patch": 64, "registers": 64, "grid": 128}


@dataclass(frozen=True)
class Build:
    """The dimensions of a transformer. patch: pixels a side; grid: patches a side of its own position embedding.

    quick: GELU as x * sigmoid(1.702 x), which OpenAI's CLIP was trained with.
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
    quick: bool = False

    @property
    def heads(self) -> int:
        return _HEADS.get(self.width, self.width // 64)


class _Scale(nn.Module):
    """One factor a channel."""

    def __init__(self, width: int):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, width = x.shape
        query, key, value = self.qkv(x).view(n, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(query, key, value)
        return self.proj(out.transpose(1, 2).reshape(n, tokens, width))


class _Perceptron(nn.Module):
    def __init__(self, width: int, hidden: int, quick: bool):
        super().__init__()
        self.quick = quick
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        return self.fc2(x * torch.sigmoid(1.702 * x) if self.quick else F.gelu(x))


class _GatedPerceptron(nn.Module):
    """SwiGLU, of DINOv2's largest."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.w12, self.w3 = nn.Linear(width, 2 * hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.w12(x).chunk(2, dim=-1)
        return self.w3(F.silu(gate) * value)


class _TransformerBlock(nn.Module):
    def __init__(self, build: Build, epsilon: float):
        super().__init__()
        width = build.width
        self.norm1, self.norm2 = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.attn = _Attention(width, build.heads)
        self.ls1, self.ls2 = (_Scale(width) if build.has_scale else nn.Identity() for _ in range(2))
        gated = build.is_gated
        self.mlp = _GatedPerceptron(width, build.hidden) if gated else _Perceptron(width, build.hidden, build.quick)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


class VisionTransformer(nn.Module):
    """(n, 3 or 1, size, size) -> (n, num_features), at least float32; grey pictures count as three channels.

    tokens: features are the class token, the mean of the patches, or both, one after the other; each after the last
    norm. `size` has to be a multiple of the patches' side.
    """

    def __init__(self, build: Build, size: int, tokens: str = "class"):
        super().__init__()
        if size % build.patch:
            near = max(1, round(size / build.patch)) * build.patch
            raise Refusal(
                "network.image_size", f"{size} is no multiple of the {build.patch} pixels of a patch; {near} is"
            )
        self.build, self.tokens = build, tokens
        width, epsilon = build.width, 1e-5 if build.quick else 1e-6
        self.num_features = width * (2 if tokens == "both" else 1)
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, width, build.patch, build.patch)})
        if build.has_first_norm:
            self.patch_embed["proj"] = nn.Conv2d(3, width, build.patch, build.patch, bias=False)
            self.norm_pre = nn.LayerNorm(width, epsilon)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + (size // build.patch) ** 2, width))
        if build.registers:
            self.register_tokens = nn.Parameter(torch.zeros(1, build.registers, width))
        self.blocks = nn.ModuleList(_TransformerBlock(build, epsilon) for _ in range(build.depth))
        self.norm = nn.LayerNorm(width, epsilon)

    def forward(self, x: Tensor) -> Tensor:
        x = x if x.shape[1] == 3 else x.expand(-1, 3, -1, -1)
        patches = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), patches], dim=1) + self.pos_embed
        if self.build.registers:
            x = torch.cat([x[:, :1], self.register_tokens.expand(x.shape[0], -1, -1), x[:, 1:]], dim=1)
        x = self.norm_pre(x) if self.build.has_first_norm else x
        for block in self.blocks:
            x = block(x)
        return pooled(self.norm(x), 1 + self.build.registers, self.tokens)

    def stages(self) -> dict[str, tuple[nn.Module, ...]]:
        """patches, then block1 and so on; the last norm belongs to the last block."""
        first = (self.patch_embed, self.norm_pre) if self.build.has_first_norm else (self.patch_embed,)
        parts = {"patches": first} | {f"block{number}": (part,) for number, part in enumerate(self.blocks, start=1)}
        return parts | {f"block{self.build.depth}": (self.blocks[-1], self.norm)}

    def loose_parameters(self) -> list[nn.Parameter]:
        """Those of no stage, which belong to the first."""
        return list(self.parameters(recurse=False))

    def fitted(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of a file under the names and with the grid of this network."""
        return with_grid(named(tensors), self.pos_embed.shape[1], 1)


def pooled(x: Tensor, before: int, tokens: str) -> Tensor:
    """Features of tokens (n, before + patches, width) whose first is the class token; at least float32."""
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    parts = {"class": lambda: [x[:, 0]], "mean": lambda: [x[:, before:].mean(dim=1)]}
    chosen = ("class", "mean") if tokens == "both" else (tokens,)
    return torch.cat([part for name in chosen for part in parts[name]()], dim=1)


def with_grid(tensors: dict[str, Tensor], wanted: int, before: int) -> dict[str, Tensor]:
    """The tensors with their position embeddings `brought_to_grid`, where there are some."""
    return tensors | {key: brought_to_grid(tensors[key], wanted, before) for key in ("pos_embed",) if key in tensors}


def brought_to_grid(found: Tensor, wanted: int, before: int) -> Tensor:
    """Position embeddings (1, n, width) as (1, `wanted`, width), bicubic and antialiased; as they are where no square.

    before: embeddings that stand before those of the grid and stay as they are.
    """
    if found.dim() != 3 or found.shape[1] == wanted:
        return found
    side, old = math.isqrt(wanted - before), math.isqrt(max(0, found.shape[1] - before))
    if side * side + before != wanted or old * old + before != found.shape[1] or old == 0:
        return found
    grid = found[:, before:].float().reshape(1, old, old, -1).permute(0, 3, 1, 2)
    grid = F.interpolate(grid, (side, side), mode="bicubic", antialias=True, align_corners=False)
    grid = grid.permute(0, 2, 3, 1).flatten(1, 2).to(found.dtype)
    return torch.cat([found[:, :before], grid], dim=1)


def named(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The transformer's tensors under DINO's names, whatever stood before them; raises `Refusal` where there is none.

    Of a teacher and a student the teacher's. Tensors that no network has (decoder, head, projection) keep their names.
    """
    beginnings = [key.removesuffix(_PATCHES) for key in tensors if key.endswith(_PATCHES)]
    clip = [key.removesuffix(_CLIP_PATCHES) for key in tensors if key.endswith(_CLIP_PATCHES)]
    beginnings += [start for start in clip if f"{start}class_embedding" in tensors]
    if not beginnings:
        raise Refusal(
            "network.checkpoint",
            "holds no vision transformer in a layout that is known (DINO, DINOv2, MAE, CLIP): a tensor"
            f" {_PATCHES} or class_embedding is expected",
        )
    start = min(beginnings, key=lambda words: ("teacher" not in words, "student" in words, len(words)))
    inside = {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}
    is_clip = "class_embedding" in inside
    own = {
        (_of_clip(key) if is_clip else re.sub(r"^blocks\.\d+\.(\d+)\.", r"blocks.\1.", key)): inside[key]
        for key in inside
    }
    if is_clip:
        own |= {
            key: own[key].reshape(1, -1, own[key].shape[-1])
            for key in ("cls_token", "pos_embed")
            if key in own and own[key].dim()
        }
    return own | {key: value for key, value in tensors.items() if not key.startswith(start)}


def _of_clip(key: str) -> str:
    for theirs, ours in _TRANSLATED:
        key = re.sub(theirs, ours, key)
    return key


def build_of(tensors: dict[str, Tensor], layout: str) -> Build:
    """The dimensions of the transformer in a file; raises `Refusal` where it is not `layout`'s or is none.

    tensors: as a file names them; only their shapes are looked at. layout: dino, dinov2, mae or clip.
    """
    own = named(tensors)
    _check_layout(own, layout)
    try:
        width, channels, patch, _ = own[_PATCHES].shape
        is_gated = "blocks.0.mlp.w12.weight" in own
        hidden = len(own["blocks.0.mlp.w12.weight"]) // 2 if is_gated else len(own["blocks.0.mlp.fc1.weight"])
        numbers = [int(match[1]) for match in (re.match(r"blocks\.(\d{1,4})\.", key) for key in own) if match]
        registers = own["register_tokens"].shape[1] if "register_tokens" in own else 0
        grid = math.isqrt(own["pos_embed"].shape[1] - 1)
    except (KeyError, ValueError, IndexError) as error:
        missing = f"{error.args[0]} is missing" if isinstance(error, KeyError) else "its tensors have other shapes"
        raise Refusal("network.checkpoint", f"holds no whole vision transformer: {missing}") from None
    sizes = {"width": width, "depth": max(numbers) + 1, "hidden": hidden, "patch": patch}
    sizes |= {"registers": registers, "grid": grid}
    for name, value in sizes.items():
        if value > _MOST[name]:
            raise Refusal("network.checkpoint", f"has a {name} of {value}; at most {_MOST[name]} is expected")
    if channels != 3 or (width % 64 and width not in _HEADS) or not (width and patch and hidden and grid):
        raise Refusal("network.checkpoint", f"is for {channels} channels and {width} wide; 3 and a multiple of 64 fit")
    return Build(
        **sizes,
        has_scale="blocks.0.ls1.gamma" in own,
        has_first_norm="norm_pre.weight" in own,
        is_gated=is_gated,
        quick=layout == "clip",
    )


def _check_layout(own: dict[str, Tensor], layout: str) -> None:
    """Raise `Refusal` where the file is another one's; those of DINO and MAE can't be told apart."""
    found = "clip" if "norm_pre.weight" in own else "dinov2" if "blocks.0.ls1.gamma" in own else "dino"
    if found != ("dino" if layout == "mae" else layout):
        words = {"clip": "CLIP (vit:clip)", "dinov2": "DINOv2 (vit:dinov2)", "dino": "DINO or MAE (vit:dino, vit:mae)"}
        raise Refusal("network.checkpoint", f"is laid out as those of {words[found]}, not as vit:{layout}")
