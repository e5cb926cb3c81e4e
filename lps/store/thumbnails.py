"""Small copies of a recording's training pictures, for users who do not have its data set.

`thumbnails.webp` is one sheet: the training pictures by ascending id, row by row, `ACROSS` in a row, each with a longer
side of at most `SIDE` pixels. Test pictures are not in it.
"""

import io
import os
from functools import lru_cache
from pathlib import Path

import numpy as np

from lps.data.split import Split
from lps.datasets import Images, as_image
from lps.datasets.readers.decoding import Unreadable, webp_size
from lps.errors import UserError
from lps.files.atomic import read_small, write_whole
from lps.store.runs import Run

FILE = "thumbnails.webp"
SIDE = 32  # pixels
ACROSS = 50  # pictures in a row
MAX_THUMBNAILS = 10_000  # pictures
_MAX_SHOWN = 5 * MAX_THUMBNAILS  # images with those that have no picture, each of which takes 3 kB
_QUALITY = 60  # of WebP: 2,000 photographs take 450 kB
_GREY = 127  # of pictures that are not in the sheet


def has_thumbnails(run: Run) -> bool:
    """Return whether the run is a recording with its own pictures."""
    return run.is_recorded and os.path.lexists(run.folder / FILE)


def write_thumbnails(folder: Path, images: Images, split: Split) -> None:
    """Write the sheet of the training pictures of `split`; raises `UserError` if there are too many."""
    from PIL import Image

    ids = split.training
    if len(ids) > MAX_THUMBNAILS:
        raise UserError("thumbnails", f"would be {len(ids):,} pictures; expected at most {MAX_THUMBNAILS:,}")
    height, width = images.pixels.shape[1:3]
    scale = min(1.0, SIDE / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    sheet = Image.new("RGB", (ACROSS * size[0], -(-len(ids) // ACROSS) * size[1]))
    for position, image in enumerate(ids.tolist()):
        tile = as_image(images.pixels[image])
        tile = tile if tile.size == size else tile.resize(size, Image.Resampling.LANCZOS)
        sheet.paste(tile, (position % ACROSS * size[0], position // ACROSS * size[1]))
    out = io.BytesIO()
    sheet.save(out, "WEBP", quality=_QUALITY, method=6)
    write_whole(folder / FILE, out.getvalue())


def read_thumbnails(run: Run, split: Split, targets: np.ndarray) -> Images:
    """Return the pictures of a recording by image id, grey if there is none. Raises `UserError` for a damaged sheet.

    targets: class id of every image, -1 unknown.
    """
    path = run.folder / FILE
    try:
        tiles = _read_tiles(path, path.stat().st_mtime_ns, len(split.training))
    except (OSError, ValueError, Unreadable):
        raise UserError(FILE, "is damaged") from None
    if len(targets) > _MAX_SHOWN:
        raise UserError(FILE, f"has {len(targets):,} images; expected at most {_MAX_SHOWN:,}")
    pixels = np.full((len(targets), *tiles.shape[1:]), _GREY, np.uint8)
    pixels[split.training] = tiles
    labels = np.where(targets < 0, -1, split.class_order[targets])
    names = tuple(
        split.class_names[class_index] for class_index in np.argsort(split.class_order[: len(split.class_names)])
    )
    return Images(pixels, labels, names, num_test=len(split.test))


@lru_cache(maxsize=4)
def _read_tiles(path: Path, mtime_ns: int, count: int) -> np.ndarray:
    """Return uint8 (count, height, width, 3) of the file; raises `ValueError`, `OSError`, `Unreadable`.

    mtime_ns: only for the cache. The header is checked before anything is decoded: no more pixels than `count` pictures
    have.
    """
    from PIL import Image

    data, rows = read_small(path), -(-count // ACROSS)
    width, height = webp_size(data[:30]) or (0, 0)
    side, remainder = divmod(width, ACROSS)
    tall, row_remainder = divmod(height, max(rows, 1))
    if remainder or row_remainder or not 0 < side <= SIDE or not 0 < tall <= SIDE or count > MAX_THUMBNAILS:
        raise ValueError("the size of the sheet does not match the number of pictures")
    with Image.open(io.BytesIO(data), formats=("WEBP",)) as image:
        sheet = np.asarray(image.convert("RGB"))
    if sheet.shape != (height, width, 3):
        raise ValueError("the file does not match its header")
    tiles = sheet.reshape(rows, tall, ACROSS, side, 3).swapaxes(1, 2).reshape(-1, tall, side, 3)
    return tiles[:count]
