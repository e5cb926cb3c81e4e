"""Grouped runs on the page Runs: one row for all runs with something in common, which opens in place."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from lps.analysis.run_index import RunRow
from lps.scores.estimates import INTERVAL
from lps.tables import columns, grouping
from lps.tables.grouping import EVERYTHING, RunGroup
from lps.tables.run_names import Name, Vocabulary
from lps.ui.runs import grouped_rows, table
from lps.ui.runs.grouped_rows import LABEL, GroupedRow
from lps.ui.runs.run_filters import RUN_COLUMN_HEADS
from lps.ui.shared import data_table, escape, scores, url_fields
from lps.ui.shared.data_table import Column
from lps.wording import counted

_ROWS = 14  # of a long table in sight
_WIDTH = 190  # pixels of the names
_FIRST_CHOICES = (EVERYTHING, "method", "dataset", "tag", "state", "seed")
_LABELS = RUN_COLUMN_HEADS | {EVERYTHING: "All settings but the seed", "tag": "Tag"}


def pick_grouping(entries: Sequence[RunRow], vocabulary: Vocabulary) -> list[Name]:
    """Show a menu of what runs can be grouped by; the URL stores the choice."""
    requested = [
        key for key in st.query_params.get_all("by") if key == EVERYTHING or columns.known_columns([key], vocabulary)
    ]
    choices = dict.fromkeys([*requested, *_FIRST_CHOICES, *columns.varying_settings(entries), *vocabulary.settings])
    with st.popover("Group", icon=":material/workspaces:", type="tertiary"):
        url_fields.draw_field(
            st.multiselect,
            "grouped_by",
            requested,
            lambda keys: url_fields.set_values("by", keys, "group", "held", "open"),
            "Group runs by",
            list(choices),
            format_func=lambda key: _LABELS.get(key, key),
            placeholder="No groups",
        )
    return grouping.grouping_names(requested, entries)


def show_groups(
    entries: Sequence[RunRow], by: Sequence[Name], names: Sequence[Name], baseline_run: RunRow | None
) -> list[RunRow]:
    """Show the table of groups, each of which opens in place; return the selected runs, in the order of `entries`.

    baseline_run: the run from which differences of runs are shown.
    """
    run_groups = grouping.group_runs(entries, by)
    visible_names = [name for name in names if name not in by or name.key == "tag"]
    if not any(name.is_measured for name in visible_names):
        visible_names += columns.known_columns(columns.NUMBERS, Vocabulary(entries))
    baseline = next((group for group in run_groups if group.id == st.query_params.get("held")), None)
    rows = grouped_rows.list_rows(run_groups, st.query_params.get_all("open"))
    key = _table_key(run_groups)
    selected = _selected_ids(key, run_groups)
    ticked_positions = grouped_rows.ticked_rows(rows, selected)
    table_columns = grouped_rows.group_columns(rows, by, visible_names, baseline, baseline_run, entries)
    _draw_table(key, rows, ticked_positions, [_label_column(key, rows, by), *table_columns])
    own_ids = {entry.run.id for entry in entries if entry.shown_state != "recorded"}
    scores.explain_low_all(table_columns, (not own_ids.isdisjoint(row.runs) for row in rows))
    selected_groups = [group for group in run_groups if GroupedRow(group).runs <= selected]
    _store_selection(key, rows, ticked_positions, selected, selected_groups)
    _show_help(run_groups, selected_groups, baseline, by)
    return [entry for entry in entries if entry.run.id in selected]


def _table_key(run_groups: Sequence[RunGroup]) -> str:
    """Return the same key while runs and groups are the same, so that the table stays in place while groups open."""
    member_keys = [f"{group.id} {entry.run.id}" for group in run_groups for entry in group.members]
    table_number = st.session_state.get("runs_turn", 0)
    return f"groups_{table_number}_" + hashlib.sha256("\n".join(member_keys).encode()).hexdigest()


# ---------------------------------------------------------------------------------------------------- choosing


@dataclass(frozen=True)
class _LastTable:
    """The table as it was drawn last.

    row_runs: id and runs of each row. url_values: the choice in the URL.
    """

    key: str
    row_runs: tuple[tuple[str, frozenset[str]], ...]
    ticked_ids: frozenset[str]
    selected: frozenset[str]
    url_values: list[list[str]]


def _selected_ids(key: str, run_groups: Sequence[RunGroup]) -> set[str]:
    """Return the ids of the selected runs: from the ticks if the user has changed them, otherwise from the URL."""
    last_table: _LastTable | None = st.session_state.get("groups_drawn")
    if last_table and last_table.key == key and last_table.url_values == _requested_ids() and key in st.session_state:
        ticked_positions = st.session_state[key]["selection"]["rows"]
        ticked_ids = {last_table.row_runs[index][0] for index in ticked_positions if index < len(last_table.row_runs)}
        return grouped_rows.update_choice(
            last_table.row_runs, set(last_table.ticked_ids), ticked_ids, set(last_table.selected)
        )
    runs, groups = map(set, _requested_ids())
    runs_by_group = {group.id: GroupedRow(group).runs for group in run_groups}
    return (runs & frozenset().union(*runs_by_group.values())).union(
        *(runs_by_group[group] for group in groups & runs_by_group.keys())
    )


def _requested_ids() -> list[list[str]]:
    return [st.query_params.get_all(name) for name in ("run", "group")]


def _draw_table(
    key: str, rows: Sequence[GroupedRow], ticked_positions: list[int], table_columns: Sequence[Column]
) -> None:
    """Draw the table with these rows ticked.

    Streamlit stores positions, which change when a group opens.
    """
    if key in st.session_state and sorted(st.session_state[key]["selection"]["rows"]) != ticked_positions:
        st.session_state[key] = {"selection": {"rows": ticked_positions}}
    alt = "Groups of runs with mean and standard deviation; an open group lists its runs"
    data_table.tick_positions(table_columns, rows, key, ticked_positions, _ROWS, alt)


def _store_selection(
    key: str,
    rows: Sequence[GroupedRow],
    ticked_positions: list[int],
    selected: set[str],
    selected_groups: Sequence[RunGroup],
) -> None:
    """Write completely selected groups into the URL, and the selected runs of other groups."""
    group_ids = [group.id for group in selected_groups]
    table.store_selection(sorted(selected - frozenset().union(*(GroupedRow(group).runs for group in selected_groups))))
    url_fields.set_values("group", group_ids)
    row_runs = tuple((row.id, row.runs) for row in rows)
    ticked_ids = frozenset(row_runs[index][0] for index in ticked_positions)
    st.session_state["groups_drawn"] = _LastTable(key, row_runs, ticked_ids, frozenset(selected), _requested_ids())


def _handle_name_click(key: str, rows: Sequence[GroupedRow]) -> None:
    """Open or close the clicked group, or select or deselect the clicked run."""
    row = rows[st.session_state[key]["row"]]
    if row.entry:
        last_table: _LastTable = st.session_state["groups_drawn"]
        st.session_state["groups_drawn"] = replace(last_table, selected=last_table.selected ^ row.runs)
    else:
        _set_open([row.group.id], not row.is_open)


def _set_open(group_ids: Sequence[str], is_open: bool) -> None:
    other_ids = [group_id for group_id in st.query_params.get_all("open") if group_id not in group_ids]
    st.query_params["open"] = [*other_ids, *(group_ids if is_open else [])]


# ---------------------------------------------------------------------------------------------------- looks


def _label_column(key: str, rows: Sequence[GroupedRow], by: Sequence[Name]) -> Column:
    """Return the column of names: buttons, because a click on a group opens it."""
    click_key = f"{key}_touched"
    options = {"type": "tertiary", "alignment": "left", "pinned": True, "width": _WIDTH}
    labels = [row.label(by) for row in rows]
    return Column(
        LABEL, labels, "button", on_click=_handle_name_click, args=(click_key, rows), key=click_key, **options
    )


def _show_help(
    run_groups: Sequence[RunGroup], selected_groups: Sequence[RunGroup], baseline: RunGroup | None, by: Sequence[Name]
) -> None:
    """Explain how groups open and how to set the baseline, with buttons for both."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        help_text = f"{counted(len(run_groups), 'group')}. Click the name of a group to show its runs; tick the group "
        help_text += "to choose them."
        st.caption(f"{len(selected_groups)} of {help_text}" if selected_groups else help_text, width="content")
        group_ids = [group.id for group in selected_groups or run_groups]
        is_closed = not set(group_ids) <= set(st.query_params.get_all("open"))
        label = f"{'Open' if is_closed else 'Close'} {len(selected_groups) or 'all'}"
        icon = f":material/unfold_{'more' if is_closed else 'less'}:"
        st.button(label, key="open_groups", type="tertiary", icon=icon, on_click=_set_open, args=(group_ids, is_closed))
        if baseline:
            baseline_name = grouped_rows.describe_group(baseline, by)
            pairs = (
                "Each run is paired with the baseline run that has the same seed. Both differ only in the settings "
                "that define the groups."
            )
            text = f"The table compares every group with {baseline_name} and shows {INTERVAL}s. {pairs}"
            st.caption(escape.markdown(text), width="content")
            st.button("Clear baseline", key="held_back", type="tertiary", on_click=_set_baseline, args=(None,))
        elif len(selected_groups) == 1:
            text = "Use as baseline"
            st.button(
                text,
                key="hold",
                type="tertiary",
                icon=":material/balance:",
                on_click=_set_baseline,
                args=(selected_groups[0],),
            )


def _set_baseline(baseline: RunGroup | None) -> None:
    url_fields.set_values("held", baseline and baseline.id, "group")
