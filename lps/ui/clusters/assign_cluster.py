"""Assign chosen pictures to an existing or a new cluster."""

from collections.abc import Callable, Sequence

import numpy as np
import streamlit as st

from lps.analysis import naming
from lps.ui.clusters import outcome
from lps.ui.pictures import name_field, nouns
from lps.ui.pictures.predictions import PredictionView
from lps.ui.shared import click_errors
from lps.wording import counted

_NEW = -1


def ask_target_cluster(
    view: PredictionView,
    images: Sequence[int],
    key: str,
    cluster: int,
    is_offered: bool = False,
    on_done: Callable[[int], object] = lambda cluster: None,
) -> None:
    """Show a menu of clusters; a choice records that each of the images belongs there.

    key: of the menu; it changes after every decision. cluster: the open one; is_offered: whether it can be chosen.
    on_done: called with the chosen cluster.
    """
    clusters = {i: text for i, text in view.choices.items() if is_offered or i != cluster}
    new_id = view.next_id()
    st.selectbox(
        nouns.of(view.run)(f"Move {counted(len(images), 'chosen image')} to"),
        [_NEW, *clusters],
        index=None,
        format_func=lambda cluster: clusters.get(cluster, f"A new cluster (cluster {new_id})"),
        key=key,
        placeholder="Choose a cluster",
        on_change=_assign_images,
        args=(view, list(images), key, cluster, on_done),
    )


def _assign_images(
    view: PredictionView, images: list[int], key: str, cluster: int, on_done: Callable[[int], object]
) -> None:
    target = st.session_state[key]
    if target is None:
        return
    number_there = int((view.assigned[np.isin(view.split.unlabeled, images)] == target).sum())
    with click_errors.keep_errors("naming"):
        if not name_field.record_steps(view, lambda decisions: _assign_steps(view, decisions, images, target)):
            return
        target = view.next_id() if target == _NEW else target
        already = f"; already there: {number_there:,}" if number_there else ""
        sentence = f"{counted(len(images) - number_there, 'image')} moved to {view.name(target)}{already}."
        outcome.keep_outcome(view, sentence, cluster, images)
        on_done(target)


def _assign_steps(view: PredictionView, decisions: naming.Naming, images: list[int], target: int) -> list[dict]:
    """Return the steps that assign images to a cluster; an unknown id makes a new cluster."""
    if target != _NEW:
        return [{"do": "assign", "images": images, "to": decisions.root(target)}]
    new_id = view.next_id(decisions)
    return [{"do": "split", "images": images, "new": new_id}, {"do": "assign", "images": images, "to": new_id}]
