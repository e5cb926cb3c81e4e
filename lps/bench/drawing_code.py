"""A few lines of Python that draw what a chart shows, from `lps`: for a notebook, where it can be changed."""

from collections.abc import Mapping, Sequence

from lps.bench.boards import OVER, BoardChart
from lps.bench.run_names import Vocabulary

_PLOTLY = "import plotly.graph_objects as go"
_PANDAS = "import pandas as pd"


def of_chart(chart: BoardChart, folders: Sequence[str], find: str, root: str) -> str:
    """The runs of a chart of a board, one line each, or the mean of those with the same value of a setting.

    folders: of the runs that were chosen by name, else those that fit `find` are taken. root: the folder of the runs.
    """
    runs = _listed(folders) if folders else f"lps.list_runs({root!r}, filter={find!r})"
    smooth = f".ewm(alpha={1 - chart.smooth:g}).mean()" if chart.smooth else ""
    if chart.by in Vocabulary().settings and chart.x == "epoch":
        return _text(["import lps", _PANDAS, _PLOTLY, "", "groups = {}", *_means(chart, runs, smooth), *_frame(chart)])
    over = f", over={chart.x!r}" if chart.x != "epoch" else ""
    lines = ["import lps", *([_PANDAS] if smooth else []), _PLOTLY, "", "figure = go.Figure()", f"for run in {runs}:"]
    lines.append(f"    x, y = run.curve({chart.y!r}{over})")
    if smooth:
        lines.append("    figure.add_scatter(x=x, y=y, opacity=0.25, showlegend=False)")
        lines.append(f"    y = pd.Series(y, dtype=float){smooth}")
    return _text([*lines, "    figure.add_scatter(x=x, y=y, name=run.name or run.id)", *_frame(chart)])


def of_runs(folders: Sequence[str], rows: Mapping[str, int]) -> str:
    """Measurements of runs over the epochs in panels below one another. rows: measurement -> panel, from 1."""
    lines = ["import lps", "from plotly.subplots import make_subplots", ""]
    lines += [f"rows = {dict(rows)!r}", f"figure = make_subplots(rows={max(rows.values())}, shared_xaxes=True)"]
    lines += [f"for run in {_listed(folders)}:", "    for name, row in rows.items():"]
    lines += ["        epochs, values = run.curve(name)"]
    lines += ['        figure.add_scatter(x=epochs, y=values, name=f"{run.name or run.id}, {name}", row=row, col=1)']
    return _text([*lines, "figure.show()"])


def of_groups(groups: Mapping[str, Sequence[str]], name: str) -> str:
    """The mean of every group of runs over the epochs. groups: label -> folders of its runs."""
    lines = ["import lps", _PANDAS, _PLOTLY, "", "groups = {"]
    lines += [f"    {label!r}: {_listed(folders)}," for label, folders in groups.items()]
    lines += ["}", "figure = go.Figure()", "for label, runs in groups.items():"]
    lines += [f"    curves = [pd.Series(*run.curve({name!r})[::-1], dtype=float) for run in runs]"]
    lines += ["    mean = pd.concat(curves, axis=1).mean(axis=1)"]
    lines += ["    figure.add_scatter(x=mean.index, y=mean, name=label)"]
    return _text([*lines, *_frame(BoardChart(name))])


def _means(chart: BoardChart, runs: str, smooth: str) -> list[str]:
    return [
        f"for run in {runs}:",
        f"    epochs, values = run.curve({chart.y!r})",
        f"    groups.setdefault(run.config.get({chart.by!r}), []).append(pd.Series(values, epochs, dtype=float))",
        "figure = go.Figure()",
        "for value, curves in groups.items():",
        f"    mean = pd.concat(curves, axis=1).mean(axis=1){smooth}",
        f"    figure.add_scatter(x=mean.index, y=mean, name=f'{chart.by} {{value}} (n = {{len(curves)}})')",
    ]


def _frame(chart: BoardChart) -> list[str]:
    axes = [f'{axis}axis_type="log"' for axis in chart.log]
    titles = [f"xaxis_title={OVER.get(chart.x, chart.x)!r}", f"yaxis_title={chart.y!r}"]
    return [f"figure.update_layout({', '.join([*titles, *axes])})", "figure.show()"]


def _listed(folders: Sequence[str]) -> str:
    return f"[{', '.join(f'lps.Run({folder!r})' for folder in folders)}]"


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
