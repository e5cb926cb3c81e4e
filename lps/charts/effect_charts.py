"""The figures of the Effects page: main effects, curves of a setting, the matrix of two, parallel coordinates."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lps.analysis import differences, run_groups, score_tables
from lps.analysis.effects import Importance, axis_scale
from lps.analysis.main_effects import MainEffect
from lps.analysis.paper_results import Row
from lps.analysis.run_groups import Group
from lps.analysis.run_scores import Scored, is_number
from lps.charts import figures
from lps.charts.chart import Chart
from lps.charts.palette import Palette, with_alpha
from lps.scores import estimates
from lps.settings.parameters import short_text
from lps.wording import counted, percent, with_minus

MEASURES = {
    "novel": "Novel accuracy",
    "seen": "Seen accuracy",
    "all": "Accuracy on all",
    "gap": "Gap, seen minus novel",
}
COLUMNS = ("seen", "novel", "all", "gap")
NAMES = {"novel": "Novel", "seen": "Seen", "all": "All", "gap": "Gap"}
_CURVES = ("seen", "novel", "all")
_FEW_TICKS = 12  # values up to which each has its own tick, and cells show their numbers
_MIN_TICK_DISTANCE = 0.05  # share of the axis
_MAX_TICKS = 24
_ROW, _SMALL_ROW = 62, 20  # pixels of a row of the matrix; of many
_BAR = 34  # pixels of a bar
_SMALL_EFFECT = 0.5  # points: an axis of smaller effects has ticks that the sentence rounds away
_PALEST = 0.4  # of the range of colours, below the lowest line
_EMPTY, _PENDING = "+", "…"


@dataclass(frozen=True)
class Axis:
    """The axis of a setting. kind: as returned by `effects.axis_scale`."""

    setting: str
    values: tuple
    kind: str

    @staticmethod
    def from_values(setting: str, values: Sequence) -> "Axis":
        return Axis(setting, tuple(values), axis_scale(values))

    def position_of(self, value) -> float:
        return float(self.values.index(value) if self.kind == "places" else value)

    @property
    def is_ordered(self) -> bool:
        """Whether values are numbers, so that a line may join neighbours."""
        return all(is_number(value) for value in self.values)

    @property
    def is_categorical(self) -> bool:
        """Whether values are at equal distances in parallel coordinates: text, and few numbers."""
        return len(self.values) <= _FEW_TICKS or not self.is_ordered

    def layout(self, colors: Palette) -> dict:
        title = figures.axis_title(figures.escape_text(self.setting), colors, 6)
        positions = [self.position_of(value) for value in self.values]
        ticks = {"tickvals": positions, "ticktext": [shorten_value(value) for value in self.values]}
        if len(positions) > _FEW_TICKS or self._are_crowded(positions):
            ticks = {}
        scale = "log" if self.kind == "log" else "linear"
        return {"title": title, "type": scale, "range": self._range(positions)} | ticks

    def _are_crowded(self, positions: list[float]) -> bool:
        """Whether the tick labels of two neighbours would overlap."""
        tick_positions = sorted(self._in_axis_units(positions))
        return any(
            second - first < _MIN_TICK_DISTANCE * (tick_positions[-1] - tick_positions[0])
            for first, second in pairwise(tick_positions)
        )

    def _in_axis_units(self, positions: list[float]) -> list[float]:
        return [math.log10(position) for position in positions] if self.kind == "log" else positions

    def _range(self, positions: list[float]) -> list[float]:
        tick_positions = self._in_axis_units(positions)
        margin = 0.06 * (max(tick_positions) - min(tick_positions)) or 0.5
        return [min(tick_positions) - margin, max(tick_positions) + margin]


# ---------------------------------------------------------------------------------------------------- one setting


def curves(
    axis: Axis, values: Sequence, groups: Mapping[object, Group], published: Mapping[float, Row], colors: Palette
) -> Chart:
    """Draw seen, novel and all accuracy by value with their spread, and the gap below.

    Lines join neighbours among `values`; a value without runs interrupts the line. Small dots are single runs.
    groups: value -> its runs. published: value -> row of the paper.
    """
    figure = figures.blank_figure(470, colors)
    for measure in _CURVES:
        color = getattr(colors, measure)
        _add_runs(figure, axis, groups, measure, color)
        _add_means(figure, axis, values, groups, measure, color)
        _add_published(figure, axis, published, measure, color)
    _add_runs(figure, axis, groups, "gap", colors.ink)
    _add_means(figure, axis, values, groups, "gap", colors.ink)
    figure.update_xaxes(**axis.layout(colors), anchor="y2", showgrid=False)
    plain = figure.layout["yaxis"]
    zero = {"zeroline": True, "zerolinecolor": colors.muted}
    figure.update_layout(
        yaxis=plain | {"domain": [0.38, 1], "tickformat": f".{_digits(groups, _CURVES)}%"},
        yaxis2=plain | {"domain": [0, 0.28], "tickformat": f".{_digits(groups, ['gap'])}f"} | zero,
        hovermode="closest",
        annotations=[_heading("Accuracy", 1, colors), _heading(_axis_title("gap"), 0.28, colors)],
    )
    return figure


def _axis_factor(measure: str) -> int:
    """Return the factor of a share on an axis: a gap is in points, and plotly converts other shares to percent."""
    return 100 if measure == "gap" else 1


def _axis_title(measure: str) -> str:
    """Return the title of the axis of a measure."""
    return f"{MEASURES[measure]}, points" if measure == "gap" else MEASURES[measure]


def _measure_color(measure: str, colors: Palette) -> str:
    """Return the colour of a measure, the same in all charts."""
    return colors.ink if measure == "gap" else getattr(colors, measure)


def _digits(groups: Mapping[object, Group], measures: Sequence[str]) -> int:
    """Return the decimals of percent or points that tell about eight ticks apart; one if all runs are equal."""
    values = [member.value(m) for m in measures for group in groups.values() for member in group.members]
    values = [value for value in values if not math.isnan(value)] or [0, 1]
    span = max(values) - min(values)
    return max(0, math.ceil(math.log10(0.08 / span))) if span > 0 else 1


def _heading(text: str, top: float, colors: Palette) -> dict:
    text_position = {"xref": "paper", "yref": "paper", "x": 0, "xanchor": "left", "y": top, "yanchor": "bottom"}
    return text_position | {"text": text, "showarrow": False, "font": {"color": colors.muted, "size": 13}}


def _add_means(
    figure: Chart, axis: Axis, values: Sequence, groups: Mapping[object, Group], measure: str, color: str
) -> None:
    """Add one point per value with ± one standard deviation; NaN without runs, which interrupts the line."""
    unit = _axis_factor(measure)
    means = [unit * groups[value].mean(measure) if value in groups else math.nan for value in values]
    spread = [unit * groups[value].std(measure) if value in groups else math.nan for value in values]
    figure.add_trace(
        x=np.array([axis.position_of(value) for value in values]),
        y=np.array(means, np.float64),
        error_y={"array": np.nan_to_num(spread), "color": color, "thickness": 1.5, "width": 5},
        name=NAMES[measure],
        mode="lines+markers" if axis.is_ordered else "markers",
        connectgaps=False,
        line={"color": color, "width": 2},
        marker={"color": color, "size": 9},
        yaxis="y2" if measure == "gap" else "y",
        showlegend=measure != "gap",
        legendgroup=measure,
        text=[_hover_text(axis.setting, value, groups.get(value), measure) for value in values],
        hovertemplate="%{text}<extra></extra>",
    )


def _add_runs(figure: Chart, axis: Axis, groups: Mapping[object, Group], measure: str, color: str) -> None:
    """Add a dot for every run of the groups with several runs."""
    repeated_groups = [(value, group) for value, group in groups.items() if len(group.members) > 1]
    points = [
        (axis.position_of(value), member.value(measure)) for value, group in repeated_groups for member in group.members
    ]
    x, y = np.array(points, np.float64).reshape(-1, 2).T * [[1], [_axis_factor(measure)]]
    marker = {"color": with_alpha(color, 0.45), "size": 5}
    shared = {"mode": "markers", "hoverinfo": "skip", "showlegend": False, "legendgroup": measure}
    panel = "y2" if measure == "gap" else "y"
    figure.add_trace(x=x, y=y, marker=marker, yaxis=panel, name=f"{NAMES[measure]}, runs", **shared)


def _add_published(figure: Chart, axis: Axis, published: Mapping[float, Row], measure: str, color: str) -> None:
    if not published:
        return
    values = sorted(published)
    figure.add_trace(
        x=np.array([axis.position_of(value) for value in values]),
        y=np.array([getattr(published[value], measure) for value in values], np.float64) / 100,
        name=f"{NAMES[measure]}, paper",
        mode="lines+markers",
        line={"color": color, "width": 1.2, "dash": "dot"},
        marker={"color": color, "size": 8, "symbol": "diamond-open"},
        hovertemplate=f"paper, {NAMES[measure].lower()} %{{y:.1%}}<extra></extra>",
    )


def _hover_text(setting: str, value, group: Group | None, measure: str) -> str:
    if group is None:
        return ""
    title = figures.escape_text(run_groups.setting_in_words(setting, value))
    unit = "points" if measure == "gap" else "%"
    return f"{title}<br>{NAMES[measure]} {score_tables.format_cell(group, measure)} {unit}, n = {len(group.members)}"


# ---------------------------------------------------------------------------------------------------- two settings


def matrix(
    rows: Axis,
    columns: Axis,
    groups: Mapping[tuple, Group],
    pending: set[tuple],
    measure: str,
    colors: Palette,
    marked_cell: tuple[int, int] | None = None,
) -> Chart:
    """Draw one cell per pair (value of rows, value of columns): mean and spread, or that it has no run.

    A cell's customdata is row * number of columns + column, which a click reports. pending: pairs
    without a number whose run is not over.
    """
    shape = len(rows.values), len(columns.values)
    pairs = [[(row, column) for column in columns.values] for row in rows.values]

    def cells(content: Callable[[tuple], object]) -> np.ndarray:
        return np.array([[content(pair) for pair in row_pairs] for row_pairs in pairs])

    means = cells(lambda pair: groups[pair].mean(measure) if pair in groups else np.nan)
    cell_texts = cells(lambda pair: _cell_text(groups.get(pair), pair in pending, measure))
    hints = cells(lambda pair: _cell_hint(rows, columns, pair, groups.get(pair), pair in pending))
    is_small = max(shape) <= _FEW_TICKS
    figure = figures.blank_figure(shape[0] * (_ROW if is_small else _SMALL_ROW) + 92, colors)
    shared = {"texttemplate": "%{text}" if is_small else None, "hovertext": hints}
    shared |= {"xgap": 2 if is_small else 1, "ygap": 2 if is_small else 1}
    shared |= {"hovertemplate": "%{hovertext}<extra></extra>", "showscale": False, "hoverongaps": False}
    shared["customdata"] = np.arange(means.size).reshape(shape)
    is_empty = np.isnan(means)
    figure.add_trace(type="heatmap", **_empty_cells(is_empty, cell_texts, colors), **shared)
    if not is_empty.all():
        figure.add_trace(type="heatmap", **shared | _full_cells(means, cell_texts, measure, colors))
    for update, axis in ((figure.update_xaxes, columns), (figure.update_yaxes, rows)):
        update(**_cell_axis(axis, colors))
    if is_empty.any():
        dashes = {"color": colors.muted, "width": 1, "dash": "dot"}
        figure.add_shape(type="path", path=_frames(is_empty), line=dashes)
    if marked_cell is not None:
        y, x = marked_cell
        frame = {"color": colors.ink, "width": 2}
        figure.add_shape(type="rect", x0=x - 0.5, x1=x + 0.5, y0=y - 0.5, y1=y + 0.5, line=frame)
    room = 34 + 8 * max(len(shorten_value(value)) for value in rows.values)
    return figure.update_layout(hovermode="closest", margin={"l": room + 14, "r": 12, "t": 34, "b": 58})


def _empty_cells(is_empty: np.ndarray, cell_texts: np.ndarray, colors: Palette) -> dict:
    """Return the trace of the cells without runs: transparent, so that they can be clicked."""
    trace = {"z": np.where(is_empty, 0.0, np.nan), "text": np.where(is_empty, cell_texts, ""), "zmin": 0, "zmax": 1}
    clear = "rgba(0,0,0,0)"
    trace |= {"colorscale": [[0, clear], [1, clear]], "textfont": {"color": colors.muted, "size": 15}}
    return trace | {"name": "Empty", "meta": "no values"}


def _frames(is_empty: np.ndarray) -> str:
    """Return an SVG path around each empty cell, a little inside it, so that neighbours do not touch."""
    half_size = 0.46
    corners = [(-half_size, -half_size), (half_size, -half_size), (half_size, half_size), (-half_size, half_size)]
    cells = np.argwhere(is_empty).tolist()
    return " ".join("M" + " L".join(f"{x + dx:g},{y + dy:g}" for dx, dy in corners) + " Z" for y, x in cells)


def _full_cells(means: np.ndarray, cell_texts: np.ndarray, measure: str, colors: Palette) -> dict:
    low, high = float(np.nanmin(means)), float(np.nanmax(means))
    tint = _measure_color(measure, colors)
    # a tinted ground only, so that text in ink is legible on every cell
    shades = [[0, with_alpha(tint, 0.12)], [1, with_alpha(tint, 0.55 if measure == "novel" else 0.45)]]
    trace = {"z": means, "text": np.where(np.isnan(means), "", cell_texts), "colorscale": shades}
    color_ticks = {"tickvals": [low, high], "ticktext": [f"{100 * low:.1f}", f"{100 * high:.1f}"]}
    trace |= {"showscale": True, "colorbar": {"thickness": 10, "outlinewidth": 0} | color_ticks}
    trace |= {"zmin": low, "zmax": high if high > low else low + 1e-6}
    return trace | {"name": NAMES[measure], "textfont": {"color": colors.ink, "size": 13}}


def _cell_axis(axis: Axis, colors: Palette) -> dict:
    tick_positions = np.arange(0, len(axis.values), -(-len(axis.values) // _MAX_TICKS))
    labels = [shorten_value(axis.values[position]) for position in tick_positions]
    ticks = {"tickvals": tick_positions, "ticktext": labels}
    axis_layout = {"title": axis.layout(colors)["title"], "showgrid": False, "fixedrange": True}
    return axis_layout | {"range": [-0.5, len(axis.values) - 0.5]} | ticks


def _cell_text(group: Group | None, is_waiting: bool, measure: str) -> str:
    if group is None:
        return _PENDING if is_waiting else _EMPTY
    return f"{score_tables.format_cell(group, measure)}<br>n = {len(group.members)}"


def _cell_hint(rows: Axis, columns: Axis, pair: tuple, group: Group | None, is_waiting: bool) -> str:
    title = "<br>".join(
        figures.escape_text(run_groups.setting_in_words(axis.setting, value))
        for axis, value in zip((rows, columns), pair)
    )
    if group is None:
        return f"{title}<br>{'in progress' if is_waiting else 'no run yet: click to see which runs would start'}"
    numbers = [f"{NAMES[measure]} {score_tables.format_cell(group, measure)}" for measure in NAMES]
    return "<br>".join([title, *numbers, f"n = {len(group.members)}"])


# ---------------------------------------------------------------------------------------------------- all settings


def parallel(scored: Sequence[Scored], varied: Mapping[str, list], measure: str, colors: Palette) -> Chart:
    """Draw one line per run through its varied settings to `measure` on the last axis, which also sets its colour."""
    numbers = _axis_factor(measure) * np.array([member.value(measure) for member in scored], np.float64)
    axes = [Axis(setting, tuple(values), "places") for setting, values in varied.items()]
    dimensions = [_dimension(axis, scored) for axis in axes]
    ticks = ".0f" if measure == "gap" else ".0%"
    dimensions.append({"label": figures.escape_text(_axis_title(measure)), "values": numbers, "tickformat": ticks})
    figure = figures.blank_figure(410, colors)
    low, high = (float(np.nanmin(numbers)), float(np.nanmax(numbers))) if len(numbers) else (0.0, 1.0)
    color_margin = (high - low) * _PALEST or 1e-6  # below the lowest run, so that its line is seen as well
    span = {"cmin": low - color_margin, "cmax": high}
    shades = [[0, colors.grid], [1, _measure_color(measure, colors)]]
    figure.add_trace(
        type="parcoords",
        line={"color": numbers, "colorscale": shades, **span},
        dimensions=dimensions,
        labelangle=-20,  # so that long names stay apart on a phone
        labelfont={"color": colors.ink, "size": 12},
        tickfont={"color": colors.ink, "size": 12},
        rangefont={"color": colors.muted, "size": 11},
        name="Runs",
    )
    return figure.update_layout(margin={"l": 64, "r": 76, "t": 84, "b": 28})


def _dimension(axis: Axis, scored: Sequence[Scored]) -> dict:
    """Return an axis of parallel coordinates: text and few values at equal distances, many numbers to scale."""
    values = [member.config.flat()[axis.setting] for member in scored]
    label = {"label": figures.escape_text(axis.setting)}
    if not axis.is_categorical:
        return label | {"values": np.array(values, np.float64)}
    positions = np.arange(len(axis.values))
    labels = [shorten_value(value) for value in axis.values]
    run_positions = np.array([axis.values.index(value) for value in values])
    ticks = {"range": [0, len(positions) - 1], "tickvals": positions, "ticktext": labels}
    return label | {"values": run_positions} | ticks


def importance(importances: Sequence[Importance], colors: Palette) -> Chart:
    """Draw the share of each setting as a bar, the largest on top; a tick marks the mean share without any effect."""
    items = list(reversed(importances))
    names = [figures.escape_text(item.setting) for item in items]
    labels = [f"{name} · {percent(item.share)}" for name, item in zip(names, items)]
    figure = figures.blank_figure(_BAR * len(items) + 76, colors)
    hover = [f"{name}, {item.values} values<br>{percent(item.share, 1)}" for name, item in zip(names, items)]
    shares = np.array([item.share for item in items])
    figures.add_side_bars(figure, shares, labels, "Share", colors, hovertext=hover)
    marker = {"symbol": "line-ns-open", "size": 18, "color": colors.ink, "line": {"width": 2, "color": colors.ink}}
    chance = np.array([item.chance for item in items])
    hover = "by chance, without any effect: %{x:.0%} on average<extra></extra>"
    positions = np.arange(len(items))
    figure.add_trace(x=chance, y=positions, mode="markers", marker=marker, name="Chance", hovertemplate=hover)
    figure.update_xaxes(range=[0, 1.02], tickvals=[0, 0.25, 0.5, 0.75, 1], tickformat=".0%", fixedrange=True)
    return figure.update_layout(hovermode="closest", margin={"r": 30, "t": 34, "b": 32})


def main_effects(effects: Sequence[MainEffect], colors: Palette) -> Chart:
    """Draw the main effect of each setting in points as a bar with its interval and both in numbers, largest on top."""
    items = list(reversed(effects))
    names = [
        f"{figures.escape_text(item.setting)}<br>{shorten_value(item.before)} → {shorten_value(item.after)}"
        for item in items
    ]
    points = np.array([100 * item.difference for item in items])
    has_interval = any(item.seeds > 1 for item in items)
    reach = np.array([100 * item.half_width for item in items])  # NaN draws no interval
    average_texts = [f"mean over {counted(item.contexts, 'combination')} of the other settings" for item in items]
    hover = [
        f"{name}<br>{effect_in_points(item)}<br>{average_text}"
        for name, item, average_text in zip(names, items, average_texts)
    ]
    figure = figures.blank_figure((_BAR + 26) * len(items) + 96, colors)
    bar = {"array": reach, "color": colors.ink, "thickness": 1.5, "width": 5, "visible": has_interval}
    figures.add_side_bars(figure, points, names, "Main effect", colors, error_x=bar, hovertext=hover)
    above_bar = {"xref": "paper", "x": 0, "xanchor": "left", "yanchor": "bottom", "showarrow": False}
    for position, item in enumerate(items):
        low, high = item.difference - item.half_width, item.difference + item.half_width
        text = with_minus(differences.format_points(item.difference, low, high))
        figure.add_annotation(y=position + 0.28, text=text, font={"color": colors.ink, "size": 12}, **above_bar)
    title = {"text": "Points", "font": {"size": 12}}
    farthest = float(np.nanmax(np.abs(points) + np.nan_to_num(reach)))
    ticks = {"tickformat": ".1~f"} | ({"range": [-0.55, 0.55], "dtick": 0.5} if farthest < _SMALL_EFFECT else {})
    figure.update_xaxes(title=title, fixedrange=True, zeroline=True, zerolinecolor=colors.muted, **ticks)
    tools = {"orientation": "h"}  # above the bars, not on them
    return figure.update_layout(hovermode="closest", margin={"r": 30, "t": 34, "b": 48}, modebar=tools)


def effect_in_points(effect: MainEffect) -> str:
    """Format as "+19.3 points, ... interval 15.0 to 23.6"; without an interval for one seed."""
    sentence = f"{100 * effect.difference:+.1f} points"
    if not math.isnan(effect.half_width):
        low, high = effect.difference - effect.half_width, effect.difference + effect.half_width
        sentence += f", {estimates.INTERVAL} {100 * low:.1f} to {100 * high:.1f}"
    return with_minus(sentence)


def shorten_value(value) -> str:
    """Format a value for an axis: floats with few digits, long text cut."""
    text = figures.escape_text(short_text(value))
    return text if len(text) <= 16 else text[:15] + "…"
