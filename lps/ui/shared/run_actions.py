"""Actions of a run (`lps.scheduler.run_actions`): their labels, icons and dialog, and the advice after a failure."""

from collections.abc import Callable, Sequence

import streamlit as st

from lps.scheduler import failures
from lps.store.runs import Run, State
from lps.ui.server import routing
from lps.ui.shared import click_errors, escape
from lps.ui.shared.data_table import Column

LABELS = {  # label, icon
    "rename": ("Rename", ":material/edit:"),
    "note": ("Note", ":material/notes:"),
    "tag": ("Tags", ":material/sell:"),
    "copy": ("Launch a copy", ":material/content_copy:"),
    "hide": ("Hide", ":material/visibility_off:"),
    "unhide": ("Show again", ":material/visibility:"),
    "stop": ("Stop", ":material/stop_circle:"),
    "kill": ("End now", ":material/cancel:"),
    "resume": ("Resume", ":material/play_circle:"),
    "delete": ("Delete", ":material/delete:"),
}
_OPENED = "opened_runs"  # in the session: the ids of the runs whose button in a table was clicked
_HELP = {
    "stop": "Saves a checkpoint first. You can resume the run later.",
    "kill": "Loses the work since the last checkpoint. You can resume the run from this checkpoint.",
    "resume": "Continues from the last checkpoint.",
}


def action_label(action: str, state: State) -> str:
    """Return the text of the button; the action stop of a queued run is called Cancel."""
    return "Cancel" if action == "stop" and state.name == "queued" else LABELS[action][0]


def offer_copy(run: Run, purpose: str) -> None:
    """Say that a recording is read-only, with a link that copies it. purpose: what the copy is needed for."""
    st.caption(f"A recording is read-only. To {purpose}, launch a copy of it as your own run.")
    label, icon = LABELS["copy"]
    st.page_link("pages/launch.py", label=label, icon=icon, query_params={"clone": run.id})


def open_column(key: str, run_ids: Sequence[Sequence[str]], heading: str = "Open", shows_id: bool = False) -> Column:
    """Return a column of buttons that open the runs of each row on Live; a row without runs has none.

    A link in a table would open only with the second click. shows_id: write the id of the first run, not "Open".
    """
    if opened := st.session_state.pop(_OPENED, None):
        routing.turn_to("live", run=opened)
    options = {"type": "tertiary", "alignment": "left", "on_click": _store_opened, "args": (key, run_ids), "key": key}
    labels = [(ids[0] if shows_id else "Open") if ids else "" for ids in run_ids]
    return Column(heading, labels, "button", None if shows_id else 64, "Opens the run's own page", **options)


def _store_opened(key: str, run_ids: Sequence[Sequence[str]]) -> None:
    st.session_state[_OPENED] = list(run_ids[st.session_state[key]["row"]])


def is_pressed(run: Run, state: State, action: str) -> bool:
    """Draw the button of an action of one run; return whether it was pressed."""
    icon, key = LABELS[action][1], f"{run.id}-action"
    return st.button(action_label(action, state), key=key, icon=icon, help=_HELP.get(action))


@st.dialog("Rename run")
def ask_name(run: Run) -> None:
    """Show a text field for the name of the run."""
    with st.form("rename", border=False):  # Enter saves
        name = st.text_input("Name", run.meta()["name"], max_chars=120, placeholder=run.id, key="new_name")
        is_saved = st.form_submit_button("Save", type="primary")
    if is_saved:
        click_errors.try_change(lambda: run.write_meta(name=name))


def show_failure(run: Run, state: State, resume: Callable[[], None]) -> None:
    """Show what happened to a run, why, what to do, and a button for it.

    resume: continues from the last checkpoint.
    """
    advice = failures.advise(state.kind)
    with st.container(gap="xsmall"):
        title = "Crashed" if state.name == "crashed" else advice.title
        message = f"{title}: {state.reason or 'no reason was recorded'}."
        st.error(escape.markdown(message), icon=":material/error:")
        st.caption(f"{advice.cause} **{advice.remedy}**")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            _show_steps(run, advice, resume)


def _show_steps(run: Run, advice: failures.Advice, resume: Callable[[], None]) -> None:
    """Show the button of the recommended step first, then the other one."""
    is_resume_best = advice.step == failures.RESUME
    button_type = "primary" if is_resume_best else "secondary"
    if not is_resume_best:
        _show_copy(run, advice)
    options = {"key": f"{run.id}-action", "icon": ":material/play_arrow:", "type": button_type}
    if st.button("Resume", help="Continues from the last checkpoint.", **options):
        resume()
    if is_resume_best:
        _show_copy(run, advice)


def _show_copy(run: Run, advice: failures.Advice) -> None:
    is_best = advice.step == failures.COPY
    label, button_type = (advice.button, "primary") if is_best else ("Launch a copy", "secondary")
    key, icon = f"{run.id}-copy", ":material/content_copy:"
    if st.button(label, key=key, icon=icon, type=button_type, help="Opens the form with the settings of this run."):
        routing.turn_to("launch", **failures.form_link(run.id, advice, run.config_if_readable()))
