"""The table of the page Runs: a row a run, a column for whatever somebody wants to know of it.

Which columns, in which order, and which stay in sight stands in the address; without it, settings that vary are shown.
Records are read from their ends, and again only where a file has changed.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import streamlit as st

from lps.analysis import alarms
from lps.analysis.run_index import DAMAGED, RunRow
from lps.store import titles
from lps.tables import columns
from lps.tables.run_names import FIELDS, SHORT, Name, Vocabulary
from lps.ui.runs.run_filters import heading
from lps.ui.shared import data_table, theme, url_fields
from lps.ui.shared.data_table import Column

_MOST_IN_ADDRESS = 50  # chosen runs that a link carries
_ROWS = 11  # of a long table in sight
_CHIP_COLORS = {"green": "#2f8f83", "blue": "#1f6fb4", "orange": "#d9661f", "red": "#b3265e", "violet": "#8a5fb0"}
_GRAY = "#77808c"
_WIDTHS = {
    "name": 210, "state": 95, "epoch": 64, "epochs": 48, "alarm": 130, "method": 90, "dataset": 80, "seed": 48,
    "tag": 140, "id": 75, "launched": 130, "note": 200,
}  # fmt: skip
_HELP = {
    "accuracy/gap": "Seen minus novel, points",
    "epoch": "Completed epochs",
    "epochs": "Planned epochs",
    "alarm": "Problems at the newest epoch or with the run's files",
    "id": "The end of the run's id; every command accepts it",
}
_ABOUT_DIFFERENCE = "Difference from the baseline in points; both runs at their newest epoch"
_NOTE = 200  # characters of a note


def show_table(entries: Sequence[RunRow], shown: Sequence[Name], base: RunRow | None) -> list[RunRow]:
    """The table with the columns `shown`; returns the chosen ones, in its order. The address says which they are.

    base: whose accuracies the others' are held against, in columns of their own.
    """
    names = [FIELDS["name"], *shown]
    ids = [entry.run.id for entry in entries]
    key, requested = f"shelf_{st.session_state.get('shelf_turn', 0)}", set(st.query_params.get_all("run"))
    alt = "All runs with their state, settings and newest accuracies"
    pinned, shown_columns = {"name", *st.query_params.get_all("pinned")}, []
    for name in names:
        cells = column_values(entries, name)
        shown_columns.append(make_column(name, entries, cells, name.key in pinned))
        if base and name.kind == "percent":
            cells = differences_from(cells, name.display_value(base))
            look = {"format": "%+.1f", "width": 72, "help": _ABOUT_DIFFERENCE}
            shown_columns.append(Column(f"Δ {column_head(name)}", cells, "number", **look))
    places = data_table.tick_rows(shown_columns, entries, key, ids, requested, _ROWS, alt)
    chosen = [entries[index] for index in places]
    write_choice([entry.run.id for entry in chosen])
    return chosen


def forget_choice() -> None:
    """Draw the next table without a choice."""
    st.session_state["shelf_turn"] = st.session_state.get("shelf_turn", 0) + 1
    url_fields.set_values("run", None, "group")


def write_choice(ids: list[str]) -> None:
    """Let the address say that these runs are chosen, as far as it can carry them."""
    url_fields.set_values("run", ids if len(ids) <= _MOST_IN_ADDRESS else None)


# ---------------------------------------------------------------------------------------------------- which columns


def pick_columns(entries: Sequence[RunRow], vocabulary: Vocabulary) -> list[Name]:
    """The columns after the name, by what the address says; a menu to choose, move and pin them."""
    requested = [key for key in st.query_params.get_all("columns") if key != "name"]
    usual = [
        key
        for key in columns.default_columns(entries)
        if key not in ("alarm", "tag") or _has_any_value(entries, key, vocabulary)
    ]
    shown = columns.known_columns(requested or usual, vocabulary)
    keys = [name.key for name in shown]
    offered = dict.fromkeys([*keys, *columns.default_columns(entries), *vocabulary.settings, *vocabulary.measurements])
    with st.popover("Columns", icon=":material/view_column:", type="tertiary"):
        url_fields.draw_field(
            st.multiselect,
            "shown_columns",
            keys,
            partial(url_fields.set_values, "columns"),
            "Columns, in this order",
            list(offered),
            format_func=heading,
            accept_new_options=True,
            help="Settings, measurements at the newest epoch, and other facts of a run. For the difference of "
            "two numbers, type a minus between them, such as `novel - seen`",
        )
        _show_column_menu(keys)
        st.button("Default columns", on_click=_forget_columns, disabled=not requested, icon=":material/restart_alt:")
    return shown


def move_sorted_first(shown: Sequence[Name], sort: str) -> list[Name]:
    """The same columns; the one that is sorted by stands first, so that it is seen on a phone."""
    key = SHORT.get(sort, sort.removeprefix("-"))
    return sorted(shown, key=lambda name: name.key != key)


def _has_any_value(entries: Sequence[RunRow], key: str, vocabulary: Vocabulary) -> bool:
    read_value = vocabulary.find(key).read_value
    return any(read_value(entry) for entry in entries)


def _show_column_menu(keys: list[str]) -> None:
    """Move one column, or keep it in sight while the others are scrolled."""
    if not keys:
        return
    if st.session_state.get("moved_column") not in keys:
        st.session_state["moved_column"] = keys[0]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        head_of = {key: heading(key) for key in keys}
        chosen = st.selectbox("Move or pin", keys, format_func=head_of.get, key="moved_column", width=190)
        st.button(
            "Left", icon=":material/arrow_back:", key="column_left", on_click=_move_column, args=(keys, chosen, -1)
        )
        st.button(
            "Right", icon=":material/arrow_forward:", key="column_right", on_click=_move_column, args=(keys, chosen, 1)
        )
    is_pinned = chosen in st.query_params.get_all("pinned")
    words = f"Unpin {head_of[chosen]}" if is_pinned else f"Pin {head_of[chosen]}"
    st.button(words, icon=":material/keep:", key="column_pin", on_click=_pin_column, args=(chosen, not is_pinned))


def _forget_columns() -> None:
    url_fields.set_values("columns", None, "pinned")


def _move_column(keys: list[str], key: str, by: int) -> None:
    index = keys.index(key)
    moved = [one for one in keys if one != key]
    moved.insert(max(0, index + by), key)
    st.query_params["columns"] = moved


def _pin_column(key: str, is_pinned: bool) -> None:
    others = [one for one in st.query_params.get_all("pinned") if one != key]
    st.query_params["pinned"] = [*others, *([key] * is_pinned)]


# ---------------------------------------------------------------------------------------------------- what they hold


def column_head(name: Name) -> str:
    """What stands above a column."""
    return heading(name.key)


def column_values(entries: Sequence[RunRow], name: Name) -> list:
    """A column from top to bottom."""
    shown_as = _TOLD.get(name.key)
    if shown_as:
        return [shown_as(entry) for entry in entries]
    if name.kind in ("number", "percent"):
        raw_values = (name.display_value(entry) for entry in entries)
        return [value if isinstance(value, int | float) else None for value in raw_values]
    return [None if name.read_value(entry) == () else name.words(entry) for entry in entries]


def differences_from(column: Sequence[float | None], base: float | None) -> list[float | None]:
    """Numbers less that of the baseline, of one decimal as they are."""
    return [None if value is None or base is None else round(value - base, 1) + 0.0 for value in column]


def name_of(entry: RunRow) -> str:
    """What a run is called, and whether it is hidden."""
    name = titles.name_in_symbols(entry.name, entry.config) if entry.config else entry.name
    return f"{name}{' (hidden)' * entry.hidden}"


_TOLD = {
    "name": lambda entry: name_of(entry),
    "state": lambda entry: [theme.BADGES[entry.shown_state][0]],
    "epoch": lambda entry: entry.measured.recent.epoch or None,
    "alarm": lambda entry: entry.troubles,
    "method": lambda entry: entry.method_title,
    "tag": lambda entry: list(entry.tags),
    "id": lambda entry: titles.short_id(entry.run.id) if entry.launched is not None else "",
    "launched": lambda entry: None if entry.launched is None else datetime.fromtimestamp(entry.launched, UTC),
    "note": lambda entry: " ".join(entry.notes.split())[:_NOTE],
}


def make_column(name: Name, entries: Sequence[RunRow], cells: Sequence, pinned: bool) -> Column:
    """The column of `cells`, with the look of what `name` is."""
    look = {"width": _column_width(name), "pinned": pinned, "help": _HELP.get(name.key) or _column_help(name)}
    if name.key == "name" and (symbols := _explain_symbols(entries)):
        look["help"] = f"Symbols: {symbols}"
    kind = "number" if name.kind in ("number", "percent") else "text"
    if name.key == "state":
        names = {label: _CHIP_COLORS.get(color, _GRAY) for label, color, _ in theme.BADGES.values()}
        kind, look = "chips", look | {"options": list(names), "color": list(names.values())}
    elif name.key == "alarm":
        kind, look = "chips", look | {"options": [*alarms.TITLES.values(), DAMAGED], "color": _CHIP_COLORS["red"]}
    elif name.key == "tag":
        tags = sorted({tag for entry in entries for tag in entry.tags})
        kind, look = "chips", look | {"options": tags, "color": _GRAY}
    elif name.key == "launched":
        kind, look = "time", look | {"format": "YYYY-MM-DD HH:mm", "timezone": st.context.timezone}
    elif kind == "number":
        look["format"] = "%.1f" if name.kind == "percent" else "%.4g" if name.is_measured else "%.6g"
    return Column(column_head(name), cells, kind, **look)


def _explain_symbols(entries: Sequence[RunRow]) -> str:
    """What the symbols in the names of sweeps stand for: "C = margin_scale, w = entropy_weight"."""
    of_sweeps = [e for e in entries if e.config and titles.is_of_sweep(e.name, e.config)]
    pairs = [
        pair for method in dict.fromkeys(e.config.method for e in of_sweeps) for pair in titles.symbols(method).items()
    ]
    return ", ".join(dict.fromkeys(f"{symbol} = {name}" for symbol, name in pairs))


def _column_help(name: Name) -> str:
    """What a setting or measurement is, with the key that filters and the command line call it by."""
    return f"{name.help} ({name.key})".lstrip()


def _column_width(name: Name) -> int:
    return _WIDTHS.get(name.key) or max(64, 26 + 8 * len(column_head(name)))
