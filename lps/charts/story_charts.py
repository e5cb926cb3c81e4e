"""The figures of the Story: few lines and large labels."""

import numpy as np
import pandas as pd

from lps.charts import figures, line_charts
from lps.charts.chart import Chart
from lps.charts.event_log import History
from lps.charts.palette import Palette, with_alpha


def swallowed(shares: dict[str, pd.Series], colors: Palette) -> Chart:
    """Draw the share of novel images that are predicted as seen by label of the run, the worst run first."""
    last = int(max(values.index[-1] for values in shares.values()))
    figure = _accuracy_figure(250, last, colors)
    shades = dict(zip(shares, (colors.wrong, colors.right)))
    for label, values in shares.items():
        _add_curve(figure, values, shades[label], label)
    _label_ends(figure, {label: (values, shades[label]) for label, values in shares.items()})
    return figure.update_layout(margin={"r": 84})


def novel_accuracies(with_margin: History, without: History, colors: Palette) -> Chart:
    """Draw seen and novel accuracy with the margin, and novel accuracy without it."""
    figure = _accuracy_figure(340, with_margin.last_epoch, colors)
    lines = (
        ("seen", with_margin, "accuracy/seen", colors.seen, "solid"),
        ("novel, with margin", with_margin, "accuracy/novel", colors.novel, "solid"),
        ("novel, no margin", without, "accuracy/novel", colors.novel, "dot"),
    )
    for label, history, name, color, dash in lines:
        values = history.column(name)
        _add_curve(figure, values, color, label, dash)
    legend = {"x": 1, "y": 0.04, "xanchor": "right", "yanchor": "bottom", "orientation": "v", "font": {"size": 14}}
    return figure.update_layout(showlegend=True, legend=legend, margin={"r": 16})


def kl_and_margins(history: History, colors: Palette, until: int) -> Chart:
    """Draw KL above and the mean margin of seen and novel classes below, up to epoch `until`."""
    figure = figures.blank_figure(360, colors)
    kl = history.column("kl").loc[:until]
    _add_curve(figure, kl, colors.ink, "KL", format=".3f", fill="tozeroy", fillcolor=with_alpha(colors.all, 0.16))
    for group in ("seen", "novel"):
        values = line_charts.mean_margin(history, group).loc[:until]
        _add_curve(figure, values, getattr(colors, group), f"margin, {group}", format=".2f", yaxis="y2")
    axis = {"rangemode": "tozero", "nticks": 4, "gridcolor": colors.grid, "zeroline": False}
    axis["tickfont"] = {"color": colors.muted, "size": 12}
    figure.update_layout(yaxis=axis | {"domain": [0.56, 0.95]}, yaxis2=axis | {"domain": [0, 0.39], "anchor": "x"})
    titles = {0.95: "KL: how uneven the guesses are", 0.39: "Margin: how strongly classes are held back"}
    for y, title in titles.items():
        text_position = {"xref": "paper", "yref": "paper", "x": 0, "y": y, "xanchor": "left", "yanchor": "bottom"}
        figure.add_annotation(text=title, font={"color": colors.muted, "size": 13}, showarrow=False, **text_position)
    _set_epoch_axis(figure, min(until, history.last_epoch), colors)
    return figure.update_xaxes(anchor="y2").update_layout(margin={"t": 8, "l": 44, "r": 16, "b": 40})


def cluster_sizes(
    counts: np.ndarray, expected_counts: np.ndarray, seen: int, names: list[str], top: float, colors: Palette
) -> Chart:
    """Draw the number of images of each id as bars and the expected numbers as steps. names: of all ids."""
    figure = figures.blank_figure(210, colors)
    ids = np.arange(len(counts))
    labels = [figures.escape_text(name) for name in names]
    shades = [colors.seen if i < seen else colors.novel for i in ids]
    hover = "%{text}: %{y} pictures<extra></extra>"
    marker = {"color": shades, "line": {"width": 0}}
    bars = {"marker": marker, "text": labels, "textposition": "none", "hovertemplate": hover}
    figure.add_trace(type="bar", x=ids, y=counts, **bars, name="Pictures")
    edges = np.concatenate([[-0.5], ids, [len(ids) - 0.5]])
    steps = expected_counts[np.clip(edges.round().astype(int), 0, len(ids) - 1)]
    line = {"color": colors.ink, "width": 1.4, "dash": "dash", "shape": "hvh"}
    hover = "true number %{y:.0f}<extra></extra>"
    figure.add_trace(x=edges, y=steps, mode="lines", line=line, hovertemplate=hover, name="True number")
    figure.update_layout(showlegend=False, bargap=0.22, hovermode="closest", margin={"l": 40, "r": 8, "t": 8, "b": 28})
    figure.update_yaxes(range=[0, top * 1.08], nticks=4)
    return figure.update_xaxes(tickvals=ids, ticktext=labels, showgrid=False, range=[-0.6, len(ids) - 0.4])


def _accuracy_figure(height: int, epochs: int, colors: Palette) -> Chart:
    figure = figures.blank_figure(height, colors)
    figure.update_layout(margin={"t": 8, "l": 48, "r": 64, "b": 40}, showlegend=False)
    _set_epoch_axis(figure, epochs, colors)
    return figure.update_yaxes(range=[0, 1.03], tickformat=".0%", nticks=5)


def _set_epoch_axis(figure: Chart, last: int, colors: Palette) -> None:
    figure.update_layout(hovermode="x unified", showlegend=False)
    title = figures.axis_title("Epoch", colors)
    figure.update_xaxes(range=[0.5, last + 0.5], title=title, **figures.whole_ticks(last), showgrid=False)


def _add_curve(
    figure: Chart, values: pd.Series, color: str, name: str, dash: str = "solid", format: str = ".1%", **options
) -> None:
    line = {"color": color, "width": 3, "dash": dash}
    hover = name + " %{y:" + format + "}<extra></extra>"
    x, y = values.index.to_numpy(np.int32), values.to_numpy(np.float64)
    figure.add_trace(x=x, y=y, mode="lines", line=line, name=name, hovertemplate=hover, **options)


def _label_ends(figure: Chart, lines: dict[str, tuple[pd.Series, str]]) -> None:
    """Write the name of every line at its right end; names of close lines are shifted apart."""
    order = sorted(lines.items(), key=lambda item: item[1][0].iloc[-1])
    shifts = (-9, 9) if len(order) == 2 and order[1][1][0].iloc[-1] - order[0][1][0].iloc[-1] < 0.08 else (0, 0)
    for (name, (values, color)), shift in zip(order, shifts):
        text = {"text": f"<b>{name}</b>", "font": {"color": color, "size": 14}, "showarrow": False, "yshift": shift}
        figure.add_annotation(x=1, xref="paper", y=values.iloc[-1], xanchor="left", yanchor="middle", xshift=8, **text)
