"""What can be done with the chosen runs of the Runs page: look at them, name, tag, hide, stop, resume, delete, undo."""

import time
from collections.abc import Callable, Sequence

import streamlit as st

from lps.analysis.run_index import RunRow
from lps.scheduler import run_actions as actions
from lps.store.run_folders import delete_run, deleted_runs, restore_run
from lps.store.runs import RUN_ID, Run
from lps.ui.runs import table
from lps.ui.server import routing
from lps.ui.shared import comparable_runs, error_toasts, escape, run_actions, select, url_fields
from lps.wording import counted

_MOST_IN_TRASH = 20  # deleted runs that the page lists


# ---------------------------------------------------------------------------------------------------- bar


def show_bar(chosen: Sequence[RunRow], total: int, base: RunRow | None) -> None:
    """How many are chosen, where they can be opened, and what can be done with them. base: see `table.show_table`."""
    if base:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(f"Baseline: {escape.markdown(table.name_of(base))} (Δ, points)", width="content")
            st.button("Clear baseline", key="against_back", type="tertiary", on_click=_set_baseline, args=(None,))
    if not chosen:
        st.caption(f"{counted(total, 'run')}. Tick rows to open, name, tag, hide, stop, resume or delete them.")
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="shelf_bar"):
        st.markdown(f"**{len(chosen)} chosen**", width="content")
        _show_links(chosen)
        for action, runs in _possible_actions(chosen).items():
            _show_button(action, runs, len(chosen))
        if len(chosen) == 1 and chosen[0] is not base:
            words, more = "Use as baseline", {"type": "tertiary", "icon": ":material/balance:"}
            st.button(words, key="hold_run", on_click=_set_baseline, args=(chosen[0],), **more)
        with st.popover("Link", icon=":material/link:", type="tertiary"):
            st.caption("This table with these rows chosen")
            st.code(url_fields.page_link(), language=None, wrap_lines=True)


def _set_baseline(base: RunRow | None) -> None:
    """Show the others as differences from this run, or all as they are."""
    url_fields.set_values("against", base and base.run.id)


def _show_links(chosen: Sequence[RunRow]) -> None:
    readable = [entry.run.id for entry in chosen if entry.state.name != "unreadable"]
    pages = {"live": ("Live", 1, 99), "pace": ("Race", 2, comparable_runs.MAX_RUNS), "compare": ("Compare", 1, 99)}
    for page, (label, least, most) in (pages | {"clusters": ("Clusters", 1, 1)}).items():
        if least <= len(readable) <= most:
            st.page_link(f"pages/{page}.py", label=label, query_params={"run": readable})


def _possible_actions(chosen: Sequence[RunRow]) -> dict[str, list[RunRow]]:
    """Which actions make sense, and for which of the chosen runs; recordings and foreign folders stay as they are."""
    offered = {entry.run.id: actions.possible_actions(entry.run, entry.state) for entry in chosen}
    own = [entry for entry in chosen if not entry.run.is_recorded and RUN_ID.fullmatch(entry.run.id)]
    possible_runs = {
        "rename": own if len(chosen) == 1 else [],
        "note": own if len(chosen) == 1 else [],
        "tag": own,
        "copy": [entry for entry in chosen if "copy" in offered[entry.run.id]] if len(chosen) == 1 else [],
        "hide": [entry for entry in own if not entry.hidden],
        "unhide": [entry for entry in own if entry.hidden],
        **{
            name: [one for one in chosen if name in offered[one.run.id]]
            for name in ("stop", "kill", "resume", "delete")
        },
    }
    return {name: runs for name, runs in possible_runs.items() if runs}


def _show_button(action: str, runs: list[RunRow], chosen: int) -> None:
    label, icon = run_actions.LABELS[action]
    words = label if len(runs) == chosen else f"{label} {len(runs)}"
    if st.button(words, icon=icon, type="tertiary", key=f"shelf_{action}"):
        ids = [entry.run.id for entry in runs]
        if action == "copy":
            routing.turn_to("launch", clone=ids[0])
        elif action in ("rename", "note", "tag"):
            st.session_state["shelf_question"] = action, ids
        elif action == "delete":
            _delete_runs(runs)
        else:
            _change_runs(runs, _CHANGES[action])
        st.rerun()


# ---------------------------------------------------------------------------------------------------- changes


