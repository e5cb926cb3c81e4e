"""Parts of a page that redraw themselves while something changes."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import streamlit as st

State = TypeVar("State")


def follow_changes(
    read_state: Callable[[], State],
    is_moving: Callable[[State], object],
    draw: Callable[[State], object],
    interval_s: float,
    first_state: State | None = None,
) -> None:
    """Draw the result of `read_state`, every `interval_s` seconds while it moves; restart the page when that changes.

    is_moving: truthy while it moves; another truthy value restarts the page, too. first_state: the state that the page
    has just read, for the first drawing.
    """
    pending_states = [read_state() if first_state is None else first_state]
    was_moving = is_moving(pending_states[0])

    @wraps(draw)
    def fragment() -> None:
        state = pending_states.pop() if pending_states else read_state()
        if is_moving(state) != was_moving:
            st.rerun()
        draw(state)

    st.fragment(fragment, run_every=interval_s if was_moving else None)()


def wait_for_end(
    read_state: Callable[[], State],
    is_active: Callable[[State], bool],
    interval_s: float,
    draw: Callable = lambda _: None,
) -> None:
    """Draw the result of `read_state` every `interval_s` seconds; restart the page when it is no longer active."""

    @wraps(draw)
    def fragment() -> None:
        state = read_state()
        if not is_active(state):
            st.rerun()
        draw(state)

    st.fragment(fragment, run_every=interval_s)()


def restart_on_change(read_value: Callable[[], object], interval_s: float) -> None:
    """Restart the page when a value, read every `interval_s` seconds, is no longer that of now."""
    value_now = read_value()
    wait_for_end(read_value, lambda value: value == value_now, interval_s)
