"""The shared form of all charts: layout, panels, ticks, lines, short names. Reads no files.

Curves are SVG lines over the epoch; only a map of features is WebGL. Arrays stay NumPy, which is sent in binary. Every
figure has a height in pixels and a transparent background.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lps.charts.chart import Chart
from lps.charts.palette import Palette

PERCENT = ".1%"
_ROW_GAP = 0.055  # between stacked panels, share of the height
FEW_POINTS = 12_000  # in a chart of a third of the page's width, where more would overlap
FEW = 5  # whole numbers up to which each has its tick
LONGEST_NAME, _LETTERS_ABREAST = 16, 40  # letters of one class name, and of all below a chart of a third of the page
_FRONT = 5  # letters of a name that is cut before its end
_FLAT_NAMES = 28  # pixels below the bars for names that lie flat
SMALL = 300  # pixels of height of such a chart
MAX_IN_LEGEND = 24  # groups of points; more would cover them


@dataclass(frozen=True)
class Panel:
    """One of several stacked panels: title, share of the height, format and range (None: automatic) of the y axis."""

    title: str
    share: float
    tickformat: str = ""
    range: tuple[float, float] | None = None
    rangemode: str = "tozero"


def short_names(names: Sequence[str]) -> list[str]:
    """Return names of at most `LONGEST_NAME` letters: cut at the end, or before it where they begin alike.

    Of names that begin alike, the first letters stay and those from the first difference on.
    """
    groups: dict[str, set[str]] = {}
    for name in names:
        groups.setdefault(name[: LONGEST_NAME - 1], set()).add(name)
    return [_short_name(name, groups[name[: LONGEST_NAME - 1]]) for name in names]


def _short_name(name: str, same_start: set[str]) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    if len(same_start) == 1:
        return name[: LONGEST_NAME - 1] + "…"
    room = LONGEST_NAME - _FRONT - 1
    rest = name[min(len(os.path.commonprefix(sorted(same_start))), len(name) - room) :]
    return name[:_FRONT] + "…" + (rest if len(rest) <= room else rest[: room - 1] + "…")


def name_bars(figure: Chart, names: Sequence[str], positions: Sequence[int]) -> Chart:
    """Write class names below the bars at `positions`; upright, in a taller figure, if they do not fit side by side."""
    all_short = short_names(names)
    short = {i: all_short[i] for i in positions}
    longest = max(map(len, short.values()), default=0)
    is_upright = sum(len(name) + 1 for name in short.values()) > _LETTERS_ABREAST
    bottom_margin = round(14 + 7.4 * longest) if is_upright else _FLAT_NAMES
    text = [escape_text(name) for name in short.values()]
    figure.update_xaxes(tickvals=list(positions), ticktext=text, tickangle=-90 if is_upright else 0)
    return figure.update_layout(margin={"b": bottom_margin}, height=figure.height + bottom_margin - _FLAT_NAMES)


def add_side_bars(figure: Chart, values: np.ndarray, labels: list[str], name: str, colors: Palette, **options) -> None:
    """Add horizontal bars, the first at the bottom, with room for their labels. options: entries of the trace."""
    positions, marker = np.arange(len(labels)), {"color": colors.right, "line": {"width": 0}}
    options = {"marker": marker, "hovertemplate": "%{hovertext}<extra></extra>"} | options
    figure.add_trace(type="bar", x=values, y=positions, orientation="h", name=name, **options)
    figure.update_yaxes(tickvals=positions, ticktext=labels, showgrid=False, fixedrange=True)
    longest = max((len(line) for label in labels for line in label.split("<br>")), default=0)
    figure.update_layout(bargap=0.4, margin={"l": 16 + 7 * longest})


# ---------------------------------------------------------------------------------------------------- shared form


def escape_text(text: str) -> str:
    """Escape a text so that plotly shows it literally: no tags, no entities, no formula."""
    line = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return line.replace("$", "$\u200b")


def blank_figure(height: int, colors: Palette) -> Chart:
    """Return an empty figure with the layout that all charts share."""
    return Chart(_layout(height, colors))


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
        "template": {"data": {"scatter": [{"type": "scatter"}]}},
        "height": height,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": colors.ink, "size": 13},
        "hoverlabel": {"bgcolor": colors.surface, "bordercolor": colors.grid, "font": {"color": colors.ink}},
        "legend": legend,
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": colors.muted, "activecolor": colors.ink, "orientation": "v"},
        "margin": {"l": 52, "r": 40, "t": 36, "b": 40},
        "xaxis": axis,
        "yaxis": axis,
    }


def stacked_panels(panels: list[Panel], epochs: int, height: int, colors: Palette) -> Chart:
    """Return an empty figure of panels below each other that share the epoch axis, its cursor and one hover label."""
    layout = _layout(height, colors)
    room = 1 - _ROW_GAP * (len(panels) - 1)
    total_share = sum(panel.share for panel in panels)
    top, annotations, plain_axis = 1.0, [], layout["yaxis"]
    for row, panel in enumerate(panels, 1):
        bottom = top - room * panel.share / total_share
        ticks = 6 if panel.share / total_share > 0.4 else 4
        domain = [max(0, bottom), min(1, top)]
        axis = plain_axis | {"domain": domain, "tickformat": panel.tickformat, "nticks": ticks}
        axis |= {"range": list(panel.range)} if panel.range else {"rangemode": panel.rangemode}
        layout["yaxis" if row == 1 else f"yaxis{row}"] = axis
        title = {"text": panel.title, "font": {"color": colors.muted, "size": 13}, "showarrow": False, "xref": "paper"}
        annotations.append(title | {"yref": "paper", "x": 0, "xanchor": "left", "y": top, "yanchor": "bottom"})
        top = bottom - _ROW_GAP
    layout["annotations"] = annotations
    layout |= {"hovermode": "x unified", "hoversubplots": "axis", "spikedistance": -1, "hoverdistance": 40}
    layout["xaxis"] = layout["xaxis"] | {
        "anchor": "y" if len(panels) == 1 else f"y{len(panels)}",
        "range": [0, epochs + 0.4],
        "title": axis_title("Epoch", colors),
        **whole_ticks(epochs),
        "unifiedhovertitle": {"text": "Epoch %{x}"},
        "showspikes": True,
        "spikemode": "across",
        "spikesnap": "hovered data",
        "spikethickness": 1,
        "spikedash": "solid",
        "spikecolor": colors.muted,
        "showgrid": False,
    }
    return Chart(layout)


def whole_ticks(span: float) -> dict:
    """Return the ticks of an axis of whole numbers, such as epochs: whole at first, and none twice after zooming in."""
    return {"tickformat": "~f"} | ({"tick0": 0, "dtick": 1} if span <= FEW else {})


def with_legend_below(figure: Chart) -> Chart:
    """Place the legend below the epoch axis, with room for many or long names."""
    figure.update_layout(legend={"x": 0, "xanchor": "left", "y": -0.2, "yanchor": "top"})
    return figure.update_layout(margin={"t": 12, "b": 148, "autoexpand": False})


def add_line(
    figure: Chart,
    values: pd.Series,
    name: str,
    color: str,
    row: int,
    format: str,
    *,
    width: float = 2.0,
    dash: str = "solid",
    legend: bool = True,
    **options,
) -> None:
    """Add a curve over the epochs in panel `row`; a single value is a dot."""
    if not len(values):
        return
    mode = options.pop("mode", "lines" if len(values) > 1 else "markers")
    figure.add_trace(
        x=values.index.to_numpy(np.int32),
        y=values.to_numpy(np.float64),
        name=name,
        mode=mode,
        line={"color": color, "width": width, "dash": dash},
        marker={"color": color, "size": 6},
        yaxis="y" if row == 1 else f"y{row}",
        showlegend=legend,
        hovertemplate="%{y:" + format + "}",
        **options,
    )


def axis_title(text: str, colors: Palette, standoff: int = 4) -> dict:
    return {"text": text, "font": {"color": colors.muted, "size": 12}, "standoff": standoff}
