"""The figures of the Explain page: bars of classes, thresholds over a run, terms of the objective.

Axes keep their range while a slider moves, so that bars change their height instead of the tick labels.
"""

import math

import numpy as np
import pandas as pd

from lps.charts import class_bars
from lps.charts.chart import Chart
from lps.charts.figures import blank_figure, escape_text, name_bars, whole_ticks
from lps.charts.palette import Palette
from lps.scores.purity import Adoption
from lps.wording import with_minus

SORTED_FROM = 24  # with more classes, bars are sorted by size within their group and have no names
_SHOWN = 10  # bars of one image: the target, the strongest others, and the rest together
_STEPS = (1, 2, 3, 4, 6, 8, 10)  # where a vertical axis may end, times a power of ten


def round_up(values, least: float = 0.0) -> float:
    """Return the smallest round number that is at least the largest value; close values have the same one."""
    largest = max(float(np.max(values, initial=0.0)), least)
    if largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in _STEPS if step * power >= largest * 0.999)


def _sort_classes(values: np.ndarray, seen: int) -> np.ndarray:
    """Return class ids in the order of the bars: seen first; many classes by value, descending within their group."""
    ids = np.arange(len(values))
    if len(values) <= SORTED_FROM:
        return ids
    groups = ids[:seen], ids[seen:]
    return np.concatenate([group[np.argsort(-np.asarray(values)[group], kind="stable")] for group in groups])


# ---------------------------------------------------------------------------------------------------- classes


def shares(
    values: np.ndarray, seen: int, names: list[str], colors: Palette, height: int = 300, prior: np.ndarray | None = None
) -> Chart:
    """Draw the class distribution as bars and the prior (None: equal shares) as a dashed line."""
    class_order = _sort_classes(values, seen)
    figure = _class_bars(values, class_order, seen, names, colors, height, "%{y:.1%} of the guesses")
    sorted_prior = None if prior is None or len(prior) != len(values) else np.asarray(prior)[class_order]
    figure.add_trace(**class_bars.target_line(sorted_prior, len(values), "Prior", colors))
    top = round_up(values if sorted_prior is None else np.concatenate([values, sorted_prior]), 2 / len(values))
    return figure.update_yaxes(range=[0, top * 1.04], tickformat=".0%" if top > 0.05 else ".1%")


def margins(
    values: np.ndarray, distribution: np.ndarray, recorded: np.ndarray | None, seen: int, names, colors: Palette
) -> Chart:
    """Draw the margin of every class in the order of `shares`; recorded: margins of a run, as rings or a line."""
    class_order = _sort_classes(distribution, seen)
    figure = _class_bars(values, class_order, seen, names, colors, 300, "margin +%{y:.3f}")
    highest = values if recorded is None else np.concatenate([values, recorded])
    if recorded is not None:
        ring = {"symbol": "circle-open", "size": 8, "color": colors.ink, "line": {"width": 1.6}}
        hover = "recorded +%{y:.3f}<extra></extra>"
        marker_style = {"mode": "markers", "marker": ring}
        if len(class_order) > SORTED_FROM:
            marker_style = {"mode": "lines", "line": {"color": colors.ink, "width": 1.6, "shape": "hvh"}}
        x, y = np.arange(len(class_order)), np.asarray(recorded, np.float64)[class_order]
        figure.add_trace(x=x, y=y, name="Recorded", hovertemplate=hover, **marker_style)
    return figure.update_yaxes(range=[0, round_up(highest, 0.5) * 1.04])


def pulls(pull_shares: np.ndarray, distribution: np.ndarray, seen: int, names: list[str], colors: Palette) -> Chart:
    """Draw the share of the training pull that every class keeps, in the order of `shares`."""
    class_order = _sort_classes(distribution, seen)
    figure = _class_bars(pull_shares, class_order, seen, names, colors, 240, "keeps %{y:.0%} of its pull")
    return figure.update_yaxes(range=[0, 1.04], tickformat=".0%")


def _class_bars(values, class_order, seen: int, names, colors: Palette, height: int, hover: str) -> Chart:
    figure = blank_figure(height, colors)
    class_bars.add_bars(figure, np.asarray(values, np.float64), class_order, seen, names, colors, hover)
    return _named(figure, [names[i] for i in class_order])


