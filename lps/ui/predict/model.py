"""Export the model: a button that makes its folder in the background, and the .zip once it exists."""

import streamlit as st

from lps.inference import export_job
from lps.machine import detached_jobs
from lps.settings import cli_args
from lps.store.runs import Run
from lps.store.titles import short_id
from lps.ui.forms import background_work
from lps.ui.pictures import nouns
from lps.ui.server import downloads
from lps.ui.shared import click_errors, escape, export_buttons


def show_model_export(run: Run) -> None:
    """Show what the export contains, its button, its progress and its file."""
    st.subheader("Export the model", anchor=False)
    description = (
        "One folder that works without this program: the model as ONNX (pictures in; classes or none of these "
    )
    description += "out), your names, a model card with its training data and accuracy, and a short example."
    st.caption(nouns.of(run)(description))
    click_errors.show_errors("model")
    path = export_job.export_path(run)
    job = detached_jobs.job_state(path)
    if job.state == "done":
        export_buttons.offer_file(
            "Download model", downloads.model_address(run), "deployed_code", "The folder as one ZIP file"
        )
    elif job.state == "working":
        background_work.wait_for_work(path, "This takes about a minute and continues if you leave this page.")
    else:
        if job.state == "failed":
            st.error(escape.sentence(job.message.removeprefix("lps: ")), icon=":material/error:")
        st.button(
            "Export the model", icon=":material/deployed_code:", key="take_model", on_click=_begin_export, args=(run,)
        )
    export_buttons.show_command(
        cli_args.format_command("export", short_id(run.id), to="model"), "Export on the command line"
    )


def _begin_export(run: Run) -> None:
    with click_errors.keep_errors("model"):
        export_job.start_export(run)
