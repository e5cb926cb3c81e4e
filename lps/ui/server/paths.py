"""URLs of this server that are not pages."""

import streamlit as st


def path_of(name: str) -> str:
    """Return the path of a resource beside the pages, below the server's base URL."""
    base = st.get_option("server.baseUrlPath").strip("/")
    return f"{'/' + base if base else ''}/{name}"
