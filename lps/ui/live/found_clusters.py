"""The clusters that a run without known classes has found: a card for each, with a name field once the run is over.

The headline gives the number of withheld labels predicted correctly. Buttons lead to all clusters, to a new run with
the names, and to new pictures. Cards, fields and buttons keep their places when the run ends.
"""

from dataclasses import replace

import numpy as np
import streamlit as st

from lps.analysis import clusters
from lps.analysis.clusters import FLAGS, Cluster
from lps.charts.event_log import History
from lps.datasets import Images
from lps.datasets.readers.item_pictures import ItemPictures
from lps.errors import UserError
from lps.inference import continued_training, prediction_job
from lps.scores import class_changes
from lps.scores.class_changes import ClassChange
from lps.store import titles
from lps.store.runs import Run, State
from lps.ui.pictures import frames, name_field, nouns, points, predictions
from lps.ui.pictures.frames import Frame
from lps.ui.pictures.predictions import PredictionView
from lps.ui.server import routing
from lps.ui.shared import escape
from lps.wording import capitalized, counted, percent, share_of

_IN_SIGHT = {"opened": "true"}  # in the address of Clusters: the pictures of the open cluster are scrolled into sight
_IN_TURN = _IN_SIGHT | {"turn": "true"}  # likewise: lps.ui.clusters.naming_wizard
_TRAIN_ON = {"continue": "true"}  # in the address of Clusters: lps.ui.clusters.training_on
_MAX_CLUSTERS, _PICTURES, _SIZE = 24, 12, 52  # clusters, pictures of one, pixels on the screen
_TITLES, _TITLE_SIZE = 8, 96  # texts of one cluster, and their pixels: smaller ones cannot be read
_CARD = 372  # pixels of a card at least: six pictures in a row


def show_found_clusters(run: Run, state: State, history: History) -> None:
    """Show the clusters of the newest epoch."""
    stored = points.stored_epochs(run)
    if not stored:
        st.caption("The first clusters are shown here after the first epoch.")
        return
    try:
        view = predictions.read_view(run, stored[-1], is_thorough=state.is_over)
    except UserError as error:
        st.caption(escape.sentence(error))
        return
    images = None
    try:
        images = points.read_pictures(run)
    except UserError as error:
        st.caption(escape.sentence(error))
    ordered = order_clusters(view)
    st.subheader(_write_headline(view, history), anchor=False)
    if covered := _describe_coverage(view):
        st.caption(escape.markdown(covered))
    if parent := predictions.read_parent(view):
        _show_parent(view, parent, state)
    st.markdown(
        summarize_clusters(view)
        if state.is_over
        else f"These are the clusters of epoch {view.epoch}; they still change. You can name them when the run ends."
    )
    if state.is_over:
        flags = [flag for flag in FLAGS if any(flag in cluster.flags for cluster in view.clusters)]
        st.caption("  \n".join(map(clusters.explain_flag, flags)))
    with st.container(horizontal=True, gap="small"):
        _show_next_steps(run, view, ordered, state)
    with st.grid(columns="auto", min_column_width=_CARD, gap="small"):
        for cluster in ordered[:_MAX_CLUSTERS]:
            _show_card(view, images, cluster, state.is_over)
    if len(ordered) > _MAX_CLUSTERS:
        st.caption(
            f"Not shown: {counted(len(ordered) - _MAX_CLUSTERS, 'more cluster')}. To see them, press "
            "**See all clusters**."
        )
    if empty := len(view.clusters) - len(ordered):
        has = "has" if empty == 1 else "have"
        st.caption(nouns.of(run)(f"{counted(empty, 'cluster')} without a card {has} no pictures."))


def _write_headline(view: PredictionView, history: History) -> str:
    """Return "5 of 8 withheld labels predicted correctly", or the number of clusters if no label was withheld."""
    correct, withheld = history.column("accuracy/validation"), len(view.split.validation)
    if len(correct) and withheld:
        return f"{share_of(correct.iloc[-1], withheld)} withheld labels predicted correctly"
    novel = sum(cluster.size > 0 and cluster.id not in view.defaults for cluster in view.clusters)
    return f"{counted(novel, 'novel cluster')} found"


