"""Pages of many pictures: the field and the buttons show the same page."""

import pytest
from streamlit.testing.v1 import AppTest


def _page(pages: int) -> None:
    import streamlit as st

    from lps.ui.pictures import paging

    st.text(paging.choose_page(pages, "pages"))


def test_any_of_many_pages_is_reached_by_its_number():
    app = AppTest.from_function(_page, args=(20_834,)).run()
    assert app.text[0].value == "1" and app.number_input[0].value == 1
    app.number_input[0].set_value(17_000).run()
    assert app.text[0].value == "17000" and app.session_state["pages"] == 17_000
    app.session_state["pages"] = 3  # by a button
    app.run()
    assert app.text[0].value == "3" and app.number_input[0].value == 3
    assert not app.exception


@pytest.mark.parametrize("pages", [0, 1, 5])
def test_few_pages_have_no_field(pages):
    app = AppTest.from_function(_page, args=(pages,)).run()
    assert app.text[0].value == "1" and not app.number_input and not app.exception
