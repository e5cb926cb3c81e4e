"""Pace, twinned: runs of one split side by side under one epoch, from the first to the last."""

import streamlit as st

from lps.ui import routing, select, twins
from lps.ui.escape import markdown


def main() -> None:
    runs = select.all_runs()
    st.title("Pace")
    if not runs:
        st.info("There are no runs yet.", icon=":material/rocket_launch:")
        st.page_link("pages/launch.py", label="Launch the first one", icon=":material/arrow_forward:")
        return
    for name in select.missing(runs):
        st.warning(f"There is no run {markdown(name)} any more.", icon=":material/link_off:")
    twins.show(runs)


routing.through_app()
main()
