"""Colours: brightness, contrast, saturation, hue, grey and blur of float images in [0, 1], with parameters per image.

Images are (n, channels, height, width). Single-channel images have no saturation or hue, and stay the same under both.
"""

import torch
from torch import Tensor

from lps.data.crops import apply_matrices, draw_booleans, draw_uniform, per_image

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, as in PIL and torchvision


def jitter_colours(
    images: Tensor, generator: torch.Generator, *, strength: float, hue: float, probability: float
) -> Tensor:
    """Change brightness, contrast, saturation by factors of 1 -+ `strength` and hue by -+ `hue` turns, in random order.

    The four changes of torchvision's ColorJitter, with `probability` per image. Every image has its own order: the
    first three run in that order in two rounds, around the hue, and a change that is not applied has the factor 1.
    """
    factors = draw_uniform(images, max(0, 1 - strength), 1 + strength, generator, 3)
    turns = draw_uniform(images, -hue, hue, generator)
    rank = draw_uniform(images, 0, 1, generator, 4)
    applies = draw_booleans(images, probability, generator)
    factors = torch.where(applies.view(-1, 1), factors, 1)
    order = rank[:, :HUE].argsort(dim=1)
    before_hue = rank[:, :HUE] < rank[:, HUE:]
    for due in (before_hue, ~before_hue):
        due_factors = torch.where(due, factors, 1)
        for kind in order.unbind(1):
            images = scale_towards(images, kind, due_factors.gather(1, kind.view(-1, 1)).squeeze(1))
        if due is before_hue:
            images = rotate_hue(images, turns * applies)
    return images


def scale_towards(images: Tensor, kind: Tensor, factor: Tensor) -> Tensor:
    """Return reference + factor (image - reference), clipped to [0, 1]; kind and factor (n,).

    The reference is black for BRIGHTNESS, the mean of the grey image for CONTRAST, the grey image for SATURATION.
    """
    grey = _luma(images)
    mean = grey.mean(dim=(1, 2, 3), keepdim=True)
    reference = grey * per_image(kind == SATURATION) + mean * per_image(kind == CONTRAST)
    return torch.lerp(reference.expand_as(images), images, per_image(factor)).clamp_(0, 1)


def rotate_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Rotate the hue of the hexcone (HSV) by `turns` (n,) full circles; saturation and value stay."""
    if images.shape[1] != 3:
        return images
    red, green, blue = images.unbind(1)
    value = images.amax(dim=1)
    chroma = value - images.amin(dim=1)
    not_red, not_green = (value - red).sign_(), (value - green).sign_()  # 0 or 1; lerp takes a third of where's time
    sixth = torch.lerp(blue - red + 2 * chroma, red - green + 4 * chroma, not_green)
    sixth = torch.lerp(green - blue, sixth, not_red).div_(chroma.clamp(min=1e-8)).add_(6 * turns.view(-1, 1, 1))
    parts = []
    for offset in (5, 3, 1):
        sector = sixth + offset
        sector -= (sector / 6).floor_().mul_(6)  # a third of the time of torch.remainder
        parts.append(value - torch.minimum(sector, 4 - sector).clamp_(0, 1).mul_(chroma))
    return torch.stack(parts, dim=1)


def random_grey(images: Tensor, generator: torch.Generator, *, probability: float) -> Tensor:
    """Turn images grey with `probability`."""
    coloured = per_image(~draw_booleans(images, probability, generator)).float()
    return torch.lerp(_luma(images).expand_as(images), images, coloured)


def random_blur(images: Tensor, generator: torch.Generator, *, probability: float) -> Tensor:
    """Apply Gaussian blur with `probability`: sigma uniform from 0.1 to 2 pixels, radius a tenth of the side (SimCLR).

    At the border the remaining weights are normalized to the sum 1.
    """
    sigma = draw_uniform(images, 0.1, 2, generator)
    sigma = torch.where(draw_booleans(images, probability, generator), sigma, 0.01)  # almost zero: the identity matrix
    rows, columns = (_gaussian(sigma, side) for side in images.shape[-2:])
    return apply_matrices(images, rows, columns)


def _luma(images: Tensor) -> Tensor:
    """Return (n, 1, height, width): the brightness of the pixels."""
    if images.shape[1] != 3:
        return images.mean(dim=1, keepdim=True)
    red, green, blue = images.unbind(1)
    return (_LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue).unsqueeze(1)


def _gaussian(sigma: Tensor, side: int) -> Tensor:
    """Return matrices (n, side, side), rows proportional to exp(-(i - j)^2 / (2 sigma^2)) for |i - j| <= side / 20."""
    position = torch.arange(side, device=sigma.device)
    distance = (position.view(-1, 1) - position).abs()
    weight = torch.exp(-0.5 * (distance / sigma.view(-1, 1, 1)) ** 2) * (distance <= side // 20)
    return weight / weight.sum(dim=2, keepdim=True)
