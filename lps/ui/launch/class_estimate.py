"""Estimate the number of novel classes: a search in the background, its curve, and a button that uses its result.

The search is also listed on the page Queue.
"""

import streamlit as st

from lps.charts import figures, palette
from lps.charts.chart import Chart
from lps.errors import UserError
from lps.machine import detached_jobs
from lps.scheduler import background_jobs, class_count
from lps.scheduler.class_count import ClassCount
from lps.settings.config import Config, configure
from lps.ui.forms import background_work, fields, form
from lps.ui.pictures import nouns
from lps.ui.shared import select, theme
from lps.ui.shared.plot import plot
from lps.wording import capitalized, counted

_HEIGHT = 260


def config_for_count(reading: form.FormReading, draft: form.Draft) -> Config | None:
    """Return the settings that affect the search; None while the form is invalid."""
    requested_values = reading.values | {"dataset": draft.dataset, "method": draft.method, "split.num_novel": 1}
    try:
        return background_jobs.config_of_job(configure(requested_values | {"seed": form.parse_seeds(draft.seeds)[0]}))
    except (UserError, IndexError):
        return None


def show_class_count(config: Config | None) -> None:
    """Show the search: its button, its progress, or its curve with a button that uses the result."""
    path = class_count.class_count_path(config, select.runs_root()) if config else None
    job_state = detached_jobs.job_state(path) if path else detached_jobs.JobState("absent")
    other_jobs = [
        other_job
        for other_job in background_jobs.list_jobs(select.runs_root())
        if other_job.is_working and other_job.path.parent.name == class_count.FOLDER and other_job.path != path
    ]
    with st.expander("How many novel classes are there?", expanded=job_state.state == "working"):
        if other_jobs:
            text = f"Other searches for a number of classes: {len(other_jobs)}"
            st.page_link("pages/queue.py", label=text, icon=":material/pending_actions:")
        if path is None:
            st.caption("The search needs valid settings. Correct the settings above first.")
            return
        try:
            result = class_count.read_class_count(path)
        except UserError as error:
            fields.show_error_or_help(form.error_sentence(error))
            return
        if job_state.state == "working":
            text = "The search continues after you close this page. The page Queue shows it, too."
            background_work.wait_for_work(path, text)
        elif result is None:
            _offer_count(config, job_state)
        else:
            _show_count(result)


def _offer_count(config: Config, job_state: detached_jobs.JobState) -> None:
    cancelled_text = f"The search was cancelled. {capitalized(background_jobs.remains_in_words(config))}."
    explanation = nouns.of_dataset(config.dataset)(
        "The search sorts the images into clusters by their features, each time with a different number of clusters. "
        "It compares each result with the labels. If the start weights are missing, the search computes them first and "
        "saves them for your runs."
    )
    background_work.offer_work(
        "search", job_state, cancelled_text, explanation, "Search", ":material/search:",
        lambda: class_count.start_class_count(config, select.runs_root()),
    )  # fmt: skip


def _show_count(result: ClassCount) -> None:
    numbers = f"{result.numbers[0]} to {result.numbers[-1]}"
    alt = (
        f"Separation of the clusters (silhouette) and accuracy on labels for {numbers} classes; the search chose "
        f"{result.total} classes"
    )
    plot(_draw_chart(result, theme.current_palette()), "class_count", alt)
    st.caption(
        f"**{result.in_words}**. The search measured the accuracy on the labels for each number of classes. It kept "
        f"the numbers whose accuracy is at most {100 * result.tolerance:.1f} points (one standard error) below the "
        f"best. Of these, it chose the one with the clearest separation of the clusters.  \n"
        f"{result.suggestion_in_words}. {class_count.ADVICE}"
    )
    st.button(
        f"Look for {counted(result.suggested, 'novel class')}",
        icon=":material/check:",
        on_click=lambda: fields.keep_draft(fields.current_draft().with_text("split.num_novel", str(result.suggested))),
    )


def _draw_chart(result: ClassCount, colors: palette.Palette) -> Chart:
    """Plot accuracy on labels with the band of equally good numbers, the silhouette, and the chosen number."""
    figure = figures.blank_figure(_HEIGHT, colors)
    lines = (
        ("Accuracy on labels", result.accuracy, colors.seen),
        ("Separation (silhouette)", result.silhouette, colors.muted),
    )
    for name, values, color in lines:
        figure.add_trace(x=result.numbers, y=values, name=name, mode="lines+markers", line={"color": color, "width": 2},
                       hovertemplate="%{x} classes: %{y:.3f}")  # fmt: skip
    best = max(result.accuracy)
    band = {"y0": best - result.tolerance, "y1": best, "fillcolor": colors.seen, "opacity": 0.15, "line": {"width": 0}}
    figure.add_shape(type="rect", x0=0, x1=1, xref="x domain", **band)
    figure.add_upright(x=result.total, line={"color": colors.ink, "width": 1.4, "dash": "dash"})
    ticks = figures.whole_ticks(result.numbers[-1] - result.numbers[0])
    figure.update_xaxes(title={"text": "Classes"}, showgrid=False, **ticks)
    return figure.update_layout(showlegend=True, hovermode="closest")
