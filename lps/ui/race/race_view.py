"""The race on the page Race, drawn by the browser from data that are sent once, and its download."""

import time
from pathlib import Path

import streamlit as st

from lps.errors import UserError
from lps.race import race_data, race_document
from lps.store import titles
from lps.store.runs import Run
from lps.ui.shared import escape, live_part, recordings, time_estimates
from lps.ui.shared.history import read_history

_TICK_S = 2.0  # while a run is alive
_SCRIPT = race_document.SCRIPT + (Path(__file__).parent / "race_mount.js").read_text(encoding="utf-8")
_URL_STATE = ("at", "speed")  # of a race, as they stand in its address
CLOCK = "pace"  # of the charts that follow the race

_mount = st.components.v2.component(
    "lps_race", html=race_document.FRAME, css=race_document.style(), js=_SCRIPT, isolate_styles=True
)


def show_race(runs: list[Run]) -> None:
    """Show the race of the first three of `runs`, which share their split."""
    racing = runs[: race_data.MAX_RUNS]
    live_part.follow_changes(lambda: racing, _are_going_on, _draw_race, _TICK_S)
    if not can_race(racing):
        _show_recorded_race()
    link_label = "See the margin in a small simulation"
    st.page_link("pages/explain.py", label=link_label, icon=":material/school:")


def _show_recorded_race() -> None:
    """Show a link to a race that can be watched until the first epoch is recorded; nothing without recordings."""
    run_ids = recordings.ids_of_parts("lps", "no_margin")
    if len(run_ids) > 1:
        label, icon = "Meanwhile, watch a recorded race with and without the margin", ":material/play_circle:"
        # Not a page link: one to the open page looks like its entry in the menu.
        st.button(label, key="recorded_race", icon=icon, on_click=_open_race, args=(run_ids,))


def _open_race(run_ids: list[str]) -> None:
    st.query_params["run"] = run_ids


def offer_race_file(runs: list[Run]) -> None:
    """Show the button that downloads the race of the first three as a file."""
    st.download_button(
        "Download the race",
        lambda: race_document.as_bytes(runs[: race_data.MAX_RUNS]),
        file_name="race.html",
        mime="text/html",
        key="take_race",
        on_click="ignore",
        icon=":material/download:",
        help="The race as one HTML file that works offline.",
    )


def can_race(runs: list[Run]) -> bool:
    """Return whether any of the runs has recorded an epoch."""
    return any(read_history(run).last_epoch for run in runs[: race_data.MAX_RUNS])


def _are_going_on(runs: list[Run]) -> bool:
    states = [run.state() for run in runs]
    return any(not state.is_over and state.name != "unreadable" for state in states)


def _show_waiting(runs: list[Run]) -> None:
    """Show the progress of every run towards its first epoch."""
    st.caption("No epoch of training has been recorded yet.")
    for run in runs:
        state, label = run.state(), titles.run_label(run)
        if state.is_alive:
            share, status = time_estimates.describe_progress(run, state, read_history(run), time.time())
            st.progress(share, text=escape.markdown(f"{label} · {status}"))
        else:
            st.markdown(escape.markdown(f"{label} · {state.name}"))


def _draw_race(runs: list[Run]) -> None:
    if not can_race(runs):
        _show_waiting(runs)
        return
    try:
        race = race_data.race_of_runs(runs, [read_history(run) for run in runs])
    except UserError as error:
        st.caption(escape.markdown(f"{error}."))
        return
    ids = [run.id for run in runs]
    start = {name: st.query_params[name] for name in _URL_STATE if name in st.query_params}
    if "epoch" in st.query_params:  # a link from before race and course were one view
        start = {"at": st.query_params["epoch"]} | start
    _mount(key="race", data={"race": race, "token": " ".join(ids), "runs": ids, "start": start, "clock": CLOCK})
