"""The page Explain: two trainings to play with, then six questions that one class distribution answers."""

import streamlit as st

from lps.store.runs import Run
from lps.ui.explain import distribution, margin, objective, plane, thresholds, what_if
from lps.ui.shared import live_part, page_head, select
from lps.ui.shared.history import read_history

_TICK_S = 2.0  # between two readings of a running run


def main() -> None:
    """Draw the page."""
    page_head.show_title("Explain")
    runs = select.open_runs()
    if not page_head.are_all_missing(runs, "Explain"):
        _show_explain(runs)


def _show_explain(runs: list[Run]) -> None:
    """Draw everything; runs may be empty."""
    st.markdown(
        "Some classes come with labels (:blue[**seen**]), others must be discovered (:orange[**novel**]). A model "
        "learns the seen classes faster and then takes novel images for seen ones. LPS detects this in the model's "
        "own guesses and holds back the faster classes. Move the sliders to see how."
    )
    _show_question("What if?")
    plane.show_plane()
    _show_question("What if, with real pictures?")
    what_if.show_what_if()
    _show_question("Which classes does the model guess?")
    belief = distribution.choose_distribution(runs)
    if not runs:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption("These are example distributions. Choose a run to see its own.", width="content")
            st.page_link("pages/home.py", label="Start the demo", icon=":material/play_arrow:")
    _show_question("How far is this from equal shares?")
    divergence, prior = margin.show_divergence(belief)
    _show_question("How much is each class held back?")
    values = margin.show_margins(belief, divergence, prior)
    _show_question("How does this change the training of one image?")
    margin.show_image(belief, values)
    _show_question("When does a guess become a pseudo-label?")
    thresholds.show_thresholds(belief)
    _show_question("Which terms does the loss have?")
    objective.show_objective(belief)
    _follow_run(belief)


def _show_question(question: str) -> None:
    st.space("small")
    st.subheader(question)


def _follow_run(belief: distribution.ClassEstimate) -> None:
    """While the newest epoch of an active run is shown, move on to each new epoch."""
    if belief.run and "epoch" not in st.query_params and not belief.run.state().is_over:
        live_part.restart_on_change(lambda: read_history(belief.run).last_epoch, _TICK_S)
