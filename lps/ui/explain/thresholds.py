"""The thresholds on the page Explain: the confidence that guesses need, and how many reach it and are right."""

from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from lps.charts import explain_charts
from lps.charts.event_log import History, planned_epochs
from lps.errors import UserError
from lps.scores import margin_math
from lps.scores.purity import Adoption, adoption
from lps.store import snapshots
from lps.store.runs import Run
from lps.ui.explain import url_sliders
from lps.ui.explain.distribution import ClassEstimate, method_title, show_epochs
from lps.ui.pictures import points
from lps.ui.shared import escape, theme
from lps.ui.shared.plot import plot
from lps.wording import counted, percent

_GROUPS = ("seen", "novel")
_PARTS = 50  # steps of the curves without a run


def show_thresholds(belief: ClassEstimate) -> None:
    """Plot the thresholds, mark the chosen time and describe it; with a run, also the guesses that reach them."""
    history = belief.history
    has_epochs = history is not None and history.last_epoch > 0
    threshold_by_group = _read_thresholds(belief) if has_epochs else {}
    if has_epochs and not threshold_by_group:
        name = escape.markdown(method_title(belief.method))
        st.info(
            f"{name} has no confidence threshold. Below are the thresholds that LPS would use.", icon=":material/info:"
        )
    if not threshold_by_group:
        _show_usual(belief.settings)
        return
    left, right = st.columns([4, 6], gap="large")
    with left:
        epoch = show_epochs(belief.run, history, "thresholds")
        now = {group: float(values.loc[epoch]) for group, values in threshold_by_group.items() if epoch in values.index}
        st.markdown(_describe_thresholds(now, f"In epoch {epoch}"))
        _show_rates(history, epoch)
    with right:
        passed = {group: history.column(f"pseudo_label/rate/{group}") for group in _GROUPS}
        last_epoch = max(int(values.index[-1]) for values in threshold_by_group.values())
        _plot_thresholds(threshold_by_group, passed, epoch, max(2, last_epoch), belief.run.id)
        _show_passing(belief.run, epoch, now)


def _show_usual(settings: dict) -> None:
    """Plot the thresholds of LPS over the share of a run."""
    left, right = st.columns([4, 6], gap="large")
    with left:
        progress = url_sliders.url_slider("Progress of the run", "time", 0, 100, 25, 1, format="%d %%") / 100
        bounds = settings["threshold_novel_start"], settings["threshold_novel_end"]
        now = {"seen": settings["threshold_seen"], "novel": margin_math.threshold_novel(progress, *bounds)}
        st.latex(_threshold_formula(progress, *bounds, now["novel"]))
        st.markdown(_describe_thresholds(now, f"After {percent(progress)} of the run"))
    with right:
        share = np.linspace(0, 1, _PARTS + 1)
        threshold_by_group = {
            "seen": pd.Series(settings["threshold_seen"], index=share),
            "novel": pd.Series(margin_math.threshold_novel(share, *bounds), index=share),
        }
        _plot_thresholds(threshold_by_group, {}, progress, 1.0, "usual")


def _read_thresholds(belief: ClassEstimate) -> dict[str, pd.Series]:
    """Return the threshold of each group by epoch: as recorded and, for a run of LPS, as planned for later epochs."""
    history, settings = belief.history, belief.settings
    recorded = {group: history.column(f"threshold/{group}") for group in _GROUPS}
    if belief.method != "lps":
        return {group: values for group, values in recorded.items() if len(values)}
    epochs = planned_epochs(belief.run, history)
    index = np.arange(1, epochs + 1)
    progress = margin_math.done_in_epoch(index, epochs, settings["threshold_clock"])
    planned = {
        "seen": pd.Series(settings["threshold_seen"], index=index, dtype=float),
        "novel": pd.Series(
            margin_math.threshold_novel(progress, settings["threshold_novel_start"], settings["threshold_novel_end"]),
            index=index,
        ),
    }
    return {group: recorded[group].combine_first(planned[group]) for group in _GROUPS}


def _threshold_formula(progress: float, start: float, end: float, value: float) -> str:
    """Return the LaTeX of the novel threshold with numbers."""
    return (
        rf"\begin{{aligned}}\lambda_{{\text{{novel}}}}&={start:g}+{end - start:.2g}\cdot\tfrac{{t}}{{T}}\\"
        rf"&={start:g}+{end - start:.2g}\cdot{progress:.2f}={value:.2f}\end{{aligned}}"
    )


