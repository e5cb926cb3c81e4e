"""Define views: random transformations of a batch of images, on the batch's own device.

A view takes uint8 images (n, channels, height, width) and a seeded generator and returns float32 images with values
around 0: of the same shape, or with 224 pixels a side for "imagenet" and "gcd". Every image gets its own parameters;
the same images and state of the generator give the same views. Nothing waits for the device. A method names the views
it trains on: weak, mirrored (FixMatch's weak one), strong, simclr; evaluation uses plain. `FAMILIES` defines these
views for each kind of picture.

If images were squeezed into squares, a view also gets their original heights and widths, int64 (n, 2): those of
"imagenet" and "gcd" crop in these proportions, all others use the images as they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from lps.data import vectors
from lps.data.colours import jitter_colours, random_blur, random_grey
from lps.data.crops import central_crop, draw_uniform, per_image, random_crop, random_cutout, random_shift, resized_crop
from lps.data.randaugment import rand_augment
from lps.settings import backbone_names
from lps.settings.backbone_names import Preparation
from lps.settings.config import Config

_View = Callable[..., Tensor]  # (images, generator), and the sizes of images that are squeezed


def _unchanged(images: Tensor, generator: torch.Generator | None = None) -> Tensor:
    return images


def _warped(images: Tensor, generator: torch.Generator) -> Tensor:
    """Apply a small rotation, shear, zoom and shift; no flip, since digits are not symmetric."""
    return _affine(images.float() / 255, generator, degrees=15, shear=0.1, zoom=(0.85, 1.15), shift=0.1)


def _warped_more(images: Tensor, generator: torch.Generator) -> Tensor:
    """Apply a larger affine change, contrast and noise; also the view of SimCLR pretraining.

    No erasing: a rectangle of 2 to 4 of 8 pixels cost k-means on the SimCLR features 4 points (0.91 for 0.95, 6 seeds).
    """
    out = _affine(images.float() / 255, generator, degrees=20, shear=0.25, zoom=(0.7, 1.3), shift=0.125)
    return _noise(_contrast(out, generator, strength=0.4), generator, std=0.1)


def _cifar_weak(images: Tensor, generator: torch.Generator) -> Tensor:
    """Flip, and crop the image in a black frame of an eighth of its side (4 of 32 pixels)."""
    return random_shift(images, generator, border="zeros")


def _cifar_mirrored(images: Tensor, generator: torch.Generator) -> Tensor:
    """Flip, and crop the image in a mirrored frame: the weak view of FixMatch."""
    return random_shift(images, generator, border="reflect")


def _cifar_strong(images: Tensor, generator: torch.Generator) -> Tensor:
    """Flip, crop in a mirrored frame, RandAugment, and a grey square over half the side."""
    images = _cifar_mirrored(images, generator)
    return random_cutout(rand_augment(images, generator), generator)


def _cifar_simclr(images: Tensor, generator: torch.Generator) -> Tensor:
    """Crop 20 % of the area or more and resize, flip, change colours; no blur."""
    out = resized_crop(images, generator, scale=(0.2, 1))
    out = jitter_colours(out, generator, strength=0.4, hue=0.1, probability=0.8)
    return random_grey(out, generator, probability=0.2)


def _imagenet_plain(images: Tensor, generator: torch.Generator | None = None, sizes: Tensor | None = None) -> Tensor:
    """Resize the shorter side to 256 pixels and crop the centre."""
    return central_crop(images, short_side=256, size=224, sizes=sizes)


def _imagenet_weak(images: Tensor, generator: torch.Generator, sizes: Tensor | None = None) -> Tensor:
    """Crop half of the area or more and resize; flip."""
    return resized_crop(images, generator, scale=(0.5, 1), size=224, sizes=sizes)


def _imagenet_strong(images: Tensor, generator: torch.Generator, sizes: Tensor | None = None) -> Tensor:
    """Apply the weak view, then the rest of `_cifar_strong`: a frame of 28 pixels and a square of 112."""
    weak = _imagenet_weak(images, generator, sizes)
    return _cifar_strong(weak.mul_(255).round_().to(torch.uint8), generator)


def _imagenet_simclr(images: Tensor, generator: torch.Generator, sizes: Tensor | None = None) -> Tensor:
    """Crop 8 % of the area or more and resize, flip, colours of twice CIFAR's strength, blur: SimCLR's own recipe."""
    out = resized_crop(images, generator, scale=(0.08, 1), size=224, sizes=sizes)
    out = jitter_colours(out, generator, strength=0.8, hue=0.2, probability=0.8)
    return random_blur(random_grey(out, generator, probability=0.2), generator, probability=0.5)


def _gcd_weak(images: Tensor, generator: torch.Generator, sizes: Tensor | None = None) -> Tensor:
    """Resize the shorter side to 256, crop 224 at a random position, flip; GCD's colour jitter has no effect."""
    return random_crop(images, generator, short_side=256, size=224, sizes=sizes)


