"""Notices while a page is open: a run has ended or collapsed. One toast an event in every session.

Looking costs a few file-system calls a run; records are read only where a file has changed.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import streamlit as st

from lps import preflight
from lps.config import Config
from lps.locks import is_held
from lps.parameters import ConfigError
from lps.runs import Run
from lps.ui import escape, select, shelf
from lps.ui.shelf import Measured

TICK_S = 5.0
MOST = 3  # toasts at a time
URGENT = ("loss", "collapse", "empty")  # alarms that are worth a toast; a growing gap is part of some methods' course
TOASTS = {
    "finished": ("has finished", ":material/check_circle:"),
    "stopped": ("was stopped", ":material/stop_circle:"),
    "failed": ("has failed", ":material/error:"),
    "crashed": ("has crashed", ":material/bolt:"),
}


@dataclass
class Watched:
    """What a session has seen so far, by run id."""

    ended: dict[str, int] = field(default_factory=dict)  # change time of exit.json, 0 without one
    grown: dict[str, tuple[int, int]] = field(default_factory=dict)  # of events.jsonl: change time and size
    alive: set[str] = field(default_factory=set)
    alarmed: set[tuple[str, str]] = field(default_factory=set)  # (run id, kind)


def watch() -> None:
    """To be called by app.py on every visit: looks every `TICK_S` seconds from then on."""
    st.fragment(_look, run_every=TICK_S)()


def _look() -> None:
    watched = st.session_state.setdefault("notices", Watched())
    said = news(watched, select.own_runs())
    for words, icon in said[:MOST]:
        st.toast(words, icon=icon, duration="long")
    if len(said) > MOST:
        st.toast(f"And {len(said) - MOST} more; the page Runs has all.", icon=":material/view_list:", duration="long")


def news(watched: Watched, runs: list[Run]) -> list[tuple[str, str]]:
    """(words, icon) of what has happened since the last look; nothing at the first. Updates `watched`."""
    is_first = not watched.ended and not watched.alive
    said = []
    for run in runs:
        ended, grown, alive = _change_time(run.folder / "exit.json")[0], _change_time(run.events), is_held(run.lock)
        known = run.id in watched.ended
        over = known and ended != watched.ended[run.id] or run.id in watched.alive and not alive
        if (alive or over) and grown != watched.grown.get(run.id):
            said += _alarms(watched, run, quiet=is_first)
        if over:
            said += _ending(run)
        watched.ended[run.id], watched.grown[run.id] = ended, grown
        (watched.alive.add if alive else watched.alive.discard)(run.id)
    return said


def _ending(run: Run) -> list[tuple[str, str]]:
    state = run.state()
    if state.name not in TOASTS:
        return []
    verb, icon = TOASTS[state.name]
    score = shelf.measure(run).recent.number("accuracy/all")
    is_bad = state.name in ("failed", "crashed")
    more = f": {escape.markdown(state.reason)}" if is_bad else "" if score is None else f", {100 * score:.1f} % on all"
    return [(f"**{escape.markdown(select.title(run))}** {verb}{more}", icon)]


def _alarms(watched: Watched, run: Run, quiet: bool) -> list[tuple[str, str]]:
    """The urgent alarms that the run did not have at the last look."""
    now = {alarm.kind: alarm for alarm in shelf.measure(run).alarms if alarm.kind in URGENT}
    new = [alarm for kind, alarm in now.items() if (run.id, kind) not in watched.alarmed]
    watched.alarmed = {pair for pair in watched.alarmed if pair[0] != run.id} | {(run.id, kind) for kind in now}
    title = escape.markdown(select.title(run))
    return [] if quiet else [(f"**{title}**: {escape.markdown(a.words)}", ":material/warning:") for a in new]


def show_alarms(run: Run) -> None:
    """A line on a run's own page for each of its alarms."""
    try:
        measured = shelf.measure(run)
    except (ConfigError, OSError):
        measured = Measured()
    for alarm in measured.alarms:
        words = escape.markdown(f"{alarm.title} at epoch {alarm.epoch}: {alarm.words}.")
        st.warning(words, icon=":material/warning:")


def show_damages(run: Run) -> None:
    """A line for each file of texts or wishes that cannot be read, and how to come by a sound one."""
    mend = {
        "meta.json": "Naming the run anew writes a sound one",
        "want.json": "Stopping or resuming the run writes a sound one",
    }
    for words in run.damages():
        what = "" if "newer" in words else f" {mend[words.split()[0]]}, and keeps this one beside it as damaged-…."
        st.warning(escape.markdown(f"{words}.{what}"), icon=":material/broken_image:")


def show_shortage(configs: Sequence[Config]) -> None:
    """A line where the disk of the runs has no room for what is about to be started."""
    if words := preflight.shortage(configs, select.runs_root()):
        st.warning(escape.markdown(words), icon=":material/hard_drive:")


def _change_time(path: os.PathLike) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
