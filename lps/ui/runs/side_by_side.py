"""Two selected runs of the page Runs side by side: differing settings and facts, then their numbers."""

import streamlit as st

from lps.analysis.run_index import RunRow
from lps.scores.measurement_names import measurement_name
from lps.settings import cli_args
from lps.store import titles
from lps.tables.side_by_side import SideBySide, compare_two_runs
from lps.ui.shared import data_table, escape, export_buttons
from lps.ui.shared.data_table import Column


def show_side_by_side(first: RunRow, second: RunRow) -> None:
    """Show everything in which the two runs differ; what is equal is counted, and shown on demand."""
    side_by_side = compare_two_runs(first.run, second.run)
    names = (titles.run_label(first.run), titles.run_label(second.run))
    with st.container(border=True, key="beside"):
        st.markdown(f"**{escape.markdown(names[0])}** beside **{escape.markdown(names[1])}**")
        is_all = st.toggle("Show equal settings too", key="beside_all")
        _show_sections(side_by_side, names, is_all)
        _show_numbers(side_by_side, names)
        export_buttons.show_command(
            cli_args.format_command("diff", *(titles.short_id(entry.run.id) for entry in (first, second)))
        )


def _show_sections(side_by_side: SideBySide, names: tuple[str, str], is_all: bool) -> None:
    rows = []
    for title, section_rows in side_by_side.sections.items():
        shown_rows = [row for row in section_rows if is_all or not row.same]
        rows += [(title, row.what, row.first, row.second, not row.same) for row in shown_rows]
    num_equal = sum(row.same for section_rows in side_by_side.sections.values() for row in section_rows)
    if not rows:
        st.caption(f"All {num_equal} settings and facts are equal.")
        return
    columns = [
        Column("Part", lambda row: row[0], "text", width=110),
        Column("Setting or fact", lambda row: row[1], "text", pinned=True),
        *(Column(head, lambda row, index=index: row[index]) for index, head in enumerate(_column_heads(names), 2)),
        Column("Differs", lambda row: row[4], hidden=not is_all),
    ]
    data_table.show_data_table(
        columns, rows, "Settings, program, hardware, data and split of both runs", max_rows=len(rows)
    )
    equal_sections = [
        title
        for title, section_rows in side_by_side.sections.items()
        if section_rows and all(row.same for row in section_rows)
    ]
    st.caption(
        f"{num_equal} are equal"
        + (f"; no differences under {', '.join(equal_sections)}" if equal_sections else "")
        + "."
    )


def _show_numbers(side_by_side: SideBySide, names: tuple[str, str]) -> None:
    tabs = st.tabs(["Newest epoch", "Best epoch"])
    for tab, numbers in zip(tabs, (side_by_side.last, side_by_side.best)):
        if not numbers:
            tab.caption("Neither run has an evaluated epoch.")
            continue
        with tab:
            data_table.show_data_table(_number_columns(names), numbers, "The measurements of both runs")
        first, second = (
            f"{escape.markdown(name)}: {summary}" for name, summary in zip(names, side_by_side.epoch_summaries)
        )
        tab.caption(f"{first}. {second}. Accuracies, NMI and ARI in percent.")


def _number_columns(names: tuple[str, str]) -> list[Column]:
    first, second = _column_heads(names)
    return [
        Column("Measurement", lambda measurement: measurement_name(measurement.name), "text", pinned=True),
        Column(first, lambda measurement: measurement.first, "number", format="%.5g"),
        Column(second, lambda measurement: measurement.second, "number", format="%.5g"),
        Column(
            "Difference",
            lambda measurement: measurement.difference,
            "number",
            format="%+.5g",
            help="Second minus first",
        ),
    ]


def _column_heads(names: tuple[str, str]) -> list[str]:
    """Return two different headings: labels contain the end of the id, except for equal labels."""
    return [name if name != names[0] or index == 0 else f"{name} " for index, name in enumerate(names)]
