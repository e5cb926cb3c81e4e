"""The page Runs: all runs in one table; find, compare, name, tag, hide, stop, delete, restore and import them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from lps.analysis import run_index
from lps.errors import UserError
from lps.store.run_folders import recorded_runs
from lps.tables import columns, saved_views
from lps.tables.run_names import Name, Vocabulary
from lps.ui.forms import saved_view_menu
from lps.ui.runs import bulk_actions, details, groups, import_dialog, lineage, run_filters, side_by_side, table
from lps.ui.shared import escape, live_part, page_head, select
from lps.wording import counted

_TICK_S = 5.0  # while a run moves


def main() -> None:
    """Draw the page."""
    saved_view_menu.open_default_view(saved_views.run_views(select.runs_root()))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.title("Runs", width="stretch")
        import_dialog.show_import_button()
    bulk_actions.show_outcome()
    import_dialog.show_outcome()
    own_runs = select.own_runs()
    runs = own_runs + recorded_runs()
    if not own_runs:
        text = "There are no runs of your own yet" + ("; the ones below are recordings." if runs else ".")
        page_head.offer_launch(text, ":material/rocket_launch:", "Launch the first one")
    if runs:
        entries = run_index.read_rows(runs)
        live_part.follow_changes(
            _read_entries,
            run_filters.any_moves,
            partial(_show_runs, run_filters.ask_filters(entries)),
            _TICK_S,
            entries,
        )
    bulk_actions.show_trash()
    bulk_actions.show_requested_dialog()


def _show_effects_link(entries: list[run_index.RunRow], grouping: Sequence[Name]) -> None:
    """Show a link to Effects, for the setting that runs are grouped by if there is one."""
    varying = columns.varying_settings(entries)
    if varying:
        setting = next((name.key for name in grouping if name.key in varying), None)
        query = {"setting": setting} if setting else {}
        st.page_link("pages/effects.py", label="What a setting does", icon=":material/tune:", query_params=query)


def _read_entries() -> list[run_index.RunRow]:
    return run_index.read_rows(select.all_runs())


def _show_runs(filters: run_filters.RunFilters, all_entries: list[run_index.RunRow]) -> None:
    """Show the table, the actions, and details of the selected runs."""
    with_hidden = replace(filters, hidden=True)
    try:
        matches = run_filters.filter_entries(all_entries, with_hidden)
    except UserError as error:
        st.error(escape.sentence(error), icon=":material/filter_alt_off:")
        matches = run_filters.filter_entries(all_entries, replace(with_hidden, filter_text=""))
    entries = [entry for entry in matches if filters.hidden or not entry.hidden]
    if not entries:
        text = "No runs match. Remove a filter above."
        if matches:
            switch = run_filters.label_hidden_switch(all_entries)
            text = f"No runs match, except for {counted(len(matches), 'hidden run')}. Turn on “{switch}” above."
        st.info(text, icon=":material/filter_alt_off:")
        return
    vocabulary = Vocabulary(entries)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="runs_menus"):
        names = table.move_sorted_first(table.pick_columns(entries, vocabulary), filters.sort)
        grouping = groups.pick_grouping(entries, vocabulary)
        saved_view_menu.show_view_menu(saved_views.run_views(select.runs_root()), "Views")
        _show_effects_link(entries, grouping)
    baseline_id = st.query_params.get("against")
    baseline = next((entry for entry in all_entries if entry.run.id == baseline_id), None)
    selected = (
        groups.show_groups(entries, grouping, names, baseline)
        if grouping
        else table.show_table(entries, names, baseline)
    )
    bulk_actions.show_bar(selected, len(entries), baseline)  # below: rows must not move away while a person ticks them
    if len(selected) == 1:
        details.show_details(selected[0])
        lineage.show_lineage(selected[0], all_entries)
    if len(selected) == 2:
        side_by_side.show_side_by_side(*selected)
