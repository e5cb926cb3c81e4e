"""Watch runs: how they stand, what they have learned, and any epoch again.

A refresh reads state, progress and wishes from the run's folder (`lps.store.runs`), and of its events only the bytes
that are new (`lps.charts.event_log`).
"""

import streamlit as st

from lps.report import run_report
from lps.ui.live import epoch_player, found, sections
from lps.ui.shared import comparable, notices, page_head, select, take_away
from lps.ui.shared.history import history

_TICK_S = 2.0  # while a run is alive
_WATCH_S = 4.0  # for a newer run to follow


def main() -> None:
    """The whole page."""
    runs = page_head.begin("Live")
    if not runs:
        return
    chosen = select.pick_runs(runs)
    if not chosen:
        chosen = [select.latest(runs)]
        st.fragment(_watch, run_every=_WATCH_S)(chosen[0].id)
    alive = any(run.state().is_moving for run in chosen)
    tick = _TICK_S if alive else None
    if len(chosen) > 1:
        ids = [run.id for run in chosen[: comparable.MOST]]
        label = "Side by side" + (f" (the first {len(ids)})" if len(chosen) > len(ids) else "")
        st.page_link("pages/pace.py", label=label, icon=":material/view_column_2:", query_params={"run": ids})
        st.fragment(_compare, run_every=tick)(chosen, alive)
        return
    run = chosen[0]
    st.fragment(_follow, run_every=tick)(run, alive)
    seconds = epoch_player.interval(sections.token_of(run), tick)
    st.fragment(_scrub, run_every=seconds)(run, tick, seconds)
    st.fragment(_rest, run_every=tick)(run)
    if len(history(run).epochs) and run.state().name != "unreadable":
        take_away.offer_report(lambda: run_report.of_run(run), f"report-{run.id}")


def _watch(shown: str) -> None:
    """Turn to a newer run when there is one."""
    if select.latest(select.open_runs()).id != shown:
        st.rerun()


def _follow(run, was_alive: bool) -> None:
    """One run: head, progress, numbers, pace."""
    state, past = run.state(), history(run)
    if was_alive and state.is_over:
        st.rerun()  # once more as a whole, without timers
    sections.show_head(run, state, past)
    notices.show_damages(run)
    notices.show_left_out({"This run": past})
    notices.show_alarms(run)
    if past.is_blind:
        found.show(run, state, past)
    if len(past.epochs):
        sections.show_numbers(run, past)
    sections.show_curves(run, past)


def _scrub(run, tick: float | None, seconds: float | None) -> None:
    sections.show_scrubber(run, tick, seconds)


def _rest(run) -> None:
    """Loss terms, pseudo-labels, what else was measured, log and settings."""
    sections.show_terms(run, history(run))
    sections.show_others(run, history(run))
    log, settings = st.tabs(["Log", "Settings"], key="log_or_settings", on_change="rerun")
    with log:
        if log.open:
            sections.show_log(run)
    with settings:
        if settings.open:  # its table and formulas are most of what the page would load
            sections.show_settings(run)


def _compare(runs, was_alive: bool) -> None:
    """Several runs."""
    if was_alive and not any(run.state().is_moving for run in runs):
        st.rerun()
    sections.show_comparison(runs)
