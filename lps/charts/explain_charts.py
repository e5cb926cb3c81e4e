"""The figures of the Explain page: bars of classes, thresholds over a run, terms that add up. Arrays in, figures out.

Axes keep their range while a slider moves, so that bars grow and shrink instead of the numbers beside them.
"""

import math

import numpy as np
import pandas as pd

from lps.charts import class_bars
from lps.charts.chart import Chart
from lps.charts.figures import blank, name_bars, plain, whole_ticks
from lps.charts.palette import Palette
from lps.scores.purity import Adoption

SORTED_FROM = 24  # with more classes, bars are sorted by size within their group and have no names below
_SHOWN = 10  # bars of one image: the target, the strongest others, and the rest together
_STEPS = (1, 2, 3, 4, 6, 8, 10)  # where a vertical axis may end, times a power of ten


def top_of(values, least: float = 0.0) -> float:
    """The next round number from the largest of the values up: the same one for values that are close."""
    largest = max(float(np.max(values, initial=0.0)), least)
    if largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in _STEPS if step * power >= largest * 0.999)


def order(values: np.ndarray, seen: int) -> np.ndarray:
    """Class ids as they stand side by side: seen first; many classes by value, largest first within their group."""
    ids = np.arange(len(values))
    if len(values) <= SORTED_FROM:
        return ids
    groups = ids[:seen], ids[seen:]
    return np.concatenate([group[np.argsort(-np.asarray(values)[group], kind="stable")] for group in groups])


# ---------------------------------------------------------------------------------------------------- classes


def shares(
    values: np.ndarray,
    seen: int,
    names: list[str],
    colors: Palette,
    height: int = 300,
    prior: np.ndarray | None = None,
) -> Chart:
    """The class distribution as bars, the prior (None: equal shares) as a dashed line."""
    class_order = order(values, seen)
    figure = _class_bars(values, class_order, seen, names, colors, height, "%{y:.1%} of the guesses")
    sorted_prior = None if prior is None or len(prior) != len(values) else np.asarray(prior)[class_order]
    figure.add_trace(**class_bars.target_line(sorted_prior, len(values), "Prior", colors))
    top = top_of(values if sorted_prior is None else np.concatenate([values, sorted_prior]), 2 / len(values))
    return figure.update_yaxes(range=[0, top * 1.04], tickformat=".0%" if top > 0.05 else ".1%")


def margins(
    values: np.ndarray, distribution: np.ndarray, recorded: np.ndarray | None, seen: int, names, colors: Palette
) -> Chart:
    """The margin of every class in the order of `shares`; recorded: what a run had, as rings, or a line."""
    class_order = order(distribution, seen)
    figure = _class_bars(values, class_order, seen, names, colors, 300, "margin +%{y:.3f}")
    highest = values if recorded is None else np.concatenate([values, recorded])
    if recorded is not None:
        ring = {"symbol": "circle-open", "size": 8, "color": colors.ink, "line": {"width": 1.6}}
        hover = "recorded +%{y:.3f}<extra></extra>"
        form = {"mode": "markers", "marker": ring}
        if len(class_order) > SORTED_FROM:
            form = {"mode": "lines", "line": {"color": colors.ink, "width": 1.6, "shape": "hvh"}}
        x, y = np.arange(len(class_order)), np.asarray(recorded, np.float64)[class_order]
        figure.add_trace(x=x, y=y, name="Recorded", hovertemplate=hover, **form)
    return figure.update_yaxes(range=[0, top_of(highest, 0.5) * 1.04])


def pulls(kept_shares: np.ndarray, distribution: np.ndarray, seen: int, names: list[str], colors: Palette) -> Chart:
    """The share of the training pull that every class keeps, in the order of `shares`."""
    figure = _class_bars(kept_shares, order(distribution, seen), seen, names, colors, 240, "keeps %{y:.0%} of its pull")
    return figure.update_yaxes(range=[0, 1.04], tickformat=".0%")


def _class_bars(values, class_order, seen: int, names, colors: Palette, height: int, hover: str) -> Chart:
    figure = blank(height, colors)
    class_bars.add_bars(figure, np.asarray(values, np.float64), class_order, seen, names, colors, hover)
    return _named(figure, [names[i] for i in class_order])


