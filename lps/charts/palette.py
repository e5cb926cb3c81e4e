"""All colours of the dashboard.

Seen is blue, novel is orange, both together are grey; the hues are distinguishable with common colour blindness.
"""

import colorsys
import functools
from collections.abc import Collection, Mapping
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


def assign_colors(
    oldest_runs: Mapping[str, str], run_ids: Collection[str], colors: Palette, pinned: Mapping[str, str]
) -> dict[str, str]:
    """Return one colour per line, the same in all charts and on all pages with these runs.

    Lines take colours by the age of their oldest run; among few runs, each run has a colour and lends it to its line.
    No other line gets a pinned colour. oldest_runs: key of a line -> id of its oldest run. run_ids: of all runs; they
    begin with a time. pinned: key of a line -> its colour on a light ground.
    """
    dark_by_light = dict(color_pairs()) if colors is DARK else {}
    pinned_colors = {key: dark_by_light.get(pinned[key], pinned[key]) for key in oldest_runs if key in pinned}
    ordered_keys = sorted(oldest_runs, key=oldest_runs.get)
    default_colors = dict(zip(ordered_keys, many_colors(len(ordered_keys), colors)))
    if len(run_ids) <= len(colors.groups) and len({*oldest_runs.values()}) == len(oldest_runs):
        color_by_run = dict(zip(sorted(run_ids), colors.groups))
        default_colors = {key: color_by_run[run_id] for key, run_id in oldest_runs.items()}
    unused_colors = [default_colors[key] for key in pinned_colors if default_colors[key] not in pinned_colors.values()]
    unpinned_colors = {
        key: unused_colors.pop(0) if default_colors[key] in pinned_colors.values() else default_colors[key]
        for key in oldest_runs
        if key not in pinned_colors
    }
    return pinned_colors | unpinned_colors


def colors_of_runs(ids: Mapping[str, str], colors: Palette, pinned: Mapping[str, str]) -> dict[str, str]:
    """Return one colour per run, as `assign_colors`, by label. ids: label -> id of the run."""
    color_by_run = assign_colors({run_id: run_id for run_id in ids.values()}, ids.values(), colors, pinned)
    return {label: color_by_run[run_id] for label, run_id in ids.items()}


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
