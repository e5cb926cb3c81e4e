"""Notices while a page is open: a run has ended or collapsed. Each session shows one toast per event.

A check costs a few file-system calls per run; records are read only if a file has changed.
"""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

import streamlit as st

from lps.analysis import run_index
from lps.analysis.run_index import Measured
from lps.charts.event_log import History
from lps.data.class_shares import PriorAdvice
from lps.errors import UserError
from lps.files.folder_cache import FolderCache
from lps.files.locks import is_held
from lps.scheduler import launcher, preflight
from lps.settings.backbone_names import ABOUT_LABELS
from lps.settings.config import Config
from lps.settings.given_prior import ABOUT_ORACLE
from lps.store import titles
from lps.store.runs import Run
from lps.ui.server import paths
from lps.ui.shared import comparable_runs, escape, export_buttons, select
from lps.wording import counted, data_size

TICK_S = 5.0
_MAX_TOASTS = 3  # toasts at a time
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

    end_times: dict[str, int] = field(default_factory=dict)  # change time of exit.json, 0 without one
    events_sizes: dict[str, tuple[int, int]] = field(default_factory=dict)  # of events.jsonl: change time and size
    alive_ids: set[str] = field(default_factory=set)
    known_alarms: set[tuple[str, str]] = field(default_factory=set)  # (run id, kind)


def watch_runs() -> None:
    """Check for news every `TICK_S` seconds; called by app.py on every visit."""
    url_ids = frozenset(st.query_params.get_all("run"))
    st.fragment(_show_news, run_every=TICK_S)(url_ids, _existing_runs(url_ids, select.own_runs() if url_ids else []))


def _existing_runs(url_ids: frozenset[str], runs: list[Run]) -> frozenset[str]:
    return url_ids & {run.id for run in runs}


def _show_news(url_ids: frozenset[str], existing_ids: frozenset[str]) -> None:
    """Show toasts for what has happened.

    url_ids: the runs that the page is about. existing_ids: those of them that exist; the page restarts when that
    changes.
    """
    launcher.ensure_daemon(select.runs_root())  # nobody else may be left to do so
    watched = st.session_state.setdefault("notices", Watched())
    runs = select.own_runs()
    if _existing_runs(url_ids, runs) != existing_ids:
        st.rerun()
    news = list_news(watched, runs)
    for text, icon in news[:_MAX_TOASTS]:
        st.toast(text, icon=icon, duration="long")
    if len(news) > _MAX_TOASTS:
        st.toast(
            f"And {counted(len(news) - _MAX_TOASTS, 'more message')}. Open the page Runs to see all runs.",
            icon=":material/view_list:",
            duration="long",
        )


def list_news(watched: Watched, runs: list[Run]) -> list[tuple[str, str]]:
    """Return (text, icon) of what has happened since the last check, nothing at the first; update `watched`."""
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
            sentences += _describe_end(run, runs)
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


def _describe_end(run: Run, runs: list[Run]) -> list[tuple[str, str]]:
    state = run.state()
    if state.name not in _TOASTS:
        return []
    verb, icon = _TOASTS[state.name]
    score = run_index.measure_run(run).recent.number("accuracy/all")
    if state.name in ("failed", "crashed"):
        reason = state.reason.rstrip(".")
        details = f": {escape.markdown(reason)}" if reason else ""
    else:
        details = "" if score is None else f". Its accuracy on all classes is {100 * score:.1f} %"
    return [(f"**{escape.markdown(titles.run_title(run))}** {verb}{details}. {_link_to_run(run, runs)}", icon)]


def _link_to_run(run: Run, runs: list[Run]) -> str:
    """Return a link to the race of a run with and without the margin, such as the demo, otherwise to its page."""
    pair = comparable_runs.find_margin_pair(run, runs[: comparable_runs.NUM_SEARCHED])
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
    title = escape.markdown(titles.run_title(run))
    return (
        []
        if is_first
        else [(f"**{title}**: {escape.markdown(alarm.words)}", ":material/warning:") for alarm in new_alarms]
    )


