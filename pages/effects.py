"""What does each setting do? One value after the other, two at once, all together; and LPS without its parts."""

import streamlit as st

from lps import effects as measured
from lps.ui import ablations, effect_matrix, effects, missing, openings, routing, select


def main() -> None:
    openings.show_title("Effects")
    missing.start_asked()
    runs = select.comparable(select.open_runs())
    missing.show_started()
    chosen = effects.pick(runs)
    if chosen is None:
        effects.show_empty(runs)
        return
    scoring = effects.pick_scoring()
    scored = effects.score(chosen, scoring)
    if not scored:
        st.info("None of the finished runs can be scored in this way; the reasons stand above.", icon=":material/tune:")
        return
    varied = measured.varied(member.config for member in scored)
    if varied:
        effects.show_setting(scored, varied)
        effect_matrix.show(scored, varied, chosen.waiting, chosen.measure)
        effects.show_all(scored, varied, chosen.measure)
    else:
        effects.show_unvaried(scored)
    ablations.show(scored, chosen.waiting)


routing.through_app()
main()
