"""LPS Studio: which pages there are. `streamlit run app.py` runs this file on every visit, then the page asked for.

The same command imports it once, before any visit, for the server that all visits go through.
"""

import streamlit as st

from lps.ui import drawings, notices, plot, routing, serving

ABOUT = "LPS Studio watches a model learn the classes it has labels for, and discover the ones it has not."

# Streamlit's own button ends a script that draws a page; beside it, "Stop" shall mean a run alone.
ONE_STOP = "<style>[data-testid=stStatusWidget] button { display: none }</style>"


def pages() -> dict:
    """The pages by their place in the menu; drawn up on every visit, since Streamlit knows pages during visits only."""
    return {
        "Start": [
            st.Page("pages/home.py", title="Home", icon=":material/home:", default=True),
            st.Page("pages/story.py", title="Story", icon=":material/auto_stories:"),
            st.Page("pages/launch.py", title="Launch", icon=":material/rocket_launch:"),
        ],
        "Watch": [
            st.Page("pages/runs.py", title="Runs", icon=":material/view_list:"),
            st.Page("pages/live.py", title="Live", icon=":material/show_chart:"),
            st.Page("pages/pace.py", title="Pace", icon=":material/view_column_2:"),
            st.Page("pages/explain.py", title="Explain", icon=":material/school:"),
            st.Page("pages/compare.py", title="Compare", icon=":material/balance:"),
            st.Page("pages/effects.py", title="Effects", icon=":material/tune:"),
            st.Page("pages/clusters.py", title="Clusters", icon=":material/category:"),
            st.Page("pages/projection.py", title="Projection", icon=":material/scatter_plot:"),
        ],
        "Many runs": [
            st.Page("pages/sweeps.py", title="Sweeps", icon=":material/dynamic_feed:"),
            st.Page("pages/search.py", title="Search", icon=":material/search:"),
            st.Page("pages/queue.py", title="Queue", icon=":material/pending_actions:"),
        ],
    }


def visit() -> None:
    """One run of the page that a browser asks for."""
    routing.through_app()
    st.set_page_config(
        page_title="LPS Studio",
        page_icon=drawings.MARK,
        layout="wide",
        initial_sidebar_state=220,
        menu_items={"About": ABOUT},
    )
    st.html(ONE_STOP)
    st.logo(drawings.LOGO, size="large", icon_image=drawings.MARK)
    page = st.navigation(pages())
    notices.watch()
    page.run()
    if page.url_path not in serving.CHARTED:
        plot.make_ready()


if __name__ == "__main__":
    visit()
else:
    app = st.App(__file__, **serving.options())
