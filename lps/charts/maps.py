"""Images as points in the plane."""

import numpy as np
import pandas as pd

from lps.analysis import projection as analysis
from lps.analysis.projection import Plane
from lps.charts.chart import Chart
from lps.charts.figures import FEW_POINTS, MAX_IN_LEGEND, SMALL, blank_figure, escape_text
from lps.charts.palette import Palette, class_colors
from lps.data.split import Split
from lps.errors import UserError
from lps.scores import metrics
from lps.store.snapshots import MAX_POINTS, Snapshot

# ---------------------------------------------------------------------------------------------------- tables


def project_points(plane: Plane, snapshot: Snapshot, epoch: int) -> np.ndarray:
    """Return the points (m, 2) of an epoch; raises `UserError` if its features have another width than the plane."""
    if len(plane.axes) != snapshot.features.shape[1]:
        reason = "its features do not have as many dimensions as those of the newest epoch"
        raise UserError(f"epoch-{epoch:04d}.npz", f"is damaged ({reason})")
    return plane.project(analysis.features_for_map(snapshot, epoch))


def point_table(
    points: np.ndarray, index: np.ndarray, split: Split, targets: np.ndarray, snapshot: Snapshot
) -> pd.DataFrame:
    """Return a row per point: x, y, image, truth, predicted (both class ids, -1 unknown), confidence, right.

    points: (m, 2), of the images `index` (m,). Raises `UserError` for an image that is not unlabeled in the split.
    """
    unlabeled, index = split.unlabeled, index.astype(np.int64)
    if not np.isin(index, unlabeled).all():
        raise UserError("projections", "are damaged (some images are not among the unlabeled images of this run)")
    order = np.argsort(unlabeled)
    rows = order[np.searchsorted(unlabeled, index, sorter=order)]
    predicted = _match_classes(snapshot.predicted.astype(np.int64), targets[unlabeled], len(split.class_names))[rows]
    truth = targets[index]
    columns = {"x": points[:, 0], "y": points[:, 1], "image": index, "truth": truth, "predicted": predicted}
    confidence = snapshot.confidence[rows].astype(np.float32)
    return pd.DataFrame(columns | {"confidence": confidence, "right": (truth >= 0) & (predicted == truth)})


def _match_classes(predicted: np.ndarray, truth: np.ndarray, total: int) -> np.ndarray:
    """Map predicted ids to class ids by the matching of accuracy/all; -1 for ids beyond the classes."""
    has_truth = truth >= 0
    size = int(max(total, predicted.max(initial=0) + 1))
    if has_truth.any():
        predicted = metrics.match_ids(metrics.contingency(predicted[has_truth], truth[has_truth], size))[predicted]
    return np.where(predicted < total, predicted, -1)


# ---------------------------------------------------------------------------------------------------- projection


def projection(
    points: pd.DataFrame, color_by: str, colors: Palette, seen: int, names: list[str], height: int = 560
) -> Chart:
    """Draw points on the plane; every point carries its image id.

    points: columns x, y, image, truth, predicted (class ids, -1 unknown), confidence, right; more than `_max_points`
    are thinned out evenly. color_by: truth, predicted, group, right or confidence.
    """
    if len(points) > _max_points(height):
        row_numbers = np.linspace(0, len(points) - 1, _max_points(height)).round().astype(int)
        points = points.iloc[row_numbers]
    figure = blank_figure(height, colors)
    size = float(np.clip(210 / np.sqrt(max(1, len(points))), 3, 9)) * min(1, 0.35 + height / 860)
    if color_by == "confidence":
        _add_points(figure, points, "Confidence", size, _confidence_scale(points, colors), names)
    else:
        for label, rows, color in _point_groups(points, color_by, colors, seen, names):
            _add_points(figure, points[rows], label, size, {"color": color}, names)
    figure.update_layout(showlegend=1 < len(figure.traces) <= MAX_IN_LEGEND)
    figure.update_layout(hovermode="closest", dragmode="pan", margin={"l": 8, "r": 8, "t": 34, "b": 8})
    hidden = {"showgrid": False, "zeroline": False, "showticklabels": False, "showline": False, "title": None}
    figure.update_xaxes(**hidden, showspikes=False)
    figure.update_yaxes(**hidden, scaleanchor="x", scaleratio=1)
    return figure


def _max_points(height: int) -> int:
    """Return how many points a chart of this height shows."""
    return MAX_POINTS if height > SMALL else FEW_POINTS


def _point_groups(points: pd.DataFrame, color_by: str, colors: Palette, seen: int, names: list[str]):
    """Yield (label, rows, colour) of every group of points; the most important group is last, on top."""
    if color_by == "group":
        yield "Seen", (points["truth"] >= 0) & (points["truth"] < seen), colors.seen
        yield "Novel", points["truth"] >= seen, colors.novel
        yield "Unknown", points["truth"] < 0, colors.all
    elif color_by == "right":
        yield "Unknown", points["truth"] < 0, colors.all
        yield "Right", (points["truth"] >= 0) & points["right"], colors.right
        yield "Wrong", (points["truth"] >= 0) & ~points["right"], colors.wrong
    else:
        shades = class_colors(seen, len(names), colors)
        yield "Unknown", points[color_by] < 0, colors.all
        for class_id, name in enumerate(names):
            yield escape_text(name), points[color_by] == class_id, shades[class_id]


def _add_points(figure: Chart, points: pd.DataFrame, label: str, size: float, marker: dict, names: list[str]) -> None:
    if not len(points):
        return
    labels = np.array([*map(escape_text, names), "unknown"])  # the last one is that of class -1
    truth, predicted = (labels[points[name].to_numpy()].tolist() for name in ("truth", "predicted"))
    figure.add_trace(
        type="scattergl",
        x=points["x"].to_numpy(np.float32),
        y=points["y"].to_numpy(np.float32),
        customdata=points["image"].to_numpy(np.int32),
        text=[f"{true_label} → {prediction}" for true_label, prediction in zip(truth, predicted)],
        name=label,
        mode="markers",
        marker={"size": size, "opacity": 0.8, "line": {"width": 0}} | marker,
        hovertemplate="image %{customdata}<br>%{text}<extra></extra>",
    )


def _confidence_scale(points: pd.DataFrame, colors: Palette) -> dict:
    bar = {"thickness": 10, "len": 0.6, "tickformat": ".0%", "outlinewidth": 0, "tickfont": {"color": colors.muted}}
    scale = [[0, colors.wrong], [0.5, colors.all], [1, colors.right]]
    values = points["confidence"].to_numpy(np.float32)
    return {"color": values, "colorscale": scale, "cmin": 0, "cmax": 1, "colorbar": bar}
