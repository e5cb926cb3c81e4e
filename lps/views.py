"""Views: a batch of images to a randomly changed batch of the same images, on the batch's own device.

A view takes uint8 images (n, channels, height, width) and a seeded generator and gives float32 images with values
around 0: of the same shape, or with 224 pixels a side for "imagenet". Every image gets its own parameters; the same
images and state of the generator give the same views. Nothing waits for the device. A method names the views it trains
on: weak, strong, simclr; evaluation uses plain. `FAMILIES` says what these words mean for a kind of picture.
"""

from collections.abc import Callable
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from lps.colours import blurred, greyed, jittered
from lps.crops import central, cut_out, resized_crop, shifted
from lps.draws import per_image, uniform
from lps.randaugment import rand_augment

View = Callable[[Tensor, torch.Generator], Tensor]


def unchanged(images: Tensor, generator: torch.Generator | None = None) -> Tensor:
    return images


def warped(images: Tensor, generator: torch.Generator) -> Tensor:
    """A small turn, slant, zoom and shift; no flip, since digits have a right way round."""
    return _affine(images.float() / 255, generator, degrees=15, shear=0.1, zoom=(0.85, 1.15), shift=0.1)


def warped_more(images: Tensor, generator: torch.Generator) -> Tensor:
    """A larger affine change, contrast and noise; also the view that SimCLR pretrains on.

    No erasing: a rectangle of 2 to 4 of 8 pixels cost k-means on the SimCLR features 4 points (0.91 for 0.95, 6 seeds).
    """
    out = _affine(images.float() / 255, generator, degrees=20, shear=0.25, zoom=(0.7, 1.3), shift=0.125)
    return _noise(_contrast(out, generator, strength=0.4), generator, std=0.1)


def cifar_weak(images: Tensor, generator: torch.Generator) -> Tensor:
    """Flip and a crop of the image in a black frame of an eighth of its side (4 of 32 pixels)."""
    return shifted(images, generator, border="zeros")


def cifar_strong(images: Tensor, generator: torch.Generator) -> Tensor:
    """Flip, the crop of a mirrored frame, RandAugment, and a grey square over half the side."""
    images = shifted(images, generator, border="reflect")
    return cut_out(rand_augment(images, generator), generator)


def cifar_simclr(images: Tensor, generator: torch.Generator) -> Tensor:
    """Resized crop of 20 % of the area or more, flip, colours; no blur."""
    out = resized_crop(images, generator, scale=(0.2, 1))
    out = jittered(out, generator, strength=0.4, hue=0.1, probability=0.8)
    return greyed(out, generator, probability=0.2)


def imagenet_plain(images: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """The centre of the image with 256 pixels on its shorter side."""
    return central(images, short_side=256, size=224)


def imagenet_weak(images: Tensor, generator: torch.Generator) -> Tensor:
    """Resized crop of half of the area or more, and flip."""
    return resized_crop(images, generator, scale=(0.5, 1), size=224)


def imagenet_strong(images: Tensor, generator: torch.Generator) -> Tensor:
    """The weak view, then as `cifar_strong`: a frame of 28 pixels and a square of 112."""
    weak = imagenet_weak(images, generator)
    return cifar_strong(weak.mul_(255).round_().to(torch.uint8), generator)


def imagenet_simclr(images: Tensor, generator: torch.Generator) -> Tensor:
    """Resized crop of 8 % of the area or more, flip, colours of twice CIFAR's strength, blur: SimCLR's own recipe."""
    out = resized_crop(images, generator, scale=(0.08, 1), size=224)
    out = jittered(out, generator, strength=0.8, hue=0.2, probability=0.8)
    return blurred(greyed(out, generator, probability=0.2), generator, probability=0.5)


def _normalized(change: View, mean: tuple[float, ...], std: tuple[float, ...]) -> View:
    """`change`, then its images (uint8, or float in [0, 1]) less `mean`, divided by `std`, each by channel or one."""

    def view(images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        out = change(images, generator)
        if out.dtype == torch.uint8:
            out = out.float().div_(255)
        return out.sub_(_by_channel(mean, out.shape[1], out.device)).div_(_by_channel(std, out.shape[1], out.device))

    view.__name__, view.__doc__ = change.__name__, change.__doc__
    return view


def _family(mean: tuple[float, ...], std: tuple[float, ...], **changes: View) -> dict[str, View]:
    return {name: _normalized(change, mean, std) for name, change in changes.items()}


@lru_cache(maxsize=64)
def _by_channel(values: tuple[float, ...], channels: int, device: torch.device) -> Tensor:
    """(channels, 1, 1) on the device, once; the mean of `values` where their number is another one."""
    if len(values) != channels:
        values = (sum(values) / len(values),) * channels
    return torch.tensor(values, device=device).view(-1, 1, 1)


def _affine(
    images: Tensor, generator, *, degrees: float, shear: float, zoom: tuple[float, float], shift: float
) -> Tensor:
    """Turn by up to `degrees`, shear by up to `shear`, zoom, and shift by up to `shift` of the side; black outside."""
    angle = torch.deg2rad(uniform(images, -degrees, degrees, generator))
    slant = uniform(images, -shear, shear, generator)
    scale = 1 / uniform(images, *zoom, generator)
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    x, y = (2 * uniform(images, -shift, shift, generator) for _ in range(2))  # the grid is 2 wide
    rows = torch.stack([cos, cos * slant - sin, x, sin, sin * slant + cos, y], dim=1)
    grid = F.affine_grid(rows.view(-1, 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def _contrast(images: Tensor, generator, *, strength: float) -> Tensor:
    factor = per_image(uniform(images, 1 - strength, 1 + strength, generator))
    return (images * factor).clamp(0, 1)


def _noise(images: Tensor, generator, *, std: float) -> Tensor:
    noise = torch.randn(images.shape, generator=generator, device=generator.device).to(images.device)
    return (images + std * noise).clamp(0, 1)


# "digits" and "grey" (MNIST, Fashion-MNIST) need a rough scale of the input only. CIFAR-100's constants stand for
# CIFAR-10 too, as in LPS and ORCA.
FAMILIES = {
    "digits": _family((0.3,), (0.35,), plain=unchanged, weak=warped, strong=warped_more, simclr=warped_more),
    "grey": _family((0.21,), (0.33,), plain=unchanged, weak=warped, strong=warped_more, simclr=warped_more),
    "cifar": _family(
        (0.5071, 0.4867, 0.4408),
        (0.2675, 0.2565, 0.2761),
        plain=unchanged,
        weak=cifar_weak,
        strong=cifar_strong,
        simclr=cifar_simclr,
    ),
    "imagenet": _family(
        (0.485, 0.456, 0.406),
        (0.229, 0.224, 0.225),
        plain=imagenet_plain,
        weak=imagenet_weak,
        strong=imagenet_strong,
        simclr=imagenet_simclr,
    ),
}
