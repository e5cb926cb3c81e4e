"""Colour the points of a projection by facts about their images at an epoch of a run."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lps.analysis import naming
from lps.charts.palette import Palette, class_colors
from lps.errors import UserError
from lps.store.runs import Run
from lps.ui.pictures import points, predictions
from lps.ui.shared.history import read_history

OF_TABLES = {  # by a column of a table of points
    "group": "Seen / novel",
    "truth": "True class",
    "predicted": "Prediction",
    "right": "Correct",
    "confidence": "Confidence",
}
OF_TRUTH = ("group", "truth", "right")
_OF_RUNS = {"called": "Predicted seen / novel", "adopted": "Pseudo-label", "cluster": "Your clusters"}
_STEPS = 33  # of colour, from a confidence of 0 to 1


def list_colorings(run: Run, epoch: int) -> dict[str, str]:
    """Return the possible colourings, the default first; without known classes, those that need them are left out.

    If most classes are unknown, those that need them come last; if the user named clusters, these come first. Raises
    `UserError` if the split cannot be read.
    """
    partition = points.read_partition(run)
    is_known = partition.targets[partition.split.unlabeled] >= 0
    has_truth = is_known.any()
    titles = {key: title for key, title in OF_TABLES.items() if has_truth or key not in OF_TRUTH}
    titles |= {} if has_truth else {"called": _OF_RUNS["called"]}
    if _read_thresholds(run, epoch):
        titles["adopted"] = _OF_RUNS["adopted"]
    if len(partition.split.unlabeled) <= predictions.MAX_IMAGES and _has_decisions(run, epoch):
        titles["cluster"] = _OF_RUNS["cluster"]
    is_blind = 2 * np.count_nonzero(is_known) < len(is_known)
    if is_blind:
        titles = {key: titles[key] for key in sorted(titles, key=lambda key: (key in OF_TRUTH, key != "cluster"))}
    return titles


def _read_thresholds(run: Run, epoch: int) -> dict[str, float]:
    """Return the recorded confidence threshold of the groups "seen" and "novel"; {} if it was not recorded."""
    history = read_history(run)
    columns = {group: history.column(f"threshold/{group}") for group in ("seen", "novel")}
    thresholds = {group: float(column[epoch]) for group, column in columns.items() if epoch in column.index}
    return thresholds if len(thresholds) == 2 else {}


def _has_decisions(run: Run, epoch: int) -> bool:
    try:
        return not naming.naming_of_epoch(naming.read_entries(run), epoch).is_empty
    except UserError:
        return False


@dataclass(frozen=True, eq=False)
class Coloring:
    """A group for every point: codes (n,), with label ("" for none) and colour of each group; later ones on top.

    is_classes: groups are classes or clusters, whose names belong on the map. is_scale: groups are steps of a number.
    """

    codes: np.ndarray
    labels: tuple[str, ...]
    colors: tuple[str, ...]
    is_classes: bool = False
    is_scale: bool = False


def color_points(run: Run, epoch: int, table: pd.DataFrame, key: str, colors: Palette) -> Coloring:
    """Colour the points of `table` (of `points.read_points`) by one of `list_colorings`; raises `UserError`."""
    split = points.read_partition(run).split
    if key in OF_TABLES:
        return color_table(table, key, split.classes.seen, split.class_names, colors)
    order = np.argsort(split.unlabeled)
    rows = order[np.searchsorted(split.unlabeled, table["image"].to_numpy(), sorter=order)]
    if key == "cluster":
        return _color_clusters(run, epoch, rows, colors)
    network, seen = predictions.read_assignment(run, epoch), split.classes.seen
    is_novel = network.predicted[rows] >= seen
    if key == "called":
        return Coloring(is_novel.astype(int), ("Predicted seen", "Predicted novel"), (colors.seen, colors.novel))
    needed = _read_thresholds(run, epoch)
    passing = network.confidence[rows] >= np.where(is_novel, needed["novel"], needed["seen"])
    labels = ("Not confident", "Pseudo-label: seen", "Pseudo-label: novel")
    return Coloring(np.where(passing, 1 + is_novel, 0), labels, (colors.all, colors.seen, colors.novel))


def color_table(table: pd.DataFrame, key: str, seen: int, names: Sequence[str], colors: Palette) -> Coloring:
    """Colour the points of a table by one of its columns: group, truth, predicted, right or confidence."""
    if key == "confidence":
        return _color_scale(table["confidence"].to_numpy(np.float32), colors)
    value = table["truth" if key in OF_TRUTH else key].to_numpy()
    if key == "group":
        codes = np.where(value < 0, 0, np.where(value < seen, 1, 2))
        return Coloring(codes, ("Unknown", "Seen", "Novel"), (colors.all, colors.seen, colors.novel))
    if key == "right":
        codes = np.where(value < 0, 0, np.where(table["right"].to_numpy(), 1, 2))
        return Coloring(codes, ("Unknown", "Right", "Wrong"), (colors.all, colors.right, colors.wrong))
    shades = class_colors(seen, len(names), colors)
    return Coloring(np.maximum(value, -1) + 1, ("Unknown", *names), (colors.all, *shades), is_classes=True)


def _color_scale(values: np.ndarray, colors: Palette) -> Coloring:
    """Group numbers from 0 to 1 in `_STEPS` steps of colour, of which every fourth has a label."""
    base_colors = [np.array(bytearray.fromhex(color[1:]), float) for color in (colors.wrong, colors.all, colors.right)]
    positions = np.linspace(0, 2, _STEPS)
    mixed = [
        base_colors[int(min(1, position))] * (1 - position % 1)
        + base_colors[int(min(1, position)) + 1] * (position % 1)
        for position in positions[:-1]
    ]
    shades = ["#" + bytes(color.round().astype(np.uint8).tolist()).hex() for color in [*mixed, base_colors[2]]]
    labels = [f"{step * 100 // (_STEPS - 1)} %" if step % ((_STEPS - 1) // 4) == 0 else "" for step in range(_STEPS)]
    codes = (np.nan_to_num(values) * (_STEPS - 1)).round().clip(0, _STEPS - 1)
    return Coloring(codes, tuple(labels), tuple(shades), is_scale=True)


def _color_clusters(run: Run, epoch: int, rows: np.ndarray, colors: Palette) -> Coloring:
    """Group the points by cluster, after the user's names, merges and splits."""
    view = predictions.read_view(run, epoch)
    ids = view.ids.tolist()
    shades = class_colors(sum(i in view.defaults for i in ids), len(ids), colors)
    titles = tuple(view.title(i) for i in ids)
    return Coloring(np.searchsorted(view.ids, view.assigned[rows]), titles, tuple(shades), is_classes=True)
