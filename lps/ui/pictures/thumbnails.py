"""Small copies of images: scaled, framed, side by side."""

import io

import numpy as np
from PIL import Image

from lps.datasets import Images, as_image

FRAME = 3
_THINNEST = 8  # of the longer side the part that the shorter one has at least, so that it can be seen and clicked


def fit_size(sides: tuple[int, int], longest: int) -> tuple[int, int]:
    """Return (height, width) of the same proportions whose longer side has `longest` pixels."""
    height, width = (max(round(longest * side / max(sides)), -(-longest // _THINNEST)) for side in sides)
    return height, width


def make_thumbnail(pixels: np.ndarray, size: int, sides: tuple[int, int] | None = None) -> np.ndarray:
    """Return an image as uint8 RGB whose longer side is `size`: small ones keep their pixels, large ones are averaged.

    sides: height and width that give its proportions; None for those of its pixels.
    """
    image = as_image(pixels).convert("RGB")
    resample = Image.Resampling.NEAREST if max(pixels.shape[:2]) <= size else Image.Resampling.LANCZOS
    height, width = fit_size(sides or pixels.shape[:2], size)
    return np.asarray(image.resize((width, height), resample))


def add_frame(pixels: np.ndarray, color: str) -> np.ndarray:
    """Add a frame in `color` (hex) around a thumbnail."""
    rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)], np.uint8)
    frame = np.broadcast_to(rgb, (pixels.shape[0] + 2 * FRAME, pixels.shape[1] + 2 * FRAME, 3)).copy()
    frame[FRAME:-FRAME, FRAME:-FRAME] = pixels
    return frame


def join_tiles(tiles: list[np.ndarray], side: int, gap: int = 0, edge: int = 0) -> np.ndarray:
    """Return tiles in a row as RGBA, each in the middle of a transparent square of `side` pixels.

    No tile is larger than the square. `gap` transparent pixels separate the squares and `edge` pixels surround the row.
    """
    row = np.zeros((side, 2 * edge + len(tiles) * (side + gap) - gap, 4), np.uint8)
    for i, tile in enumerate(tiles):
        height, width = tile.shape[:2]
        top, left = (side - height) // 2, edge + i * (side + gap) + (side - width) // 2
        row[top : top + height, left : left + width] = np.dstack([tile, np.full((height, width), 255, np.uint8)])
    return row


def square_picture(images: Images, image: int, side: int) -> np.ndarray:
    """Return one image in the middle of a transparent square of `side` pixels, as RGBA."""
    return join_tiles([make_thumbnail(images.pixels[image], side, images.sides(image))], side)


def encode_png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()
