"""Decide about ticked pictures: they belong here, not in this cluster, or to none of the classes."""

from collections.abc import Callable

import streamlit as st

from lps.ui.pictures import nouns
from lps.ui.pictures.predictions import PredictionView


def ask_verdict(
    view: PredictionView, cluster: int, ticked: tuple[int, ...], record: Callable[[PredictionView, list[dict]], object]
) -> None:
    """Show the decisions on ticked pictures; record: saves steps, called in a callback."""
    images = list(ticked)
    verdicts = {
        "Right": (
            ":material/check:",
            {"do": "assign", "images": images, "to": cluster},
            "The chosen pictures belong in this cluster",
        ),
        "Not in this cluster": (
            ":material/close:",
            {"do": "wrong", "images": images, "id": cluster},
            "The chosen pictures get no label",
        ),
        "None of these": (
            ":material/hide_image:",
            {"do": "nothing", "images": images},
            "The chosen pictures show none of the classes",
        ),
    }
    with st.container(horizontal=True, gap="small"):
        for label, (icon, step, help_text) in verdicts.items():
            key = f"single_{step['do']}"
            st.button(
                label, icon=icon, help=nouns.of(view.run)(help_text), key=key, on_click=record, args=(view, [step])
            )


def verdict_on_image(view: PredictionView, image: int) -> str:
    """Return the decision against a picture in two or three words; "" if there is none."""
    if image in view.decisions.classless_images:
        return "none of these"
    return "wrong cluster" if image in view.decisions.wrong_clusters else ""
