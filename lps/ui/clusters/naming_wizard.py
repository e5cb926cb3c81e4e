"""Naming in turn: after a name the next cluster without one is opened, and the keyboard stays in the field."""

from pathlib import Path

import streamlit as st

KEY = "turn"  # of the switch, in the session and in the address
_SCRIPT = (Path(__file__).parent / "naming_wizard.js").read_text(encoding="utf-8")

_mount = st.components.v2.component("lps_naming_wizard", html="", js=_SCRIPT, isolate_styles=False)


def offer(cluster: int) -> None:
    """The switch; while it is on, the field for the name has the keyboard as soon as another cluster is shown."""
    words = "Opens the next unnamed cluster after each name"
    st.toggle("Name one by one", key=KEY, bind="query-params", help=words)
    if is_on():
        _mount(key="naming_wizard", data=cluster)


def is_on() -> bool:
    """By the switch, or by the address before there is one."""
    return bool(st.session_state.get(KEY, st.query_params.get(KEY) == "true"))
