"""The table of the page Runs: one row per run, with the columns that the user chooses.

The URL stores which columns there are, their order and which are pinned; by default, settings that vary are shown.
Records are read from their ends, and again only if a file has changed.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from operator import is_not

import streamlit as st

from lps.analysis import alarms
from lps.analysis.run_index import DAMAGED, RunRow
from lps.scores.protocols import ABOUT_LOW_ALL
from lps.store import titles
from lps.tables import columns
from lps.tables.run_names import FIELDS, SHORT, Name, Vocabulary
from lps.ui.runs.run_filters import column_heading
from lps.ui.shared import data_table, scores, theme, url_fields
from lps.ui.shared.data_table import Column

_MAX_IN_URL = 50  # chosen runs that a link carries
_ROWS = 11  # of a long table in sight
_CHIP_COLORS = {"green": "#2f8f83", "blue": "#1f6fb4", "orange": "#d9661f", "red": "#b3265e", "violet": "#8a5fb0"}
_GRAY = "#77808c"
_WIDTHS = {
    "state": 95, "epoch": 64, "alarm": 130, "method": 90, "dataset": 80, "seed": 48,
    "tag": 140, "id": 75, "launched": 130, "note": 200,
}  # fmt: skip
_HELP = {
    "accuracy/gap": "Seen minus novel, points",
    "accuracy/all": f"{ABOUT_LOW_ALL} (accuracy/all)",
    "epoch": "Completed epochs",
    "epochs": "Planned epochs",
    "alarm": "Problems at the newest epoch or with the run's files",
    "id": "The end of the run's id; every command accepts it",
}
_ABOUT_DIFFERENCE = "Difference from the baseline in points; both runs at their newest epoch"
_NOTE = 200  # characters of a note


def show_table(entries: Sequence[RunRow], names: Sequence[Name], baseline: RunRow | None) -> list[RunRow]:
    """Show the table with these columns; return the selected entries, in its order. The URL stores the selection.

    baseline: the run from which accuracies are compared, in additional columns.
    """
    table_names = [FIELDS["name"], *names]
    ids = [entry.run.id for entry in entries]
    key, url_ids = f"runs_{st.session_state.get('runs_turn', 0)}", set(st.query_params.get_all("run"))
    alt = "All runs with their state, settings and newest accuracies"
    pinned, shown_columns = {"name", *st.query_params.get_all("pinned")}, []
    for name in table_names:
        cells = column_values(entries, name)
        shown_columns.append(make_column(name, entries, cells, name.key in pinned))
        if baseline and name.kind == "percent":
            cells = differences_from(cells, name.display_value(baseline))
            options = {"format": "%+.1f", "width": 72, "help": _ABOUT_DIFFERENCE}
            shown_columns.append(Column(f"Δ {column_head(name)}", cells, "number", **options))
    ticked_positions = data_table.tick_rows(shown_columns, entries, key, ids, url_ids, _ROWS, alt)
    scores.explain_low_all(shown_columns, (entry.shown_state != "recorded" for entry in entries))
    selected = [entries[index] for index in ticked_positions]
    store_selection([entry.run.id for entry in selected])
    return selected


def clear_selection() -> None:
    """Draw the next table without a selection."""
    st.session_state["runs_turn"] = st.session_state.get("runs_turn", 0) + 1
    url_fields.set_values("run", None, "group")


def store_selection(ids: list[str]) -> None:
    """Write the selected runs into the URL, if they are not too many."""
    url_fields.set_values("run", ids if len(ids) <= _MAX_IN_URL else None)


# ---------------------------------------------------------------------------------------------------- which columns


def pick_columns(entries: Sequence[RunRow], vocabulary: Vocabulary) -> list[Name]:
    """Return the columns after the name, from the URL; show a menu to choose, move and pin them."""
    url_keys = [key for key in st.query_params.get_all("columns") if key != "name"]
    default_keys = [
        key
        for key in columns.default_columns(entries)
        if key not in ("alarm", "tag") or _has_any_value(entries, key, vocabulary)
    ]
    names = columns.known_columns(url_keys or default_keys, vocabulary)
    keys = [name.key for name in names]
    choices = dict.fromkeys([*keys, *columns.default_columns(entries), *vocabulary.settings, *vocabulary.measurements])
    with st.popover("Columns", icon=":material/view_column:", type="tertiary"):
        url_fields.draw_field(
            st.multiselect,
            "shown_columns",
            keys,
            partial(url_fields.set_values, "columns"),
            "Columns, in this order",
            list(choices),
            format_func=column_heading,
            accept_new_options=True,
            help="Settings, measurements at the newest epoch, and other facts of a run. For the difference of "
            "two numbers, type a minus between them, such as `novel - seen`",
        )
        _show_column_menu(keys)
        st.button("Default columns", on_click=_forget_columns, disabled=not url_keys, icon=":material/restart_alt:")
    return names


def move_sorted_first(names: Sequence[Name], sort: str) -> list[Name]:
    """Return the same columns with the one that is sorted by first, so that it is visible on a phone."""
    key = SHORT.get(sort, sort.removeprefix("-"))
    return sorted(names, key=lambda name: name.key != key)


def _has_any_value(entries: Sequence[RunRow], key: str, vocabulary: Vocabulary) -> bool:
    read_value = vocabulary.find(key).read_value
    return any(read_value(entry) for entry in entries)


def _show_column_menu(keys: list[str]) -> None:
    """Show the controls that move or pin a column."""
    if not keys:
        return
    if st.session_state.get("moved_column") not in keys:
        st.session_state["moved_column"] = keys[0]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        headings = {key: column_heading(key) for key in keys}
        column = st.selectbox("Move or pin", keys, format_func=headings.get, key="moved_column", width=190)
        st.button(
            "Left", icon=":material/arrow_back:", key="column_left", on_click=_move_column, args=(keys, column, -1)
        )
        st.button(
            "Right", icon=":material/arrow_forward:", key="column_right", on_click=_move_column, args=(keys, column, 1)
        )
    is_pinned = column in st.query_params.get_all("pinned")
    label = f"Unpin {headings[column]}" if is_pinned else f"Pin {headings[column]}"
    st.button(label, icon=":material/keep:", key="column_pin", on_click=_pin_column, args=(column, not is_pinned))


def _forget_columns() -> None:
    url_fields.set_values("columns", None, "pinned")


def _move_column(keys: list[str], key: str, step: int) -> None:
    index = keys.index(key)
    order = [other for other in keys if other != key]
    order.insert(max(0, index + step), key)
    st.query_params["columns"] = order


def _pin_column(key: str, is_pinned: bool) -> None:
    pinned_keys = [other for other in st.query_params.get_all("pinned") if other != key]
    st.query_params["pinned"] = [*pinned_keys, *([key] * is_pinned)]


# ---------------------------------------------------------------------------------------------------- what they hold


def column_head(name: Name) -> str:
    """Return the heading of a column."""
    return column_heading(name.key)


def column_values(entries: Sequence[RunRow], name: Name) -> list:
    """Return a column from top to bottom; the same list as for the last table if it had the same rows."""
    rows, columns_by_key = _last_table[0]
    if len(rows) != len(entries) or any(map(is_not, rows, entries)):
        rows, columns_by_key = _last_table[0] = list(entries), {}
    if name.key not in columns_by_key:
        columns_by_key[name.key] = _read_column(rows, name)
    return columns_by_key[name.key]


_last_table: list[tuple[list[RunRow], dict[str, list]]] = [([], {})]  # its rows, and their cells by column


def _read_column(entries: Sequence[RunRow], name: Name) -> list:
    if name.key == "method":
        method_titles = {method: titles.method_title(method) for method in {entry.method for entry in entries}}
        return [method_titles[entry.method] for entry in entries]
    if name.key == "name":
        varied = columns.varying_settings(entries)
        return [name_of(entry, varied) for entry in entries]
    read_cell = _CELL_READERS.get(name.key)
    if read_cell:
        return [read_cell(entry) for entry in entries]
    values = [name.read_value(entry) for entry in entries]
    if name.kind in ("number", "percent"):
        return [value if isinstance(value, int | float) else None for value in map(name.displayed, values)]
    return [None if value == () else name.as_text(value) for value in values]


def differences_from(column: Sequence[float | None], baseline: float | None) -> list[float | None]:
    """Return the numbers minus that of the baseline, rounded to one decimal like the numbers."""
    return [None if value is None or baseline is None else round(value - baseline, 1) + 0.0 for value in column]


def name_of(entry: RunRow, varied: Sequence[str] = ()) -> str:
    """Return the name of a run, and whether it is hidden. varied: settings in which runs of the table differ."""
    return f"{columns.displayed_name(entry, varied)}{' (hidden)' * entry.hidden}"


_CELL_READERS = {
    "state": lambda entry: [theme.BADGES[entry.shown_state][0]],
    "epoch": lambda entry: entry.measured.recent.epoch or None,
    "alarm": lambda entry: entry.troubles,
    "tag": lambda entry: list(entry.tags),
    "id": lambda entry: titles.short_id(entry.run.id) if entry.launched is not None else "",
    "launched": lambda entry: None if entry.launched is None else datetime.fromtimestamp(entry.launched, UTC),
    "note": lambda entry: " ".join(entry.notes.split())[:_NOTE],
}


def make_column(name: Name, entries: Sequence[RunRow], cells: Sequence, pinned: bool) -> Column:
    """Return the column of `cells`, in the format of `name`."""
    options = {"width": _column_width(name), "pinned": pinned, "help": _HELP.get(name.key) or _column_help(name)}
    if name.key == "name":
        symbols = titles.explain_symbols(cells, (entry.method for entry in entries))
        options["width"] = data_table.label_width(cells)
        options["help"] = f"Symbols: {symbols}" if symbols else options["help"]
    kind = "number" if name.kind in ("number", "percent") else "text"
    if name.key == "state":
        names = {label: _CHIP_COLORS.get(color, _GRAY) for label, color, _ in theme.BADGES.values()}
        kind, options = "chips", options | {"options": list(names), "color": list(names.values())}
    elif name.key == "alarm":
        kind, options = "chips", options | {"options": [*alarms.TITLES.values(), DAMAGED], "color": _CHIP_COLORS["red"]}
    elif name.key == "tag":
        tags = sorted({tag for entry in entries for tag in entry.tags})
        kind, options = "chips", options | {"options": tags, "color": _GRAY}
    elif name.key == "launched":
        kind, options = "time", options | {"format": "YYYY-MM-DD HH:mm", "timezone": st.context.timezone}
    elif kind == "number":
        options["format"] = "%.1f" if name.kind == "percent" else "%.4g" if name.is_measured else "%.6g"
    return Column(column_head(name), cells, kind, **options)


def _column_help(name: Name) -> str:
    """Return what a setting or measurement is, with its key in filters and on the command line."""
    return f"{name.help} ({name.key})".lstrip()


def _column_width(name: Name) -> int:
    return _WIDTHS.get(name.key) or max(64, 26 + 8 * len(column_head(name)))
