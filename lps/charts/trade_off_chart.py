"""What is kept of known pictures against what is caught of foreign ones, by the distance from which on one is none."""

import numpy as np
import plotly.graph_objects as go

from lps.charts import figures
from lps.charts.palette import Palette
from lps.use.none_of_these import TradeOff


def trade_off(found: TradeOff, threshold: float, colors: Palette) -> go.Figure:
    """The curve with the span of the clusters around it, and where the threshold stands on it."""
    figure = figures.blank(280, colors)
    known = np.isfinite(found.caught)
    kept = found.kept[known]
    span = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    figure.add_trace(go.Scatter(x=kept, y=found.most[known], **span))
    figure.add_trace(go.Scatter(x=kept, y=found.least[known], **span, fill="tonexty", fillcolor=colors.grid))
    figure.add_trace(
        go.Scatter(
            x=kept,
            y=found.caught[known],
            mode="lines",
            line={"color": colors.novel, "width": 2},
            showlegend=False,
            hovertemplate="keeps %{x:.0%}, catches %{y:.0%}<extra></extra>",
        )
    )
    at = int(np.searchsorted(found.thresholds, threshold, side="right")) - 1
    if at >= 0 and known[at]:
        here = {"x": [found.kept[at]], "y": [found.caught[at]], "hoverinfo": "skip", "showlegend": False}
        figure.add_trace(go.Scatter(mode="markers", marker={"color": colors.ink, "size": 11}, **here))
    font = {"color": colors.muted, "size": 12}
    figure.update_xaxes(range=[0.5, 1.005], tickformat=".0%", title={"text": "Known ones kept", "font": font})
    figure.update_yaxes(range=[0, 1.02], tickformat=".0%", title={"text": "Foreign ones caught", "font": font})
    return figure.update_layout(hovermode="closest", margin={"l": 60, "r": 16, "t": 12, "b": 48})
