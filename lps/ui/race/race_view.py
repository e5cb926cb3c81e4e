"""The race on the page Race, drawn by the browser from data that are sent once, and its download."""

import time
from functools import partial

import streamlit as st

from lps.errors import UserError
from lps.race import race_data, race_document
from lps.store import titles
from lps.store.runs import Run
from lps.ui.server import components
from lps.ui.shared import escape, export_buttons, live_part, recordings, time_estimates, url_fields
from lps.ui.shared.history import read_history

_TICK_S = 2.0  # while a run is alive
_SCRIPT = race_document.SCRIPT + components.read_files(__file__, "race_mount.js")
_URL_STATE = ("at", "speed")  # parts of the URL that set the position of a race
CLOCK = "pace"  # of the charts that follow the race

_mount = components.define_component(
    "lps_race", _SCRIPT, race_document.style(), race_document.FRAME, isolate_styles=True
)


def show_race(runs: list[Run]) -> None:
    """Show the race of the first three of `runs`, which share their split."""
    racing = runs[: race_data.MAX_RUNS]
    has_begun = can_race(racing)

    def draw(runs: list[Run]) -> None:
        if can_race(runs) and not has_begun:
            st.rerun()  # the rest of the page shows what it has of them
        _draw_race(runs)

    live_part.follow_changes(lambda: racing, _are_going_on, draw, _TICK_S)
    if not has_begun:
        _show_recorded_race()
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        if has_begun:
            save_label = "Save as a file (plays without internet)"
            make_file = partial(race_document.as_bytes, racing)
            export_buttons.offer_download(save_label, make_file, "race.html", "take_race")
        link_label = "See the margin in a small simulation"
        st.page_link("pages/explain.py", label=link_label, icon=":material/school:")


def _show_recorded_race() -> None:
    """Show a link to a race that can be watched until the first epoch is recorded; nothing without recordings."""
    run_ids = recordings.ids_of_parts("lps", "no_margin")
    if len(run_ids) > 1:
        label, icon = "Meanwhile, watch a recorded race with and without the margin", ":material/play_circle:"
        # Not a page link: one to the open page looks like its entry in the menu.
        st.button(label, key="recorded_race", icon=icon, on_click=url_fields.set_values, args=("run", run_ids))


def can_race(runs: list[Run]) -> bool:
    """Return whether any of the runs has recorded an epoch."""
    return any(read_history(run).last_epoch for run in runs[: race_data.MAX_RUNS])


def _are_going_on(runs: list[Run]) -> bool:
    states = [run.state() for run in runs]
    return any(not state.is_over and state.name != "unreadable" for state in states)


def _show_waiting(runs: list[Run]) -> None:
    """Show the progress of every run towards its first epoch."""
    is_training = any(run.state().is_alive for run in runs)
    beginning = "The race begins after the first epoch of training."
    st.caption(beginning if is_training else "No epoch of training has been recorded yet.")
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
        st.caption(escape.sentence(error))
        return
    ids = [run.id for run in runs]
    start = {name: st.query_params[name] for name in _URL_STATE if name in st.query_params}
    if "epoch" in st.query_params:  # a link from before race and course were one view
        start = {"at": st.query_params["epoch"]} | start
    _mount(key="race", data={"race": race, "token": " ".join(ids), "runs": ids, "start": start, "clock": CLOCK})
