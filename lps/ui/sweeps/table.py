"""What a sweep has found so far: the paper's table as it fills, its curve, or the groups of an own layout."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from lps.analysis import differences, score_tables
from lps.analysis.run_scores import Scored
from lps.charts import group_tables
from lps.charts.sweep_charts import figures
from lps.files import tables
from lps.studies import preset_tables
from lps.studies.preset_tables import Grid
from lps.studies.presets import PaperTable
from lps.ui.shared import escape, group_differences, scores, select, theme
from lps.ui.shared.plot import code_of, plot
from lps.wording import capitalized


def show_sheet(name: str, sheet: PaperTable, scored: Sequence[Scored]) -> None:
    """Table and curve of the sweep `name` of a preset."""
    groups = preset_tables.fill_table(sheet, scored)
    show_grid(preset_tables.build_grid(sheet, groups))
    group_differences.show_differences(preset_tables.named_groups(sheet, groups), "against")
    for words, figure, alt in figures(sheet, groups, theme.current_palette()):
        if words:
            st.markdown(f"**{escape.markdown(words)}**")
        code = code_of("sweep_curve", name, words.partition(",")[0], root=select.runs_root().absolute())
        plot(figure.update_layout(uirevision=words), f"sweep_curve_{words}", alt, code=code)


def show_grid(grid: Grid) -> None:
    """The table in the paper's layout, one for each of its sections."""
    for section in dict.fromkeys(section for section, _, _ in grid.rows):
        if section:
            st.markdown(f"**{escape.markdown(section)}**")
        alt = f"{grid.first} by {', '.join(words for words, _ in grid.heads)}"
        st.dataframe(_styled(grid, section), width="stretch", height="content", alt=alt)
    st.caption("  \n".join(escape.markdown(f"{capitalized(note)}.") for note in grid.notes))


def _styled(grid: Grid, section: str):
    """The rows of a section: what is bold of ours, the paper's numbers in grey."""
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
                looks.iloc[row, k] = f"color: {theme.current_palette().muted}"
            elif (place, k) in grid.bold:
                looks.iloc[row, k] = "font-weight: 650"
    return table.style.apply(lambda _: looks, axis=None)


def show_groups(scored: Sequence[Scored]) -> None:
    """The groups of an own layout, as on the Compare page."""
    if scored:
        groups = group_tables.sorted_groups(scored)
        scores.show_table(groups)
        group_differences.show_differences(groups, "against")
    else:
        st.caption("The table appears when the first run has finished.")


# ---------------------------------------------------------------------------------------------------- to take away


def as_latex(sheet: PaperTable | None, scored: Sequence[Scored], caption: str) -> str:
    """The table as LaTeX."""
    if sheet is None:
        return score_tables.format_table(group_tables.sorted_groups(scored), "latex") if scored else ""
    groups = preset_tables.fill_table(sheet, scored)
    comparison = differences.compare_groups(preset_tables.named_groups(sheet, groups))
    tables_of_both = [
        preset_tables.latex_of_grid(preset_tables.build_grid(sheet, groups), caption),
        score_tables.latex_differences(comparison),
    ]
    return "\n".join(filter(None, tables_of_both))


def as_csv(sheet: PaperTable | None, scored: Sequence[Scored]) -> str:
    """The table as comma-separated values, fractions."""
    if sheet is None:
        return score_tables.format_table(group_tables.sorted_groups(scored), "csv") if scored else ""
    return tables.csv_text(preset_tables.csv_rows(sheet, preset_tables.fill_table(sheet, scored)))
