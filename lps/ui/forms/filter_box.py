"""The one line in which runs are looked for; its language is that of lps.tables.run_filter."""

import streamlit as st

from lps.tables import run_filter
from lps.tables.run_names import FIELDS

_ABOUT = (
    "Words are looked for in names, ids, notes, tags and states. Settings, measurements (at the newest epoch, "
    f"accuracies in percent) and {', '.join(FIELDS)} are compared by = != < <= > >=, or searched by ~ for a regular "
    "expression. and, or, not and brackets join; lps|orca is either; what holds spaces stands in quotes."
)


def ask() -> str:
    """The box, whose text stands in the address; "" where there is none."""
    found = st.text_input(
        "Find",
        key="find",
        bind="query-params",
        type="search",
        placeholder="Words, or lr>0.05 and method=lps, name~abl.*, not tag=old, novel>=80, state=failed",
        icon=":material/search:",
        max_chars=run_filter.LONGEST,
        help=_ABOUT,
    )
    return found or ""
