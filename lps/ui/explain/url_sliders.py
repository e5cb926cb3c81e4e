"""Sliders whose value is stored in the page's URL, so that a link reproduces what the sender saw.

The URL is read when the page is entered and written afterwards. While a slider is dragged, the browser's URL is
outdated; reading it again would reset the slider.
"""

import math

import streamlit as st

from lps.ui.shared import url_fields


def url_slider(label: str, name: str, low: float, high: float, usual: float, step: float, **options) -> float:
    """Show a slider from low to high; the URL stores its value under `name` unless it is the default.

    Values are ints if low, high, default and step are, otherwise floats. An untouched dial follows a default that
    changes. options: those of `st.slider`.
    """
    key = f"dial_{name}"
    if key not in st.session_state:
        value = _read_value(name, low, high, usual)
    else:
        value = st.session_state[key]
        value = usual if value == st.session_state.get(f"{key}_usual") else min(max(value, low), high)
    st.session_state[f"{key}_usual"] = usual
    url_fields.set_widget(
        key, value
    )  # a value that is assigned, even the same one, stops a slider that is being dragged
    value = st.slider(label, low, high, key=key, step=step, **options)
    write_value(name, None if value == usual else value)
    return value


def _read_value(name: str, low: float, high: float, usual: float) -> float:
    """Return the number under `name` in the URL, within its limits; the default if there is none."""
    try:
        value = float(st.query_params.get(name, ""))
    except ValueError:
        return usual
    if not math.isfinite(value):
        return usual
    return type(usual)(min(max(value, low), high))


def write_value(name: str, value: float | None) -> None:
    """Store `value` under `name` in the URL; remove it for None."""
    url_fields.set_values(name, None if value is None else f"{value:g}")


def reset_sliders(*names: str) -> None:
    """Reset the dials to their defaults; call this before they are drawn."""
    for name in names:
        st.query_params.pop(name, None)
        st.session_state.pop(f"dial_{name}", None)
