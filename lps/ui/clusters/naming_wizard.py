"""Name clusters one by one: after each name, open the next unnamed cluster with the focus in the name field."""

import secrets
from collections.abc import Callable
from pathlib import Path

import streamlit as st

KEY = "turn"  # of the switch, in the session and in the address
_OPENED = "opened"  # in the address: another page opened the cluster, whose pictures are below the table
_SCROLL = "naming_scroll"  # in the session: a new value brings the name field into sight
_SCRIPT = (Path(__file__).parent / "naming_wizard.js").read_text(encoding="utf-8")

_mount = st.components.v2.component("lps_naming_wizard", html="", js=_SCRIPT, isolate_styles=False)


def offer_wizard(on_change: Callable[[], None]) -> None:
    """Show the switch."""
    help_text = "When you have named a cluster, the next unnamed cluster opens. The table has only the novel clusters"
    st.toggle("Name clusters one by one", key=KEY, bind="query-params", help=help_text, on_change=on_change)


def find_name_field(cluster: int) -> None:
    """Focus the name field of a newly opened cluster while the switch is on; scroll to it if that was requested."""
    if st.query_params.pop(_OPENED, None) == "true":
        request_scroll()
    scroll = st.session_state.get(_SCROLL, "")
    if is_on() or scroll:
        _mount(key="naming_wizard", data={"cluster": cluster, "focus": is_on(), "scroll": scroll})


def request_scroll() -> None:
    """Bring the name field into sight when the page is drawn next."""
    st.session_state[_SCROLL] = secrets.token_hex(4)


def is_on() -> bool:
    """Return the state of the switch, or that in the URL before the switch exists."""
    return bool(st.session_state.get(KEY, st.query_params.get(KEY) == "true"))
