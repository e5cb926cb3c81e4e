"""Choose one of many pages of pictures: buttons for nearby pages, and a field for any page number."""

from functools import partial

import streamlit as st

from lps.ui.shared import url_fields

_MANY = 12  # pages from which there is a field


def choose_page(pages: int, key: str) -> int:
    """Return the chosen page, from 1. key: of the buttons; a new key resets the choice."""
    if pages <= 1:
        return 1
    if pages < _MANY:  # in a horizontal container, Streamlit leaves out the numbers of 2 or 3 pages
        return st.pagination(pages, key=key)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        number = st.pagination(pages, key=key)
        options = {"min_value": 1, "max_value": pages, "width": 130, "label_visibility": "collapsed"}
        label = f"Go to page (1 to {pages:,})"
        go_to_page = partial(st.session_state.__setitem__, key)
        url_fields.draw_field(st.number_input, f"{key} number", number, go_to_page, label, help=label, **options)
    return number
