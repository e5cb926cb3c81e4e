"""Small SVG drawings: the mark, the explanation on Home, a run's accuracies on a thumbnail.

Every function returns SVG text. No text from a run enters a drawing.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lps.charts.line_charts import gap_bands
from lps.charts.palette import Palette

# Letters are outlines, so that no font is needed. The colours have enough contrast on light and on dark, since a change
# of theme in the browser does not redraw the logo.
LOGO = Path(__file__).with_name("logo.svg").read_text(encoding="utf-8")
MARK = (
    LOGO[: LOGO.rindex("<path")].replace('viewBox="0 0 130 32" width="130"', 'viewBox="0 0 32 32" width="32"')
    + "</svg>"
)


def sparkline(seen: list[float | None], novel: list[float | None], epochs: int, palette: Palette) -> str:
    """Draw seen and novel accuracy over `epochs` as two thin lines, 160 x 40 pixels; missing values leave gaps."""
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
    return _svg(width, height, base, *lines)


def gap(seen: list[float], novel: list[float], palette: Palette, other_novel: Sequence[float] = ()) -> str:
    """Draw seen and novel accuracy from 0 to 1 and the gap in the colour of the higher one, 320 x 120 pixels.

    other_novel: novel accuracy of another run over as many epochs, dotted.
    """
    width, height, edge = 320, 120, 6
    x = np.linspace(edge, width - edge, len(seen))
    shares = {"seen": np.array(seen), "novel": np.array(novel)}
    y_by_group = {name: _distance_from_top(values, height, edge) for name, values in shares.items()}
    parts = []
    for name, (across, values) in gap_bands(x, shares["seen"], shares["novel"]).items():
        band = _path_data(across, _distance_from_top(values, height, edge))
        parts.append(f'<path d="{band}Z" fill="{getattr(palette, name)}" opacity="0.16"/>')
    for level in (edge, height / 2, height - edge):
        parts.append(f'<path d="M{edge} {level}H{width - edge}" stroke="#8090a0" stroke-opacity="0.25"/>')
    if len(other_novel):
        y = _distance_from_top(np.array(other_novel), height, edge)
        parts.append(_curve(x, y, palette.novel, 'stroke-dasharray="1 5"', width=2.6))
        parts.append(f'<circle cx="{x[-1]:.1f}" cy="{y[-1]:.1f}" r="3" fill="none" stroke="{palette.novel}"/>')
    for name, y in y_by_group.items():
        parts.append(_curve(x, y, getattr(palette, name), width=2.6))
        parts.append(f'<circle cx="{x[-1]:.1f}" cy="{y[-1]:.1f}" r="4" fill="{getattr(palette, name)}"/>')
    return _svg(width, height, *parts)


def labeled_gap(seen: list[float], novel: list[float], palette: Palette, other_novel: Sequence[float] = ()) -> str:
    """Draw `gap` with axes (epoch, accuracy) and a label at the end of every line, 400 x 170 pixels."""
    left_edge, top, width, height, edge = 34, 22, 320, 120, 6

    def text(label: str, x: float, y: float, colour: str, anchor: str = "end", weight: int = 400) -> str:
        style = f'font-family="sans-serif" font-size="11" font-weight="{weight}"'
        return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" {style}>{label}</text>'

    def end_label(label: str, values: Sequence[float], colour: str, dy: float) -> str:
        y = top + float(_distance_from_top(np.array(values[-1]), height, edge)) + dy
        return text(f"{label} {100 * values[-1]:.0f} %", left_edge + width - edge, y, colour, weight=600)

    first, last = left_edge + edge, left_edge + width - edge
    bottom = top + height + 14
    ticks = {share: top + float(_distance_from_top(np.array(share / 100), height, edge)) for share in (0, 50, 100)}
    parts = [text(f"{share} %", left_edge - 4, y + 4, palette.muted) for share, y in ticks.items()]
    epochs = {"1": first, "epoch": (first + last) / 2, str(len(seen)): last}
    parts += [text(label, x, bottom, palette.muted, "middle") for label, x in epochs.items()]
    parts.append(text("accuracy", 2, 11, palette.muted, "start"))
    parts += [end_label("Seen", seen, palette.seen, -10), end_label("Novel", novel, palette.novel, 18)]
    if len(other_novel):
        parts.append(end_label("Novel without margin", other_novel, palette.novel, 18))
    inner = gap(seen, novel, palette, other_novel).replace("<svg ", f'<svg x="{left_edge}" y="{top}" ', 1)
    return _svg(400, 170, inner, *parts)


def _svg(width: int, height: int, *parts: str) -> str:
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'


def _distance_from_top(values: np.ndarray, height: float, edge: float) -> np.ndarray:
    """Convert shares to distances from the upper edge of a drawing, in pixels."""
    return height - edge - values * (height - 2 * edge)


def _path_data(x, y) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y))


def _curve(x, y, colour: str, attributes: str = "", width: float = 3) -> str:
    return (
        f'<path d="{_path_data(x, y)}" fill="none" stroke="{colour}" stroke-width="{width}" '
        f'stroke-linecap="round" stroke-linejoin="round" {attributes}/>'
    )
