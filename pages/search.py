"""Which settings do well? A search over ranges, trial by trial, by labels that were withheld."""

import streamlit as st

from lps import search
from lps.parameters import ConfigError
from lps.ui import escape, routing, search_forms, searches, select


def main() -> None:
    begun = search_forms.begin_asked()
    if begun:
        st.query_params.from_dict({"search": begun})
    st.title("Search")
    search_forms.show_failure()
    found = {one.name: one for one in search.list_searches(select.runs_root())}
    name = st.query_params.get("search", "")
    if name in found:
        searches.show(found[name])
        return
    if name:
        st.warning(escape.markdown(f"There is no search called {name[:80]} here."), icon=":material/link_off:")
    try:
        search.load_optuna()
    except ConfigError as error:
        st.error(escape.markdown(str(error)), icon=":material/extension_off:")
        return
    search_forms.show()
    searches.show_list(list(found.values()))


routing.through_app()
main()
