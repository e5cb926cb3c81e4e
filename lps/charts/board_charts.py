"""Charts that people make themselves: any measurement over epochs, steps, hours or another one, of any runs."""

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
from lps.charts.figures import blank, plain, whole_ticks
from lps.charts.palette import DARK, Palette, with_alpha
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

    key: the same in all charts of a board, the run's id for a run. end: short label for the end of the line.
    """

    key: str
    label: str
    end: str
    table: pd.DataFrame
    color: str


def measurements(histories: Sequence[History]) -> dict[str, str]:
    """What can be drawn of some runs, with its words: by epoch of the training or, behind that, of the pretraining."""
    before = {name for past in histories for name in past.pretrain}
    return group_tables.measurements(histories) | {name: measurement_name(name) for name in sorted(before)}


def table_of(past: History, chart: BoardChart) -> pd.DataFrame:
    """x and y of a run by epoch, where it has recorded both."""
    y = _column(past, chart.y)
    if chart.x == "epoch":
        x = pd.Series(y.index, index=y.index, dtype=float)
    elif chart.x in X_AXIS_TITLES:
        x = past.moments[chart.x] if chart.x in past.moments else pd.Series(dtype=float)
    else:
        x = _column(past, chart.x)
    return pd.DataFrame({"x": x, "y": y}).dropna()


def _column(past: History, name: str) -> pd.Series:
    if name in past.pretrain and name not in past.epochs:
        return past.pretrain[name].dropna()
    return past.column(name)


def mean_of(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Mean of x and y at every epoch, std of y (NaN for one run) and count; over the runs that have the epoch."""
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
    """One line a run, or the mean of the runs that the chart groups; those without a value are left out.

    pinned: key of a line -> its colour on a light ground.
    """
    tables = [table_of(past, chart) for past in histories]
    runs = [entry.run for entry in entries]
    if by := grouping.names_of([chart.by], entries) if chart.by else []:
        table_by_run = {run.id: table for run, table in zip(runs, tables)}
        groups = grouping.group_runs(entries, by)
        keys = [f"{chart.by}~{group.id}" for group in groups]
        labels, ends = _group_labels(groups, by)
        grouped = [[table_by_run[entry.run.id] for entry in group.members] for group in groups]
    else:
        keys, grouped = [run.id for run in runs], [[table] for table in tables]
        labels, ends = run_diff.short_labels(runs), run_diff.short_labels(runs, in_symbols=True)
    color = colors_of(keys, colors, pinned)
    board_lines = []
    for key, label, end, own in zip(keys, labels, ends, grouped):
        own = [table for table in own if len(table)]
        if own:
            board_lines.append(BoardLine(key, label, end, mean_of(own) if len(own) > 1 else own[0], color[key]))
    return board_lines


def colors_of(keys: Sequence[str], colors: Palette, pinned: Mapping[str, str]) -> dict[str, str]:
    """One colour a line, the same in all charts of a board; a pinned one is left to its line alone.

    pinned: key of a line -> its colour on a light ground.
    """
    dark_by_light = dict(palette.color_pairs()) if colors is DARK else {}
    pinned_colors = {key: dark_by_light.get(pinned[key], pinned[key]) for key in keys if key in pinned}
    default_colors = dict(zip(keys, palette.many_colors(len(keys), colors)))
    free = [default_colors[key] for key in pinned_colors if default_colors[key] not in pinned_colors.values()]
    free_colors = {
        key: free.pop(0) if default_colors[key] in pinned_colors.values() else default_colors[key]
        for key in keys
        if key not in pinned_colors
    }
    return pinned_colors | free_colors


def _group_labels(groups: Sequence[RunGroup], by: Sequence[Name]) -> tuple[list[str], list[str]]:
    """What tells each group from the others, in words and in symbols; values that all of them share are left out."""
    varied = [index for index in range(len(by)) if len({group.values[index] for group in groups}) > 1] or range(len(by))
    words, symbols = [], []
    for group in groups:
        values = [(by[index].key, group.values[index]) for index in varied]
        method = group.members[0].method
        words.append(
            ", ".join(
                titles.method_title(v) if key == "method" else titles.setting_in_words(key, v) for key, v in values
            )
        )
        symbols.append(
            ", ".join(
                titles.method_title(v) if key == "method" else titles.setting_in_symbols(method, key, v)
                for key, v in values
            )
        )
    return words, symbols


