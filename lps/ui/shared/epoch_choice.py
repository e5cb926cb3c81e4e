"""Which epoch a page shows: it stands in the page's address, and sliders and buttons write it there.

The browser's address lags behind what was written: requests of a page's timers wait while the script is busy, and then
tell an address of before. So for a while after a choice, an epoch that the address had before does not count, unless
somebody has gone back to it in the browser's history.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from lps.store.runs import Run
from lps.ui.shared import url_fields

SETTLE_S = 10.0  # until a new address has surely reached the browser, and every request of before is answered


@dataclass(frozen=True)
class _ChosenEpoch:
    """An epoch (None: the newest) that somebody has chosen at a place, and the epochs that the address had before."""

    place: str
    epoch: int | None
    when: float
    before: frozenset[int | None]

    def outweighs(self, place: str, address: int | None) -> bool:
        """Whether it counts, and not the address."""
        is_known = address == self.epoch or address in self.before
        return self.place == place and is_known and time.monotonic() - self.when < SETTLE_S


def requested_epoch(place: str) -> int | None:
    """The epoch that was just chosen at `place`, else that of the address; None for neither.

    place: the page and what it shows, so that a choice counts there alone.
    """
    if _goes_back():
        st.session_state.pop("epoch_chosen", None)
    chosen, address = st.session_state.get("epoch_chosen"), url_fields.read_number("epoch")
    return chosen.epoch if chosen and chosen.outweighs(place, address) else address


def _goes_back() -> bool:
    """Whether a person has asked for another address by the buttons of the browser."""
    context = get_script_run_ctx()
    return bool(context and context.is_history_navigation)


def set_epoch(place: str, epoch: int | None) -> None:
    """Write an epoch into the address; None for none."""
    address, last = url_fields.read_number("epoch"), st.session_state.get("epoch_chosen")
    before = {address} | (last.before | {last.epoch} if last and last.outweighs(place, address) else set())
    st.session_state["epoch_chosen"] = _ChosenEpoch(place, epoch, time.monotonic(), frozenset(before))
    url_fields.set_number("epoch", epoch)


def go_to_epoch(place: str, epoch: int, last: int) -> None:
    """Show an epoch; the last one is no number but "the newest", so a growing run is followed."""
    set_epoch(place, epoch if 1 <= epoch < last else None)


def _forget_epoch() -> None:
    """Take the epoch out of the address, as for other runs."""
    st.session_state.pop("epoch_chosen", None)
    url_fields.set_number("epoch", None)


def place_of(page: str, run: Run) -> str:
    """The place of a page that shows one run."""
    return f"{page} {run.id}"


def pick_epoch(page: str, run: Run, stored: list[int], usual: int, nameless: int | None = None) -> int:
    """A slider over the stored epochs where there are several; the epoch that is chosen, else the `usual` one.

    nameless: the epoch that stands in no address.
    """
    place, key = place_of(page, run), f"{page}_epoch"
    wanted = requested_epoch(place)
    epoch = wanted if wanted in stored else usual
    if len(stored) > 1:
        url_fields.draw_field(
            st.select_slider,
            key,
            epoch,
            lambda new: set_epoch(place, new if new != nameless else None),
            "Epoch",
            stored,
        )
    return epoch


def show_step(direction: str, arrow: str, epoch: int, last: int, move: Callable[[int, int], None]) -> None:
    """A button, and an arrow key, that leads to the epoch before or after: calls `move` with it and the last one."""
    st.button(
        f"One epoch {direction}",
        icon=f":material/chevron_{arrow.lower()}:",
        key=direction,
        help=f"One epoch {direction} ({arrow.lower()} arrow)",
        shortcut=arrow,
        disabled=not 1 <= epoch <= last,
        on_click=move,
        args=(epoch, last),
    )
