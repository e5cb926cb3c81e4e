"""Charts of a board: any measurement of any runs over epochs, steps, hours or another measurement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd

from lps.analysis import run_diff
from lps.analysis.run_index import RunRow
from lps.charts import group_tables, palette
from lps.charts.chart import Chart
from lps.charts.event_log import History
from lps.charts.figures import axis_title, blank_figure, escape_text, whole_ticks
from lps.charts.palette import Palette, with_alpha
from lps.scores.measurement_names import measurement_name
from lps.store import titles
from lps.tables import grouping
from lps.tables.boards import X_AXIS_TITLES, BoardChart, is_lower_better
from lps.tables.grouping import RunGroup
from lps.tables.run_names import Name

_HEIGHT = 380  # pixels


@dataclass(frozen=True)
class BoardLine:
    """One run, or the mean of several. table: index epoch; columns x, y, and of several runs std and count.

    key: the same in all charts of a board, the run's id for a run. end_label: short, for the end of the line.
    """

    key: str
    label: str
    end_label: str
    table: pd.DataFrame
    color: str


def list_measurements(histories: Sequence[History]) -> dict[str, str]:
    """Return the measurements of some runs with their titles: those of the training first, then of the pretraining."""
    pretraining_names = {name for history in histories for name in history.pretrain}
    return group_tables.list_measurements(histories) | {
        name: measurement_name(name) for name in sorted(pretraining_names)
    }


def measurement_table(history: History, chart: BoardChart) -> pd.DataFrame:
    """Return columns x and y of a run by epoch, for the epochs that have both."""
    y = _column(history, chart.y)
    if chart.x == "epoch":
        x = pd.Series(y.index, index=y.index, dtype=float)
    elif chart.x in X_AXIS_TITLES:
        x = history.times[chart.x] if chart.x in history.times else pd.Series(dtype=float)
    else:
        x = _column(history, chart.x)
    return pd.DataFrame({"x": x, "y": y}).dropna()


def _column(history: History, name: str) -> pd.Series:
    if name in history.pretrain and name not in history.epochs:
        return history.pretrain[name].dropna()
    return history.column(name)


def mean_table(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return mean x and y, std of y (NaN for one run) and count at every epoch, over the runs that have the epoch."""
    together = pd.concat(tables)
    by_epoch = together.groupby(level=0)
    means = by_epoch.mean()
    return means.assign(std=by_epoch["y"].std(), count=by_epoch["y"].count())


def smoothed(values: pd.Series, weight: float) -> pd.Series:
    """Return the bias-corrected exponential moving average of values without NaN; weight in [0, 1)."""
    return values.ewm(alpha=1 - weight).mean() if weight else values


def lines_of_runs(
    chart: BoardChart,
    entries: Sequence[RunRow],
    histories: Sequence[History],
    colors: Palette,
    pinned: Mapping[str, str] = MappingProxyType({}),
) -> list[BoardLine]:
    """Return one line per run, or per group of runs if the chart groups; runs without a value are left out.

    pinned: key of a line -> its colour on a light ground.
    """
    tables = [measurement_table(history, chart) for history in histories]
    runs = [entry.run for entry in entries]
    if by := grouping.grouping_names([chart.by], entries) if chart.by else []:
        table_by_run = {run.id: table for run, table in zip(runs, tables)}
        groups = grouping.group_runs(entries, by)
        keys = [f"{chart.by}~{group.id}" for group in groups]
        oldest_runs = [min(entry.run.id for entry in group.members) for group in groups]
        labels, end_labels = _group_labels(groups, by)
        grouped = [[table_by_run[entry.run.id] for entry in group.members] for group in groups]
    else:
        keys = oldest_runs = [run.id for run in runs]
        grouped = [[table] for table in tables]
        labels, end_labels = run_diff.short_labels(runs), run_diff.short_labels(runs, in_symbols=True)
    color = palette.assign_colors(dict(zip(keys, oldest_runs)), [run.id for run in runs], colors, pinned)
    board_lines = []
    for key, label, end_text, line_tables in zip(keys, labels, end_labels, grouped):
        line_tables = [table for table in line_tables if len(table)]
        if line_tables:
            table = mean_table(line_tables) if len(line_tables) > 1 else line_tables[0]
            board_lines.append(BoardLine(key, label, end_text, table, color[key]))
    return board_lines


