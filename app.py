"""LPS Studio. `streamlit run app.py` runs this file on every visit, then the page asked for (lps.ui.server.menu).

The same command imports it once, before any visit, for the server that all visits go through.
"""

import streamlit as st

from lps.charts import drawings
from lps.ui.server import menu, presentation, routing, run_toasts, serving
from lps.ui.shared import plot

ABOUT = "LPS Studio shows how a model learns classes with labels and discovers classes without labels."


def visit() -> None:
    """One run of the page that a browser asks for."""
    routing.through_app()
    presentation.read_address()
    st.set_page_config(
        page_title="LPS Studio",
        page_icon=drawings.MARK,
        layout="wide",
        initial_sidebar_state="collapsed" if presentation.is_on() else 220,
        menu_items={"About": ABOUT},
    )
    st.logo(drawings.LOGO, size="large", icon_image=drawings.MARK)
    page = st.navigation(menu.list_pages(), expanded=True)
    presentation.show_presenting()
    run_toasts.watch_runs(page.url_path)
    menu.run_page(page)
    if page.url_path not in menu.pages_with_charts():
        plot.preload_library()


if __name__ == "__main__":
    visit()
else:
    app = st.App(__file__, **serving.app_options())
