"""A question about the pictures that work in the background answers: the button that begins it, and the wait for it."""

import time
from collections.abc import Callable
from pathlib import Path

import streamlit as st

from lps.errors import Refusal
from lps.machine.background import Standing
from lps.running import background_jobs
from lps.ui.forms import fields, form
from lps.ui.shared.background_work import show_work


def offer(
    work: str, standing: Standing, cancelled: str, about: str, label: str, icon: str, begin: Callable[[], object]
) -> None:
    """How the last `work` ended, where that needs saying, what it would do, and the button; `begin` may refuse."""
    if standing.state == "failed":
        fields.say(f"The {work} failed: {standing.message}")
    elif standing.state == "cancelled":
        st.caption(cancelled)
    st.caption(about)
    if st.button(label, icon=icon):
        try:
            begin()
        except Refusal as error:
            fields.say(form.sentence(error))
            return
        st.rerun()


def wait(path: Path, about: str) -> None:
    """How far the work on the result `path` is; the whole page again once it is over."""
    work = background_jobs.job_at(path, time.time())
    if work is None or not work.is_working:
        st.rerun()
    show_work(work)
    st.caption(about)
