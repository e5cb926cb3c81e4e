"""Compare a cluster with the one that is most like it: a class in two clusters, and two mixed ones, have no flag."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from lps.analysis import clusters
from lps.datasets import Images
from lps.ui.clusters import naming_wizard, split_cluster
from lps.ui.pictures import nouns
from lps.ui.pictures.predictions import PredictionView
from lps.ui.shared import escape
from lps.wording import counted

_OPEN = "compared_clusters"  # in the session: (run id, epoch, cluster)
_REASON = (  # the figures are those of `python -m benchmarks.cluster_flags`, on CIFAR-10
    "Each is most similar to the other, and neither has a flag. In a test, 28 of 40 such clusters showed the same "
    "class as the other one if the run had too many clusters, and 2 of 26 if it had the right number"
)
_ADVICE = (
    "If both show the same class, merge them. If they show different classes, name each. If a class is in a mixed "
    "cluster, choose three of its pictures and press **Find similar**."
)


def _other_cluster(view: PredictionView, cluster: int) -> int | None:
    """Return the cluster to compare with; none for two seen classes, which cannot be one class."""
    twin = clusters.unflagged_twin(view.clusters, cluster)
    if twin is None or {cluster, twin.id} <= view.defaults.keys() or {cluster, twin.id} & view.decisions.rejected:
        return None
    return twin.id


def offer_comparison(view: PredictionView, cluster: int) -> None:
    """Show a button that names the most similar cluster and shows the pictures of both."""
    other = _other_cluster(view, cluster)
    if other is not None:
        label = f"Most like cluster {escape.markdown(view.title(other))}: compare them"
        options = {"icon": ":material/compare:", "type": "tertiary", "help": _REASON}
        st.button(label, key="compare_clusters", on_click=_open, args=(view, cluster), **options)


def _open(view: PredictionView, cluster: int) -> None:
    st.session_state[_OPEN] = (view.run.id, view.epoch, cluster)
    naming_wizard.request_scroll("cluster_comparison")


def show_comparison(
    view: PredictionView, cluster: int, images: Images | None, merge: Callable[[int, int], object]
) -> bool:
    """Show pictures of both clusters side by side; return False if `offer_comparison` asked for none.

    merge: called in a callback with the cluster and the one that it becomes a part of.
    """
    other, say = _other_cluster(view, cluster), nouns.of(view.run)
    if other is None or st.session_state.get(_OPEN) != (view.run.id, view.epoch, cluster):
        return False
    with st.container(border=True, gap="small", key="cluster_comparison"):
        with st.container(horizontal=True, vertical_alignment="center"):
            title = f"Clusters {view.title(cluster)} and {view.title(other)}"
            st.subheader(escape.markdown(title), anchor=False, width="stretch")
            close = partial(st.session_state.pop, _OPEN, None)
            st.button("Close", key="close_comparison", icon=":material/close:", type="tertiary", on_click=close)
            if not view.run.is_recorded:
                kept, joined = (cluster, other) if cluster in view.defaults else (other, cluster)
                options = {"icon": ":material/merge:", "on_click": merge, "args": (joined, kept)}
                st.button("Merge them", key="merge_compared", **options)
        st.caption(_ADVICE)
        for one, column in zip((cluster, other), st.columns(2, gap="medium"), strict=True):
            ids, features = split_cluster.read_features(view, one)
            text = f"**Cluster {escape.markdown(view.title(one))}**: {counted(len(ids), say('image'))}"
            with column:
                split_cluster.show_sample(view, ids, features, images, f"cluster {one}", text)
    return True
