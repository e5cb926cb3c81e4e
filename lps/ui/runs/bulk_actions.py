"""Actions for the selected runs of the page Runs: open, name, note, tag, hide, stop, resume, delete, restore."""

import time
from collections.abc import Callable, Sequence

import streamlit as st

from lps.analysis.run_index import RunRow
from lps.scheduler import run_actions as actions
from lps.store.run_folders import TRASH_DAYS, delete_run, deleted_runs, restore_run
from lps.store.runs import RUN_ID, Run
from lps.ui.runs import table
from lps.ui.server import routing
from lps.ui.shared import click_errors, comparable_runs, escape, run_actions, select, url_fields
from lps.wording import counted

_MAX_TRASH_ROWS = 20  # deleted runs that the page lists


# ---------------------------------------------------------------------------------------------------- bar


def show_bar(selected: Sequence[RunRow], total: int, baseline: RunRow | None) -> None:
    """Show the number of selected runs, links to pages that open them, and their actions.

    baseline: as in `table.show_table`.
    """
    if baseline:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(f"Baseline: {escape.markdown(table.name_of(baseline))} (Δ, points)", width="content")
            st.button("Clear baseline", key="against_back", type="tertiary", on_click=_set_baseline, args=(None,))
    if not selected:
        st.caption(f"{counted(total, 'run')}. Tick rows to open, name, tag, hide, stop, resume or delete them.")
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="runs_bar"):
        st.markdown(f"**{len(selected)} chosen**", width="content")
        _show_links(selected)
        for action, runs in _possible_actions(selected).items():
            _show_button(action, runs, len(selected))
        if len(selected) == 1 and selected[0] is not baseline:
            label, options = "Use as baseline", {"type": "tertiary", "icon": ":material/balance:"}
            st.button(label, key="hold_run", on_click=_set_baseline, args=(selected[0],), **options)
        with st.popover("Link", icon=":material/link:", type="tertiary"):
            st.caption("This table with these rows chosen")
            st.code(url_fields.page_link(), language=None, wrap_lines=True)


def _set_baseline(baseline: RunRow | None) -> None:
    """Show the other runs as differences from this one, or all as they are (None)."""
    url_fields.set_values("against", baseline and baseline.run.id)


def _show_links(selected: Sequence[RunRow]) -> None:
    readable_ids = [entry.run.id for entry in selected if entry.state.name != "unreadable"]
    pages = {"live": ("Live", 1, 99), "pace": ("Race", 2, comparable_runs.MAX_RUNS), "compare": ("Compare", 1, 99)}
    for page, (label, minimum, maximum) in (pages | {"clusters": ("Clusters", 1, 1)}).items():
        if minimum <= len(readable_ids) <= maximum:
            st.page_link(f"pages/{page}.py", label=label, query_params={"run": readable_ids})


def _possible_actions(selected: Sequence[RunRow]) -> dict[str, list[RunRow]]:
    """Return the selected runs of each possible action; recordings and foreign folders cannot be changed."""
    actions_by_id = {entry.run.id: actions.possible_actions(entry.run, entry.state) for entry in selected}
    own_runs = [entry for entry in selected if not entry.run.is_recorded and RUN_ID.fullmatch(entry.run.id)]
    possible_runs = {
        "rename": own_runs if len(selected) == 1 else [],
        "note": own_runs if len(selected) == 1 else [],
        "tag": own_runs,
        "copy": [entry for entry in selected if "copy" in actions_by_id[entry.run.id]] if len(selected) == 1 else [],
        "hide": [entry for entry in own_runs if not entry.hidden],
        "unhide": [entry for entry in own_runs if entry.hidden],
        **{
            name: [entry for entry in selected if name in actions_by_id[entry.run.id]]
            for name in ("stop", "kill", "resume", "delete")
        },
    }
    return {name: runs for name, runs in possible_runs.items() if runs}


def _show_button(action: str, runs: list[RunRow], num_selected: int) -> None:
    label, icon = run_actions.LABELS[action]
    button_label = label if len(runs) == num_selected else f"{label} {len(runs)}"
    if st.button(button_label, icon=icon, type="tertiary", key=f"runs_{action}"):
        ids = [entry.run.id for entry in runs]
        if action == "copy":
            routing.turn_to("launch", clone=ids[0])
        elif action in ("rename", "note", "tag"):
            st.session_state["runs_question"] = action, ids
        elif action == "delete":
            _delete_runs(runs)
        else:
            _change_runs(runs, _CHANGES[action])
        st.rerun()


# ---------------------------------------------------------------------------------------------------- changes


