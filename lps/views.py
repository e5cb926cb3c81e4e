"""Views: a batch of images to a randomly changed batch of the same images, on the batch's own device.

A view takes uint8 images (n, channels, height, width) and a seeded generator on the same device, and gives float32
images of the same shape, with values around 0. Every image gets its own parameters. A method names the views it trains
on: weak, strong, simclr; evaluation uses plain. `FAMILIES` says what these words mean for a kind of picture.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

MEAN, STD = 0.3, 0.35  # of the digits; only the scale of the input, nothing depends on the exact numbers


def plain(images: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """No change, only scaled: what evaluation sees."""
    return _normalize(images.float() / 255)


def digits_weak(images: Tensor, generator: torch.Generator) -> Tensor:
    """A small turn, slant, zoom and shift; no flip, since digits have a right way round."""
    return _normalize(_affine(images.float() / 255, generator, degrees=15, shear=0.1, zoom=(0.85, 1.15), shift=0.1))


def digits_strong(images: Tensor, generator: torch.Generator) -> Tensor:
    """A larger affine change, contrast and noise; also the view that SimCLR pretrains on.

    No erasing: a rectangle of 2 to 4 of 8 pixels cost k-means on the SimCLR features 4 points (0.91 for 0.95, 6 seeds).
    """
    out = _affine(images.float() / 255, generator, degrees=20, shear=0.25, zoom=(0.7, 1.3), shift=0.125)
    return _normalize(_noise(_contrast(out, generator, strength=0.4), generator, std=0.1))


FAMILIES = {
    "digits": {"plain": plain, "weak": digits_weak, "strong": digits_strong, "simclr": digits_strong},
}


def _normalize(images: Tensor) -> Tensor:
    return (images - MEAN) / STD


def _uniform(n: int, low: float, high: float, generator: torch.Generator) -> Tensor:
    """(n,) numbers between `low` and `high` on the generator's device."""
    return torch.rand(n, generator=generator, device=generator.device) * (high - low) + low


def _affine(
    images: Tensor, generator, *, degrees: float, shear: float, zoom: tuple[float, float], shift: float
) -> Tensor:
    """Turn by up to `degrees`, shear by up to `shear`, zoom, and shift by up to `shift` of the side; black outside."""
    n = len(images)
    angle = torch.deg2rad(_uniform(n, -degrees, degrees, generator))
    slant = _uniform(n, -shear, shear, generator)
    scale = 1 / _uniform(n, *zoom, generator)
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    x, y = (2 * _uniform(n, -shift, shift, generator) for _ in range(2))  # the grid is 2 wide
    rows = torch.stack([cos, cos * slant - sin, x, sin, sin * slant + cos, y], dim=1)
    grid = F.affine_grid(rows.view(n, 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def _contrast(images: Tensor, generator, *, strength: float) -> Tensor:
    factor = _uniform(len(images), 1 - strength, 1 + strength, generator).view(-1, 1, 1, 1)
    return (images * factor).clamp(0, 1)


def _noise(images: Tensor, generator, *, std: float) -> Tensor:
    noise = torch.randn(images.shape, generator=generator, device=images.device)
    return (images + std * noise).clamp(0, 1)
