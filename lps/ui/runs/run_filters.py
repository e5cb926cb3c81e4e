"""Which runs the page Runs shows, and in which order; the URL stores every choice."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from lps.analysis.run_index import RunRow
from lps.scores.measurement_names import MEASUREMENT_NAMES, measurement_name
from lps.store import titles
from lps.tables import columns, run_filter
from lps.tables.run_names import MINUS, Vocabulary
from lps.ui.forms import filter_box, form
from lps.ui.shared import theme, url_fields

SORTS = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "name": "Name",
    "all": "Accuracy on all",
    "novel": "Novel accuracy",
    "seen": "Seen accuracy",
    "gap": "Smallest gap",
    "epochs": "Most epochs",
}
_DIRECTIONS = {"": "rising", "-": "falling"}
RUN_COLUMN_HEADS = {  # of the table; other columns have the labels of their settings
    "name": "Name", "state": "State", "accuracy/seen": "Seen", "accuracy/novel": "Novel", "accuracy/all": "All",
    "accuracy/gap": "Gap", "epoch": "Epochs", "epochs": "Planned epochs", "alarm": "Alarms", "method": "Method",
    "dataset": "Data set", "seed": "Seed", "tag": "Tags", "id": "Id", "launched": "Launched", "note": "Note",
    "split.num_novel": "Novel classes", "kl": "KL",
}  # fmt: skip


def column_heading(key: str) -> str:
    """Return the heading of a column; for a difference, the headings of its two parts."""
    return " − ".join(map(_heading_of_one, key.split(MINUS)))


def _heading_of_one(key: str) -> str:
    if key in RUN_COLUMN_HEADS:
        return RUN_COLUMN_HEADS[key]
    return measurement_name(key) if "/" in key or key in MEASUREMENT_NAMES else form.full_label(key)


@dataclass(frozen=True)
class RunFilters:
    """Which runs to show, and in which order. Empty choices exclude nothing."""

    filter_text: str = ""
    states: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    hidden: bool = False
    sort: str = "newest"


def any_moves(entries: Sequence[RunRow]) -> bool:
    """Return whether any of these runs changes by itself."""
    return any(entry.state.is_moving for entry in entries)


# ---------------------------------------------------------------------------------------------------- choosing


def filter_entries(entries: Sequence[RunRow], filters: RunFilters) -> list[RunRow]:
    """Return the matching entries in the chosen order; those without a value to sort by come last.

    Raises `UserError` if the filter cannot be read.
    """
    candidates = [entry for entry in entries if _fits_filters(entry, filters)]
    matches = run_filter.select_runs(entries, filters.filter_text, candidates)
    if filters.sort in SORTS:
        return sort_entries(matches, filters.sort)
    column = columns.known_columns([filters.sort.removeprefix("-")], Vocabulary(entries))
    return columns.sort_rows(matches, column[0], filters.sort.startswith("-")) if column else matches


def _fits_filters(entry: RunRow, filters: RunFilters) -> bool:
    conditions = (
        (filters.states, entry.shown_state),
        (filters.methods, entry.method),
        (filters.datasets, entry.dataset),
    )
    if any(allowed and value not in allowed for allowed, value in conditions):
        return False
    return set(filters.tags) <= set(entry.tags) and (filters.hidden or not entry.hidden)


def sort_entries(entries: list[RunRow], sort: str) -> list[RunRow]:
    """Return the entries sorted by one of `SORTS`; equal ones keep their order."""
    sort_keys = {
        "newest": lambda entry: _negated(entry.launched),
        "oldest": lambda entry: entry.launched,
        "name": lambda entry: entry.name.casefold(),
        "gap": lambda entry: None if entry.measured.gap is None else abs(entry.measured.gap),
        "epochs": lambda entry: _negated(entry.measured.recent.epoch),
    }
    key = sort_keys.get(sort) or (lambda entry: _negated(entry.measured.recent.number(f"accuracy/{sort}")))
    with_value = [entry for entry in entries if key(entry) is not None]
    sorted_entries = sorted(with_value, key=key) + [entry for entry in entries if key(entry) is None]
    if sort in ("newest", "oldest"):  # recordings stay behind a person's own runs: they are as old as the program
        sorted_entries.sort(key=lambda entry: entry.shown_state == "recorded")
    return sorted_entries


def _negated(value: float | None) -> float | None:
    return None if value is None else -value


def ask_filters(entries: Sequence[RunRow]) -> RunFilters:
    """Show the fields above the table."""
    tags = sorted({tag for entry in entries for tag in entry.tags})
    methods = {name: titles.method_title(name) for name in sorted({entry.method for entry in entries if entry.method})}
    present_states = {entry.shown_state for entry in entries}
    states = [name for name in theme.BADGES if name in present_states]
    filter_text = filter_box.ask_filter()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="run_filters"):
        filters = RunFilters(
            filter_text=filter_text,
            states=_ask_choices("State", "states", {name: theme.BADGES[name][0] for name in states}),
            methods=_ask_choices("Method", "methods", methods),
            datasets=_ask_choices(
                "Data set", "datasets", {entry.dataset: entry.dataset for entry in entries if entry.dataset}
            ),
            tags=_ask_choices("Tags", "tags", {tag: tag for tag in tags}) if tags else (),
        )
        sort = url_fields.choose_one(st.selectbox, "sort", "Sort by", _list_sorts(entries), width=150)
        include_hidden = any(entry.hidden for entry in entries) and st.toggle(
            label_hidden_switch(entries), key="hidden", bind="query-params"
        )
    return replace(filters, sort=sort, hidden=include_hidden)


def label_hidden_switch(entries: Sequence[RunRow]) -> str:
    """Return the label of the switch that shows hidden runs."""
    return f"Show {sum(entry.hidden for entry in entries)} hidden"


def _list_sorts(entries: Sequence[RunRow]) -> dict[str, str]:
    """Return the text of each possible order: the usual ones, every column in both directions, and that of the URL."""
    url_names = [*st.query_params.get_all("columns"), st.query_params.get("sort", "").removeprefix("-")]
    extra_names = columns.known_columns([*url_names, *columns.default_columns(entries)], Vocabulary(entries))
    headings = {name.key: column_heading(name.key) for name in extra_names}
    directions = {
        f"{prefix}{key}": f"{head}, {direction}"
        for key, head in headings.items()
        for prefix, direction in _DIRECTIONS.items()
    }
    return SORTS | {key: label for key, label in directions.items() if key not in SORTS}


def _ask_choices(label: str, key: str, labels: dict[str, str]) -> tuple[str, ...]:
    """Show a field for any number of choices, stored in the URL; choices that no longer exist are dropped."""
    return tuple(url_fields.choose_many(label, key, labels, placeholder="Any", width=122))
