"""Differences between groups with their confidence intervals, around a line at zero."""

import math
import textwrap
from collections.abc import Sequence

import numpy as np

from lps.analysis import differences
from lps.analysis.differences import Difference, GroupComparison
from lps.charts import figures
from lps.charts.chart import Chart
from lps.charts.group_tables import group_label
from lps.charts.palette import Palette
from lps.wording import with_minus

_ROW = 30  # pixels per group
_LETTERS = 22  # of a line of a group's label: a phone has room for them beside the chart
_LINE = 15  # pixels of each further line
_LETTER = 7.2  # pixels
_LOWEST = 190  # pixels: the buttons of the chart stand below each other; in a lower one they cover the legend
_CLEAR, _OPEN, _ALONE = "Distinguishable", "Not distinguishable", "No interval"
_SYMBOLS = {_CLEAR: "circle", _OPEN: "circle-open", _ALONE: "x-thin-open"}


def intervals(comparison: GroupComparison, column: str, colors: Palette) -> Chart:
    """Draw one row per group: its difference in points with its interval; filled if it is distinguishable."""
    by_row = {row: comparison.differences.get((row, column)) for row in comparison.rows}
    rows = [(row, difference) for row, difference in by_row.items() if difference is not None]
    labels = [group_label(comparison.groups[row]) for row, _ in rows]
    references = [group_label(comparison.references[row]) for row, _ in rows]
    names = list(map(_break_label, _shorten_labels(labels, references)))
    row_height = _ROW + _LINE * (max(map(len, names), default=1) - 1)
    figure = figures.blank_figure(max(_LOWEST, row_height * len(rows) + 78), colors)
    for kind in _SYMBOLS:
        members = [(i, row, d) for i, (row, d) in enumerate(rows) if _interval_kind(d) == kind]
        if members:
            figure.add_trace(**_points(comparison, members, kind, colors))
    axis_range = _axis_range([difference for _, difference in rows])
    if cut_ends := _cut_ends([difference for _, difference in rows], axis_range):
        figure.add_trace(**_arrows(cut_ends, axis_range, colors))
    figure.add_upright(0, line={"color": colors.muted, "width": 1.5})
    title = figures.axis_title("Points", colors)
    figure.update_xaxes(title=title, range=axis_range, tickformat="~g")
    figure.update_yaxes(
        tickvals=np.arange(len(rows)), ticktext=["<br>".join(map(figures.escape_text, lines)) for lines in names]
    )
    figure.update_yaxes(range=[len(rows) - 0.5, -0.5], showgrid=False, fixedrange=True)
    room = round(18 + _LETTER * max((len(line) for lines in names for line in lines), default=0))
    return figure.update_layout(hovermode="closest", margin={"l": room, "r": 24, "t": 30, "b": 48})


def _points(
    comparison: GroupComparison, members: Sequence[tuple[int, int, Difference]], kind: str, colors: Palette
) -> dict:
    """Return the trace of the groups with one of `_SYMBOLS`."""
    color = colors.ink if kind == _CLEAR else colors.muted
    is_corrected = kind == _OPEN and any(d.is_distinguishable_alone for _, _, d in members)
    reach = [100 * (difference.high - difference.mean) for _, _, difference in members]
    return dict(
        x=np.array([100 * difference.mean for _, _, difference in members], np.float64),
        y=np.array([position for position, _, _ in members], np.int64),
        error_x=None if kind == _ALONE else {"array": np.array(reach), "color": color, "thickness": 2, "width": 5},
        mode="markers",
        marker={"color": color, "size": 10, "symbol": _SYMBOLS[kind], "line": {"width": 2}},
        name=kind + " after correction" * is_corrected,
        showlegend=True,
        text=[_hover_text(comparison, row, difference) for _, row, difference in members],
        hovertemplate="%{text}<extra></extra>",
    )


def _cut_ends(differences: Sequence[Difference], axis_range: Sequence[float]) -> list[tuple[int, int, float]]:
    """Return (position of the row, 0 at the left or 1 at the right, end in points) of intervals beyond the axis."""
    low, high = axis_range
    sides = [(d.low, d.high) for d in differences]
    ends = [(position, side, 100 * end) for position, both in enumerate(sides) for side, end in enumerate(both)]
    return [(position, side, end) for position, side, end in ends if end < low or end > high]


def _arrows(cut_ends: Sequence[tuple[int, int, float]], axis_range: Sequence[float], colors: Palette) -> dict:
    """Return the trace of arrows at the edges of the axis, where intervals go on."""
    inset = 0.01 * (axis_range[1] - axis_range[0])
    texts = [
        f"The interval goes on to {differences.format_points(end / 100, math.nan, math.nan)}" for *_, end in cut_ends
    ]
    return dict(
        x=np.array([axis_range[side] + (-inset if side else inset) for _, side, _ in cut_ends], np.float64),
        y=np.array([position for position, _, _ in cut_ends], np.int64),
        mode="markers",
        marker={
            "color": colors.muted,
            "size": 11,
            "symbol": [("triangle-left", "triangle-right")[side] for _, side, _ in cut_ends],
        },
        name="Interval goes on",
        showlegend=False,
        text=list(map(with_minus, texts)),
        hovertemplate="%{text}<extra></extra>",
    )


def _interval_kind(difference: Difference) -> str:
    if not difference.has_interval:
        return _ALONE
    return _CLEAR if difference.is_distinguishable else _OPEN


def _hover_text(comparison: GroupComparison, row: int, difference: Difference) -> str:
    title = f"{comparison.groups[row].label} minus {comparison.references[row].label}"
    number = with_minus(differences.format_difference(difference))
    lines = [title, number, differences.verdict(difference), f"Seeds: {comparison.seeds(row)}"]
    return "<br>".join(map(figures.escape_text, lines))


def _shorten_labels(labels: Sequence[str], references: Sequence[str] = ()) -> list[str]:
    """Return the labels without the parts that all of them and their references share.

    The remaining parts distinguish the groups and name every setting in which a group differs from its reference.
    """
    words_by_label = [label.split(", ") for label in labels]
    common = set(words_by_label[0]).intersection(*words_by_label[1:]) if len(words_by_label) > 1 else set()
    common.intersection_update(*(label.split(", ") for label in references))
    distinct_labels = [", ".join(word for word in words if word not in common) for words in words_by_label]
    return [short or label for short, label in zip(distinct_labels, labels)]


def _break_label(label: str) -> list[str]:
    """Break a label into lines of at most `_LETTERS` letters; a longer word is cut and ends with "…"."""
    lines = textwrap.wrap(label, _LETTERS, break_long_words=False, break_on_hyphens=False)
    return [line if len(line) <= _LETTERS else line[: _LETTERS - 1] + "…" for line in lines]


def _axis_range(differences: Sequence[Difference]) -> list[float]:
    """Return the range from the lowest to the highest end, including zero and within ±100 points."""
    bounds = [100 * value for d in differences for value in (d.mean, d.low, d.high) if value == value]
    low, high = max(-100.0, min([0.0, *bounds])), min(100.0, max([0.0, *bounds]))
    room = 0.06 * (high - low) or 1.0
    return [low - room, high + room]
