"""From a click to a run folder and its process: one click, one run per config, however often it is clicked.

A page draws its button with the token of this visit as an argument. Every further click of the same visit carries the
same token, and the same token and config give the same folder; a visit ends when its runs are on their way.
"""

import secrets

import streamlit as st

from lps import launcher, start_check
from lps.config import Config
from lps.parameters import ConfigError
from lps.runs import create_run
from lps.ui import places, select
from lps.ui.places import Place


def button(label: str, page: str, **options) -> None:
    """A button whose click is picked up by `take` at the top of the same page; options are those of `st.button`."""
    visit = st.session_state.setdefault(f"{page}_visit", secrets.token_hex(8))
    st.button(label, key=f"{page}_start", on_click=_ask, args=(page, visit), **options)


def take(page: str) -> str | None:
    """The visit whose button was clicked, once; the fields have their newest values by then."""
    return st.session_state.pop(f"{page}_asked", None)


def start(page: str, visit: str, configs: tuple[Config, ...], name: str = "", place: Place | None = None) -> list[str]:
    """The ids of the runs that now wait or run; raises `ConfigError` where a folder, process or job cannot be made."""
    if place is not None:
        places.check(place)
    for config in configs[:1]:  # they differ in nothing but the seed
        start_check.ask(config)
    try:
        made = [create_run(select.runs_root(), config, name, visit) for config in configs]
        if place is not None and place.on is not None:
            launcher.launch_all(made, on=place.on, name=name)
        else:
            for run in made:
                launcher.launch(run)
    except OSError as error:
        raise ConfigError("runs", f"{select.runs_root()} cannot be used ({error.strerror or error})") from None
    st.session_state.pop(f"{page}_visit", None)
    return [run.id for run in made]


def _ask(page: str, visit: str) -> None:
    st.session_state[f"{page}_asked"] = visit
