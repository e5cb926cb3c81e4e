"""Pictures that a person has chosen go to a cluster: one of those that are there, or a new one."""

from collections.abc import Sequence

import streamlit as st

from lps.analysis import labels, naming
from lps.ui.pictures.predictions import View
from lps.ui.shared import error_toasts
from lps.wording import counted

_NEW = -1


def ask(here: View, images: Sequence[int], key: str, without: int | None = None) -> None:
    """A menu of clusters; a choice records that a person said of each of the images that it belongs there.

    key: of the menu, another one once something was said. without: the cluster that they are in.
    """
    clusters = {c.id: here.title(c.id) for c in here.clusters if c.id != without}
    st.selectbox(
        f"Move {counted(len(images), 'chosen image')} to",
        [_NEW, *clusters],
        index=None,
        format_func=lambda cluster: clusters.get(cluster, "A new cluster"),
        key=key,
        placeholder="Choose a cluster",
        on_change=_put,
        args=(here, list(images), key),
    )


def _put(here: View, images: list[int], key: str) -> None:
    to = st.session_state[key]
    if to is None:
        return
    with error_toasts.kept("naming"):
        naming.record(here.run, here.epoch, lambda said: steps(here, said, images, to), digest(here))


def steps(here: View, said: naming.Naming, images: list[int], to: int) -> list[dict]:
    """What says that images belong to a cluster, a new one where there is no such id."""
    if to != _NEW:
        return [{"do": "assign", "images": images, "to": said.root(to)}]
    new = next_id(here, said)
    return [{"do": "split", "images": images, "new": new}, {"do": "assign", "images": images, "to": new}]


def next_id(here: View, said: naming.Naming) -> int:
    """The id of a new cluster."""
    return said.next_id(int(max(here.ids.max(), here.network.predicted.max())) + 1)


def digest(here: View) -> str:
    """Of the predictions that a person looks at."""
    return labels.digest(here.network.predicted)
