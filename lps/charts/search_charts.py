"""Charts of the results of a search. Finished trials are dots, stopped ones crosses, so that colour is not needed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lps.charts import figures
from lps.charts.chart import Chart
from lps.charts.palette import Palette, with_alpha
from lps.settings.parameters import text_of
from lps.studies.search_driver import in_words
from lps.studies.search_results import SearchResult, Trial, best_so_far
from lps.studies.search_space import Dimension
from lps.wording import percent

_NAMES = {"complete": "Finished", "pruned": "Stopped early", "running": "Running"}
_BAR = 34  # pixels


def history(result: SearchResult, colors: Palette) -> Chart:
    """Draw the value of every trial in order, and the best finished one so far as a step line."""
    figure = figures.blank_figure(320, colors)
    ended = [trial for trial in result.trials if trial.state != "running"]
    numbers = np.array([trial.number for trial in ended])
    best = {"color": colors.ink, "width": 1.8, "shape": "hv"}
    hover = "best so far %{y:.4f}<extra></extra>"
    figure.add_trace(x=numbers, y=np.array(best_so_far(ended)), mode="lines", line=best, name="Best so far",
                   hovertemplate=hover)  # fmt: skip
    for state in _NAMES:
        members = [trial for trial in result.trials if trial.state == state and trial.value is not None]
        _add_points(figure, [trial.number for trial in members], members, state, colors)
    last = max(numbers, default=0)
    ticks = figures.whole_ticks(last)
    figure.update_xaxes(title=figures.axis_title("Trial", colors, 6), showgrid=False, range=[-0.6, last + 0.6], **ticks)
    figure.update_yaxes(title=figures.axis_title(figures.escape_text(result.objective.title), colors, 6))
    return figure.update_layout(showlegend=True, hovermode="closest", margin={"l": 64, "b": 46})


def setting_slice(result: SearchResult, dimension: Dimension, colors: Palette) -> Chart:
    """Draw the value of every trial over one searched setting."""
    figure = figures.blank_figure(250, colors)
    for state in _NAMES:
        members = [trial for trial in result.trials if trial.state == state and trial.value is not None]
        positions = [_axis_position(dimension, trial.values.get(dimension.name)) for trial in members]
        _add_points(figure, positions, members, state, colors, showlegend=False)
    axis = {"title": figures.axis_title(figures.escape_text(dimension.name), colors, 6), "showgrid": False}
    if dimension.choices:
        axis |= {"tickvals": list(range(len(dimension.choices)))}
        axis |= {"ticktext": [figures.escape_text(text_of(choice)) for choice in dimension.choices]}
        axis |= {"range": [-0.5, len(dimension.choices) - 0.5]}
    elif dimension.log:
        axis |= {"type": "log", "dtick": 1}
    figure.update_xaxes(**axis)
    return figure.update_layout(hovermode="closest", margin={"l": 52, "r": 14, "t": 14, "b": 48})


def parallel(result: SearchResult, colors: Palette) -> Chart:
    """Draw one line per finished trial through its settings to its value; the best one is thick.

    Every axis is scaled to 0 to 1; its ends are labeled with their values.
    """
    axes = [_parallel_axis(dimension) for dimension in result.request.space]
    values = [trial.value for trial in result.complete_trials]
    axes.append(_ParallelAxis("value", min(values), max(values)))
    figure = figures.blank_figure(400, colors)
    for trial in sorted(result.complete_trials, key=lambda trial: trial == result.best):
        points = [_axis_position(dimension, trial.values.get(dimension.name)) for dimension in result.request.space]
        heights = [axis.height(point) for axis, point in zip(axes, [*points, trial.value])]
        is_best = trial == result.best
        figure.add_trace(
            x=np.arange(len(axes)),
            y=np.array(heights),
            mode="lines+markers",
            line={"color": colors.novel if is_best else with_alpha(colors.seen, 0.45), "width": 4 if is_best else 1.5},
            marker={"size": 8 if is_best else 5},
            name="Best" if is_best else f"Trial {trial.number}",
            showlegend=False,
            hovertemplate=f"trial {trial.number}: {trial.value:.4f}<br>{figures.escape_text(in_words(trial.values))}"
            "<extra></extra>",
        )
    ink = {"showarrow": False, "font": {"color": colors.muted, "size": 11}, "xref": "x", "yref": "y"}
    for index, axis in enumerate(axes):
        figure.add_upright(x=index, line={"color": colors.grid, "width": 1})
        for text, height, anchor in ((axis.low_label, 0, "top"), (axis.high_label, 1, "bottom")):
            figure.add_annotation(x=index, y=height, text=text, yanchor=anchor, yshift=4 if height else -4, **ink)
    figure.update_xaxes(
        tickvals=np.arange(len(axes)), ticktext=[axis.title for axis in axes], showgrid=False, tickangle=-20,
        range=[-0.4, len(axes) - 0.6],
    )  # fmt: skip
    figure.update_yaxes(visible=False, range=[-0.12, 1.12])
    return figure.update_layout(hovermode="closest", margin={"l": 40, "r": 40, "t": 14, "b": 70})


def importance(shares: dict[str, float], colors: Palette) -> Chart:
    """Draw the share of every setting as a bar, the largest on top."""
    items = list(reversed(shares.items()))
    labels = [f"{figures.escape_text(name)} · {percent(share)}" for name, share in items]
    figure = figures.blank_figure(_BAR * len(items) + 60, colors)
    hover = {"hovertemplate": "%{x:.1%}<extra></extra>"}
    figures.add_side_bars(figure, np.array([share for _, share in items]), labels, "Share", colors, **hover)
    figure.update_xaxes(range=[0, 1.02], tickvals=[0, 0.25, 0.5, 0.75, 1], tickformat=".0%", fixedrange=True)
    return figure.update_layout(showlegend=False, margin={"r": 30, "t": 10, "b": 32})


def _add_points(
    figure: Chart, x: Sequence, members: Sequence[Trial], state: str, colors: Palette, showlegend: bool = True
) -> None:
    markers = {
        "complete": {"symbol": "circle", "size": 9, "color": colors.seen},
        "pruned": {"symbol": "x-thin", "size": 9, "line": {"width": 2, "color": colors.novel}},
        "running": {"symbol": "circle-open", "size": 10, "color": colors.muted, "line": {"width": 2}},
    }
    figure.add_trace(
        x=np.array(x, np.float64),
        y=np.array([trial.value for trial in members], np.float64),
        mode="markers",
        marker=markers[state],
        name=_NAMES[state],
        showlegend=showlegend and bool(members),
        text=[f"trial {trial.number}: {figures.escape_text(in_words(trial.values))}" for trial in members],
        hovertemplate="%{text}<br>%{y:.4f}<extra></extra>",
    )


def _axis_position(dimension: Dimension, value) -> float:
    if dimension.choices:
        return float(dimension.choices.index(value)) if value in dimension.choices else float("nan")
    return float("nan") if value is None else float(value)


@dataclass(frozen=True)
class _ParallelAxis:
    """A vertical axis between two positions of a setting (`_axis_position`)."""

    title: str
    low: float
    high: float
    log: bool = False
    labels: tuple[str, ...] = ()  # of choices

    def height(self, position: float) -> float:
        """Return the height in [0, 1]; 0.5 if the axis has a single position."""
        low, high = self.low, self.high
        if self.log:
            position, low, high = np.log10([position, low, high])
        return float((position - low) / (high - low)) if high > low else 0.5

    @property
    def low_label(self) -> str:
        return self.labels[0] if self.labels else f"{self.low:.4g}"

    @property
    def high_label(self) -> str:
        return self.labels[-1] if self.labels else f"{self.high:.4g}"


def _parallel_axis(dimension: Dimension) -> _ParallelAxis:
    title = figures.escape_text(dimension.name)
    if dimension.choices:
        labels = tuple(figures.escape_text(text_of(choice)) for choice in dimension.choices)
        return _ParallelAxis(title, 0, len(labels) - 1, labels=labels)
    return _ParallelAxis(title, dimension.low, dimension.high, dimension.log)
