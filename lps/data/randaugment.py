"""RandAugment as in FixMatch, LPS and NACH: two random operations per image, with PIL's exact pixels, for a batch.

E. D. Cubuk, B. Zoph, J. Shlens, Q. V. Le: RandAugment: Practical automated data augmentation with a reduced search
space. CVPR workshops 2020; the 14 operations and their strengths are those of K. Sohn et al., FixMatch, NeurIPS 2020.
Operations are drawn with replacement, a level of 1 to 9 and a sign with each, and every one is applied with
probability 1/2. Pixels that come from outside of an image are black. Sizes and channels (1 or 3) are free.

Own kernels, since no library has this one. torchvision 0.29's v2.RandAugment draws one operation for a whole batch;
image by image it takes 128 us an image. kornia 0.9's draws its operations once per call, without replacement, on float
images with other strengths and roundings, in 32 us; torchaug 0.6.1's draws once per call too. This one takes 5 to 7 us
(32x32 pixels, batch 384, processor time of one thread of an AMD EPYC; `benchmarks/views.py` has the whole views).
"""

import math
from functools import lru_cache

import torch
from torch import Tensor

from lps.data.crops import per_image, pixels_at

OPERATIONS = (
    "identity",
    "auto_contrast",
    "equalize",
    "brightness",
    "color",
    "contrast",
    "sharpness",
    "posterize",
    "solarize",
    "rotate",
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
)
_MOVES = OPERATIONS[9:]  # operations that move pixels: one kernel with a matrix per image
LEVELS = 10  # levels are 1 .. 9
_ONE = 1 << 16  # of PIL's fixed-point coordinates


def rand_augment(images: Tensor, generator: torch.Generator, *, count: int = 2) -> Tensor:
    """Apply `count` random operations to uint8 (n, channels, height, width), each with probability 1/2."""
    shape, where = (count, len(images)), {"generator": generator, "device": generator.device}
    operations = torch.randint(len(OPERATIONS), shape, **where)
    levels = torch.randint(1, LEVELS, shape, **where)
    signs = torch.randint(2, shape, **where)
    operations = operations * torch.randint(2, shape, **where)  # 0 is the identity
    for operation, level, sign in zip(operations, levels, signs):
        images = apply_operations(images, operation, level, sign)
    return images


