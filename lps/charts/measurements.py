"""What the charts of Live draw of a run, and a small chart for each other measurement: new ones show by themselves."""

from collections.abc import Callable
from fnmatch import fnmatchcase

import pandas as pd

from lps.charts.chart import Chart
from lps.charts.event_log import History
from lps.charts.figures import Panel, add_line, plain, stacked
from lps.charts.palette import Palette

MOST = 24  # charts of other measurements
_OF_STEPS = "steps/"  # lists over the steps of an epoch, which a curve over epochs has no place for
_drawn: set[str] = set()


def draws(*names: str) -> Callable:
    """Says of a chart on Live which measurements it draws; `loss/*` stands for all that begin so."""

    def claim(chart: Callable) -> Callable:
        _drawn.update(names)
        return chart

    return claim


def undrawn_measurements(history: History) -> list[str]:
    """List the measurements of a run that no chart of Live draws, in the order of its records."""
    recorded = [name for name in history.epochs if history.epochs[name].notna().any()]
    lists = [name for name in history.vectors if not name.startswith(_OF_STEPS)]
    return [name for name in (*recorded, *lists) if not any(fnmatchcase(name, pattern) for pattern in _drawn)]


def other(history: History, name: str, epochs: int, colors: Palette) -> Chart:
    """One measurement over the epochs; of one by class the means over seen and novel classes."""
    figure = stacked([Panel(plain(name), 1, rangemode="normal")], epochs, 190, colors)
    if name in history.vectors:
        for group in ("seen", "novel"):
            add_line(figure, group_mean(history, name, group), group.capitalize(), getattr(colors, group), 1, ".4g")
    else:
        add_line(figure, history.column(name), plain(name), colors.ink, 1, ".4g", legend=False)
    return figure


def group_mean(history: History, name: str, group: str) -> pd.Series:
    """Mean of a per-class measurement over seen or novel classes, by epoch."""
    table = history.vectors.get(name)
    if table is None or not history.seen:
        return pd.Series(dtype=float)
    columns = table.columns < history.seen if group == "seen" else table.columns >= history.seen
    return table.loc[:, columns].astype(float).mean(axis=1).dropna()
