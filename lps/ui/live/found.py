"""What a run without truth has found: a card a cluster, in which it can be named; the doubtful ones first at the end.

The headline says how many withheld labels it got right; buttons go on to all clusters, and to new pictures.
"""

import numpy as np
import streamlit as st

from lps.analysis import clusters
from lps.analysis.clusters import FLAGS, Cluster
from lps.charts.event_log import History
from lps.datasets import Images
from lps.errors import UserError
from lps.inference import prediction_work
from lps.store.runs import Run, State
from lps.ui.pictures import frames, name_field, points, predictions
from lps.ui.pictures.frames import Frame
from lps.ui.pictures.predictions import View
from lps.ui.server import routing
from lps.ui.shared import escape
from lps.wording import counted, share_of

_IN_TURN = {"turn": "true"}  # in the address of Clusters: lps.ui.clusters.naming_wizard
_MOST, _PICTURES, _SIZE = 24, 12, 52  # clusters, pictures of one, pixels on the screen
_CARD = 372  # pixels of a card at least: six pictures in a row


def show_found_clusters(run: Run, state: State, past: History) -> None:
    """The clusters of the newest epoch."""
    stored = points.epochs(run)
    if not stored:
        st.caption("The first clusters are shown here after the first epoch.")
        return
    try:
        view = predictions.view(run, stored[-1], is_thorough=state.is_over)
    except UserError as error:
        st.caption(escape.markdown(f"{error}."))
        return
    images = None
    try:
        images = points.pictures(run)
    except UserError as error:
        st.caption(escape.markdown(f"{error}."))
    ordered = in_order(view, state.is_over)
    st.subheader(_headline(view, past), anchor=False)
    st.markdown(sentence(view) if state.is_over else f"Clusters of epoch {view.epoch}; they still change.")
    with st.container(horizontal=True, gap="small"):
        _offer_ways_on(run, view, ordered, state.is_over)
    with st.grid(columns="auto", min_column_width=_CARD, gap="small"):
        for cluster in ordered[:_MOST]:
            _show_card(view, images, cluster, state.is_over)
    if len(ordered) > _MOST:
        st.caption(f"{counted(len(ordered) - _MOST, 'more cluster')} not shown: press See all clusters.")


def _headline(view: View, past: History) -> str:
    """ "5 of 8 withheld labels predicted correctly", or how many clusters there are where no label was withheld."""
    right, withheld = past.column("accuracy/validation"), len(view.split.validation)
    if len(right) and withheld:
        return f"{share_of(right.iloc[-1], withheld)} withheld labels predicted correctly"
    novel = sum(cluster.size > 0 and cluster.id not in view.defaults for cluster in view.clusters)
    return f"{counted(novel, 'novel cluster')} found"


def _offer_ways_on(run: Run, view: View, ordered: list[Cluster], is_over: bool) -> None:
    """The page of the clusters, and at the end the way to new pictures."""
    unnamed = is_over and any(cluster.id not in {*view.defaults, *view.said.names} for cluster in ordered)
    label = "Name the clusters" if unnamed else "See all clusters"
    kind = "primary" if unnamed else "secondary"
    if st.button(label, key=f"name:{run.id}", icon=":material/category:", type=kind):
        routing.turn_to("clusters", run=run.id, cluster=str(ordered[0].id), **_IN_TURN if is_over else {})
    if is_over and prediction_work.has_weights(run):
        kind = "secondary" if unnamed else "primary"
        if st.button("Predict new pictures", key=f"predict:{run.id}", icon=":material/image_search:", type=kind):
            routing.turn_to("predict", run=run.id)


def in_order(view: View, is_over: bool) -> list[Cluster]:
    """The clusters with pictures: at the end the doubtful ones first, then novel ones before seen ones, large first."""
    filled = [cluster for cluster in view.clusters if cluster.size]
    return sorted(filled, key=lambda c: (not (is_over and clusters.doubts(c)), c.id in view.defaults, -c.size))


def sentence(view: View) -> str:
    """What was found, and how sure that is."""
    filled = [cluster for cluster in view.clusters if cluster.size]
    novel = [cluster for cluster in filled if cluster.id not in view.defaults]
    doubtful = sum(bool(clusters.doubts(cluster)) for cluster in filled)
    in_novel = sum(cluster.size for cluster in novel)
    said = f"{view.split.pictures_in_words()}: "
    if novel:
        said += f"{in_novel:,} are in :orange[**{counted(len(novel), 'novel cluster')}**], "
        said += f"{len(view.assigned) - in_novel:,} in classes that you labeled. "
    else:
        said += "all are in classes that you labeled or named; no novel cluster is left. "
    said += f"The mean confidence is {100 * float(np.mean(view.network.confidence)):.0f} %. "
    if doubtful:
        verb = "is" if doubtful == 1 else "are"
        return (
            f"{said}**{counted(doubtful, 'cluster')} {verb} doubtful** and shown first; a badge on the card says why."
        )
    return f"{said}No cluster is doubtful."


def _show_card(view: View, images: Images | None, cluster: Cluster, is_over: bool) -> None:
    """Name, size and flags of a cluster, its surest pictures, and the field that names it."""
    name = view.name(cluster.id)
    group = "seen" if cluster.id in view.defaults else "novel"
    color = {"seen": "blue", "novel": "orange"}[group]
    flags = " ".join(f":yellow-badge[{FLAGS[flag][0]}]" for flag in cluster.flags) if is_over else ""
    why = "  \n".join(f"**{FLAGS[flag][0].capitalize()}**: {FLAGS[flag][1]}." for flag in cluster.flags)
    with st.container(border=True, gap="small"):
        called, size = escape.markdown(name), counted(cluster.size, "picture")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f":{color}[**{called}**] · {size} {flags}", help=why if flags else None, width="stretch")
            link = {
                "icon": ":material/open_in_full:",
                "type": "tertiary",
                "help": "Opens this cluster on the page Clusters",
            }
            if st.button("Open", key=f"open:{view.run.id}:{cluster.id}", **link):
                routing.turn_to("clusters", run=view.run.id, epoch=str(view.epoch), cluster=str(cluster.id))
        if images is not None:
            frames.show_frames([("", _frames(view, images, cluster, group))], _SIZE)
        if is_over and not view.run.is_recorded:
            name_field.ask(view, cluster.id, label=f"Name of cluster {cluster.id}", label_visibility="collapsed")


def _frames(view: View, images: Images, cluster: Cluster, group: str) -> list[Frame]:
    """The surest pictures of a cluster."""
    members = np.flatnonzero(view.assigned == cluster.id)
    surest = members[np.argsort(-view.network.confidence[members], kind="stable")[:_PICTURES]]
    name = view.name(cluster.id)
    return [
        Frame(images.pixels[image], images.sides(image), group, f"Picture of {name}, {100 * sure:.0f} % sure")
        for image, sure in zip(view.split.unlabeled[surest], view.network.confidence[surest])
    ]