def _named(figure: Chart, names: list[str]) -> Chart:
    """Write the names below the bars if there is room for them."""
    are_named = len(names) <= SORTED_FROM
    figure.update_layout(bargap=0.22 if are_named else 0.08, hovermode="closest", showlegend=False)
    figure.update_layout(margin={"l": 48, "r": 28, "t": 10})
    figure.update_xaxes(showgrid=False, range=[-0.6, len(names) - 0.4])
    return name_bars(figure, names, range(len(names) if are_named else 0))


# ---------------------------------------------------------------------------------------------------- one image


def strongest(target: int, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (ids with a bar of their own, ascending; ids that share one bar): the target and the largest others."""
    if len(logits) <= _SHOWN + 2:
        return np.arange(len(logits)), np.zeros(0, np.int64)
    ranked = np.argsort(-np.asarray(logits), kind="stable")
    own_bars = np.sort(np.concatenate([[target], ranked[ranked != target][: _SHOWN - 1]]))
    return own_bars, np.setdiff1d(np.arange(len(logits)), own_bars)


def image(
    without: np.ndarray, with_margin: np.ndarray, own_and_merged: tuple, target: int, seen: int, names, colors: Palette
) -> Chart:
    """Draw the probabilities of one image, without the margin (framed) and with it (in the colour of the group)."""
    figure = _pairs(without, with_margin, own_and_merged, target, seen, names, colors)
    return figure.update_yaxes(range=[0, 1.04], tickformat=".0%")


def pushes(
    without: np.ndarray, with_margin: np.ndarray, own_and_merged: tuple, target: int, seen: int, names, colors: Palette
) -> Chart:
    """Draw how training moves the logits of one image, without the margin and with it."""
    figure = _pairs(without, with_margin, own_and_merged, target, seen, names, colors)
    low = max(-without.min(), -without[own_and_merged[1]].sum())
    return figure.update_yaxes(range=[-round_up([low], 0.2) * 1.04, 1.04], zeroline=True, zerolinecolor=colors.muted)


def _pairs(without, with_margin, own_and_merged: tuple, target: int, seen: int, names, colors: Palette) -> Chart:
    own_bars, merged = own_and_merged
    labels = [names[i] for i in own_bars] + ([f"{len(merged)} others"] if len(merged) else [])
    with_color = [colors.seen if i < seen else colors.novel for i in own_bars] + [colors.muted] * (len(merged) > 0)
    figure = blank_figure(240, colors)
    for name, values, color in (("without", without, colors.grid), ("with", with_margin, with_color)):
        heights = np.concatenate([values[own_bars], [values[merged].sum()] if len(merged) else []])
        edge = {"color": colors.muted, "width": 1 if name == "without" else 0}
        text = [
            escape_text(label) + (", the right class" if i < len(own_bars) and own_bars[i] == target else "")
            for i, label in enumerate(labels)
        ]
        hover = "%{text}<br>%{y:.3f}<extra>" + name + " margin</extra>"
        bars = {"text": text, "textposition": "none", "hovertemplate": hover, "marker": {"color": color, "line": edge}}
        figure.add_trace(type="bar", x=np.arange(len(labels)), y=heights, name=name, **bars)
    figure.update_layout(barmode="group", bargroupgap=0.05)
    _named(figure, labels)
    return figure.update_layout(bargap=0.25)


# ---------------------------------------------------------------------------------------------------- thresholds


def thresholds(
    threshold_by_group: dict[str, pd.Series], passed: dict[str, pd.Series], now: float, last: float, colors: Palette
) -> Chart:
    """Draw the required confidence (lines) and the share of images that reach it (dots) over the epochs.

    threshold_by_group, passed: by group "seen", "novel"; index epoch, or without a run its progress (then last is 1).
    now: epoch or progress of the vertical mark.
    """
    figure = blank_figure(320, colors)
    for group in ("seen", "novel"):
        color = getattr(colors, group)
        for values, prefix, style in (
            (threshold_by_group.get(group), "threshold for", {"mode": "lines", "line": {"color": color, "width": 2.4}}),
            (passed.get(group), "passing,", {"mode": "lines", "line": {"color": color, "width": 1.6, "dash": "dot"}}),
        ):
            if values is not None and len(values):
                x, y = values.index.to_numpy(np.float64), values.to_numpy(np.float64)
                name = f"{prefix.capitalize()} {group}"
                figure.add_trace(x=x, y=y, name=name, hovertemplate="%{y:.1%}", **style)
    is_share = last <= 1
    mark = {"type": "line", "x0": now, "x1": now, "y0": 0, "y1": 1, "yref": "paper"}
    figure.update_layout(shapes=[mark | {"line": {"color": colors.ink, "width": 1.4}}])
    legend = {"x": 0, "xanchor": "left", "y": -0.2, "yanchor": "top"}
    figure.update_layout(hovermode="x unified", legend=legend, showlegend=True, margin={"t": 10, "b": 92})
    axis_title = {"text": "Progress of the run" if is_share else "Epoch", "font": {"color": colors.muted, "size": 12}}
    low = 0 if is_share else 1
    margin = (last - low) * 0.01
    style = {"tickformat": ".0%"} if is_share else whole_ticks(last)
    figure.update_xaxes(**style, range=[low - margin, last + margin], title=axis_title, showgrid=False)
    return figure.update_yaxes(range=[0, 1.04], tickformat=".0%")


def passing(groups: dict[str, Adoption], colors: Palette) -> Chart:
    """Draw the shares of each predicted group: above the threshold and right, wrong or unknown, and below it."""
    figure = blank_figure(190, colors)
    names = [f"Predicted {group}" for group in groups]
    counts = {
        "Above the threshold, correct": ([adoption.right for adoption in groups.values()], colors.right),
        "Above the threshold, wrong": ([adoption.wrong for adoption in groups.values()], colors.wrong),
        "Above the threshold, true class unknown": (
            [adoption.passing - adoption.right - adoption.wrong for adoption in groups.values()],
            colors.muted,
        ),
        "Below the threshold": ([adoption.images - adoption.passing for adoption in groups.values()], colors.grid),
    }
    sizes = np.array([max(1, adoption.images) for adoption in groups.values()])
    for label, (count, color) in counts.items():
        if any(count):
            figure.add_trace(
                type="bar",
                y=names,
                x=np.array(count) / sizes,
                name=label,
                orientation="h",
                marker={"color": color, "line": {"width": 0}},
                customdata=np.array(count),
                hovertemplate="%{customdata} images, %{x:.1%}<extra>" + label + "</extra>",
            )
    legend = {"x": 0, "xanchor": "left", "y": -0.22, "yanchor": "top", "traceorder": "normal"}
    figure.update_layout(barmode="stack", bargap=0.3, hovermode="closest", legend=legend, showlegend=True)
    figure.update_layout(margin={"l": 96, "r": 28, "t": 8, "b": 74})
    figure.update_xaxes(range=[0, 1], tickformat=".0%")
    return figure.update_yaxes(autorange="reversed", showgrid=False)


# ---------------------------------------------------------------------------------------------------- objective


def waterfall(terms: dict[str, float], total: float, colors: Palette) -> Chart:
    """Draw the terms of the objective and their total as a waterfall."""
    figure = blank_figure(70 + 46 * (len(terms) + 1), colors)
    figure.add_trace(
        type="waterfall",
        y=[*(escape_text(name).replace(" ", "<br>", 1) for name in terms), "Total"],
        x=np.array([*terms.values(), total]),
        orientation="h",
        measure=["relative"] * len(terms) + ["total"],
        text=[with_minus(text) for text in [*map("{:+.2f}".format, terms.values()), f"{total:.2f}"]],
        textposition="outside",
        textfont={"color": colors.ink},
        connector={"line": {"color": colors.muted, "width": 1, "dash": "dot"}},
        increasing={"marker": {"color": colors.terms[3]}},
        decreasing={"marker": {"color": colors.terms[5]}},
        totals={"marker": {"color": colors.muted}},
        hovertemplate="%{y}<br>%{text}<extra></extra>",
        cliponaxis=False,
        name="Terms",
    )
    steps = np.concatenate([[0.0], np.cumsum(list(terms.values())), [total]])
    low, high = steps.min(), steps.max()
    margin = 0.14 * max(high - low, 1e-6)
    figure.update_layout(hovermode="closest", showlegend=False, margin={"l": 108, "r": 28, "t": 10, "b": 36})
    figure.update_xaxes(
        range=[low - (margin if low < 0 else 0), high + margin], zeroline=True, zerolinecolor=colors.muted
    )
    return figure.update_yaxes(autorange="reversed", showgrid=False)
