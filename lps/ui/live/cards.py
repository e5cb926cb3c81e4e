"""Cards: a number with its name, above the curve of its earlier values.

`st.metric` draws such curves with Vega, a library of a megabyte that nothing else here needs. These curves are a few
thousand bytes of SVG, in a grey that is visible on light and on dark backgrounds.
"""

from collections.abc import Sequence
from html import escape
from urllib.parse import quote

import numpy as np
import streamlit as st

from lps.charts.palette import DARK, LIGHT

_WIDTH, _HEIGHT, _EDGE = 200, 40, 2  # units of the drawing; it is stretched to the card's width
MAX_POINTS = 400  # corners of a line
_STYLE = f"""
.lps-cards {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: 1rem; }}
.lps-card {{ border: 1px solid light-dark({LIGHT.grid}, {DARK.grid}); border-radius: 0.5rem; overflow: hidden; }}
.lps-card .name {{ padding: 1rem 1rem 0; font-size: 0.875rem; }}
.lps-card .number {{ padding: 0.25rem 1rem 1rem; font-size: 1.625rem; line-height: 1.3; white-space: nowrap; }}
.lps-card img {{ display: block; width: calc(100% + 2rem); height: 2.9rem;
  margin: 1.4rem -1rem 0.75rem; max-width: none; }}
"""


def show_cards(cards: Sequence[tuple[str, str, Sequence[float]]]) -> None:
    """Show cards of (name, number as text, its values over time); a card with values has room for their curve."""
    has_lines = any(len(values) for *_, values in cards)
    with st.container(key="cards-with-lines" if has_lines else "cards"):  # page.css keeps room for those with lines
        st.html(f'<style>{_STYLE}</style><div class="lps-cards">{"".join(_render_card(*card) for card in cards)}</div>')


def _render_card(name: str, number: str, values: Sequence[float]) -> str:
    drawing = ""
    if len(values):
        drawing = f'<img alt="" src="data:image/svg+xml,{quote(_render_line(values))}">'
    content = f'<div class="name">{escape(name)}</div><div class="number">{escape(number)}{drawing}</div>'
    return f'<div class="lps-card">{content}</div>'


def _render_line(values: Sequence[float]) -> str:
    box = f'viewBox="0 {-_EDGE} {_WIDTH} {_HEIGHT + 2 * _EDGE}" preserveAspectRatio="none"'
    stroke = f'fill="none" stroke="{LIGHT.all}" stroke-width="2" stroke-linejoin="round"'
    path = f'<path d="{line_path(values)}" {stroke} vector-effect="non-scaling-stroke"/>' if len(values) > 1 else ""
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{path}</svg>'


def line_path(values: Sequence[float]) -> str:
    """Return the path from the first value at the left edge to the last at the right one, scaled to the full height.

    Of more than `MAX_POINTS` values, it has the lowest and highest of each stretch of neighbours.
    """
    heights = np.asarray(values, float)
    positions = np.arange(len(heights))
    if len(heights) > MAX_POINTS:
        parts = np.array_split(positions, MAX_POINTS // 2)
        positions = np.unique([part[pick(heights[part])] for part in parts for pick in (np.argmin, np.argmax)])
    low, high = heights.min(), heights.max()
    shares = (heights[positions] - low) / (high - low) if high > low else np.full(len(positions), 0.5)
    y = _HEIGHT * (1 - shares)
    x = _WIDTH * positions / (len(heights) - 1)
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))
