"""Decide about ticked pictures: they belong here, not in this cluster, or to none of the classes."""

from collections.abc import Callable

import streamlit as st

from lps.ui.pictures import nouns
from lps.ui.pictures.predictions import PredictionView

_ABOUT_VERDICTS = (
    "**Right**: the chosen pictures get the name of this cluster as their label when you train again. "
    "**Not in this cluster**: they show another class. **None of these**: they show no class of yours. In both cases, "
    "they get no label."
)


def ask_verdict(
    view: PredictionView, cluster: int, ticked: tuple[int, ...], record: Callable[[PredictionView, list[dict]], object]
) -> None:
    """Show the decisions on ticked pictures; record: saves steps, called in a callback."""
    images = list(ticked)
    verdicts = {
        "Right": (":material/check:", {"do": "assign", "images": images, "to": cluster}),
        "Not in this cluster": (":material/close:", {"do": "wrong", "images": images, "id": cluster}),
        "None of these": (":material/hide_image:", {"do": "nothing", "images": images}),
    }
    with st.container(horizontal=True, gap="small"):
        for label, (icon, step) in verdicts.items():
            st.button(label, icon=icon, key=f"single_{step['do']}", on_click=record, args=(view, [step]))
    st.caption(nouns.of(view.run)(_ABOUT_VERDICTS))


def verdict_on_image(view: PredictionView, image: int) -> str:
    """Return the decision against a picture in two or three words; "" if there is none."""
    if image in view.decisions.classless_images:
        return "none of these"
    return "wrong cluster" if image in view.decisions.wrong_clusters else ""
