"""Projector mode: `?present=1` in the URL of any page enlarges text and charts until it is switched off.

It stays on from page to page during a visit. The switch is below the menu, which the mode folds away, so a button at
the top of the page and Esc switch it off, too.
"""

import time
from collections.abc import Mapping

import streamlit as st

from lps.ui.shared import url_fields

_URL_FIELD = "present"  # "1", or absent
_SWITCH = "presenting"
_STYLED = "presenting_styled"  # in the session: the browser has the style
_STYLE_S = 0.3  # until it has: tables and icons read the size of the font once, when they appear
_HELP = "Text and charts are larger, and the menu is folded away. For full screen, also press F11 (Mac: Ctrl+Cmd+F)."
_FACTOR = 1.6  # of charts
_LENGTHS = ("height", "margin")  # of a layout, in pixels
_DEFAULT_FONT = 12  # pixels, if a figure sets no size
_STYLE = """<style>
html { font-size: 20px; }
@media (min-width: 1600px) { html { font-size: 26px; } }
[data-testid="stMainBlockContainer"] { max-width: none; padding: 4rem 3vw 1rem; }
.stHorizontalBlock > .stElementContainer:has(> .stSelectbox, > .stMultiSelect) { flex-grow: 1 !important; }
h1 { font-size: 1.5rem !important; padding-block: 0 !important; }
@media (min-width: 641px) { /* in the empty strip at the top, which is too narrow on a phone */
  .st-key-leave_presenting { position: fixed; top: 0.4rem; right: 4rem; z-index: 1000000; width: auto !important; }
}
</style>"""


def is_on() -> bool:
    return bool(st.session_state.get(_SWITCH))


def read_address() -> None:
    """Read the mode from the URL; call this before anything is drawn."""
    st.session_state[_SWITCH] = is_on() or st.query_params.get(_URL_FIELD) == "1"


def show_presenting() -> None:
    """Show the switch and, if it is on, enlarge the page."""
    st.sidebar.toggle("Projector mode", key=_SWITCH, on_change=_write_address, help=_HELP)
    if is_on():
        st.html(_STYLE)
        icon = ":material/close_fullscreen:"
        st.button("Leave projector mode", key="leave_presenting", icon=icon, shortcut="Esc", on_click=_leave)
        if not st.session_state.get(_STYLED):
            st.session_state[_STYLED] = True
            time.sleep(_STYLE_S)


def chart_scale() -> float:
    """Return the factor by which charts are enlarged."""
    return _FACTOR if is_on() else 1.0


def scale_figure(figure: dict) -> dict:
    """Return a figure, as decoded from JSON, in the current size."""
    return enlarge_figure(figure, chart_scale()) if is_on() else figure


def _leave() -> None:
    st.session_state[_SWITCH] = False
    _write_address()


def _write_address() -> None:
    url_fields.set_values(_URL_FIELD, "1" if is_on() else None)


def enlarge_figure(figure: Mapping, factor: float) -> dict:
    """Return a figure, as plotly writes it to JSON, with fonts, lines, heights and margins enlarged by `factor`."""
    layout = dict(figure.get("layout", {}))
    layout["font"] = {"size": _DEFAULT_FONT} | dict(layout.get("font", {}))
    enlarged = _enlarge_value(dict(figure) | {"layout": layout}, "", factor)
    for name in _LENGTHS:
        if name in layout:
            enlarged["layout"][name] = _multiply(layout[name], factor)
    return enlarged


def _enlarge_value(value, name: str, factor: float):
    """Enlarge sizes of fonts and widths of lines in `value`, which has the key `name`."""
    if isinstance(value, Mapping):
        is_font, is_line = name.lower().endswith("font"), name.lower() == "line"
        grows = {"size": is_font, "width": is_line}
        return {
            k: _multiply(part, factor) if grows.get(k) else _enlarge_value(part, k, factor) for k, part in value.items()
        }
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Mapping):
        return [_enlarge_value(part, name, factor) for part in value]
    return value


def _multiply(value, factor: float):
    if isinstance(value, Mapping):
        return {key: _multiply(part, factor) for key, part in value.items()}
    return value * factor if type(value) in (int, float) else value
