"""Parts of a page that draw themselves again while something changes."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import streamlit as st

State = TypeVar("State")


def follow_changes(
    look: Callable[[], State],
    is_moving: Callable[[State], bool],
    draw: Callable[[State], object],
    every: float,
    first: State | None = None,
) -> None:
    """Draw what `look` returns, every `every` seconds while it moves; the page starts again when that changes.

    first: what the page has just looked at, for the first time.
    """
    seen = [look() if first is None else first]
    moves = is_moving(seen[0])

    @wraps(draw)
    def part() -> None:
        state = seen.pop() if seen else look()
        if is_moving(state) != moves:
            st.rerun()
        draw(state)

    st.fragment(part, run_every=every if moves else None)()


def wait_for_end(
    look: Callable[[], State], is_going_on: Callable[[State], bool], every: float, draw: Callable = lambda _: None
) -> None:
    """Draw what `look` returns, every `every` seconds; the page starts again when it no longer goes on."""

    @wraps(draw)
    def part() -> None:
        state = look()
        if not is_going_on(state):
            st.rerun()
        draw(state)

    st.fragment(part, run_every=every)()
