"""Look at the features of a run as points on a plane, and at the image behind each point."""

import streamlit as st

from lps.ui import maps, routing, select


def main() -> None:
    st.title("Projection")
    runs = [run for run in select.all_runs() if maps.has_points(run)]
    if not runs:
        st.info("No run has recorded features yet; the first epoch of training does.", icon=":material/scatter_plot:")
        st.page_link("pages/launch.py", label="Launch a run", icon=":material/arrow_forward:")
        return
    maps.show(runs)


routing.through_app()
main()
