"""Which runs a page shows. The page's address is the truth (`?run=...&run=...&epoch=...`), so a link restores it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import streamlit as st

from lps.errors import Refusal
from lps.files.cache import runs_folder
from lps.files.locks import is_held
from lps.settings.config import Config
from lps.store.run_folders import list_runs, recorded_runs
from lps.store.runs import RUN_ID, Run
from lps.store.titles import label
from lps.ui.shared import escape

_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
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
    except Refusal as error:
        words = f"{escape.markdown(str(error))}. Set LPS_RUNS to another folder, or mend this one."
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
        words = "Runs that were hidden on the page Runs"
        st.toggle(f"{hidden} hidden too", key=_HIDDEN, bind="query-params", width="content", help=words)


def preferred(runs: list[Run]) -> list[Run]:
    """Those that a page begins with where nobody has chosen: own ones, recordings only where there are no others."""
    return [run for run in runs if not run.is_recorded] or runs


def comparable(runs: list[Run]) -> list[Run]:
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


def outputs(run: Run) -> Path:
    """The folder for what a person makes of a run: the run's own; nothing is written into recordings."""
    return runs_root() / ".recorded" / run.id if run.is_recorded else run.folder


def latest(runs: list[Run]) -> Run | None:
    """The newest run that is alive, else the newest readable one, else the newest folder."""
    readable = (run for run in runs if run.state().name != "unreadable")
    alive = (run for run in runs if is_held(run.lock))
    return next(alive, None) or next(readable, None) or (runs[0] if runs else None)


def picked(runs: list[Run]) -> list[Run]:
    """The runs that the address names and that exist, in the address's order."""
    by_id = {run.id: run for run in runs}
    return [by_id[name] for name in dict.fromkeys(st.query_params.get_all("run")) if name in by_id]


def missing(runs: list[Run]) -> list[str]:
    """What the address calls a run though there is none of that name (any more), shortened for showing."""
    known = {run.id for run in runs}
    return [name[:80] for name in dict.fromkeys(st.query_params.get_all("run")) if name not in known]


def pick_runs(runs: list[Run]) -> list[Run]:
    """A box for any number of runs; empty means: the latest one, whichever that is."""
    by_id = {run.id: run for run in runs}
    agree("picked_runs", [run.id for run in picked(runs)])
    st.multiselect(
        "Runs",
        list(by_id),
        format_func=lambda name: label(by_id[name]),
        key="picked_runs",
        on_change=_remember_runs,
        placeholder="Following the latest run. Choose one or several to stay with them",
        label_visibility="collapsed",
    )
    return picked(runs)


def pick_run(runs: list[Run]) -> Run | None:
    """A box for exactly one run; the first one that the address names, else the latest."""
    if not runs:
        return None
    by_id = {run.id: run for run in runs}
    chosen = (picked(runs) or [latest(runs)])[0]
    agree("picked_run", chosen.id)
    st.selectbox(
        "Run",
        list(by_id),
        format_func=lambda name: label(by_id[name]),
        key="picked_run",
        on_change=_remember_run,
    )
    return chosen


def any_moves(runs: Sequence[Run]) -> bool:
    """Whether the state of any of these runs changes by itself."""
    return any(run.state().is_moving for run in runs)


def number(name: str) -> int | None:
    """A whole number of the address, such as the epoch; None where it has none."""
    text = st.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def set_number(name: str, value: int | None) -> None:
    """Write a number into the address, or take it out."""
    if value is None:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = str(value)


def choice(name: str, options: list[str]) -> str:
    """A word of the address that is one of `options`, else the first of them."""
    word = st.query_params.get(name, "")
    return word if word in options else options[0]


def choose(widget: Callable, name: str, label: str, words: dict[str, str], **options) -> str:
    """A choice that stands in the address under `name`, the first of `words` where it does not.

    widget: a Streamlit selectbox or segmented control. words: option -> what people read.
    """
    value = choice(name, list(words))
    key = f"picked_{name}"
    agree(key, value)
    widget(
        label,
        list(words),
        format_func=lambda word: words.get(word, word),
        key=key,
        on_change=_remember_choice,
        args=(name, next(iter(words))),
        **options,
    )
    return value


def _remember_choice(name: str, usual: str) -> None:
    word = st.session_state[f"picked_{name}"]
    if word and word != usual:
        st.query_params[name] = word
    else:
        st.query_params.pop(name, None)


def _remember_runs() -> None:
    st.query_params["run"] = st.session_state["picked_runs"]
    st.query_params.pop("epoch", None)


def _remember_run() -> None:
    st.query_params["run"] = st.session_state["picked_run"]
    for name in ("epoch", "image", "where"):
        st.query_params.pop(name, None)


def agree(key: str, value) -> None:
    """Let a widget show what the address says; untouched where it does already, so that nothing jumps."""
    if st.session_state.get(key) != value:
        st.session_state[key] = value


def link() -> str:
    """The address of the page as it is."""
    pairs = []
    for key in st.query_params:
        pairs += [f"{_quoted(key)}={_quoted(value)}" for value in st.query_params.get_all(key)]
    return f"{(st.context.url or '').partition('?')[0]}{'?' * bool(pairs)}{'&'.join(pairs)}"


def _quoted(text: str) -> str:
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in text.encode())
