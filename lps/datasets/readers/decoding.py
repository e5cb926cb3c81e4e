"""Decode one picture, a file or its bytes, to a square of uint8 RGB, in bounded memory.

The header is read first and shows how much memory decoding takes: too much is refused, and threads share the budget.
"""

import io
import math
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from lps.wording import data_size

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_ORIENTATION, _SIDEWAYS = 0x0112, (5, 6, 7, 8)  # EXIF tag, and its values for a sideways camera
_BUDGET = 512 << 20  # bytes that all pictures being decoded may take together
_MAX_BYTES = 800_000_000  # bytes that a single picture may take
LONGEST = 400_000_000  # bytes of a file: more than the largest uncompressed picture
_HEAD = 16 << 20  # bytes of a file before the first pixel
LARGE = 16_000_000  # pixels from which a picture is first reduced strip by strip
STRIP = 4_000_000  # pixels of a strip, about
_SLOW = {"ppm", "ppm_plain", "bmp_rle"}  # decoders that process single pixels in Python
_MAX_SLOW_PIXELS = 4_000_000  # pixels for them: some seconds
_DEEP_MODES = ("I;16", "I;16L", "I;16B", "I;16N", "I")  # 16-bit grey modes
_A_WEBP_PIXEL = 16  # bytes: two canvases of the decoder, its output, and the picture
_ROWS_PER_STRIP, _TILE_WIDTH, _TILE_LENGTH, _BITS = 278, 322, 323, 258  # of a TIFF


class Unreadable(Exception):
    """A file that is not a readable picture; the message is the reason."""


class _Room:
    """Memory that threads share: a request beyond the free rest waits, and one beyond the total runs alone."""

    def __init__(self, size: int):
        self._size, self._left, self._changed = size, size, threading.Condition()

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        size = min(size, self._size)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= size)
            self._left -= size
        try:
            yield
        finally:
            with self._changed:
                self._left += size
                self._changed.notify_all()


_ROOM = _Room(_BUDGET)


Source = Path | bytes  # a picture file, or its content


def decode(source: Source, size: int, width: int | None = None) -> np.ndarray:
    """Decode one picture as uint8 (size, width or size, 3): EXIF-rotated, short side resized, centre cropped.

    Transparent parts become white, 16-bit greys keep their upper half; the first frame of several is used. Raises
    `Unreadable`.
    """
    with _opened(source, max(size, width or 0)) as (image, _):
        return np.asarray(ImageOps.fit(image, (width or size, size), Image.Resampling.BICUBIC))


def squeezed(source: Source, size: int) -> tuple[np.ndarray, tuple[int, int]]:
    """Decode one picture whole, both sides resized to `size`, bilinear; also returns its own height and width."""
    with _opened(source, size) as (image, (height, width)):
        return np.asarray(image.resize((size, size), Image.Resampling.BILINEAR)), (height, width)


@contextmanager
def _opened(source: Source, size: int) -> Iterator[tuple[Image.Image, tuple[int, int]]]:
    """Return a picture as RGB, of at least `size` pixels a side if it has them; and its own height and width."""
    try:
        needed = _needed_bytes(source, size)
        if needed > _MAX_BYTES:
            limit = f"expected at most {data_size(_MAX_BYTES)}: save it smaller"
            raise Unreadable(f"would take {data_size(needed)} of memory to decode; {limit}")
        with _ROOM.taken(needed):
            yield _turned(source, size)
    except Unreadable:
        raise
    except FileNotFoundError:
        raise Unreadable("was not found") from None
    except UnidentifiedImageError:
        raise Unreadable("is not a picture of a known format") from None
    except MemoryError:
        raise Unreadable("does not fit in memory") from None
    except Exception:  # a damaged file can make a decoder fail in any way
        raise Unreadable("cannot be decoded: it is cut short or damaged") from None


def _turned(source: Source, size: int) -> tuple[Image.Image, tuple[int, int]]:
    """Return the same as `_opened`; a large picture is released once it is reduced."""
    named = _stream(source) if isinstance(source, bytes) else source  # Pillow maps a file if it knows its name
    with Image.open(named, formats=_FORMATS) as image:
        width, height = image.size
        image.draft(None, (2 * size, 2 * size))  # decodes a JPEG at a fraction of its size if that suffices
        image.load()
        if image.format == "TIFF":  # rotated while it is loaded
            width, height = image.size
        orientation = image.getexif().get(_ORIENTATION)
        reduced = _rgb(image) if image.width * image.height < LARGE else _shrunk(image, size)
        if reduced is not image:
            image.close()
        reduced.getexif()[_ORIENTATION] = orientation or 1
        ImageOps.exif_transpose(reduced, in_place=True)
        return reduced, (width, height) if orientation in _SIDEWAYS else (height, width)


# ------------------------------------------------------------------------------------------------ before decoding


