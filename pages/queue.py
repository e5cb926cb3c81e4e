"""What runs where, and what waits? The queue of all runs: order, priority, holding back, pausing, trying again."""

import streamlit as st

from lps.ui import queue, routing

TICK_S = 3.0  # while something runs or waits


def main() -> None:
    st.title("Queue")
    is_moving = queue.is_moving()
    st.fragment(watch, run_every=TICK_S if is_moving else None)(is_moving)


def watch(was_moving: bool) -> None:
    """Everything; goes on refreshing itself while something runs or waits."""
    if queue.show() != was_moving:
        st.rerun()  # with or without the timer


routing.through_app()
main()
