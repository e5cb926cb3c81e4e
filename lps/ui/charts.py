"""Data frames in, plotly figures out. Nothing here reads a file or knows of a page.

Curves are SVG lines over the epoch; the projection alone is WebGL. Arrays are handed over as NumPy, which plotly sends
in binary. Every figure has a height in pixels and a transparent ground.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lps.ui import style
from lps.ui.live import History
from lps.ui.style import Palette, class_colors, with_alpha

PERCENT = ".1%"
ROW_GAP = 0.055  # between stacked panels, share of the height
MAX_POINTS = 50_000
FEW_POINTS = 12_000  # in a chart of a third of the page's width, where more would lie on one another
SMALL = 300  # pixels of height of such a chart
MOST_IN_LEGEND = 24  # groups of points; more would cover them
MATCHING = (
    "Seen and novel images are scored apart, and novel ones by the best matching of their predicted classes to the "
    "true ones. All needs one matching for every image, so it can be lower than both."
)
MIXED_KL = (
    "KL is that of each run's own margin, and their `kl_direction` differs: KL(prior, estimate) beside KL(estimate, "
    "prior). Compare when they fall, not how high they are."
)
Group = tuple[str, np.ndarray, str]  # label, rows (booleans), colour


@dataclass(frozen=True)
class GroupCurve:
    """One measurement of a group of runs. table: index epoch; columns mean, low, high, count of runs.

    low and high are NaN where a spread says nothing.
    """

    label: str
    table: pd.DataFrame

    @property
    def name(self) -> str:
        """The label with the number of runs, as the legend shows it."""
        counts = self.table["count"].astype(int)
        return f"{self.label} (n = {'–'.join(dict.fromkeys([str(counts.min()), str(counts.max())]))})"


@dataclass(frozen=True)
class Panel:
    """One of several stacked panels: title, share of the height, format of the y axis, its range (None: it fits)."""

    title: str
    share: float
    tickformat: str = ""
    range: tuple[float, float] | None = None
    rangemode: str = "tozero"


# ---------------------------------------------------------------------------------------------------- pace


def pace(history: History, epochs: int, colors: Palette) -> go.Figure:
    """Seen and novel accuracy with the gap as a band, KL, mean margins and thresholds, over one epoch axis."""
    panels = [
        Panel("Accuracy", 0.5, ".0%", (-0.02, 1.03)),
        Panel("KL of the estimated class distribution", 0.14),
        Panel("Mean margin", 0.2),
        Panel("Confidence threshold", 0.16, ".0%", (0, 1.06)),
    ]
    figure = _stacked(panels, epochs, 640, colors)
    _add_gap(figure, history, colors)
    _add_line(figure, history.column("accuracy/seen"), "Seen", colors.seen, 1, PERCENT, width=2.6, zorder=3)
    _add_line(figure, history.column("accuracy/novel"), "Novel", colors.novel, 1, PERCENT, width=2.6, zorder=2)
    _add_line(figure, history.column("accuracy/all"), "All", colors.all, 1, PERCENT, width=1.5, zorder=1)
    for group in ("seen", "novel"):
        baseline = history.start.get(f"baseline/kmeans/{group}")
        if baseline is not None:
            _add_reference(figure, baseline, group, getattr(colors, group), epochs)
    _add_line(figure, history.column("kl"), "KL", colors.ink, 2, ".3f", legend=False)
    for group in ("seen", "novel"):
        color = getattr(colors, group)
        _add_line(figure, mean_margin(history, group), f"Margin, {group}", color, 3, ".2f", legend=False)
        threshold = history.column(f"threshold/{group}")
        _add_line(figure, threshold, f"Threshold, {group}", color, 4, ".0%", legend=False, width=1.8)
    return figure


def pace_of_runs(histories: dict[str, History], epochs: int, colors: Palette) -> go.Figure:
    """The same measurements for several runs by label: one colour a run, one panel a measurement."""
    panels = [
        Panel("Novel accuracy", 0.29, ".0%", (-0.02, 1.03)),
        Panel("Seen accuracy", 0.29, ".0%", (-0.02, 1.03)),
        Panel("KL of the estimated class distribution", 0.19),
        Panel("Mean margin of seen classes", 0.23),
    ]
    figure = _stacked(panels, epochs, 680, colors)
    for (label, history), (color, dash) in zip(histories.items(), style.group_styles(len(histories), colors)):
        label = plain(label)
        shared = {"legendgroup": label, "dash": dash}
        _add_line(figure, history.column("accuracy/novel"), label, color, 1, PERCENT, width=2.4, **shared)
        _add_line(figure, history.column("accuracy/seen"), label, color, 2, PERCENT, legend=False, **shared)
        _add_line(figure, history.column("kl"), label, color, 3, ".3f", legend=False, **shared)
        _add_line(figure, mean_margin(history, "seen"), label, color, 4, ".2f", legend=False, **shared)
    return figure


def curves_of_groups(
    curves: list[GroupCurve], epochs: int, tickformat: str, colors: Palette, styles: list[tuple[str, str]] | None = None
) -> go.Figure:
    """The mean over the runs of every group, with its band; the legend has the order of the last values.

    styles: (colour, dash) of every curve, where a group is to look the same in several figures.
    """
    figure = _stacked([Panel("", 1, tickformat, rangemode="normal")], epochs, 470, colors)
    styled = list(zip(curves, styles or style.group_styles(len(curves), colors)))
    styled.sort(key=lambda pair: -pair[0].table["mean"].iloc[-1])
    for curve, (color, dash) in styled:
        _add_band(figure, curve, color)
        _add_mean(figure, curve, color, dash, tickformat)
    legend = {"orientation": "v", "x": 1.01, "xanchor": "left", "y": 1, "yanchor": "top", "traceorder": "normal"}
    figure.update_layout(legend=legend | {"font": {"size": 12}}, showlegend=True)
    return figure.update_layout(margin={"t": 12, "l": 58, "r": 12}, hoverlabel={"namelength": -1})


def _add_mean(figure: go.Figure, curve: GroupCurve, color: str, dash: str, tickformat: str) -> None:
    counts = curve.table["count"].to_numpy(int)
    _add_line(
        figure,
        curve.table["mean"],
        plain(curve.name),
        color,
        1,
        tickformat.replace(".0%", PERCENT) or ".4g",
        dash=dash,
        text=[f"n = {count}" for count in counts],
        legendgroup=plain(curve.label),
    )
    if len(curve.table):
        figure.data[-1].hovertemplate += " · %{text}"


def _add_band(figure: go.Figure, curve: GroupCurve, color: str) -> None:
    """Low to high as one polygon for each stretch of epochs in a row that have a spread."""
    x, y = [], []
    has_spread = curve.table["low"].notna()
    for _, part in curve.table[has_spread].groupby((~has_spread).cumsum()[has_spread]):
        ends = part.index.to_numpy(float)
        x += [ends, ends[::-1], [np.nan]]
        y += [part["high"].to_numpy(), part["low"].to_numpy()[::-1], [np.nan]]
    if not x:
        return
    band = {"fill": "toself", "fillcolor": with_alpha(color, 0.14), "mode": "lines", "line_width": 0}
    hidden = {"hoverinfo": "skip", "showlegend": False, "name": f"{plain(curve.label)}, band"}
    group = plain(curve.label)
    figure.add_trace(go.Scatter(x=np.concatenate(x), y=np.concatenate(y), legendgroup=group, **band, **hidden))


def mean_margin(history: History, group: str) -> pd.Series:
    """Mean of the per-class margin over seen or novel classes, by epoch."""
    table = history.vectors.get("margin")
    if table is None or not history.seen:
        return pd.Series(dtype=float)
    columns = table.columns < history.seen if group == "seen" else table.columns >= history.seen
    return table.loc[:, columns].astype(float).mean(axis=1).dropna()


def gap_bands(epochs: np.ndarray, seen: np.ndarray, novel: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The area between two curves as polygons (x, y): `seen` where seen is ahead, `novel` where novel is.

    The curves are straight between epochs; where they cross, both bands have a corner at the crossing.
    """
    ahead = seen - novel
    cross = np.flatnonzero(ahead[:-1] * ahead[1:] < 0)
    share = ahead[cross] / (ahead[cross] - ahead[cross + 1])
    x = np.concatenate([epochs, epochs[cross] + share * (epochs[cross + 1] - epochs[cross])])
    height = seen[cross] + share * (seen[cross + 1] - seen[cross])
    order = np.argsort(x, kind="stable")
    x = x[order]
    seen, novel = np.concatenate([seen, height])[order], np.concatenate([novel, height])[order]
    top = np.maximum(seen, novel)
    return {
        name: (np.concatenate([x, x[::-1]]), np.concatenate([top, low[::-1]]))
        for name, low in (("seen", novel), ("novel", seen))
    }


