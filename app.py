"""LPS Studio: which pages there are. `streamlit run app.py` runs this file on every visit, then the page asked for."""

import streamlit as st

from lps.ui import drawings, routing, style

PAGES = {
    "Start": [
        st.Page("pages/home.py", title="Home", icon=":material/home:", default=True),
        st.Page("pages/launch.py", title="Launch", icon=":material/rocket_launch:"),
    ],
    "Watch": [
        st.Page("pages/live.py", title="Live", icon=":material/show_chart:"),
        st.Page("pages/projection.py", title="Projection", icon=":material/scatter_plot:"),
    ],
}

routing.through_app()
colors = style.palette()
st.set_page_config(page_title="LPS Studio", page_icon=drawings.mark(colors), layout="wide", initial_sidebar_state=220)
st.logo(drawings.logo(colors), size="large", icon_image=drawings.mark(colors))
st.navigation(PAGES).run()
