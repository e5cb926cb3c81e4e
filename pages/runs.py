"""Which runs are there? All of them in one table: find, compare, name, tag, hide, stop, resume, delete, have back."""

import streamlit as st

from lps.ui import dossier, home, openings, routing, select, shelf, upkeep

TICK_S = 5.0  # while a run moves


def main() -> None:
    st.title("Runs")
    upkeep.show_outcome()
    runs = select.all_runs()
    if not select.own_runs():
        words = "There are no runs of your own yet" + ("; the ones below are recordings." if runs else ".")
        openings.offer_launch(words, ":material/rocket_launch:", "Launch the first one")
    if runs:
        wanted = shelf.ask([shelf.entry(run) for run in runs])
        is_moving = home.moving(runs)
        st.fragment(browse, run_every=TICK_S if is_moving else None)(wanted, is_moving)
    upkeep.show_trash()
    upkeep.show_question()


def browse(wanted: shelf.Wanted, was_moving: bool) -> None:
    """Table, actions and the one chosen run; goes on refreshing itself while a run moves."""
    if was_moving:
        home.start_waiting()
    runs = select.all_runs()
    entries = shelf.matching([shelf.entry(run) for run in runs], wanted)
    if was_moving and not home.moving(runs):
        st.rerun()  # without the timer
    if not entries:
        st.info("No run fits. Take back a choice above.", icon=":material/filter_alt_off:")
        return
    chosen = shelf.show(entries)
    upkeep.show_bar(chosen, len(entries))  # below: rows must not move away while a person ticks them
    if len(chosen) == 1:
        dossier.show(chosen[0])


routing.through_app()
main()