def _describe_thresholds(now: dict[str, float], time_text: str) -> str:
    """Describe the thresholds at a moment."""
    if set(now) != set(_GROUPS):
        conditions = " and ".join(
            f"predicted as {group} needs a confidence of at least {percent(now[group])}" for group in now
        )
        return f"{time_text}, an image {conditions}." if conditions else f"{time_text}, nothing was recorded."
    text = (
        f"{time_text}, a **:blue[seen]** guess counts if its confidence is at least {percent(now['seen'])}, a "
        f"**:orange[novel]** guess if it is at least {percent(now['novel'])}. "
    )
    if now["novel"] < now["seen"]:
        text += (
            "The model has no labels of novel classes, so it is less sure of them. With one threshold for all "
            "classes, hardly any novel guess would reach it. Its threshold rises as the guesses get better."
        )
    return text


def _plot_thresholds(threshold_by_group, passed, now: float, x_end: float, view: str) -> None:
    figure = explain_charts.thresholds(threshold_by_group, passed, now, x_end, theme.current_palette())
    alt = "Confidence thresholds of seen and novel predictions over the run, and the shares of guesses that reach them"
    plot(figure, "explain_thresholds", alt, view=view)
    if any(len(values) for values in passed.values()):
        st.caption(
            "The solid line is the threshold. The dotted line is the share of guesses that reach it during training."
        )


# ---------------------------------------------------------------------------------------------------- who passes


def _show_rates(history: History, epoch: int) -> None:
    """Plot the recorded share of guesses that reached the threshold in training."""
    with st.container(horizontal=True):
        for group in _GROUPS:
            values = history.column(f"pseudo_label/rate/{group}")
            if epoch in values.index:
                st.metric(f"{group.capitalize()} guesses above the threshold", percent(values.loc[epoch]), border=True)


def _show_passing(run: Run, epoch: int, now: dict[str, float]) -> None:
    """Show how many predictions after the epoch reach the threshold, and how many of these are right."""
    try:
        groups = count_passing(run, epoch, now) if now else {}
    except UserError as error:
        st.caption(escape.markdown(f"The share of correct predictions is unknown: {error}."))
        return
    if not groups:
        return
    plot(explain_charts.passing(groups, theme.current_palette()), "explain_passing", _describe_groups(groups))
    st.caption(f"{describe_purity(groups)} Measured after the epoch, on images without augmentation.")


def count_passing(run: Run, epoch: int, now: dict[str, float]) -> dict[str, Adoption]:
    """Return the predictions that reach the thresholds `now` after an epoch; raises `UserError` for a missing file."""
    snapshot_key = points.key_of_snapshot(run, epoch)
    if snapshot_key[1] is None:
        raise UserError("snapshot", f"the snapshot of epoch {epoch} was not saved")
    return _compute_passing(str(run.folder), snapshot_key, tuple(sorted(now.items())))


@st.cache_data(max_entries=256, show_spinner=False)
def _compute_passing(folder: str, snapshot_key, thresholds: tuple) -> dict[str, Adoption]:
    run = Run(Path(folder))
    path = run.snapshots / f"epoch-{snapshot_key[0]:04d}.npz"
    stored = snapshots.read_arrays(path, ("predicted", "confidence"))
    partition = points.read_partition(run)
    predicted, confidence = stored["predicted"], stored["confidence"]
    snapshots.check_ids(path.name, predicted, partition.split.unlabeled, partition.split.classes)
    if confidence.shape != predicted.shape:
        raise UserError(path.name, "is damaged (it does not fit the split of the run)")
    truth = partition.targets[partition.split.unlabeled]
    return adoption(predicted, confidence.astype(np.float32), truth, partition.split.classes, dict(thresholds))


def describe_purity(groups: dict[str, Adoption]) -> str:
    """Say how many of the guesses above the threshold are right."""
    purities = [
        f"{percent(adoption.purity, 1)} of {group} guesses"
        for group, adoption in groups.items()
        if adoption.purity is not None
    ]
    if not purities:
        return "The true classes are not known."
    return f"Among the guesses that reach their threshold, {' and '.join(purities)} are correct."


def _describe_groups(groups: dict[str, Adoption]) -> str:
    sentences = [
        f"{adoption.passing} of {counted(adoption.images, 'image')} predicted as {group} reach the threshold"
        for group, adoption in groups.items()
    ]
    return f"{'; '.join(sentences)}. {describe_purity(groups)}"
