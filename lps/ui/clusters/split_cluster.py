"""Split a mixed cluster in two or three after a preview of its parts, and find pictures similar to chosen ones."""

import secrets
from collections.abc import Callable

import numpy as np
import streamlit as st

from lps.analysis import mixed_clusters, naming
from lps.analysis.clusters import cluster_indices
from lps.datasets import Images
from lps.ui.clusters import assign_cluster, naming_wizard, outcome
from lps.ui.pictures import gallery, name_field, nouns, points
from lps.ui.pictures.gallery import Tile
from lps.ui.pictures.predictions import PredictionView
from lps.ui.shared import click_errors, escape
from lps.wording import counted, listed

_MAX_SHOWN = 24  # pictures of a part
_SIMILAR = [12, 24, 48, 96]  # pictures that are like the chosen ones
# Two parts of a pair of digits are separated by more than this (43 of 45 pairs), two parts of a cluster of photographs
# with less than 60 % of one class are not (4 of 4, whose purity rose by 0, 4, 13 and 14 points).
_CLEAR = 0.2
_UNCLEAR = (
    "The features hardly separate these parts. Close this, choose three pictures of one class, and press **Find "
    "similar**."
)
_CHOSEN_AT_FIRST = (
    "Chosen at first are those in this cluster and in clusters without a name, except images that you moved and "
    "images with the label of another class"
)
_PREVIEW, _FOUND = "split_preview", "similar_images"  # containers that come into sight
_EXAMPLES = "like_these"  # in the session: (of what, image ids that others shall be like)
_PARTS = {2: "Two parts", 3: "Three parts"}
_TICKS = "similar_ticks"  # in the session: (token of a sheet, random text, whether all its images are ticked)
_HELP = (
    "Splits the cluster by k-means on the first 10 principal components of its features. The largest part, or the one "
    "with most of the images that you assigned, stays this cluster; the other parts become new clusters. Images that "
    "you assigned stay in this cluster. You can undo this"
)


def offer_split(view: PredictionView, cluster: int, version: int) -> None:
    """Show the controls in a cluster's card. version: of the decisions; each decision resets the controls."""
    if len(read_features(view, cluster)[0]) >= max(mixed_clusters.PARTS):
        key = _key_of_count(view, cluster, version)
        options = {"help": nouns.of(view.run)(_HELP), "on_change": naming_wizard.request_scroll, "args": (_PREVIEW,)}
        st.segmented_control("Split", list(_PARTS), format_func=_PARTS.get, key=key, **options)


def _key_of_count(view: PredictionView, cluster: int, version: int) -> str:
    return f"parts {view.run.id} {view.epoch} {version} {cluster}"


def show_parts(
    view: PredictionView,
    cluster: int,
    images: Images | None,
    version: int,
    open_cluster: Callable[[int], object],
) -> bool:
    """Show pictures from all over each part and the button that splits; return False if `offer_split` asked for none.

    version: of the decisions. open_cluster: called with the first new cluster.
    """
    count = st.session_state.get(key := _key_of_count(view, cluster, version))
    ids, features = read_features(view, cluster)
    if not count or len(ids) < max(mixed_clusters.PARTS):
        return False
    components = mixed_clusters.leading_components(features)
    parts, say = mixed_clusters.split_points(components, count), nouns.of(view.run)
    is_clear = mixed_clusters.separation(components, parts) >= _CLEAR
    is_assigned = np.isin(ids, [*view.decisions.confirmed])
    parts = mixed_clusters.keep_in_first(parts, is_assigned)
    moved = [ids[parts == part].tolist() for part in range(1, count) if (parts == part).any()]
    with st.container(border=True, gap="small", key=_PREVIEW):
        with st.container(horizontal=True, vertical_alignment="center"):
            title = f"Cluster {view.title(cluster)} in {_PARTS[count].lower()}"
            st.subheader(escape.markdown(title), anchor=False, width="stretch")
            close = {"on_click": st.session_state.__setitem__, "args": (key, None), "type": "tertiary"}
            st.button("Close", key="close_parts", icon=":material/close:", **close)
            options = {"on_click": _apply_split, "args": (view, cluster, moved, open_cluster)}
            options |= {"icon": ":material/call_split:", "type": "primary" if is_clear else "secondary"}
            st.button("Apply this split", key="take_parts", disabled=not moved, **options)
        if not is_clear:
            st.warning(_UNCLEAR, icon=":material/blur_on:")
        st.caption(say("The images of each part, from the most typical one to the least typical one."))
        first_id = view.next_id()
        for position, part in enumerate(np.unique(parts).tolist()):
            rows = np.flatnonzero(parts == part)
            ending = "s" * (len(rows) == 1)
            target = first_id + position - 1 if part else cluster
            fate = f"become{ending} cluster {target}" if part else f"stay{ending} in cluster {cluster}"
            text = f"**{counted(len(rows), say('image'))}** {fate}"
            show_sample(view, ids[rows], features[rows], images, f"cluster {target}", text)
        if missing := int((view.assigned == cluster).sum()) - len(ids):
            fate = f"The features of {counted(missing, 'image')} are not stored, so these images stay in the cluster."
            st.caption(say(fate))
        if is_assigned.any():
            st.caption(say(f"Images that you assigned stay in the cluster: {is_assigned.sum():,}."))
    return True