def apply_operations(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Apply to every image its own operation: (n,) `operation` in OPERATIONS, `level` of 1 .. 9, `sign` 0 or 1.

    If the choice is in host memory (a CPU generator), each kernel gets only the images that chose it.
    On a GPU the host would have to wait for the choice: each kernel gets all images, and a mask selects.
    """
    kernel_of = operation.clamp(max=len(_KERNELS) - 1)
    if not _on_host(operation):
        out = images
        for number, kernel in enumerate(_KERNELS[1:], start=1):
            out = torch.where(per_image(kernel_of == number), kernel(images, operation, level, sign), out)
        return out
    order = kernel_of.argsort(stable=True)
    counts = torch.bincount(kernel_of, minlength=len(_KERNELS)).tolist()
    sorted_choice = (values[order].to(images.device, non_blocking=True) for values in (operation, level, sign))
    choices = zip(*(values.split(counts) for values in sorted_choice))
    out = images.index_select(0, order.to(images.device, non_blocking=True))
    for kernel, part, choice in zip(_KERNELS, out.split(counts), choices):
        if len(part) and kernel is not _identity:
            part.copy_(kernel(part, *choice))
    return out.index_select(0, order.argsort().to(images.device, non_blocking=True))


def _on_host(values: Tensor) -> bool:
    return values.device.type == "cpu"


def _identity(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    return images


def _auto_contrast(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Stretch each channel to 0 .. 255, in float64 as in PIL; otherwise some pixels are 1 off."""
    low, high = images.amin(dim=(2, 3), keepdim=True), images.amax(dim=(2, 3), keepdim=True)
    scale = (high - low).clamp(min=1).double()
    scale = torch.full_like(scale, 255) / scale  # 255 / tensor would multiply by the reciprocal, with another rounding
    stretched = (images * scale - low * scale).clamp_(0, 255).to(torch.uint8)
    return torch.where(high > low, stretched, images)


def _equalize(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Equalize the histogram of each channel by a table, with PIL's integer arithmetic."""
    pixels = images.flatten(0, 1).flatten(1)
    values = pixels.long()
    histogram = torch.zeros(len(pixels), 256, dtype=torch.long, device=images.device)
    histogram.scatter_add_(1, values, torch.ones_like(values))
    brightest = histogram.gather(1, pixels.amax(dim=1, keepdim=True).long())
    step = (pixels.shape[1] - brightest) // 255
    below = histogram.cumsum(dim=1) - histogram
    table = ((below + step // 2) // step.clamp(min=1)).clamp_(max=255).to(torch.uint8)
    return torch.where(step > 0, table.gather(1, values), pixels).view_as(images)


def _brightness(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    return _blended(torch.zeros((), device=images.device), images, level)


def _color(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    return _blended(_luma(images).float(), images, level)


def _contrast(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    count = images.shape[2] * images.shape[3]
    mean = (2 * _luma(images).sum(dim=(1, 2, 3), keepdim=True) + count) // (2 * count)  # rounded
    return _blended(mean.float(), images, level)


def _sharpness(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Reduce sharpness: blend with the mean of a pixel (5 parts of 13) and its 8 neighbours. The border pixels stay."""
    smooth = images.float()
    wide = images.to(torch.int16)
    columns = wide[..., :-2, :] + wide[..., 1:-1, :] + wide[..., 2:, :]
    total = columns[..., :-2] + columns[..., 1:-1] + columns[..., 2:] + 4 * wide[..., 1:-1, 1:-1]
    smooth[..., 1:-1, 1:-1] = ((total + 6.5) / 13).floor_()
    return _blended(smooth, images, level)


def _posterize(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Keep the upper 4 to 7 bits."""
    dropped = 4 - level * 4 // 10
    return images & per_image(256 - (1 << dropped)).to(torch.uint8)


def _solarize(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Invert values from a threshold on."""
    threshold = per_image(256 - level * 256 // 10).to(torch.uint8)
    return torch.where(images < threshold, images, 255 - images)


def _moved(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Take the pixel at (x, y) from (a x + b y + c, d x + e y + f) in fixed point, rounded down; black outside."""
    height, width = images.shape[-2:]
    number = (operation - OPERATIONS.index(_MOVES[0])).clamp(min=0)
    matrix = matrices(height, width, images.device)[number, level, sign].view(-1, 6, 1, 1)
    y, x = (torch.arange(side, device=images.device, dtype=torch.int32) for side in (height, width))
    y = y.view(-1, 1)
    columns = (matrix[:, 0] * x + matrix[:, 1] * y + matrix[:, 2]) >> 16
    rows = (matrix[:, 3] * x + matrix[:, 4] * y + matrix[:, 5]) >> 16
    inside_x, inside_y = columns.clamp(0, width - 1), rows.clamp(0, height - 1)
    inside = (columns == inside_x) & (rows == inside_y)
    return pixels_at(images, inside_y, inside_x) * inside.unsqueeze(1)


_KERNELS = (
    _identity,
    _auto_contrast,
    _equalize,
    _brightness,
    _color,
    _contrast,
    _sharpness,
    _posterize,
    _solarize,
    _moved,
)  # in the order of OPERATIONS, the last one for all _MOVES


def _blended(reference: Tensor, images: Tensor, level: Tensor) -> Tensor:
    """Return reference + factor (image - reference), rounded down in float32 as PIL's blend; factor 0.14 to 0.86."""
    factor = per_image((level.double() * 0.9 / 10 + 0.05).float())
    return (reference + factor * (images - reference)).to(torch.uint8)


def _luma(images: Tensor) -> Tensor:
    """Return the grey image, int32 (n, 1, height, width), with PIL's integer weights and rounding."""
    if images.shape[1] != 3:
        return images[:, :1].int()
    red, green, blue = images.int().unbind(1)
    return ((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16).unsqueeze(1)


@lru_cache(maxsize=8)
def matrices(height: int, width: int, device: torch.device) -> Tensor:
    """Return int32 (moves, levels, 2, 6): (a .. f) of `_moved` by _MOVES, level and sign, in units of 1 / 65536."""
    table = [
        [[_fixed(_matrix(move, level, side, height, width)) for side in (-1, 1)] for level in range(LEVELS)]
        for move in _MOVES
    ]
    return torch.tensor(table, dtype=torch.int32).to(device)


def _matrix(move: str, level: int, sign: int, height: int, width: int) -> tuple[float, ...]:
    """Return the map from new to old pixels: rotation to 30 degrees, shear to 0.3, shift to 0.3 of the side."""
    amount = sign * (level * 0.3 / 10)
    if move == "rotate":
        angle = -math.radians(sign * (level * 30 // 10))
        cos, sin, x, y = round(math.cos(angle), 15), round(math.sin(angle), 15), width / 2, height / 2
        return (cos, sin, cos * -x + sin * -y + x, -sin, cos, -sin * -x + cos * -y + y)
    return {
        "shear_x": (1, amount, 0, 0, 1, 0),
        "shear_y": (1, 0, 0, amount, 1, 0),
        "translate_x": (1, 0, int(amount * width), 0, 1, 0),
        "translate_y": (1, 0, 0, 0, 1, int(amount * height)),
    }[move]


def _fixed(matrix: tuple[float, ...]) -> list[int]:
    """Convert to units of 1 / 65536, relative to the pixel centre."""
    a, b, c, d, e, f = matrix
    return [math.floor(v * _ONE + 0.5) for v in (a, b, c + a * 0.5 + b * 0.5, d, e, f + d * 0.5 + e * 0.5)]
