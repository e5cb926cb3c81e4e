"""Measurements over epochs: accuracies of one or several runs, the gap, losses, pseudo-labels, groups."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lps.analysis.clusters import Moment
from lps.charts.chart import Chart
from lps.charts.event_log import History
from lps.charts.figures import (
    PERCENT,
    Panel,
    add_line,
    blank_figure,
    escape_text,
    stacked_panels,
    whole_ticks,
    with_legend_below,
)
from lps.charts.measurements import draws, group_mean
from lps.charts.palette import Palette, with_alpha

# The accuracy axis (y axis) of Live and of reports starts at 0 (a little below, for whole marks).
_ACCURACY_AXIS_RANGE = (-0.02, 1.03)
QUALITY = {  # of start features: words and colour
    "pretrain/knn_accuracy": ("k nearest neighbours", 3),
    "pretrain/linear_accuracy": ("linear classifier", 4),
    "pretrain/kmeans_accuracy": ("k-means", 2),
}
_MAX_CLUSTERS = 100  # that have a curve
MATCHING = (
    "Seen and novel accuracy are measured separately. For novel accuracy, clusters and classes are paired one to one "
    "so that as many images as possible are correct (matching). "
    'The accuracy "All" uses one matching for all images, so it can be lower than the other two.'
)


@dataclass(frozen=True)
class GroupCurve:
    """One measurement of a group of runs. table: index epoch; columns mean, low, high, count of runs.

    low and high are NaN for fewer than two runs.
    """

    label: str
    table: pd.DataFrame

    @property
    def name(self) -> str:
        """The label with the number of runs, as the legend shows it."""
        counts = self.table["count"].astype(int)
        return f"{self.label} (n = {'–'.join(dict.fromkeys([str(counts.min()), str(counts.max())]))})"


# ---------------------------------------------------------------------------------------------------- pace


@draws("accuracy/seen", "accuracy/novel", "accuracy/all", "accuracy/gap", "kl", "kl/margin", "margin", "threshold/*")
def pace(history: History, epochs: int, colors: Palette, keeps_empty: bool = False) -> Chart:
    """Draw seen and novel accuracy with the gap as a band, KL, mean margins and thresholds over one epoch axis.

    Once there is an epoch, panels that the method does not measure are left out, unless `keeps_empty`.
    """
    kl, margin_kl = history.column("kl"), history.column("kl/margin")
    margins = {group: mean_margin(history, group) for group in ("seen", "novel")}
    thresholds = {group: history.column(f"threshold/{group}") for group in ("seen", "novel")}
    has_other_kl = len(margin_kl) > 0 and not margin_kl.equals(kl.rename("kl/margin"))
    kl_title = "KL of the estimated class distribution" + ", dotted: the KL that the margin uses" * has_other_kl
    columns_by_panel = {
        Panel("Accuracy", 0.5, ".0%", _ACCURACY_AXIS_RANGE): [history.epochs],
        Panel(kl_title, 0.14): [kl],
        Panel("Mean margin", 0.2): margins.values(),
        Panel("Confidence threshold", 0.16, ".0%", (0, 1.06)): thresholds.values(),
    }
    keeps_empty = keeps_empty or not len(history.epochs)
    panels = [panel for panel, columns in columns_by_panel.items() if keeps_empty or any(map(len, columns))]
    row = {panel.title: row_number for row_number, panel in enumerate(panels, 1)}
    figure = stacked_panels(panels, epochs, round(640 * sum(panel.share for panel in panels)), colors)
    _add_gap(figure, history, colors)
    add_line(figure, history.column("accuracy/seen"), "Seen", colors.seen, 1, PERCENT, width=2.6, zorder=3)
    add_line(figure, history.column("accuracy/novel"), "Novel", colors.novel, 1, PERCENT, width=2.6, zorder=2)
    add_line(figure, history.column("accuracy/all"), "All", colors.all, 1, PERCENT, width=1.5, zorder=1)
    for group in ("seen", "novel"):
        baseline = history.start.get(f"baseline/kmeans/{group}")
        if baseline is not None:
            _add_reference(figure, baseline, group, getattr(colors, group), epochs)
    add_line(figure, kl, "KL(prior, estimate)", colors.ink, row.get(kl_title, 1), ".3f", legend=False)
    if has_other_kl:
        name = "KL(estimate, prior), used by the margin"
        add_line(figure, margin_kl, name, colors.ink, row.get(kl_title, 1), ".3f", legend=False, dash="dot")
    margin_row, threshold_row = row.get("Mean margin", 1), row.get("Confidence threshold", 1)
    for group in ("seen", "novel"):
        color = getattr(colors, group)
        add_line(figure, margins[group], f"Margin, {group}", color, margin_row, ".2f", legend=False)
        threshold = thresholds[group]
        add_line(figure, threshold, f"Threshold, {group}", color, threshold_row, ".0%", legend=False, width=1.8)
    return figure


@draws("accuracy/validation", "pseudo_label/rate/*", "margin")
def blind_pace(history: History, shares: pd.DataFrame, names: list[str], epochs: int, colors: Palette) -> Chart:
    """Draw a run without true classes: accuracy on withheld labels, cluster sizes, confident shares, mean margins.

    shares: index epoch, one column per cluster. Panels without measurements are left out.
    """
    withheld = history.column("accuracy/validation")
    rates = {group: history.column(f"pseudo_label/rate/{group}") for group in ("seen", "novel")}
    panels = [Panel("Withheld labels", 0.24, ".0%", _ACCURACY_AXIS_RANGE)] if len(withheld) else []
    panels += [Panel("Share of the unlabeled images in each cluster", 0.4, ".0%")] if len(shares) else []
    if any(map(len, rates.values())):
        panels.append(Panel("Share that is confident", 0.24, ".0%", _ACCURACY_AXIS_RANGE))
    panels.append(Panel("Mean margin", 0.18))
    row = {panel.title: row_number for row_number, panel in enumerate(panels, 1)}
    figure = stacked_panels(panels, epochs, 200 * len(panels), colors)
    add_line(figure, withheld, "Withheld labels", colors.ink, 1, PERCENT, legend=False)
    for cluster in shares.columns[:_MAX_CLUSTERS] if len(shares) else ():
        color = colors.seen if cluster < history.seen else colors.novel
        name = escape_text(names[cluster]) if cluster < len(names) else f"cluster {cluster}"
        row_number = row["Share of the unlabeled images in each cluster"]
        add_line(figure, shares[cluster], name, color, row_number, PERCENT, legend=False, width=1.4)
    for group, values in rates.items():
        color = getattr(colors, group)
        add_line(figure, values, group.capitalize(), color, row.get("Share that is confident", 1), PERCENT, width=2.4)
        margin = mean_margin(history, group)
        add_line(figure, margin, f"Margin, {group}", color, row["Mean margin"], ".2f", legend=False)
    return figure


@draws("accuracy/balanced", "accuracy/many", "accuracy/medium", "accuracy/few", "accuracy/std", "prior/error")
def class_sizes(history: History, epochs: int, colors: Palette) -> Chart:
    """Draw the accuracy of large, medium and small classes, their mean over classes, and the error of the prior."""
    panels = [Panel("Accuracy", 0.66, ".0%", _ACCURACY_AXIS_RANGE), Panel("Error of the prior", 0.34)]
    figure = stacked_panels(panels, epochs, 420, colors)
    dashes = {"many": "solid", "medium": "dash", "few": "dot"}
    titles = {"many": "Large classes", "medium": "Medium", "few": "Small"}
    for name, dash in dashes.items():
        add_line(figure, history.column(f"accuracy/{name}"), titles[name], colors.all, 1, PERCENT, dash=dash)
    add_line(figure, history.column("accuracy/balanced"), "Mean over classes", colors.ink, 1, PERCENT, width=2.4)
    add_line(figure, history.column("prior/error"), "Error of the prior", colors.ink, 2, ".3f", legend=False)
    return figure


def pace_of_runs(
    histories: dict[str, History], epochs: int, colors: Palette, color_by_label: Mapping[str, str]
) -> Chart:
    """Draw several runs by label: one panel per measurement."""
    panels = [
        Panel("Novel accuracy", 0.29, ".0%", _ACCURACY_AXIS_RANGE),
        Panel("Seen accuracy", 0.29, ".0%", _ACCURACY_AXIS_RANGE),
        Panel("KL of the estimated class distribution", 0.19),
        Panel("Mean margin of seen classes", 0.23),
    ]
    figure = stacked_panels(panels, epochs, 680, colors)
    for label, history in histories.items():
        name, color = escape_text(label), color_by_label[label]
        hidden = {"legend": False, "legendgroup": name}
        add_line(figure, history.column("accuracy/novel"), name, color, 1, PERCENT, width=2.4, legendgroup=name)
        add_line(figure, history.column("accuracy/seen"), name, color, 2, PERCENT, **hidden)
        add_line(figure, history.column("kl"), name, color, 3, ".3f", **hidden)
        add_line(figure, mean_margin(history, "seen"), name, color, 4, ".2f", **hidden)
    return figure.update_layout(legend={"y": 1.04})  # above the first panel's title, which a phone's second row meets


def curves_of_groups(
    curves: list[GroupCurve], epochs: int, tickformat: str, colors: Palette, color_by_curve: Mapping[str, str]
) -> Chart:
    """Draw the mean over the runs of every group with its band; the legend is sorted by the last values.

    color_by_curve: label of a curve -> its colour, so that a group looks the same in several figures.
    """
    figure = stacked_panels([Panel("", 1, tickformat, rangemode="normal")], epochs, 470, colors)
    for curve in sorted(curves, key=lambda curve: -curve.table["mean"].iloc[-1]):
        _add_band(figure, curve, color_by_curve[curve.label])
        _add_mean(figure, curve, color_by_curve[curve.label], tickformat)
    legend = {"orientation": "v", "x": 1.01, "xanchor": "left", "y": 1, "yanchor": "top", "traceorder": "normal"}
    figure.update_layout(legend=legend | {"font": {"size": 12}}, showlegend=True)
    tools = {"orientation": "h"}  # above the legend, which they would cover
    return figure.update_layout(margin={"t": 34, "l": 58, "r": 12}, hoverlabel={"namelength": -1}, modebar=tools)


def _add_mean(figure: Chart, curve: GroupCurve, color: str, tickformat: str) -> None:
    counts = curve.table["count"].to_numpy(int)
    add_line(
        figure,
        curve.table["mean"].rename(None),
        escape_text(curve.name),
        color,
        1,
        tickformat.replace(".0%", PERCENT) or ".4g",
        text=[f"n = {count}" for count in counts],
        legendgroup=escape_text(curve.label),
    )
    if len(curve.table):
        figure.traces[-1]["hovertemplate"] += " · %{text}"


def _add_band(figure: Chart, curve: GroupCurve, color: str) -> None:
    """Add low to high as one polygon per stretch of consecutive epochs that have a spread."""
    x, y = [], []
    has_spread = curve.table["low"].notna()
    for _, stretch in curve.table[has_spread].groupby((~has_spread).cumsum()[has_spread]):
        epochs = stretch.index.to_numpy(float)
        x += [epochs, epochs[::-1], [np.nan]]
        y += [stretch["high"].to_numpy(), stretch["low"].to_numpy()[::-1], [np.nan]]
    if not x:
        return
    band = {"fill": "toself", "fillcolor": with_alpha(color, 0.14), "mode": "lines", "line": {"width": 0}}
    hidden = {"hoverinfo": "skip", "showlegend": False, "name": f"{escape_text(curve.label)}, band"}
    group = escape_text(curve.label)
    figure.add_trace(x=np.concatenate(x), y=np.concatenate(y), legendgroup=group, **band, **hidden)


def mean_margin(history: History, group: str) -> pd.Series:
    """Mean of the per-class margin over seen or novel classes, by epoch."""
    return group_mean(history, "margin", group)


def gap_bands(epochs: np.ndarray, seen: np.ndarray, novel: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the area between two curves as polygons (x, y): `seen` where seen is higher, `novel` where novel is.

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


def _add_gap(figure: Chart, history: History, colors: Palette) -> None:
    columns = {group: history.column(f"accuracy/{group}") for group in ("seen", "novel")}
    accuracies = pd.DataFrame(columns).dropna()
    if len(accuracies) < 2:
        return
    bands = gap_bands(accuracies.index.to_numpy(float), accuracies["seen"].to_numpy(), accuracies["novel"].to_numpy())
    for name, (x, y) in bands.items():
        color = with_alpha(getattr(colors, name), 0.16)
        band = {"fill": "toself", "fillcolor": color, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
        figure.add_trace(x=x, y=y, **band, name=f"Gap, {name} ahead", showlegend=False, yaxis="y")


# ---------------------------------------------------------------------------------------------------- other curves


@draws("loss/*")
def losses(history: History, epochs: int, colors: Palette) -> Chart:
    """Draw every `loss/*` term; they add up to the total."""
    names = [name for name in history.epochs if name.startswith("loss/")]
    names.sort(key=lambda name: name != "loss/total")
    figure = with_legend_below(stacked_panels([Panel("", 1, rangemode="normal")], epochs, 380, colors))
    terms = [color for color in colors.terms if color not in (colors.seen, colors.novel)] + [colors.seen, colors.novel]
    for name, color in zip(names, itertools.chain([colors.ink], itertools.cycle(terms))):
        label = name.removeprefix("loss/").replace("_", " ").capitalize()
        add_line(figure, history.column(name), label, color, 1, ".3f", width=2.4 if name == "loss/total" else 1.8)
    return figure


@draws("pseudo_label/rate/*", "pseudo_label/confidence/*")
def pseudo_labels(history: History, epochs: int, colors: Palette) -> Chart:
    """Draw the confident share of the unlabeled images predicted as seen and as novel, and their mean confidence."""
    figure = with_legend_below(stacked_panels([Panel("", 1, ".0%", (0, 1.04))], epochs, 380, colors))
    for group in ("seen", "novel"):
        color = getattr(colors, group)
        add_line(figure, history.column(f"pseudo_label/rate/{group}"), f"Share confident, {group}", color, 1, PERCENT)
        confidence = history.column(f"pseudo_label/confidence/{group}")
        add_line(figure, confidence, f"Mean confidence, {group}", color, 1, PERCENT, width=1.3, dash="dot")
    return figure


def pretraining(history: History, epochs: int, colors: Palette) -> Chart:
    """Draw the SimCLR loss and the accuracy of k nearest neighbours, a linear classifier and k-means on the features.

    The accuracies have a panel once they were measured.
    """
    table = history.pretrain

    def column(name):
        return table[name].dropna() if name in table else pd.Series(dtype=float)

    panels = [Panel("SimCLR loss", 0.5, rangemode="normal")]
    if any(len(column(name)) for name in QUALITY):
        panels.append(Panel("Quality of the features", 0.5, ".0%", (0, 1.04)))
    figure = stacked_panels(panels, epochs, 420 if len(panels) > 1 else 230, colors)
    add_line(figure, column("pretrain/loss"), "SimCLR loss", colors.ink, 1, ".3f", legend=False)
    for name, (label, color) in QUALITY.items():
        add_line(figure, column(name), label, colors.terms[color], 2, PERCENT, mode="lines+markers")
    return figure.update_layout(legend={"y": 1.07})  # above the first panel's title, which it meets on a phone


def _add_reference(figure: Chart, value: float, group: str, color: str, epochs: int) -> None:
    """Add the accuracy of k-means on the start features as a thin line; both groups share one legend entry."""
    line = {"color": color, "width": 1, "dash": "dot"}
    x, y = np.array([0, epochs]), np.full(2, value)
    shared = {"name": "k-means before training", "legendgroup": "k-means", "showlegend": group == "seen"}
    figure.add_trace(x=x, y=y, mode="lines", line=line, hoverinfo="skip", opacity=0.8, **shared)


# ---------------------------------------------------------------------------------------------------- one image


def image_confidence(
    moments: list[Moment], cluster: int, thresholds: dict[str, pd.Series], names: dict[int, str], colors: Palette
) -> Chart:
    """Draw the confidence by epoch; the marker shows whether the image was in its present cluster."""
    figure = blank_figure(210, colors)
    epochs = np.array([moment.epoch for moment in moments], np.int32)
    confidence = np.array([moment.confidence for moment in moments], np.float64)
    for group, series in thresholds.items():
        if len(series):
            line = {"color": getattr(colors, group), "width": 1.2, "dash": "dot"}
            x, y = series.index.to_numpy(np.int32), series.to_numpy(np.float64)
            name = f"Threshold, {group}"
            figure.add_trace(x=x, y=y, mode="lines", line=line, name=name, hoverinfo="skip", showlegend=False)
    line = {"color": colors.muted, "width": 1.2}
    figure.add_trace(x=epochs, y=confidence, mode="lines", line=line, hoverinfo="skip", showlegend=False)
    in_cluster = np.array([moment.heir == cluster for moment in moments], bool)
    cluster_names = np.array([escape_text(names.get(moment.heir, "none")) for moment in moments] or [""])
    for label, rows, color in (("This cluster", in_cluster, colors.right), ("Another", ~in_cluster, colors.wrong)):
        if rows.any():
            figure.add_trace(
                x=epochs[rows],
                y=confidence[rows],
                text=cluster_names[rows],
                mode="markers",
                marker={"size": 7, "color": color, "symbol": "circle" if label == "This cluster" else "x"},
                name=label,
                hovertemplate="epoch %{x}, %{y:.0%}<br>cluster %{text}<extra></extra>",
            )
    return _style_image_chart(figure, max(epochs, default=1))


def image_pair(moments_by_image: dict[str, list[Moment]], names: dict[int, str], colors: Palette) -> Chart:
    """Draw the confidence of two images by epoch; dots where they share a cluster, crosses otherwise.

    moments_by_image: label of an image -> its moments at the same epochs. names: of the clusters.
    """
    figure = blank_figure(210, colors)
    pairs = zip(*moments_by_image.values(), strict=True)
    symbols = np.where(np.array([first.heir == second.heir for first, second in pairs], bool), "circle", "x")
    for (label, moments), color in zip(moments_by_image.items(), (colors.ink, colors.muted), strict=True):
        figure.add_trace(
            x=np.array([moment.epoch for moment in moments], np.int32),
            y=np.array([moment.confidence for moment in moments], np.float64),
            text=np.array([escape_text(names.get(moment.heir, "none")) for moment in moments] or [""]),
            mode="lines+markers",
            line={"color": color, "width": 1.6},
            marker={"size": 7, "symbol": symbols},
            name=label,
            hovertemplate=f"{label}, epoch %{{x}}, %{{y:.0%}}<br>cluster %{{text}}<extra></extra>",
        )
    epochs = [moment.epoch for moments in moments_by_image.values() for moment in moments]
    return _style_image_chart(figure, max(epochs, default=1))


def _style_image_chart(figure: Chart, last: int) -> Chart:
    """Set the layout of a chart of confidences beside an image. last: newest epoch."""
    figure.update_layout(margin={"l": 40, "r": 8, "t": 8, "b": 52}, hovermode="closest", showlegend=True)
    figure.update_layout(legend={"x": 0, "xanchor": "left", "y": -0.18, "yanchor": "top", "font": {"size": 11}})
    figure.update_yaxes(range=[0, 1.04], tickformat=".0%", nticks=4)
    return figure.update_xaxes(**whole_ticks(last), showgrid=False)
