"""Which measurements the charts of Live draw, and a small chart for each other one, so that new ones appear."""

from collections.abc import Callable
from fnmatch import fnmatchcase

import pandas as pd

from lps.charts.chart import Chart
from lps.charts.event_log import History
from lps.charts.figures import Panel, add_line, escape_text, stacked_panels
from lps.charts.palette import Palette

MAX_CHARTS = 24  # charts of other measurements
_STEP_LISTS = "steps/"  # lists over the steps of an epoch, which are not curves over epochs
_drawn: set[str] = set()


def draws(*names: str) -> Callable:
    """Register the measurements that a chart on Live draws; `loss/*` stands for all with that prefix."""

    def register(chart: Callable) -> Callable:
        _drawn.update(names)
        return chart

    return register


def undrawn_measurements(history: History) -> list[str]:
    """List the measurements of a run that no chart of Live draws, in the order of its records."""
    recorded = [name for name in history.epochs if history.epochs[name].notna().any()]
    lists = [name for name in history.vectors if not name.startswith(_STEP_LISTS)]
    return [name for name in (*recorded, *lists) if not any(fnmatchcase(name, pattern) for pattern in _drawn)]


def other_measurement(history: History, name: str, epochs: int, colors: Palette) -> Chart:
    """Draw a measurement over the epochs; of a per-class one the means over seen and novel classes."""
    figure = stacked_panels([Panel(escape_text(name), 1, rangemode="normal")], epochs, 190, colors)
    if name in history.vectors:
        for group in ("seen", "novel"):
            add_line(figure, group_mean(history, name, group), group.capitalize(), getattr(colors, group), 1, ".4g")
    else:
        add_line(figure, history.column(name), escape_text(name), colors.ink, 1, ".4g", legend=False)
    return figure


def group_mean(history: History, name: str, group: str) -> pd.Series:
    """Return the mean of a per-class measurement over seen or novel classes, by epoch."""
    table = history.vectors.get(name)
    if table is None or not history.seen:
        return pd.Series(dtype=float)
    columns = table.columns < history.seen if group == "seen" else table.columns >= history.seen
    return table.loc[:, columns].astype(float).mean(axis=1).dropna()