def show_alarms(run: Run) -> None:
    """Show a line for each alarm of a run on its own page."""
    try:
        measurements = run_index.measure_run(run)
    except (UserError, OSError):
        measurements = Measured()
    for alarm in measurements.alarms:
        text = escape.markdown(f"{alarm.title} at epoch {alarm.epoch}: {alarm.words}.")
        st.warning(text, icon=":material/warning:")


def show_damages(run: Run) -> None:
    """Show a line for each unreadable file of texts or requests, and how to replace it."""
    remedies = {
        "meta.json": "If you rename the run, a new file is written",
        "want.json": "If you stop or resume the run, a new file is written",
    }
    for damage in run.damages():
        remedy = (
            ""
            if "newer" in damage
            else f" {remedies[damage.split()[0]]}. The damaged file stays beside it as damaged-…."
        )
        st.warning(escape.markdown(f"{damage}.{remedy}"), icon=":material/broken_image:")


def show_left_out(histories: Mapping[str, History]) -> None:
    """Show a line for each run whose records are too long for a page. histories: by the run's name on the page."""
    for name, history in histories.items():
        if history.left_out:
            text = (
                f"{name} has recorded more than a page can read. The first {data_size(history.left_out)} are left out"
            )
            first_epoch = f", so the curves begin at epoch {history.epochs.index[0]}" if len(history.epochs) else ""
            advice = "To get all records, run python -m lps export RUN --to csv"
            st.warning(escape.markdown(f"{text}{first_epoch}. {advice}."), icon=":material/content_cut:")


def show_start_warnings(configs: Sequence[Config]) -> None:
    """Show a line for each doubt about the settings and the data; none if the data is unreadable."""
    with contextlib.suppress(UserError):
        for warning in preflight.start_warnings(*configs):
            st.caption(escape.markdown(warning))


def show_disk_warning(configs: Sequence[Config]) -> None:
    """Show a line if the disk of the runs has no room for what is about to start."""
    if warning := preflight.disk_warning(configs, select.runs_root()):
        st.warning(escape.markdown(warning), icon=":material/hard_drive:")


def show_memory_warnings(configs: Sequence[Config]) -> None:
    """Show a line for each part of these runs that is large for the GPUs here; none if their data is unreadable."""
    with contextlib.suppress(UserError):
        for warning in preflight.memory_warnings(configs):
            st.info(escape.markdown(warning), icon=":material/memory:")


def show_labels_of_others(config: Config | None, is_short: bool = False) -> None:
    """Show a line if the start weights were trained with the labels of another data set.

    is_short: put the details into the help text, if the backbone is already chosen.
    """
    if config is None or not config.rests_on_labels:
        return
    if is_short:
        st.caption(":material/label: Start weights were trained with ImageNet's labels.", help=f"{ABOUT_LABELS}.")
    else:
        st.caption(f":material/label: {ABOUT_LABELS}.")


def show_prior_advice(advice: PriorAdvice | None, set_prior: Callable[[str], None]) -> None:
    """Show a line if labels look unequal, with a button that uses the advised prior and a link to the evidence.

    set_prior: sets this prior, in a callback.
    """
    if advice is None:
        return
    st.info(escape.markdown(advice.words), icon=":material/balance:")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            f"Use prior = {advice.prior}",
            key="use_prior",
            icon=":material/check:",
            on_click=set_prior,
            args=(advice.prior,),
        )
        export_buttons.offer_document("concepts/priors.md", "Why this helps", "prior_evidence")


def show_oracle_note(run: Run) -> None:
    """Show a line if the prior of a run was made from hidden labels."""
    with contextlib.suppress(UserError):
        if run.config().uses_hidden_labels:
            st.caption(f":material/visibility: {ABOUT_ORACLE}")


def _change_time(path: str) -> tuple[int, int]:
    try:
        stat = os.stat(path)
    except OSError:
        return 0, 0
    return stat.st_mtime_ns, stat.st_size
