"""Sliders whose value stands in the page's address, so that a link shows what the sender saw.

The address is read when the page is entered and written afterwards. While a slider is dragged, the browser's address
lags behind it; a page that read it again would throw the slider back.
"""

import math

import streamlit as st

from lps.ui.shared import url_fields


def dial(label: str, name: str, low: float, high: float, usual: float, step: float, **options) -> float:
    """A slider from low to high; its value stands in the address under `name` unless it is the usual one.

    Values are ints where all of low, high, usual and step are, else floats. A dial that nobody moved follows a usual
    value that changes. options are those of `st.slider`.
    """
    key = f"dial_{name}"
    if key not in st.session_state:
        value = _reading(name, low, high, usual)
    else:
        value = st.session_state[key]
        value = usual if value == st.session_state.get(f"{key}_usual") else min(max(value, low), high)
    st.session_state[f"{key}_usual"] = usual
    url_fields.agree(key, value)  # a value that is assigned, even the same one, stops a slider that is being dragged
    value = st.slider(label, low, high, key=key, step=step, **options)
    write(name, None if value == usual else value)
    return value


def _reading(name: str, low: float, high: float, usual: float) -> float:
    """The number that the address gives under `name`, within its limits; the usual one where it gives none."""
    try:
        value = float(st.query_params.get(name, ""))
    except ValueError:
        return usual
    if not math.isfinite(value):
        return usual
    return type(usual)(min(max(value, low), high))


def write(name: str, value: float | None) -> None:
    """Let the address say `value` under `name`; nothing for None."""
    url_fields.put(name, None if value is None else f"{value:g}")


def reset(*names: str) -> None:
    """Back to the usual values; to be called before the dials are drawn."""
    for name in names:
        st.query_params.pop(name, None)
        st.session_state.pop(f"dial_{name}", None)
