"""Lines that pages show about runs and settings: alarms, damage, and doubts about what is about to start."""

import contextlib
from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from lps.analysis import run_index
from lps.analysis.alarms import Alarm
from lps.charts.event_log import History
from lps.data.class_shares import PriorAdvice
from lps.errors import UserError
from lps.scheduler import preflight
from lps.settings.backbone_names import ABOUT_LABELS
from lps.settings.config import Config
from lps.settings.given_prior import ABOUT_ORACLE
from lps.store.runs import Run
from lps.ui.shared import escape, export_buttons, select
from lps.wording import data_size


def list_alarms(run: Run) -> tuple[Alarm, ...]:
    """Return the alarms of a run at its newest epoch; none if its records cannot be read."""
    try:
        return run_index.measure_run(run).alarms
    except (UserError, OSError):
        return ()


def show_alarms(run: Run) -> None:
    """Show a line for each alarm of a run on its own page."""
    for alarm in list_alarms(run):
        text = escape.markdown(f"{alarm.title} at epoch {alarm.epoch}: {alarm.words}.")
        st.warning(text, icon=":material/warning:")


def link_queue() -> None:
    """Show a link to the page Queue, where a user can resume a paused queue or move a run to the front."""
    st.page_link("pages/queue.py", label="Open the queue", icon=":material/pending_actions:")


def show_damages(run: Run) -> None:
    """Show a line for each unreadable file of texts or requests, and how to replace it."""
    remedies = {
        "meta.json": "If you rename the run, a new file is written",
        "want.json": "If you stop or resume the run, a new file is written",
    }
    for damage in run.damages():
        remedy = (
            ""
            if "newer" in damage
            else f" {remedies[damage.split()[0]]}. The damaged file stays beside it as damaged-…."
        )
        st.warning(escape.markdown(f"{damage}.{remedy}"), icon=":material/broken_image:")


def show_left_out(histories: Mapping[str, History]) -> None:
    """Show a line for each run whose records are too long for a page. histories: by the run's name on the page."""
    for name, history in histories.items():
        if history.left_out:
            text = (
                f"{name} has recorded more than a page can read. The first {data_size(history.left_out)} are left out"
            )
            first_epoch = f", so the curves begin at epoch {history.epochs.index[0]}" if len(history.epochs) else ""
            advice = "To get all records, run python -m lps export RUN --to csv"
            st.warning(escape.markdown(f"{text}{first_epoch}. {advice}."), icon=":material/content_cut:")


def show_start_warnings(configs: Sequence[Config]) -> None:
    """Show a line for each doubt about the settings and the data; none if the data is unreadable."""
    with contextlib.suppress(UserError):
        for warning in preflight.start_warnings(*configs):
            st.caption(escape.markdown(warning))


def show_disk_warning(configs: Sequence[Config]) -> None:
    """Show a line if the disk of the runs has no room for what is about to start."""
    if warning := preflight.disk_warning(configs, select.runs_root()):
        st.warning(escape.markdown(warning), icon=":material/hard_drive:")


def show_memory_warnings(configs: Sequence[Config]) -> None:
    """Show a line for each part of these runs that is large for the GPUs here; none if their data is unreadable."""
    with contextlib.suppress(UserError):
        for warning in preflight.memory_warnings(configs):
            st.info(escape.markdown(warning), icon=":material/memory:")


def show_labels_of_others(config: Config | None, is_short: bool = False) -> None:
    """Show a line if the start weights were trained with the labels of another data set.

    is_short: put the details into the help text, if the backbone is already chosen.
    """
    if config is None or not config.rests_on_labels:
        return
    if is_short:
        st.caption(":material/label: Start weights were trained with ImageNet's labels.", help=f"{ABOUT_LABELS}.")
    else:
        st.caption(f":material/label: {ABOUT_LABELS}.")


def show_prior_advice(advice: PriorAdvice | None, set_prior: Callable[[str], None]) -> None:
    """Show a line if labels look unequal, with a button that uses the advised prior and a link to the evidence.

    set_prior: sets this prior, in a callback.
    """
    if advice is None:
        return
    st.info(escape.markdown(advice.words), icon=":material/balance:")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            f"Use prior = {advice.prior}",
            key="use_prior",
            icon=":material/check:",
            on_click=set_prior,
            args=(advice.prior,),
        )
        export_buttons.offer_document("concepts/priors.md", "Why this helps", "prior_evidence")


def show_oracle_note(run: Run) -> None:
    """Show a line if the prior of a run was made from hidden labels."""
    with contextlib.suppress(UserError):
        if run.config().uses_hidden_labels:
            st.caption(f":material/visibility: {ABOUT_ORACLE}")
