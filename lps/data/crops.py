"""Crops: the part of an image that a view shows, chosen per image for a whole batch at once.

Images are (n, channels, height, width). Shifts and flips move pixels and keep uint8. Resizing is a product of
matrices, rows @ image @ columns^T, with a triangle filter that widens when an image shrinks: PIL's bilinear.

Every choice is drawn from one seeded generator, one number per image: on the generator's device, then moved to the
images' device without synchronization.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

_GREY = 127


def draw_uniform(images: Tensor, low: float, high: float, generator: torch.Generator, *more: int) -> Tensor:
    """Return (n, *more) float32 numbers in [low, high), n the number of images."""
    numbers = torch.rand((len(images), *more), generator=generator, device=generator.device)
    return (numbers * (high - low) + low).to(images.device, non_blocking=True)


def draw_booleans(images: Tensor, probability: float, generator: torch.Generator) -> Tensor:
    """Return (n,) booleans, each True with `probability`."""
    return draw_uniform(images, 0, 1, generator) < probability


def _draw_positions(images: Tensor, count: Tensor | int, generator: torch.Generator) -> Tensor:
    """Return (n,) integers in 0 .. count-1; `count` is one number or one per image."""
    return (draw_uniform(images, 0, 1, generator) * count).long().clamp(max=count - 1)


def per_image(numbers: Tensor) -> Tensor:
    """Reshape (n,) to (n, 1, 1, 1), to broadcast over images."""
    return numbers.view(-1, 1, 1, 1)


def random_shift(images: Tensor, generator: torch.Generator, *, border: str) -> Tensor:
    """Flip every image with probability 1/2, then move it by up to an eighth of its sides (4 of 32 pixels).

    The same as padding by an eighth and cropping at a random position. `border` says what fills the
    padding: "zeros", or "reflect" for the image mirrored without its edge.
    """
    height, width = images.shape[-2:]
    pad_y, pad_x = height // 8, width // 8
    rows = _window(images, height, pad_y, generator)
    columns = _window(images, width, pad_x, generator)
    if border == "zeros":
        images = F.pad(images, (pad_x, pad_x, pad_y, pad_y))
        rows, columns = rows + pad_y, columns + pad_x
    else:
        rows, columns = _mirrored(rows, height), _mirrored(columns, width)
    columns = torch.where(draw_booleans(images, 0.5, generator).view(-1, 1), columns.flip(1), columns)
    return pixels_at(images, rows.unsqueeze(2), columns.unsqueeze(1))


def pixels_at(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return images whose pixel (y, x) is the old one at (rows, columns)[i, y, x]; integers, (n, h, w) or broadcast."""
    n, channels, _, width = images.shape
    source = (rows * width + columns).long()
    index = source.flatten(1).unsqueeze(1).expand(-1, channels, -1)
    return images.flatten(2).gather(2, index).view(n, channels, *source.shape[1:])


def random_cutout(images: Tensor, generator: torch.Generator) -> Tensor:
    """Put a grey rectangle over half of each image's sides, drawn as in FixMatch: 16 of 32 pixels and one more.

    A rectangle beyond the top or left edge is moved inward; the bottom and right edge cut it off. The
    extra pixel comes from PIL's rectangles, which include both ends.
    """
    height, width = images.shape[-2:]
    hidden_y = _strip(images, height, generator).unsqueeze(2)
    hidden_x = _strip(images, width, generator).unsqueeze(1)
    hidden = (hidden_y & hidden_x).unsqueeze(1).to(torch.uint8)
    return images * (1 - hidden) + _GREY * hidden  # a tenth of the time of masked_fill on a CPU


