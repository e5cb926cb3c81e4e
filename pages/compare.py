"""Which is better, and by how much? Runs side by side: table, curves, settings, and all of it to take away."""

import streamlit as st

from lps.ui import comparison, openings, report, routing, select


def main() -> None:
    openings.show_title("Compare")
    runs = select.open_runs()
    if not runs:
        openings.offer_launch("There are no runs to compare yet.", ":material/balance:", "Launch the first ones")
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
    comparison.show_downloads(groups)
    comparison.show_runs(groups)
    comparison.show_published()
    comparison.show_curves(scored)
    comparison.show_differences(groups)
    comparison.show_texts(groups, scoring)
    report.offer(lambda: report.of_comparison(scored, left_out, scoring), "comparison")


routing.through_app()
main()
