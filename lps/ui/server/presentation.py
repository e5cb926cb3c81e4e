"""The dashboard for a room: `?present=1` at any page makes type and charts large, until it is switched off.

It holds for the visit, from page to page; the switch below the menu says whether it is on.
"""

from collections.abc import Mapping

import streamlit as st

from lps.ui.shared import url_fields

_ADDRESS = "present"  # in the address: "1", or nothing
_SWITCH = "presenting"
_FACTOR = 1.6  # of charts
_LENGTHS = ("height", "margin")  # of a layout, in pixels
_USUAL_FONT = 12  # pixels, where a figure says nothing
_STYLE = """<style>
html { font-size: 20px; }
@media (min-width: 1600px) { html { font-size: 26px; } }
[data-testid="stMainBlockContainer"] { max-width: none; padding: 4rem 3vw 1rem; }
h1 { font-size: 1.5rem !important; padding-block: 0 !important; }
</style>"""


def is_on() -> bool:
    return bool(st.session_state.get(_SWITCH))


def read_address() -> None:
    """Take what the address says; to be called before anything is drawn."""
    st.session_state[_SWITCH] = is_on() or st.query_params.get(_ADDRESS) == "1"


def show_presenting() -> None:
    """The switch, and what it does to a page."""
    st.sidebar.toggle("Projector mode", key=_SWITCH, on_change=_write_address)
    if is_on():
        st.html(_STYLE)


def chart_scale() -> float:
    """How many times as large charts are drawn now."""
    return _FACTOR if is_on() else 1.0


def scale_figure(figure: dict) -> dict:
    """A figure as JSON has it, in the size that is wanted now."""
    return enlarge_figure(figure, chart_scale()) if is_on() else figure


def _write_address() -> None:
    url_fields.set_values(_ADDRESS, "1" if is_on() else None)


def enlarge_figure(figure: Mapping, factor: float) -> dict:
    """A figure as plotly writes it to JSON, with fonts, lines, heights and margins `factor` times as large."""
    layout = dict(figure.get("layout", {}))
    layout["font"] = {"size": _USUAL_FONT} | dict(layout.get("font", {}))
    grown = _enlarge_value(dict(figure) | {"layout": layout}, "", factor)
    for name in _LENGTHS:
        if name in layout:
            grown["layout"][name] = _multiply(layout[name], factor)
    return grown


def _enlarge_value(value, name: str, factor: float):
    """`value`, which stands under `name`, with the sizes of fonts and the widths of lines in it enlarged."""
    if isinstance(value, Mapping):
        is_font, is_line = name.lower().endswith("font"), name.lower() == "line"
        grows = {"size": is_font, "width": is_line}
        return {
            k: _multiply(one, factor) if grows.get(k) else _enlarge_value(one, k, factor) for k, one in value.items()
        }
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Mapping):
        return [_enlarge_value(one, name, factor) for one in value]
    return value


def _multiply(value, factor: float):
    if isinstance(value, Mapping):
        return {key: _multiply(one, factor) for key, one in value.items()}
    return value * factor if type(value) in (int, float) else value