def _show_parent(view: PredictionView, parent: PredictionView, state: State) -> None:
    """Show which of the two runs is better, and the way back to the clusters and names of the run before."""
    changes = _compare_with_parent(view, parent) if state.is_over else []
    with st.container(border=True, gap="small", key="parent"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            sentence = f"This run continues **{escape.markdown(titles.run_label(parent.run))}**."
            comparison = escape.markdown(class_changes.compare_in_words(changes)) if changes else ""
            st.markdown(f"{sentence} {comparison}".rstrip(), width="stretch")
            if st.button(
                "Open clusters of that run",
                key=f"parent:{view.run.id}",
                icon=":material/arrow_back:",
                help="Its names are still there, and you can train again from it",
            ):
                routing.turn_to("clusters", run=parent.run.id, epoch=str(parent.epoch))
        if changes and (text := class_changes.changes_in_words(changes)):
            st.caption(escape.markdown(text))


def _compare_with_parent(view: PredictionView, parent: PredictionView) -> list[ClassChange]:
    """Return what changed by class since the run that this one continues, on the pictures that both predict."""
    images, rows, parent_rows = np.intersect1d(view.split.unlabeled, parent.split.unlabeled, return_indices=True)
    before = np.array([parent.name(cluster).casefold() for cluster in parent.assigned[parent_rows].tolist()], object)
    before[np.isin(images, [*parent.decisions.confirmed])] = ""  # put there by the user, not by that run
    after = np.array([view.name(cluster).casefold() for cluster in view.merged[rows].tolist()], object)
    truth = np.array([view.class_name(class_id).casefold() for class_id in view.truth[rows].tolist()], object)
    names = [view.class_name(class_id) for class_id in range(view.split.classes.seen)]
    is_right = parent.predicts_label[parent_rows], view.predicts_label[rows]
    changes = class_changes.compare_classes([name.casefold() for name in names], before, after, truth, is_right)
    return [replace(change, name=name) for change, name in zip(changes, names)]


def _describe_coverage(view: PredictionView) -> str:
    """Say for which classes labels were withheld, with their numbers, and for which the accuracy is unknown."""
    withheld = view.targets[view.split.validation]
    if not len(withheld):
        return ""
    counts = np.bincount(withheld, minlength=view.split.classes.seen).tolist()
    measured_classes = [f"{view.class_name(c)} ({count})" for c, count in enumerate(counts) if count]
    unmeasured_classes = [view.class_name(c) for c in range(view.split.classes.seen) if not counts[c]]
    unnamed = sum(c.size > 0 and c.id not in view.defaults for c in view.clusters)
    unmeasured_classes += [counted(unnamed, "novel cluster")] if unnamed else []
    sentence = f"This accuracy is measured on withheld labels of {', '.join(measured_classes)}."
    if unmeasured_classes:
        sentence += f" Accuracy is unknown for {', '.join(unmeasured_classes)}, because no labels were withheld there."
    return sentence


def _show_next_steps(run: Run, view: PredictionView, ordered: list[Cluster], state: State) -> None:
    """Show the buttons to all clusters, to their names, to a new run with the names, and to new pictures.

    A disabled button says what it waits for. Once the run is over, a text beside the buttons says it, too.
    """
    say, named = nouns.of(run), {*view.defaults, *view.decisions.names, *view.decisions.rejected}
    unnamed = [c for c in ordered if c.id not in named]
    too_early = "" if state.is_over else "Available when the run has ended"
    if st.button("See all clusters", key=f"clusters:{run.id}", icon=":material/category:"):
        routing.turn_to("clusters", run=run.id)
    if _draw_step_button("Name the clusters", f"name:{run.id}", "edit", too_early, is_next=bool(unnamed)):
        first = (unnamed or ordered)[0]  # a name can be changed, too
        routing.turn_to("clusters", run=run.id, cluster=str(first.id), **(_IN_TURN if unnamed else _IN_SIGHT))
    missing = say(continued_training.FIRST_STEP) if view.decisions.gives_no_label else ""
    not_yet = "You cannot name the clusters of a recording" if run.is_recorded else missing
    if _draw_step_button("Train again with these names", f"train_on:{run.id}", "model_training", too_early or not_yet):
        routing.turn_to("clusters", run=run.id, epoch=str(view.epoch), **_TRAIN_ON)
    no_weights = "" if prediction_job.has_weights(run) else "This run has no saved weights"
    predict = say("Predict new pictures")
    if _draw_step_button(predict, f"predict:{run.id}", "image_search", too_early or no_weights, is_next=not unnamed):
        routing.turn_to("predict", run=run.id)
    obstacles = {"Train again": not_yet, predict: no_weights}
    if state.is_over and (reasons := [f"{step}: {reason}." for step, reason in obstacles.items() if reason]):
        st.caption("  \n".join(reasons), width="content")


def _draw_step_button(label: str, key: str, icon: str, obstacle: str, is_next: bool = False) -> bool:
    """Show a button and return whether it was pressed.

    obstacle: why it is disabled, "" if it is not; is_next: it is the usual next step.
    """
    kind = "primary" if is_next and not obstacle else "secondary"
    options = {"type": kind, "disabled": bool(obstacle), "help": obstacle or None}
    return st.button(label, key=key, icon=f":material/{icon}:", **options)


def order_clusters(view: PredictionView) -> list[Cluster]:
    """Return the clusters with pictures, novel before seen: this order stays the same during the run and after it."""
    filled = [cluster for cluster in view.clusters if cluster.size]
    return sorted(filled, key=lambda c: (c.id in view.defaults, c.id))


def summarize_clusters(view: PredictionView) -> str:
    """Describe the clusters and the confidence."""
    filled = [cluster for cluster in view.clusters if cluster.size]
    novel = [cluster for cluster in filled if cluster.id not in view.defaults]
    in_novel = sum(cluster.size for cluster in novel)
    text = f"{view.split.pictures_in_words(nouns.of(view.run)('picture'))}: "
    if novel:
        text += f"{in_novel:,} are in :orange[**{counted(len(novel), 'novel cluster')}**], "
        withheld = ", those with a withheld label included" * bool(len(view.split.validation))
        text += f"{len(view.assigned) - in_novel:,} in classes that you labeled{withheld}. "
    else:
        text += "all are in classes that you labeled or named; no novel cluster has pictures. "
    text += f"The mean confidence is {percent(float(np.mean(view.network.confidence)))}. "
    text += f"**{capitalized(clusters.flags_in_words(view.clusters))}**"
    if flagged := [escape.markdown(view.name(cluster.id)) for cluster in filled if cluster.flags]:
        return f"{text}. A flag marks a cluster that may be wrong: {', '.join(flagged)}."
    return f"{text}."


def _show_card(view: PredictionView, images: Images | None, cluster: Cluster, is_over: bool) -> None:
    """Show a cluster: name, size, flags, its most confident pictures, and the name field."""
    name = view.name(cluster.id)
    group = "seen" if cluster.id in view.defaults else "novel"
    color = {"seen": "blue", "novel": "orange"}[group]
    flags = " ".join(f":yellow-badge[{FLAGS[flag].text}]" for flag in cluster.flags) if is_over else ""
    with st.container(border=True, gap="small"):
        heading, count = escape.markdown(name), view.count_pictures(cluster)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f":{color}[**{heading}**] · {count} {flags}", width="stretch")
            link = {
                "icon": ":material/open_in_full:",
                "type": "tertiary",
                "help": "Opens this cluster on the page Clusters",
            }
            if st.button("Open", key=f"open:{view.run.id}:{cluster.id}", **link):
                routing.turn_to(
                    "clusters", run=view.run.id, epoch=str(view.epoch), cluster=str(cluster.id), **_IN_SIGHT
                )
        if images is not None:
            are_texts = isinstance(images.pixels, ItemPictures)
            most, size = (_TITLES, _TITLE_SIZE) if are_texts else (_PICTURES, _SIZE)
            kind = "texts" if are_texts else "pictures"
            with st.container(key=f"{kind}-of-cluster-{cluster.id}"):  # page.css keeps room for two rows of pictures
                frames.show_frames([("", _make_frames(view, images, cluster, group, most))], size)
        if not view.run.is_recorded:
            options = {
                "label": f"Name of cluster {cluster.id}",
                "label_visibility": "collapsed",
                "disabled": not is_over,
            }
            name_field.ask_name(view, cluster.id, **options)


def _make_frames(view: PredictionView, images: Images, cluster: Cluster, group: str, most: int) -> list[Frame]:
    """Return the `most` most confident pictures of a cluster."""
    members = np.flatnonzero(view.assigned == cluster.id)
    most_confident = view.rows_by_confidence(members)[:most]
    name, with_noun = view.name(cluster.id), nouns.of(view.run)
    return [
        Frame(
            images.pixels[image],
            images.sides(image),
            group,
            f"{with_noun('Picture')} of {name}, {view.confidence_in_words(row)}",
        )
        for image, row in zip(view.split.unlabeled[most_confident].tolist(), most_confident.tolist())
    ]
