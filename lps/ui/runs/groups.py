"""Runs of the page Runs put together: a row for those that have something in common, opened by ticking it."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from lps.analysis import differences
from lps.analysis.differences import Difference
from lps.analysis.standing import Entry
from lps.bench import bunches, columns
from lps.bench.bunches import EVERYTHING, Bunch
from lps.bench.run_names import Name, Vocabulary
from lps.store import titles
from lps.ui.runs import table
from lps.ui.runs.shelf import HEADS
from lps.ui.shared import escape, select
from lps.wording import counted

_ROWS = 8  # of a long table in sight
_FIRST = (EVERYTHING, "method", "dataset", "tag", "state", "seed")
_WORDS = HEADS | {EVERYTHING: "Everything but the seed", "tag": "Tag"}


def pick(entries: Sequence[Entry], vocabulary: Vocabulary) -> list[Name]:
    """A menu of what runs can be put together by; the address has the choice."""
    asked = [key for key in st.query_params.get_all("by") if key == EVERYTHING or columns.known([key], vocabulary)]
    select.agree("grouped_by", asked)
    offered = dict.fromkeys([*asked, *_FIRST, *columns.varying(entries), *vocabulary.settings])
    with st.popover("Group", icon=":material/workspaces:", type="tertiary"):
        st.multiselect(
            "Put runs together that have the same",
            list(offered),
            format_func=lambda key: _WORDS.get(key, key),
            key="grouped_by",
            on_change=_remember,
            placeholder="Nothing: every run by itself",
        )
    return bunches.names_of(asked, entries)


def _remember() -> None:
    st.query_params["by"] = st.session_state["grouped_by"]
    for name in ("group", "held"):
        st.query_params.pop(name, None)


def show(entries: Sequence[Entry], by: Sequence[Name], shown: Sequence[Name]) -> list[Entry]:
    """The table of groups; returns the runs of the ticked ones, all of them where none is."""
    found = bunches.in_order(bunches.bunch(entries, by))
    measured = [name for name in shown if name.is_measured] or columns.known(columns.NUMBERS, Vocabulary(entries))
    base = next((one for one in found if one.id == st.query_params.get("held")), None)
    ids, asked = [one.id for one in found], st.query_params.get_all("group")
    frame, boxes = _frame(found, by, measured), _boxes(by, measured)
    if base:
        frame = _with_differences(frame, found, base, measured, by)
    places = select.tick_rows(
        pd.DataFrame(frame), "groups", ids, asked, _ROWS, boxes, "Groups of runs, mean and standard deviation"
    )
    ticked = [found[place] for place in places]
    if (kept := [one.id for one in ticked]) != asked:
        st.query_params["group"] = kept
    _show_standing(found, ticked, base, by)
    inside = {id(entry) for one in ticked or found for entry in one.members}
    return [entry for entry in entries if id(entry) in inside]


def _frame(found: Sequence[Bunch], by: Sequence[Name], measured: Sequence[Name]) -> dict[str, list]:
    told = [_told(one, by) for one in found]
    frame: dict[str, list] = {table.head(name): [words[i] for words in told] for i, name in enumerate(by)}
    frame["n"] = [len(one.members) for one in found]
    if any(one.finished < len(one.members) for one in found):
        frame["Finished"] = [one.finished for one in found]
    for name in measured:
        frame[table.head(name)] = [one.mean(name) for one in found]
        frame[f"± {table.head(name)}"] = [one.std(name) for one in found]
    return frame


def _boxes(by: Sequence[Name], measured: Sequence[Name]) -> dict:
    boxes: dict = {"n": st.column_config.NumberColumn(width=48, help="Runs")}
    boxes |= {table.head(name): st.column_config.TextColumn(pinned=True, help=name.help or None) for name in by}
    for name in measured:
        form = "%.1f" if name.kind == "percent" else "%.4g"
        about = f"{name.key} at the newest epoch of each run"
        boxes[table.head(name)] = st.column_config.NumberColumn(format=form, width=80, help=f"Mean of {about}")
        more = {"width": 70, "help": f"Standard deviation of {about}"}
        boxes[f"± {table.head(name)}"] = st.column_config.NumberColumn(format=form, **more)
    return boxes


def _with_differences(
    frame: dict[str, list], found: Sequence[Bunch], base: Bunch, measured: Sequence[Name], by: Sequence[Name]
) -> dict[str, list]:
    """Behind each measurement the difference from one group, with its 95 % interval and what can be said of it."""
    widened = {}
    for head, cells in frame.items():
        widened[head] = cells
        name = next((one for one in measured if head == f"± {table.head(one)}" and one.kind == "percent"), None)
        if name:
            held = bunches.held_against(found, base, name, by)
            widened[f"Δ {table.head(name)}"] = [_in_words(held, place) for place in range(len(found))]
    return widened


def _in_words(held: dict[int, Difference | None], place: int) -> str:
    if place not in held:
        return "the baseline"
    difference = held[place]
    return f"{differences.cell(difference)} {bunches.verdict(difference)}" if difference else bunches.verdict(None)


def _told(one: Bunch, by: Sequence[Name]) -> list[str]:
    """What its runs have in common, as the table of runs says it."""
    pairs = zip(by, one.values)
    return [titles.method_title(value) if name.key == "method" else value for name, value in pairs]


def _show_standing(found: Sequence[Bunch], ticked: Sequence[Bunch], base: Bunch | None, by: Sequence[Name]) -> None:
    """What the rows are held against, and how to change that."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        about = f"{counted(len(found), 'group')}. Tick one to see its runs alone."
        st.caption(f"{len(ticked)} of {about}" if ticked else about, width="content")
        if base:
            called = ", ".join(f"{table.head(name)} {value}" for name, value in zip(by, _told(base, by)))
            words = f"Held against {called}: run by run where two differ in nothing else; 95 % intervals"
            st.caption(escape.markdown(words), width="content")
            st.button("Take back", key="held_back", type="tertiary", on_click=_hold, args=(None,))
        elif len(ticked) == 1:
            words = "Hold others against it"
            st.button(words, key="hold", type="tertiary", icon=":material/balance:", on_click=_hold, args=(ticked[0],))


def _hold(base: Bunch | None) -> None:
    st.query_params.pop("group", None)
    if base is None:
        st.query_params.pop("held", None)
    else:
        st.query_params["held"] = base.id
