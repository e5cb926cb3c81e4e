"""By what the points of a projection are coloured: what is known of their images, at this epoch of this run."""

import numpy as np
import pandas as pd

from lps.analysis import naming
from lps.charts import figures
from lps.charts.figures import Group
from lps.charts.palette import Palette, class_colors
from lps.errors import UserError
from lps.store.runs import Run
from lps.ui.pictures import points, predictions
from lps.ui.shared.history import history

_COLORINGS = {
    "group": "Seen / novel",
    "truth": "True class",
    "predicted": "Prediction",
    "right": "Correct",
    "confidence": "Confidence",
}
OF_TRUTH = ("group", "truth", "right")
_MORE = {"called": "Predicted seen / novel", "adopted": "Pseudo-label", "cluster": "Your clusters"}


def available(run: Run, epoch: int) -> dict[str, str]:
    """What can be coloured by, the usual one first; what needs a truth is left out where none is known.

    Where most truths are unknown, what needs them comes last. Raises `UserError` where the split cannot be read.
    """
    known = points.partition(run)
    is_known = known.targets[known.split.unlabeled] >= 0
    has_truth = is_known.any()
    found = {key: words for key, words in _COLORINGS.items() if has_truth or key not in OF_TRUTH}
    found |= {} if has_truth else {"called": _MORE["called"]}
    if _thresholds(run, epoch):
        found["adopted"] = _MORE["adopted"]
    if len(known.split.unlabeled) <= predictions.MOST_IMAGES and _is_named(run, epoch):
        found["cluster"] = _MORE["cluster"]
    is_blind = 2 * np.count_nonzero(is_known) < len(is_known)
    return {key: found[key] for key in sorted(found, key=OF_TRUTH.__contains__)} if is_blind else found


def _thresholds(run: Run, epoch: int) -> dict[str, float]:
    """The confidence from which an image of the group "seen" or "novel" was believed; {} where it was not recorded."""
    past = history(run)
    columns = {group: past.column(f"threshold/{group}") for group in ("seen", "novel")}
    found = {group: float(column[epoch]) for group, column in columns.items() if epoch in column.index}
    return found if len(found) == 2 else {}


def _is_named(run: Run, epoch: int) -> bool:
    try:
        return not naming.naming_of_epoch(naming.read_entries(run), epoch).is_empty
    except UserError:
        return False


def groups(run: Run, epoch: int, table: pd.DataFrame, key: str, colors: Palette) -> list[Group] | None:
    """The groups of a coloring of `_MORE`; None for the others, which `lps.charts.maps.projection` knows.

    table: of `points.table`. Raises `UserError`.
    """
    if key not in _MORE:
        return None
    split = points.partition(run).split
    order = np.argsort(split.unlabeled)
    rows = order[np.searchsorted(split.unlabeled, table["image"].to_numpy(), sorter=order)]
    if key == "cluster":
        return _clusters(run, epoch, rows, colors)
    network, seen = predictions.assignment(run, epoch), split.classes.seen
    called_seen = network.predicted[rows] < seen
    if key == "called":
        return [("Predicted seen", called_seen, colors.seen), ("Predicted novel", ~called_seen, colors.novel)]
    needed = _thresholds(run, epoch)
    passing = network.confidence[rows] >= np.where(called_seen, needed["seen"], needed["novel"])
    return [
        ("Not confident", ~passing, colors.all),
        ("Pseudo-label: seen", passing & called_seen, colors.seen),
        ("Pseudo-label: novel", passing & ~called_seen, colors.novel),
    ]


def _clusters(run: Run, epoch: int, rows: np.ndarray, colors: Palette) -> list[Group]:
    """One group a cluster, as a person has named, merged and split them."""
    here = predictions.view(run, epoch)
    shown = [int(i) for i in here.ids]
    shades = class_colors(sum(i in here.defaults for i in shown), len(shown), colors)
    assigned = here.assigned[rows]
    return [(figures.plain(here.title(i)), assigned == i, shade) for i, shade in zip(shown, shades)]