def show_sample(
    view: PredictionView, ids: np.ndarray, features: np.ndarray, images: Images | None, of_what: str, text: str
) -> None:
    """Show some of the images `ids`, from the most typical one to the least typical one, below a text."""
    shown, say = ids[mixed_clusters.spread_over(features, _MAX_SHOWN)].tolist(), nouns.of(view.run)
    st.caption(text + ("" if len(shown) == len(ids) else f"; {len(shown)} of them are shown"))
    tiles = [Tile(image, "", say(f"Image {image} of {of_what}")) for image in shown]
    alt = say(f"Images of {of_what}, from the most typical to the least typical")
    gallery.show_sheet(tiles, images, f"sample of {of_what}", of_what, alt, choosable=False)


def _apply_split(
    view: PredictionView, cluster: int, moved: list[list[int]], open_cluster: Callable[[int], object]
) -> None:
    def steps(decisions: naming.Naming) -> list[dict]:
        first_id = view.next_id(decisions)
        return [{"do": "split", "images": part, "new": first_id + i} for i, part in enumerate(moved)]

    with click_errors.keep_errors("naming"):
        name_field.record_steps(view, steps)
        first_id = view.next_id()
        new = [f"cluster {first_id + i} ({counted(len(part), 'image')})" for i, part in enumerate(moved)]
        outcome.keep_outcome(view, f"Cluster {view.title(cluster)} split. New: {listed(new)}.", cluster)
        open_cluster(first_id)


