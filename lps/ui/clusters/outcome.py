"""Say above the open cluster what the last decision did, with a button that undoes it."""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from lps.analysis import naming
from lps.ui.clusters import naming_wizard
from lps.ui.pictures import name_field, nouns
from lps.ui.pictures.predictions import PredictionView
from lps.ui.shared import click_errors, escape, url_fields

CLUSTER = "open_cluster"  # container of the sentence, the pictures and the controls of a cluster
_OUTCOME = "naming_outcome"  # in the session: ((run id, epoch, entries), sentence, cluster, moved image ids)


def keep_outcome(view: PredictionView, sentence: str, cluster: int, moved: Sequence[int] = ()) -> None:
    """Keep a sentence until the next decision, and bring it into sight. cluster: that was open, for undo."""
    number = len(naming.entries_of_epoch(naming.read_entries(view.run), view.epoch))
    st.session_state[_OUTCOME] = (view.run.id, view.epoch, number), nouns.of(view.run)(sentence), cluster, tuple(moved)
    naming_wizard.request_scroll(CLUSTER)


def forget_outcome() -> None:
    """Hide the sentence."""
    st.session_state.pop(_OUTCOME, None)


def show_outcome(
    view: PredictionView, entries: Sequence[Mapping], find_more: Callable[[tuple[int, ...]], object]
) -> None:
    """Show the sentence, if it is about the last decision. find_more: proposes images like those that were moved."""
    number = len(naming.entries_of_epoch(entries, view.epoch))
    key, sentence, cluster, moved = st.session_state.get(_OUTCOME, (None, "", 0, ()))
    if key != (view.run.id, view.epoch, number):
        return
    with st.container(border=True, horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(escape.markdown(sentence), width="stretch")
        if moved:
            icon = ":material/image_search:"
            st.button("Find more like these", key="more_like_moved", icon=icon, on_click=find_more, args=(moved,))
        options = {"icon": ":material/undo:", "on_click": _undo_and_return, "args": (view, number, cluster)}
        st.button("Undo", key="undo_outcome", **options)


def _undo_and_return(view: PredictionView, number: int, cluster: int) -> None:
    undo_last(view, number)
    url_fields.set_number("cluster", cluster)


def undo_last(view: PredictionView, seen: int) -> None:
    """Undo the last decision. seen: number of entries of the epoch that the user saw."""
    name_field.forget_refusal()
    with click_errors.keep_errors("naming"):
        naming.undo_last(view.run, view.epoch, seen)
