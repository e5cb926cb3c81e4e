"""The matrix of two settings on the page Effects: its cells, their runs, and buttons for empty cells.

The URL stores the open cell by its two values, so it stays open when the matrix grows.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

import streamlit as st

from lps.analysis import effects, score_tables
from lps.analysis.effects import Background
from lps.analysis.run_groups import Group
from lps.analysis.run_scores import Scored
from lps.charts import effect_charts
from lps.charts.effect_charts import COLUMNS, MEASURES, NAMES, Axis
from lps.settings.config import Config
from lps.settings.parameters import text_of
from lps.ui.effects import missing_runs
from lps.ui.effects.backgrounds import describe_fixed_settings, find_waiting_cells, pick_background
from lps.ui.shared import escape, group_differences, theme, url_fields
from lps.ui.shared.plot import plot


def show_matrix(scored: Sequence[Scored], varied: Mapping[str, list], waiting: Sequence[Config], measure: str) -> None:
    """Show two settings against each other; a click on an empty cell shows which runs would start."""
    st.subheader("Two settings", anchor=False)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        rows, columns = _pick_pair([member.config for member in scored], varied)
        backgrounds = effects.find_backgrounds(scored, [rows, columns])
        background = pick_background(backgrounds, "matrix")
    across = Axis.from_values(columns, background.values(columns))
    down = Axis.from_values(rows, background.values(rows))
    pending = find_waiting_cells(background, waiting)
    marked = _marked_cell(down, across)
    figure = effect_charts.matrix(down, across, background.groups, pending, measure, theme.current_palette(), marked)
    alt = f"{MEASURES[measure]} for {len(background.groups)} pairs of values of {rows} and {columns}"
    code = group_differences.code_of_scored("setting_matrix", background.members, rows, columns, measure)
    view = f"{rows} {columns} {background.id}"
    clicked = plot(figure, "effect_matrix", alt, clickable=True, code=code, view=view)
    if clicked is not None:
        _open_cell(down, across, clicked)
    _show_cells(background, down, across, marked, pending)
    fixed = describe_fixed_settings(background, varied)
    st.caption(
        f"{f'The other varied settings are fixed to {fixed}, not averaged. ' if fixed else ''}"
        "Percent or points: mean ± standard deviation over n seeds; the stronger the colour, the higher. Cells without "
        "a run stay empty: nothing is filled in from their neighbours."
    )


def _pick_pair(configs: Sequence[Config], varied: Mapping[str, list]) -> tuple[str, str]:
    """Return two different settings for rows and columns, by default the pair with most cells."""
    pairs = itertools.combinations(varied, 2)
    usual = max(pairs, key=lambda pair: effects.most_cells(configs, pair, varied))
    rows = url_fields.choose_one(st.selectbox, "rows", "Rows", _name_options(usual[0], varied), width=190)
    others = [key for key in varied if key != rows]
    best = max(others, key=lambda key: effects.most_cells(configs, [rows, key], varied))
    return rows, url_fields.choose_one(st.selectbox, "columns", "Columns", _name_options(best, others), width=190)


def _name_options(usual: str, keys: Iterable[str]) -> dict[str, str]:
    """Return names as menu words, the default first."""
    return {key: key for key in dict.fromkeys([usual, *keys])}


def _marked_cell(rows: Axis, columns: Axis) -> tuple[int, int] | None:
    """Return (row, column) of the cell that the URL names by its values."""
    named = st.query_params.get_all("cell")
    texts = [[text_of(value) for value in axis.values] for axis in (rows, columns)]
    if len(named) != 2 or named[0] not in texts[0] or named[1] not in texts[1]:
        return None
    return texts[0].index(named[0]), texts[1].index(named[1])


def _open_cell(rows: Axis, columns: Axis, code: int) -> None:
    """Put a clicked cell into the URL and draw again."""
    row, column = divmod(code, len(columns.values))
    if row < len(rows.values):
        st.query_params["cell"] = [text_of(rows.values[row]), text_of(columns.values[column])]
        st.rerun()


def _show_cells(
    background: Background, rows: Axis, columns: Axis, marked: tuple[int, int] | None, pending: set[tuple]
) -> None:
    """Show the open cell: its runs, or those that would start; without one, how many cells are empty."""
    pairs = [(row, column) for row in rows.values for column in columns.values]
    empty = [pair for pair in pairs if pair not in background.groups and pair not in pending]
    _pick_cell(pairs, background, marked, len(columns.values))
    with st.container(border=True):
        if marked is None:
            is_are = "is" if len(empty) == 1 else "are"
            sentence = f"{len(background.groups)} of {len(pairs)} cells have runs, {len(empty)} {is_are} empty"
            sentence += f", {len(pending)} in progress." if pending else "."
            st.markdown(f"{sentence} Click a cell, or choose it above." if empty else sentence)
            return
        pair = rows.values[marked[0]], columns.values[marked[1]]
        about = effects.settings_in_words(dict(zip(background.settings, pair)))
        if pair in background.groups:
            _show_runs(about, background.groups[pair])
        configs = effects.missing_configs(background, pair, effects.usual_seeds(background.groups.values()))
        if configs:
            missing_runs.offer_runs(
                "cell", about, configs, "Launch 1 run" if len(configs) == 1 else f"Launch {len(configs)} runs"
            )


def _pick_cell(pairs: list[tuple], background: Background, marked: tuple[int, int] | None, width: int) -> None:
    """Show a menu of all cells, empty ones first, the keyboard's alternative to a click."""
    order = sorted(range(len(pairs)), key=lambda i: pairs[i] in background.groups)
    texts = [", ".join(map(text_of, pair)) for pair in pairs]
    marked_index = marked[0] * width + marked[1] if marked else None
    url_fields.draw_field(
        st.selectbox,
        "effect_cell",
        marked_index,
        lambda i: url_fields.set_values("cell", None if i is None else [text_of(value) for value in pairs[i]]),
        "Cell, empty ones first",
        order,
        index=None,
        format_func=lambda i: texts[i] if i < len(texts) else "",
        placeholder="Click a cell, or choose it here",
    )


def _show_runs(about: str, group: Group) -> None:
    """Show the runs of a cell, each with its link."""
    numbers = " · ".join(f"{NAMES[m]} {score_tables.format_cell(group, m)}" for m in COLUMNS)
    st.markdown(f"**{escape.markdown(about)}** · {numbers}")
    for member in group.members:
        label = f"Seed {member.config.seed}: novel {100 * member.scores.novel:.1f} %"
        st.page_link("pages/live.py", label=label, icon=":material/show_chart:", query_params={"run": member.run.id})
