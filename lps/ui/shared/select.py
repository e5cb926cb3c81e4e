"""Which runs a page shows. The page's address is the truth (`?run=...&run=...&epoch=...`), so a link restores it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import streamlit as st

from lps.errors import UserError
from lps.files.cache import runs_folder
from lps.files.locks import is_held
from lps.settings.config import Config
from lps.store.run_folders import list_runs, recorded_runs
from lps.store.runs import RUN_ID, Run
from lps.store.titles import run_label
from lps.ui.shared import escape, url_fields

_FEW = 2  # finished runs that can be held against each other
_HIDDEN = "hidden"  # in the address, where hidden runs are shown


def runs_root() -> Path:
    """The folder of runs that all pages show."""
    return runs_folder().absolute()


def own_runs() -> list[Run]:
    """The runs of this installation, newest first; folders that are no runs come last.

    Where their folder cannot be read, no page has anything to show but the reason, and ends here.
    """
    try:
        runs = list_runs(runs_root())
    except UserError as error:
        words = f"{escape.markdown(str(error))}. Set LPS_RUNS to another folder, or fix this one."
        st.error(words, icon=":material/folder_off:")
        st.stop()
    return sorted(runs, key=lambda run: RUN_ID.fullmatch(run.id) is None)


def all_runs() -> list[Run]:
    """Own runs, then the recordings that come with the program."""
    return own_runs() + recorded_runs()


def open_runs() -> list[Run]:
    """Those that pages offer: hidden ones only where the address names them, or asks for hidden ones."""
    runs = all_runs()
    if st.session_state.get(_HIDDEN, st.query_params.get(_HIDDEN) == "true"):
        return runs
    named = st.query_params.get_all("run")
    return [run for run in runs if run.id in named or not run.meta()["hidden"]]


def show_hidden_switch() -> None:
    """A switch that brings hidden runs back to this page's choices, where there are any; as on the page Runs."""
    hidden = sum(run.meta()["hidden"] for run in own_runs())
    if hidden:
        words = "Include the runs that you hid on the page Runs"
        st.toggle(f"Show {hidden} hidden", key=_HIDDEN, bind="query-params", width="content", help=words)


def default_runs(runs: list[Run]) -> list[Run]:
    """Return the default selection of a page: the user's own runs, or recordings if there are no others."""
    return [run for run in runs if not run.is_recorded] or runs


def default_group(runs: list[Run]) -> list[Run]:
    """What pages of many runs begin with: own ones, and the recordings where fewer than two of them have finished.

    A recording that an own run repeats is left out: the two would count twice.
    """
    own = [run for run in runs if not run.is_recorded]
    if len(list(islice((run for run in own if run.state().name == "finished"), _FEW))) == _FEW:
        return own
    asked = [_experiment(run) for run in own]
    return own + [run for run in runs if run.is_recorded and _experiment(run) not in asked]


def _experiment(run: Run) -> Config | None:
    """What was asked for, wherever it is carried out; None where that cannot be read."""
    config = run.config_if_readable()
    return config and replace(config, device="auto", threads=None)


def output_folder(run: Run) -> Path:
    """The folder for what a person makes of a run: the run's own; nothing is written into recordings."""
    return runs_root() / ".recorded" / run.id if run.is_recorded else run.folder


def latest_run(runs: list[Run]) -> Run | None:
    """The newest run that is alive, else the newest readable one, else the newest folder."""
    readable = (run for run in runs if run.state().name != "unreadable")
    alive = (run for run in runs if is_held(run.lock))
    return next(alive, None) or next(readable, None) or (runs[0] if runs else None)


def runs_of_address(runs: list[Run]) -> list[Run]:
    """The runs that the address names and that exist, in the address's order."""
    by_id = {run.id: run for run in runs}
    return [by_id[name] for name in dict.fromkeys(st.query_params.get_all("run")) if name in by_id]


def missing_names(runs: list[Run]) -> list[str]:
    """What the address calls a run though there is none of that name (any more), shortened for showing."""
    known = {run.id for run in runs}
    return [name[:80] for name in dict.fromkeys(st.query_params.get_all("run")) if name not in known]


def pick_runs(runs: list[Run]) -> list[Run]:
    """A box for any number of runs; empty means: the latest one, whichever that is."""
    by_id = {run.id: run for run in runs}
    url_fields.draw_field(
        st.multiselect,
        "picked_runs",
        [run.id for run in runs_of_address(runs)],
        lambda ids: url_fields.set_words("run", ids, "epoch"),
        "Runs",
        list(by_id),
        format_func=lambda name: run_label(by_id[name]),
        placeholder="Following the latest run. Choose runs to keep them selected",
        label_visibility="collapsed",
    )
    return runs_of_address(runs)


def pick_run(runs: list[Run]) -> Run | None:
    """A box for exactly one run; the first one that the address names, else the latest."""
    if not runs:
        return None
    by_id = {run.id: run for run in runs}
    chosen = (runs_of_address(runs) or [latest_run(runs)])[0]
    url_fields.draw_field(
        st.selectbox,
        "picked_run",
        chosen.id,
        lambda name: url_fields.set_words("run", name, "epoch", "image", "where"),
        "Run",
        list(by_id),
        format_func=lambda name: run_label(by_id[name]),
    )
    return chosen


def any_moves(runs: Sequence[Run]) -> bool:
    """Whether the state of any of these runs changes by itself."""
    return any(run.state().is_moving for run in runs)
