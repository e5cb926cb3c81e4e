"""Labels and icons of what can be done with a run (`lps.running.run_actions`), and the dialog that names it."""

import streamlit as st

from lps.store.runs import Run, State
from lps.ui.shared import refusals

LABELS = {  # label, icon
    "rename": ("Rename", ":material/edit:"),
    "note": ("Note", ":material/notes:"),
    "tag": ("Tags", ":material/sell:"),
    "copy": ("Launch a copy", ":material/content_copy:"),
    "hide": ("Hide", ":material/visibility_off:"),
    "unhide": ("Show again", ":material/visibility:"),
    "stop": ("Stop", ":material/stop_circle:"),
    "kill": ("End at once", ":material/cancel:"),
    "resume": ("Resume", ":material/play_circle:"),
    "delete": ("Delete", ":material/delete:"),
}
_HELP = {
    "stop": "Saves a checkpoint first; the run can be resumed.",
    "kill": "Loses what was done since the last checkpoint; the run can be resumed from there.",
    "resume": "Continues from the last checkpoint.",
}


def label(action: str, state: State) -> str:
    """The word on the button: to stop a queued run is to cancel it."""
    return "Cancel" if action == "stop" and state.name == "queued" else LABELS[action][0]


def is_pressed(run: Run, state: State, action: str) -> bool:
    """Draw the button of an action of one run; whether it was pressed."""
    icon, key = LABELS[action][1], f"{run.id}-action"
    return st.button(label(action, state), key=key, icon=icon, help=_HELP.get(action))


@st.dialog("Rename run")
def ask_name(run: Run) -> None:
    """A box for what people call the run."""
    name = st.text_input("Name", run.meta()["name"], max_chars=120, placeholder=run.id, key="new_name")
    if st.button("Save", type="primary"):
        refusals.try_change(lambda: run.write_meta(name=name))