def figure(lines: Sequence[BoardLine], chart: BoardChart, title: str, colors: Palette) -> Chart:
    """The lines with their raw ones faint behind them; the legend has the order of their last values.

    title: what y is called. Each line carries the short label for its end as `meta`, its epochs as `customdata` and
    its key as `legendgroup`.
    """
    is_share = chart.y.startswith(group_tables.FRACTIONS)
    chart_figure = blank(_HEIGHT, colors)
    ordered = sorted(lines, key=lambda line: -float(line.table["y"].iloc[-1]))
    for line in ordered:
        _add(chart_figure, line, chart, ".3p" if is_share else ".3r")
    kinds = {axis: "log" if axis in chart.log else "linear" for axis in "xy"}
    faint = {"font": {"color": colors.muted, "size": 12}, "standoff": 6}
    x_format = ".0%" if chart.x.startswith(group_tables.FRACTIONS) else "~g"
    ticks = {"tickformat": x_format}
    if chart.x == "epoch" and "x" not in chart.log:
        ticks = whole_ticks(max((line.table["x"].max() for line in lines), default=0))
    chart_figure.update_xaxes(
        title={"text": plain(X_AXIS_TITLES.get(chart.x, chart.x)), **faint}, type=kinds["x"], showgrid=False
    )
    chart_figure.update_xaxes(**ticks)
    chart_figure.update_yaxes(type=kinds["y"], tickformat=".1~%" if is_share else "~g", automargin=True)
    legend = {"orientation": "v", "x": 1.01, "xanchor": "left", "y": 1, "yanchor": "top", "traceorder": "normal"}
    heading = {"text": plain(title), "font": {"color": colors.muted, "size": 13}, "showarrow": False}
    text_position = {"xref": "paper", "yref": "paper", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"}
    return chart_figure.update_layout(
        annotations=[heading | text_position], legend=legend | {"font": {"size": 12}}, showlegend=True,
        hovermode="closest",
        hoverlabel={"namelength": -1}, modebar={"orientation": "h"}, margin={"t": 34, "l": 58, "r": 12, "b": 44},
    )  # fmt: skip


def name_of(line: BoardLine) -> str:
    """The label, of a mean with its number of runs."""
    return line.label + (f" (n = {int(line.table['count'].max())})" if "count" in line.table else "")


def _add(chart_figure: Chart, line: BoardLine, chart: BoardChart, form: str) -> None:
    """Band, raw line and line of one label, which hide and light up together."""
    table, name = line.table, plain(line.label)
    x, hidden = table["x"].to_numpy(float), {"legendgroup": line.key, "showlegend": False, "mode": "lines"}
    curve = smoothed(table["y"], chart.smooth)
    if "std" in table and table["std"].notna().any():
        _add_band(chart_figure, table, curve, line.color, hidden | {"name": f"{name}, ± std"}, is_log="y" in chart.log)
    if chart.smooth:
        raw = {"line": {"color": with_alpha(line.color, 0.3), "width": 1}, "hoverinfo": "skip", "meta": "raw"}
        chart_figure.add_trace(x=x, y=table["y"].to_numpy(float), name=f"{name}, raw", **raw, **hidden)
    chart_figure.add_trace(
        x=x, y=curve.to_numpy(float), name=plain(name_of(line)), legendgroup=line.key, meta={"end": line.end},
        customdata=table.index.to_numpy(np.int32),
        mode="lines" if len(table) > 1 else "markers", line={"color": line.color, "width": 2},
        marker={"color": line.color, "size": 7}, hovertemplate="%{y:" + form + "} · epoch %{customdata}",
    )  # fmt: skip


def _add_band(
    chart_figure: Chart, table: pd.DataFrame, curve: pd.Series, color: str, hidden: dict, is_log: bool
) -> None:
    """± one standard deviation where there is one; a logarithmic axis has no place for its end below 0."""
    has_std = table["std"].notna()
    x, y, reach = (column[has_std].to_numpy(float) for column in (table["x"], curve, table["std"]))
    band = {"fill": "toself", "fillcolor": with_alpha(color, 0.14), "line": {"width": 0}, "hoverinfo": "skip"}
    low = np.maximum(y - reach, y / 10) if is_log else y - reach
    ends = np.concatenate([x, x[::-1]]), np.concatenate([y + reach, low[::-1]])
    chart_figure.add_trace(x=ends[0], y=ends[1], **band, **hidden)


def value_table(tables: Mapping[str, Mapping[str, pd.DataFrame]], epoch: int | None) -> pd.DataFrame:
    """A row a run: every measurement at one epoch (None: not asked for), at its last and its best epoch.

    tables: label of a run -> measurement -> its table; percent for fractions.
    """
    rows = []
    for label, by_name in tables.items():
        row: dict[str, object] = {"Run": label}
        for name, table in by_name.items():
            row |= _value_columns(name, table, epoch)
        rows.append(row)
    return pd.DataFrame(rows)


def _value_columns(name: str, table: pd.DataFrame, epoch: int | None) -> dict[str, float | None]:
    factor, y = 100 if name.startswith(group_tables.FRACTIONS) else 1, table["y"]
    best = (y.idxmin() if is_lower_better(name) else y.idxmax()) if len(y) else None
    words = measurement_name(name)
    at = {} if epoch is None else {f"{words}, epoch {epoch}": factor * y[epoch] if epoch in y.index else None}
    return at | {
        f"{words}, last": factor * y.iloc[-1] if len(y) else None,
        f"{words}, best": factor * y[best] if best is not None else None,
        f"{words}, best epoch": best,
    }
