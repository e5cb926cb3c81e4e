"""Name clusters one by one: after each name, open the next unnamed cluster with the focus in the name field."""

import secrets
from collections.abc import Callable

import streamlit as st

from lps.settings.parameters import text_of
from lps.ui.server import components, page_visit
from lps.ui.shared import url_fields

KEY = "turn"  # of the switch, and in the address, so that a visit by the menu begins without it
_OPENED = "opened"  # in the address: another page opened the cluster, whose pictures are below the table
_SCROLL = "naming_scroll"  # in the session: (new value, container that comes into sight)
CLUSTER = "open_cluster"  # the container of the pictures and the controls of a cluster
_CARD = "naming"  # the container of the name field

_mount = components.define_component("lps_naming_wizard", components.read_files(__file__, "naming_wizard.js"))


def offer_wizard(on_change: Callable[[], None]) -> None:
    """Show the switch."""

    def switch(is_on: bool) -> None:
        url_fields.set_unless_default("false", KEY, text_of(is_on))
        on_change()

    help_text = "When you have named a cluster, the next unnamed cluster opens. The table has only the novel clusters"
    url_fields.draw_field(st.toggle, KEY, is_on(), switch, "Name clusters one by one", help=help_text)


def follow_link() -> None:
    """Bring the name field into sight if the link that opened the page says so."""
    if page_visit.take_from_link(_OPENED):
        request_scroll()


def find_name_field(cluster: int, is_focused: bool) -> None:
    """Focus the name field of a newly opened cluster if `is_focused`; scroll where `request_scroll` said."""
    scroll, container = st.session_state.get(_SCROLL, ("", _CARD))
    if is_focused or scroll:
        target = ".st-key-naming input[type=text]" if container == _CARD else f".st-key-{container}"
        _mount(key="naming_wizard", data={"cluster": cluster, "focus": is_focused, "scroll": scroll, "target": target})


def request_scroll(container: str = _CARD) -> None:
    """Bring the name field, or the container with this key, into sight when the page is drawn next."""
    st.session_state[_SCROLL] = (secrets.token_hex(4), container)


def is_on() -> bool:
    """Return the state of the switch."""
    return st.query_params.get(KEY) == "true"
