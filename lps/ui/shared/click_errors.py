"""Errors of clicks: stored where they happen, mostly in a callback, and shown once when the page is drawn."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import streamlit as st

from lps.errors import UserError
from lps.ui.shared import escape


@contextmanager
def keep_errors(area: str) -> Iterator[None]:
    """Store errors raised inside, to be shown in `area`."""
    try:
        yield
    except (UserError, OSError) as error:
        st.session_state.setdefault(f"refused {area}", []).append(str(error))


def change_each(area: str, items: Iterable, change: Callable[..., object]) -> list:
    """Change every item; return those that could be changed."""
    changed = []
    for item in items:
        with keep_errors(area):
            change(item)
            changed.append(item)
    return changed


def try_change(change: Callable[[], object]) -> None:
    """Make the change and close the dialog, or show the error in it."""
    try:
        change()
    except (UserError, OSError) as error:
        st.error(escape.sentence(error))
    else:
        st.rerun()


def show_errors(area: str, icon: str = ":material/error:") -> None:
    """Show the stored errors of an area, each once."""
    for message in dict.fromkeys(st.session_state.pop(f"refused {area}", [])):
        st.error(escape.sentence(message), icon=icon)


@contextmanager
def toast_errors() -> Iterator[None]:
    """Show errors raised inside as toasts."""
    try:
        yield
    except (UserError, OSError) as error:
        st.toast(escape.sentence(error), icon=":material/error:")
