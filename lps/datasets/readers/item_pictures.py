"""Display pictures for items that are not pictures: a picture file of the item, else its title, drawn when needed."""

import os
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from lps.datasets.readers.decoding import Unreadable, decode

SIDE = 144  # pixels: the largest display of a picture on a page
_EDGE, _LINES, _LONGEST = 7, 6, 400  # pixels around a text, its lines, and the characters that are used
_LETTERS, _TALL = (10, 14), 17  # characters per line for short and long titles; pixel height of letters for these
_SYSTEM_FONTS = (  # used if Pillow's own font, which is Latin, lacks letters of a title
    *("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "arial.ttf", "Arial Unicode.ttf"),
    *("NotoSansCJK-Regular.ttc", "wqy-zenhei.ttc", "msyh.ttc", "msgothic.ttc", "malgun.ttf", "PingFang.ttc"),
    *("NotoSansArabic-Regular.ttf", "NotoSansHebrew-Regular.ttf", "NotoSansDevanagari-Regular.ttf", "Nirmala.ttf"),
)
_PAPER, _INK = (246, 246, 243), (38, 38, 36)


class ItemPictures:
    """Behaves like an array, uint8 (n, 144, 144, 3), but holds texts and paths.

    titles: one text per item. files: a path below `folder` per item, "" for none; () if no item has one. A picture that
    is missing or cannot be read is drawn as its title.
    """

    dtype, ndim, nbytes = np.dtype(np.uint8), 4, 0

    def __init__(self, titles: Sequence[str], files: Sequence[str] = (), folder: Path = Path()):
        self.titles, self._files, self._folder = titles, files, folder

    def __len__(self) -> int:
        return len(self.titles)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self), SIDE, SIDE, 3

    def __getitem__(self, rows) -> np.ndarray:
        """Return one picture for a number, several for a slice or for numbers."""
        if np.ndim(rows) == 0 and not isinstance(rows, slice):
            return self._draw(int(rows))
        row_list = np.arange(len(self))[rows].tolist()
        return np.stack([self._draw(row) for row in row_list]) if row_list else np.zeros((0, SIDE, SIDE, 3), np.uint8)

    def take(self, rows: np.ndarray, axis: int = 0) -> "ItemPictures":
        """Return only these items, not drawn yet."""
        row_list = rows.tolist()
        files = [self._files[row] for row in row_list] if self._files else ()
        return ItemPictures([self.titles[row] for row in row_list], files, self._folder)

    def file(self, row: int) -> Path | None:
        """Return the picture file of an item; None if it has none."""
        path = self._folder / self._files[row] if self._files and self._files[row] else None
        return path if path is not None and os.path.isfile(path) else None  # accepts a name of any length

    def _draw(self, row: int) -> np.ndarray:
        path = self.file(row)
        if path is not None:
            try:
                return decode(path, SIDE)
            except Unreadable:
                pass
        return _draw_text(self.titles[row][:_LONGEST])


@lru_cache(maxsize=4096)
def _draw_text(text: str) -> np.ndarray:
    """Draw a text, large if it is short; an overlong one ends in an ellipsis. uint8 (144, 144, 3)."""
    few_letters, most_letters = _LETTERS
    letters = few_letters if len(text) <= few_letters * (_LINES - 3) else most_letters
    tall = _TALL * most_letters // letters
    font = _font(tall, text)
    if font is not _fonts(tall)[0]:  # letters of other fonts may be wider
        letters = max(1, min(letters, int((SIDE - 2 * _EDGE) * len(text) / font.getlength(text))))
    most_lines = _LINES if tall == _TALL else _LINES - 2
    lines = textwrap.wrap(text, letters, max_lines=most_lines, placeholder=" …")
    image = Image.new("RGB", (SIDE, SIDE), _PAPER)
    ImageDraw.Draw(image).multiline_text((_EDGE, _EDGE), "\n".join(lines), _INK, font, spacing=tall // 4, features=None)
    pixels = np.asarray(image)
    pixels.flags.writeable = False
    return pixels


def _font(tall: int, text: str) -> ImageFont.FreeTypeFont:
    """Return the font that comes with Pillow, or the first system font that has more of the text's letters."""
    letters = {letter for letter in text if not letter.isspace()}
    return max(_fonts(tall), key=lambda font: sum(_has(font, letter) for letter in letters))


@lru_cache(maxsize=4)
def _fonts(tall: int) -> tuple[ImageFont.FreeTypeFont, ...]:
    fonts = [ImageFont.load_default(tall)]
    for name in _SYSTEM_FONTS:
        with suppress(OSError):
            fonts.append(ImageFont.truetype(name, tall))
    return tuple(fonts)


@lru_cache(maxsize=1 << 14)
def _has(font: ImageFont.FreeTypeFont, letter: str) -> bool:
    """Return whether the font has a letter, that is, draws it differently from a character that no font has."""
    return bytes(font.getmask(letter)) != bytes(font.getmask("\U0010fffe"))