def _group_labels(groups: Sequence[RunGroup], by: Sequence[Name]) -> tuple[list[str], list[str]]:
    """Return a long and a short label of each group, of the settings that differ between the groups."""
    varied = [index for index in range(len(by)) if len({group.values[index] for group in groups}) > 1] or range(len(by))
    labels, symbols = [], []
    for group in groups:
        words, signs = [], []
        for index in varied:
            key, value = by[index].key, _setting_value(by[index], group, index)
            words.append(titles.method_title(value) if key == "method" else titles.setting_in_words(key, value))
            is_method = key == "method"
            signs.append(words[-1] if is_method else titles.setting_in_symbols(group.members[0].method, key, value))
        labels.append(", ".join(words))
        symbols.append(", ".join(signs))
    return labels, symbols


def _setting_value(name: Name, group: RunGroup, index: int) -> object:
    """Return a number as it is, for phrases such as "10 % labels", and the text of tags."""
    value = name.read_value(group.members[0])
    return group.values[index] if isinstance(value, tuple) else value


def figure(lines: Sequence[BoardLine], chart: BoardChart, title: str, colors: Palette) -> Chart:
    """Draw the lines, with their unsmoothed values faintly behind them; the legend is sorted by the last values.

    title: name of y. Each line carries the short label for its end as `meta`, its epochs as `customdata` and
    its key as `legendgroup`.
    """
    is_share = chart.y.startswith(group_tables.FRACTIONS)
    chart_figure = blank_figure(_HEIGHT, colors)
    ordered = sorted(lines, key=lambda line: -float(line.table["y"].iloc[-1]))
    for line in ordered:
        _add_line(chart_figure, line, chart, is_share)
    kinds = {axis: "log" if axis in chart.log else "linear" for axis in "xy"}
    ticks = {"tickformat": ".0%" if chart.x.startswith(group_tables.FRACTIONS) else "~g"}
    if chart.x == "epoch" and "x" not in chart.log:
        ticks = whole_ticks(max((line.table["x"].max() for line in lines), default=0))
    x_title = axis_title(escape_text(X_AXIS_TITLES.get(chart.x, chart.x)), colors, 6)
    chart_figure.update_xaxes(title=x_title, type=kinds["x"], showgrid=False, **ticks)
    chart_figure.update_yaxes(type=kinds["y"], tickformat=".1~%" if is_share else "~g", automargin=True)
    legend = {"orientation": "v", "x": 1.01, "xanchor": "left", "y": 1, "yanchor": "top", "traceorder": "normal"}
    heading = {"text": escape_text(title), "font": {"color": colors.muted, "size": 13}, "showarrow": False}
    text_position = {"xref": "paper", "yref": "paper", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"}
    return chart_figure.update_layout(
        annotations=[heading | text_position], legend=legend | {"font": {"size": 12}}, showlegend=True,
        hovermode="closest",
        hoverlabel={"namelength": -1}, modebar={"orientation": "h"}, margin={"t": 34, "l": 58, "r": 12, "b": 44},
    )  # fmt: skip


def legend_name(line: BoardLine) -> str:
    """Return the label of a line, for a mean with its number of runs."""
    return line.label + (f" (n = {int(line.table['count'].max())})" if "count" in line.table else "")


def with_even_ties(shares: np.ndarray) -> np.ndarray:
    """Return the shares so that the browser rounds them to three digits in percent as tables do.

    The browser rounds ties up, 76.25 to 76.3, and tables round them to the even digit. A share before such a tie gets
    smaller by 1e-12 of itself.
    """
    percent = np.abs(100 * shares)
    decimals = 2 - np.floor(np.log10(np.where(percent > 0, percent, 1)))
    is_tie = percent * 2 ** (decimals + 1) % 2 == 1  # exactly: 76.45 is stored as a little more
    return np.where(is_tie & (percent * 10**decimals % 2 == 0.5), shares * (1 - 1e-12), shares)


def _add_line(chart_figure: Chart, line: BoardLine, chart: BoardChart, is_share: bool) -> None:
    """Add band, raw line and smoothed line of one label; they share a legend group."""
    table, name = line.table, escape_text(line.label)
    x, hidden = table["x"].to_numpy(float), {"legendgroup": line.key, "showlegend": False, "mode": "lines"}
    curve = smoothed(table["y"], chart.smooth)
    if "std" in table and table["std"].notna().any():
        _add_band(chart_figure, table, curve, line.color, hidden | {"name": f"{name}, ± std"}, is_log="y" in chart.log)
    if chart.smooth:
        raw = {"line": {"color": with_alpha(line.color, 0.3), "width": 1}, "hoverinfo": "skip", "meta": "raw"}
        chart_figure.add_trace(x=x, y=table["y"].to_numpy(float), name=f"{name}, raw", **raw, **hidden)
    y, number_format = curve.to_numpy(float), ".3r"
    if is_share:
        y, number_format = with_even_ties(y), ".3p"
    chart_figure.add_trace(
        x=x, y=y, name=escape_text(legend_name(line)), legendgroup=line.key,
        meta={"end": line.end_label}, customdata=table.index.to_numpy(np.int32),
        mode="lines" if len(table) > 1 else "markers", line={"color": line.color, "width": 2},
        marker={"color": line.color, "size": 7}, hovertemplate="%{y:" + number_format + "} · epoch %{customdata}",
    )  # fmt: skip


def _add_band(
    chart_figure: Chart, table: pd.DataFrame, curve: pd.Series, color: str, hidden: dict, is_log: bool
) -> None:
    """Add ± one standard deviation; on a logarithmic axis, the lower end stays above 0."""
    has_std = table["std"].notna()
    x, y, reach = (column[has_std].to_numpy(float) for column in (table["x"], curve, table["std"]))
    band = {"fill": "toself", "fillcolor": with_alpha(color, 0.14), "line": {"width": 0}, "hoverinfo": "skip"}
    low = np.maximum(y - reach, y / 10) if is_log else y - reach
    outline = np.concatenate([x, x[::-1]]), np.concatenate([y + reach, low[::-1]])
    chart_figure.add_trace(x=outline[0], y=outline[1], **band, **hidden)


def value_table(tables: Mapping[str, Mapping[str, pd.DataFrame]], epoch: int | None) -> pd.DataFrame:
    """Return a row per run: every measurement at one epoch (None: no such column), at its last and its best epoch.

    tables: label of a run -> measurement -> its table; percent for fractions.
    """
    rows = []
    for label, table_by_name in tables.items():
        row: dict[str, object] = {"Run": label}
        for name, table in table_by_name.items():
            row |= _value_columns(name, table, epoch)
        rows.append(row)
    return pd.DataFrame(rows)


def _value_columns(name: str, table: pd.DataFrame, epoch: int | None) -> dict[str, float | None]:
    y = table["y"]
    best = (y.idxmin() if is_lower_better(name) else y.idxmax()) if len(y) else None
    if name.startswith(group_tables.FRACTIONS):
        y = y.map(lambda value: float(f"{100 * value:.1f}"))  # a browser would round 76.25 up, unlike other pages
    title = measurement_name(name)
    epoch_column = {} if epoch is None else {f"{title}, epoch {epoch}": y[epoch] if epoch in y.index else None}
    return epoch_column | {
        f"{title}, last": y.iloc[-1] if len(y) else None,
        f"{title}, best": y[best] if best is not None else None,
        f"{title}, best epoch": best,
    }