def _add_gap(figure: go.Figure, history: History, colors: Palette) -> None:
    columns = {group: history.column(f"accuracy/{group}") for group in ("seen", "novel")}
    both = pd.DataFrame(columns).dropna()
    if len(both) < 2:
        return
    bands = gap_bands(both.index.to_numpy(float), both["seen"].to_numpy(), both["novel"].to_numpy())
    for name, (x, y) in bands.items():
        color = with_alpha(getattr(colors, name), 0.16)
        band = go.Scatter(x=x, y=y, fill="toself", fillcolor=color, mode="lines", line_width=0, hoverinfo="skip")
        figure.add_trace(band.update(name=f"Gap, {name} ahead", showlegend=False, yaxis="y"))


# ---------------------------------------------------------------------------------------------------- other curves


def losses(history: History, epochs: int, colors: Palette) -> go.Figure:
    """Every `loss/*` term; they add up to the total."""
    names = [name for name in history.epochs if name.startswith("loss/")]
    names.sort(key=lambda name: name != "loss/total")
    figure = _with_legend_below(_stacked([Panel("", 1, rangemode="normal")], epochs, 380, colors))
    terms = [color for color in colors.runs if color not in (colors.seen, colors.novel)] + [colors.seen, colors.novel]
    for name, color in zip(names, [colors.ink, *_cycle(terms, len(names))]):
        label = name.removeprefix("loss/").replace("_", " ").capitalize()
        _add_line(figure, history.column(name), label, color, 1, ".3f", width=2.4 if name == "loss/total" else 1.8)
    return figure


