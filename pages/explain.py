"""How does LPS work? The method in six questions, with live numbers, made up or of a run."""

import streamlit as st

from lps.ui import explain, routing, select


def main() -> None:
    st.title("Explain")
    explain.show(select.all_runs())


routing.through_app()
main()