def resume_run(entry: RunRow) -> None:
    """Resume a run, or store the error, and draw the page again."""
    _change_runs([entry], actions.ACTS["resume"])
    st.rerun()


def _delete_runs(entries: list[RunRow]) -> None:
    if deleted := _change_runs(entries, delete_run):
        st.session_state["runs_undo"] = [run.id for run in deleted]
    table.clear_selection()


_CHANGES = {
    "hide": lambda run: run.write_meta(hidden=True),
    "unhide": lambda run: run.write_meta(hidden=False),
    **actions.ACTS,
}


def _change_runs(entries: list[RunRow], change: Callable[[Run], object]) -> list[Run]:
    return click_errors.change_each("runs", [entry.run for entry in entries], change)


def show_outcome() -> None:
    """Show the errors of the last action, and a button that undoes a deletion."""
    click_errors.show_errors("runs")
    ids = st.session_state.get("runs_undo", [])
    if not ids:
        return
    with st.container(horizontal=True, vertical_alignment="center", border=True, key="runs_undone"):
        text = f"{counted(len(ids), 'run')} moved to the trash. Deleted runs can be restored for {TRASH_DAYS} days."
        st.markdown(f":material/delete: {text}", width="content")
        if st.button("Undo", icon=":material/undo:", key="runs_undo_button"):
            del st.session_state["runs_undo"]
            _restore_runs(ids)
            st.rerun()


def _restore_runs(ids: Sequence[str]) -> None:
    click_errors.change_each("runs", ids, lambda name: restore_run(select.runs_root(), name))


# ---------------------------------------------------------------------------------------------------- dialogs


def show_requested_dialog() -> None:
    """Show the dialog that an action requested, once."""
    action, ids = st.session_state.pop("runs_question", (None, []))
    runs = [run for run in select.own_runs() if run.id in ids] if action else []
    if runs:
        if action == "tag":
            _ask_tags(runs)
        elif action == "rename":
            run_actions.ask_name(runs[0])
        else:
            _ask_note(runs[0], runs[0].meta())


@st.dialog("Note", width="medium")
def _ask_note(run: Run, meta: dict) -> None:
    """Show a field for the note.

    meta: as it was when the dialog opened, so that a note which another user saved meanwhile is not overwritten.
    """
    notes = st.text_area("Note", meta["notes"], max_chars=20_000, height=220, key="runs_notes")
    if st.button("Save", type="primary"):
        click_errors.try_change(lambda: run.write_meta(notes=notes, rev=meta["rev"]))


@st.dialog("Tags")
def _ask_tags(runs: list[Run]) -> None:
    """Show the tags that all runs have; tags added or removed in the field are added to or removed from all runs."""
    tags = [set(run.meta()["tags"]) for run in runs]
    common, existing_tags = set.intersection(*tags), {tag for run in select.own_runs() for tag in run.meta()["tags"]}
    partial_tags = sorted(set.union(*tags) - common)
    selected_tags = st.multiselect(
        f"Tags of {'the run' if len(runs) == 1 else f'all {len(runs)} runs'}",
        sorted(existing_tags),
        sorted(common),
        accept_new_options=True,
        placeholder="Choose or type",
        key="runs_tags",
    )
    dropped = st.multiselect("Remove the tag", partial_tags, key="runs_some") if partial_tags else []
    if st.button("Save", type="primary"):
        change = {"add": set(selected_tags) - common, "drop": (common - set(selected_tags)) | set(dropped)}
        click_errors.try_change(lambda: [run.write_meta(**change) for run in runs])


# ---------------------------------------------------------------------------------------------------- trash


def show_trash() -> None:
    """List deleted runs with the time left to restore them, and a button for each."""
    deletions = deleted_runs(select.runs_root())
    if not deletions:
        return
    with st.expander(f"Trash ({len(deletions)})", icon=":material/delete:"):
        for item in deletions[:_MAX_TRASH_ROWS]:
            with st.container(horizontal=True, vertical_alignment="center", key=f"trash-{item.folder.name}"):
                name = escape.markdown(item.name or item.id)
                st.markdown(f"{name}  \n:small[:gray[{item.time_left(time.time())}]]")
                if st.button("Restore", icon=":material/undo:", type="tertiary", key=f"restore-{item.folder.name}"):
                    st.session_state.pop("runs_undo", None)
                    _restore_runs([item.id])
                    st.rerun()
        if len(deletions) > _MAX_TRASH_ROWS:
            st.caption(
                f"And {len(deletions) - _MAX_TRASH_ROWS} more. `python -m lps restore RUN` restores any of them."
            )
