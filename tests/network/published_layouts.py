"""Small vision transformers in the layouts that DINO, DINOv2, MAE and CLIP are published in, the same everywhere.

The tensors of all are functions of their place, so that numbers that another library gives for them can be recorded.
"""

import torch
from torch import Tensor

WIDTH, DEPTH, PATCH, GRID, HIDDEN, REGISTERS = 128, 2, 8, 3, 192, 2


def _filled(shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Waves of which every tensor has its own; those that scale are around 1."""
    made = {}
    for number, (key, shape) in enumerate(sorted(shapes.items()), start=1):
        steps = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
        wave = torch.sin(steps * (0.7 + number * 0.013) + steps**2 / 977).view(shape).float() * 0.12
        scales = key.endswith(("gamma", "ln_1.weight", "ln_2.weight", "ln_pre.weight", "ln_post.weight"))
        made[key] = wave + 1 if scales or "norm" in key and key.endswith("weight") else wave
    return made


def _pairs(**shapes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Weight and bias of layers, whose dots are written as two underscores."""
    made = {}
    for name, shape in shapes.items():
        key = name.replace("__", ".")
        made |= {f"{key}.weight": shape, f"{key}.bias": shape[:1]}
    return made


def dino() -> dict[str, Tensor]:
    """As published for evaluation; MAE's encoder has the same names."""
    return _filled(_dino_shapes())


def _dino_shapes() -> dict[str, tuple[int, ...]]:
    shapes = {"cls_token": (1, 1, WIDTH), "pos_embed": (1, 1 + GRID**2, WIDTH)}
    shapes |= _pairs(patch_embed__proj=(WIDTH, 3, PATCH, PATCH), norm=(WIDTH,))
    for number in range(DEPTH):
        layers = _pairs(norm1=(WIDTH,), norm2=(WIDTH,), attn__qkv=(3 * WIDTH, WIDTH), attn__proj=(WIDTH, WIDTH))
        layers |= _pairs(mlp__fc1=(HIDDEN, WIDTH), mlp__fc2=(WIDTH, HIDDEN))
        shapes |= {f"blocks.{number}.{key}": shape for key, shape in layers.items()}
    return shapes


def dinov2() -> dict[str, Tensor]:
    """With registers, layer scale, and the token that masked patches had in training."""
    shapes = _dino_shapes() | {"register_tokens": (1, REGISTERS, WIDTH), "mask_token": (1, WIDTH)}
    scales = {f"blocks.{number}.ls{place}.gamma": (WIDTH,) for number in range(DEPTH) for place in (1, 2)}
    return _filled(shapes | scales)


def dinov2_plain() -> dict[str, Tensor]:
    """As the first ones were published, without registers."""
    return {key: value for key, value in dinov2().items() if key != "register_tokens"}


def dinov2_gated() -> dict[str, Tensor]:
    """As its largest, with gated perceptrons."""
    shapes = {key: tuple(value.shape) for key, value in dinov2().items() if ".mlp." not in key}
    for number in range(DEPTH):
        layers = _pairs(mlp__w12=(2 * HIDDEN, WIDTH), mlp__w3=(WIDTH, HIDDEN))
        shapes |= {f"blocks.{number}.{key}": shape for key, shape in layers.items()}
    return _filled(shapes)


def mae() -> dict[str, dict[str, Tensor]]:
    """With the decoder, as after pretraining."""
    decoder = {"mask_token": torch.ones(1, 1, 64), "decoder_pos_embed": torch.ones(1, 1 + GRID**2, 64)}
    decoder |= {"decoder_embed.weight": torch.ones(64, WIDTH), "decoder_blocks.0.norm1.weight": torch.ones(64)}
    return {"model": dino() | decoder}


def clip() -> dict[str, Tensor]:
    """The picture's half under its beginning, and a tensor of the text's."""
    shapes = {"class_embedding": (WIDTH,), "positional_embedding": (1 + GRID**2, WIDTH), "proj": (WIDTH, 64)}
    shapes |= {"conv1.weight": (WIDTH, 3, PATCH, PATCH)} | _pairs(ln_pre=(WIDTH,), ln_post=(WIDTH,))
    for number in range(DEPTH):
        block = f"transformer.resblocks.{number}"
        layers = _pairs(ln_1=(WIDTH,), ln_2=(WIDTH,), attn__out_proj=(WIDTH, WIDTH))
        layers |= _pairs(mlp__c_fc=(HIDDEN, WIDTH), mlp__c_proj=(WIDTH, HIDDEN))
        layers |= {"attn.in_proj_weight": (3 * WIDTH, WIDTH), "attn.in_proj_bias": (3 * WIDTH,)}
        shapes |= {f"{block}.{key}": shape for key, shape in layers.items()}
    seen = {f"visual.{key}": value for key, value in _filled(shapes).items()}
    return seen | {"transformer.resblocks.0.ln_1.weight": torch.ones(64), "token_embedding.weight": torch.ones(9, 64)}


def waves(side: int) -> Tensor:
    """A picture (1, 3, side, side) that is the same everywhere."""
    steps = torch.arange(3 * side * side, dtype=torch.float64).view(1, 3, side, side)
    return torch.sin(steps**2 / 977).float()
