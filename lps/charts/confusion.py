"""The confusion matrix of clusters and true classes; each cell opens its images."""

from collections.abc import Sequence

import numpy as np

from lps.analysis.clusters import Cluster
from lps.charts import figures
from lps.charts.chart import Chart
from lps.charts.palette import Palette

_FEW = 24  # rows or columns up to which all have names, and cells show their counts
_CELL = 30  # pixels
_MAX_PIXELS = 760


def row_order(clusters: Sequence[Cluster]) -> list[int]:
    """Return positions of the clusters by matched class, unmatched ones last, so that the matrix has a diagonal."""
    return sorted(range(len(clusters)), key=lambda i: (clusters[i].matched < 0, clusters[i].matched, clusters[i].id))


def figure(
    counts: np.ndarray, rows: Sequence[str], columns: Sequence[str], seen: int, colors: Palette, marked_cell=None
) -> Chart:
    """Draw counts (clusters, classes), coloured by the share of each cluster.

    A cell's customdata is row * number of classes + class id. seen: classes left of the line. marked_cell: the (row,
    class id or None) to frame.
    """
    height, width = counts.shape
    sizes = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, sizes, out=np.zeros(counts.shape), where=sizes > 0)
    pixels = min(_MAX_PIXELS, max(200, _CELL * height))
    chart = figures.blank_figure(pixels, colors)
    rows, columns = [figures.escape_text(text) for text in rows], [figures.escape_text(text) for text in columns]
    names = np.array([[f"{row}, of class {column}" for column in columns] for row in rows])
    is_small = max(height, width) <= _FEW
    chart.add_trace(
        type="heatmap",
        z=shares,
        zmin=0,
        zmax=1,
        colorscale=[[0, colors.surface], [1, colors.seen]],
        customdata=np.arange(height * width).reshape(height, width),
        text=np.where(counts > 0, np.char.mod("%d", counts), "") if is_small else None,
        texttemplate="%{text}" if is_small else None,
        hovertext=np.char.add(names, np.char.mod("<br>%d images", counts)),
        hovertemplate="%{hovertext}, %{z:.0%} of the cluster<extra></extra>",
        xgap=1 if is_small else 0,
        ygap=1 if is_small else 0,
        showscale=False,
        name="Images",
    )
    _name_axes(chart, rows, columns, colors)
    _add_lines(chart, height, width, seen, colors, marked_cell)
    top_margin = _top_margin(columns)
    chart.update_layout(
        height=pixels + top_margin + 12, margin={"l": _left_margin(rows), "r": 16, "t": top_margin, "b": 12}
    )
    return chart.update_layout(hovermode="closest")


def _name_axes(chart: Chart, rows: list[str], columns: list[str], colors: Palette) -> None:
    for update, names, text in ((chart.update_xaxes, columns, "True class"), (chart.update_yaxes, rows, "Cluster")):
        step = 1 if len(names) <= _FEW else -(-len(names) // _FEW)
        tick_positions = np.arange(0, len(names), step)
        all_short = figures.short_names(names)
        short = [all_short[i] for i in tick_positions]
        limits = [-0.5, len(names) - 0.5]
        title = figures.axis_title(text, colors)
        update(tickvals=tick_positions, ticktext=short, showgrid=False, title=title, range=limits)
    chart.update_xaxes(side="top", tickangle=-45 if _have_long_names(columns) else 0)
    chart.update_yaxes(range=[len(rows) - 0.5, -0.5])


def _have_long_names(columns: list[str]) -> bool:
    return max(map(len, columns), default=0) > 4


def _top_margin(columns: list[str]) -> int:
    """Return the pixels for the names of the columns; long names are drawn at an angle."""
    return 46 + (5 * min(16, max(map(len, columns))) if _have_long_names(columns) else 0)


def _left_margin(rows: list[str]) -> int:
    """Return the pixels for the names of the rows."""
    return 40 + 7 * min(16, max(map(len, rows), default=0))


def _add_lines(chart: Chart, height: int, width: int, seen: int, colors: Palette, marked_cell) -> None:
    if 0 < seen < width:
        line = {"color": colors.muted, "width": 1.2, "dash": "dot"}
        chart.add_shape(type="line", x0=seen - 0.5, x1=seen - 0.5, y0=-0.5, y1=height - 0.5, line=line)
    frame = {"color": colors.grid, "width": 1}
    chart.add_shape(type="rect", x0=-0.5, x1=width - 0.5, y0=-0.5, y1=height - 0.5, line=frame)
    if marked_cell is not None:
        row, column = marked_cell
        left, right = (-0.5, width - 0.5) if column is None else (column - 0.5, column + 0.5)
        ink = {"color": colors.ink, "width": 2}
        chart.add_shape(type="rect", x0=left, x1=right, y0=row - 0.5, y1=row + 0.5, line=ink)
