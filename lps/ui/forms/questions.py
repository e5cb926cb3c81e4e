"""A question about the pictures that work in the background answers: the button that begins it, and the wait for it."""

import time
from collections.abc import Callable
from pathlib import Path

import streamlit as st

from lps.errors import UserError
from lps.machine.background import JobState
from lps.scheduler import background_jobs
from lps.scheduler.background_jobs import BackgroundJob
from lps.ui.forms import fields, form
from lps.ui.forms.background_work import WAIT_S, show_work
from lps.ui.shared import live_part


def offer(
    work: str, standing: JobState, cancelled: str, about: str, label: str, icon: str, begin: Callable[[], object]
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
        except UserError as error:
            fields.say(form.sentence(error))
            return
        st.rerun()


def wait(path: Path, about: str) -> None:
    """How far the work on the result `path` is; the whole page again once it is over."""

    def draw(work: BackgroundJob) -> None:
        show_work(work)
        st.caption(about)

    live_part.wait(
        lambda: background_jobs.job_at(path, time.time()),
        lambda work: work is not None and work.is_working,
        WAIT_S,
        draw,
    )
