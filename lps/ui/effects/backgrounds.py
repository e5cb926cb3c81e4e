"""Backgrounds on the Effects page: which runs are held against each other, in words, and which are on their way."""

from collections.abc import Sequence

import streamlit as st

from lps.analysis import effects
from lps.analysis.effects import Background
from lps.settings.config import Config
from lps.ui.shared import escape, url_fields
from lps.wording import counted


def pick_background(backgrounds: Sequence[Background], name: str) -> Background:
    """The background with most values, or the one that was chosen; what it is where there is no choice."""
    words = background_words(backgrounds)
    if len(backgrounds) > 1:
        named = {background.id: text for background, text in zip(backgrounds, words)}
        label = f"Other settings ({counted(len(backgrounds), 'combination')})"
        chosen = url_fields.choose(st.selectbox, name, label, named, width=420)
        return next(background for background in backgrounds if background.id == chosen)
    st.caption(f"All other settings are equal: {escape.markdown(words[0])}.")
    return backgrounds[0]


def background_words(backgrounds: Sequence[Background]) -> list[str]:
    """What is not as usual in each background, of several only where they differ; and how much it has."""
    flats = [background.config.flat() for background in backgrounds]
    usual = backgrounds[0].config.defaults()
    keys = [key for key in usual if effects.is_looked_at(key) and key not in backgrounds[0].settings]
    if len(backgrounds) > 1:
        keys = [key for key in keys if len({flat[key] for flat in flats}) > 1]
    changed_settings = [{key: flat[key] for key in keys if flat[key] != usual[key]} for flat in flats]
    noun = "value" if len(backgrounds[0].settings) == 1 else "cell"
    numbers = [f"{counted(len(b.groups), noun)}, {counted(len(b.members), 'run')}" for b in backgrounds]
    return [
        f"{effects.in_words(own) or 'default settings'} · {number}" for own, number in zip(changed_settings, numbers)
    ]


def waiting_cells(background: Background, waiting: Sequence[Config]) -> set[tuple]:
    """The cells whose run waits or runs."""
    settings = background.settings
    own = [c for c in waiting if set(settings) <= c.flat().keys() and effects.rest_of(c, settings) == background.rest]
    return {effects.values_of(config, settings) for config in own} - background.groups.keys()
