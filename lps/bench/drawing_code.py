"""A few lines of Python that draw what a chart shows, from `lps`: for a notebook, where it can be changed.

Here what runs recorded and called their images; `lps.bench.drawing_scores` has what they score.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lps.bench.boards import OVER, BoardChart
from lps.bench.run_names import Vocabulary

_HOME = Path(__file__).resolve().parents[2]  # where this program lies
PLOTLY = "import plotly.graph_objects as go"
PANDAS = "import pandas as pd"
_CURVES = (
    "    for name, row in rows.items():",
    "        epochs, values = run.curve(name)",
    "        figure.add_scatter(x=epochs, y=values, name=f'{run.name or run.id}, {name}', row=row, col=1)",
)
_OVER_CLASSES = (
    "    for (name, group), row in means.items():",
    "        epochs, values = run.curve(name)",
    "        if not epochs:",
    "            continue",
    "        own = [one['class'] for one in run.classes() if one['group'] == group]",
    "        mean = pd.DataFrame(values, epochs, dtype=float)[own].mean(axis=1)",
    "        figure.add_scatter(x=epochs, y=mean, name=f'{run.name or run.id}, {name} of {group}', row=row, col=1)",
)
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
    runs = listed(folders) if folders else f"lps.list_runs({root!r}, filter={find!r})"
    smooth = f".ewm(alpha={1 - chart.smooth:g}).mean()" if chart.smooth else ""
    if chart.by in Vocabulary().settings and chart.x == "epoch":
        return text(["import lps", PANDAS, PLOTLY, "", "groups = {}", *_means(chart, runs, smooth), *_frame(chart)])
    over = f", over={chart.x!r}" if chart.x != "epoch" else ""
    lines = ["import lps", *([PANDAS] if smooth else []), PLOTLY, "", "figure = go.Figure()", f"for run in {runs}:"]
    lines.append(f"    x, y = run.curve({chart.y!r}{over})")
    if smooth:
        lines.append("    figure.add_scatter(x=x, y=y, opacity=0.25, showlegend=False)")
        lines.append(f"    y = pd.Series(y, dtype=float){smooth}")
    return text([*lines, "    figure.add_scatter(x=x, y=y, name=run.name or run.id)", *_frame(chart)])


def of_runs(folders: Sequence[str], rows: Mapping[str, int], means: Mapping[tuple[str, str], int]) -> str:
    """Measurements of runs over the epochs in panels below one another.

    rows: measurement -> panel, from 1. means: (measurement by class, seen or novel: over which classes) -> panel.
    """
    lines = ["import lps", *([PANDAS] if means else []), "from plotly.subplots import make_subplots", ""]
    lines += [f"{name} = {dict(one)!r}" for name, one in (("rows", rows), ("means", means)) if one]
    lines += [f"figure = make_subplots(rows={max(*rows.values(), *means.values(), 1)}, shared_xaxes=True)"]
    lines += [f"for run in {listed(folders)}:"]
    return text([*lines, *(_CURVES if rows else ()), *(_OVER_CLASSES if means else ()), "figure.show()"])


def of_curve_differences(first: str, others: Mapping[str, str], name: str, in_size: bool = False) -> str:
    """A measurement of a run minus that of others, epoch by epoch, in points. in_size: of both without their sign.

    first: the folder of the run. others: label -> folder.
    """
    size = ".abs()" if in_size else ""
    lines = ["import lps", PANDAS, PLOTLY, "", "def curve(folder):"]
    lines += [f"    epochs, values = lps.Run(folder).curve({name!r})"]
    lines += [f"    return pd.Series(values, epochs, dtype=float){size}", "", f"first = curve({first!r})", "others = {"]
    lines += [f"    {label!r}: {folder!r}," for label, folder in others.items()]
    lines += ["}", "figure = go.Figure()", "for label, folder in others.items():"]
    lines += ["    points = (100 * (first - curve(folder))).dropna()"]
    lines += ["    figure.add_scatter(x=points.index, y=points, name=label)"]
    return text([*lines, *_frame(BoardChart(f"{name}, points"))])


def of_groups(groups: Mapping[str, Sequence[str]], name: str) -> str:
    """The mean of every group of runs over the epochs. groups: label -> folders of its runs."""
    lines = ["import lps", PANDAS, PLOTLY, "", "groups = {"]
    lines += [f"    {label!r}: {listed(folders)}," for label, folders in groups.items()]
    lines += ["}", "figure = go.Figure()", "for label, runs in groups.items():"]
    lines += [f"    curves = [pd.Series(*run.curve({name!r})[::-1], dtype=float) for run in runs]"]
    lines += ["    mean = pd.concat(curves, axis=1).mean(axis=1)"]
    lines += ["    figure.add_scatter(x=mean.index, y=mean, name=label)"]
    return text([*lines, *_frame(BoardChart(name))])


def of_classes(folder: str, name: str, epoch: int, is_counted: bool = False) -> str:
    """A bar a class: what a run measured of each at an epoch. is_counted: counts, of which shares are drawn."""
    lines = ["import lps", PLOTLY, "", f"run = lps.Run({folder!r})"]
    lines += [f"values = dict(zip(*run.curve({name!r})))[{epoch}]"]
    if is_counted:
        lines += ["values = [value / sum(values) for value in values]"]
    return text([*lines, *_CLASS_BARS, f"figure.update_layout(yaxis_title={name!r})", "figure.show()"])


def of_cluster_sizes(folder: str, epoch: int) -> str:
    """A bar a class id: its share of the images that a run was not told the class of."""
    lines = ["import lps", PLOTLY, "", f"run = lps.Run({folder!r})"]
    lines += [f'found = [row["predicted"] for row in run.labels({epoch}) if row["predicted"] is not None]']
    lines += ["values = [found.count(one['class']) / len(found) for one in run.classes()]"]
    return text([*lines, *_CLASS_BARS, "figure.show()"])


def of_image(folder: str, image: int, epochs: Sequence[int]) -> str:
    """How sure a run was of an unlabeled image after these epochs, with the thresholds of seen and novel classes."""
    lines = ["import lps", PLOTLY, "", f"run = lps.Run({folder!r})", f"epochs = {list(epochs)!r}"]
    lines += ["unlabeled = [row['image'] for row in run.labels(epochs[-1]) if row['predicted'] is not None]"]
    lines += [f"place = unlabeled.index({image})"]
    lines += ["confidence = [float(run.snapshot(epoch).confidence[place]) for epoch in epochs]"]
    lines += ["figure = go.Figure()", "for group in ('seen', 'novel'):"]
    lines += ["    x, y = run.curve(f'threshold/{group}')"]
    lines += ["    figure.add_scatter(x=x, y=y, name=f'threshold, {group}', line_dash='dot')"]
    lines += [f"figure.add_scatter(x=epochs, y=confidence, name='image {image}')"]
    return text([*lines, *_frame(BoardChart("confidence"))])


def of_confusion(folder: str, epoch: int) -> str:
    """The share that every true class has of the images in every cluster, with their counts."""
    lines = ["import lps", PANDAS, PLOTLY, "", f"run = lps.Run({folder!r})"]
    lines += [f"rows = pd.DataFrame(run.labels({epoch})).dropna(subset=['cluster', 'truth'])"]
    lines += ["counts = pd.crosstab(rows['cluster'].astype(int), rows['truth'])"]
    lines += ["names = [one['name'] for one in run.classes()]"]
    lines += ["order = [*names, *(name for name in counts if name not in names)]"]
    lines += ["counts = counts.reindex(columns=order, fill_value=0)"]
    lines += ["shares, rows = counts.div(counts.sum(axis=1), axis=0), [f'cluster {k}' for k in counts.index]"]
    lines += ["figure = go.Figure(go.Heatmap(z=shares, text=counts, texttemplate='%{text}', x=order, y=rows))"]
    return text([*lines, "figure.update_yaxes(autorange='reversed')", "figure.show()"])


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


def listed(folders: Sequence[str]) -> str:
    """The runs in these folders as a list in one line."""
    return f"[{', '.join(f'lps.Run({folder!r})' for folder in folders)}]"


def text(lines: Sequence[str]) -> str:
    """The lines as a file, which says where `lps` is."""
    where = f"# Where lps is not found: set PYTHONPATH={str(_HOME)!r} and take the Python that starts the dashboard."
    return "\n".join([where, *lines, ""])
