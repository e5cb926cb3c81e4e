"""Small pictures made of nothing but lines: the mark, the explanation on Home, a run's accuracies on a thumbnail.

Every function gives SVG text. No text from a run enters a drawing.
"""

from html import escape
from pathlib import Path

import numpy as np

from lps.ui.charts import gap_bands
from lps.ui.style import Palette

# The letters are outlines, so that no font is needed, and the colours stand out on light and on dark, since a change of
# theme in the browser does not draw the logo anew.
LOGO = Path(__file__).with_name("logo.svg").read_text(encoding="utf-8")
MARK = (
    LOGO[: LOGO.rindex("<path")].replace('viewBox="0 0 130 32" width="130"', 'viewBox="0 0 32 32" width="32"')
    + "</svg>"
)

LEFT, RIGHT, TOP, BOTTOM = 16, 472, 34, 196  # of the accuracy panel in `pace`
BRAKE_TOP, BRAKE_BOTTOM = 226, 272  # of the margin panel

# The names under which Streamlit hands its theme to components; the drawing follows a change of theme by itself.
SEEN, NOVEL, INK, LINE = (
    "var(--st-blue-color)",
    "var(--st-orange-color)",
    "var(--st-text-color)",
    "var(--st-border-color)",
)


def pace() -> str:
    """The idea, with made-up numbers: novel accuracy catches up with seen while the margin lets go.

    For the page itself, not for an image: its words take the page's font and its colours are the theme's.
    """
    time = np.linspace(0, 1, 61)
    seen = 0.94 - 0.5 * np.exp(-time * 14)
    novel = 0.12 + 0.79 / (1 + np.exp(-(time - 0.42) * 13))
    alone = 0.12 + 0.74 / (1 + np.exp(-(time - 0.62) * 11))
    brake = 0.15 + 0.85 * np.exp(-((time / 0.5) ** 2.6))
    x = LEFT + time * (RIGHT - LEFT)

    def high(values):
        return BOTTOM - values * (BOTTOM - TOP)

    gap = _line(np.concatenate([x, x[::-1]]), high(np.concatenate([seen, novel[::-1]])))
    height = np.concatenate([[0], brake, [0]]) * (BRAKE_BOTTOM - BRAKE_TOP)
    margin = _line(np.concatenate([[x[0]], x, [x[-1]]]), BRAKE_BOTTOM - height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 300" width="100%" role="img" '
        f'aria-label="{PACE_ALT}">',
        f'<path d="{gap}Z" fill="{SEEN}" opacity="0.13"/>',
        f'<path d="{margin}Z" fill="{INK}" opacity="0.16"/>',
        _axis(BOTTOM),
        _axis(BRAKE_BOTTOM),
        _curve(x, high(alone), NOVEL, 'stroke-dasharray="2 7" opacity="0.75"'),
        _curve(x, high(seen), SEEN),
        _curve(x, high(novel), NOVEL),
        _words(LEFT, 20, "accuracy", 0.65),
        _words(RIGHT, 20, "a sketch of the idea, not measured", 0.65, more='text-anchor="end" font-style="italic"'),
        _words(RIGHT + 10, high(seen[-1]) - 2, "seen", color=SEEN, weight=600),
        _words(RIGHT + 10, high(novel[-1]) + 16, "novel", color=NOVEL, weight=600),
        _words(x[41], high(0.32), "novel, no margin", 0.65),
        _words(x[9], high(0.52), "the gap"),
        _words(x[2], BRAKE_BOTTOM - 12, "margin: holds back classes that are guessed most"),
        _words(RIGHT, BRAKE_BOTTOM + 20, "epochs", 0.65, more='text-anchor="end"'),
        "</svg>",
    ]
    return "".join(parts)


PACE_ALT = (
    "A sketch of the idea, not measured: seen accuracy rises at once and novel accuracy follows later, so that the gap "
    "between them closes, while the margin that holds back the classes that are guessed most becomes small. Without "
    "the margin novel accuracy rises later."
)


def sparkline(seen: list[float | None], novel: list[float | None], epochs: int, palette: Palette) -> str:
    """Seen and novel accuracy over `epochs` as two thin lines, 160 x 40; missing values leave gaps."""
    width, height, edge = 160, 40, 3
    lines = []
    for values, colour in ((seen, palette.seen), (novel, palette.novel)):
        x = edge + np.arange(len(values)) / max(epochs - 1, 1) * (width - 2 * edge)
        points = [(a, height - edge - v * (height - 2 * edge)) for a, v in zip(x, values) if v is not None]
        if points:
            across, down = np.array(points).T
            lines.append(_curve(across, down, colour, width=1.8))
            lines.append(f'<circle cx="{across[-1]:.1f}" cy="{down[-1]:.1f}" r="2.4" fill="{colour}"/>')
    base = f'<path d="M{edge} {height - 1}H{width - edge}" stroke="#8090a0" stroke-opacity="0.35"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        + base
        + "".join(lines)
        + "</svg>"
    )


def gap(seen: list[float], novel: list[float], palette: Palette) -> str:
    """Seen and novel accuracy over the epochs and the gap in the colour of who is ahead, 320 x 120, nought to one."""
    width, height, edge = 320, 120, 6
    x = np.linspace(edge, width - edge, len(seen))
    high = {"seen": np.array(seen), "novel": np.array(novel)}
    down = {name: _down(values, height, edge) for name, values in high.items()}
    parts = []
    for name, (across, values) in gap_bands(x, high["seen"], high["novel"]).items():
        band = _line(across, _down(values, height, edge))
        parts.append(f'<path d="{band}Z" fill="{getattr(palette, name)}" opacity="0.16"/>')
    for level in (edge, height / 2, height - edge):
        parts.append(f'<path d="M{edge} {level}H{width - edge}" stroke="#8090a0" stroke-opacity="0.25"/>')
    for name, y in down.items():
        parts.append(_curve(x, y, getattr(palette, name), width=2.6))
        parts.append(f'<circle cx="{x[-1]:.1f}" cy="{y[-1]:.1f}" r="4" fill="{getattr(palette, name)}"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        + "".join(parts)
        + "</svg>"
    )


def _down(values: np.ndarray, height: float, edge: float) -> np.ndarray:
    """Shares as distances from the upper edge of a picture."""
    return height - edge - values * (height - 2 * edge)


def _line(x, y) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y))


def _curve(x, y, colour: str, more: str = "", width: float = 3) -> str:
    return (
        f'<path d="{_line(x, y)}" fill="none" stroke="{colour}" stroke-width="{width}" '
        f'stroke-linecap="round" stroke-linejoin="round" {more}/>'
    )


def _axis(y: float) -> str:
    return f'<path d="M{LEFT} {y}H{RIGHT}" stroke="{LINE}" stroke-width="1.2"/>'


def _words(
    x: float, y: float, text: str, opacity: float = 1, color: str = INK, weight: int = 400, more: str = ""
) -> str:
    about = f'font-size="15" font-weight="{weight}" fill="{color}" opacity="{opacity}" {more}'
    return f'<text x="{x:.1f}" y="{y:.1f}" {about}>{escape(text)}</text>'
