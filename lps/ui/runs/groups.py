"""Runs of the page Runs put together: a row for those that have something in common, opened in place."""

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
from lps.ui.runs.run_filters import HEADS
from lps.ui.shared import data_table, escape, url_fields
from lps.ui.shared.data_table import Column
from lps.wording import counted

_ROWS = 14  # of a long table in sight
_WIDTH = 210  # pixels of the names
_FIRST = (EVERYTHING, "method", "dataset", "tag", "state", "seed")
_WORDS = HEADS | {EVERYTHING: "All settings but the seed", "tag": "Tag"}


def pick_grouping(entries: Sequence[RunRow], vocabulary: Vocabulary) -> list[Name]:
    """A menu of what runs can be put together by; the address has the choice."""
    requested = [
        key for key in st.query_params.get_all("by") if key == EVERYTHING or columns.known_columns([key], vocabulary)
    ]
    offered = dict.fromkeys([*requested, *_FIRST, *columns.varying_settings(entries), *vocabulary.settings])
    with st.popover("Group", icon=":material/workspaces:", type="tertiary"):
        url_fields.draw_field(
            st.multiselect,
            "grouped_by",
            requested,
            lambda keys: url_fields.set_values("by", keys, "group", "held", "open"),
            "Group runs by",
            list(offered),
            format_func=lambda key: _WORDS.get(key, key),
            placeholder="No groups",
        )
    return grouping.names_of(requested, entries)


def show_groups(
    entries: Sequence[RunRow], by: Sequence[Name], shown: Sequence[Name], against: RunRow | None
) -> list[RunRow]:
    """The table of groups, each of which opens in place; returns the chosen runs, in the order of `entries`.

    against: the run that the runs' accuracies are held against.
    """
    run_groups = grouping.group_runs(entries, by)
    shown_names = [name for name in shown if name not in by or name.key == "tag"]
    if not any(name.is_measured for name in shown_names):
        shown_names += columns.known_columns(columns.NUMBERS, Vocabulary(entries))
    baseline = next((one for one in run_groups if one.id == st.query_params.get("held")), None)
    rows = grouped_rows.rows_of(run_groups, st.query_params.get_all("open"))
    key = _table_key(run_groups)
    chosen = _chosen_ids(key, run_groups)
    places = grouped_rows.ticked_rows(rows, chosen)
    columns_shown = grouped_rows.group_columns(rows, by, shown_names, baseline, against, entries)
    _draw_table(key, rows, places, [_label_column(key, rows, by), *columns_shown])
    whole = [one for one in run_groups if GroupedRow(one).runs <= chosen]
    _remember_choice(key, rows, places, chosen, whole)
    _show_help(run_groups, whole, baseline, by)
    return [entry for entry in entries if entry.run.id in chosen]


def _table_key(run_groups: Sequence[RunGroup]) -> str:
    """One as long as runs and groups are the same, so that the table stays where it is while groups open and close."""
    inside = [f"{one.id} {entry.run.id}" for one in run_groups for entry in one.members]
    turn = st.session_state.get("shelf_turn", 0)
    return f"groups_{turn}_" + hashlib.sha256("\n".join(inside).encode()).hexdigest()


# ---------------------------------------------------------------------------------------------------- choosing


@dataclass(frozen=True)
class _DrawnTable:
    """The table as it was drawn last. rows: id and runs of each; asked: what the address said of the choice."""

    key: str
    rows: tuple[tuple[str, frozenset[str]], ...]
    ticked: frozenset[str]
    chosen: frozenset[str]
    asked: list[list[str]]


def _chosen_ids(key: str, run_groups: Sequence[RunGroup]) -> set[str]:
    """Ids of the chosen runs: as the ticks say that a person has changed, else as the address says."""
    drawn: _DrawnTable | None = st.session_state.get("groups_drawn")
    if drawn and drawn.key == key and drawn.asked == _requested_ids() and key in st.session_state:
        places = st.session_state[key]["selection"]["rows"]
        now = {drawn.rows[index][0] for index in places if index < len(drawn.rows)}
        return grouped_rows.update_choice(drawn.rows, set(drawn.ticked), now, set(drawn.chosen))
    runs, groups = map(set, _requested_ids())
    inside = {one.id: GroupedRow(one).runs for one in run_groups}
    return (runs & frozenset().union(*inside.values())).union(*(inside[one] for one in groups & inside.keys()))


