"""What a run without truth is finding: the surest pictures of its clusters from the first epoch on, novel ones first.

At the end one sentence says what was found and how sure that is; then the doubtful clusters come first, and buttons
go on: to naming them, and to new pictures.
"""

import numpy as np
import streamlit as st

from lps.analysis import clusters
from lps.analysis.clusters import Cluster
from lps.charts.event_log import History
from lps.datasets import Images
from lps.errors import Refusal
from lps.store.runs import Run, State
from lps.ui.pictures import frames, points, predictions
from lps.ui.pictures.frames import Frame
from lps.ui.pictures.predictions import View
from lps.ui.server import routing
from lps.ui.shared import escape
from lps.use import prediction_work
from lps.wording import counted

_IN_TURN = {"turn": "true"}  # in the address of Clusters: lps.ui.clusters.in_turn
_MOST, _PICTURES, _SIZE = 8, 8, 56  # clusters, pictures of one, pixels on the screen


def show(run: Run, state: State, past: History) -> None:
    """The clusters of the newest epoch; nothing before the first was evaluated."""
    stored = points.epochs(run)
    if not stored:
        return
    is_over = state.name == "finished"
    try:
        here, images = predictions.view(run, stored[-1], is_thorough=is_over), points.pictures(run)
    except Refusal as error:
        st.caption(escape.markdown(f"{error}."))
        return
    ordered = in_order(here, is_over)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        words = sentence(here, past) if is_over else f"**What it has found so far**, by epoch {here.epoch}"
        st.markdown(words, width="stretch")
        _offer_ways_on(run, here, ordered, is_over)
    frames.show([_row(here, images, cluster, is_over) for cluster in ordered[:_MOST]], _SIZE)
    if len(ordered) > _MOST:
        st.caption(f"and {counted(len(ordered) - _MOST, 'more cluster')}")


def _offer_ways_on(run: Run, here: View, ordered: list[Cluster], is_over: bool) -> None:
    """The clusters, and at the end the way to new pictures; the one that comes next stands out."""
    unnamed = is_over and any(cluster.id not in {*here.defaults, *here.said.names} for cluster in ordered)
    label = "Name the clusters" if unnamed else "See all clusters"
    kind = "primary" if unnamed else "secondary"
    if st.button(label, key=f"name:{run.id}", icon=":material/category:", type=kind):
        routing.turn_to("clusters", run=run.id, cluster=str(ordered[0].id), **_IN_TURN if is_over else {})
    if is_over and prediction_work.has_weights(run):
        kind = "secondary" if unnamed else "primary"
        if st.button("Predict new pictures", key=f"predict:{run.id}", icon=":material/image_search:", type=kind):
            routing.turn_to("predict", run=run.id)


def in_order(here: View, is_over: bool) -> list[Cluster]:
    """The clusters with pictures: at the end the doubtful ones first, then novel ones before seen ones, large first."""
    filled = [cluster for cluster in here.clusters if cluster.size]
    return sorted(filled, key=lambda c: (not (is_over and clusters.doubts(c)), c.id in here.defaults, -c.size))


def sentence(here: View, past: History) -> str:
    """What was found, and how sure that is."""
    filled = [cluster for cluster in here.clusters if cluster.size]
    novel = [cluster for cluster in filled if cluster.id not in here.defaults]
    doubtful = sum(bool(clusters.doubts(cluster)) for cluster in filled)
    in_novel = sum(cluster.size for cluster in novel)
    said = f"Among {counted(len(here.assigned), 'picture')} without a label it found "
    if novel:
        said += f":orange[**{counted(len(novel), 'novel cluster')}**] with {in_novel:,} of them; the other "
        said += f"{len(here.assigned) - in_novel:,} went to classes that you labeled. "
    else:
        said += "no novel cluster: all went to classes that you labeled or named. "
    right = past.column("accuracy/validation")
    if len(right):
        said += f"It got {100 * right.iloc[-1]:.0f} % of the withheld labels right, and is "
    else:
        said += "It is "
    said += f"{100 * float(np.mean(here.network.confidence)):.0f} % sure of a picture on average. "
    if doubtful:
        return f"{said}**{counted(doubtful, 'cluster')} {'is' if doubtful == 1 else 'are'} doubtful**, and come first."
    return f"{said}No cluster is doubtful."


def _row(here: View, images: Images, cluster: Cluster, is_over: bool) -> tuple[str, list[Frame]]:
    """What is said of a cluster, and its surest pictures."""
    members = np.flatnonzero(here.assigned == cluster.id)
    surest = members[np.argsort(-here.network.confidence[members], kind="stable")[:_PICTURES]]
    name = here.name(cluster.id)
    words = " · ".join([f"{name}: {counted(cluster.size, 'picture')}", *(clusters.doubts(cluster) if is_over else ())])
    group = "seen" if cluster.id in here.defaults else "novel"
    return words, [
        Frame(images.pixels[image], images.sides(image), group, f"Picture of {name}", f"{100 * sure:.0f} %")
        for image, sure in zip(here.split.unlabeled[surest], here.network.confidence[surest])
    ]
