"""Assign chosen pictures to an existing or a new cluster."""

from collections.abc import Sequence

import streamlit as st

from lps.analysis import labels, naming
from lps.ui.pictures import nouns
from lps.ui.pictures.predictions import PredictionView
from lps.ui.shared import error_toasts
from lps.wording import counted

_NEW = -1


def ask_target_cluster(view: PredictionView, images: Sequence[int], key: str, without: int | None = None) -> None:
    """Show a menu of clusters; a choice records that each of the images belongs there.

    key: of the menu; it changes after every decision. without: the current cluster of the images.
    """
    clusters = {c.id: view.title(c.id) for c in view.clusters if c.id != without}
    st.selectbox(
        nouns.of(view.run)(f"Move {counted(len(images), 'chosen image')} to"),
        [_NEW, *clusters],
        index=None,
        format_func=lambda cluster: clusters.get(cluster, "A new cluster"),
        key=key,
        placeholder="Choose a cluster",
        on_change=_assign_images,
        args=(view, list(images), key),
    )


def _assign_images(view: PredictionView, images: list[int], key: str) -> None:
    target = st.session_state[key]
    if target is None:
        return
    with error_toasts.keep_errors("naming"):
        naming.record_steps(
            view.run,
            view.epoch,
            lambda decisions: _assign_steps(view, decisions, images, target),
            digest_of_predictions(view),
        )


def _assign_steps(view: PredictionView, decisions: naming.Naming, images: list[int], target: int) -> list[dict]:
    """Return the steps that assign images to a cluster; an unknown id makes a new cluster."""
    if target != _NEW:
        return [{"do": "assign", "images": images, "to": decisions.root(target)}]
    new_id = next_cluster_id(view, decisions)
    return [{"do": "split", "images": images, "new": new_id}, {"do": "assign", "images": images, "to": new_id}]


def next_cluster_id(view: PredictionView, decisions: naming.Naming) -> int:
    """Return the id of a new cluster."""
    return decisions.next_id(int(max(view.ids.max(), view.network.predicted.max())) + 1)


def digest_of_predictions(view: PredictionView) -> str:
    """Return a digest of the displayed predictions."""
    return labels.digest_of_predictions(view.network.predicted)
