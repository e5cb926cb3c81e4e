"""The visit of a page: when the user came to it, what the browser knows by then, and the URL on the way back."""

import time
from dataclasses import dataclass

import streamlit as st

from lps.ui.shared import live_part, url_fields

_VISIT = "visit"  # in the session: the visit of the page that was drawn last
_DOUBLE_CLICK_S = 1.0  # so long after the first click on a link, the second one may come


@dataclass
class _Visit:
    """page: its name. comes_from: of the page before, "" for the first page of a session. was_drawn: to its end."""

    page: str
    comes_from: str
    began: float
    runs: int = 0  # of the script
    was_drawn: bool = True
    is_waiting: bool = False  # for the browser's first answer

    @property
    def is_new(self) -> bool:
        """Return whether this is the first run of the visit, or the second one after the first has waited."""
        return self.runs == 1 or self.is_waiting


def begin_page(page: str) -> None:
    """Note the page of this run of the script; call this once at the start of every run of a page.

    If the next click interrupts a run, the browser may not receive what was drawn. After the second click of a double
    click on a link it forgets what it received. In both cases, fields send their values again.
    """
    visit = st.session_state.get(_VISIT)
    if visit is None or visit.page != page:
        visit = st.session_state[_VISIT] = _Visit(page, visit.page if visit else "", time.monotonic())
    visit.runs += 1
    visit.is_waiting = visit.is_waiting and visit.runs == 2
    if not visit.was_drawn or time.monotonic() - visit.began < _DOUBLE_CLICK_S:
        url_fields.forget_drawn_fields()
    visit.was_drawn = False


def end_page() -> None:
    """Note that the page was drawn to its end; call this once at the end of every run of a page."""
    st.session_state[_VISIT].was_drawn = True


def has_arrived() -> bool:
    """Return whether the user has just come from another page."""
    visit = st.session_state.get(_VISIT)
    return bool(visit and visit.comes_from and visit.is_new)


def take_from_link(name: str) -> bool:
    """Return whether the link that opened the page says `name=true`, and remove that from the URL.

    Only at the beginning of a visit: on the way back, the browser passes the URL with it again.
    """
    visit = st.session_state.get(_VISIT)
    if st.query_params.get(name) != "true" or visit is None or not visit.is_new:
        return False
    wait_for_path()
    st.query_params.pop(name)
    return True


def wait_for_path() -> None:
    """Draw nothing more until the browser has the path of this page; call this before a query is set on arrival.

    The browser has it when it answers for the first time. A query that is set before would be added to the path of the
    page that was left.
    """
    visit = st.session_state.get(_VISIT)
    if visit is None or not visit.comes_from or visit.runs > 1:
        return
    visit.is_waiting = True
    answers = iter([False])
    live_part.wait_for_end(lambda: next(answers, True), lambda has_answered: not has_answered, 0.1)
    st.stop()


def restore_address(name: str) -> None:
    """Restore the URL that `remember_address` stored, if the page is opened without parameters.

    name: of a field that the form always has; Streamlit forgets it once another page is shown.
    """
    address = st.session_state.get(f"address of {name}", {})
    if address and not st.query_params and name not in st.session_state:
        wait_for_path()
        st.query_params.from_dict(address)


def remember_address(name: str) -> None:
    """Store the URL for the way back to this page; call it after the form is drawn.

    The way back in the browser, or a link to the page itself, can lead to the page without parameters. That is no
    choice of the user's.
    """
    if st.query_params or url_fields.is_changed_by_user():
        st.session_state[f"address of {name}"] = url_fields.read_address()
