"""What did the network put together? Every cluster with its images; name them, and take the labels away."""

import streamlit as st

from lps.ui import clusters, routing, select


def main() -> None:
    st.title("Clusters")
    runs = [run for run in select.all_runs() if clusters.has_clusters(run)]
    if not runs:
        st.info("No run has predictions yet; the first epoch of training makes them.", icon=":material/category:")
        st.page_link("pages/launch.py", label="Launch a run", icon=":material/arrow_forward:")
        return
    clusters.show(runs)


routing.through_app()
main()