def read_features(view: PredictionView, cluster: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (ids, features float32) of a cluster's images with stored features."""
    ids, features = points.read_features(view.run, view.epoch)
    rows = cluster_indices(ids, view.split.unlabeled)
    inside = (rows >= 0) & (view.assigned[rows] == cluster)
    return ids[inside], features[inside]


# ---------------------------------------------------------------------------------------------------- more like some


def offer_similar(view: PredictionView, cluster: int, ticked: tuple[int, ...]) -> None:
    """Show the button that searches images like the chosen ones."""
    help_text = nouns.of(view.run)("Searches all clusters for the images with the most similar features")
    options = {"icon": ":material/image_search:", "help": help_text, "disabled": not ticked}
    st.button("Find similar", key="more_like", on_click=search_similar, args=(view, cluster, ticked), **options)


def search_similar(view: PredictionView, cluster: int, examples: tuple[int, ...], are_moved: bool = False) -> None:
    """Propose images like the examples. are_moved: only those outside the cluster that the examples were moved to."""
    st.session_state[_EXAMPLES] = ((view.run.id, view.epoch, cluster), examples, are_moved)
    naming_wizard.request_scroll(_FOUND)


def show_similar_images(
    view: PredictionView, cluster: int, images: Images | None, version: int, open_cluster: Callable[[int], object]
) -> bool:
    """Show the chosen images with the most similar other ones, ticked, to be put in a cluster together.

    Return False if nobody asked for them. open_cluster: called with a new cluster.
    """

    def finish(target: int) -> None:
        _close_similar()
        naming_wizard.request_scroll(naming_wizard.CLUSTER)
        if target not in view.ids:
            open_cluster(target)

    shown_key, example_images, are_moved = st.session_state.get(_EXAMPLES, (None, (), False))
    is_undone = are_moved and not view.decisions.moved.keys() >= set(example_images)
    if shown_key != (view.run.id, view.epoch, cluster) or is_undone:
        return False
    say, chosen_count = nouns.of(view.run), counted(len(example_images), f"{'moved' if are_moved else 'chosen'} image")
    with st.container(border=True, key=_FOUND):
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.subheader(say(f"Similar to {chosen_count}"), anchor=False, width="content")
            st.button("Close", key="close_like", icon=":material/close:", type="tertiary", on_click=_close_similar)
        number = st.select_slider(say("Similar images"), _SIMILAR, _SIMILAR[1], key="similar_count", width=240)
        similar = similar_images(view, example_images, number, are_moved)
        if not len(similar):
            st.caption(say("The features of these images are not stored."))
            return True
        ids = [*(() if are_moved else example_images), *similar.tolist()]
        row_by_image = dict(zip(ids, cluster_indices(np.array(ids), view.split.unlabeled).tolist()))
        label_by_image = {image: _known_label(view, row) for image, row in row_by_image.items()}
        labels = {label_by_image.get(image, "") for image in example_images}
        named = (view.named_ids | view.defaults.keys() - view.decisions.rejected) - {cluster}

        def is_chosen(image: int) -> bool:  # as `_CHOSEN_AT_FIRST` says
            is_sorted = image in view.decisions.moved or int(view.assigned[row_by_image[image]]) in named
            return image in example_images or not is_sorted and label_by_image[image] in {"", *labels}

        at_first = list(filter(is_chosen, ids))
        tiles = [_make_tile(view, image, row, label_by_image[image]) for image, row in row_by_image.items()]
        text = "" if are_moved else f"The {chosen_count} come first, then the most similar ones. "
        text += "All are chosen at first" if at_first == ids else _CHOSEN_AT_FIRST
        text += ": click the circle of those that do not belong. Below each image is its cluster."
        st.caption(say(text))
        token, alt = f"like {version} {number} {sorted(example_images)}", say("Images like the chosen ones")
        with st.container(horizontal=True, gap="small"):
            for label, is_all in (("Choose all", True), ("Choose none", False)):
                options = {"type": "tertiary", "on_click": _tick_each, "args": (token, is_all)}
                st.button(label, key=f"like_{'all' if is_all else 'none'}", **options)
        ticked_token, mark, is_all = st.session_state.get(_TICKS, ("", "", False))
        if ticked_token == token:
            token, at_first = f"{token} {mark}", ids if is_all else []
        choice = gallery.show_sheet(tiles, images, "like", token, alt, noun=say("image"), ticked_at_first=at_first)
        if choice.ticked:
            key = f"like place {version} {cluster}"
            assign_cluster.ask_target_cluster(view, choice.ticked, key, cluster, is_offered=True, on_done=finish)
    return True


def _make_tile(view: PredictionView, image: int, row: int, label: str) -> Tile:
    cluster_name = view.name(int(view.assigned[row]))
    label_line = f"label: {label}" if label else ""
    words = "\n".join(filter(None, [cluster_name, label_line]))
    alt = ", ".join(filter(None, [f"{nouns.of(view.run)('Image')} {image}, now in {cluster_name}", label_line]))
    return Tile(image, words, alt)


def _known_label(view: PredictionView, row: int) -> str:
    """Return the class of an image with a withheld label; "" where most classes are known, as in a test."""
    is_trusted = view.clusters[int(np.searchsorted(view.ids, view.assigned[row]))].is_trusted
    return "" if is_trusted or view.truth[row] < 0 else view.class_name(int(view.truth[row]))


def _tick_each(token: str, is_all: bool) -> None:
    """Tick all images of a sheet, or none; the random text makes this another sheet than after the last press."""
    st.session_state[_TICKS] = (token, secrets.token_hex(4), is_all)


def _close_similar() -> None:
    st.session_state.pop(_EXAMPLES, None)


def similar_images(
    view: PredictionView, example_images: tuple[int, ...], number: int, are_moved: bool = False
) -> np.ndarray:
    """Return ids of `number` other images, by cosine with the mean direction of the features of `example_images`.

    are_moved: only images outside the clusters of the examples.
    """
    ids, features = points.read_features(view.run, view.epoch)
    nearest = mixed_clusters.nearest_to(features, np.flatnonzero(np.isin(ids, example_images)))
    similar = ids[nearest[np.isin(ids[nearest], view.split.unlabeled)]]
    if are_moved:
        examples = view.assigned[np.isin(view.split.unlabeled, example_images)]
        similar = similar[~np.isin(view.assigned[cluster_indices(similar, view.split.unlabeled)], examples)]
    return similar[:number]