def resized_crop(
    images: Tensor,
    generator: torch.Generator,
    *,
    scale: tuple[float, float],
    size: int | None = None,
    sizes: Tensor | None = None,
) -> Tensor:
    """Crop a random rectangle of each image, resize it to `size` x `size` (or the old sides), and flip half of them.

    Area uniform in `scale` times the image's, log aspect uniform from 3/4 to 4/3, position uniform; whole pixels, ten
    tries and then the largest allowed central rectangle, as torchvision's RandomResizedCrop. float32 in [0, 1].

    sizes: int64 (n, 2), height and width of the images before they were squeezed into squares; the
    rectangles are drawn at these proportions.
    """
    height, width = images.shape[-2:]
    top, left, tall, wide = random_boxes(images, generator, scale=scale, sizes=sizes)
    if sizes is not None:
        shrunk_y, shrunk_x = (side / own_side for side, own_side in zip((height, width), sizes.unbind(1)))
        top, tall, left, wide = top * shrunk_y, tall * shrunk_y, left * shrunk_x, wide * shrunk_x
    rows = resize_matrices(top, tall, height, size or height)
    columns = resize_matrices(left, wide, width, size or width, mirror=draw_booleans(images, 0.5, generator))
    return apply_matrices(images.float().div_(255), rows, columns).clamp_(0, 1)