def _gcd_strong(images: Tensor, generator: torch.Generator, sizes: Tensor | None = None) -> Tensor:
    """Apply the weak view, then the rest of `_imagenet_strong`."""
    weak = _gcd_weak(images, generator, sizes)
    return _cifar_strong(weak.mul_(255).round_().to(torch.uint8), generator)


def _normalized(change: Callable, mean: tuple[float, ...], std: tuple[float, ...], takes_sizes: bool) -> _View:
    """Apply `change` (uint8 or float in [0, 1]), subtract `mean`, divide by `std`, each per channel or scalar."""

    def view(images: Tensor, generator: torch.Generator | None = None, sizes: Tensor | None = None) -> Tensor:
        out = change(images, generator, sizes) if takes_sizes else change(images, generator)
        if out.dtype == torch.uint8:
            out = out.float().div_(255)
        return out.sub_(_by_channel(mean, out.shape[1], out.device)).div_(_by_channel(std, out.shape[1], out.device))

    view.__name__, view.__doc__ = change.__name__, change.__doc__
    return view


def _resized_after(change: Callable, size: int, takes_sizes: bool) -> Callable:
    """Return a view that applies `change`, then resizes to `size`: float32 in [0, 1], bilinear, antialiased."""

    def changed(images: Tensor, generator: torch.Generator | None = None, sizes: Tensor | None = None) -> Tensor:
        out = change(images, generator, sizes) if takes_sizes else change(images, generator)
        out = out.float().div_(255) if out.dtype == torch.uint8 else out
        if out.shape[2:] == (size, size):
            return out
        return F.interpolate(out, (size, size), mode="bilinear", align_corners=False, antialias=True)

    changed.__name__, changed.__doc__ = change.__name__, change.__doc__
    return changed


@dataclass(frozen=True)
class _Family:
    """The changes for a kind of picture by name, and its constants per channel or for all."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    changes: dict[str, Callable]
    takes_sizes: bool = False

    def views(self) -> dict[str, _View]:
        """Return the views normalised by the family's constants, in the size that the changes give."""
        return {k: _normalized(change, self.mean, self.std, self.takes_sizes) for k, change in self.changes.items()}

    def prepared(self, preparation: Preparation) -> dict[str, _View]:
        """Return the views in the size and with the constants that a backbone expects."""
        sized = {
            name: _resized_after(change, preparation.size, self.takes_sizes) for name, change in self.changes.items()
        }
        return {
            k: _normalized(change, preparation.mean, preparation.std, self.takes_sizes) for k, change in sized.items()
        }


@lru_cache(maxsize=64)
def _by_channel(values: tuple[float, ...], channels: int, device: torch.device) -> Tensor:
    """Return (channels, 1, 1) on the device, cached; the mean of `values` if their number is not `channels`."""
    if len(values) != channels:
        values = (sum(values) / len(values),) * channels
    return torch.tensor(values, device=device).view(-1, 1, 1)


