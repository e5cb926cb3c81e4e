"""A folder of small drawn pictures, as a user with own pictures would have it: some sorted, the rest not."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SIDE = 48  # pixels
KINDS = ("disc", "square", "cross", "stripes", "rings")


def draw(kind: str, random: np.random.Generator) -> Image.Image:
    """Draw one picture: the shape of its kind, with random position, size and shade."""
    shade = tuple(int(value) for value in random.integers(150, 256, 3))
    image = Image.new("RGB", (SIDE, SIDE), tuple(int(value) for value in random.integers(0, 70, 3)))
    pen, radius = ImageDraw.Draw(image), int(random.integers(12, 18))
    x, y = (int(value) for value in random.integers(radius + 2, SIDE - radius - 2, 2))
    box = (x - radius, y - radius, x + radius, y + radius)
    if kind == "disc":
        pen.ellipse(box, shade)
    elif kind == "square":
        pen.rectangle(box, shade)
    elif kind == "cross":
        pen.line((box[0], y, box[2], y), shade, 7)
        pen.line((x, box[1], x, box[3]), shade, 7)
    elif kind == "stripes":
        for at in range(int(random.integers(0, 8)), SIDE, 8):
            pen.line((at, 0, at, SIDE), shade, 3)
    else:
        for inset in range(0, radius, 6):
            pen.ellipse((box[0] + inset, box[1] + inset, box[2] - inset, box[3] - inset), outline=shade, width=2)
    return image


def make(folder: Path, sorted_kinds: int = 2, each: int = 40, sorted_each: int = 15, seed: int = 0) -> Path:
    """Make `each` pictures per kind: `sorted_each` of the first kinds in their own folders, the others unlabeled."""
    random = np.random.default_rng(seed)
    (folder / "unlabeled").mkdir(parents=True)
    for number, kind in enumerate(KINDS):
        for i in range(each):
            is_sorted = number < sorted_kinds and i < sorted_each
            place = folder / kind if is_sorted else folder / "unlabeled"
            place.mkdir(exist_ok=True)
            draw(kind, random).save(place / (f"{i}.png" if is_sorted else f"{number * each + i:03d}.png"))
    return folder
