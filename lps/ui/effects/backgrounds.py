"""Backgrounds on the page Effects: describe and choose sets of comparable runs."""

from collections.abc import Iterable, Mapping, Sequence

import streamlit as st

from lps.analysis import effects, run_groups
from lps.analysis.effects import Background
from lps.settings.config import Config
from lps.ui.shared import escape, url_fields
from lps.wording import counted


def pick_background(backgrounds: Sequence[Background], name: str) -> Background:
    """Return the chosen background, by default the first; without a choice, describe it."""
    descriptions, shared = describe_backgrounds(backgrounds), describe_changes(backgrounds)[0][1]
    if len(backgrounds) > 1:
        labels = {background.id: text for background, text in zip(backgrounds, descriptions)}
        label = f"Other settings ({counted(len(backgrounds), 'combination')})"
        about = f"In all combinations: {escape.markdown(shared)}." if shared else None
        background_id = url_fields.choose_one(st.selectbox, name, label, labels, width=420, help=about)
        return next(background for background in backgrounds if background.id == background_id)
    st.caption(f"All other settings are equal: {escape.markdown(descriptions[0])}.")
    return backgrounds[0]


def describe_backgrounds(backgrounds: Sequence[Background]) -> list[str]:
    """Describe each background by its size and its unusual settings, of several those in which they differ."""
    noun = "value" if len(backgrounds[0].settings) == 1 else "cell"
    numbers = [f"{counted(len(b.groups), noun)}, {counted(len(b.members), 'run')}" for b in backgrounds]
    changes = describe_changes(backgrounds)
    if len(backgrounds) > 1:
        changes = [(differing, "") for differing, _ in changes]
    return [f"{join_settings(*changed)} · {number}" for changed, number in zip(changes, numbers)]


def describe_changes(backgrounds: Sequence[Background]) -> list[tuple[str, str]]:
    """Return, for each background, the settings in which backgrounds differ, and those that are unusual in all.

    If backgrounds differ in more than a few settings, those with their default are left out.
    """
    flats = [background.config.flat() for background in backgrounds]
    usual = backgrounds[0].config.defaults()
    keys = [key for key in usual if effects.can_be_studied(key) and key not in backgrounds[0].settings]
    shared = [key for key in keys if all(flat[key] == flats[0][key] for flat in flats)]

    def changed(flat: Mapping[str, object], is_shared: bool) -> str:
        named = [key for key in keys if (key in shared) is is_shared]
        names_defaults = not is_shared and len(named) <= run_groups.MAX_DEFAULTS
        settings = {key: flat[key] for key in named if names_defaults or flat[key] != usual[key]}
        return effects.settings_in_words(settings)

    return [(changed(flat, False), changed(flat, True)) for flat in flats]


def join_settings(differing: str, shared: str) -> str:
    """Join settings: "temperature=0.4, epochs=6"; without any of its own, "default settings except epochs=6"."""
    if differing:
        return ", ".join(filter(None, [differing, shared]))
    return f"default settings except {shared}" if shared else "default settings"


def describe_fixed_settings(background: Background, varied: Iterable[str]) -> str:
    """Return the values of the other varied settings in a background, as markdown; "" if no other setting varies."""
    flat = background.config.flat()
    return escape.markdown(
        effects.settings_in_words({key: flat[key] for key in varied if key not in background.settings})
    )


def find_waiting_cells(background: Background, waiting: Sequence[Config]) -> set[tuple]:
    """Return the cells whose run is waiting or running."""
    settings = background.settings
    matching = [
        c for c in waiting if set(settings) <= c.flat().keys() and effects.rest_of(c, settings) == background.rest
    ]
    return {effects.values_of(config, settings) for config in matching} - background.groups.keys()
