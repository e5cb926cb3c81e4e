"""The runs that a page shows; the URL stores them (`?run=...&run=...&epoch=...`), so that a link restores them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import streamlit as st

from lps.analysis import run_index
from lps.analysis.run_index import RunRow
from lps.errors import UserError
from lps.files.locks import is_held
from lps.files.user_folders import runs_folder
from lps.settings.config import Config
from lps.store import run_folders
from lps.store.run_folders import list_runs, recorded_runs
from lps.store.runs import Run
from lps.store.titles import short_id
from lps.tables import columns, run_filter
from lps.ui.shared import escape, url_fields
from lps.wording import counted, percent

_RESULT = " · "  # in a label, between the name of a run and its state or accuracy
_FEW = 2  # finished runs that can be compared
_KEPT = "kept_run"  # in the session: the run chosen last for a page on own data, and the newest run at that time
_ALL = "all"  # in the address, where all runs are shown instead of a sweep
_HIDDEN = "hidden"  # in the address, where hidden runs are shown


def runs_root() -> Path:
    """Return the folder of runs that all pages show."""
    return runs_folder().absolute()


def own_runs() -> list[Run]:
    """Return the runs of this installation (`list_runs`).

    If their folder cannot be read, show the reason and end the page.
    """
    try:
        return list_runs(runs_root())
    except UserError as error:
        message = f"{escape.sentence(error)} Set LPS_RUNS to another folder, or fix this one."
        st.error(message, icon=":material/folder_off:")
        st.stop()


def all_runs() -> list[Run]:
    """Return own runs, then the recordings that come with the program."""
    return own_runs() + recorded_runs()


def open_runs() -> list[Run]:
    """Return the runs that pages offer: hidden ones only if the URL names them or asks for hidden runs."""
    runs = all_runs()
    if st.session_state.get(_HIDDEN, st.query_params.get(_HIDDEN) == "true"):
        return runs
    url_ids = st.query_params.get_all("run")
    return [run for run in runs if run.id in url_ids or not run.meta()["hidden"]]


def show_hidden_switch() -> None:
    """Show a switch that adds hidden runs to this page's choices, if there are any; as on the page Runs."""
    num_hidden = sum(run.meta()["hidden"] for run in own_runs())
    if num_hidden:
        help_text = "Include the runs that you hid on the page Runs"
        st.toggle(f"Show {num_hidden} hidden", key=_HIDDEN, bind="query-params", width="content", help=help_text)


def find_run(text: str) -> Run:
    """Return the run that a URL or a session names by its id or the end of it; raises `UserError`."""
    return run_folders.find_run(runs_root(), text, by_path=False)


def default_runs(runs: list[Run]) -> list[Run]:
    """Return the default selection of a page: the user's own runs, or recordings if there are no others."""
    return [run for run in runs if not run.is_recorded] or runs


def default_group(runs: list[Run]) -> list[Run]:
    """Return the default runs of pages with many runs: own ones, with recordings if fewer than two have finished.

    Recordings that an own run repeats are left out, because the two would count twice.
    """
    own = [run for run in runs if not run.is_recorded]
    if len(list(islice((run for run in own if run.state().name == "finished"), _FEW))) == _FEW:
        return own
    own_experiments = [_experiment(run) for run in own]
    return own + [run for run in runs if run.is_recorded and _experiment(run) not in own_experiments]


def _experiment(run: Run) -> Config | None:
    """Return the settings of a run without its device; None if they cannot be read."""
    config = run.config_if_readable()
    return config and replace(config, device="auto", threads=None)


def output_folder(run: Run) -> Path:
    """Return the folder for files that a user makes from a run: the run's own, or another one for a recording."""
    return runs_root() / ".recorded" / run.id if run.is_recorded else run.folder


def latest_run(runs: list[Run]) -> Run | None:
    """Return the newest run that is alive, otherwise the newest readable one, otherwise the newest folder."""
    readable_runs = (run for run in runs if run.state().name != "unreadable")
    alive_runs = (run for run in runs if is_held(run.lock))
    return next(alive_runs, None) or next(readable_runs, None) or (runs[0] if runs else None)


def runs_of_address(runs: list[Run]) -> list[Run]:
    """Return the runs that the URL names and that exist, in the order of the URL."""
    by_id = {run.id: run for run in runs}
    return [by_id[name] for name in dict.fromkeys(st.query_params.get_all("run")) if name in by_id]


def offer_all_runs(number: int, sweep: str = "") -> None:
    """Say how many runs are shown, and offer to show all instead (`wants_all_runs`).

    They are those that the URL names, or those of a sweep.
    """
    shown = f"{counted(number, 'run')} of your newest sweep, {sweep}" if sweep else counted(number, "chosen run")
    value = _ALL if sweep else None
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(escape.markdown(f"Shown: {shown}."), width="content")
        st.button("Show all runs", type="tertiary", on_click=url_fields.set_values, args=("runs", value, "run"))


def wants_all_runs() -> bool:
    """Return whether the user asked for all runs instead of those of the newest sweep."""
    return st.query_params.get("runs") == _ALL


