"""The browser's theme and its colours, and the height of tables."""

import streamlit as st

from lps.charts.palette import DARK, LIGHT, Palette
from lps.tables import boards
from lps.ui.server import components, presentation

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
_WATCH = """
export default function ({ data, parentElement, setTriggerValue }) {
  const app = document.querySelector(".stApp");
  parentElement.seenTheme ??= data;  // the server's: the browser's may have changed while the page was drawn
  const tell = () => {
    const theme = getComputedStyle(app).colorScheme;
    if (theme === parentElement.seenTheme) return;
    setTriggerValue("theme", (parentElement.seenTheme = theme));
  };
  const observer = new MutationObserver(tell);
  observer.observe(app, { attributeFilter: ["class"] });
  tell();
  return () => observer.disconnect();
}
"""
_mount = components.define_component("lps_theme", _WATCH, reports=["theme"])


def pinned_colors() -> dict[str, str]:
    """Return the pinned colours in the URL by key of the line, as on a light background."""
    return boards.read_pins(st.query_params.get_all("pin")[: boards.MAX_IN_ADDRESS])


def redraw_on_change() -> None:
    """Run the page again when the browser's theme changes, which Streamlit does not do.

    For images that the server draws; charts change their colours in the browser.
    """
    _mount(key="theme_watch", data=current_theme())


def current_theme() -> str:
    """Return the theme that the browser had when the script began: light or dark."""
    return "dark" if st.context.theme.type == "dark" else "light"


def current_palette() -> Palette:
    """Return the colours of `current_theme`."""
    return DARK if current_theme() == "dark" else LIGHT


def table_height(rows: int, max_rows: int = 10**6) -> int | str:
    """Return the height in pixels of a table with at most `max_rows` rows in sight.

    Streamlit keeps 40 pixels free until it knows the height, and what follows jumps. In presentation mode, rows are
    higher by a factor that only the browser knows, so it computes the height itself.
    """
    if presentation.is_on():
        return "content" if rows <= max_rows else "auto"
    return _HEAD_PX + _ROW_PX * min(rows, max_rows)


def state_badge(state: str) -> None:
    """Show the state of a run as a coloured word; "recorded" for recordings."""
    label, color, icon = BADGES[state]
    st.badge(label, color=color, icon=icon)
