"""The pictures to decide about, in the browser: a component that talks to `lps.ui.server.review_desk` by itself."""

from pathlib import Path

import streamlit as st

from lps.charts.palette import DARK, LIGHT
from lps.store.runs import Run
from lps.ui.server import review_desk

_FOLDER = Path(__file__).parent
_OUTBOX, _DECK, _STYLE = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("outbox.js", "deck.js", "deck.css"))

_mount = st.components.v2.component(
    "lps_deck",
    html='<div class="lps-deck"></div>',
    css=_STYLE.replace("WRONG", f"{LIGHT.wrong}, {DARK.wrong}"),
    js=f"{_OUTBOX}\n{_DECK}",
    isolate_styles=False,
)


def show_deck(run: Run, epoch: int) -> None:
    """The pictures of a run at an epoch, one at a time; of a recording they can be looked at."""
    _mount(key="deck", data={"address": review_desk.address(run, epoch), "readonly": run.is_recorded})
