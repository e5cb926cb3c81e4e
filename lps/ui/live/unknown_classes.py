"""What Live shows of a run whose unlabeled images have no known class.

It shows the accuracy on withheld labels, the confidence and the cluster sizes; `found_clusters` shows the clusters.
"""

from contextlib import suppress

import pandas as pd
import streamlit as st

from lps.analysis.clusters import Assignment
from lps.charts import group_tables, line_charts
from lps.charts.event_log import History
from lps.errors import UserError
from lps.store.runs import Run
from lps.ui.live import cards
from lps.ui.pictures import nouns, points, predictions
from lps.wording import share_of

_NO_ACCURACY = "The classes of the unlabeled images are not known, so accuracy cannot be measured on these images."
_WITHHELD = "Withheld labels: accuracy on images whose label was withheld from training."
_NONE_WITHHELD = (
    "To measure accuracy, start another run with split.validation_ratio=0.1. Such a run withholds 10 % of the labels "
    "from training and measures accuracy on them."
)


def cluster_shares(run: Run) -> pd.DataFrame:
    """Return the share of the unlabeled images in each cluster, one column each, by epoch; raises `UserError`.

    Epochs whose snapshot cannot be read are left out.
    """

    def read_epoch(run: Run, epoch: int, _split) -> Assignment:
        return predictions.read_assignment(run, epoch)

    return group_tables.cluster_shares(run, points.read_partition(run).split, read_epoch)


def show_numbers(run: Run, history: History) -> None:
    """Show what is known as cards, and what is not known and why."""
    withheld = 0
    with suppress(UserError):
        withheld = len(points.read_partition(run).split.validation)
    measurements = [
        (
            "Withheld labels",
            history.column("accuracy/validation"),
            lambda value: share_of(value, withheld) if withheld else _as_percent(value),
        ),
        ("Confident, seen", history.column("pseudo_label/rate/seen"), _as_percent),
        ("Confident, novel", history.column("pseudo_label/rate/novel"), _as_percent),
    ]
    with suppress(UserError):
        table = cluster_shares(run)
        format_count = f"{{:.0f}} of {table.shape[1]}".format
        measurements += [
            ("Clusters in use", (table > 0).sum(axis=1), format_count),
            ("Largest cluster", table.max(axis=1), _as_percent),
        ]
    measurements.append(("KL", history.column("kl"), "{:.3f}".format))
    cards.show_cards(
        [(label, as_text(values.iloc[-1]), values) for label, values, as_text in measurements if len(values)]
    )
    about_withheld = _WITHHELD if len(history.column("accuracy/validation")) else _NONE_WITHHELD
    about_confident = (
        "Confident: the share of images whose prediction is confident enough to serve as a label in "
        "training (pseudo-label)."
    )
    st.caption(nouns.of(run)(f"{_NO_ACCURACY} {about_withheld} {about_confident}"))


def draw_curves(run: Run, history: History, epochs: int, colors):
    """Return the curves of such a run, which replace the pace view."""
    try:
        table = cluster_shares(run)
    except UserError:
        table = pd.DataFrame()
    return line_charts.blind_pace(history, table, points.class_names(run), epochs, colors)


def _as_percent(value: float) -> str:
    return f"{100 * value:.1f} %"
