"""The structure of a page that lists items by name (sweeps, searches) and opens the one in its URL."""

from collections.abc import Callable, Sequence

import streamlit as st

from lps.errors import UserError
from lps.ui.shared import error_toasts, page_head, url_fields
from lps.ui.shared.escape import markdown

_FEW = 8  # listed at once; the older ones are folded away


def show_list(
    page: str, word: str, things: Sequence, form: Callable, line: Callable, one: Callable, example: str = ""
) -> None:
    """Draw the page: the item in the URL, drawn by `one`, otherwise the form and a line for each item.

    page: name of its file; word: what an item is called, also in the URL; things: newest first, each with a `name`;
    line: draws what follows the name in the list; example: a command, shown while the list is empty.
    """
    page_head.show_title(page.capitalize(), offers_runs=False)
    error_toasts.show_errors(word)
    name = st.query_params.get(word, "")
    named = next((thing for thing in things if thing.name == name), None)
    if named is not None:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.subheader(markdown(f"{word.capitalize()} {name}"), anchor=False, width="stretch")
            st.page_link(f"pages/{page}.py", label="Back to the list", icon=":material/arrow_back:", width="content")
        one(named)
        return
    if name:
        url_fields.set_values(word, None)  # or the form would remember the dead address
        st.warning(markdown(f"No {word} is called {name[:80]}."), icon=":material/link_off:")
    try:
        form()
    except UserError as error:
        st.error(markdown(str(error)), icon=":material/extension_off:")
        return
    if not things:
        st.caption(f"No {word} has been started yet.{' An example from a terminal:' * bool(example)}")
        if example:
            st.code(example, language="bash", wrap_lines=True)
        return
    st.subheader("Started", anchor=False)
    for thing in things[:_FEW]:
        _show_line(page, word, thing, line)
    if len(things) > _FEW:
        with st.expander(f"{len(things) - _FEW} more"):
            for thing in things[_FEW:]:
                _show_line(page, word, thing, line)


def _show_line(page: str, word: str, thing, line: Callable) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center", gap="medium"):
        link = {"label": f"**{markdown(thing.name)}**", "query_params": {word: thing.name}}
        st.page_link(f"pages/{page}.py", width="content", **link)
        line(thing)
