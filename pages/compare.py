"""Which is better, and by how much? Runs side by side: table, curves, settings, and all of it to take away."""

import streamlit as st

from lps.ui import comparison, report, routing, select


def main() -> None:
    st.title("Compare")
    runs = select.all_runs()
    if not runs:
        st.info("There are no runs to compare yet.", icon=":material/balance:")
        st.page_link("pages/launch.py", label="Launch the first ones", icon=":material/arrow_forward:")
        return
    chosen = comparison.pick_runs(runs)
    scoring = comparison.pick_scoring()
    scored, left_out = comparison.score_all(chosen, scoring)
    comparison.show_left_out(left_out)
    if not scored:
        words = "None of these runs has an evaluated epoch." if chosen else "No run has finished yet."
        st.info(f"{words} Choose others above, or come back later.", icon=":material/balance:")
        comparison.show_published()
        return
    groups = comparison.sorted_groups(scored)
    comparison.show_table(groups)
    comparison.show_runs(groups)
    comparison.show_published()
    comparison.show_curves(scored)
    comparison.show_differences(groups)
    comparison.show_export(groups, scoring)
    report.offer(lambda: report.of_comparison(scored, left_out, scoring), "comparison")


routing.through_app()
main()
