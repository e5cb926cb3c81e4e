"""One image: what it is, and its predicted id, confidence and pseudo-label at every epoch."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from lps.analysis.clusters import Moment
from lps.charts import line_charts
from lps.charts.event_log import History
from lps.datasets import Images
from lps.files.atomic import clean_line
from lps.ui.pictures import nouns, points, predictions, thumbnails
from lps.ui.pictures.predictions import PredictionView
from lps.ui.shared import escape, theme
from lps.ui.shared.history import read_history
from lps.ui.shared.plot import code_of, plot
from lps.wording import counted

_PICTURE = 256  # pixels
HELPS = {
    "Confidence": "Confidence says how sure the network is of the predicted id. For most methods, it is the "
    "probability of this id. For methods that cluster features, it measures how much closer the image is to the centre "
    "of its own cluster than to the next centre",
    "Predicted": "The id that the network predicted, before your merges and splits",
}


@dataclass(frozen=True)
class ReachedThreshold:
    """When an image reached its threshold.

    epochs: at which the confidence reached the threshold of the group predicted then. judged: number of epochs with a
    threshold.
    """

    epochs: tuple[int, ...]
    judged: int


def find_adoption(moments: list[Moment], thresholds: dict[str, pd.Series], seen: int) -> ReachedThreshold:
    """Return when the image was confident enough for a pseudo-label.

    thresholds: "seen" and "novel" -> recorded threshold by epoch; seen: number of seen classes.
    """
    reached, judged = [], 0
    for moment in moments:
        series = thresholds["seen" if moment.predicted < seen else "novel"]
        if moment.epoch in series.index:
            judged += 1
            if moment.confidence >= series[moment.epoch]:
                reached.append(moment.epoch)
    return ReachedThreshold(tuple(reached), judged)


def count_moves(moments: list[Moment]) -> int:
    """Count how often the image moved between the clusters of the current epoch."""
    return sum(earlier.heir != later.heir for earlier, later in zip(moments, moments[1:]))


def _read_thresholds(history: History) -> dict[str, pd.Series]:
    return {group: history.column(f"threshold/{group}") for group in ("seen", "novel")}


def show_image_history(view: PredictionView, images: Images | None, image: int) -> None:
    """Show the picture, what is known of it, and its confidence over the epochs."""
    say = nouns.of(view.run)
    row = int(np.searchsorted(view.split.unlabeled, image).clip(max=len(view.split.unlabeled) - 1))
    if view.split.unlabeled[row] != image:
        st.caption(say(f"Image {image} is not among the unlabeled images of this run."))
        return
    picture_column, facts_column = st.columns([2, 3], gap="small") if images is not None else (None, st.container())
    if picture_column is not None:
        picture = thumbnails.square_picture(images, image, _PICTURE)
        picture_column.image(picture, width="stretch", alt=say(f"Image {image}"))
    with facts_column, st.container(gap=None):
        _show_facts(view, images, image, row)
    moments = predictions.read_image_history(view, image)
    thresholds = _read_thresholds(read_history(view.run))
    cluster = int(view.assigned[row])
    names = {c.id: view.title(c.id) for c in view.clusters}
    figure = line_charts.image_confidence(moments, cluster, thresholds, names, theme.current_palette())
    epochs = [moment.epoch for moment in moments]
    code = code_of("image_confidence", view.run, image) if epochs else ""
    alt = say(f"Confidence of image {image} over {counted(len(epochs), 'epoch')}")
    plot(figure, "biography", alt, code=code, view=f"{view.run.id} {image}")
    _show_left_out_epochs(view)
    account = _describe_history(moments, cluster, find_adoption(moments, thresholds, view.split.classes.seen))
    st.caption(escape.markdown(say(" ".join(account))))


def show_image_pair(view: PredictionView, images: Images | None, pair: tuple[int, int]) -> None:
    """Show two images side by side, and at which epochs they had the same predicted id."""
    say = nouns.of(view.run)
    if not np.isin(pair, view.split.unlabeled).all():  # the browser may speak of others
        st.caption(say("Only unlabeled images of this run can be compared."))
        return
    rows = np.searchsorted(view.split.unlabeled, pair)
    for image, row, column in zip(pair, rows.tolist(), st.columns(2, gap="small"), strict=True):
        with column, st.container(gap=None):
            if images is not None:
                picture = thumbnails.square_picture(images, image, _PICTURE)
                st.image(picture, width="stretch", alt=say(f"Image {image}"))
            _show_facts(view, images, image, row)
    moments_by_image = {say(f"Image {image}"): predictions.read_image_history(view, image) for image in pair}
    names = {c.id: view.title(c.id) for c in view.clusters}
    figure = line_charts.image_pair(moments_by_image, names, theme.current_palette())
    alt = say(f"Confidence of images {pair[0]} and {pair[1]} over the epochs")
    plot(figure, "pair", alt, view=f"{view.run.id} {pair}")
    _show_left_out_epochs(view)
    st.caption(say(describe_shared_epochs(*moments_by_image.values())))


def describe_shared_epochs(first: list[Moment], second: list[Moment]) -> str:
    """Describe at how many epochs two images were in one cluster, and since when; both have the same epochs."""
    together = [
        first_moment.heir == second_moment.heir for first_moment, second_moment in zip(first, second, strict=True)
    ]
    sentence = f"The images were in the same cluster at {sum(together)} of {counted(len(together), 'epoch')}"
    is_together, changed = together[-1], [k for k in range(1, len(together)) if together[k] != together[k - 1]]
    if changed:
        sentence += f" and have been {'together' if is_together else 'apart'} since epoch {first[changed[-1]].epoch}"
    return f"{sentence}. Dots mark the epochs at which both were in the same cluster. Crosses mark the other epochs."


def _show_left_out_epochs(view: PredictionView) -> None:
    shown_count, stored_count = len(predictions.history_epochs(view)), len(points.stored_epochs(view.run))
    if shown_count < stored_count:
        sentence = (
            f"The run has many images, so the chart shows only {shown_count} of {stored_count} epochs, evenly spaced."
        )
        st.caption(nouns.of(view.run)(sentence))


def _show_facts(view: PredictionView, images: Images | None, image: int, row: int) -> None:
    truth, cluster, say = int(view.truth[row]), int(view.assigned[row]), nouns.of(view.run)
    facts = {
        say("Image"): str(image),
        "Cluster": ", ".join(filter(None, [view.title(cluster), view.move_in_words(row)])),
    }
    if view.network.predicted[row] != cluster:
        facts["Predicted"] = view.title(int(view.network.predicted[row]))
    facts["Confidence"] = f"{100 * view.network.confidence[row]:.0f} %"
    facts["True class"] = view.class_name(truth) if truth >= 0 else "unknown"
    if images is not None and images.file_names:
        facts["File" if images.are_files else "Id"] = clean_line(images.file_names[image], 1000)
    if images is not None and images.title(image) not in ("", facts.get("Id")):
        facts["Title"] = images.title(image)
    for name, value in facts.items():
        st.caption(f"{name} **{escape.markdown(value)}**", help=say(HELPS.get(name, "")) or None)
    if image in view.split.validation:
        st.caption(say("The label of this image was withheld for validation."))


def _describe_history(moments: list[Moment], cluster: int, adopted: ReachedThreshold) -> list[str]:
    changes = {0: "never changed cluster", 1: "changed cluster once"}
    count_in_cluster, count = sum(moment.heir == cluster for moment in moments), count_moves(moments)
    epochs = counted(len(moments), "epoch")
    changed = changes.get(count, f"changed cluster {count} times")
    sentences = [f"The image was in this cluster at {count_in_cluster} of {epochs} and {changed}."]
    if adopted.judged:
        first = f", first at epoch {adopted.epochs[0]}" if adopted.epochs else ""
        judged = counted(adopted.judged, "epoch")
        sentences.append(
            f"The prediction was confident enough for a pseudo-label at {len(adopted.epochs)} of {judged}{first}."
        )
        sentences.append("The dotted lines are the thresholds of seen (blue) and novel (orange) classes.")
    return sentences
