"""Start runs that a table lacks: a sentence that says what would start, and one button.

A click starts the configs that were shown beside the button, in the way of a sweep (`lps.studies.sweeps`): existing
runs are used as they are and interrupted ones are resumed. So a second click, or one in another tab, starts nothing
twice.
"""

from collections import Counter
from collections.abc import Sequence

import streamlit as st

from lps.scheduler import costs
from lps.settings.catalog import method_info
from lps.settings.config import Config
from lps.studies import sweeps
from lps.studies.sweeps import Item, Sweep
from lps.ui.forms import start_runs
from lps.ui.shared import click_errors, escape, select
from lps.wording import counted

NAME = "effects"  # of the sweep whose tag the runs carry
_STARTED = "missing_started"


def start_requested() -> None:
    """Start the runs that were requested by a click; call this at the top of the page."""
    start_runs.start_requested("effects", _start_runs)


def _start_runs(*configs: Config) -> None:
    sweeps.check_sweep(configs)
    sweep = Sweep(NAME, tuple(_plan_items(configs)))
    st.session_state[_STARTED] = sweeps.start_sweep(sweep, select.runs_root()).items


def show_started() -> None:
    """Show the result of the click, once."""
    click_errors.show_errors("effects")
    items = st.session_state.pop(_STARTED, ())
    if not items:
        return
    started = [item for item in items if item.action != "exists"]
    message = f"{counted(len(started), 'run')} in progress."
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(message if started else "These runs already exist, so nothing was started.", width="stretch")
        runs = [item.run.id for item in items]
        label, icon = "Watch them live", ":material/show_chart:"
        st.page_link("pages/live.py", label=label, icon=icon, query_params={"run": runs}, width="content")


def offer_runs(key: str, about: str, configs: Sequence[Config], label: str = "Launch", primary: bool = True) -> None:
    """Show the sentence and, if runs are missing, the button. about: the settings of the cell."""
    items = sweeps.match_existing(_plan_items(configs), select.runs_root())
    missing = [item for item in items if item.action != "exists"]
    st.markdown(_describe_start(about, items, _describe_cost(missing)), width="stretch")
    if missing:
        show_start_button(key, label, configs, primary)


def plan_missing_runs(configs: Sequence[Config]) -> list[Item]:
    """Return the configs that a click would start."""
    items = sweeps.match_existing(_plan_items(configs), select.runs_root()) if configs else []
    return [item for item in items if item.action != "exists"]


def show_start_button(key: str, label: str, configs: Sequence[Config], primary: bool = False) -> None:
    """Show a button that starts the missing runs of `configs`."""
    request = {"on_click": start_runs.request_start, "args": ("effects", *configs)}
    options = {"type": "primary" if primary else "secondary", "icon": ":material/rocket_launch:"}
    st.button(label, key=f"missing_{key}", **request, **options)


def _describe_start(about: str, items: Sequence[Item], cost: str = "") -> str:
    """Say what a click would start and which runs exist, as markdown."""
    missing = [item for item in items if item.action != "exists"]
    method = method_info(items[0].config.method).title
    subject = escape.markdown(f"{method} with {about}")
    sentences = [f"**{escape.markdown(about)}**:"]
    if missing:
        head = f"**{counted(len(missing), 'run')}** would start: {subject}, {_list_seeds(missing)};"
        sentences = [head, f"all other settings are as in the other runs.{cost}"]
    for action, singular, plural in (
        ("resumed", "with the state {} is resumed", "with the state {} are resumed"),
        ("exists", "exists and is {}", "exist and are {}"),
    ):
        states = Counter(item.state.name for item in items if item.action == action)
        sentences += [
            f"{counted(n, 'run')} {(singular if n == 1 else plural).format(state)}." for state, n in states.items()
        ]
    return " ".join(sentences)


def _plan_items(configs: Sequence[Config]) -> list[Item]:
    return [Item(config, f"{NAME}, seed {config.seed}") for config in configs]


def _describe_cost(items: Sequence[Item]) -> str:
    """Say how long the runs take one after another, if finished runs tell."""
    if not items:
        return ""
    estimate = sweeps.estimate_sweep(Sweep(NAME, tuple(items)), select.runs_root())
    span = estimate.span
    if estimate.missing or costs.is_unknown(span):
        return ""
    return f" One after another, they take about {costs.span_in_words(span)}{costs.wide_reason(span)}."


def _list_seeds(items: Sequence[Item]) -> str:
    seeds = ", ".join(map(str, sorted({item.config.seed for item in items})))
    return f"seeds {seeds}" if "," in seeds else f"seed {seeds}"
