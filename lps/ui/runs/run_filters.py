"""Which runs the page Runs shows, and in which order. Every choice stands in the page's address."""

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
_WAYS = {"": "rising", "-": "falling"}
HEADS = {  # of the table; other columns have the labels of their settings
    "name": "Name", "state": "State", "accuracy/seen": "Seen", "accuracy/novel": "Novel", "accuracy/all": "All",
    "accuracy/gap": "Gap", "epoch": "Epochs", "epochs": "Of", "alarm": "Alarms", "method": "Method",
    "dataset": "Data set", "seed": "Seed", "tag": "Tags", "id": "Id", "launched": "Launched", "note": "Note",
    "split.num_novel": "Novel classes", "kl": "KL",
}  # fmt: skip


def heading(key: str) -> str:
    """What stands above a column; of a difference the headings of its two parts."""
    return " − ".join(map(_heading_of_one, key.split(MINUS)))


def _heading_of_one(key: str) -> str:
    if key in HEADS:
        return HEADS[key]
    return measurement_name(key) if "/" in key or key in MEASUREMENT_NAMES else form.full_label(key)


@dataclass(frozen=True)
class RunFilters:
    """Which runs are asked for, and in which order. Empty choices leave nothing out."""

    find: str = ""
    states: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    hidden: bool = False
    sort: str = "newest"


def is_moving(entries: Sequence[RunRow]) -> bool:
    """Whether any of these runs changes by itself."""
    return any(entry.state.is_moving for entry in entries)


# ---------------------------------------------------------------------------------------------------- choosing


def select_entries(entries: Sequence[RunRow], filters: RunFilters) -> list[RunRow]:
    """The entries that are asked for, in the order asked for; those that lack what is sorted by come last.

    Raises `UserError` where the filter cannot be read.
    """
    vocabulary = Vocabulary(entries)
    fitting = run_filter.parse_filter(filters.find, vocabulary).select(
        [entry for entry in entries if _fits_filters(entry, filters)]
    )
    if filters.sort in SORTS:
        return sort_entries(fitting, filters.sort)
    column = columns.known_columns([filters.sort.removeprefix("-")], vocabulary)
    return columns.in_order(fitting, column[0], filters.sort.startswith("-")) if column else fitting


def _fits_filters(entry: RunRow, filters: RunFilters) -> bool:
    choices = ((filters.states, entry.shown_state), (filters.methods, entry.method), (filters.datasets, entry.dataset))
    if any(chosen and value not in chosen for chosen, value in choices):
        return False
    return set(filters.tags) <= set(entry.tags) and (filters.hidden or not entry.hidden)


def sort_entries(entries: list[RunRow], sort: str) -> list[RunRow]:
    """Sorted by one of `SORTS`; equal ones keep their order."""
    keys = {
        "newest": lambda e: _negated(e.launched),
        "oldest": lambda e: e.launched,
        "name": lambda e: e.name.casefold(),
        "gap": lambda e: None if e.measured.gap is None else abs(e.measured.gap),
        "epochs": lambda e: _negated(e.measured.recent.epoch),
    }
    key = keys.get(sort) or (lambda e: _negated(e.measured.recent.number(f"accuracy/{sort}")))
    have = [entry for entry in entries if key(entry) is not None]
    ordered = sorted(have, key=key) + [entry for entry in entries if key(entry) is None]
    # by date, recordings stay behind a person's own runs: they are as old as the program
    return sorted(ordered, key=lambda e: e.shown_state == "recorded") if sort in ("newest", "oldest") else ordered


def _negated(value: float | None) -> float | None:
    return None if value is None else -value


def ask_filters(entries: Sequence[RunRow]) -> RunFilters:
    """The boxes above the table."""
    tags = sorted({tag for entry in entries for tag in entry.tags})
    hidden = sum(entry.hidden for entry in entries)
    methods = {name: titles.method_title(name) for name in sorted({e.method for e in entries if e.method})}
    standings = [name for name in theme.BADGES if any(entry.shown_state == name for entry in entries)]
    find = filter_box.ask_filter()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="run_filters"):
        filters = RunFilters(
            find=find,
            states=_ask_choices("State", "states", {name: theme.BADGES[name][0] for name in standings}),
            methods=_ask_choices("Method", "methods", methods),
            datasets=_ask_choices("Data set", "datasets", {e.dataset: e.dataset for e in entries if e.dataset}),
            tags=_ask_choices("Tags", "tags", {tag: tag for tag in tags}) if tags else (),
        )
        sort = url_fields.choose_one(st.selectbox, "sort", "Sort by", _list_sorts(entries), width=150)
        show = st.toggle(f"Show {hidden} hidden", key="hidden", bind="query-params") if hidden else False
    return replace(filters, sort=sort, hidden=show)


def _list_sorts(entries: Sequence[RunRow]) -> dict[str, str]:
    """What can be sorted by: the usual ones, every column in both directions, and what the address says."""
    named = [*st.query_params.get_all("columns"), st.query_params.get("sort", "").removeprefix("-")]
    more = columns.known_columns([*named, *columns.default_columns(entries)], Vocabulary(entries))
    heads = {one.key: heading(one.key) for one in more}
    ways = {f"{sign}{key}": f"{head}, {way}" for key, head in heads.items() for sign, way in _WAYS.items()}
    return SORTS | {key: words for key, words in ways.items() if key not in SORTS}


def _ask_choices(label: str, key: str, words: dict[str, str]) -> tuple[str, ...]:
    """Any number of choices, which stand in the address; what is there no more is forgotten."""
    return tuple(url_fields.choose_many(label, key, words, placeholder="Any", width=122))
