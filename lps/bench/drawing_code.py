"""A few lines of Python that draw what a chart shows, from `lps`: for a notebook, where it can be changed."""

from collections.abc import Mapping, Sequence

from lps.bench.boards import OVER, BoardChart
from lps.bench.run_names import Vocabulary

_PLOTLY = "import plotly.graph_objects as go"
_PANDAS = "import pandas as pd"
_CLASS_BARS = (
    "figure = go.Figure()",
    "for group in ('seen', 'novel'):",
    "    own = [one for one in run.classes() if one['group'] == group]",
    "    bars = [values[one['class']] for one in own]",
    "    figure.add_bar(x=[one['name'] for one in own], y=bars, name=group)",
)


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


def of_classes(folder: str, name: str, epoch: int, is_counted: bool = False) -> str:
    """A bar a class: what a run measured of each at an epoch. is_counted: counts, of which shares are drawn."""
    lines = ["import lps", _PLOTLY, "", f"run = lps.Run({folder!r})"]
    lines += [f"values = dict(zip(*run.curve({name!r})))[{epoch}]"]
    if is_counted:
        lines += ["values = [value / sum(values) for value in values]"]
    return _text([*lines, *_CLASS_BARS, f"figure.update_layout(yaxis_title={name!r})", "figure.show()"])


def of_cluster_sizes(folder: str, epoch: int) -> str:
    """A bar a class id: its share of the images that a run was not told the class of."""
    lines = ["import lps", _PLOTLY, "", f"run = lps.Run({folder!r})"]
    lines += [f'found = [row["predicted"] for row in run.labels({epoch}) if row["predicted"] is not None]']
    lines += ["values = [found.count(one['class']) / len(found) for one in run.classes()]"]
    return _text([*lines, *_CLASS_BARS, "figure.show()"])


def of_confusion(folder: str, epoch: int) -> str:
    """The share that every true class has of the images in every cluster, with their counts."""
    lines = ["import lps", _PANDAS, _PLOTLY, "", f"run = lps.Run({folder!r})"]
    lines += [f"rows = pd.DataFrame(run.labels({epoch})).dropna(subset=['cluster', 'truth'])"]
    lines += ["counts = pd.crosstab(rows['cluster'].astype(int), rows['truth'])"]
    lines += ["names = [one['name'] for one in run.classes()]"]
    lines += ["order = [*names, *(name for name in counts if name not in names)]"]
    lines += ["counts = counts.reindex(columns=order, fill_value=0)"]
    lines += ["shares, rows = counts.div(counts.sum(axis=1), axis=0), [f'cluster {k}' for k in counts.index]"]
    lines += ["figure = go.Figure(go.Heatmap(z=shares, text=counts, texttemplate='%{text}', x=order, y=rows))"]
    return _text([*lines, "figure.update_yaxes(autorange='reversed')", "figure.show()"])


def of_differences(folders: Sequence[str], against: str, column: str, scoring: Mapping[str, str]) -> str:
    """Every group of equal runs minus that of the run `against`, in points, with the 95 % interval."""
    lines = ["import lps", _PLOTLY, "", "runs = [", *(f"    lps.Run({one!r})," for one in folders), "]"]
    lines += [f"groups = lps.compare_runs(runs, against=lps.Run({against!r}), {_named(scoring)})"]
    lines += ["figure = go.Figure()", "for group in groups:", f"    found = group['differences'].get({column!r})"]
    lines += ["    if found is None:", "        continue", "    mean, high = found['difference'], found['high']"]
    lines += ["    bar = None if high is None else {'array': [100 * (high - mean)]}"]
    lines += ["    figure.add_scatter(x=[100 * mean], y=[group['label']], error_x=bar, name=group['label'])"]
    return _text([*lines, f"figure.update_layout(xaxis_title={f'{column}, points'!r})", "figure.show()"])


def of_values(groups: Mapping[object, Sequence[str]], setting: str, scoring: Mapping[str, str]) -> str:
    """Mean and spread of accuracies by the value of a setting. groups: value -> folders of its runs."""
    lines = ["import lps", _PLOTLY, "", "groups = {"]
    lines += [f"    {value!r}: {_listed(folders)}," for value, folders in groups.items()]
    lines += ["}", f"found = [lps.compare_runs(runs, {_named(scoring)})[0] for runs in groups.values()]"]
    lines += ["figure = go.Figure()", "for name in ('seen', 'novel', 'all'):"]
    lines += ["    means, spread = ([one[name][part] for one in found] for part in ('mean', 'std'))"]
    lines += ["    figure.add_scatter(x=list(groups), y=means, error_y={'array': spread}, name=name)"]
    return _text([*lines, f"figure.update_layout(xaxis_title={setting!r})", "figure.show()"])


def _named(scoring: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in scoring.items())


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
