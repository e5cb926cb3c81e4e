"""Split a mixed cluster in two or three after a preview of its parts, and find pictures similar to chosen ones."""

from collections.abc import Callable

import numpy as np
import streamlit as st

from lps.analysis import mixed_clusters, naming
from lps.analysis.clusters import cluster_indices
from lps.datasets import Images
from lps.ui.clusters import assign_cluster
from lps.ui.pictures import gallery, nouns, points
from lps.ui.pictures.gallery import Tile
from lps.ui.pictures.predictions import PredictionView
from lps.ui.shared import error_toasts
from lps.wording import counted

_MAX_TYPICAL = 8  # pictures of a part
_MAX_SIMILAR = 24  # pictures that are like the chosen ones
_EXAMPLES = "like_these"  # in the session: (of what, image ids that others shall be like)
_HELP = (
    "Splits the cluster by k-means on the first 10 principal components of its features. The largest part stays "
    "this cluster; the other parts become new clusters. You can undo this"
)


def offer_split(
    view: PredictionView,
    cluster: int,
    ticked: tuple[int, ...],
    images: Images | None,
    version: int,
    open_cluster: Callable[[int], object],
) -> None:
    """Show the controls in a cluster's card.

    version: of the decisions; each decision resets the controls. open_cluster: called with the first new cluster.
    """
    ids, features = _read_features(view, cluster)
    if len(ids) >= max(mixed_clusters.PARTS):
        key = f"parts {view.run.id} {view.epoch} {version} {cluster}"
        names = {2: "Two parts", 3: "Three parts"}
        count = st.segmented_control("Split", mixed_clusters.PARTS, format_func=names.get, key=key, help=_HELP)
        if count:
            _show_parts(view, cluster, ids, features, count, images, open_cluster)
    if ticked:
        say = nouns.of(view.run)
        label_text = say(f"Find images like {'this one' if len(ticked) == 1 else f'these {len(ticked)}'}")
        help_text = say("Searches all clusters for the images with the most similar features")
        options = {"icon": ":material/image_search:", "help": help_text}
        st.button(label_text, key="more_like", on_click=_search_similar, args=(view, cluster, ticked), **options)


def _show_parts(
    view: PredictionView,
    cluster: int,
    ids: np.ndarray,
    features: np.ndarray,
    count: int,
    images: Images | None,
    open_cluster: Callable[[int], object],
) -> None:
    """Show the parts with their most typical pictures, and the button that makes the split."""
    parts, say = mixed_clusters.split_features(features, count), nouns.of(view.run)
    for part in range(count):
        rows = np.flatnonzero(parts == part)
        typical = ids[rows[mixed_clusters.most_typical(features[rows], _MAX_TYPICAL)]].tolist()
        fate = "stay in the cluster" if part == 0 else "become a new cluster"
        st.caption(f"{counted(len(rows), say('image'))} {fate}")
        tiles = [Tile(image, "", say(f"Image {image} of part {part + 1}")) for image in typical]
        alt = say(f"The most typical images of part {part + 1}")
        gallery.show_sheet(tiles, images, f"part_{part}", "parts", alt, choosable=False)
    if missing := int((view.assigned == cluster).sum()) - len(ids):
        fate = f"The features of {counted(missing, 'image')} are not stored, so these images stay in the cluster."
        st.caption(say(fate))
    moved = [ids[parts == part].tolist() for part in range(1, count) if (parts == part).any()]
    options = {"on_click": _apply_split, "args": (view, moved, open_cluster), "type": "primary"}
    icon = ":material/call_split:"
    st.button("Apply this split", key="take_parts", icon=icon, disabled=not moved, **options)


def _apply_split(view: PredictionView, moved: list[list[int]], open_cluster: Callable[[int], object]) -> None:
    def steps(decisions: naming.Naming) -> list[dict]:
        first_id = assign_cluster.next_cluster_id(view, decisions)
        return [{"do": "split", "images": part, "new": first_id + i} for i, part in enumerate(moved)]

    with error_toasts.keep_errors("naming"):
        naming.record_steps(view.run, view.epoch, steps, assign_cluster.digest_of_predictions(view))
        open_cluster(assign_cluster.next_cluster_id(view, view.decisions))


def _read_features(view: PredictionView, cluster: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (ids, features float32) of a cluster's images with stored features."""
    ids, features = points.read_features(view.run, view.epoch)
    rows = cluster_indices(ids, view.split.unlabeled)
    inside = (rows >= 0) & (view.assigned[rows] == cluster)
    return ids[inside], features[inside]


# ---------------------------------------------------------------------------------------------------- more like some


def _search_similar(view: PredictionView, cluster: int, ticked: tuple[int, ...]) -> None:
    st.session_state[_EXAMPLES] = ((view.run.id, view.epoch, cluster), ticked)


def show_similar_images(view: PredictionView, cluster: int, images: Images | None, version: int) -> None:
    """Show the images that are most similar to chosen ones, to be ticked and put in a cluster."""
    shown_key, example_images = st.session_state.get(_EXAMPLES, (None, ()))
    if shown_key != (view.run.id, view.epoch, cluster):
        return
    similar, say = similar_images(view, example_images), nouns.of(view.run)
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.subheader(
                say(f"Most similar to {counted(len(example_images), 'chosen image')}"), anchor=False, width="content"
            )
            st.button("Close", key="close_like", icon=":material/close:", type="tertiary", on_click=_close_similar)
        if not len(similar):
            st.caption(say("The features of these images are not stored."))
            return
        rows = cluster_indices(similar, view.split.unlabeled)
        tiles = [_make_tile(view, image, row) for image, row in zip(similar.tolist(), rows.tolist())]
        token = f"like {version} {sorted(example_images)}"
        choice = gallery.show_sheet(tiles, images, "like", token, say("Images like the chosen ones"), noun=say("image"))
        st.caption(
            say(
                "The most similar images come first. Below each image is its current cluster. Tick the images that "
                "belong together."
            )
        )
        if choice.ticked:
            assign_cluster.ask_target_cluster(view, choice.ticked, f"like place {version} {cluster}")


def _make_tile(view: PredictionView, image: int, row: int) -> Tile:
    cluster_name = view.name(int(view.assigned[row]))
    return Tile(image, cluster_name, f"{nouns.of(view.run)('Image')} {image}, now in {cluster_name}")


def _close_similar() -> None:
    st.session_state.pop(_EXAMPLES, None)


def similar_images(view: PredictionView, example_images: tuple[int, ...]) -> np.ndarray:
    """Return ids of the other images, by cosine with the mean direction of the features of `example_images`."""
    ids, features = points.read_features(view.run, view.epoch)
    nearest = mixed_clusters.nearest_to(features, np.flatnonzero(np.isin(ids, example_images)))
    return ids[nearest[np.isin(ids[nearest], view.split.unlabeled)]][:_MAX_SIMILAR]
