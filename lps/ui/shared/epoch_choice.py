"""The epoch that a page shows: stored in the URL, where sliders and buttons write it.

The browser's URL lags behind what was written: requests of a page's timers wait while the script is busy, and then
report an old URL. So for `SETTLE_S` seconds after a choice, epochs that the URL had before do not count, unless the
user has gone back in the browser's history.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from lps.store.runs import Run
from lps.ui.shared import url_fields

SETTLE_S = 10.0  # after which the browser has the new URL, and all earlier requests are answered


@dataclass(frozen=True)
class _ChosenEpoch:
    """An epoch (None: the newest) that the user has chosen in a view, and the epochs that the URL had before."""

    view_name: str
    epoch: int | None
    chosen_at: float
    earlier_epochs: frozenset[int | None]

    def overrides(self, view_name: str, url_epoch: int | None) -> bool:
        """Return whether this choice counts instead of the URL."""
        is_outdated = url_epoch == self.epoch or url_epoch in self.earlier_epochs
        return self.view_name == view_name and is_outdated and time.monotonic() - self.chosen_at < SETTLE_S


def requested_epoch(view_name: str) -> int | None:
    """Return the epoch that was just chosen in a view, otherwise that of the URL, otherwise None.

    view_name: the page and what it shows, so that a choice counts only there.
    """
    if _goes_back():
        st.session_state.pop("epoch_chosen", None)
    chosen, url_epoch = st.session_state.get("epoch_chosen"), url_fields.read_number("epoch")
    return chosen.epoch if chosen and chosen.overrides(view_name, url_epoch) else url_epoch


def _goes_back() -> bool:
    """Return whether the user has navigated with the buttons of the browser."""
    context = get_script_run_ctx()
    return bool(context and context.is_history_navigation)


def set_epoch(view_name: str, epoch: int | None) -> None:
    """Write an epoch into the URL, or remove it (None)."""
    url_epoch, last = url_fields.read_number("epoch"), st.session_state.get("epoch_chosen")
    earlier_epochs = {url_epoch} | (
        last.earlier_epochs | {last.epoch} if last and last.overrides(view_name, url_epoch) else set()
    )
    st.session_state["epoch_chosen"] = _ChosenEpoch(view_name, epoch, time.monotonic(), frozenset(earlier_epochs))
    url_fields.set_number("epoch", epoch)


def go_to_epoch(view_name: str, epoch: int, last_epoch: int) -> None:
    """Show an epoch; the last one is stored as "the newest", so that the page follows a growing run."""
    set_epoch(view_name, epoch if 1 <= epoch < last_epoch else None)


def view_name_of(page: str, run: Run) -> str:
    """Return the name of a view of a page that shows one run."""
    return f"{page} {run.id}"


def pick_epoch(
    page: str, run: Run, stored_epochs: list[int], default_epoch: int, epoch_without_url: int | None = None
) -> int:
    """Show a slider over the stored epochs if there are several; return the chosen one, or `default_epoch`.

    epoch_without_url: the epoch that is not written into the URL.
    """
    view_name, key = view_name_of(page, run), f"{page}_epoch"
    url_epoch = requested_epoch(view_name)
    epoch = url_epoch if url_epoch in stored_epochs else default_epoch
    if len(stored_epochs) > 1:
        url_fields.draw_field(
            st.select_slider,
            key,
            epoch,
            lambda new: set_epoch(view_name, new if new != epoch_without_url else None),
            "Epoch",
            stored_epochs,
        )
    return epoch


def show_step_button(
    direction: str, arrow: str, epoch: int, last_epoch: int, go_to: Callable[[int, int], None]
) -> None:
    """Show a button with an arrow key for the epoch before or after; it calls `go_to` with it and the last one."""
    st.button(
        f"One epoch {direction}",
        icon=f":material/chevron_{arrow.lower()}:",
        key=direction,
        help=f"One epoch {direction} ({arrow.lower()} arrow)",
        shortcut=arrow,
        disabled=not 1 <= epoch <= last_epoch,
        on_click=go_to,
        args=(epoch, last_epoch),
    )