def missing_names(runs: list[Run]) -> list[str]:
    """Return the names of runs in the URL that do not exist, at most 80 characters each."""
    existing_ids = {run.id for run in runs}
    return [name[:80] for name in dict.fromkeys(st.query_params.get_all("run")) if name not in existing_ids]


def run_names(runs: Sequence[Run]) -> dict[str, str]:
    """Return the name of every run in menus, by id: that of Runs, "C=10, w=1, LPS seed 0".

    Runs with equal names have the ends of their ids, too.
    """
    return _name_rows(run_index.read_rows(runs))


def _name_rows(rows: Sequence[RunRow]) -> dict[str, str]:
    varied = columns.varying_settings(rows)
    names = {row.run.id: columns.displayed_name(row, varied) for row in rows}
    counts = Counter(names.values())
    for row in rows:
        run_id, name = row.run.id, names[row.run.id]
        if row.shown_state == "recorded":
            names[run_id] += " (recorded)"
        elif counts[name] > 1:
            names[run_id] += f" ({short_id(run_id)})"
    return names


def run_labels(runs: Sequence[Run]) -> dict[str, str]:
    """Return the names with the novel accuracy of a run that has finished, otherwise its state: "my run · running"."""
    rows = run_index.read_rows(runs)
    names = _name_rows(rows)
    return {row.run.id: _RESULT.join([names[row.run.id], *_result_in_words(row)]) for row in rows}


def _result_in_words(row: RunRow) -> list[str]:
    if row.shown_state not in ("finished", "recorded"):
        return [row.shown_state]
    novel = row.measured.recent.number("accuracy/novel")
    return [] if novel is None else [f"novel {percent(novel, 1)}"]


def pick_runs(runs: list[Run], key: str, placeholder: str) -> list[Run]:
    """Show a field for any number of runs and return them, in the order of the URL; [] without a choice.

    The browser offers runs whose names contain the typed text. A text that no name contains adds the runs that have all
    its words, in any order.
    """
    labels = run_labels(runs)

    def store_choice(texts: list[str]) -> None:
        ids = {text: _find_labeled(runs, text) or run_filter.find_by_words(labels, text) for text in texts}
        for text in (text for text, found_ids in ids.items() if not found_ids):
            st.toast(escape.markdown(f"No run has all words of “{text}”."), icon=":material/search_off:")
        url_fields.set_values("run", list(dict.fromkeys(chain.from_iterable(ids.values()))), "epoch")

    url_fields.draw_field(
        st.multiselect,
        key,
        [run.id for run in runs_of_address(runs)],
        store_choice,
        "Runs",
        list(labels),
        format_func=lambda text: labels.get(text, text),
        placeholder=placeholder,
        filter_mode="contains",
        accept_new_options=True,
        label_visibility="collapsed",
    )
    return runs_of_address(runs)


def _find_labeled(runs: Sequence[Run], text: str) -> list[str]:
    """Return the ids of the runs whose id or label is `text`, also a label from an earlier state of the run.

    The browser sends the label that it shows, which may be older than the state.
    """
    if any(run.id == text for run in runs):
        return [text]
    names = {key: name for key, name in run_names(runs).items() if text == name or text.startswith(name + _RESULT)}
    longest = max(map(len, names.values()), default=0)  # "X · v2 · running" is a label of "X · v2", not of "X"
    return [key for key, name in names.items() if len(name) == longest]


def pick_run(runs: list[Run], prefers_own_data: bool = False) -> Run | None:
    """Show a field for exactly one run and return it: the first one in the URL, otherwise the latest.

    prefers_own_data: otherwise the one chosen last on such a page, unless there is a newer run than at that time;
    otherwise the latest on a file or folder of the user, if there is one.
    """
    if not runs:
        return None
    by_id = {run.id: run for run in runs}
    named_runs = runs_of_address(runs)
    preferred = [run for run in runs if _has_own_data(run)] if prefers_own_data and not named_runs else []
    newest = max(by_id)  # ids begin with the time of creation
    kept, newest_then = st.session_state.get(_KEPT, ("", ""))
    if prefers_own_data and named_runs:
        st.session_state[_KEPT] = named_runs[0].id, newest
    elif prefers_own_data and kept in by_id and newest <= newest_then:
        named_runs = [by_id[kept]]
    chosen = named_runs[0] if named_runs else latest_run(preferred or runs)

    def store_choice(text: str) -> None:
        url_fields.set_values("run", _find_labeled(runs, text)[:1] or chosen.id, "epoch", "image", "where")

    url_fields.draw_field(
        st.selectbox,
        "picked_run",
        chosen.id,
        store_choice,
        "Run",
        list(by_id),
        format_func=run_labels(runs).__getitem__,
        filter_mode="contains",
    )
    return chosen


def _has_own_data(run: Run) -> bool:
    config = run.config_if_readable()
    return config is not None and config.dataset_path is not None and not run.is_recorded


def any_moves(runs: Sequence[Run]) -> bool:
    """Return whether the state of any of these runs changes by itself."""
    return any(run.state().is_moving for run in runs)
