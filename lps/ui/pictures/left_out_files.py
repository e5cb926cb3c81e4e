"""List the files of a data set that could not be used, and why."""

from collections.abc import Sequence

import streamlit as st

from lps.ui.shared import escape
from lps.wording import counted

_MAX_NAMES = 100  # names that are listed


def show_left_out_files(skipped: Sequence[tuple[str, str]]) -> None:
    """Show their number and an expander with the list; nothing if there are none. skipped: (name, reason)."""
    if not skipped:
        return
    with st.expander(f"{counted(len(skipped), 'file')} left out", icon=":material/broken_image:"):
        lines = [f"- **{escape.markdown(name)}** {escape.markdown(reason)}" for name, reason in skipped[:_MAX_NAMES]]
        remainder = [f"- and {len(skipped) - _MAX_NAMES:,} more"] if len(skipped) > _MAX_NAMES else []
        st.markdown("\n".join(lines + remainder))
