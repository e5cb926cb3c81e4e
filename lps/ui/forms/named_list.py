"""The structure of a page that lists items by name (sweeps, searches) and opens the one in its URL."""

from collections.abc import Callable, Sequence

import streamlit as st

from lps.errors import UserError
from lps.ui.server import page_visit
from lps.ui.shared import click_errors, page_head, url_fields
from lps.ui.shared.escape import markdown, sentence

_FEW = 3  # listed above the form; the older ones are folded away


def show_list(
    page: str,
    noun: str,
    items: Sequence,
    draw_form: Callable,
    draw_line: Callable,
    draw_item: Callable,
) -> None:
    """Draw the page: the item in the URL, drawn by `draw_item`, otherwise a line for each item and the form.

    page: name of its file; noun: for an item, also in the URL; items: newest first, each with a `name`;
    draw_line: draws what follows the name in the list.
    """
    if not page_visit.has_arrived():
        st.query_params.update({})  # tells the browser: a link to the same page does not change its address by itself
    page_head.show_title(noun.capitalize(), offers_runs=False)
    click_errors.show_errors(noun)
    name = st.query_params.get(noun, "")
    open_item = next((item for item in items if item.name == name), None)
    page_head.begin_at_top(f"{noun} {name}" if open_item else noun)
    if open_item is not None:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.subheader(markdown(f"{noun.capitalize()} {name}"), anchor=False, width="stretch")
            label = f"New {noun} or another one"
            st.page_link(f"pages/{page}.py", label=label, icon=":material/arrow_back:", width="content")
        draw_item(open_item)
        return
    if name:
        url_fields.set_values(noun, None)  # or the form would remember the dead address
        st.warning(markdown(f"No {noun} is called {name[:80]}."), icon=":material/link_off:")
    if items:
        _show_started(page, noun, items, draw_line)
    try:
        draw_form()
    except UserError as error:
        st.error(sentence(error), icon=":material/extension_off:")
        return
    if not items:
        st.caption(f"No {noun} has been started yet.")


def _show_started(page: str, noun: str, items: Sequence, draw_line: Callable) -> None:
    """List the started items, above the form because users come back for them."""
    st.subheader("Started", anchor=False)
    with st.container(gap="small"):
        for item in items[:_FEW]:
            _show_line(page, noun, item, draw_line)
    if len(items) > _FEW:
        with st.expander(f"{len(items) - _FEW} more"):
            for item in items[_FEW:]:
                _show_line(page, noun, item, draw_line)
    st.subheader(f"New {noun}", anchor=False)


def _show_line(page: str, noun: str, item, draw_line: Callable) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        link = {"label": f"**{markdown(item.name)}**", "query_params": {noun: item.name}}
        st.page_link(f"pages/{page}.py", width="content", **link)
        draw_line(item)
