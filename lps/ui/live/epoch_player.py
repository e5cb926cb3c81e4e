"""One epoch of a run on the page Live, and the controls that change it: play, step, slider and keys.

The epoch is in the URL. While it plays, it is only in the session, so that the browser's history does not fill with
steps; pausing writes it to the URL. token: identifies what is shown, such as page and run; playing and choices belong
to their token.
"""

import time
from collections.abc import Callable
from functools import partial

import streamlit as st

from lps.ui.server import components
from lps.ui.shared import epoch_choice

_STEP_S = 0.7  # between two epochs
LATE_S = 5.0  # after the page has moved the slider, in which the browser may still tell where it was

_mount = components.define_component(
    "lps_epoch_player", components.read_files(__file__, "epoch_player.js"), html="<div></div>"
)


def is_playing(token: str) -> bool:
    """Return whether this token plays."""
    return st.session_state.get("replay_of") == token


def draw_interval(token: str, default: float | None) -> float | None:
    """Return the seconds between two draws: `_STEP_S` while it plays, otherwise `default`."""
    return _STEP_S if is_playing(token) else default


def epoch_to_show(token: str, last_epoch: int) -> int:
    """Return the epoch to show now, 1 to `last_epoch`; while it plays, the one after the previous one.

    At the end, the replay stops and the page is drawn again without a timer.
    """
    if not is_playing(token):
        return min(max(1, epoch_choice.requested_epoch(token) or last_epoch), last_epoch)
    epoch = st.session_state["replay_epoch"] + 1
    if epoch > last_epoch:
        go_to_epoch(token, last_epoch, last_epoch)
        st.rerun()
    st.session_state["replay_epoch"] = epoch
    return epoch


def go_to_epoch(token: str, epoch: int, last_epoch: int) -> None:
    """Show an epoch and pause there; the last one is stored as "the newest", so a running run is followed."""
    st.session_state.pop("replay_of", None)
    _renew_slider()
    epoch_choice.go_to_epoch(token, epoch, last_epoch)


def show_controls(token: str, epoch: int, last_epoch: int, num_epochs: int, *, is_growing: bool = False) -> None:
    """Draw the controls in a row.

    num_epochs: epochs on the slider. is_growing: more epochs will come, so a button leads back to the newest.
    """
    playing, go_to = is_playing(token), partial(go_to_epoch, token)
    with st.container(key="epoch-player", gap="small", horizontal=True, vertical_alignment="center"):
        st.subheader(f"Epoch {epoch}", anchor=False, width=112)
        with st.container(horizontal=True, gap="xsmall", width="content"):
            epoch_choice.show_step_button("back", "Left", epoch - 1, last_epoch, go_to)
            _show_play_button(token, playing, epoch, last_epoch)
            epoch_choice.show_step_button("forward", "Right", epoch + 1, last_epoch, go_to)
        _show_slider(token, epoch, last_epoch, num_epochs)
        if is_growing and not playing and epoch < last_epoch:
            _show_latest_button(last_epoch, go_to)
        _mount(key="epoch-player-keys", width=1, height=1)


def _show_play_button(token: str, playing: bool, epoch: int, last_epoch: int) -> None:
    """Show two buttons in one place, so that a press that arrives twice does not start playing again after a pause."""
    options = {"shortcut": "Space", "disabled": last_epoch < 2}
    shortcut_text = "(space bar or P)"  # P is a key of epoch_player.js; the labels are for screen readers (page.css)
    if playing:
        button = {"on_click": _pause_replay, "args": (token, last_epoch)}
        st.button("Pause", icon=":material/pause:", key="pause", help=f"Pause {shortcut_text}", **options, **button)
    else:
        button = {"on_click": _start_replay, "args": (token, epoch, last_epoch)}
        st.button("Play", icon=":material/play_arrow:", key="play", help=f"Play {shortcut_text}", **options, **button)


def _show_latest_button(last_epoch: int, go_to: Callable[[int, int], None]) -> None:
    options = {"icon": ":material/last_page:", "help": "Show each new epoch instead of the chosen one."}
    st.button("Follow latest epoch", key="newest", on_click=go_to, args=(last_epoch, last_epoch), **options)


def _show_slider(token: str, epoch: int, last_epoch: int, num_epochs: int) -> None:
    """Show a slider at the epoch; it is disabled during a replay.

    It follows the newest epoch and a replay. When the epoch changes in another way, the slider gets a new key, so that
    late reports of the old one are ignored.
    """
    state, playing = st.session_state, is_playing(token)
    if (token, num_epochs) != state.get("slider_of"):
        _renew_slider()
        state["slider_of"] = (token, num_epochs)
    key, initial = _slider_key(), {"value": epoch}
    if state.get(key, epoch) != epoch:
        state["slider_left"][state[key]] = time.monotonic()
        state[key], initial = epoch, {}
    options = {"on_change": _go_to_slider, "args": (token, key, last_epoch), "disabled": playing}
    st.slider("Epoch", 1, max(2, num_epochs), key=key, label_visibility="collapsed", **initial, **options)


def _slider_key() -> str:
    return f"replay_slider_{st.session_state.get('slider_number', 0)}"


def _renew_slider() -> None:
    st.session_state["slider_number"] = st.session_state.get("slider_number", 0) + 1
    st.session_state["slider_left"] = {}


def _start_replay(token: str, epoch: int, last_epoch: int) -> None:
    """Play from here, or from the start if this is the last epoch."""
    if not is_playing(token):
        st.session_state["replay_of"] = token
        st.session_state["replay_epoch"] = 0 if epoch >= last_epoch else epoch


def _pause_replay(token: str, last_epoch: int) -> None:
    if is_playing(token):
        go_to_epoch(token, st.session_state["replay_epoch"], last_epoch)


def _go_to_slider(token: str, key: str, last_epoch: int) -> None:
    """Show the epoch of the slider.

    Every timer request of the browser reports the slider's position, which may be outdated.
    """
    epoch = st.session_state[key]
    left_at = st.session_state["slider_left"].get(epoch, -LATE_S)
    if key == _slider_key() and not is_playing(token) and time.monotonic() - left_at >= LATE_S:
        epoch_choice.go_to_epoch(token, epoch, last_epoch)
