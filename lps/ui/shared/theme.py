"""The browser's theme, and what follows from it; how high Streamlit draws a table."""

import streamlit as st

from lps.charts.palette import DARK, LIGHT, Palette
from lps.ui.server import presentation

_HEAD_PX, _ROW_PX = 37, 35  # of a table, borders included
BADGES = {
    "queued": ("Queued", "gray", ":material/schedule:"),
    "starting": ("Starting", "blue", ":material/hourglass_top:"),
    "running": ("Running", "blue", ":material/play_circle:"),
    "stopping": ("Stopping", "orange", ":material/hourglass_bottom:"),
    "unknown": ("Unknown", "orange", ":material/help:"),
    "finished": ("Finished", "green", ":material/check_circle:"),
    "stopped": ("Stopped", "gray", ":material/stop_circle:"),
    "failed": ("Failed", "red", ":material/error:"),
    "crashed": ("Crashed", "red", ":material/bolt:"),
    "recorded": ("Recorded", "violet", ":material/bookmark:"),
    "unreadable": ("Unreadable", "red", ":material/broken_image:"),
}


def current_theme() -> str:
    """The theme that the browser showed when the script began: light or dark."""
    return "dark" if st.context.theme.type == "dark" else "light"


def current_palette() -> Palette:
    """The colours of `theme()`."""
    return DARK if current_theme() == "dark" else LIGHT


def table_height(rows: int, most: int = 10**6) -> int | str:
    """Pixels of a table of so many rows, of which at most so many are in sight.

    To be said where the table stands at once: Streamlit keeps 40 pixels free until it knows, and what follows jumps. In
    a room rows are higher by what the window's width says, which the browser alone knows: it finds the height itself.
    """
    if presentation.is_on():
        return "content" if rows <= most else "auto"
    return _HEAD_PX + _ROW_PX * min(rows, most)


def state_badge(state: str) -> None:
    """The state of a run as a coloured word; "recorded" for recordings."""
    label, color, icon = BADGES[state]
    st.badge(label, color=color, icon=icon)
