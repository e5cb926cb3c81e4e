"""Many runs as one decision: a table of the paper or an own layout, what it costs, and how it fills."""

import streamlit as st

from lps import sweep_records
from lps.ui import escape, routing, select, sweep_forms, sweeps


def main() -> None:
    started = sweep_forms.start_asked()
    if started:
        st.query_params["sweep"] = started
    st.title("Sweeps")
    sweep_forms.show_failure()
    name = st.query_params.get("sweep", "")
    found = {known.name: known for known in sweep_records.known(select.runs_root())}
    if name in found:
        sweeps.show(found[name])
        return
    if name:
        st.warning(escape.markdown(f"There is no sweep called {name[:80]} here."), icon=":material/link_off:")
    sweep_forms.show()
    sweeps.show_list(list(found.values()))


routing.through_app()
main()
