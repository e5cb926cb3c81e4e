"""How a page begins: its title, what it can show, and how to get something to show where there is nothing."""

import time
from collections.abc import Callable

import streamlit as st

from lps.store import titles
from lps.store.run_folders import Deleted, deleted_runs, restore_run
from lps.store.runs import Run
from lps.ui.shared import error_toasts, live_part, select
from lps.ui.shared.escape import markdown

_WATCH_S = 4.0  # between two looks whether a run has something to show by now


def show_title(title: str, offers_runs: bool = True) -> None:
    """The title of a page. offers_runs: with a switch for the hidden ones."""
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="bottom"):
        st.title(title)
        if offers_runs:
            select.show_hidden_switch()


def begin_page(title: str, page: str = "") -> list[Run]:
    """All runs, under the title; none where the address names only such as are not there, which is said.

    page: the address of the page, where it is not the title.
    """
    runs = select.open_runs()
    show_title(title)
    if are_all_missing(runs, page or title):
        return []
    if not runs:
        offer_launch("There are no runs yet.", ":material/rocket_launch:", "Launch the first one")
        return []
    return runs


def begin_page_with(title: str, has: Callable[[Run], object], words: str, icon: str, page: str = "") -> list[Run]:
    """The runs that have what the page shows, under the title; `words` where none has.

    None where the address names a run that has not got it: another one is what nobody asked for.
    page: the address of the page, where it is not the title.
    """
    show_title(title)
    runs = select.open_runs()
    if are_all_missing(runs, page or title):
        return []
    named = st.query_params.get_all("run")
    lacking = [run for run in runs if run.id in named and not has(run)]
    if lacking:
        st.info(f"{markdown(titles.run_label(lacking[0]))} has nothing to show here yet.", icon=icon)
        _offer_others(page or title)
        if lacking[0].state().is_alive:
            live_part.wait_for_end(lambda: has(lacking[0]), lambda is_there: not is_there, _WATCH_S)
        return []
    found = [run for run in runs if has(run)]
    if not found:
        offer_launch(words, icon, "Launch a run")
    return found


def are_all_missing(runs: list[Run], title: str) -> bool:
    """Whether the address names runs and none of them is there: another one is what nobody asked for.

    Each that is missing is said; one in the trash can be had back, and where all are missing others can be chosen.
    """
    names = select.missing_names(runs)
    trash = {item.id: item for item in reversed(deleted_runs(select.runs_root()))} if names else {}
    for name in names:
        if name in trash:
            _show_deleted(trash[name])
        else:
            st.warning(f"Run {markdown(name)} was not found.", icon=":material/link_off:")
    is_lost = bool(names) and not select.runs_of_address(runs)
    if is_lost and runs:
        _offer_others(title)
    return is_lost


def _show_deleted(item: Deleted) -> None:
    """What became of the run, and the way back."""
    name = f"{markdown(item.name)} ({item.id[-6:]})" if item.name else markdown(item.id)
    with st.container(horizontal=True, vertical_alignment="center", border=True, key=f"deleted-{item.id}"):
        st.markdown(f":material/delete: {name} was deleted and is in the trash: {item.time_left(time.time())}.")
        if st.button("Restore", icon=":material/undo:", type="primary", key=f"restore-{item.id}"):
            error_toasts.try_change(lambda: restore_run(select.runs_root(), item.id))


def _offer_others(title: str) -> None:
    st.page_link(f"pages/{title.lower()}.py", label="Show another run", icon=":material/arrow_forward:")


def offer_launch(words: str, icon: str, label: str, page: str = "launch") -> None:
    """Why there is nothing to see, and the way to the page where one begins."""
    st.info(words, icon=icon)
    st.page_link(f"pages/{page}.py", label=label, icon=":material/arrow_forward:")
