"""What a click could not do: kept where it was tried, mostly in a callback, and said once where the page is drawn."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import streamlit as st

from lps.errors import UserError
from lps.ui.shared import escape


@contextmanager
def keep_errors(place: str) -> Iterator[None]:
    """A refusal of what is done inside ends it, and waits to be said at `place`."""
    try:
        yield
    except (UserError, OSError) as error:
        st.session_state.setdefault(f"refused {place}", []).append(str(error))


def change_each(place: str, items: Iterable, change: Callable[..., object]) -> list:
    """Make the change with every item; gives those with which it could be made."""
    done = []
    for item in items:
        with keep_errors(place):
            change(item)
            done.append(item)
    return done


def try_change(change: Callable[[], object]) -> None:
    """Make the change of a dialog and close it, or say there why not."""
    try:
        change()
    except (UserError, OSError) as error:
        st.error(escape.markdown(str(error)))
    else:
        st.rerun()


def show_errors(place: str, icon: str = ":material/error:") -> None:
    """What is kept of this place, each once."""
    for words in dict.fromkeys(st.session_state.pop(f"refused {place}", [])):
        st.error(escape.markdown(words), icon=icon)


@contextmanager
def toast_errors() -> Iterator[None]:
    """A refusal of what is done inside ends it, and is told in a corner of the page."""
    try:
        yield
    except (UserError, OSError) as error:
        st.toast(escape.markdown(str(error)), icon=":material/error:")
