"""The ablation table of LPS on the page Effects, with buttons for missing runs."""

from collections.abc import Sequence

import streamlit as st

from lps.analysis import ablation, score_tables
from lps.analysis.run_scores import Scored
from lps.charts.effect_charts import COLUMNS, NAMES
from lps.settings import catalog
from lps.settings.config import Config
from lps.ui.effects import missing_runs
from lps.ui.effects.backgrounds import describe_changes, find_waiting_cells, join_settings
from lps.ui.shared import data_table, escape, group_differences, url_fields
from lps.ui.shared.data_table import Column
from lps.wording import capitalized, counted


def show_ablation(scored: Sequence[Scored], waiting: Sequence[Config]) -> None:
    """Show the full method and each variant without one of its parts; missing runs have buttons."""
    st.subheader("Ablation", anchor=False)
    ablation_tables = ablation.ablation_tables(scored)
    if not ablation_tables:
        st.caption(explain_no_table(scored[0].config.method))
        return
    table = _pick_table(ablation_tables)
    pending = find_waiting_rows(table, waiting)
    data_table.show_data_table(_variant_columns(table, pending), table.rows, "The ablation table of LPS")
    notes = [escape.markdown(capitalized(note)) for note in score_tables.notes_on_paper(table.groups)]
    st.caption("  \n".join(["Percent and points, mean ± standard deviation over n seeds.", *(f"{n}." for n in notes)]))
    group_differences.show_differences(table.groups, "ablated", table.rows[0].group)
    _offer_rows(table)


def explain_no_table(method: str) -> str:
    """Say why there is no ablation table, and for LPS how to make one."""
    about = "The ablation compares LPS with variants of LPS that have one part switched off. "
    if method != "lps":
        return f"{about}The runs shown here are of {escape.markdown(catalog.method_info(method).title)}."
    return (
        f"{about}In every run shown here, more than one part is off. To make the table, start the preset “Ablation” on "
        "the page Sweep."
    )


def _pick_table(ablation_tables: Sequence[ablation.AblationTable]) -> ablation.AblationTable:
    """Return the chosen table, by default the one with most rows, and show the settings that its rows share."""
    settings_by_id = {}
    for table, (differing, shared) in zip(
        ablation_tables, describe_changes([table.background for table in ablation_tables])
    ):
        settings_by_id[table.id] = join_settings(
            ", ".join(filter(None, [ablation.changed_weights(table), differing])), shared
        )
    table = ablation_tables[0]
    if len(ablation_tables) > 1:
        labels = {
            table.id: f"{settings_by_id[table.id]} · {len(table.groups)} of {len(table.rows)} rows, "
            f"{counted(table.runs, 'run')}"
            for table in ablation_tables
        }
        picked = url_fields.choose_one(st.selectbox, "full", "Full method", labels, width=420)
        table = next(table for table in ablation_tables if table.id == picked)
    sentence = f"In this table, the full method has {escape.markdown(settings_by_id[table.id])}."
    st.caption(
        f"{sentence} All settings that are not in the table have one fixed value; nothing is averaged over them."
    )
    return table


def find_waiting_rows(table: ablation.AblationTable, waiting: Sequence[Config]) -> set[str]:
    """Return the names of the rows without a score whose run is waiting or running."""
    waiting_values = find_waiting_cells(table.background, waiting)
    return {row.name for row in table.rows if row.values in waiting_values}


def _variant_columns(table: ablation.AblationTable, pending: set[str]) -> list[Column]:
    """Return the columns of the variants; the cells of a variant without a run say why."""

    def cell(row: ablation.Variant, measure: str) -> str:
        reason = "in progress" if row.name in pending else "not run"
        return score_tables.format_cell(row.group, measure) if row.group else reason

    has_paper = score_tables.has_paper([row.group for row in table.rows if row.group])
    return [
        Column("Variant", lambda row: row.name, "text", pinned=True, width=230),
        *(Column(NAMES[measure], lambda row, measure=measure: cell(row, measure)) for measure in COLUMNS),
        Column("n", lambda row: len(row.group.members) if row.group else 0),
        Column(
            "Paper",
            lambda row: score_tables.paper_cell(row.group) if row.group else "",
            help=capitalized(score_tables.ABOUT_PAPER_CELL),
            hidden=not has_paper,
        ),
    ]


def _offer_rows(table: ablation.AblationTable) -> None:
    """Show a button for each row that lacks runs, and one for all."""
    lacking = {row.name: table.missing(row) for row in table.rows}
    all_configs = [config for configs in lacking.values() for config in configs]
    startable = {
        item.config.to_json() for item in missing_runs.plan_missing_runs(all_configs)
    }  # texts: comparing each with each took seconds
    rows = [row for row in table.rows if any(config.to_json() in startable for config in lacking[row.name])]
    if not rows:
        return
    with st.container(border=True):
        configs = [config for row in rows for config in lacking[row.name]]
        names = ", ".join(row.name.lower() for row in rows)
        subject = "all of them" if len(rows) > 1 else rows[0].name.lower()
        missing_runs.offer_runs("ablation", f"runs with one part switched off ({names})", configs, f"Launch {subject}")
        if len(rows) > 1:
            with st.container(horizontal=True, gap="small"):
                for index, row in enumerate(rows):
                    missing_runs.show_start_button(f"ablation_{index}", row.name, lacking[row.name])
