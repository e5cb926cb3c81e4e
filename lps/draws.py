"""Draws: one random number per image of a batch, from one seeded generator.

Numbers are drawn on the generator's device and moved to the images' device without waiting for it.
"""

import torch
from torch import Tensor


def uniform(images: Tensor, low: float, high: float, generator: torch.Generator, *more: int) -> Tensor:
    """(n, *more) float32 numbers in [low, high), n the number of images."""
    numbers = torch.rand((len(images), *more), generator=generator, device=generator.device)
    return (numbers * (high - low) + low).to(images.device, non_blocking=True)


def chance(images: Tensor, probability: float, generator: torch.Generator) -> Tensor:
    """(n,) booleans, each True with `probability`."""
    return uniform(images, 0, 1, generator) < probability


def position(images: Tensor, count: Tensor | int, generator: torch.Generator) -> Tensor:
    """(n,) integers in 0 .. count-1; `count` is one number or one per image."""
    return (uniform(images, 0, 1, generator) * count).long().clamp(max=count - 1)


def per_image(numbers: Tensor) -> Tensor:
    """(n,) as (n, 1, 1, 1), to stand beside images."""
    return numbers.view(-1, 1, 1, 1)
