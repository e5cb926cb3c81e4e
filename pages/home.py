"""What is this, and what is going on? The explanation, the demo, the latest runs."""

import streamlit as st

from lps.config import configure
from lps.parameters import ConfigError
from lps.ui import escape, home, routing, select, showcase, starting, story

DEMO = {"dataset": "digits", "method": "lps", "seed": 0}

routing.through_app()
visit = starting.take("home")
if visit:
    try:
        started = starting.start("home", visit, (configure(DEMO),), "Demo")
    except ConfigError as error:
        st.error(f"The demo could not be started. {escape.markdown(str(error))}", icon=":material/error:")
    else:
        st.switch_page("pages/live.py", query_params={"run": started})

words, picture = st.columns([5, 6], gap="large", vertical_alignment="center")
with words:
    st.title("Watch a model find classes nobody labeled", anchor=False)
    st.markdown(
        "A model picks up the classes it has labels for (:blue[**seen**]) in no time and is slow on those that it "
        "must discover by itself (:orange[**novel**]). LPS, learning pace synchronization, holds back the classes that "
        "it guesses most, at first mostly the seen ones, so that the others catch up. Here you watch that happen, and "
        "change what it depends on."
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        starting.button("Start the demo", "home", type="primary", icon=":material/play_arrow:")
        st.page_link("pages/launch.py", label="Launch your own", icon=":material/tune:")
        if story.is_possible():
            st.page_link("pages/story.py", label="Read the story", icon=":material/auto_stories:")
    st.caption("1,797 handwritten digits, five classes seen and five novel. About a minute on two CPU cores.")
with picture:
    home.show_pace()

st.space("medium")
home.show_question()
if select.own_runs():
    home.show_list()
    st.space("small")
    st.subheader("Recorded runs", anchor=False)
    showcase.show(brief=True)
else:
    st.subheader("Recorded runs", anchor=False)
    showcase.show()
    home.show_list()