def _requested_ids() -> list[list[str]]:
    return [st.query_params.get_all(name) for name in ("run", "group")]


def _draw_table(key: str, rows: Sequence[GroupedRow], places: list[int], shown: Sequence[Column]) -> None:
    """The table with these rows ticked: Streamlit keeps positions, which are others once a group is opened."""
    if key in st.session_state and sorted(st.session_state[key]["selection"]["rows"]) != places:
        st.session_state[key] = {"selection": {"rows": places}}
    alt = "Groups of runs with mean and standard deviation; an open group lists its runs"
    data_table.tick_positions(shown, rows, key, places, _ROWS, alt)


def _remember_choice(
    key: str, rows: Sequence[GroupedRow], places: list[int], chosen: set[str], whole: Sequence[RunGroup]
) -> None:
    """In the address groups all of whose runs are chosen, and runs of other groups."""
    groups = [one.id for one in whole]
    table.write_choice(sorted(chosen - frozenset().union(*(GroupedRow(one).runs for one in whole))))
    url_fields.set_values("group", groups)
    drawn = tuple((row.id, row.runs) for row in rows)
    ticked = frozenset(drawn[index][0] for index in places)
    st.session_state["groups_drawn"] = _DrawnTable(key, drawn, ticked, frozenset(chosen), _requested_ids())


def _click_name(key: str, rows: Sequence[GroupedRow]) -> None:
    """A click on a name: a group opens or closes, a run is chosen or not any more."""
    row = rows[st.session_state[key]["row"]]
    if row.entry:
        drawn: _DrawnTable = st.session_state["groups_drawn"]
        st.session_state["groups_drawn"] = replace(drawn, chosen=drawn.chosen ^ row.runs)
    else:
        _set_open([row.group.id], not row.is_open)


def _set_open(groups: Sequence[str], is_open: bool) -> None:
    others = [one for one in st.query_params.get_all("open") if one not in groups]
    st.query_params["open"] = [*others, *(groups if is_open else [])]


# ---------------------------------------------------------------------------------------------------- looks


def _label_column(key: str, rows: Sequence[GroupedRow], by: Sequence[Name]) -> Column:
    """The names of groups and runs: buttons, since a click on a group opens it."""
    click = f"{key}_touched"
    look = {"type": "tertiary", "alignment": "left", "pinned": True, "width": _WIDTH}
    labels = [row.label(by) for row in rows]
    return Column(LABEL, labels, "button", on_click=_click_name, args=(click, rows), key=click, **look)


def _show_help(
    run_groups: Sequence[RunGroup], whole: Sequence[RunGroup], baseline: RunGroup | None, by: Sequence[Name]
) -> None:
    """How groups are opened, by keys too, what they are held against, and how to change that."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        help_text = f"{counted(len(run_groups), 'group')}. Click a name to show its runs; tick it to choose them."
        st.caption(f"{len(whole)} of {help_text}" if whole else help_text, width="content")
        aimed = [one.id for one in whole or run_groups]
        is_closed = not set(aimed) <= set(st.query_params.get_all("open"))
        label = f"{'Open' if is_closed else 'Close'} {len(whole) or 'all'}"
        icon = f":material/unfold_{'more' if is_closed else 'less'}:"
        st.button(label, key="open_groups", type="tertiary", icon=icon, on_click=_set_open, args=(aimed, is_closed))
        if baseline:
            called = grouped_rows.describe_group(baseline, by)
            pairs = "Runs with equal seeds and equal other settings are paired."
            words = f"Compared with {called}, with {INTERVAL}s. {pairs}"
            st.caption(escape.markdown(words), width="content")
            st.button("Clear baseline", key="held_back", type="tertiary", on_click=_set_baseline, args=(None,))
        elif len(whole) == 1:
            words = "Use as baseline"
            st.button(
                words, key="hold", type="tertiary", icon=":material/balance:", on_click=_set_baseline, args=(whole[0],)
            )


def _set_baseline(base: RunGroup | None) -> None:
    url_fields.set_values("held", base and base.id, "group")