def _affine(
    images: Tensor, generator, *, degrees: float, shear: float, zoom: tuple[float, float], shift: float
) -> Tensor:
    """Rotate by up to `degrees`, shear by up to `shear`, zoom, shift by up to `shift` of the side; black outside."""
    angle = torch.deg2rad(draw_uniform(images, -degrees, degrees, generator))
    slant = draw_uniform(images, -shear, shear, generator)
    scale = 1 / draw_uniform(images, *zoom, generator)
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    x, y = (2 * draw_uniform(images, -shift, shift, generator) for _ in range(2))  # the grid is 2 wide
    rows = torch.stack([cos, cos * slant - sin, x, sin, sin * slant + cos, y], dim=1)
    grid = F.affine_grid(rows.view(-1, 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def _contrast(images: Tensor, generator, *, strength: float) -> Tensor:
    factor = per_image(draw_uniform(images, 1 - strength, 1 + strength, generator))
    return (images * factor).clamp(0, 1)


def _noise(images: Tensor, generator, *, std: float) -> Tensor:
    noise = torch.randn(images.shape, generator=generator, device=generator.device).to(images.device)
    return (images + std * noise).clamp(0, 1)


_WARPS = dict(plain=_unchanged, weak=_warped, mirrored=_warped, strong=_warped_more, simclr=_warped_more)

# "digits" and "grey" (MNIST, Fashion-MNIST) only need a rough input scale. CIFAR-100's constants are also used for
# CIFAR-10, as in LPS and ORCA.
_FAMILIES = {
    "digits": _Family((0.3,), (0.35,), _WARPS),
    "grey": _Family((0.21,), (0.33,), _WARPS),
    "cifar": _Family(
        (0.5071, 0.4867, 0.4408),
        (0.2675, 0.2565, 0.2761),
        {
            "plain": _unchanged,
            "weak": _cifar_weak,
            "mirrored": _cifar_mirrored,
            "strong": _cifar_strong,
            "simclr": _cifar_simclr,
        },
    ),
    "imagenet": _Family(
        (0.485, 0.456, 0.406),
        (0.229, 0.224, 0.225),
        {
            "plain": _imagenet_plain,
            "weak": _imagenet_weak,
            "mirrored": _imagenet_weak,
            "strong": _imagenet_strong,
            "simclr": _imagenet_simclr,
        },
        takes_sizes=True,
    ),
    "gcd": _Family(
        (0.485, 0.456, 0.406),
        (0.229, 0.224, 0.225),
        {
            "plain": _imagenet_plain,
            "weak": _gcd_weak,
            "mirrored": _gcd_weak,
            "strong": _gcd_strong,
            "simclr": _imagenet_simclr,
        },
        takes_sizes=True,
    ),
}
STORED = {"plain": "plain", "weak": "weak", "mirrored": "weak", "strong": "strong"}  # stored views of a picture
FAMILIES = {name: family.views() for name, family in _FAMILIES.items()}


def views_of(config: Config) -> Mapping[str, _View | str]:
    """Return the views of a run's images by the names that methods use; for stored features, the stored views."""
    return STORED if config.features == "stored" else views_of_pictures(config)


def views_of_pictures(config: Config) -> dict[str, _View]:
    """Return `FAMILIES[config.views]`, or the views that the backbone expects; of vectors `lps.data.vectors.views`."""
    if config.views == vectors.FAMILY:
        return vectors.views(config.features_noise, config.features_dropout)
    preparation = backbone_names.preparation(config.network_name, config.network_image_size)
    return FAMILIES[config.views] if preparation is None else _prepared(config.views, preparation)


@cache
def _prepared(family: str, preparation: Preparation) -> dict[str, _View]:
    return _FAMILIES[family].prepared(preparation)
