"""From page to page: every one is reached through app.py, and what a page that was left still asks for is not done."""

from collections.abc import Callable
from typing import NoReturn

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests, ScriptRequestType


def show_page(page: Callable[[], None]) -> None:
    """Draw a page, inside app.py; the last line of every file in pages/."""
    through_app()
    page()


show = show_page  # name until 0.3.0: page files of users call it


def through_app() -> None:
    """Begin again with app.py where Streamlit runs a page on its own.

    Until some script has called `st.navigation`, Streamlit takes the folder pages/ for an app of its old kind, without
    app.py. So the first link that a fresh server is asked for would show a page without our sidebar and width.
    """
    if PagesManager.uses_pages_directory:
        PagesManager.uses_pages_directory = False
        st.rerun()


def turn_to(page: str, **address: str | list[str]) -> NoReturn:
    """Leave this page for another one, such as `turn_to("live", run=run.id)`; address: what stands behind its `?`."""
    st.switch_page(f"pages/{page}.py", query_params=address)


def forget_left_pages() -> None:
    """Let Streamlit drop what the refreshing parts of a page ask for once that page has been left; to be called once.

    A browser goes on asking for parts of its page until it hears of the next one. Streamlit 1.67 runs such a part after
    the next page, as a part of the page that was left: the browser takes that for a change of the page, throws away
    what it shows and gets nothing instead, and the next part of the next page has no place any more ("Bad delta path").
    If it comes while the change of the page is still waiting, the change is forgotten.
    """
    if ScriptRunner._run_script is not _run_script:
        ScriptRunner._run_script, ScriptRequests.request_rerun = _run_script, _request_rerun


_run_any = ScriptRunner._run_script


def _run_script(runner: ScriptRunner, asked: RerunData) -> None:
    if not (asked.fragment_id_queue and _is_left(asked, runner._pages_manager.current_page_script_hash)):
        _run_any(runner, asked)


def _request_rerun(requests: ScriptRequests, asked: RerunData) -> bool:
    """Whether the request was taken, which is also said of one that is dropped."""
    with requests._lock:
        waiting = requests._rerun_data if requests._state is ScriptRequestType.RERUN else None
        is_turning = waiting is not None and not waiting.fragment_id_queue
        if is_turning and asked.fragment_id and _is_left(asked, waiting.page_script_hash):
            return True
        return requests._request_rerun_locked(asked)


def _is_left(asked: RerunData, page: str) -> bool:
    """Whether something was asked for by another page than the one the session is on."""
    return bool(asked.page_script_hash and page) and asked.page_script_hash != page
