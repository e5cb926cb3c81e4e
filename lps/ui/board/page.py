"""The page Charts: several charts of any runs, and a table of their values.

Filter, charts and epoch are in the page's URL. A board is a saved URL with a name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from lps.analysis import run_diff, run_index
from lps.analysis.run_index import RunRow
from lps.charts import board_charts
from lps.charts.board_charts import BoardLine
from lps.charts.event_log import History
from lps.charts.group_tables import FRACTIONS
from lps.errors import UserError
from lps.scores.measurement_names import measurement_name
from lps.store import titles
from lps.store.runs import Run
from lps.tables import boards, columns, grouping, run_filter, saved_views
from lps.tables.boards import BoardChart
from lps.ui.board import editing, run_list
from lps.ui.forms import filter_box, saved_view_menu
from lps.ui.shared import data_table, escape, live_part, notices, page_head, select, theme, url_fields
from lps.ui.shared.data_table import Column
from lps.ui.shared.history import read_history
from lps.ui.shared.plot import BoardPlot, code_of, plot
from lps.wording import counted

_MAX_LINES = 12  # that can be told apart; of more runs, lines are means
MAX_RUNS = 60  # runs whose records are read; the newest of more
_TICK_S = 5.0  # while a run moves


@dataclass(frozen=True)
class _BoardRuns:
    """The runs of a board, with their records and labels."""

    entries: list[RunRow]
    histories: list[History]
    labels: list[str]


def main() -> None:
    """Draw the page."""
    views = saved_views.chart_boards(select.runs_root())
    saved_view_menu.open_default_view(views)
    runs = page_head.begin_page("Charts", "There are no runs to draw yet.", ":material/stacked_line_chart:")
    if not runs:
        return
    if named := select.runs_of_address(runs):
        select.offer_all_runs(len(named))
    find = filter_box.ask_filter()
    address = url_fields.read_address()

    def draw(_: list[Run]) -> None:
        if url_fields.read_address() != address:
            st.rerun()  # the links of the tabs keep its pins and its epoch
        _show_board(find)

    live_part.follow_changes(lambda: runs[:MAX_RUNS], select.any_moves, draw, _TICK_S)


def _show_board(find: str) -> None:
    """Draw the menus, the charts and the table of values."""
    board_runs = _select_runs(find)
    measurement_titles = board_charts.list_measurements(board_runs.histories)
    by = _usual_grouping(board_runs.entries)
    charts = _read_charts(by)
    with st.container(horizontal=True, gap="small", key="board_menus"):
        editing.offer_new_chart(charts, measurement_titles, _list_groupings(board_runs.entries))
        saved_view_menu.show_view_menu(saved_views.chart_boards(select.runs_root()), "Boards")
    if not board_runs.entries:
        st.info("No runs match. Remove a filter above.", icon=":material/filter_alt_off:")
        return
    page_head.link_sweeps([entry.run for entry in board_runs.entries])
    if by and not st.query_params.get_all("chart"):
        shared_settings = "equal settings except for the seed" if by == grouping.EVERYTHING else f"the same {by}"
        help_text = f"{counted(len(board_runs.entries), 'run')}: each line is the mean of runs with {shared_settings}."
        st.caption(escape.markdown(f"{help_text} Press Change to draw one line per run."))
    styles = theme.current_palette(), theme.pinned_colors()
    lines = [board_charts.lines_of_runs(chart, board_runs.entries, board_runs.histories, *styles) for chart in charts]
    with st.container(key="board"):
        list_column, charts_column = st.columns([1, 4], gap="medium")
    with list_column, st.container(key="board_list"):
        title = measurement_titles.get(charts[0].y, charts[0].y)
        run_list.show_run_list(lines, charts[0], title, url_fields.read_number("epoch") or None)
        _explain_labels(lines, board_runs.entries)
    with charts_column:
        for start in range(0, len(charts), 2):
            row_columns = st.columns(2) if len(charts) > 1 else [st.container()]
            for number, column in enumerate(row_columns[: len(charts) - start], start):
                with column:
                    _show_chart(number, charts, board_runs, lines[number], measurement_titles, find)
    _show_values(charts, board_runs)


def _explain_labels(lines: Sequence[Sequence[BoardLine]], entries: Sequence[RunRow]) -> None:
    """Show what the symbols at the ends of the lines mean."""
    end_labels = [line.end_label for chart_lines in lines for line in chart_lines]
    if symbols := titles.explain_symbols(end_labels, [entry.method for entry in entries]):
        st.caption(escape.markdown(symbols))


def _read_charts(by: str) -> list[BoardChart]:
    """Return the charts in the URL, by default the usual ones, grouped by `by`."""
    requested = [boards.read_chart(text) for text in st.query_params.get_all("chart")[: boards.MAX_CHARTS]]
    return requested or [replace(chart, by=by) for chart in boards.DEFAULT_CHARTS]


def _usual_grouping(entries: Sequence[RunRow]) -> str:
    """Return the default grouping: the one with the most lines that can still be told apart."""
    if len(entries) <= _MAX_LINES:
        return ""
    numbers = {}
    for key in (grouping.EVERYTHING, "method", *columns.varying_settings(entries)):
        numbers[key] = len(grouping.group_runs(entries, grouping.grouping_names([key], entries)))
    readable = [key for key, number in numbers.items() if 1 < number <= _MAX_LINES]
    return max(readable, key=numbers.get, default=grouping.EVERYTHING)


# ---------------------------------------------------------------------------------------------------- runs


def _select_runs(find: str) -> _BoardRuns:
    """Return the runs that match the filter, at most the newest ones; says which are left out."""
    runs = select.open_runs()
    candidates = select.runs_of_address(runs) or (runs if find.strip() else select.default_runs(runs))
    entries = run_index.read_rows(candidates)
    try:
        matching = run_filter.select_runs(entries, find)
    except UserError as error:
        st.error(escape.sentence(error), icon=":material/filter_alt_off:")
        matching = entries
    entries = [entry for entry in matching if entry.config is not None]
    if len(entries) > MAX_RUNS:
        st.caption(f"Showing the newest {MAX_RUNS} of {counted(len(entries), 'run')}. Narrow the filter to see others.")
    entries = entries[:MAX_RUNS]
    histories = [read_history(entry.run) for entry in entries]
    notices.show_left_out({titles.run_label(entry.run): history for entry, history in zip(entries, histories)})
    labels = run_diff.short_labels([entry.run for entry in entries], in_symbols=True)
    return _BoardRuns(entries, histories, labels)


def _list_groupings(entries: Sequence[RunRow]) -> dict[str, str]:
    """Return what lines can be means of, as option -> words."""
    fixed_options = {"": "Run", grouping.EVERYTHING: "Settings (mean over seeds)", "method": "Method", "tag": "Tag"}
    return fixed_options | {key: key for key in columns.varying_settings(entries)}


# ---------------------------------------------------------------------------------------------------- charts


def _show_chart(
    number: int,
    charts: list[BoardChart],
    board_runs: _BoardRuns,
    chart_lines: list[BoardLine],
    measurement_titles: dict[str, str],
    find: str,
) -> None:
    chart = charts[number]
    with st.container(border=True, key=f"chart_{number}"):
        editing.show_chart_menu(number, charts, measurement_titles, _list_groupings(board_runs.entries))
        title = measurement_titles.get(chart.y, chart.y)
        if not chart_lines:
            x_title = boards.X_AXIS_TITLES.get(chart.x, chart.x)
            st.caption(escape.markdown(f"None of these runs has recorded {chart.y} over {x_title}."))
            return
        figure = board_charts.figure(chart_lines, chart, title, theme.current_palette())
        address_runs = select.runs_of_address(select.open_runs())
        root = None if address_runs else select.runs_root().absolute()
        state = {"hidden": run_list.hidden_keys() or None, "pinned": theme.pinned_colors() or None}
        code = code_of("chart", chart.text, *([address_runs] if address_runs else []), filter=find, root=root, **state)
        board = BoardPlot(title, chart.y.startswith(FRACTIONS), chart.x)
        alt = f"{title} over {boards.X_AXIS_TITLES.get(chart.x, chart.x)}, {counted(len(chart_lines), 'line')}"
        plot(figure, f"board_{number}", alt, code=code, board=board, view=f"{chart.text} {find}")
        unrecorded = len(board_runs.labels) - len(chart_lines) if not chart.by else 0
        if unrecorded:
            st.caption(f"Not recorded by {counted(unrecorded, 'run')}: {escape.markdown(measurement_name(chart.y))}.")


def _show_values(charts: Sequence[BoardChart], board_runs: _BoardRuns) -> None:
    """Show every measurement of the board in a table: at one epoch, at the last and at the best epoch."""
    with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"):
        st.subheader("Values", anchor=False, width="content")
        last = max((history.last_epoch for history in board_runs.histories), default=0)
        epoch = url_fields.read_number("epoch") or None
        url_fields.draw_field(
            st.number_input,
            "board_epoch",
            epoch,
            partial(url_fields.set_number, "epoch"),
            "At epoch",
            1,
            max(1, last, epoch or 1),
            None,
            width=150,
            placeholder="none",
        )
    names = list(dict.fromkeys(chart.y for chart in charts))
    tables = {
        label: {name: board_charts.measurement_table(history, BoardChart(name)) for name in names}
        for label, history in zip(board_runs.labels, board_runs.histories)
    }
    table = board_charts.value_table(tables, epoch)
    in_percent = {measurement_name(name) for name in names if name.startswith(FRACTIONS)}
    columns = [_value_column(head, table[head], head.rpartition(", ")[0] in in_percent) for head in table]
    data_table.show_data_table(columns, table.index, "Last and best value of every run")
    st.caption(
        "Best is the lowest value for losses, KL, gap, conflict, time and memory, and the highest value for "
        "everything else. Conflict is the accuracy lost because seen and novel images share one pairing of "
        "clusters and classes. Accuracies and shares are in percent."
    )


def _value_column(head: str, cells: Iterable, in_percent: bool) -> Column:
    if head == "Run":
        cells = list(cells)  # at most 60 % of a phone's table: a wider column is not pinned, and hides the numbers
        return Column(
            head, cells, "text", pinned=True, width=min(214, 30 + 7 * max(map(len, map(str, cells)), default=0))
        )
    number_format = "%d" if head.endswith(", best epoch") else "%.1f" if in_percent else "%.3g"
    return Column(head, cells, "number", format=number_format, width=max(80, 30 + 7 * len(head)))
