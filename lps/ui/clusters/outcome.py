"""Say at the lower edge of the page what the last decision did, with a button that undoes it."""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from lps.analysis import naming
from lps.ui.pictures import name_field, nouns
from lps.ui.pictures.predictions import PredictionView
from lps.ui.shared import click_errors, escape, url_fields

_OUTCOME = "naming_outcome"  # in the session: ((run id, epoch, entries), sentence, cluster, moved image ids)


def keep_outcome(view: PredictionView, sentence: str, cluster: int | None = None, moved: Sequence[int] = ()) -> None:
    """Keep a sentence until the next decision. cluster: that was open, for undo; None if there is nothing to undo."""
    number = len(naming.entries_of_epoch(naming.read_entries(view.run), view.epoch))
    st.session_state[_OUTCOME] = (view.run.id, view.epoch, number), nouns.of(view.run)(sentence), cluster, tuple(moved)


def forget_outcome() -> None:
    """Hide the sentence."""
    st.session_state.pop(_OUTCOME, None)


def show_outcome(
    view: PredictionView, entries: Sequence[Mapping], find_more: Callable[[tuple[int, ...]], object]
) -> None:
    """Show the sentence, if it is about the last decision. find_more: proposes images like those that were moved.

    The lower edge is in sight wherever a decision is made, so the pictures stay where they are.
    """
    number = len(naming.entries_of_epoch(entries, view.epoch))
    key, sentence, cluster, moved = st.session_state.get(_OUTCOME, (None, "", None, ()))
    if key != (view.run.id, view.epoch, number):
        return
    with st.bottom, st.container(horizontal=True, vertical_alignment="center", gap="small", key="outcome"):
        st.markdown(f":small[{escape.markdown(sentence)}]", width="content")
        if moved:
            icon = ":material/image_search:"
            st.button("Find more like these", key="more_like_moved", icon=icon, on_click=find_more, args=(moved,))
        if cluster is not None:
            options = {"icon": ":material/undo:", "on_click": _undo_and_return, "args": (view, number, cluster)}
            st.button("Undo", key="undo_outcome", **options)


def _undo_and_return(view: PredictionView, number: int, cluster: int) -> None:
    undo_last(view, number)
    url_fields.set_number("cluster", cluster)


def undo_last(view: PredictionView, seen: int) -> None:
    """Undo the last decision. seen: number of entries of the epoch that the user saw."""
    name_field.forget_refusal()
    with click_errors.keep_errors("naming"):
        undone = naming.entries_in_effect(naming.read_entries(view.run), view.epoch)[-1:]
        naming.undo_last(view.run, view.epoch, seen)
        if undone:
            keep_outcome(view, f"Undone: {describe_entries(view, undone)[0]}.")


def restore_state(view: PredictionView, count: int, seen: int) -> None:
    """Restore the state after `count` entries of the epoch. seen: as in `undo_last`."""
    name_field.forget_refusal()
    with click_errors.keep_errors("naming"):
        naming.restore_state(view.run, view.epoch, count, seen)
        keep_outcome(view, f"State {count} restored.")


def describe_entries(view: PredictionView, entries: Sequence[Mapping]) -> list[str]:
    """Describe entries of the epoch with the noun of the data set and the names of clusters."""
    return naming.history_in_words(entries, nouns.of(view.run)("image"), view.name)
