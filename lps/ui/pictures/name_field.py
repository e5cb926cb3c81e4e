"""The field that names a cluster, on every page that has one."""

from collections.abc import Callable

import streamlit as st

from lps.analysis import labels, naming
from lps.errors import UserError
from lps.ui.pictures.predictions import PredictionView
from lps.ui.shared import escape, url_fields

_REFUSED_NAME = "naming_refused"  # (key of the field, text, reason) of the last invalid name


def ask_name(
    view: PredictionView,
    cluster: int,
    on_saved: Callable[[], object] = lambda: None,
    label: str = "Name",
    merge: Callable[[int], object] | None = None,
    **options,
) -> None:
    """Show the field with the user's name of the cluster; once a name is stored, it is marked as saved.

    on_saved: called after a name was saved. merge: merges the cluster into the one with the typed name.
    """
    key = f"name of {view.run.id} {view.epoch} {cluster}"
    refused, text, reason = st.session_state.get(_REFUSED_NAME, ("", "", ""))
    is_refused = refused == key and st.session_state.get(key) == text
    if not is_refused:
        url_fields.set_widget(key, view.decisions.names.get(cluster, ""))
    is_saved = cluster in view.decisions.names and not is_refused
    st.text_input(
        label + " (saved)" * is_saved,
        key=key,
        icon=":material/check:" if is_saved else None,
        max_chars=naming.NAME_LIMIT,
        placeholder=view.defaults.get(cluster, "What do you see in it?"),
        on_change=_name_cluster,
        args=(view, cluster, key, on_saved),
        **options,
    )
    if is_refused:
        st.error(escape.sentence(reason), icon=":material/error:")
        other = naming.cluster_with_name(text, cluster, view.decisions, view.defaults)
        if merge is not None and other in view.ids:
            label = escape.markdown(f"Merge with {view.title(other)}")
            st.button(label, key=f"merge-{key}", icon=":material/merge:", on_click=merge, args=(other,))


def forget_refusal() -> None:
    """Hide the error of the last name."""
    st.session_state.pop(_REFUSED_NAME, None)


def record_steps(view: PredictionView, steps: naming.Steps) -> bool:
    """Save the user's steps, or those that a function makes from the current decisions; return whether they change any.

    Raises `UserError` and `OSError`.
    """
    return naming.record_steps(view.run, view.epoch, steps, labels.digest_of_predictions(view.network.predicted))


def _name_cluster(view: PredictionView, cluster: int, key: str, on_saved: Callable[[], object]) -> None:
    text = st.session_state[key]
    forget_refusal()
    previous_name = view.decisions.names.get(cluster, "")
    try:
        if not text.strip():
            if previous_name:
                record_steps(view, [{"do": "unname", "id": cluster}])
        elif text != previous_name:
            naming.check_name(text, cluster, view.decisions, view.defaults)
            record_steps(view, [{"do": "name", "id": cluster, "name": naming.clean_name(text)}])
            on_saved()
    except (UserError, OSError) as error:
        st.session_state[_REFUSED_NAME] = key, text, str(error).removeprefix("name: ")