def resume_run(entry: RunRow) -> None:
    """Let a run go on, or say why not, and draw the page anew."""
    _change_runs([entry], actions.ACTS["resume"])
    st.rerun()


def _delete_runs(entries: list[RunRow]) -> None:
    if deleted := _change_runs(entries, delete_run):
        st.session_state["shelf_undo"] = [run.id for run in deleted]
    table.forget_choice()


_CHANGES = {
    "hide": lambda run: run.write_meta(hidden=True),
    "unhide": lambda run: run.write_meta(hidden=False),
    **actions.ACTS,
}


def _change_runs(entries: list[RunRow], change: Callable[[Run], object]) -> list[Run]:
    return error_toasts.change_each("shelf", [entry.run for entry in entries], change)


def show_outcome() -> None:
    """What the last action could not do, and the way back from a deletion."""
    error_toasts.show_errors("shelf")
    ids = st.session_state.get("shelf_undo", [])
    if not ids:
        return
    with st.container(horizontal=True, vertical_alignment="center", border=True, key="shelf_undone"):
        st.markdown(f":material/delete: {counted(len(ids), 'run')} moved to the trash.", width="content")
        if st.button("Undo", icon=":material/undo:", key="shelf_undo_button"):
            del st.session_state["shelf_undo"]
            _restore_runs(ids)
            st.rerun()


def _restore_runs(ids: Sequence[str]) -> None:
    error_toasts.change_each("shelf", ids, lambda name: restore_run(select.runs_root(), name))


# ---------------------------------------------------------------------------------------------------- dialogs


def show_question() -> None:
    """The dialog that an action asked for, once."""
    action, ids = st.session_state.pop("shelf_question", (None, []))
    runs = [run for run in select.own_runs() if run.id in ids]
    if action and runs:
        if action == "tag":
            _ask_tags(runs)
        elif action == "rename":
            run_actions.ask_name(runs[0])
        else:
            _ask_note(runs[0], runs[0].meta())


@st.dialog("Note", width="medium")
def _ask_note(run: Run, meta: dict) -> None:
    """meta: as it was when the dialog opened, so that a note of somebody else's is not overwritten unseen."""
    notes = st.text_area("Note", meta["notes"], max_chars=20_000, height=220, key="shelf_notes")
    if st.button("Save", type="primary"):
        error_toasts.try_change(lambda: run.write_meta(notes=notes, rev=meta["rev"]))


@st.dialog("Tags")
def _ask_tags(runs: list[Run]) -> None:
    """Tags that all have stand in the box; what is added is added to all, what is taken out is taken from all."""
    tags = [set(run.meta()["tags"]) for run in runs]
    common, existing_tags = set.intersection(*tags), {tag for run in select.own_runs() for tag in run.meta()["tags"]}
    some = sorted(set.union(*tags) - common)
    chosen = st.multiselect(
        f"Tags of {'the run' if len(runs) == 1 else f'all {len(runs)} runs'}",
        sorted(existing_tags),
        sorted(common),
        accept_new_options=True,
        placeholder="Choose or type",
        key="shelf_tags",
    )
    dropped = st.multiselect("Remove the tag", some, key="shelf_some") if some else []
    if st.button("Save", type="primary"):
        change = {"add": set(chosen) - common, "drop": (common - set(chosen)) | set(dropped)}
        error_toasts.try_change(lambda: [run.write_meta(**change) for run in runs])


# ---------------------------------------------------------------------------------------------------- trash


def show_trash() -> None:
    """Deleted runs, how long they can be had back, and the button that does it."""
    deletions = deleted_runs(select.runs_root())
    if not deletions:
        return
    with st.expander(f"Trash ({len(deletions)})", icon=":material/delete:"):
        for item in deletions[:_MOST_IN_TRASH]:
            with st.container(horizontal=True, vertical_alignment="center", key=f"trash-{item.folder.name}"):
                name = escape.markdown(item.name or item.id)
                st.markdown(f"{name}  \n:small[:gray[{item.time_left(time.time())}]]")
                if st.button("Restore", icon=":material/undo:", type="tertiary", key=f"restore-{item.folder.name}"):
                    st.session_state.pop("shelf_undo", None)
                    _restore_runs([item.id])
                    st.rerun()
        if len(deletions) > _MOST_IN_TRASH:
            st.caption(f"And {len(deletions) - _MOST_IN_TRASH} more. `python -m lps restore RUN` restores any of them.")
