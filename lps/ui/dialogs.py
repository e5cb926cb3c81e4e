"""Dialogs that change a run, and close once the change is made."""

from collections.abc import Callable

import streamlit as st

from lps.parameters import ConfigError
from lps.runs import Run
from lps.ui import escape


@st.dialog("Rename run")
def ask_name(run: Run) -> None:
    """A box for what people call the run."""
    name = st.text_input("Name", run.meta()["name"], max_chars=120, placeholder=run.id, key="new_name")
    if st.button("Save", type="primary"):
        try_change(lambda: run.write_meta(name=name))


def try_change(change: Callable[[], object]) -> None:
    """Make the change and close the dialog, or say why not."""
    try:
        change()
    except (ConfigError, OSError) as error:
        st.error(escape.markdown(str(error)))
    else:
        st.rerun()
