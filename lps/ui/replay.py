"""One epoch for a whole page: which one is shown, and the bar that moves it by play, step, speed, slider and keys.

An upright line in every chart that was drawn with the same clock shows it too; the browser moves it alone, so the
charts themselves stay as they are. The address has the epoch and the speed. While it plays, the epoch is kept in the
session alone, so that no step is a place to go back to; the pause writes it down.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import streamlit as st

from lps.ui import epoch_choice, select

STEP_S = 0.7  # between two epochs at the usual speed
CALM_S = 0.5  # after a pause, in which the slider may still report an epoch of the replay
SPEEDS = {"1": "1×", "2": "2×", "4": "4×"}
PLACE = "replay"  # where its epoch is chosen (`lps.ui.epoch_choice`)

FOLDER = Path(__file__).parent
SCRIPT, STYLE = ((FOLDER / name).read_text(encoding="utf-8") for name in ("replay.js", "replay.css"))

_mount = st.components.v2.component("lps_replay", html="<div></div>", css=STYLE, js=SCRIPT, isolate_styles=False)


def is_playing(token: str) -> bool:
    """token: what is played, such as the ids of the runs; anything else on the page does not go on."""
    return st.session_state.get("replay_of") == token


def interval(token: str, otherwise: float | None) -> float | None:
    """Seconds between two draws: by the speed while it plays, else `otherwise`."""
    return STEP_S / int(select.choice("speed", list(SPEEDS))) if is_playing(token) else otherwise


def moment(token: str, last: int) -> int:
    """The epoch to show now, 1 to `last`; while it plays, the one after the one that was shown.

    At the end the replay stops, and the page begins anew without its timer.
    """
    if not is_playing(token):
        return min(max(1, epoch_choice.asked(PLACE) or last), last)
    epoch = st.session_state["replay_epoch"] + 1
    if epoch > last:
        del st.session_state["replay_of"]
        epoch_choice.go(PLACE, last, last)
        st.rerun()
    st.session_state["replay_epoch"] = epoch
    return epoch


def go(epoch: int, last: int) -> None:
    """Show an epoch and pause there; the last one is no place but "the newest", so a growing run is followed."""
    if st.session_state.pop("replay_of", None):
        st.session_state["replay_paused"] = time.monotonic()
    epoch_choice.go(PLACE, epoch, last)


def forget() -> None:
    """Begin again at the newest epoch, as for other runs."""
    st.session_state.pop("replay_of", None)
    epoch_choice.forget()


def bar(token: str, epoch: int, last: int, length: int, clock: str, remember: Callable[[], None]) -> None:
    """The controls in a row. length: epochs on the slider. remember: called when somebody chooses an epoch.

    clock: whose line stands at the epoch (`lps.ui.plot`). The slider rests during a replay: a request of the timer may
    bring the place that it had a step ago, which is no wish of a person.
    """
    playing, move = is_playing(token), partial(_move, remember=remember)
    hidden = {"label_visibility": "collapsed"}
    row = {"horizontal": True, "vertical_alignment": "center"}
    with st.container(key="replay-bar", gap="small", **row):
        st.subheader(f"Epoch {epoch}", anchor=False, width=112)
        with st.container(horizontal=True, gap="xsmall", width="content"):
            epoch_choice.show_step("back", "Left", epoch - 1, last, move)
            _show_play(token, playing, epoch, last, remember)
            epoch_choice.show_step("forward", "Right", epoch + 1, last, move)
        select.agree("replay_slider", epoch)
        wish = {"key": "replay_slider", "on_change": _scrub, "args": (token, last, remember)}
        st.slider("Epoch", 1, max(2, length), disabled=playing, **wish, **hidden)
        select.choose(st.segmented_control, "speed", "Speed", SPEEDS, required=True, **hidden)
        _mount(key=f"clock-{clock}", data={"clock": clock, "at": epoch}, width=1, height=1)


def _show_play(token: str, playing: bool, epoch: int, last: int, remember: Callable[[], None]) -> None:
    icon, word = (":material/pause:", "Pause") if playing else (":material/play_arrow:", "Play")
    asked = {"on_click": _toggle, "args": (token, epoch, last, remember)}
    st.button("", icon=icon, key="play", help=f"{word} (space bar)", shortcut="Space", disabled=last < 2, **asked)


def _toggle(token: str, epoch: int, last: int, remember: Callable[[], None]) -> None:
    """Play from here, or from the start where nothing follows; or pause here."""
    if is_playing(token):
        _move(st.session_state["replay_epoch"], last, remember)
        return
    st.session_state["replay_of"] = token
    st.session_state["replay_epoch"] = 0 if epoch >= last else epoch


def _move(epoch: int, last: int, remember: Callable[[], None]) -> None:
    go(epoch, last)
    remember()


def _scrub(token: str, last: int, remember: Callable[[], None]) -> None:
    paused = st.session_state.get("replay_paused", -CALM_S)
    if not is_playing(token) and time.monotonic() - paused > CALM_S:
        _move(st.session_state["replay_slider"], last, remember)
