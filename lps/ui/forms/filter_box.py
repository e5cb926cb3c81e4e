"""The search field for runs; its language is that of lps.tables.run_filter."""

import streamlit as st

from lps.tables import run_filter
from lps.tables.run_names import FIELDS

_ABOUT = (
    "A word matches names, ids, notes, tags and states. The name of a run as it is shown, such as C=5, LPS seed 1, "
    "finds it, too. You can also write conditions, such as lr>0.05. The left side is a setting, a measurement (its "
    f"value at the newest epoch; accuracies in percent) or one of {', '.join(FIELDS)}. The operators are "
    "= != < <= > >=, and ~ for a regular expression. "
    "Combine conditions with and, or, not and brackets. For example, method=lps|orca finds runs of LPS and of ORCA. "
    "Put text with spaces in quotes."
)


def ask_filter() -> str:
    """Show the field, whose text is in the URL; returns "" without one."""
    entered = st.text_input(
        "Find",
        key="find",
        bind="query-params",
        type="search",
        placeholder="Words, or lr>0.05 and method=lps, name~abl.*, not tag=old, novel>=80, state=failed",
        icon=":material/search:",
        max_chars=run_filter.LONGEST,
        help=_ABOUT,
    )
    return entered or ""
