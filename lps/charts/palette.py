"""All colours of the dashboard.

Seen is blue, novel is orange, both together are grey; the hues are distinguishable with common colour blindness.
"""

import colorsys
import functools
from dataclasses import astuple, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Palette:
    """The colours of one theme, as hex."""

    seen: str
    novel: str
    all: str
    ink: str  # text, and lines that belong to neither group
    muted: str  # axis labels, reference lines
    grid: str
    surface: str  # hover labels
    right: str
    wrong: str
    terms: tuple[str, ...]  # terms of the loss and steps of a sum
    groups: tuple[str, ...]  # curves of many groups: distinct for normal, protan, deutan and tritan eyes


LIGHT = Palette(
    seen="#1f6fb4",
    novel="#d9661f",
    all="#77808c",
    ink="#273142",
    muted="#657081",
    grid="#e4e8ee",
    surface="#ffffff",
    right="#2f8f83",
    wrong="#b3265e",
    terms=("#1f6fb4", "#d9661f", "#2f8f83", "#8a5fb0", "#b3265e", "#8c7a1e", "#4b5563", "#3aa6c9"),
    groups=("#2c369d", "#bf9d2f", "#2d948a", "#5e3600", "#959be0", "#c75537", "#9e0b5a", "#815ab1"),
)
DARK = Palette(
    seen="#5aa9e6",
    novel="#f59350",
    all="#97a1ae",
    ink="#dbe2ea",
    muted="#97a3b3",
    grid="#2b3442",
    surface="#1b222d",
    right="#5bc0b0",
    wrong="#ef6f9f",
    terms=("#5aa9e6", "#f59350", "#5bc0b0", "#b694dc", "#ef6f9f", "#d0bb55", "#a9b4c2", "#7fd4ef"),
    groups=("#2588f7", "#f2f047", "#a7f6fe", "#e2b66c", "#a2aaf8", "#d65b16", "#fd80ad", "#b45eb9"),
)
PAGE = f"<style>{(Path(__file__).parent / 'page.css').read_text(encoding='utf-8')}</style>"
_MAX_PAIRED = 96  # lines of one chart that change their colours with the theme


@functools.cache
def color_pairs() -> tuple[tuple[str, str], ...]:
    """Return every colour as (light, dark)."""
    light, dark = (
        [color for value in astuple(colors) for color in ([value] if isinstance(value, str) else value)]
        for colors in (LIGHT, DARK)
    )
    many = (many_colors(_MAX_PAIRED, colors) for colors in (LIGHT, DARK))
    return (*zip(light, dark, strict=True), *zip(*many, strict=True))


def many_colors(count: int, colors: Palette) -> list[str]:
    """Return `count` different colours: those of groups or, for more lines, hues a golden angle apart.

    Three levels of lightness separate hues that come close to each other. Lines differ in colour only, since dashes are
    unreadable in a legend.
    """
    if count <= len(colors.groups):
        return list(colors.groups[:count])
    steps = (0.66, 0.5, 0.8) if colors is DARK else (0.42, 0.3, 0.56)
    channels = [colorsys.hls_to_rgb((0.58 + 0.381966 * i) % 1, steps[i % 3], 0.65) for i in range(count)]
    return ["#" + "".join(f"{round(255 * channel):02x}" for channel in rgb) for rgb in channels]


def with_alpha(color: str, alpha: float) -> str:
    """Return a hex colour as rgba text."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def class_colors(seen: int, total: int, colors: Palette) -> list[str]:
    """Return a colour per class id: cool ones for seen, warm ones for novel classes, varied in hue and lightness."""
    return _ramp(seen, 0.70, 0.42, colors) + _ramp(total - seen, 0.14, -0.10, colors)


def _ramp(count: int, first_hue: float, last_hue: float, colors: Palette) -> list[str]:
    middle = 0.62 if colors is DARK else 0.45
    ramp = []
    for i in range(count):
        hue = first_hue + (last_hue - first_hue) * i / max(1, count - 1)
        lightness = middle + (0.1, -0.08, 0.0)[i % 3]
        channels = colorsys.hls_to_rgb(hue % 1, lightness, 0.72)
        ramp.append("#" + "".join(f"{round(255 * channel):02x}" for channel in channels))
    return ramp
