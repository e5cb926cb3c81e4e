"""Pictures that a person has chosen go to a cluster: one of those that are there, or a new one."""

from collections.abc import Sequence

import streamlit as st

from lps.analysis import labels, naming
from lps.ui.pictures.predictions import View
from lps.ui.shared import error_toasts
from lps.wording import counted

_NEW = -1


def ask(view: View, images: Sequence[int], key: str, without: int | None = None) -> None:
    """A menu of clusters; a choice records that a person said of each of the images that it belongs there.

    key: of the menu, another one once something was said. without: the cluster that they are in.
    """
    clusters = {c.id: view.title(c.id) for c in view.clusters if c.id != without}
    st.selectbox(
        f"Move {counted(len(images), 'chosen image')} to",
        [_NEW, *clusters],
        index=None,
        format_func=lambda cluster: clusters.get(cluster, "A new cluster"),
        key=key,
        placeholder="Choose a cluster",
        on_change=_put,
        args=(view, list(images), key),
    )


def _put(view: View, images: list[int], key: str) -> None:
    to = st.session_state[key]
    if to is None:
        return
    with error_toasts.kept("naming"):
        naming.record_steps(view.run, view.epoch, lambda decisions: steps(view, decisions, images, to), digest(view))


def steps(view: View, decisions: naming.Naming, images: list[int], to: int) -> list[dict]:
    """What says that images belong to a cluster, a new one where there is no such id."""
    if to != _NEW:
        return [{"do": "assign", "images": images, "to": decisions.root(to)}]
    new = next_id(view, decisions)
    return [{"do": "split", "images": images, "new": new}, {"do": "assign", "images": images, "to": new}]


def next_id(view: View, decisions: naming.Naming) -> int:
    """The id of a new cluster."""
    return decisions.next_id(int(max(view.ids.max(), view.network.predicted.max())) + 1)


def digest(view: View) -> str:
    """Of the predictions that a person looks at."""
    return labels.digest_of_predictions(view.network.predicted)
