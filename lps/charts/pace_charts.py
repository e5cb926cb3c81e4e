"""The figures of the Race page: the pace of each run in a narrow column on shared axes, and differences of two runs.

Seen is blue, novel is orange; a letter identifies the run.
"""

import numpy as np
import pandas as pd

from lps.charts import figures, line_charts, palette
from lps.charts.chart import Chart
from lps.charts.event_log import History
from lps.charts.palette import Palette
from lps.scores.milestones import Mark

_HEIGHT = 450
_STRIP = 190
_RIGHT_MARGIN = 36  # pixels, for the buttons of a chart
_PANELS = ("Accuracy", "KL", "Mean margin", "Confidence threshold")  # of charts.pace, from the top


def shared_ranges(histories: list[History]) -> dict[str, tuple[float, float]]:
    """Return the ranges of the KL and margin axes, shared by all runs so that heights can be compared."""
    kl = [history.column("kl") for history in histories]
    margin = [line_charts.mean_margin(history, group) for history in histories for group in ("seen", "novel")]
    return {"KL": _range(kl), "Mean margin": _range(margin)}


def _range(columns: list[pd.Series]) -> tuple[float, float]:
    values = [0.0, *(float(x) for column in columns if len(column) for x in (column.min(), column.max()))]
    low, high = min(values), max(values)
    margin = 0.08 * (high - low or 1)
    return (low - margin if low < 0 else 0.0, high + margin)


def pace(
    letter: str,
    history: History,
    epochs: int,
    ranges: dict[str, tuple[float, float]],
    marks: list[Mark],
    method: str,
    is_over: bool,
    colors: Palette,
) -> Chart:
    """Draw the pace of one run; panels that its method does not measure say so. epochs: end of the shared axis."""
    figure = line_charts.pace(history, epochs, colors, keeps_empty=True)
    figure.update_layout(height=_HEIGHT, showlegend=False, margin={"l": 46, "r": _RIGHT_MARGIN, "t": 24, "b": 36})
    drawn_axes = {trace.get("yaxis", "y") for trace in figure.traces}
    for row, name in enumerate(_PANELS, 1):
        number = "" if row == 1 else str(row)
        axis = figure.layout[f"yaxis{number}"]
        figure.layout["annotations"][row - 1]["text"] = f"<b>{letter}</b> · {name}" if row == 1 else name
        if f"y{number}" not in drawn_axes:
            _write_unmeasured(figure, f"y{number}", axis, method, colors)
        elif name in ranges:
            axis["range"] = list(ranges[name])
    if is_over and history.last_epoch < epochs:
        _shade_end(figure, history.last_epoch, epochs, colors)
    _add_marks(figure, marks, colors)
    for trace in figure.traces:
        if trace.get("hoverinfo") != "skip":
            trace["customdata"] = np.asarray(trace["x"], np.int32)  # the epoch of a click
    return figure


def _write_unmeasured(figure: Chart, name: str, axis, method: str, colors: Palette) -> None:
    axis["visible"] = False
    # the epoch axis hangs below the lowest panel only where that has a trace
    figure.add_trace(x=[0], y=[None], yaxis=name, hoverinfo="skip", showlegend=False, name="Nothing")
    text_position = {"xref": "paper", "yref": "paper", "x": 0.5, "y": sum(axis["domain"]) / 2, "showarrow": False}
    text = f"not measured by {figures.escape_text(method)}"
    figure.add_annotation(text=text, font={"color": colors.muted, "size": 13}, yanchor="middle", **text_position)


def _shade_end(figure: Chart, last: int, epochs: int, colors: Palette) -> None:
    """Shade the epochs after the end of a shorter run."""
    ground = {"fillcolor": palette.with_alpha(colors.all, 0.14), "line": {"width": 0}, "layer": "below"}
    figure.add_shape(type="rect", xref="x", yref="paper", x0=last, x1=epochs + 0.4, y0=0, y1=1, **ground)
    text = {"text": f"ended at epoch {last}", "font": {"color": colors.muted, "size": 12}, "textangle": -90}
    text_position = {"xref": "x", "yref": "y", "x": last, "y": 0.03, "xanchor": "left", "yanchor": "bottom"}
    figure.add_annotation(showarrow=False, **text, **text_position)


def _add_marks(figure: Chart, marks: list[Mark], colors: Palette) -> None:
    """Add a triangle at the bottom of the accuracy panel for every marked epoch."""
    texts_by_epoch: dict[int, list[str]] = {}
    for mark in marks:
        texts_by_epoch.setdefault(mark.epoch, []).append(mark.words)
    figure.add_trace(
        x=np.array(list(texts_by_epoch), np.int32),
        y=np.full(len(texts_by_epoch), 0.01),
        text=["<br>".join(texts) for texts in texts_by_epoch.values()],
        mode="markers",
        marker={"symbol": "triangle-up", "size": 10, "color": colors.ink},
        cliponaxis=False,
        name="Marks",
        hovertemplate="%{text}<extra></extra>",
    )


def difference(first: History, other: History, name: str, absolute: bool = False) -> pd.Series:
    """Return the difference of a measurement of two runs in points, for the epochs that both have.

    absolute: compare absolute values.
    """
    first_values, other_values = first.column(name), other.column(name)
    return (((first_values.abs() - other_values.abs()) if absolute else (first_values - other_values)) * 100).dropna()


def differences(columns: dict[str, pd.Series], epochs: int, colors: Palette) -> Chart:
    """Draw differences by label over the epochs, around a line at zero; a single one is filled."""
    figure = figures.blank_figure(_STRIP, colors)
    for (label, values), color in zip(columns.items(), palette.many_colors(len(columns), colors)):
        fill = {"fill": "tozeroy", "fillcolor": palette.with_alpha(color, 0.16)} if len(columns) == 1 else {}
        figure.add_trace(
            x=values.index.to_numpy(np.int32),
            y=values.to_numpy(float),
            customdata=values.index.to_numpy(np.int32),
            name=label,
            mode="lines" if len(values) > 1 else "markers",
            line={"color": color, "width": 2},
            hovertemplate="%{y:+.1f} points<extra>" + label + "</extra>",
            **fill,
        )
    figure.update_layout(hovermode="x unified", showlegend=len(columns) > 1)
    figure.update_layout(margin={"l": 46, "r": _RIGHT_MARGIN, "t": 24, "b": 36}, hoverdistance=40)
    title = figures.axis_title("Epoch", colors)
    figure.update_xaxes(range=[0, epochs + 0.4], title=title, **figures.whole_ticks(epochs), showgrid=False)
    figure.update_xaxes(unifiedhovertitle={"text": "Epoch %{x}"})
    reach = max((float(values.abs().max()) for values in columns.values() if len(values)), default=0.0)
    zero = {"zeroline": True, "zerolinecolor": colors.muted, "zerolinewidth": 1}
    zero["labelalias"] = {"+0": "0", "+0.0": "0"}
    return figure.update_yaxes(tickformat="+d" if reach >= 4 else "+.1f", nticks=5, **zero)
