"""The network's predictions for the unlabeled images of a run, read once and shared by all viewers: read-only."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import streamlit as st

from lps.analysis import clusters, labels, naming, projection
from lps.analysis.clusters import Assignment, Cluster
from lps.analysis.naming import Naming
from lps.data.split import Split
from lps.errors import UserError
from lps.files.atomic import fingerprint
from lps.store import snapshots
from lps.store.runs import Run
from lps.ui.pictures import points
from lps.ui.pictures.bounded_cache import BoundedCache

MAX_IMAGES = 2_000_000  # unlabeled ones of a run whose clusters a page goes through: 0.5 s for a million
_ASSIGNMENTS = BoundedCache(32 << 20)
_MIN_HISTORY_EPOCHS = 24  # epochs that the life of an image is told by, where there are so many
_MAX_HISTORY_IMAGES = 12_000_000  # images of all epochs together that are read for the life of one


@dataclass(frozen=True)
class PredictionView:
    """The clusters of a run at an epoch, after the user's merges and splits.

    assigned: cluster of every unlabeled image. ids: clusters, ascending; `clusters` describes them.
    """

    run: Run
    epoch: int
    split: Split
    targets: np.ndarray
    network: Assignment
    decisions: Naming
    defaults: dict[int, str]
    assigned: np.ndarray
    ids: np.ndarray
    clusters: list[Cluster]

    @property
    def truth(self) -> np.ndarray:
        """Return the class id of every unlabeled image, -1 unknown."""
        return self.targets[self.split.unlabeled]

    def name(self, cluster: int) -> str:
        """Return the name of a cluster, "cluster 7" if it has none."""
        return labels.name_of(cluster, self.decisions, self.defaults)

    def title(self, cluster: int) -> str:
        """Return the id with the name, if there is one."""
        return labels.title_of(cluster, self.decisions, self.defaults)

    def class_name(self, class_id: int) -> str:
        return self.split.class_names[class_id] if 0 <= class_id < len(self.split.class_names) else ""


def read_view(run: Run, epoch: int, *, is_thorough: bool = True) -> PredictionView:
    """Return the clusters of an epoch. is_thorough: with reasons to doubt the clusters, which takes longer.

    Raises `UserError` if files are missing or damaged, or have more images than a page can read.
    """
    partition = points.read_partition(run)
    if (count := len(partition.split.unlabeled)) > MAX_IMAGES:
        raise UserError(
            "clusters",
            f"of {count:,} unlabeled images take too much memory for a page; expected at most {MAX_IMAGES:,}. Use "
            "python -m lps export RUN --to labels.csv for all of them",
        )
    decisions = naming.naming_of_epoch(naming.read_entries(run), epoch)
    defaults = labels.default_names(run, partition.split)
    network = read_assignment(run, epoch)
    earlier_epochs = [e for e in points.stored_epochs(run) if e < epoch][-clusters.WINDOW :] if is_thorough else []
    key = repr((sorted(decisions.parents.items()), sorted(decisions.moved.items())))
    stamps = tuple((e, _stamp(run, e)) for e in (*earlier_epochs, epoch))
    assigned, ids, described_clusters = _describe_clusters(str(run.folder), epoch, stamps, key, is_thorough, decisions)
    return PredictionView(
        run, epoch, partition.split, partition.targets, network, decisions, defaults, assigned, ids, described_clusters
    )


def read_assignment(run: Run, epoch: int) -> Assignment:
    """Return the predictions of an epoch; raises `UserError`."""
    key = str(run.folder), epoch, _stamp(run, epoch)
    return _ASSIGNMENTS.get(
        key, lambda: clusters.read_assignment(run, epoch, points.read_partition(run).split), _bytes_of_assignment
    )


def _bytes_of_assignment(network: Assignment) -> int:
    return network.predicted.nbytes + network.confidence.nbytes


@st.cache_resource(max_entries=8, show_spinner=False)
def _describe_clusters(folder: str, epoch: int, stamps, key: str, is_thorough: bool, _decisions: Naming):
    run = Run(Path(folder))
    partition, network = points.read_partition(run), read_assignment(run, epoch)
    unlabeled = partition.split.unlabeled
    assigned = labels.clusters_of(_decisions, network.predicted, unlabeled)
    ids = labels.cluster_ids(_decisions, network.predicted, partition.split.classes.total)
    described = partial(
        clusters.describe_clusters,
        assigned,
        network.confidence,
        partition.targets[unlabeled],
        ids,
        len(partition.split.class_names),
        withheld=partition.split.validation_rows,
    )
    if not is_thorough:
        return assigned, ids, described()
    features, index = snapshots.read_thinned_features(run.snapshots, epoch)
    rows = np.searchsorted(unlabeled, index).clip(max=len(unlabeled) - 1)
    earlier = [a.predicted for a in _readable_assignments(run, [e for e, _ in stamps[:-1]])]
    made_by_user = {
        *_decisions.created_clusters,
        *map(_decisions.root, _decisions.parents),
    }  # whether the network always had these says nothing
    mixed = clusters.find_mixed_ids(network, clusters.read_first_features(run, unlabeled)) - made_by_user
    mixed -= _split_by_user(_decisions, network, unlabeled)
    cluster_list = described(earlier=earlier, features=features, feature_rows=rows, mixed=mixed)
    return assigned, ids, [replace(c, stability=np.nan) if c.id in made_by_user else c for c in cluster_list]


def _split_by_user(decisions: Naming, network: Assignment, unlabeled: np.ndarray) -> set[int]:
    """Return the clusters of the network from which the user split pictures off."""
    split_off = [image for image, cluster in decisions.moved.items() if cluster in decisions.created_clusters]
    return set(network.predicted[np.isin(unlabeled, split_off)].tolist())


def _readable_assignments(run: Run, epochs: list[int]) -> list[Assignment]:
    """Return the assignments of the epochs whose snapshot can be read."""
    assignments = []
    for epoch in epochs:
        try:
            assignments.append(read_assignment(run, epoch))
        except UserError:
            continue
    return assignments


def history_epochs(view: PredictionView) -> list[int]:
    """Return the epochs that an image's history shows: all, or for a large run some, evenly spread."""
    stored = points.stored_epochs(view.run)
    selected = projection.spread_epochs(
        stored, max(_MIN_HISTORY_EPOCHS, _MAX_HISTORY_IMAGES // max(1, len(view.assigned)))
    )
    return sorted({*selected, view.epoch})


def read_image_history(view: PredictionView, image: int) -> list[clusters.Moment]:
    """Return the history of an unlabeled image over `history_epochs`, as far as these can be read."""
    key = repr((view.epoch, sorted(view.decisions.parents.items()), sorted(view.decisions.moved.items())))
    folder, now = str(view.run.folder), _stamp(view.run, view.epoch)
    row = int(np.searchsorted(view.split.unlabeled, image))
    stored, heirs = {}, {}
    for epoch in history_epochs(view):
        try:
            assignment = read_assignment(view.run, epoch)
        except UserError:
            continue
        stored[epoch] = Assignment(assignment.predicted[[row]], assignment.confidence[[row]])  # copies
        heirs[epoch] = _match_clusters(folder, epoch, _stamp(view.run, epoch), now, key, view.assigned)
    return clusters.prediction_history(0, stored, heirs)


@st.cache_resource(max_entries=1024, show_spinner=False)
def _match_clusters(folder: str, epoch: int, stamp, now, key: str, _assigned: np.ndarray) -> np.ndarray:
    return clusters.successors(read_assignment(Run(Path(folder)), epoch).predicted, _assigned)


def _stamp(run: Run, epoch: int) -> tuple | None:
    return fingerprint(run.snapshots / f"epoch-{epoch:04d}.npz")
