"""Notices while a page is open: a run has ended or collapsed. One toast an event in every session.

Looking costs a few file-system calls a run; records are read only where a file has changed.
"""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import streamlit as st

from lps.analysis import run_index
from lps.analysis.run_index import Measured
from lps.charts.event_log import History
from lps.data.class_shares import PriorAdvice
from lps.errors import UserError
from lps.files.locks import is_held
from lps.scheduler import launcher, preflight
from lps.settings.backbone_names import ABOUT_LABELS
from lps.settings.config import Config
from lps.settings.given_shares import ABOUT_ORACLE
from lps.store import titles
from lps.store.runs import Run
from lps.ui.shared import escape, export_buttons, select
from lps.wording import data_size

TICK_S = 5.0
_MOST = 3  # toasts at a time
_URGENT = ("loss", "collapse", "empty")  # alarms that are worth a toast; a growing gap is part of some methods' course
_TOASTS = {
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


def watch_runs() -> None:
    """To be called by app.py on every visit: looks every `TICK_S` seconds from then on."""
    named = frozenset(st.query_params.get_all("run"))
    st.fragment(_show_news, run_every=TICK_S)(named, _existing_runs(named, select.own_runs() if named else []))


def _existing_runs(named: frozenset[str], runs: list[Run]) -> frozenset[str]:
    return named & {run.id for run in runs}


def _show_news(named: frozenset[str], there: frozenset[str]) -> None:
    """named: the runs that the page is about; there: those that it found. It begins again once that has changed."""
    launcher.ensure_daemon(select.runs_root())  # nobody else may be left to do so
    watched = st.session_state.setdefault("notices", Watched())
    runs = select.own_runs()
    if _existing_runs(named, runs) != there:
        st.rerun()
    said = list_news(watched, runs)
    for words, icon in said[:_MOST]:
        st.toast(words, icon=icon, duration="long")
    if len(said) > _MOST:
        st.toast(f"And {len(said) - _MOST} more. Open Runs to see all.", icon=":material/view_list:", duration="long")


def list_news(watched: Watched, runs: list[Run]) -> list[tuple[str, str]]:
    """(words, icon) of what has happened since the last look; nothing at the first. Updates `watched`."""
    is_first = not watched.ended and not watched.alive
    sentences = []
    for run in runs:
        ended, grown, alive = _change_time(run.folder / "exit.json")[0], _change_time(run.events), is_held(run.lock)
        known = run.id in watched.ended
        over = known and ended != watched.ended[run.id] or run.id in watched.alive and not alive
        if (alive or over) and grown != watched.grown.get(run.id):
            sentences += _new_alarms(watched, run, quiet=is_first)
        if over:
            sentences += _describe_end(run)
        watched.ended[run.id], watched.grown[run.id] = ended, grown
        (watched.alive.add if alive else watched.alive.discard)(run.id)
    return sentences


def _describe_end(run: Run) -> list[tuple[str, str]]:
    state = run.state()
    if state.name not in _TOASTS:
        return []
    verb, icon = _TOASTS[state.name]
    score = run_index.measure_run(run).recent.number("accuracy/all")
    is_bad = state.name in ("failed", "crashed")
    more = (
        f": {escape.markdown(state.reason)}"
        if is_bad
        else ""
        if score is None
        else f", accuracy on all {100 * score:.1f} %"
    )
    return [(f"**{escape.markdown(titles.run_title(run))}** {verb}{more}", icon)]


def _new_alarms(watched: Watched, run: Run, quiet: bool) -> list[tuple[str, str]]:
    """The urgent alarms that the run did not have at the last look."""
    now = {alarm.kind: alarm for alarm in run_index.measure_run(run).alarms if alarm.kind in _URGENT}
    new = [alarm for kind, alarm in now.items() if (run.id, kind) not in watched.alarmed]
    watched.alarmed = {pair for pair in watched.alarmed if pair[0] != run.id} | {(run.id, kind) for kind in now}
    title = escape.markdown(titles.run_title(run))
    return [] if quiet else [(f"**{title}**: {escape.markdown(a.words)}", ":material/warning:") for a in new]


def show_alarms(run: Run) -> None:
    """A line on a run's own page for each of its alarms."""
    try:
        measured = run_index.measure_run(run)
    except (UserError, OSError):
        measured = Measured()
    for alarm in measured.alarms:
        words = escape.markdown(f"{alarm.title} at epoch {alarm.epoch}: {alarm.words}.")
        st.warning(words, icon=":material/warning:")


def show_damages(run: Run) -> None:
    """Show a line for each unreadable file of texts or requests, and how to replace it."""
    mend = {
        "meta.json": "Renaming the run writes a new file",
        "want.json": "Stopping or resuming the run writes a new file",
    }
    for words in run.damages():
        what = (
            "" if "newer" in words else f" {mend[words.split()[0]]}; the damaged file is kept next to it as damaged-…."
        )
        st.warning(escape.markdown(f"{words}.{what}"), icon=":material/broken_image:")


def show_left_out(pasts: Mapping[str, History]) -> None:
    """A line for each run whose records are more than a page can read. pasts: by what the run is called here."""
    for name, past in pasts.items():
        if past.left_out:
            words = f"{name} has recorded more than a page can read: the first {data_size(past.left_out)} are left out"
            epochs = f", the curves begin at epoch {past.epochs.index[0]}" if len(past.epochs) else ""
            more = "python -m lps export RUN --to csv writes all of it"
            st.warning(escape.markdown(f"{words}{epochs}. {more}."), icon=":material/content_cut:")


def show_shortage(configs: Sequence[Config]) -> None:
    """A line where the disk of the runs has no room for what is about to be started."""
    if words := preflight.disk_warning(configs, select.runs_root()):
        st.warning(escape.markdown(words), icon=":material/hard_drive:")


def show_crowding(configs: Sequence[Config]) -> None:
    """A line for each thing of these runs that is large for the GPUs here; none where their data cannot be read."""
    with contextlib.suppress(UserError):
        for words in preflight.memory_warnings(configs):
            st.info(escape.markdown(words), icon=":material/memory:")


def show_labels_of_others(config: Config | None, is_short: bool = False) -> None:
    """A line where what a run begins with was trained with the labels of another data set.

    is_short: the rest in its help, where the backbone has been chosen already.
    """
    if config is None or not config.rests_on_labels:
        return
    if is_short:
        st.caption(":material/label: Start weights were trained with ImageNet's labels.", help=f"{ABOUT_LABELS}.")
    else:
        st.caption(f":material/label: {ABOUT_LABELS}.")


def show_prior_advice(advice: PriorAdvice | None, take: Callable[[str], None]) -> None:
    """A line where labels look unequal, with a button that sets the advised prior and the measurements behind it.

    take: sets this prior, in a callback.
    """
    if advice is None:
        return
    st.info(escape.markdown(advice.words), icon=":material/balance:")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            f"Use prior = {advice.prior}", key="use_prior", icon=":material/check:", on_click=take, args=(advice.prior,)
        )
        export_buttons.offer_document("concepts/priors.md", "Why this helps", "prior_evidence")


def show_oracle(run: Run) -> None:
    """A line where the prior of a run was made with hidden labels."""
    with contextlib.suppress(UserError):
        if run.config().uses_hidden_labels:
            st.caption(f":material/visibility: {ABOUT_ORACLE}")


def _change_time(path: os.PathLike) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
