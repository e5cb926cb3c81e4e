"""How a page begins: its title, what it can show, and how to get something to show where there is nothing."""

from collections.abc import Callable, Sequence

import streamlit as st

from lps.runs import Run
from lps.ui import select
from lps.ui.escape import markdown

WATCH_S = 4.0  # between two looks whether a run has something to show by now
FEW = 8  # things begun earlier that are listed at once


def show_title(title: str) -> None:
    """The title of a page that offers runs, with a switch for the hidden ones."""
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="bottom"):
        st.title(title)
        select.show_hidden_switch()


def begin(title: str) -> list[Run]:
    """All runs, under the title; what the address calls a run without there being one is said."""
    runs = select.open_runs()
    show_title(title)
    if not runs:
        offer_launch("There are no runs yet.", ":material/rocket_launch:", "Launch the first one")
        return []
    say_missing(runs)
    return runs


def begin_with(title: str, has: Callable[[Run], bool], words: str, icon: str) -> list[Run]:
    """The runs that have what the page shows, under the title; `words` where none has.

    None where the address names a run that has not got it: another one is what nobody asked for.
    """
    show_title(title)
    runs = select.open_runs()
    say_missing(runs)
    named = st.query_params.get_all("run")
    lacking = [run for run in runs if run.id in named and not has(run)]
    if lacking:
        st.info(f"{markdown(select.label(lacking[0]))} has nothing to show here yet.", icon=icon)
        st.page_link(f"pages/{title.lower()}.py", label="Show another run", icon=":material/arrow_forward:")
        if lacking[0].state().is_alive:
            st.fragment(_await, run_every=WATCH_S)(lacking[0], has)
        return []
    found = [run for run in runs if has(run)]
    if not found:
        offer_launch(words, icon, "Launch a run")
    return found


def _await(run: Run, has: Callable[[Run], bool]) -> None:
    """Begin again once the run has what the page shows."""
    if has(run):
        st.rerun()


def say_missing(runs: list[Run]) -> None:
    """A warning for everything that the address calls a run though there is none."""
    for name in select.missing(runs):
        st.warning(f"There is no run {markdown(name)} any more.", icon=":material/link_off:")


def offer_launch(words: str, icon: str, label: str) -> None:
    """Why there is nothing to see, and the way to the Launch page."""
    st.info(words, icon=icon)
    st.page_link("pages/launch.py", label=label, icon=":material/arrow_forward:")


def list_started(found: Sequence, show_line: Callable[[object], None]) -> None:
    """What was started on this page before, a line each that opens it; the older ones are folded away."""
    st.subheader("Started", anchor=False)
    for one in found[:FEW]:
        show_line(one)
    if len(found) > FEW:
        with st.expander(f"{len(found) - FEW} more"):
            for one in found[FEW:]:
                show_line(one)
