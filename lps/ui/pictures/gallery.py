"""A contact sheet: many pictures as one image; each can be opened, and some can be ticked."""

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from lps.charts.palette import DARK, LIGHT
from lps.datasets import Images, as_image
from lps.datasets.readers.picture_references import PictureReferences
from lps.ui.pictures import kept_thumbnails
from lps.ui.pictures.thumbnails import fit_size
from lps.ui.server import components

_SCRIPT = components.read_files(__file__, "gallery.js")
EDGE = 72  # pixels on the screen of the longer side of a picture
FINE = 144  # pixels that a large picture keeps, for screens with two of them a pixel
TINY = 32  # pictures up to this side keep their pixels
_STYLE = f"""
.lps-sheet {{ display: flex; flex-wrap: wrap; gap: 10px 8px; --lps-wrong: light-dark({LIGHT.wrong}, {DARK.wrong}); }}
.lps-sheet-place {{ position: relative; }}
.lps-sheet-picture {{ display: block; padding: 0; border: 0; border-radius: 4px; cursor: pointer; font-size: 12px;
  background-color: var(--st-secondary-background-color); color: var(--st-text-color); }}
.lps-sheet-wrong .lps-sheet-picture {{ outline: 2px solid var(--lps-wrong); }}
.lps-sheet-open .lps-sheet-picture {{ outline: 3px solid var(--st-text-color); }}
.lps-sheet-chosen .lps-sheet-picture {{ outline: 3px solid var(--st-primary-color); }}
.lps-sheet-picture:focus-visible, .lps-sheet-mark:focus-visible {{ outline: 3px solid var(--st-primary-color);
  outline-offset: 2px; }}
.lps-sheet-mark {{ position: absolute; top: 4px; right: 4px; width: 20px; height: 20px; padding: 0; cursor: pointer;
  border: 1.5px solid #ffffff; border-radius: 50%; background: rgba(0, 0, 0, 0.35); color: transparent; opacity: 0;
  display: flex; align-items: center; justify-content: center; }}
.lps-sheet-mark::before {{ content: ""; width: 4px; height: 9px; margin-top: -3px; transform: rotate(45deg);
  border: solid currentColor; border-width: 0 2px 2px 0; }}
.lps-sheet-tile:hover .lps-sheet-mark, .lps-sheet-mark:focus-visible, .lps-sheet-chosen .lps-sheet-mark
  {{ opacity: 1; }}
@media (hover: none) {{ .lps-sheet-mark {{ opacity: 1; }} }}
.lps-sheet-chosen .lps-sheet-mark {{ background: var(--st-primary-color); color: #ffffff; }}
.lps-sheet-words {{ font-size: 12px; line-height: 16px; text-align: center; opacity: 0.75; overflow: hidden;
  overflow-wrap: anywhere; white-space: pre-wrap; max-height: 80px; font-variant-numeric: tabular-nums;
  margin-top: 3px; }}
"""

_mount = components.define_component(
    "lps_sheet", _SCRIPT, _STYLE, '<div class="lps-sheet"></div>', reports=["click", "chosen"]
)


@dataclass(frozen=True)
class Tile:
    """A picture on the sheet: image id, short lines below it, a sentence for screen readers, a warning frame."""

    id: int
    words: str
    alt: str
    wrong: bool = False


@dataclass(frozen=True)
class Choice:
    """Actions on a sheet: the image clicked since the last run, and the ticked images (on all its pages)."""

    clicked: int | None = None
    ticked: tuple[int, ...] = ()


def show_sheet(
    tiles: list[Tile],
    images: Images | None,
    key: str,
    token: str,
    alt: str,
    open_image: int | None = None,
    choosable: bool = True,
    edge: int = EDGE,
    noun: str = "image",
    ticked_at_first: Sequence[int] = (),
) -> Choice:
    """Show pictures in their own proportions; images: None if they cannot be read.

    token: ticks are reset when it changes. open_image: the opened picture. choosable: pictures can be ticked. edge:
    length of a picture's longer side on the screen, in pixels. noun: of one. ticked_at_first: ids.
    """
    ids = [tile.id for tile in tiles]
    picture, mime, fine = b"", "", max(FINE, edge)
    if images is not None and ids:
        picture, mime = make_contact_sheet(_small_pictures(images, ids, fine), fine=fine)
    sides = [(1, 1) if images is None else images.sides(image) for image in ids]
    header = {
        "token": token,
        "alt": alt,
        "noun": noun,
        "open": open_image,
        "choosable": choosable,
        "ticked": list(ticked_at_first),
        "mime": mime,
        "columns": count_columns(len(tiles)),
        "edge": edge,
        "pixelated": images is not None and max(images.pixels.shape[1:3]) <= TINY,
        "tiles": [vars(tile) | {"sides": fit_size(size, edge)} for tile, size in zip(tiles, sides)],
    }
    header["drawn"] = hashlib.sha256(json.dumps([header["tiles"], token]).encode() + picture).hexdigest()
    result = _mount(key=key, data=json.dumps(header).encode() + b"\n" + picture)
    return Choice(components.read_id(result.click), chosen_images(result.chosen, token, ticked_at_first))


def _small_pictures(images: Images, ids: list[int], side: int) -> np.ndarray:
    """Return uint8 (n, height, width, channels); pictures that stay in their files are kept with `side` pixels."""
    if not isinstance(images.pixels, PictureReferences):
        return images.pixels[ids]

    def shrink(image: int) -> tuple[np.ndarray, tuple[int, int]]:
        picture = as_image(images.pixels[image])
        if max(picture.size) > side:
            picture = picture.resize((side, side), Image.Resampling.LANCZOS)
        return np.asarray(picture), images.sides(image)

    def read_kept(image: int) -> np.ndarray:
        key = ("sheet", *kept_thumbnails.key_of_image(images, image, side))
        return kept_thumbnails.keep_pixels(key, lambda: shrink(image))[0]

    return np.stack([read_kept(image) for image in ids])


def chosen_images(reported, token: str, at_first: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the ticked image ids that the browser reports, ascending; `at_first` if it is of another sheet."""
    if not isinstance(reported, dict) or reported.get("token") != token or not isinstance(reported.get("ids"), list):
        return tuple(sorted(at_first))
    return tuple(sorted({image for image in reported["ids"] if components.read_id(image) is not None}))


def count_columns(count: int) -> int:
    """Return the pictures per row of the one image: about as many as there are rows, so that no side gets long."""
    return max(1, int(np.ceil(np.sqrt(count))))


def make_contact_sheet(pixels: np.ndarray, side: int | None = None, fine: int = FINE) -> tuple[bytes, str]:
    """Return (all pictures in rows of `columns(n)` as one image file, its MIME type). Small ones keep every pixel.

    side: length of the longer side, also of small pictures, which are enlarged smoothly. fine: pixels that a large
    picture keeps at most.
    """
    count, height, width, channels = pixels.shape
    small = side is None and max(height, width) <= TINY
    scale = 1 if small else side / max(width, height) if side else min(1, fine / max(width, height))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    across = count_columns(count)
    whole = Image.new("L" if channels == 1 else "RGB", (across * size[0], -(-count // across) * size[1]))
    for i, picture in enumerate(pixels):
        tile = as_image(picture)
        tile = tile if small else tile.resize(size, Image.Resampling.LANCZOS)
        whole.paste(tile, (i % across * size[0], i // across * size[1]))
    out = io.BytesIO()
    whole.save(out, "PNG") if small else whole.save(out, "JPEG", quality=88)
    return out.getvalue(), "image/png" if small else "image/jpeg"