def _stream(source: Source) -> BinaryIO:
    return io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb")


def _needed_bytes(source: Source, size: int) -> int:
    """Estimate the bytes for decoding a picture and converting it to RGB from its header; raises `Unreadable`."""
    with _stream(source) as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(0)
        if length > LONGEST:
            raise Unreadable(f"is a file of {data_size(length)}; expected at most {data_size(LONGEST)}")
        webp = webp_size(file.read(30))  # Pillow would decode a WebP on opening it
        if webp is not None:
            return length + _A_WEBP_PIXEL * _checked_pixels(*webp)
        file.seek(0)
        with Image.open(_Head(file), formats=_FORMATS) as image:
            pixels = _checked_pixels(*image.size)
            if pixels > _MAX_SLOW_PIXELS and any(tile[0] in _SLOW for tile in image.tile):
                raise Unreadable(
                    f"has {image.width} x {image.height} pixels in a format that decodes slowly; expected at "
                    f"most {_MAX_SLOW_PIXELS:,}: save it as PNG"
                )
            decoder_bytes = _decoder_bytes(image, length)
            image.draft(None, (2 * size, 2 * size))
            return decoder_bytes + _loaded(image)


def _checked_pixels(width: int, height: int) -> int:
    if width * height > Image.MAX_IMAGE_PIXELS:  # Pillow itself refuses only twice as many
        raise Unreadable(f"has {width} x {height} pixels, more than Pillow considers safe")
    return width * height


def _loaded(image: Image.Image) -> int:
    """Return the bytes of the pixels and of the conversion to RGB."""
    pixels = image.width * image.height
    a_pixel = 1 if image.mode in ("1", "L", "P") else 2 if image.mode.startswith("I;16") else 4
    return pixels * a_pixel + 16 * (pixels if pixels < LARGE else STRIP)


def _decoder_bytes(image: Image.Image, length: int) -> int:
    """Return the decoder's bytes besides the pixels of an image that is not loaded; length: bytes of the file."""
    pixels = image.width * image.height
    if image.format in ("JPEG", "MPO"):  # the coefficients of all pixels, if there are several scans
        return length + 2 * len(image.getbands()) * pixels
    if image.format == "TIFF":
        turned = 4 * pixels if image.tag_v2.get(_ORIENTATION, 1) != 1 else 0
        return turned if all(tile[0] == "raw" for tile in image.tile) else turned + length + _strip(image)
    return 0 if image.format in ("BMP", "PPM") else length


def _strip(image: Image.Image) -> int:
    """Return the bytes of a strip or tile of a compressed TIFF, including JPEG's coefficients."""
    tags, pixels = image.tag_v2, image.width * image.height
    rows = min(tags.get(_ROWS_PER_STRIP, image.height), image.height)
    tile = tags.get(_TILE_WIDTH, 0) * tags.get(_TILE_LENGTH, 0)
    bits = sum(tags.get(_BITS, (1,)))
    a_pixel = max(math.ceil(bits / 8), 2 * len(image.getbands()) if "jpeg" in str(image.info.get("compression")) else 0)
    return a_pixel * min(pixels, tile or rows * max(image.size))


class _Head:
    """A file of which only the beginning may be read; `OSError` beyond that."""

    def __init__(self, file: BinaryIO):
        self._file, self._left = file, _HEAD
        self.seek, self.tell, self.close = file.seek, file.tell, file.close

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self._left + 1 if size < 0 else min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise OSError(f"more than {_HEAD} bytes before the first pixel")
        return data


def webp_size(head: bytes) -> tuple[int, int] | None:
    """Return (width, height) from the first 30 bytes of a WebP, None for other files; raises `Unreadable`."""
    if head[:4] != b"RIFF" or head[8:12] != b"WEBP":
        return None
    kind = head[12:16]
    if len(head) == 30 and kind == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if len(head) == 30 and kind == b"VP8 ":
        width, height = struct.unpack("<HH", head[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if len(head) >= 25 and kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    raise Unreadable("cannot be decoded: it is cut short or damaged")


# ------------------------------------------------------------------------------------------------- making it small


def _shrunk(image: Image.Image, size: int) -> Image.Image:
    """Reduce a large picture to RGB by a whole number so that the short side keeps at least 4 x `size` pixels.

    Blocks of pixels are averaged; besides the picture itself only a strip of it is in memory.
    """
    factor = max(1, min(image.size) // (4 * size))
    reduced = Image.new("RGB", (-(-image.width // factor), -(-image.height // factor)))
    rows = factor * max(1, STRIP // (image.width * factor))
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(image.height, top + rows)))
        reduced.paste(_rgb(strip).reduce(factor), (0, top // factor))
    return reduced


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in _DEEP_MODES:
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise Unreadable("has grey values of more than 16 bits")
        return Image.fromarray((values >> 8).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise Unreadable("has grey values that are not whole numbers")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")
