"""The list of runs beside the charts of a board: colour, visibility, pin, and the value at the epoch under the pointer.

The browser keeps list and charts in step (run_list.js and lps/ui/shared/plot.js). The URL stores what is hidden (`off`)
and pinned (`pin`).
"""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from lps.charts import board_charts, group_tables, palette
from lps.charts.board_charts import BoardLine
from lps.tables import boards
from lps.tables.boards import BoardChart
from lps.ui.server import components
from lps.ui.shared import theme, url_fields

_KEY = "board_lines"
_LONGEST = 200  # characters of a line's key
_mount = components.define_component(
    "lps_lines",
    components.read_files(__file__, "run_list.js"),
    components.read_files(__file__, "run_list.css"),
    '<div class="lps-lines"><svg viewBox="0 0 24 24" aria-hidden="true"></svg></div>',
)


def hidden_keys() -> list[str]:
    """Return the keys of the lines that the URL hides."""
    return st.query_params.get_all("off")[: boards.MAX_IN_ADDRESS]


def show_run_list(charts: Sequence[Sequence[BoardLine]], first: BoardChart, title: str, epoch: int | None) -> None:
    """Show one row per line, those of the first chart first, sorted by their last values.

    charts: the lines of every chart. first: the chart whose values are shown while the pointer is on no chart, at
    `epoch` or the last one; title: its measurement.
    """
    lines: dict[str, BoardLine] = {}
    for chart_lines in charts:
        for line in sorted(chart_lines, key=lambda line: -float(line.table["y"].iloc[-1])):
            lines.setdefault(line.key, line)
    measured = {line.key: line.table["y"] for line in charts[0]}
    rows = [
        {
            "key": line.key,
            "name": board_charts.legend_name(line),
            "short": board_charts.legend_name(replace(line, label=line.end_label)),
            "colors": _in_both_themes(line.color),
            "value": _value_at(measured.get(line.key), epoch),
        }
        for line in lines.values()
    ]
    data = {
        "rows": rows,
        "title": title,
        "when": "last epoch" if epoch is None else f"epoch {epoch}",
        "share": first.y.startswith(group_tables.FRACTIONS),
        "hidden": hidden_keys(),
        "pinned": theme.pinned_colors(),
    }
    _mount(key=_KEY, data=data, on_chosen_change=_store_report)


def _in_both_themes(color: str) -> tuple[str, str]:
    """Return a colour of the current theme as on a light and as on a dark background."""
    theme_index = int(theme.current_palette() is palette.DARK)
    return next((pair for pair in palette.color_pairs() if pair[theme_index] == color), (color, color))


def _value_at(measured, epoch: int | None) -> float | None:
    if measured is None or (epoch is not None and epoch not in measured.index):
        return None
    return float(measured.iloc[-1] if epoch is None else measured[epoch])


def _store_report() -> None:
    """Store what the browser reports in the URL; malformed reports count as empty."""
    reported = st.session_state[_KEY].get("chosen")
    reported = reported if isinstance(reported, dict) else {}
    hidden, pins = reported.get("hidden"), reported.get("pinned")
    texts = [f"{key}:{str(color).removeprefix('#')}" for key, color in pins.items()] if isinstance(pins, dict) else []
    _write_texts("off", [key for key in hidden if isinstance(key, str)] if isinstance(hidden, list) else [])
    _write_texts("pin", [text for text in texts if boards.read_pins([text])])


def _write_texts(name: str, texts: list[str]) -> None:
    url_fields.set_values(name, [text for text in texts if len(text) <= _LONGEST][: boards.MAX_IN_ADDRESS] or None)
