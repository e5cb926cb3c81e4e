"""Watch runs: how they stand, what they have learned, and any epoch again."""

import streamlit as st

from lps.ui import notices, openings, panels, partners, replay, report, routing, select
from lps.ui.live import history

TICK_S = 2.0  # while a run is alive
WATCH_S = 4.0  # for a newer run to follow


def main() -> None:
    runs = openings.begin("Live")
    if not runs:
        return
    chosen = select.pick_runs(runs)
    if not chosen:
        chosen = [select.latest(runs)]
        st.fragment(watch, run_every=WATCH_S)(chosen[0].id)
    alive = any(run.state().is_alive or run.state().name == "queued" for run in chosen)
    tick = TICK_S if alive else None
    if len(chosen) > 1:
        ids = [run.id for run in chosen[: partners.MOST]]
        label = "Side by side, epoch by epoch" + (f" (the first {len(ids)})" if len(chosen) > len(ids) else "")
        st.page_link("pages/pace.py", label=label, icon=":material/view_column_2:", query_params={"run": ids})
        st.fragment(compare, run_every=tick)(chosen, alive)
        return
    run = chosen[0]
    st.fragment(follow, run_every=tick)(run, alive)
    seconds = replay.interval(panels.token_of(run), tick)
    st.fragment(scrub, run_every=seconds)(run, tick, seconds)
    st.fragment(rest, run_every=tick)(run)
    if len(history(run).epochs) and run.state().name != "unreadable":
        report.offer(lambda: report.of_run(run), f"report-{run.id}")


def watch(shown: str) -> None:
    """Turn to a newer run when there is one."""
    if select.latest(select.open_runs()).id != shown:
        st.rerun()


def follow(run, was_alive: bool) -> None:
    """One run: head, progress, numbers, pace."""
    state, past = run.state(), history(run)
    if was_alive and state.is_over:
        st.rerun()  # once more as a whole, without timers
    panels.show_head(run, state, past)
    notices.show_damages(run)
    notices.show_alarms(run)
    if len(past.epochs):
        panels.show_numbers(past)
    panels.show_curves(run, past)


def scrub(run, tick: float | None, seconds: float | None) -> None:
    panels.show_scrubber(run, tick, seconds)


def rest(run) -> None:
    """Loss terms, pseudo-labels, log and settings."""
    panels.show_terms(run, history(run))
    log, settings = st.tabs(["Log", "Settings"], key="log_or_settings", on_change="rerun")
    with log:
        if log.open:
            panels.show_log(run)
    with settings:
        if settings.open:  # its table and formulas are most of what the page would load
            panels.show_settings(run)


def compare(runs, was_alive: bool) -> None:
    """Several runs."""
    if was_alive and not any(run.state().is_alive or run.state().name == "queued" for run in runs):
        st.rerun()
    panels.show_comparison(runs)


routing.through_app()
main()
