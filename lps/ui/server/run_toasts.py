"""Toasts while a page is open: a run has ended or collapsed. Each session shows one toast per event.

A check costs a few file-system calls per run; records are read only if a file has changed.
"""

import os
from dataclasses import dataclass, field
from urllib.parse import urlencode

import streamlit as st

from lps.analysis import run_index
from lps.files.folder_cache import FolderCache
from lps.files.locks import is_held
from lps.scheduler import launcher
from lps.store import titles
from lps.store.runs import Run
from lps.ui.server import paths
from lps.ui.shared import comparable_runs, escape, select
from lps.wording import counted

TICK_S = 5.0
_MAX_TOASTS = 3  # toasts at a time
_URGENT = ("collapse", "empty")  # alarms that are worth a toast; a growing gap is part of some methods' course
_TOASTS = {
    "finished": ("has finished", ":material/check_circle:"),
    "stopped": ("was stopped", ":material/stop_circle:"),
    "failed": ("has failed", ":material/error:"),
    "crashed": ("has crashed", ":material/bolt:"),
}


@dataclass
class Watched:
    """What a session has seen so far, by run id."""

    end_times: dict[str, int] = field(default_factory=dict)  # change time of exit.json, 0 without one
    events_sizes: dict[str, tuple[int, int]] = field(default_factory=dict)  # of events.jsonl: change time and size
    alive_ids: set[str] = field(default_factory=set)
    known_alarms: set[tuple[str, str]] = field(default_factory=set)  # (run id, kind)


def watch_runs(page: str) -> None:
    """Check for news every `TICK_S` seconds; called by app.py on every visit. page: its path in the address."""
    url_ids = frozenset(st.query_params.get_all("run"))
    existing_ids = _existing_runs(url_ids, select.own_runs() if url_ids else [])
    raced_ids = url_ids if page == "pace" else frozenset()
    st.fragment(_show_news, run_every=TICK_S)(url_ids, existing_ids, raced_ids)


def _existing_runs(url_ids: frozenset[str], runs: list[Run]) -> frozenset[str]:
    return url_ids & {run.id for run in runs}


def _show_news(url_ids: frozenset[str], existing_ids: frozenset[str], raced_ids: frozenset[str]) -> None:
    """Show toasts for what has happened.

    url_ids: the runs that the page is about. existing_ids: those of them that exist; the page restarts when that
    changes. raced_ids: those whose race is on the page.
    """
    launcher.ensure_daemon(select.runs_root())  # the scheduler may have ended
    watched = st.session_state.setdefault("notices", Watched())
    runs = select.own_runs()
    if _existing_runs(url_ids, runs) != existing_ids:
        st.rerun()
    news = list_news(watched, runs, raced_ids)
    for text, icon in news[:_MAX_TOASTS]:
        st.toast(text, icon=icon, duration="long")
    if len(news) > _MAX_TOASTS:
        st.toast(
            f"And {counted(len(news) - _MAX_TOASTS, 'more message')}. Open the page Runs to see all runs.",
            icon=":material/view_list:",
            duration="long",
        )


def list_news(watched: Watched, runs: list[Run], raced_ids: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    """Return (text, icon) of what has happened since the last check, nothing at the first; update `watched`.

    raced_ids: runs whose race is on the page, which gets no link to itself.
    """
    is_first = not watched.end_times and not watched.alive_ids
    sentences = []
    for run in runs:
        run_id = run.id
        end_time, events_size, is_alive = _looks.value(str(run.folder), lambda stamp, run=run: _look_at(run))
        was_seen = run_id in watched.end_times
        has_ended = was_seen and end_time != watched.end_times[run_id] or run_id in watched.alive_ids and not is_alive
        if (is_alive or has_ended) and events_size != watched.events_sizes.get(run_id):
            sentences += _new_alarms(watched, run, is_first=is_first)
        if has_ended:
            sentences += _describe_end(run, runs, raced_ids)
        watched.end_times[run_id], watched.events_sizes[run_id] = end_time, events_size
        (watched.alive_ids.add if is_alive else watched.alive_ids.discard)(run_id)
    return sentences


def _look_at(run: Run) -> tuple[int, tuple[int, int], bool]:
    """Return the change time of exit.json, change time and size of events.jsonl, and whether the run is alive."""
    folder = str(run.folder)
    end_time = _change_time(f"{folder}/exit.json")[0]
    return end_time, _change_time(f"{folder}/events.jsonl"), is_held(f"{folder}/lock")


# A run that begins writes process.json; exit.json may be written over in place.
_looks: FolderCache[tuple] = FolderCache("exit.json", may_keep=lambda look: not look[-1])


def _describe_end(run: Run, runs: list[Run], raced_ids: frozenset[str]) -> list[tuple[str, str]]:
    state = run.state()
    if state.name not in _TOASTS:
        return []
    verb, icon = _TOASTS[state.name]
    recent = run_index.measure_run(run).recent
    scores = {group: recent.number(f"accuracy/{group}") for group in ("all", "seen", "novel")}
    if state.name in ("failed", "crashed"):
        reason = state.reason.rstrip(".")
        details = f": {escape.markdown(reason)}" if reason else ""
    else:
        texts = [f"{group} {100 * score:.1f} %" for group, score in scores.items() if score is not None]
        details = f". Accuracy: {', '.join(texts)}" if texts else ""
    return [(f"**{_short_name(run)}** {verb}{details}. {_link_to_run(run, runs, raced_ids)}".rstrip(), icon)]


def _link_to_run(run: Run, runs: list[Run], raced_ids: frozenset[str] = frozenset()) -> str:
    """Return a link to the race of a run with and without the margin, such as the demo, otherwise to its page.

    Returns "" where this race is on the page.
    """
    pair = comparable_runs.find_margin_pair(run, runs[: comparable_runs.NUM_SEARCHED])
    if pair and raced_ids >= {shown.id for shown in pair}:
        return ""
    label, page = ("Watch the race", "pace") if pair else ("Open the run", "live")
    address = urlencode([("run", shown.id) for shown in pair or [run]])
    return f"[{label}]({paths.path_of(f'{page}?{address}')})"


def _new_alarms(watched: Watched, run: Run, is_first: bool) -> list[tuple[str, str]]:
    """Return the urgent alarms that the run did not have at the last check."""
    alarms_by_kind = {alarm.kind: alarm for alarm in run_index.measure_run(run).alarms if alarm.kind in _URGENT}
    new_alarms = [alarm for kind, alarm in alarms_by_kind.items() if (run.id, kind) not in watched.known_alarms]
    watched.known_alarms = {pair for pair in watched.known_alarms if pair[0] != run.id} | {
        (run.id, kind) for kind in alarms_by_kind
    }
    if is_first:
        return []
    name = _short_name(run)  # page.css gives it a line of its own
    return [
        (f"**{name}** {escape.markdown(f'{alarm.title}: {alarm.words}')}", ":material/warning:") for alarm in new_alarms
    ]


def _short_name(run: Run) -> str:
    """Return the title of a run as markdown, with the symbols of its settings if a sweep gave it."""
    title, config = titles.run_title(run), run.config_if_readable()
    return escape.markdown(titles.name_in_symbols(title, config) if config else title)


def _change_time(path: str) -> tuple[int, int]:
    try:
        stat = os.stat(path)
    except OSError:
        return 0, 0
    return stat.st_mtime_ns, stat.st_size
