"""The head of a page: its title, the runs that it can show, and what to do if there are none."""

import time
from collections.abc import Callable, Sequence

import streamlit as st

from lps.store import titles
from lps.store.run_folders import DeletedRun, deleted_runs, restore_run
from lps.store.runs import Run
from lps.studies.sweep_records import PREFIX
from lps.ui.server import components
from lps.ui.shared import click_errors, live_part, select
from lps.ui.shared.escape import markdown

_WATCH_S = 4.0  # between two checks whether a run has something to show
_mount_top = components.define_component("lps_page_top", components.read_files(__file__, "page_top.js"))


def show_title(title: str, offers_runs: bool = True) -> None:
    """Show the title of a page. offers_runs: with a switch for hidden runs."""
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="bottom"):
        st.title(title)
        if offers_runs:
            select.show_hidden_switch()


def begin_at_top(part: str) -> None:
    """Scroll to the top if the page shows another part than before, such as the result instead of the form."""
    _mount_top(key="page_top", data=part)


def begin_page(
    title: str,
    text: str = "There are no runs yet.",
    icon: str = ":material/rocket_launch:",
    label: str = "Launch the first one",
    page: str = "",
) -> list[Run]:
    """Show the title and return all runs; return none and say so if there are none, or the URL names only missing ones.

    text, icon, label: of the sentence and the link without runs. page: the URL of the page, if it is not the title.
    """
    runs = select.open_runs()
    show_title(title)
    if are_all_missing(runs, page or title):
        return []
    if not runs:
        offer_launch(text, icon, label)
    return runs


def begin_page_with(
    title: str, has_content: Callable[[Run], object], text: str, icon: str, page: str = ""
) -> list[Run]:
    """Show the title and return the runs that have what the page shows; show `text` if no run has.

    Return none if the URL names a run without it, because the user did not ask for another one. page: the URL of the
    page, if it is not the title.
    """
    show_title(title)
    runs = select.open_runs()
    if are_all_missing(runs, page or title):
        return []
    url_ids = st.query_params.get_all("run")
    empty_runs = [run for run in runs if run.id in url_ids and not has_content(run)]
    if empty_runs:
        if not show_training_run(empty_runs[:1], has_content):
            st.info(f"{markdown(titles.run_label(empty_runs[0]))} has nothing to show here.", icon=icon)
        _offer_others(page or title)
        return []
    runs_with_content = [run for run in runs if has_content(run)]
    is_training = not url_ids and show_training_run(runs, has_content)
    if not runs_with_content and not is_training:
        offer_launch(text, icon, "Launch a run")
    elif runs_with_content and all(run.is_recorded for run in runs_with_content):
        _show_example(is_training)
    return runs_with_content


def show_training_run(runs: list[Run], has_content: Callable[[Run], object]) -> bool:
    """Say which own run waits or trains without anything to show so far; return whether there is one.

    Draw the page again when it has something to show, unless the page shows another own run meanwhile.
    """
    own_runs = [run for run in runs if not run.is_recorded]
    empty_runs = [run for run in own_runs if not has_content(run)]
    run = next((run for run in reversed(empty_runs) if run.state().is_moving), None)  # the oldest one trains first
    if run is None:
        return False
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        status = "is waiting to start" if run.state().name == "queued" else "is still training"
        text = f"Your run **{markdown(titles.run_label(run))}** {status}. It appears here after its first epoch."
        st.markdown(text, width="content")
        st.page_link(
            "pages/live.py", label="Follow it on Live", icon=":material/show_chart:", query_params={"run": run.id}
        )
    if len(empty_runs) == len(own_runs):
        live_part.wait_for_end(lambda: run.state().is_moving and not has_content(run), bool, _WATCH_S)
    return True


def _show_example(is_training: bool) -> None:
    """Say that the page shows a recording because no own run has something to show, and how to get one."""
    if is_training:
        st.markdown("**Example**: until then, you see a recorded run that comes with LPS Studio.")
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        text = "**Example**: a recorded run that comes with LPS Studio. To see clusters of your own pictures, add them"
        st.markdown(f"{text} and train.", width="content")
        st.page_link("pages/own.py", label="Add pictures", icon=":material/add_photo_alternate:")


def link_sweeps(runs: Sequence[Run]) -> None:
    """Link to the result of each sweep that has all of these runs."""
    tags = set.intersection(*(set() if run.is_recorded else set(run.meta()["tags"]) for run in runs))
    for name in sorted(tag.removeprefix(PREFIX) for tag in tags - {PREFIX} if tag.startswith(PREFIX)):
        link = {"icon": ":material/dynamic_feed:", "query_params": {"sweep": name}, "width": "content"}
        st.page_link("pages/sweeps.py", label=f"Sweep {markdown(name)}", **link)


def are_all_missing(runs: list[Run], title: str) -> bool:
    """Return whether the URL names runs and none of them exists: no other one is shown instead.

    Name each missing run; offer to restore it if it is in the trash, and to choose others if all are missing.
    """
    names = select.missing_names(runs)
    deleted_by_id = {item.id: item for item in reversed(deleted_runs(select.runs_root()))} if names else {}
    for name in names:
        if name in deleted_by_id:
            _show_deleted(deleted_by_id[name])
        else:
            st.warning(f"Run {markdown(name)} was not found.", icon=":material/link_off:")
    are_all_lost = bool(names) and not select.runs_of_address(runs)
    if are_all_lost and runs:
        _offer_others(title)
    return are_all_lost


def _show_deleted(item: DeletedRun) -> None:
    """Say that a run was deleted, with a button that restores it."""
    name = f"{markdown(item.name)} ({item.id[-6:]})" if item.name else markdown(item.id)
    with st.container(horizontal=True, vertical_alignment="center", border=True, key=f"deleted-{item.id}"):
        st.markdown(f":material/delete: {name} was deleted and is in the trash: {item.time_left(time.time())}.")
        if st.button("Restore", icon=":material/undo:", type="primary", key=f"restore-{item.id}"):
            click_errors.try_change(lambda: restore_run(select.runs_root(), item.id))


def _offer_others(title: str) -> None:
    st.page_link(f"pages/{title.lower()}.py", label="Show another run", icon=":material/arrow_forward:")


def offer_launch(text: str, icon: str, label: str, page: str = "launch") -> None:
    """Say why there is nothing to see, with a link to the page where it begins."""
    st.info(text, icon=icon)
    st.page_link(f"pages/{page}.py", label=label, icon=":material/arrow_forward:")
