"""What is open-world learning, and what does LPS do? A story in eight steps, told with the recorded runs."""

import streamlit as st

from lps.parameters import ConfigError
from lps.ui import escape, routing, story


def main() -> None:
    reason = "the recordings that it is told with are not there"
    if story.is_possible():
        try:
            story.show()
            return
        except ConfigError as error:
            reason = str(error)
    st.title("Story")
    st.info(escape.markdown(f"The story cannot be told: {reason}."), icon=":material/auto_stories:")
    st.page_link("pages/explain.py", label="Explain", icon=":material/arrow_forward:")


routing.through_app()
main()
