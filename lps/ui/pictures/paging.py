"""Pages of many pictures: buttons for the pages near by, and a field for the number of any page."""

from functools import partial

import streamlit as st

from lps.ui.shared import url_fields

_MANY = 12  # pages from which there is a field


def choose_page(pages: int, key: str) -> int:
    """The page that a person chose, from 1; key: of the buttons, another one where the pictures are others."""
    if pages <= 1:
        return 1
    if pages < _MANY:  # in a horizontal container, Streamlit leaves out the numbers of 2 or 3 pages
        return st.pagination(pages, key=key)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        number = st.pagination(pages, key=key)
        how = {"min_value": 1, "max_value": pages, "width": 130, "label_visibility": "collapsed"}
        label = f"Go to page (1 to {pages:,})"
        go = partial(st.session_state.__setitem__, key)
        url_fields.draw_field(st.number_input, f"{key} number", number, go, label, help=label, **how)
    return number
