"""What every vision transformer here does with its tokens: features from them, and position embeddings for a side."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def pooled(x: Tensor, before: int, tokens: str) -> Tensor:
    """Features of tokens (n, before + patches, width) whose first is the class token; at least float32.

    tokens: the class token, the mean of the patches, or both, one after the other.
    """
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    parts = {"class": lambda: [x[:, 0]], "mean": lambda: [x[:, before:].mean(dim=1)]}
    chosen = ("class", "mean") if tokens == "both" else (tokens,)
    return torch.cat([part for name in chosen for part in parts[name]()], dim=1)


def with_grid(tensors: dict[str, Tensor], wanted: int, before: int) -> dict[str, Tensor]:
    """The tensors with their position embeddings `brought_to_grid`, where there are some."""
    return tensors | {key: brought_to_grid(tensors[key], wanted, before) for key in ("pos_embed",) if key in tensors}


def brought_to_grid(found: Tensor, wanted: int, before: int) -> Tensor:
    """Position embeddings (1, n, width) as (1, `wanted`, width), bicubic and antialiased; unchanged if not square.

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
