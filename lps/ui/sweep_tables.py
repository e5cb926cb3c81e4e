"""What a sweep has found so far: the paper's table as it fills, its curve, or the groups of an own layout."""

import csv
import io
from collections.abc import Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from lps import compare, preset_tables, presets
from lps.compare import Scored
from lps.preset_tables import Grid
from lps.presets import Sheet
from lps.ui import comparison, effect_charts, escape, style
from lps.ui.effect_charts import Axis
from lps.ui.plot import plot
from lps.ui.style import Palette

AXES = {"split.num_seen": "Novel classes", "split.labeled_ratio": "Labeled, percent"}


def show_sheet(sheet: Sheet, scored: Sequence[Scored]) -> None:
    """Table and curve of a preset."""
    groups = preset_tables.fill(sheet, scored)
    show_grid(preset_tables.grid(sheet, groups))
    for words, figure, alt in figures(sheet, groups, style.palette()):
        if words:
            st.markdown(f"**{escape.markdown(words)}**")
        plot(figure.update_layout(uirevision=words), f"sweep_curve_{words}", alt)


def show_grid(grid: Grid) -> None:
    """The table in the paper's layout, one for each of its sections."""
    for section in dict.fromkeys(section for section, _, _ in grid.rows):
        if section:
            st.markdown(f"**{escape.markdown(section)}**")
        alt = f"{grid.first} by {', '.join(words for words, _ in grid.heads)}"
        st.dataframe(styled(grid, section), width="stretch", height="content", alt=alt)
    st.caption("  \n".join(escape.markdown(f"{note[:1].upper()}{note[1:]}.") for note in grid.notes))


def styled(grid: Grid, section: str):
    """The rows of a section: the best of ours bold, the paper's numbers in grey."""
    columns = [(words, column) for words, names in grid.heads for column in names]
    places = [place for place, row in enumerate(grid.rows) if row[0] == section]
    index = pd.Index([grid.rows[place][1] for place in places], name=grid.first)
    table = pd.DataFrame(
        [grid.rows[place][2] for place in places], index=index, columns=pd.MultiIndex.from_tuples(columns)
    )
    looks = pd.DataFrame("", index=table.index, columns=table.columns)
    for row, place in enumerate(places):
        for k, (words, _) in enumerate(columns):
            if words.startswith("Paper"):
                looks.iloc[row, k] = f"color: {style.palette().muted}"
            elif (place, k) in grid.bold:
                looks.iloc[row, k] = "font-weight: 650"
    return table.style.apply(lambda _: looks, axis=None)


def figures(sheet: Sheet, groups: Mapping, colors: Palette) -> list[tuple[str, go.Figure, str]]:
    """(words above, figure, what it shows) of every block of a preset that is a curve; empty while there is nothing."""
    setting = sheet.preset.setting
    found = []
    for k, block in enumerate(sheet.blocks if setting else ()):
        ours, theirs = preset_tables.curve(sheet, groups, k)
        values = sorted({*ours, *theirs, *preset_tables.positions(sheet)})
        axis = Axis.of(AXES.get(setting, setting), values)
        if not ours and not theirs:
            continue
        figure = effect_charts.curves(axis, values, ours, theirs, colors)
        words = f"{block.title}, dotted: the paper's {block.published}"
        found.append((words, figure, f"Seen, novel and all accuracy on {block.title} by {axis.setting}"))
    return found


def show_groups(scored: Sequence[Scored]) -> None:
    """The groups of an own layout, as on the Compare page."""
    if scored:
        comparison.show_table(comparison.sorted_groups(scored))
    else:
        st.caption("The table appears when the first run has finished.")


# ---------------------------------------------------------------------------------------------------- to take away


def as_latex(sheet: Sheet | None, scored: Sequence[Scored], caption: str) -> str:
    """The table as LaTeX."""
    if sheet is None:
        return compare.table(comparison.sorted_groups(scored), "latex") if scored else ""
    return preset_tables.latex(preset_tables.grid(sheet, preset_tables.fill(sheet, scored)), caption)


def as_csv(sheet: Sheet | None, scored: Sequence[Scored]) -> str:
    """The table as comma-separated values, fractions."""
    if sheet is None:
        return compare.table(comparison.sorted_groups(scored), "csv") if scored else ""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(preset_tables.csv_rows(sheet, preset_tables.fill(sheet, scored)))
    return out.getvalue()


def sheet_of(asked) -> Sheet | None:
    """The table of what was asked for, where that is a preset."""
    return presets.sheet(asked) if isinstance(asked, presets.Asked) else None
