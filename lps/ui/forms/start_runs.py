"""Start runs from a click: one run per config, however often the user clicks.

A page draws its button with the token of the visit as an argument, and every further click of the visit carries the
same token. The same token and config give the same folder. A visit ends when its runs are submitted.
"""

import secrets
from collections.abc import Callable

import streamlit as st

from lps.files.atomic import as_user_error
from lps.scheduler import start_check, submit
from lps.scheduler.submit import RunRequest
from lps.settings.config import Config
from lps.ui.forms import execution_target
from lps.ui.forms.execution_target import ExecutionTarget
from lps.ui.shared import click_errors, select


def show_start_button(label: str, page: str, **options) -> None:
    """Show a button whose click `take_request` picks up at the top of the page; options: those of `st.button`."""
    visit = st.session_state.setdefault(f"{page}_visit", secrets.token_hex(8))
    st.button(label, key=f"{page}_start", on_click=_request_visit, args=(page, visit), **options)


def take_request(page: str):
    """Return the visit whose `button` was clicked, once; by then the fields have their newest values."""
    return st.session_state.pop(f"{page}_asked", None)


def is_requested(page: str) -> bool:
    """Return whether the button was clicked, for `take_request`."""
    return f"{page}_asked" in st.session_state


def request_start(page: str, *arguments) -> None:
    """Let the next run of the page start what was clicked; a second click requests the same start."""
    st.session_state[f"{page}_asked"] = arguments


def start_requested(page: str, begin: Callable[..., str | None]) -> str | None:
    """Call `begin` if a start was requested since the last run of the script; returns its result.

    Returns None without a request or on failure; `click_errors.show_errors(page)` shows the reason of a failure.
    """
    arguments = take_request(page)
    with click_errors.keep_errors(page):
        return begin(*arguments) if arguments else None


def start_runs(
    page: str, visit: str, configs: tuple[Config, ...], name: str = "", target: ExecutionTarget | None = None
) -> list[str]:
    """Return the ids of the runs, now waiting or running.

    Raises `UserError` if a folder, process or job cannot be created.
    """
    if target is not None:
        execution_target.check_target(target)
    for config in configs[:1]:  # they differ in nothing but the seed
        start_check.check_start_in_subprocess(config)
    job_options = {} if target is None or target.on is None else {"array": name, "on": target.on}
    with as_user_error("runs", f"{select.runs_root()} cannot be used"):
        runs = submit.create_runs(
            select.runs_root(), [RunRequest(config, name, visit) for config in configs], **job_options
        )
    st.session_state.pop(f"{page}_visit", None)
    return [run.id for run in runs]


def _request_visit(page: str, visit: str) -> None:
    st.session_state[f"{page}_asked"] = visit
