"""The field that names a cluster, on every page that has one."""

from collections.abc import Callable, Sequence

import streamlit as st

from lps.analysis import labels, naming
from lps.errors import UserError
from lps.ui.pictures.predictions import PredictionView
from lps.ui.shared import escape, url_fields

_REFUSED = "naming_refused"  # (key of the field, text, why) of the last name that could not be given


def ask_name(
    view: PredictionView,
    cluster: int,
    after: Callable[[], object] = lambda: None,
    label: str = "Name",
    merge: Callable[[int], object] | None = None,
    **options,
) -> None:
    """Show the field with the user's name of the cluster.

    after: called once a name was saved. merge: merges the cluster into another one, which has the typed name already.
    """
    key = f"name of {view.run.id} {view.epoch} {cluster}"
    refused, text, why = st.session_state.get(_REFUSED, ("", "", ""))
    is_refused = refused == key and st.session_state.get(key) == text
    if not is_refused:
        url_fields.set_widget(key, view.said.names.get(cluster, ""))
    st.text_input(
        label,
        key=key,
        max_chars=naming.NAME_LIMIT,
        placeholder=view.defaults.get(cluster, "What do you see in it?"),
        on_change=_name_cluster,
        args=(view, cluster, key, after),
        **options,
    )
    if is_refused:
        st.error(escape.markdown(f"{why}."), icon=":material/error:")
        other = naming.cluster_with_name(text, cluster, view.said, view.defaults)
        if merge is not None and other in view.ids:
            label = escape.markdown(f"Merge with {view.title(other)}")
            st.button(label, key=f"merge-{key}", icon=":material/merge:", on_click=merge, args=(other,))


def forget_refusal() -> None:
    """Hide the error of the last name."""
    st.session_state.pop(_REFUSED, None)


def record_steps(view: PredictionView, steps: Sequence[dict]) -> None:
    """Save the user's steps; raises `UserError` and `OSError`."""
    naming.record_steps(view.run, view.epoch, steps, labels.digest_of_predictions(view.network.predicted))


def _name_cluster(view: PredictionView, cluster: int, key: str, after: Callable[[], object]) -> None:
    text = st.session_state[key]
    forget_refusal()
    old = view.said.names.get(cluster, "")
    try:
        if not text.strip():
            if old:
                record_steps(view, [{"do": "unname", "id": cluster}])
        elif text != old:
            naming.check_name(text, cluster, view.said, view.defaults)
            record_steps(view, [{"do": "name", "id": cluster, "name": naming.clean_name(text)}])
            after()
    except (UserError, OSError) as error:
        st.session_state[_REFUSED] = key, text, str(error).removeprefix("name: ")
