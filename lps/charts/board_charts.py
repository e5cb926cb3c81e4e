"""Charts that people make themselves: any measurement over epochs, steps, hours or another one, of any runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lps.analysis.standing import Entry
from lps.bench import bunches
from lps.bench.boards import OVER, BoardChart, is_lower_better
from lps.bench.run_names import Name
from lps.charts import group_tables
from lps.charts.event_log import History
from lps.charts.figures import blank, plain
from lps.charts.palette import Palette, many_colors, with_alpha
from lps.store import titles

_HEIGHT = 380  # pixels
_UNIFIED = 8  # lines of which one label can tell all values
_LONGEST_LABEL = 34  # letters in the legend


@dataclass(frozen=True)
class BoardLine:
    """One run, or the mean of several. table: index epoch; columns x, y, and of several runs std and count."""

    label: str
    table: pd.DataFrame
    color: str


def measurements(histories: Sequence[History]) -> dict[str, str]:
    """What can be drawn of some runs, with its words: by epoch of the training or, behind that, of the pretraining."""
    before = {name for past in histories for name in past.pretrain}
    return group_tables.measurements(histories) | {name: name for name in sorted(before)}


def table_of(past: History, chart: BoardChart) -> pd.DataFrame:
    """x and y of a run by epoch, where it has recorded both."""
    y = _column(past, chart.y)
    if chart.x == "epoch":
        x = pd.Series(y.index, index=y.index, dtype=float)
    elif chart.x in OVER:
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
    found = by_epoch.mean()
    return found.assign(std=by_epoch["y"].std(), count=by_epoch["y"].count())


def smoothed(values: pd.Series, weight: float) -> pd.Series:
    """Exponential moving average, of which the first values are not drawn to zero; NaN stays."""
    return values.ewm(alpha=1 - weight).mean() if weight else values


def lines_of_runs(
    chart: BoardChart, entries: Sequence[Entry], histories: Sequence[History], labels: Sequence[str], colors: Palette
) -> list[BoardLine]:
    """One line a run, or the mean of the runs that are alike by `chart.by`; those without a value are left out.

    labels: of the runs. A label has the same colour in all charts of a board.
    """
    tables = [table_of(past, chart) for past in histories]
    if by := bunches.names_of([chart.by], entries) if chart.by else []:
        table_by_run = {entry.run.id: table for entry, table in zip(entries, tables)}
        groups = bunches.bunch(entries, by)
        names = _group_labels([one.values for one in groups], by)
        grouped = {name: [table_by_run[entry.run.id] for entry in one.members] for name, one in zip(names, groups)}
    else:
        grouped = {label: [table] for label, table in zip(labels, tables)}
    return lines(grouped, colors_of(list(grouped), colors))


def lines(tables: Mapping[str, Sequence[pd.DataFrame]], colors: Mapping[str, str]) -> list[BoardLine]:
    """One line a label, the mean of its tables where it has several; those without a value are left out."""
    found = []
    for label, own in tables.items():
        own = [table for table in own if len(table)]
        if own:
            found.append(BoardLine(label, mean_of(own) if len(own) > 1 else own[0], colors[label]))
    return found


def colors_of(labels: Sequence[str], colors: Palette) -> dict[str, str]:
    """One colour a label, the same in all charts of a board."""
    return dict(zip(labels, many_colors(len(labels), colors)))


def _group_labels(groups: Sequence[Sequence[str]], by: Sequence[Name]) -> list[str]:
    """What tells each group from the others: names whose value all of them share are left out."""
    varied = [place for place in range(len(by)) if len({values[place] for values in groups}) > 1] or range(len(by))
    return [_label([values[place] for place in varied], [by[place] for place in varied]) for values in groups]


def _label(values: Sequence[str], by: Sequence[Name]) -> str:
    words = [titles.method_title(v) if name.key == "method" else f"{name.key} {v}" for name, v in zip(by, values)]
    return ", ".join(words)


def figure(drawn: Sequence[BoardLine], chart: BoardChart, title: str, colors: Palette) -> go.Figure:
    """The lines with their raw ones faint behind them; the legend has the order of their last values.

    title: what y is called.
    """
    is_share = chart.y.startswith(group_tables.FRACTIONS)
    made = blank(_HEIGHT, colors)
    ordered = sorted(drawn, key=lambda line: -float(line.table["y"].iloc[-1]))
    for line in ordered:
        _add(made, line, chart, ".1%" if is_share else ".4g")
    kinds = {axis: "log" if axis in chart.log else "linear" for axis in "xy"}
    faint = {"font": {"color": colors.muted, "size": 12}, "standoff": 6}
    x_format = ".0%" if chart.x.startswith(group_tables.FRACTIONS) else "~g"
    made.update_xaxes(title={"text": plain(OVER.get(chart.x, chart.x)), **faint}, type=kinds["x"], showgrid=False)
    made.update_xaxes(tickformat=x_format)
    made.update_yaxes(type=kinds["y"], tickformat=".1~%" if is_share else "~g", automargin=True)
    legend = {"orientation": "v", "x": 1.01, "xanchor": "left", "y": 1, "yanchor": "top", "traceorder": "normal"}
    heading = {"text": plain(title), "font": {"color": colors.muted, "size": 13}, "showarrow": False}
    place = {"xref": "paper", "yref": "paper", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"}
    mode = "x unified" if len(drawn) <= _UNIFIED and chart.x in OVER else "closest"
    return made.update_layout(
        annotations=[heading | place], legend=legend | {"font": {"size": 12}}, showlegend=True, hovermode=mode,
        hoverlabel={"namelength": -1}, modebar_orientation="h", margin={"t": 34, "l": 58, "r": 12, "b": 44},
    )  # fmt: skip


def _add(made: go.Figure, line: BoardLine, chart: BoardChart, form: str) -> None:
    """Band, raw line and line of one label, which hide and light up together."""
    table, group = line.table, plain(line.label)
    name = group if len(group) <= _LONGEST_LABEL else f"{group[: _LONGEST_LABEL - 1]}…"
    x, hidden = table["x"].to_numpy(float), {"legendgroup": group, "showlegend": False, "mode": "lines"}
    curve = smoothed(table["y"], chart.smooth)
    if "std" in table and table["std"].notna().any():
        _add_band(made, table, curve, line.color, hidden, is_log="y" in chart.log)
    if chart.smooth:
        raw = {"line": {"color": with_alpha(line.color, 0.3), "width": 1}, "hoverinfo": "skip", "meta": "raw"}
        made.add_scatter(x=x, y=table["y"].to_numpy(float), name=f"{group}, raw", **raw, **hidden)
    count = f" (n = {int(table['count'].max())})" if "count" in table else ""
    texts = [f"epoch {epoch}" for epoch in table.index]
    made.add_scatter(
        x=x, y=curve.to_numpy(float), name=name + count, legendgroup=group, text=texts,
        mode="lines" if len(table) > 1 else "markers", line={"color": line.color, "width": 2},
        marker={"color": line.color, "size": 7}, hovertemplate="%{y:" + form + "} · %{text}",
    )  # fmt: skip


def _add_band(made: go.Figure, table: pd.DataFrame, curve: pd.Series, color: str, hidden: dict, is_log: bool) -> None:
    """± one standard deviation where there is one; a logarithmic axis has no place for its end below 0."""
    has = table["std"].notna()
    x, y, reach = (column[has].to_numpy(float) for column in (table["x"], curve, table["std"]))
    band = {"fill": "toself", "fillcolor": with_alpha(color, 0.14), "line": {"width": 0}, "hoverinfo": "skip"}
    low = np.maximum(y - reach, y / 10) if is_log else y - reach
    ends = np.concatenate([x, x[::-1]]), np.concatenate([y + reach, low[::-1]])
    made.add_scatter(x=ends[0], y=ends[1], name=f"{hidden['legendgroup']}, ± std", **band, **hidden)


def value_table(tables: Mapping[str, Mapping[str, pd.DataFrame]], epoch: int | None) -> pd.DataFrame:
    """A row a run: every measurement at one epoch (None: not asked for), at its last and its best epoch.

    tables: label of a run -> measurement -> its table; percent for fractions.
    """
    rows = []
    for label, by_name in tables.items():
        row: dict[str, object] = {"Run": label}
        for name, table in by_name.items():
            row |= _told(name, table, epoch)
        rows.append(row)
    return pd.DataFrame(rows)


def _told(name: str, table: pd.DataFrame, epoch: int | None) -> dict[str, float | None]:
    factor, y = 100 if name.startswith(group_tables.FRACTIONS) else 1, table["y"]
    best = (y.idxmin() if is_lower_better(name) else y.idxmax()) if len(y) else None
    at = {} if epoch is None else {f"{name} at {epoch}": factor * y[epoch] if epoch in y.index else None}
    return at | {
        f"{name} last": factor * y.iloc[-1] if len(y) else None,
        f"{name} best": factor * y[best] if best is not None else None,
        f"{name} best at": best,
    }
