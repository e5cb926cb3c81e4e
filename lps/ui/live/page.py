"""The page Live: the state of runs, their curves, and any epoch.

A refresh reads state, progress and requests from the run's folder (`lps.store.runs`), and only the new bytes of its
events (`lps.charts.event_log`).
"""

from functools import partial

import streamlit as st

from lps.report import run_report
from lps.store.runs import Run, State
from lps.ui.live import epoch_player, found_clusters, sections
from lps.ui.shared import comparable_runs, export_buttons, live_part, notices, page_head, select, url_fields
from lps.ui.shared.history import read_history

_TICK_S = 2.0  # while a run is alive
_WATCH_S = 4.0  # for a newer run to follow
_PARTS = {"clusters": "Clusters", "training": "Training"}  # of a run whose truth is unknown


def main() -> None:
    """Draw the page."""
    runs = page_head.begin_page("Live")
    if not runs:
        return
    chosen_runs = select.pick_runs(runs, "picked_runs", "The latest run. Choose others here")
    if not chosen_runs:
        chosen_runs = [select.latest_run(runs)]
        live_part.restart_on_change(lambda: select.latest_run(select.open_runs()).id, _WATCH_S)
    if len(chosen_runs) > 1:
        ids = [run.id for run in chosen_runs[: comparable_runs.MAX_RUNS]]
        label = "Side by side" + (f" (the first {len(ids)})" if len(chosen_runs) > len(ids) else "")
        st.page_link("pages/pace.py", label=label, icon=":material/view_column_2:", query_params={"run": ids})
        page_head.link_sweeps(chosen_runs)
        live_part.follow_changes(lambda: chosen_runs, select.any_moves, sections.show_comparison, _TICK_S)
        return
    run = chosen_runs[0]
    interval_s = _TICK_S if run.state().is_moving else None
    is_blind = read_history(run).is_blind
    live_part.follow_changes(run.state, _moving_state, partial(_show_head, run, is_blind), _TICK_S)
    if is_blind and _pick_part() == "clusters":
        live_part.follow_changes(run.state, lambda state: state.is_moving, partial(_show_clusters, run), _TICK_S)
    else:
        live_part.follow_changes(run.state, lambda state: state.is_moving, partial(_show_numbers, run), _TICK_S)
        replay_interval_s = epoch_player.draw_interval(sections.player_token(run), interval_s)
        st.fragment(sections.show_scrubber, run_every=replay_interval_s)(run, interval_s, replay_interval_s)
        st.fragment(_show_rest, run_every=interval_s)(run)
    if len(read_history(run).epochs) and run.state().name != "unreadable":
        export_buttons.offer_report(lambda: run_report.report_of_run(run), f"report-{run.id}")


def _moving_state(state: State) -> str:
    """Return the name of a state that will change, "" of any other: the field above names it, too."""
    return state.name if state.is_moving else ""


def _pick_part() -> str:
    """Return which part of a run without known classes is shown: its clusters or its training."""
    options = {"label_visibility": "collapsed"}
    return url_fields.choose_one(st.segmented_control, "part", "What to show", _PARTS, **options)


def _show_head(run: Run, is_blind: bool, state: State) -> None:
    """Show the state of a run and its problems."""
    history = read_history(run)
    if history.is_blind != is_blind:
        st.rerun()  # its first epoch has been evaluated
    page_head.link_sweeps([run])
    sections.show_head(run, state, history)
    notices.show_damages(run)
    notices.show_left_out({"This run": history})
    notices.show_alarms(run)


def _show_clusters(run: Run, state: State) -> None:
    found_clusters.show_found_clusters(run, state, read_history(run))


def _show_numbers(run: Run, _state: State) -> None:
    """Show numbers and curves."""
    history = read_history(run)
    if len(history.epochs):
        sections.show_numbers(run, history)
    sections.show_curves(run, history)


def _show_rest(run) -> None:
    """Show loss terms, pseudo-labels, other measurements, log and settings."""
    sections.show_terms(run, read_history(run))
    sections.show_class_sizes(run, read_history(run))
    sections.show_other_measurements(run, read_history(run))
    log, settings = st.tabs(["Log", "Settings"], key="log_or_settings", on_change="rerun")
    with log:
        if log.open:
            sections.show_log(run)
    with settings:
        if settings.open:  # its table and formulas are most of what the page would load
            sections.show_settings(run)
