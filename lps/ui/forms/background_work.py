"""Show a background job (`lps.scheduler.background_jobs`): the button that starts it, its progress and its result."""

import time
from collections.abc import Callable
from pathlib import Path

import streamlit as st

from lps.errors import UserError
from lps.machine import detached_jobs
from lps.machine.detached_jobs import JobState
from lps.scheduler import background_jobs, class_count, overview
from lps.scheduler.background_jobs import BackgroundJob
from lps.settings import cli_args
from lps.ui.forms import fields, form
from lps.ui.shared import click_errors, escape, live_part
from lps.wording import ago, capitalized

_WAIT_S = 1.0


def show_work(job: BackgroundJob) -> None:
    """Show one line: the progress with a cancel button, or the result."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if job.is_working:
            time_text = overview.time_left_in_words(job.time_left) if job.time_left else _age_in_words(job)
            progress_text = f"{job.title} · {job.phase_in_words} · {time_text}"
            st.progress(job.share or 0.0, text=f":small[{escape.markdown(progress_text)}]")
            _offer_cancel(job)
            return
        st.markdown(f":small[{escape.markdown(f'{job.title} · {_describe_outcome(job)}')}]", width="stretch")
        if not job.settings:
            return
        changed_settings = cli_args.format_settings(
            {key: value for key, value in job.settings.items() if key not in ("dataset", "seed")}
        )
        link = {
            "dataset": str(job.settings.get("dataset")),
            "seeds": str(job.settings.get("seed")),
            "set": changed_settings,
        }
        st.page_link("pages/launch.py", label="Open in Launch", icon=":material/edit:", query_params=link)


def _age_in_words(job: BackgroundJob) -> str:
    """Return "started 12 s ago", which shows that the job works before its end is known."""
    return "time left unknown" if job.started is None else f"started {ago(time.time() - job.started)}"


def _offer_cancel(job: BackgroundJob) -> None:
    if detached_jobs.is_cancelled(job.path):
        st.button("Ending", key=f"cancel-{job.id}", icon=":material/hourglass_top:", disabled=True)
    else:
        help_text = escape.markdown(capitalized(job.remains)) or None
        st.button("Cancel", key=f"cancel-{job.id}", icon=":material/close:", help=help_text, on_click=_cancel_job,
                  args=(job,))  # fmt: skip


def _cancel_job(job: BackgroundJob) -> None:
    with click_errors.toast_errors():
        background_jobs.cancel_job(job)


def _describe_outcome(job: BackgroundJob) -> str:
    if job.state != "done" or job.path.parent.name != class_count.FOLDER:
        return f"failed: {job.message}" if job.state == "failed" else job.state
    try:
        count = class_count.read_class_count(job.path)
    except UserError as error:
        return str(error)
    return "done" if count is None else f"{count.total} classes, {count.novel} of them novel"


# ---------------------------------------------------------------------------------------------------- questions


def offer_work(
    work: str, job: JobState, cancelled: str, explanation: str, label: str, icon: str, begin: Callable[[], object]
) -> None:
    """Show how the last `work` ended, what it would do, and the button that starts it by `begin`."""
    if job.state == "failed":
        fields.show_error_or_help(f"The {work} failed: {job.message}")
    elif job.state == "cancelled":
        st.caption(cancelled)
    st.caption(explanation)
    if st.button(label, icon=icon):
        try:
            begin()
        except UserError as error:
            fields.show_error_or_help(form.error_sentence(error))
            return
        st.rerun()


def wait_for_work(path: Path, explanation: str) -> None:
    """Show the progress of the work on the result `path`; draw the whole page again when it ends."""

    def draw(work: BackgroundJob) -> None:
        show_work(work)
        st.caption(explanation)

    live_part.wait_for_end(
        lambda: background_jobs.job_at(path, time.time()),
        lambda work: work is not None and work.is_working,
        _WAIT_S,
        draw,
    )
