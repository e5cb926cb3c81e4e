"""Name clusters one by one: after each name, open the next unnamed cluster with the focus in the name field."""

from pathlib import Path

import streamlit as st

KEY = "turn"  # of the switch, in the session and in the address
_SCRIPT = (Path(__file__).parent / "naming_wizard.js").read_text(encoding="utf-8")

_mount = st.components.v2.component("lps_naming_wizard", html="", js=_SCRIPT, isolate_styles=False)


def offer_wizard(cluster: int) -> None:
    """Show the switch; while it is on, the name field of a newly opened cluster gets the focus."""
    help_text = "When you have named a cluster, the next unnamed cluster opens"
    st.toggle("Name clusters one by one", key=KEY, bind="query-params", help=help_text)
    if is_on():
        _mount(key="naming_wizard", data=cluster)


def is_on() -> bool:
    """Return the state of the switch, or that in the URL before the switch exists."""
    return bool(st.session_state.get(KEY, st.query_params.get(KEY) == "true"))
