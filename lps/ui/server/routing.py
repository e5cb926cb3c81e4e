"""Navigation between pages: every page runs inside app.py, and late requests of a page that was left are dropped."""

from collections.abc import Callable
from typing import NoReturn

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests, ScriptRequestType


def show_page(page: Callable[[], None]) -> None:
    """Draw a page inside app.py; the last line of every file in pages/ calls this."""
    through_app()
    page()


show = show_page  # name until 0.3.0; page files of users call it


def through_app() -> None:
    """Start again with app.py if Streamlit runs a page without it.

    Until a script has called `st.navigation`, Streamlit treats the folder pages/ as an app of its old kind, without
    app.py. So the first page of a fresh server would have no sidebar and another width.
    """
    if PagesManager.uses_pages_directory:
        PagesManager.uses_pages_directory = False
        st.rerun()


def turn_to(page: str, **address: str | list[str]) -> NoReturn:
    """Switch to another page, such as `turn_to("live", run=run.id)`; address: the query parameters of its URL."""
    st.switch_page(f"pages/{page}.py", query_params=address)


def forget_left_pages() -> None:
    """Make Streamlit drop requests of refreshing fragments of a page that was left; call this once.

    A browser requests fragments of its page until it receives the next page. Streamlit 1.67 runs such a fragment after
    the next page, as part of the old one: the browser takes this for a change of the page and clears it, and the next
    fragment of the new page fails ("Bad delta path"). If the request arrives while the change of the page is pending,
    the change is lost.
    """
    if ScriptRunner._run_script is not _run_script:
        ScriptRunner._run_script, ScriptRequests.request_rerun = _run_script, _request_rerun


_streamlit_run_script = ScriptRunner._run_script


def _run_script(runner: ScriptRunner, request: RerunData) -> None:
    if not (request.fragment_id_queue and _is_of_left_page(request, runner._pages_manager.current_page_script_hash)):
        _streamlit_run_script(runner, request)


def _request_rerun(requests: ScriptRequests, request: RerunData) -> bool:
    """Return whether the request was accepted; also true for a dropped one."""
    with requests._lock:
        waiting = requests._rerun_data if requests._state is ScriptRequestType.RERUN else None
        is_turning = waiting is not None and not waiting.fragment_id_queue
        if is_turning and request.fragment_id and _is_of_left_page(request, waiting.page_script_hash):
            return True
        return requests._request_rerun_locked(request)


def _is_of_left_page(request: RerunData, page: str) -> bool:
    """Return whether a request comes from another page than the session's current one."""
    return bool(request.page_script_hash and page) and request.page_script_hash != page
