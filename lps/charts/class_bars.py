"""Bar charts by class: the estimated distribution, the accuracy, image counts."""

import numpy as np

from lps.charts.chart import Chart
from lps.charts.figures import blank_figure, escape_text, name_bars
from lps.charts.measurements import draws
from lps.charts.palette import Palette

# ---------------------------------------------------------------------------------------------------- classes


@draws("pi_hat", "class/prior")
def class_distribution(
    estimated: np.ndarray,
    seen: int,
    names: list[str],
    colors: Palette,
    top: float,
    prior: np.ndarray | None = None,
    truth: np.ndarray | None = None,
) -> Chart:
    """Draw pi_hat as bars and the prior as a line. top: the highest share of all epochs, so that the axis stays.

    prior: of the run, drawn as steps; None: uniform. truth: true shares of the classes, drawn instead of the prior.
    """
    figure = _class_bars(estimated, seen, names, colors, "Estimated share %{y:.1%}" if truth is None else "%{y:.1%}")
    label, shares = ("Prior", prior) if truth is None else ("Truth", truth)
    target = target_line(shares, len(estimated), label, colors)
    figure.add_trace(**target)
    figure.update_yaxes(range=[0, max(top, *target["y"]) * 1.1], tickformat=".1~%")
    return figure


def target_line(shares: np.ndarray | None, classes: int, label: str, colors: Palette) -> dict:
    """Return a dashed trace of the target share of each bar, shape (classes,); None: equal shares."""
    is_even = shares is None or len(shares) != classes
    target_shares = np.full(2, 1 / classes) if is_even else np.asarray(shares, float)
    edges = np.array([-0.5, classes - 0.5])
    x = edges if is_even else np.concatenate([edges[:1], np.arange(classes), edges[1:]])
    y = target_shares if is_even else np.concatenate([target_shares[:1], target_shares, target_shares[-1:]])
    line = {"color": colors.ink, "width": 1.4, "dash": "dash", "shape": "linear" if is_even else "hvh"}
    hover = label + " %{y:.1%}<extra></extra>"
    return {"x": x, "y": y, "name": label, "mode": "lines", "line": line, "hovertemplate": hover}


@draws("class/accuracy")
def class_accuracy(accuracy: np.ndarray, seen: int, names: list[str], colors: Palette) -> Chart:
    """Draw the accuracy of every class after the matching."""
    figure = _class_bars(accuracy, seen, names, colors, "Accuracy %{y:.1%}")
    return figure.update_yaxes(range=[0, 1.03], tickformat=".0%")


def class_counts(labeled: np.ndarray, totals: np.ndarray, seen: int, names: list[str], colors: Palette) -> Chart:
    """Draw the training images of every class as bars and their labeled images as marks; seen classes first."""
    figure = _class_bars(totals, seen, names, colors, "%{y:,} images")
    figure.add_trace(
        x=np.arange(seen),
        y=labeled[:seen],
        name="Labeled",
        mode="markers",
        marker={"symbol": "line-ew-open", "size": 12, "color": colors.ink, "line": {"width": 2}},
        hovertemplate="%{y:,} labeled<extra></extra>",
    )
    return figure.update_yaxes(rangemode="tozero", tickformat=",d")


def _class_bars(values: np.ndarray, seen: int, names: list[str], colors: Palette, hover: str) -> Chart:
    figure = blank_figure(260, colors)
    ids = np.arange(len(values))
    add_bars(figure, np.asarray(values, np.float32), ids, seen, names, colors, hover)
    figure.update_layout(bargap=0.22, hovermode="closest", showlegend=False, margin={"l": 44, "r": 28, "t": 8})
    figure.update_xaxes(showgrid=False, range=[-0.6, len(ids) - 0.4])
    return name_bars(figure, names, ids[:: max(1, -(-len(ids) // 20))])


def add_bars(
    figure: Chart, values: np.ndarray, class_order: np.ndarray, seen: int, names, colors: Palette, hover: str
) -> None:
    """Add a bar for each class in `class_order` (class ids), in the colours of seen and novel classes."""
    for group, members in (("seen", class_order < seen), ("novel", class_order >= seen)):
        figure.add_trace(
            type="bar",
            x=np.flatnonzero(members),
            y=values[class_order[members]],
            name=group.capitalize(),
            marker={"color": getattr(colors, group), "line": {"width": 0}},
            text=[escape_text(names[i]) for i in class_order[members]],
            textposition="none",
            hovertemplate="%{text}<br>" + hover + f"<extra>{group}</extra>",
        )