def pseudo_labels(history: History, epochs: int, colors: Palette) -> go.Figure:
    """Share of confident unlabeled images among those predicted as seen and as novel, and their mean confidence."""
    figure = _with_legend_below(_stacked([Panel("", 1, ".0%", (0, 1.04))], epochs, 380, colors))
    for group in ("seen", "novel"):
        color = getattr(colors, group)
        _add_line(figure, history.column(f"pseudo_label/rate/{group}"), f"Share confident, {group}", color, 1, PERCENT)
        confidence = history.column(f"pseudo_label/confidence/{group}")
        _add_line(figure, confidence, f"Mean confidence, {group}", color, 1, PERCENT, width=1.3, dash="dot")
    return figure


def pretraining(history: History, epochs: int, colors: Palette) -> go.Figure:
    """SimCLR: its loss, and what k nearest neighbours, a linear classifier and k-means make of the features.

    The quality has a panel once it was measured.
    """
    table = history.pretrain

    def column(name):
        return table[name].dropna() if name in table else pd.Series(dtype=float)

    quality = {
        "pretrain/knn_accuracy": ("k nearest neighbours", 3),
        "pretrain/linear_accuracy": ("linear classifier", 4),
        "pretrain/kmeans_accuracy": ("k-means", 2),
    }
    panels = [Panel("SimCLR loss", 0.5, rangemode="normal")]
    if any(len(column(name)) for name in quality):
        panels.append(Panel("Quality of the features", 0.5, ".0%", (0, 1.04)))
    figure = _stacked(panels, epochs, 420 if len(panels) > 1 else 230, colors)
    _add_line(figure, column("pretrain/loss"), "SimCLR loss", colors.ink, 1, ".3f", legend=False)
    for name, (label, color) in quality.items():
        _add_line(figure, column(name), label, colors.runs[color], 2, PERCENT, mode="lines+markers")
    return figure


