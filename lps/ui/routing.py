"""Every page is reached through app.py, also the first one that a fresh server is asked for."""

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager


def through_app() -> None:
    """Begin again with app.py where Streamlit runs a page on its own.

    Until some script has called `st.navigation`, Streamlit takes the folder pages/ for an app of its old kind, without
    app.py. So the first link that a fresh server is asked for would show a page without our sidebar and width.
    """
    if PagesManager.uses_pages_directory:
        PagesManager.uses_pages_directory = False
        st.rerun()