def _named(figure: Chart, names: list[str]) -> Chart:
    """Bars with their names below, where there is room for them."""
    are_named = len(names) <= SORTED_FROM
    figure.update_layout(bargap=0.22 if are_named else 0.08, hovermode="closest", showlegend=False)
    figure.update_layout(margin={"l": 48, "r": 28, "t": 10})
    figure.update_xaxes(showgrid=False, range=[-0.6, len(names) - 0.4])
    return name_bars(figure, names, range(len(names) if are_named else 0))


# ---------------------------------------------------------------------------------------------------- one image


def strongest(target: int, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(class ids with a bar of their own, ascending, those that share a bar): the target and the largest others."""
    if len(logits) <= _SHOWN + 2:
        return np.arange(len(logits)), np.zeros(0, np.int64)
    ranked = np.argsort(-np.asarray(logits), kind="stable")
    own_bars = np.sort(np.concatenate([[target], ranked[ranked != target][: _SHOWN - 1]]))
    return own_bars, np.setdiff1d(np.arange(len(logits)), own_bars)


def image(
    without: np.ndarray, with_margin: np.ndarray, own_and_rest: tuple, target: int, seen: int, names, colors: Palette
) -> Chart:
    """The probabilities of one image, without the margin (framed) and with it (in the colour of the group)."""
    figure = _pairs(without, with_margin, own_and_rest, target, seen, names, colors)
    return figure.update_yaxes(range=[0, 1.04], tickformat=".0%")


def pushes(
    without: np.ndarray, with_margin: np.ndarray, own_and_rest: tuple, target: int, seen: int, names, colors: Palette
) -> Chart:
    """Where training moves the logits of one image, and how hard, without the margin and with it."""
    figure = _pairs(without, with_margin, own_and_rest, target, seen, names, colors)
    low = max(-without.min(), -without[own_and_rest[1]].sum())
    return figure.update_yaxes(range=[-top_of([low], 0.2) * 1.04, 1.04], zeroline=True, zerolinecolor=colors.muted)


def _pairs(without, with_margin, own_and_rest: tuple, target: int, seen: int, names, colors: Palette) -> Chart:
    own_bars, merged = own_and_rest
    words = [names[i] for i in own_bars] + ([f"{len(merged)} others"] if len(merged) else [])
    with_color = [colors.seen if i < seen else colors.novel for i in own_bars] + [colors.muted] * (len(merged) > 0)
    figure = blank(240, colors)
    for name, values, color in (("without", without, colors.grid), ("with", with_margin, with_color)):
        heights = np.concatenate([values[own_bars], [values[merged].sum()] if len(merged) else []])
        edge = {"color": colors.muted, "width": 1 if name == "without" else 0}
        text = [
            plain(word) + (", the right class" if i < len(own_bars) and own_bars[i] == target else "")
            for i, word in enumerate(words)
        ]
        hover = "%{text}<br>%{y:.3f}<extra>" + name + " margin</extra>"
        bars = {"text": text, "textposition": "none", "hovertemplate": hover, "marker": {"color": color, "line": edge}}
        figure.add_trace(type="bar", x=np.arange(len(words)), y=heights, name=name, **bars)
    figure.update_layout(barmode="group", bargroupgap=0.05)
    _named(figure, words)
    return figure.update_layout(bargap=0.25)


# ---------------------------------------------------------------------------------------------------- thresholds


def thresholds(
    threshold_by_group: dict[str, pd.Series], passed: dict[str, pd.Series], now: float, end: float, colors: Palette
) -> Chart:
    """Draw the required confidence (lines) and the share of images that reach it (dots) over the epochs.

    threshold_by_group, passed: by group "seen", "novel"; index epoch, or without a run its progress (then end is 1).
    now: epoch or progress of the vertical mark.
    """
    figure = blank(320, colors)
    for group in ("seen", "novel"):
        color = getattr(colors, group)
        for values, word, form in (
            (threshold_by_group.get(group), "threshold for", {"mode": "lines", "line": {"color": color, "width": 2.4}}),
            (passed.get(group), "passing,", {"mode": "lines", "line": {"color": color, "width": 1.6, "dash": "dot"}}),
        ):
            if values is not None and len(values):
                x, y = values.index.to_numpy(np.float64), values.to_numpy(np.float64)
                name = f"{word.capitalize()} {group}"
                figure.add_trace(x=x, y=y, name=name, hovertemplate="%{y:.1%}", **form)
    is_share = end <= 1
    mark = {"type": "line", "x0": now, "x1": now, "y0": 0, "y1": 1, "yref": "paper"}
    figure.update_layout(shapes=[mark | {"line": {"color": colors.ink, "width": 1.4}}])
    legend = {"x": 0, "xanchor": "left", "y": -0.2, "yanchor": "top"}
    figure.update_layout(hovermode="x unified", legend=legend, showlegend=True, margin={"t": 10, "b": 92})
    axis_title = {
        "text": "Progress of the run" if is_share else "Epoch",
        "font": {"color": colors.muted, "size": 12},
    }
    low = 0 if is_share else 1
    room = (end - low) * 0.01
    form = {"tickformat": ".0%"} if is_share else whole_ticks(end)
    figure.update_xaxes(**form, range=[low - room, end + room], title=axis_title, showgrid=False)
    return figure.update_yaxes(range=[0, 1.04], tickformat=".0%")


def passing(groups: dict[str, Adoption], colors: Palette) -> Chart:
    """For each predicted group, the shares that pass and are right, pass and are wrong, pass unjudged, and wait."""
    figure = blank(190, colors)
    names = [f"Predicted {group}" for group in groups]
    counts = {
        "Above the threshold, correct": ([adoption.right for adoption in groups.values()], colors.right),
        "Above the threshold, wrong": ([adoption.wrong for adoption in groups.values()], colors.wrong),
        "Above the threshold, true class unknown": (
            [f.passing - f.right - f.wrong for f in groups.values()],
            colors.muted,
        ),
        "Below the threshold": ([adoption.images - adoption.passing for adoption in groups.values()], colors.grid),
    }
    sizes = np.array([max(1, adoption.images) for adoption in groups.values()])
    for word, (count, color) in counts.items():
        if any(count):
            figure.add_trace(
                type="bar",
                y=names,
                x=np.array(count) / sizes,
                name=word,
                orientation="h",
                marker={"color": color, "line": {"width": 0}},
                customdata=np.array(count),
                hovertemplate="%{customdata} images, %{x:.1%}<extra>" + word + "</extra>",
            )
    legend = {"x": 0, "xanchor": "left", "y": -0.22, "yanchor": "top", "traceorder": "normal"}
    figure.update_layout(barmode="stack", bargap=0.3, hovermode="closest", legend=legend, showlegend=True)
    figure.update_layout(margin={"l": 96, "r": 28, "t": 8, "b": 74})
    figure.update_xaxes(range=[0, 1], tickformat=".0%")
    return figure.update_yaxes(autorange="reversed", showgrid=False)


# ---------------------------------------------------------------------------------------------------- objective


def waterfall(terms: dict[str, float], total: float, colors: Palette) -> Chart:
    """Terms of the objective one after the other, each from where the one before ends, and what they add up to."""
    figure = blank(70 + 46 * (len(terms) + 1), colors)
    figure.add_trace(
        type="waterfall",
        y=[*(plain(name).replace(" ", "<br>", 1) for name in terms), "Total"],
        x=np.array([*terms.values(), total]),
        orientation="h",
        measure=["relative"] * len(terms) + ["total"],
        text=[f"{value:+.2f}" for value in terms.values()] + [f"{total:.2f}"],
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
    room = 0.14 * max(high - low, 1e-6)
    figure.update_layout(hovermode="closest", showlegend=False, margin={"l": 108, "r": 28, "t": 10, "b": 36})
    figure.update_xaxes(range=[low - (room if low < 0 else 0), high + room], zeroline=True, zerolinecolor=colors.muted)
    return figure.update_yaxes(autorange="reversed", showgrid=False)
