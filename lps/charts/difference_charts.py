"""Differences between groups with their intervals: a line through zero, and which of them stay on one side of it."""

import textwrap
from collections.abc import Sequence

import numpy as np

from lps.analysis import differences
from lps.analysis.differences import Difference, GroupComparison
from lps.charts import figures
from lps.charts.chart import Chart
from lps.charts.palette import Palette

_ROW = 30  # pixels of a group
_LETTERS = 22  # of a line of a group's label: a phone has room for them beside the chart
_LINE = 15  # pixels of each further line
_LETTER = 7.2  # pixels
_LOWEST = 190  # pixels: the buttons of the chart stand below each other; in a lower one they cover the legend
_CLEAR, _OPEN, _ALONE = "Distinguishable", "Not distinguishable", "No interval"
_SYMBOLS = {_CLEAR: "circle", _OPEN: "circle-open", _ALONE: "x-thin-open"}


def intervals(comparison: GroupComparison, column: str, colors: Palette) -> Chart:
    """One row a group: its difference in points, its interval as a bar; filled where that tells them apart."""
    rows = [(row, comparison.found[row, column]) for row in comparison.rows if (row, column) in comparison.found]
    references = [comparison.references[row].label for row, _ in rows]
    names = [_lines(name) for name in _apart([comparison.groups[row].label for row, _ in rows], references)]
    row_height = _ROW + _LINE * (max(map(len, names), default=1) - 1)
    figure = figures.blank(max(_LOWEST, row_height * len(rows) + 78), colors)
    for kind in _SYMBOLS:
        part = [(i, row, d) for i, (row, d) in enumerate(rows) if _kind(d) == kind]
        if part:
            figure.add_trace(**_points(comparison, part, kind, colors))
    figure.add_upright(0, line={"color": colors.muted, "width": 1.5})
    title = {"text": "Points", "font": {"color": colors.muted, "size": 12}, "standoff": 4}
    figure.update_xaxes(title=title, range=_range([difference for _, difference in rows]), tickformat="~g")
    figure.update_yaxes(
        tickvals=np.arange(len(rows)), ticktext=["<br>".join(map(figures.plain, lines)) for lines in names]
    )
    figure.update_yaxes(range=[len(rows) - 0.5, -0.5], showgrid=False, fixedrange=True)
    room = round(18 + _LETTER * max((len(line) for lines in names for line in lines), default=0))
    return figure.update_layout(hovermode="closest", margin={"l": room, "r": 24, "t": 30, "b": 48})


def _points(
    comparison: GroupComparison, part: Sequence[tuple[int, int, Difference]], kind: str, colors: Palette
) -> dict:
    """The groups of one of `_SYMBOLS`."""
    color = colors.ink if kind == _CLEAR else colors.muted
    reach = [100 * (difference.high - difference.mean) for _, _, difference in part]
    return dict(
        x=np.array([100 * difference.mean for _, _, difference in part], np.float64),
        y=np.array([position for position, _, _ in part], np.int64),
        error_x=None if kind == _ALONE else {"array": np.array(reach), "color": color, "thickness": 2, "width": 5},
        mode="markers",
        marker={"color": color, "size": 10, "symbol": _SYMBOLS[kind], "line": {"width": 2}},
        name=kind,
        showlegend=True,
        text=[_hover(comparison, row, difference) for _, row, difference in part],
        hovertemplate="%{text}<extra></extra>",
    )


def _kind(difference: Difference) -> str:
    if not difference.has_interval:
        return _ALONE
    return _CLEAR if difference.is_distinguishable else _OPEN


def _hover(comparison: GroupComparison, row: int, difference: Difference) -> str:
    head = f"{comparison.groups[row].label} minus {comparison.references[row].label}"
    return "<br>".join(
        map(figures.plain, [head, differences.format_difference(difference), differences.verdict(difference)])
    )


def _apart(labels: Sequence[str], references: Sequence[str] = ()) -> list[str]:
    """Return the labels without the words that all of them and their references have.

    What is left tells the groups apart, and names every setting in which a group differs from its reference.
    """
    parts = [label.split(", ") for label in labels]
    common = set(parts[0]).intersection(*parts[1:]) if len(parts) > 1 else set()
    common.intersection_update(*(label.split(", ") for label in references))
    distinct_words = [", ".join(word for word in words if word not in common) for words in parts]
    return [short or label for short, label in zip(distinct_words, labels)]


def _lines(label: str) -> list[str]:
    """Break a label into lines of at most `_LETTERS` letters; a longer word is cut and ends with "…"."""
    lines = textwrap.wrap(label, _LETTERS, break_long_words=False, break_on_hyphens=False)
    return [line if len(line) <= _LETTERS else line[: _LETTERS - 1] + "…" for line in lines]


def _range(differences: Sequence[Difference]) -> list[float]:
    """From the lowest to the highest end, zero among them; an interval of two seeds may be cut at 100 points."""
    ends = [100 * value for d in differences for value in (d.mean, d.low, d.high) if value == value]
    low, high = max(-100.0, min([0.0, *ends])), min(100.0, max([0.0, *ends]))
    room = 0.06 * (high - low) or 1.0
    return [low - room, high + room]
