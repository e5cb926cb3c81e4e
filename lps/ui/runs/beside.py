"""Two chosen runs of the page Runs beside one another: what differs, then their numbers."""

import pandas as pd
import streamlit as st

from lps.analysis.standing import Entry
from lps.bench.side_by_side import Number, SideBySide, beside
from lps.settings import spell
from lps.store import titles
from lps.ui.shared import escape, take_away


def show(first: Entry, second: Entry) -> None:
    """Everything in which the two differ; what is the same is counted, and shown where asked for."""
    found = beside(first.run, second.run)
    names = (titles.label(first.run), titles.label(second.run))
    with st.container(border=True, key="beside"):
        st.markdown(f"**{escape.markdown(names[0])}** beside **{escape.markdown(names[1])}**")
        is_all = st.toggle("Also what is the same", key="beside_all")
        _show_sections(found, names, is_all)
        _show_numbers(found, names)
        take_away.show_command(spell.command("diff", *(titles.short_id(entry.run.id) for entry in (first, second))))


def _show_sections(found: SideBySide, names: tuple[str, str], is_all: bool) -> None:
    rows = []
    for title, all_rows in found.sections.items():
        told = [row for row in all_rows if is_all or not row.same]
        rows += [(title, row.what, row.first, row.second, not row.same) for row in told]
    same = sum(row.same for all_rows in found.sections.values() for row in all_rows)
    if not rows:
        st.caption(f"They agree in all {same} settings and facts.")
        return
    table = pd.DataFrame(rows, columns=["Of", "What", *_heads(names), "Differs"])
    boxes = {"What": st.column_config.TextColumn(pinned=True), "Of": st.column_config.TextColumn(width=110)}
    if not is_all:
        table = table.drop(columns="Differs")
    alt = "Settings, program, hardware, data and split of both runs"
    st.dataframe(table, width="stretch", height="content", hide_index=True, column_config=boxes, alt=alt)
    silent = [title for title, all_rows in found.sections.items() if all_rows and all(row.same for row in all_rows)]
    st.caption(f"{same} are the same" + (f"; nothing differs under {', '.join(silent)}" if silent else "") + ".")


def _show_numbers(found: SideBySide, names: tuple[str, str]) -> None:
    tabs = st.tabs(["Newest epoch", "Best epoch"])
    for tab, numbers in zip(tabs, (found.last, found.best)):
        if not numbers:
            tab.caption("Neither has an evaluated epoch.")
            continue
        tab.dataframe(_numbers(numbers, names), width="stretch", hide_index=True, column_config=_number_boxes(names))
        first, second = (f"{escape.markdown(name)}: {about}" for name, about in zip(names, found.about))
        tab.caption(f"{first}. {second}. Accuracies, NMI and ARI in percent.")


def _numbers(numbers: list[Number], names: tuple[str, str]) -> pd.DataFrame:
    rows = [(one.name, one.first, one.second, one.difference) for one in numbers]
    return pd.DataFrame(rows, columns=["Measurement", *_heads(names), "Difference"])


def _number_boxes(names: tuple[str, str]) -> dict:
    boxes: dict = {head: st.column_config.NumberColumn(format="%.5g") for head in _heads(names)}
    boxes["Difference"] = st.column_config.NumberColumn(format="%+.5g", help="Second minus first")
    boxes["Measurement"] = st.column_config.TextColumn(pinned=True)
    return boxes


def _heads(names: tuple[str, str]) -> list[str]:
    """The labels hold the end of the id, so they differ."""
    return [name if name != names[0] or place == 0 else f"{name} " for place, name in enumerate(names)]
