"""The figures of runs beside each other: the pace of one in a narrow column on axes that all share, and differences.

Histories in, figures out. Seen is blue, novel is orange; which run it is, a letter says.
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
_ROOM = 36  # pixels on the right, where the buttons of a chart stand
_PANELS = ("Accuracy", "KL", "Mean margin", "Confidence threshold")  # of charts.pace, from the top


def tops(pasts: list[History]) -> dict[str, tuple[float, float]]:
    """The ranges that the KL and margin axes of all runs share, so that heights can be compared."""
    kl = [past.column("kl") for past in pasts]
    margin = [line_charts.mean_margin(past, group) for past in pasts for group in ("seen", "novel")]
    return {"KL": _range(kl), "Mean margin": _range(margin)}


def _range(columns: list[pd.Series]) -> tuple[float, float]:
    values = [0.0, *(float(x) for column in columns if len(column) for x in (column.min(), column.max()))]
    low, high = min(values), max(values)
    room = 0.08 * (high - low or 1)
    return (low - room if low < 0 else 0.0, high + room)


def pace(
    letter: str,
    past: History,
    epochs: int,
    ranges: dict[str, tuple[float, float]],
    marks: list[Mark],
    method: str,
    is_over: bool,
    colors: Palette,
) -> Chart:
    """The pace view of one run; what its method does not measure is said. epochs: where the axis of all runs ends."""
    figure = line_charts.pace(past, epochs, colors)
    figure.update_layout(height=_HEIGHT, showlegend=False, margin={"l": 46, "r": _ROOM, "t": 24, "b": 36})
    drawn_axes = {trace.get("yaxis", "y") for trace in figure.traces}
    for row, name in enumerate(_PANELS, 1):
        number = "" if row == 1 else str(row)
        axis = figure.layout[f"yaxis{number}"]
        figure.layout["annotations"][row - 1]["text"] = f"<b>{letter}</b> · {name}" if row == 1 else name
        if f"y{number}" not in drawn_axes:
            _say_unmeasured(figure, f"y{number}", axis, method, colors)
        elif name in ranges:
            axis["range"] = list(ranges[name])
    if is_over and past.last_epoch < epochs:
        _shade_end(figure, past.last_epoch, epochs, colors)
    _add_marks(figure, marks, colors)
    for trace in figure.traces:
        if trace.get("hoverinfo") != "skip":
            trace["customdata"] = np.asarray(trace["x"], np.int32)  # a click is a click on an epoch
    return figure


def _say_unmeasured(figure: Chart, name: str, axis, method: str, colors: Palette) -> None:
    axis["visible"] = False
    # the epoch axis hangs below the lowest panel only where that has a trace
    figure.add_trace(x=[0], y=[None], yaxis=name, hoverinfo="skip", showlegend=False, name="Nothing")
    text_position = {"xref": "paper", "yref": "paper", "x": 0.5, "y": sum(axis["domain"]) / 2, "showarrow": False}
    words = f"not measured by {figures.plain(method)}"
    figure.add_annotation(text=words, font={"color": colors.muted, "size": 13}, yanchor="middle", **text_position)


def _shade_end(figure: Chart, last: int, epochs: int, colors: Palette) -> None:
    """Where a shorter run has nothing any more."""
    ground = {"fillcolor": palette.with_alpha(colors.all, 0.14), "line": {"width": 0}, "layer": "below"}
    figure.add_shape(type="rect", xref="x", yref="paper", x0=last, x1=epochs + 0.4, y0=0, y1=1, **ground)
    text = {"text": f"ended at epoch {last}", "font": {"color": colors.muted, "size": 12}, "textangle": -90}
    text_position = {"xref": "x", "yref": "y", "x": last, "y": 0.03, "xanchor": "left", "yanchor": "bottom"}
    figure.add_annotation(showarrow=False, **text, **text_position)


def _add_marks(figure: Chart, marks: list[Mark], colors: Palette) -> None:
    """A triangle at the foot of the accuracy panel for every marked epoch."""
    by_epoch: dict[int, list[str]] = {}
    for mark in marks:
        by_epoch.setdefault(mark.epoch, []).append(mark.words)
    figure.add_trace(
        x=np.array(list(by_epoch), np.int32),
        y=np.full(len(by_epoch), 0.01),
        text=["<br>".join(words) for words in by_epoch.values()],
        mode="markers",
        marker={"symbol": "triangle-up", "size": 10, "color": colors.ink},
        cliponaxis=False,
        name="Marks",
        hovertemplate="%{text}<extra></extra>",
    )


def difference(first: History, other: History, name: str, in_size: bool = False) -> pd.Series:
    """One measurement of two runs, or its size, subtracted epoch by epoch, in points; only epochs that both have."""
    first_values, theirs = first.column(name), other.column(name)
    return (((first_values.abs() - theirs.abs()) if in_size else (first_values - theirs)) * 100).dropna()


def differences(columns: dict[str, pd.Series], epochs: int, colors: Palette) -> Chart:
    """Differences by label over the epochs, around a line at zero; a single one is filled up to it."""
    figure = figures.blank(_STRIP, colors)
    for (label, values), (color, dash) in zip(columns.items(), palette.group_styles(len(columns), colors)):
        fill = {"fill": "tozeroy", "fillcolor": palette.with_alpha(color, 0.16)} if len(columns) == 1 else {}
        figure.add_trace(
            x=values.index.to_numpy(np.int32),
            y=values.to_numpy(float),
            customdata=values.index.to_numpy(np.int32),
            name=label,
            mode="lines" if len(values) > 1 else "markers",
            line={"color": color, "width": 2, "dash": dash},
            hovertemplate="%{y:+.1f} points<extra>" + label + "</extra>",
            **fill,
        )
    figure.update_layout(hovermode="x unified", showlegend=len(columns) > 1)
    figure.update_layout(margin={"l": 46, "r": _ROOM, "t": 24, "b": 36}, hoverdistance=40)
    epoch = {"text": "Epoch", "font": {"color": colors.muted, "size": 12}, "standoff": 4}
    figure.update_xaxes(range=[0, epochs + 0.4], title=epoch, **figures.whole_ticks(epochs), showgrid=False)
    figure.update_xaxes(unifiedhovertitle={"text": "Epoch %{x}"})
    reach = max((float(values.abs().max()) for values in columns.values() if len(values)), default=0.0)
    zero = {"zeroline": True, "zerolinecolor": colors.muted, "zerolinewidth": 1}
    figure.update_yaxes(tickformat="+d" if reach >= 4 else "+.1f", nticks=5, **zero)
    return figure
