"""Bars a class: the estimated distribution, the accuracy."""

import numpy as np
import plotly.graph_objects as go

from lps.charts.figures import layout_of, name_bars, plain
from lps.charts.measurements import draws
from lps.charts.palette import Palette

# ---------------------------------------------------------------------------------------------------- classes


@draws("pi_hat")
def class_distribution(
    estimated: np.ndarray, seen: int, names: list[str], colors: Palette, top: float, truth: np.ndarray | None = None
) -> go.Figure:
    """pi_hat as bars, the uniform prior as a line. top: the highest share of all epochs, so that the axis is still.

    truth: the shares that the classes really have, as steps in place of the prior.
    """
    figure = _class_bars(estimated, seen, names, colors, "Estimated share %{y:.1%}" if truth is None else "%{y:.1%}")
    prior = np.full(2, 1 / len(estimated)) if truth is None else np.asarray(truth, float)
    ends = np.array([-0.5, len(estimated) - 0.5])
    x = ends if truth is None else np.concatenate([ends[:1], np.arange(len(prior)), ends[1:]])
    y = prior if truth is None else np.concatenate([prior[:1], prior, prior[-1:]])
    line = {"color": colors.ink, "width": 1.4, "dash": "dash", "shape": "linear" if truth is None else "hvh"}
    word = "Prior" if truth is None else "Truth"
    hover = word + " %{y:.1%}<extra></extra>"
    figure.add_trace(go.Scatter(x=x, y=y, name=word, mode="lines", line=line, hovertemplate=hover))
    figure.update_yaxes(range=[0, max(top, prior.max()) * 1.1], tickformat=".1~%")
    return figure


@draws("class/accuracy")
def class_accuracy(accuracy: np.ndarray, seen: int, names: list[str], colors: Palette) -> go.Figure:
    """Accuracy of every class after the matching."""
    figure = _class_bars(accuracy, seen, names, colors, "Accuracy %{y:.1%}")
    return figure.update_yaxes(range=[0, 1.03], tickformat=".0%")


def class_counts(labeled: np.ndarray, all_of: np.ndarray, seen: int, names: list[str], colors: Palette) -> go.Figure:
    """Training images of every class as bars, those with a label as a line at their height; seen classes first."""
    figure = _class_bars(all_of, seen, names, colors, "%{y:,} images")
    figure.add_trace(
        go.Scatter(
            x=np.arange(seen),
            y=labeled[:seen],
            name="Labeled",
            mode="markers",
            marker={"symbol": "line-ew-open", "size": 12, "color": colors.ink, "line_width": 2},
            hovertemplate="%{y:,} labeled<extra></extra>",
        )
    )
    return figure.update_yaxes(rangemode="tozero", tickformat=",d")


def _class_bars(values: np.ndarray, seen: int, names: list[str], colors: Palette, hover: str) -> go.Figure:
    figure = go.Figure(layout=layout_of(260, colors))
    ids = np.arange(len(values))
    for group, members in (("seen", ids < seen), ("novel", ids >= seen)):
        figure.add_trace(
            go.Bar(
                x=ids[members],
                y=np.asarray(values, np.float32)[members],
                name=group.capitalize(),
                marker={"color": getattr(colors, group), "line_width": 0},
                text=[plain(names[i]) for i in ids[members]],
                textposition="none",
                hovertemplate="%{text}<br>" + hover + "<extra>" + group + "</extra>",
            )
        )
    figure.update_layout(bargap=0.22, hovermode="closest", showlegend=False, margin={"l": 44, "r": 28, "t": 8})
    figure.update_xaxes(showgrid=False, range=[-0.6, len(ids) - 0.4])
    return name_bars(figure, names, ids[:: max(1, -(-len(ids) // 20))])
