"""Details of the selected run on the page Runs: state, alarms, memory and speed, note."""

import streamlit as st

from lps.analysis.run_index import RunRow
from lps.report import run_report
from lps.scores.measurement_names import COSTS, cost_text
from lps.store import inherited_files
from lps.ui.runs import bulk_actions, table
from lps.ui.shared import escape, export_buttons, page_head, run_actions, theme
from lps.wording import capitalized

_COST_MEANINGS = {  # below the table; the default columns of the table are in lps/tables/columns.py
    "memory/host_gb": "Largest resident memory of the training process so far",
    "memory/device_gb": "The largest amount of GPU memory that the training process had allocated at one time",
    "throughput/images_per_s": "Images per second of training; every augmented view counts",
    "time/step_s": "Seconds per training step, mean of the newest epoch",
}


def show_details(entry: RunRow) -> None:
    """Show what the table has no room for."""
    with st.container(border=True, key="dossier"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{escape.markdown(table.name_of(entry))}**", width="content")
            theme.state_badge(entry.shown_state)
            for alarm in entry.measured.alarms:
                st.badge(alarm.title, color="red", icon=":material/warning:")
        page_head.link_sweeps([entry.run])
        if _has_advice(entry):
            run_actions.show_failure(entry.run, entry.state, lambda: bulk_actions.resume_run(entry))
        for remark in _list_remarks(entry):
            st.markdown(f":red[{escape.markdown(remark)}]")
        if origin := inherited_files.parent_in_words(entry.run):
            st.caption(escape.markdown(capitalized(origin)))
        _show_costs(entry)
        if entry.notes:
            st.text(entry.notes)
        if _list_costs(entry):
            key = f"report:{entry.run.id}"
            export_buttons.offer_report(lambda: run_report.report_of_run(entry.run), f"report-{entry.run.id}", key)
        export_buttons.show_origin(entry.run)
        if entry.run.is_recorded:
            st.caption("A recording is read-only. Launch a copy to get your own run.")


def _has_advice(entry: RunRow) -> bool:
    """Return whether the box with cause and remedy is shown, which also names the reason."""
    return entry.state.name in ("failed", "crashed") and not entry.run.is_recorded


def _list_remarks(entry: RunRow) -> list[str]:
    """Return why the run ended badly, its unreadable files, and its alarms at the newest epoch."""
    is_bad = entry.state.name in ("failed", "crashed", "unknown", "unreadable") and not _has_advice(entry)
    reason = entry.state.reason if is_bad else ""
    alarms = [f"Epoch {alarm.epoch}: {alarm.words}" for alarm in entry.measured.alarms]
    return [remark for remark in [reason, *entry.damages, *alarms] if remark]


def _list_costs(entry: RunRow) -> list[tuple[str, str, str]]:
    """Return (name, value as text, meaning) of memory and speed, as far as the run has measured them."""
    costs = []
    for name, meaning in _COST_MEANINGS.items():
        value = entry.measured.recent.number(name)
        if value is not None and (value or name != "memory/device_gb"):  # a run on the CPU has no GPU memory
            costs.append((COSTS[name][0], cost_text(name, value), meaning))
    return costs


def _show_costs(entry: RunRow) -> None:
    """Show memory and speed in one row, or say that no epoch was recorded."""
    cost_rows = _list_costs(entry)
    if not cost_rows:
        st.caption("No epoch is complete yet." if entry.state.is_alive else "The run recorded no epoch.")
        return
    with st.container(horizontal=True, gap="large"):
        for label, value_text, meaning in cost_rows:
            st.metric(label, value_text, help=meaning, width="content")