# ---------------------------------------------------------------------------------------------------- classes


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


def class_accuracy(accuracy: np.ndarray, seen: int, names: list[str], colors: Palette) -> go.Figure:
    """Accuracy of every class after the matching."""
    figure = _class_bars(accuracy, seen, names, colors, "Accuracy %{y:.1%}")
    return figure.update_yaxes(range=[0, 1.03], tickformat=".0%")


def _class_bars(values: np.ndarray, seen: int, names: list[str], colors: Palette, hover: str) -> go.Figure:
    figure = go.Figure(layout=_layout(260, colors))
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
    short = [plain(name if len(name) <= 10 else name[:9] + "…") for name in names]
    figure.update_layout(bargap=0.22, hovermode="closest", showlegend=False, margin={"l": 44, "r": 28, "t": 8, "b": 28})
    step = max(1, -(-len(ids) // 20))
    figure.update_xaxes(tickvals=ids[::step], ticktext=short[::step], showgrid=False, range=[-0.6, len(ids) - 0.4])
    return figure


# ---------------------------------------------------------------------------------------------------- projection


def projection(
    points: pd.DataFrame,
    color_by: str,
    colors: Palette,
    seen: int,
    names: list[str],
    height: int = 560,
    groups: Sequence[Group] | None = None,
) -> go.Figure:
    """Points on the plane; every point carries its image id.

    points: columns x, y, image, truth, predicted (class ids, -1 unknown), confidence, right; more than `most_points`
    are thinned out evenly. color_by: truth, predicted, group, right or confidence; or groups: (label, rows, colour).
    """
    if len(points) > most_points(height):
        kept = np.linspace(0, len(points) - 1, most_points(height)).round().astype(int)
        points = points.iloc[kept]
        groups = groups and [(label, np.asarray(rows)[kept], color) for label, rows, color in groups]
    figure = go.Figure(layout=_layout(height, colors))
    size = float(np.clip(210 / np.sqrt(max(1, len(points))), 3, 9)) * min(1, 0.35 + height / 860)
    if color_by == "confidence":
        _add_points(figure, points, "Confidence", size, _confidence_scale(points, colors), names)
    else:
        for label, rows, color in groups or _point_groups(points, color_by, colors, seen, names):
            _add_points(figure, points[rows], label, size, {"color": color}, names)
    figure.update_layout(meta={"classes": [*map(plain, names), "unknown"]})
    figure.update_layout(showlegend=1 < len(figure.data) <= MOST_IN_LEGEND)
    figure.update_layout(hovermode="closest", dragmode="pan", margin={"l": 8, "r": 8, "t": 34, "b": 8})
    hidden = {"showgrid": False, "zeroline": False, "showticklabels": False, "showline": False, "title": None}
    figure.update_xaxes(**hidden, showspikes=False)
    figure.update_yaxes(**hidden, scaleanchor="x", scaleratio=1)
    return figure


def most_points(height: int) -> int:
    """How many points a chart of this height shows."""
    return MAX_POINTS if height > SMALL else FEW_POINTS


def set_frame(figure: go.Figure, low: np.ndarray, high: np.ndarray) -> None:
    """Show the rectangle from `low` to `high` (x and y), whatever the points are: nothing jumps between epochs."""
    figure.update_xaxes(range=[float(low[0]), float(high[0])])
    figure.update_yaxes(range=[float(low[1]), float(high[1])])


def mark_point(figure: go.Figure, points: pd.DataFrame, image: int | None, colors: Palette) -> None:
    """Draw a ring around the point of one image, where it is among the points."""
    rows = points[points["image"] == image]
    ring = {"size": 16, "color": "rgba(0,0,0,0)", "line": {"color": colors.ink, "width": 2.5}}
    figure.add_trace(
        go.Scattergl(
            x=rows["x"].to_numpy(np.float32),
            y=rows["y"].to_numpy(np.float32),
            customdata=rows["image"].to_numpy(np.int32),
            mode="markers",
            marker=ring,
            unselected={"marker": {"opacity": 1}},
            hoverinfo="skip",
            showlegend=False,
            name="Chosen",
        )
    )


def _point_groups(points: pd.DataFrame, color_by: str, colors: Palette, seen: int, names: list[str]):
    """(label, rows, colour) of every group of points, the ones to notice last, on top."""
    if color_by == "group":
        yield "Seen", (points["truth"] >= 0) & (points["truth"] < seen), colors.seen
        yield "Novel", points["truth"] >= seen, colors.novel
        yield "Unknown", points["truth"] < 0, colors.all
    elif color_by == "right":
        yield "Unknown", points["truth"] < 0, colors.all
        yield "Right", (points["truth"] >= 0) & points["right"], colors.right
        yield "Wrong", (points["truth"] >= 0) & ~points["right"], colors.wrong
    else:
        shades = class_colors(seen, len(names), colors)
        yield "Unknown", points[color_by] < 0, colors.all
        for class_id, name in enumerate(names):
            yield plain(name), points[color_by] == class_id, shades[class_id]


def _add_points(
    figure: go.Figure, points: pd.DataFrame, label: str, size: float, marker: dict, names: list[str]
) -> None:
    if not len(points):
        return
    dtype = np.min_scalar_type(len(names))
    codes = {
        name: np.where(points[name] < 0, len(names), points[name]).astype(dtype) for name in ("truth", "predicted")
    }
    figure.add_trace(
        go.Scattergl(
            x=points["x"].to_numpy(np.float32),
            y=points["y"].to_numpy(np.float32),
            customdata=points["image"].to_numpy(np.int32),
            meta=codes,  # of layout.meta.classes; plot.js writes the text out of them
            name=label,
            mode="markers",
            marker={"size": size, "opacity": 0.8, "line_width": 0} | marker,
            hovertemplate="image %{customdata}<br>%{text}<extra></extra>",
        )
    )


def _confidence_scale(points: pd.DataFrame, colors: Palette) -> dict:
    bar = {"thickness": 10, "len": 0.6, "tickformat": ".0%", "outlinewidth": 0, "tickfont": {"color": colors.muted}}
    scale = [[0, colors.wrong], [0.5, colors.all], [1, colors.right]]
    values = points["confidence"].to_numpy(np.float32)
    return {"color": values, "colorscale": scale, "cmin": 0, "cmax": 1, "colorbar": bar}


# ---------------------------------------------------------------------------------------------------- shared form


def plain(text: str) -> str:
    """Text of a run as plotly shows it literally: no tags, no entities, no formula."""
    line = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return line.replace("$", "$\u200b")


def blank(height: int, colors: Palette) -> go.Figure:
    """An empty figure in the form that all charts share."""
    return go.Figure(layout=_layout(height, colors))


def _layout(height: int, colors: Palette) -> dict:
    axis = {
        "gridcolor": colors.grid,
        "zeroline": False,
        "linecolor": colors.grid,
        "tickfont": {"color": colors.muted, "size": 12},
        "automargin": False,
    }
    legend = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "itemsizing": "constant"}
    return {
        "template": "none",
        "height": height,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": colors.ink, "size": 13},
        "hoverlabel": {"bgcolor": colors.surface, "bordercolor": colors.grid, "font_color": colors.ink},
        "legend": legend,
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": colors.muted, "activecolor": colors.ink, "orientation": "v"},
        "margin": {"l": 52, "r": 40, "t": 36, "b": 40},
        "xaxis": axis,
        "yaxis": axis,
    }


def _stacked(panels: list[Panel], epochs: int, height: int, colors: Palette) -> go.Figure:
    """An empty figure of panels one below the other that share the epoch axis, its cursor and one hover label."""
    layout = _layout(height, colors)
    room = 1 - ROW_GAP * (len(panels) - 1)
    whole = sum(panel.share for panel in panels)
    top, annotations, plain_axis = 1.0, [], layout["yaxis"]
    for row, panel in enumerate(panels, 1):
        bottom = top - room * panel.share / whole
        ticks = 6 if panel.share / whole > 0.4 else 4
        domain = [max(0, bottom), min(1, top)]
        axis = plain_axis | {"domain": domain, "tickformat": panel.tickformat, "nticks": ticks}
        axis |= {"range": list(panel.range)} if panel.range else {"rangemode": panel.rangemode}
        layout["yaxis" if row == 1 else f"yaxis{row}"] = axis
        title = {"text": panel.title, "font": {"color": colors.muted, "size": 13}, "showarrow": False, "xref": "paper"}
        annotations.append(title | {"yref": "paper", "x": 0, "xanchor": "left", "y": top, "yanchor": "bottom"})
        top = bottom - ROW_GAP
    layout["annotations"] = annotations
    layout |= {"hovermode": "x unified", "hoversubplots": "axis", "spikedistance": -1, "hoverdistance": 40}
    layout["xaxis"] = layout["xaxis"] | {
        "anchor": "y" if len(panels) == 1 else f"y{len(panels)}",
        "range": [0, epochs + 0.4],
        "title": {"text": "Epoch", "font": {"color": colors.muted, "size": 12}, "standoff": 4},
        "tickformat": "d",
        "unifiedhovertitle": {"text": "Epoch %{x}"},
        "showspikes": True,
        "spikemode": "across",
        "spikesnap": "hovered data",
        "spikethickness": 1,
        "spikedash": "solid",
        "spikecolor": colors.muted,
        "showgrid": False,
    }
    return go.Figure(layout=layout)


def _with_legend_below(figure: go.Figure) -> go.Figure:
    """Room under the epoch axis for a legend of many or long names."""
    figure.update_layout(legend={"x": 0, "xanchor": "left", "y": -0.2, "yanchor": "top"})
    return figure.update_layout(margin={"t": 12, "b": 148, "autoexpand": False})


def _add_line(
    figure: go.Figure,
    values: pd.Series,
    name: str,
    color: str,
    row: int,
    format: str,
    *,
    width: float = 2.0,
    dash: str = "solid",
    legend: bool = True,
    **more,
) -> None:
    """One curve over the epochs in panel `row`; a single value is a dot."""
    if not len(values):
        return
    mode = more.pop("mode", "lines" if len(values) > 1 else "markers")
    figure.add_trace(
        go.Scatter(
            x=values.index.to_numpy(np.int32),
            y=values.to_numpy(np.float64),
            name=name,
            mode=mode,
            line={"color": color, "width": width, "dash": dash},
            marker={"color": color, "size": 6},
            yaxis="y" if row == 1 else f"y{row}",
            showlegend=legend,
            hovertemplate="%{y:" + format + "}",
            **more,
        )
    )


def _add_reference(figure: go.Figure, value: float, group: str, color: str, epochs: int) -> None:
    """What k-means makes of the start features: a thin line over the accuracy panel, one legend entry for both."""
    line = {"color": color, "width": 1, "dash": "dot"}
    x, y = np.array([0, epochs]), np.full(2, value)
    shared = {"name": "k-means before training", "legendgroup": "k-means", "showlegend": group == "seen"}
    figure.add_trace(go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", opacity=0.8, **shared))


def _cycle(colors: tuple[str, ...] | list[str], count: int) -> list[str]:
    return [colors[i % len(colors)] for i in range(count)]
