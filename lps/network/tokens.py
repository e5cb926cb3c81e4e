"""Tokens of vision transformers: features from them, and position embeddings for an image size."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def pool_tokens(x: Tensor, before: int, tokens: str) -> Tensor:
    """Return features of tokens (n, before + patches, width) whose first is the class token; at least float32.

    tokens: the class token, the mean of the patches, or both, one after the other.
    """
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    parts = {"class": lambda: [x[:, 0]], "mean": lambda: [x[:, before:].mean(dim=1)]}
    token_names = ("class", "mean") if tokens == "both" else (tokens,)
    return torch.cat([part for name in token_names for part in parts[name]()], dim=1)


def resize_positions(tensors: dict[str, Tensor], num_tokens: int, before: int) -> dict[str, Tensor]:
    """Return the tensors with their position embeddings `resize_grid`, if there are any."""
    return tensors | {key: resize_grid(tensors[key], num_tokens, before) for key in ("pos_embed",) if key in tensors}


def resize_grid(embeddings: Tensor, num_tokens: int, before: int) -> Tensor:
    """Resize positions (1, n, width) to (1, `num_tokens`, width), bicubic and antialiased; unchanged if not square.

    before: embeddings before those of the grid; they stay as they are.
    """
    if embeddings.dim() != 3 or embeddings.shape[1] == num_tokens:
        return embeddings
    side, old = math.isqrt(num_tokens - before), math.isqrt(max(0, embeddings.shape[1] - before))
    if side * side + before != num_tokens or old * old + before != embeddings.shape[1] or old == 0:
        return embeddings
    grid = embeddings[:, before:].float().reshape(1, old, old, -1).permute(0, 3, 1, 2)
    grid = F.interpolate(grid, (side, side), mode="bicubic", antialias=True, align_corners=False)
    grid = grid.permute(0, 2, 3, 1).flatten(1, 2).to(embeddings.dtype)
    return torch.cat([embeddings[:, :before], grid], dim=1)
