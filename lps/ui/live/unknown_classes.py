"""What Live shows of a run whose unlabeled images have no known class.

It shows the accuracy on withheld labels, the confidence and the cluster sizes; `found_clusters` shows the clusters.
"""

from contextlib import suppress

import pandas as pd
import streamlit as st

from lps.analysis.clusters import Assignment
from lps.analysis.labels import cluster_names
from lps.charts import group_tables, line_charts
from lps.charts.event_log import History
from lps.errors import UserError
from lps.store.runs import Run
from lps.ui.live import cards
from lps.ui.pictures import nouns, points, predictions
from lps.wording import share_of

_WHY = "The classes of the unlabeled images are not known, so no accuracy can be measured on them."
_WITHHELD = "Withheld labels: accuracy on images whose label was withheld from training."
_NONE_WITHHELD = (
    "Start another run with split.validation_ratio=0.1 to withhold some labels and measure accuracy on them."
)


def cluster_shares(run: Run) -> pd.DataFrame:
    """Return the share of the unlabeled images in each cluster, one column each, by epoch; raises `UserError`.

    Epochs whose snapshot cannot be read are left out.
    """

    def read(run: Run, epoch: int, _split) -> Assignment:
        return predictions.read_assignment(run, epoch)

    return group_tables.cluster_shares(run, points.read_partition(run).split, read)


def show_numbers(run: Run, past: History) -> None:
    """Show what is known as cards, and what is not known and why."""
    withheld = 0
    with suppress(UserError):
        withheld = len(points.read_partition(run).split.validation)
    shown = [
        (
            "Withheld labels",
            past.column("accuracy/validation"),
            lambda value: share_of(value, withheld) if withheld else _as_percent(value),
        ),
        ("Confident, seen", past.column("pseudo_label/rate/seen"), _as_percent),
        ("Confident, novel", past.column("pseudo_label/rate/novel"), _as_percent),
    ]
    with suppress(UserError):
        table = cluster_shares(run)
        in_use = f"{{:.0f}} of {table.shape[1]}".format
        shown += [
            ("Clusters in use", (table > 0).sum(axis=1), in_use),
            ("Largest cluster", table.max(axis=1), _as_percent),
        ]
    shown.append(("KL", past.column("kl"), "{:.3f}".format))
    cards.show_cards([(word, as_text(values.iloc[-1]), values) for word, values, as_text in shown if len(values)])
    more = _WITHHELD if len(past.column("accuracy/validation")) else _NONE_WITHHELD
    words = f"{_WHY} {more} Confident: share of images whose prediction is confident enough for a pseudo-label."
    st.caption(nouns.of(run)(words))


def draw_curves(run: Run, past: History, epochs: int, colors):
    """Return the curves of such a run, which replace the pace view."""
    try:
        table = cluster_shares(run)
    except UserError:
        table = pd.DataFrame()
    return line_charts.blind_pace(past, table, _cluster_names(run), epochs, colors)


def _cluster_names(run: Run) -> list[str]:
    """Return the names of the clusters."""
    try:
        return cluster_names(run, points.read_partition(run).split)
    except UserError:
        return []


def _as_percent(value: float) -> str:
    return f"{100 * value:.0f} %"