def random_boxes(
    images: Tensor, generator, *, scale: tuple[float, float], sizes: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return (top, left, height, width) of the rectangles of `resized_crop`, each int64 (n,)."""
    height, width = _sides(images, sizes)
    log_limit = math.log(4 / 3)
    area = draw_uniform(images, *scale, generator, 10) * (height * width)
    aspect = torch.exp(draw_uniform(images, -log_limit, log_limit, generator, 10))
    wide, tall = torch.sqrt(area * aspect).round().long(), torch.sqrt(area / aspect).round().long()
    is_inside = (wide >= 1) & (wide <= width) & (tall >= 1) & (tall <= height)
    first = is_inside.int().argmax(dim=1, keepdim=True)
    is_inside, wide, tall = (values.gather(1, first).squeeze(1) for values in (is_inside, wide, tall))
    height, width = height.squeeze(1), width.squeeze(1)
    whole_tall, whole_wide = torch.minimum(height, _four_thirds(width)), torch.minimum(width, _four_thirds(height))
    wide, tall = torch.where(is_inside, wide, whole_wide), torch.where(is_inside, tall, whole_tall)
    top = _draw_positions(images, height - tall + 1, generator)
    left = _draw_positions(images, width - wide + 1, generator)
    top = torch.where(is_inside, top, (height - whole_tall) // 2)
    left = torch.where(is_inside, left, (width - whole_wide) // 2)
    return top, left, tall, wide


def resize_matrices(
    start: Tensor, length: Tensor, old: int, new: int, mirror: Tensor | None = None, is_cut: bool = True
) -> Tensor:
    """Return matrices (n, new, old) that map pixels start .. start+length-1 (each (n,)) of a side of `old` to `new`.

    Row i is a triangle around (i + 1/2) length / new with half-width max(1, length / new), sum 1. It is limited to the
    pixels of the window, unless `is_cut` is False: then the whole side is resized first and the window cut
    from the result. Start and length may be fractional. The order of the rows is reversed where `mirror` (n,) is True.
    """
    column = torch.arange(old, device=start.device)
    ratio = (length / new).view(-1, 1, 1)
    new_place = torch.arange(new, device=start.device).view(-1, 1) + 0.5
    if mirror is not None:
        new_place = torch.where(mirror.view(-1, 1, 1), new - new_place, new_place)
    centre = start.view(-1, 1, 1) + new_place * ratio
    weight = (1 - (column + 0.5 - centre).abs() / ratio.clamp(min=1)).clamp(min=0)
    if is_cut:
        inside = (column + 1 > start.view(-1, 1)) & (column < (start + length).view(-1, 1))
        weight = weight * inside.unsqueeze(1)
    return weight / weight.sum(dim=2, keepdim=True)


def apply_matrices(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return rows @ image @ columns^T per channel: float images (n, c, h, w) with (n, H, h) and (n, W, w).

    Two products per image for any number of channels: channels are concatenated horizontally, then vertically.
    """
    n, channels, height, width = images.shape
    side_by_side = images.transpose(1, 2).reshape(n, height, channels * width)
    tall = torch.bmm(rows, side_by_side).view(n, -1, width)
    product = torch.bmm(tall, columns.transpose(1, 2))
    return product.view(n, rows.shape[1], channels, -1).transpose(1, 2).contiguous()


def central_crop(images: Tensor, *, short_side: int, size: int, sizes: Tensor | None = None) -> Tensor:
    """Resize the shorter side to `short_side` pixels, then crop the `size` x `size` centre; float32 in [0, 1].

    sizes: as in `resized_crop`.
    """
    if sizes is not None:
        return _central_of_squeezed(images, sizes, short_side, size)
    out = images.float().div_(255)
    height, width = images.shape[-2:]
    if min(height, width) != short_side:
        ratio = short_side / min(height, width)
        new_size = (max(short_side, int(height * ratio)), max(short_side, int(width * ratio)))
        out = F.interpolate(out, new_size, mode="bilinear", antialias=True).clamp_(0, 1)
    top, left = (round((side - size) / 2) for side in out.shape[-2:])
    return out[..., top : top + size, left : left + size].contiguous()


def random_crop(
    images: Tensor, generator: torch.Generator, *, short_side: int, size: int, sizes: Tensor | None = None
) -> Tensor:
    """Resize the shorter side to `short_side` pixels, crop a random `size` x `size` window, flip with probability 1/2.

    As torchvision's Resize, RandomCrop and RandomHorizontalFlip; float32 in [0, 1]. sizes: as in `resized_crop`.
    """
    own_sizes = torch.cat(_sides(images, sizes), dim=1)
    target_sizes = own_sizes * short_side // own_sizes.amin(dim=1, keepdim=True)
    windows = []
    for axis, side in enumerate(images.shape[-2:]):
        start = _draw_positions(images, target_sizes[:, axis] - size + 1, generator)
        ratio = side / target_sizes[:, axis]
        windows.append((start * ratio, size * ratio, side))
    mirror = draw_booleans(images, 0.5, generator)
    rows, columns = (
        resize_matrices(start.float(), length.float(), side, size, flip, is_cut=False)
        for (start, length, side), flip in zip(windows, (None, mirror))
    )
    return apply_matrices(images.float().div_(255), rows, columns).clamp_(0, 1)


def _central_of_squeezed(images: Tensor, sizes: Tensor, short_side: int, size: int) -> Tensor:
    """Apply `central_crop` to squeezed images in one step; positions as in torchvision's Resize and CenterCrop."""
    target_sizes = sizes * short_side // sizes.amin(dim=1, keepdim=True)
    start = ((target_sizes - size).double() / 2).round()
    matrices = []
    for axis, side in enumerate(images.shape[-2:]):
        first = (start[:, axis] * side / target_sizes[:, axis]).float()
        matrices.append(resize_matrices(first, size * side / target_sizes[:, axis], side, size, is_cut=False))
    rows, columns = matrices
    return apply_matrices(images.float().div_(255), rows, columns).clamp_(0, 1)


def _sides(images: Tensor, sizes: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return height and width of every image, int64 (n, 1) each."""
    if sizes is not None:
        return sizes[:, :1], sizes[:, 1:]
    height, width = (torch.full((len(images), 1), side, device=images.device) for side in images.shape[-2:])
    return height, width


def _four_thirds(sides: Tensor) -> Tensor:
    return (sides.double() * 4 / 3).round().long()


def _window(images: Tensor, side: int, padding: int, generator) -> Tensor:
    """Return (n, side) positions of a window of `side` pixels, moved by -padding .. padding."""
    start = _draw_positions(images, 2 * padding + 1, generator) - padding
    return start.view(-1, 1) + torch.arange(side, device=images.device)


def _mirrored(positions: Tensor, side: int) -> Tensor:
    """Reflect positions outside of 0 .. side-1 at the first and last pixel."""
    return side - 1 - (side - 1 - positions.abs()).abs()


def _strip(images: Tensor, side: int, generator) -> Tensor:
    """Return (n, side) booleans: a strip of half the side and a pixel, from half of that before a uniform place on."""
    half = side // 2
    start = (draw_uniform(images, 0, side, generator) - half / 2).clamp(min=0).long().view(-1, 1)
    column = torch.arange(side, device=images.device)
    return (column >= start) & (column <= start + half)
