"""What a sweep has found so far: the paper's table as it fills, its curve, or the groups of an own layout."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from lps.analysis import differences, score_tables
from lps.analysis.run_groups import Group
from lps.analysis.run_scores import Scored
from lps.charts import group_tables
from lps.charts.sweep_charts import figures
from lps.files import tables
from lps.settings.config import Config
from lps.store import titles
from lps.studies import preset_tables
from lps.studies.preset_tables import Grid
from lps.studies.presets import PaperTable
from lps.studies.sweeps import Item
from lps.ui.shared import data_table, escape, group_differences, notices, scores, select, theme
from lps.ui.shared.data_table import Column
from lps.ui.shared.plot import code_of, plot
from lps.wording import capitalized


def show_split(configs: Sequence[Config]) -> None:
    """Show the split of the runs, as in the notes on Compare."""
    if split := score_tables.split_in_words(configs):
        st.caption(escape.markdown(f"Split of all runs: {split}."))


def run_column(items: Sequence[Item]) -> Column:
    """Return the column of the names of runs, as on Runs, with the meaning of their symbols as help."""
    names = [titles.name_in_symbols(item.label, item.config) for item in items]
    symbols = titles.explain_symbols(names, (item.config.method for item in items))
    return Column("Run", names, "text", data_table.label_width(names), symbols or None)


def show_paper_table(name: str, paper_table: PaperTable, scored: Sequence[Scored]) -> None:
    """Show table and curves of the sweep `name` of a preset."""
    groups = preset_tables.fill_table(paper_table, scored)
    show_grid(preset_tables.build_grid(paper_table, groups))
    group_differences.show_differences(preset_tables.named_groups(paper_table, groups), "against")
    for caption, figure, alt in figures(paper_table, groups, theme.current_palette()):
        if caption:
            st.markdown(f"**{escape.markdown(caption)}**")
        code = code_of("sweep_curve", name, caption.partition(",")[0], root=select.runs_root().absolute())
        plot(figure, f"sweep_curve_{caption}", alt, code=code, view=caption)


def show_grid(grid: Grid) -> None:
    """Show the table in the paper's layout, one for each section."""
    for section in dict.fromkeys(section for section, _, _ in grid.rows):
        if section:
            st.markdown(f"**{escape.markdown(section)}**")
        alt = f"{grid.first} by {', '.join(heading for heading, _ in grid.heads)}"
        options = {"column_config": _explain_columns(grid), "width": "stretch", "height": "content", "alt": alt}
        st.dataframe(_style_section(grid, section), **options)
    st.caption("  \n".join(escape.markdown(f"{capitalized(note)}.") for note in grid.notes))


def _explain_columns(grid: Grid) -> dict[int, object]:
    """Return the help of each column, which tables of groups have too, by its place after the first column."""
    meanings = dict(group_tables.SCORE_COLUMNS.values())
    names = [name for _, names in grid.heads for name in names]
    return {place: st.column_config.Column(help=meanings.get(name)) for place, name in enumerate(names, start=1)}


def _style_section(grid: Grid, section: str):
    """Return the styled rows of a section: the best of our numbers bold, the paper's numbers grey."""
    columns = [(heading, column) for heading, names in grid.heads for column in names]
    positions = [position for position, row in enumerate(grid.rows) if row[0] == section]
    index = pd.Index([grid.rows[position][1] for position in positions], name=grid.first)
    table = pd.DataFrame(
        [grid.rows[position][2] for position in positions], index=index, columns=pd.MultiIndex.from_tuples(columns)
    )
    styles = pd.DataFrame("", index=table.index, columns=table.columns)
    for row, position in enumerate(positions):
        for k, (heading, _) in enumerate(columns):
            if heading.startswith("Paper"):
                styles.iloc[row, k] = f"color: {theme.current_palette().muted}"
            elif (position, k) in grid.bold:
                styles.iloc[row, k] = "font-weight: 650"
    return table.style.apply(lambda _: styles, axis=None)


def show_groups(scored: Sequence[Scored], planned: Sequence[Config]) -> None:
    """Show the groups of a sweep that is no preset, as on the page Compare. planned: all configs of the sweep."""
    if scored:
        groups = group_tables.sorted_groups(scored, planned)
        scores.show_table(groups, [_alarm_column(groups)])
        group_differences.show_differences(groups, "against")
    else:
        st.caption("The table appears when the first run has finished.")


def _alarm_column(groups: Sequence[Group]) -> Column:
    """Return the column of the alarms of each group's runs, which is left out if there are none."""
    cells = []
    for group in groups:
        alarms = [alarm.title for member in group.members for alarm in notices.list_alarms(member.run)]
        counts = {title: alarms.count(title) for title in dict.fromkeys(alarms)}
        total = len(group.members)
        cells.append(", ".join(title + f" ({n} of {total})" * (n < total) for title, n in counts.items()))
    about = "Alarms at the last epoch, and of how many of the runs. Live explains them for each run"
    return Column("Alarms", cells, "text", help=about, optional=True)


# ---------------------------------------------------------------------------------------------------- to take away


def as_latex(paper_table: PaperTable | None, scored: Sequence[Scored], planned: Sequence[Config], caption: str) -> str:
    """Return the table as LaTeX. planned: as in `show_groups`, so that the groups have the same names."""
    if paper_table is None:
        return score_tables.format_table(group_tables.sorted_groups(scored, planned), "latex") if scored else ""
    groups = preset_tables.fill_table(paper_table, scored)
    comparison = differences.compare_groups(preset_tables.named_groups(paper_table, groups))
    tables = [
        preset_tables.latex_of_grid(preset_tables.build_grid(paper_table, groups), caption),
        score_tables.latex_differences(comparison),
    ]
    return "\n".join(filter(None, tables))


def as_csv(paper_table: PaperTable | None, scored: Sequence[Scored], planned: Sequence[Config]) -> str:
    """Return the table as comma-separated values, as fractions. planned: as in `as_latex`."""
    if paper_table is None:
        return score_tables.format_table(group_tables.sorted_groups(scored, planned), "csv") if scored else ""
    return tables.csv_text(preset_tables.csv_rows(paper_table, preset_tables.fill_table(paper_table, scored)))
