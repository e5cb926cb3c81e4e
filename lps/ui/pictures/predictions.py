"""The network's predictions for the unlabeled images of a run, read once and shared by all viewers: read-only."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import streamlit as st

from lps.analysis import clusters, labels, naming, projection
from lps.analysis.clusters import Assignment, Cluster
from lps.analysis.naming import Naming
from lps.data.split import Split
from lps.errors import UserError
from lps.scores.metrics import contingency, match_ids
from lps.store import inherited_files, snapshots
from lps.store.runs import Run
from lps.ui.pictures import nouns, points
from lps.ui.pictures.bounded_cache import BoundedCache
from lps.wording import counted

MAX_IMAGES = 2_000_000  # unlabeled ones of a run whose clusters a page goes through: 0.5 s for a million
_ASSIGNMENTS = BoundedCache(32 << 20)
_MIN_HISTORY_EPOCHS = 24  # epochs of the history of an image, if as many are stored
_MAX_HISTORY_IMAGES = 12_000_000  # images of all epochs together that are read for the history of one


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

    @cached_property
    def merged(self) -> np.ndarray:
        """Return (n,): the cluster that the model predicts, after the user's merges."""
        return labels.merge_clusters(self.decisions, self.network.predicted)

    @property
    def is_moved(self) -> np.ndarray:
        """Return (n,): whether the user moved the image to its cluster, so the model's confidence is of another one."""
        return self.merged != self.assigned

    @cached_property
    def predicts_label(self) -> np.ndarray:
        """Return (n,): whether the model itself predicts the withheld label of the image, as accuracy/validation."""
        rows = self.split.validation_rows
        predicted, truth = self.network.predicted[rows], self.truth[rows]
        if not self.defaults and len(rows):
            size = int(max(predicted.max(), truth.max())) + 1
            predicted = match_ids(contingency(predicted, truth, size))[predicted]
        is_right = np.zeros(len(self.assigned), bool)
        is_right[rows] = predicted == truth
        return is_right

    def move_in_words(self, row: int) -> str:
        """Return "moved by you", or "split off" for an image that came to its cluster with many others; "" for none.

        A split moves images that the user has not chosen one by one.
        """
        if not self.is_moved[row]:
            return ""
        image, cluster = int(self.split.unlabeled[row]), int(self.assigned[row])
        is_split_off = cluster in self.decisions.created_clusters and image not in self.decisions.confirmed
        return "split off" if is_split_off else "moved by you"

    def confidence_in_words(self, row: int) -> str:
        """Return "confidence 87 %", or how the image in this row of the unlabeled ones came to its cluster."""
        return self.move_in_words(row) or f"confidence {100 * self.network.confidence[row]:.0f} %"

    def rows_by_confidence(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of the unlabeled images, those first that the user moved, then the most confident ones."""
        return rows[np.lexsort((-self.network.confidence[rows], ~self.is_moved[rows]))]

    def name(self, cluster: int) -> str:
        """Return the name of a cluster, "cluster 7" if it has none."""
        return labels.name_of(cluster, self.decisions, self.defaults)

    def title(self, cluster: int) -> str:
        """Return the id with the name, if there is one."""
        return labels.title_of(cluster, self.decisions, self.defaults)

    def next_id(self, decisions: Naming | None = None) -> int:
        """Return the id of a new cluster. decisions: newer ones than those of this view."""
        largest = max(self.ids.max(), self.network.predicted.max())
        return (self.decisions if decisions is None else decisions).next_id(int(largest) + 1)

    def count_pictures(self, cluster: Cluster, noun: str = "picture") -> str:
        """Return "19 pictures", or "19 unlabeled pictures, 68 labeled" for a class with labels."""
        noun = nouns.of(self.run)(noun)
        if not cluster.labeled:
            return counted(cluster.size, noun)
        return f"{counted(cluster.size, f'unlabeled {noun}')}, {cluster.labeled:,} labeled"

    @property
    def choices(self) -> dict[int, str]:
        """Return each cluster with its name and size, for a menu."""
        return {one.id: f"{self.name(one.id)} ({self.count_pictures(one, 'image')})" for one in self.clusters}

    @property
    def named_ids(self) -> set[int]:
        """Return the clusters that the user named and did not mark as not a class, without those merged into others."""
        return self.decisions.names.keys() & set(self.ids.tolist()) - self.decisions.rejected

    def sizes_by_name(self) -> Counter[str]:
        """Return the number of pictures, labeled and predicted, of every class that has a name."""
        labeled = self.targets[self.split.labeled].tolist()
        sizes = Counter(map(self.class_name, labeled))
        named = self.named_ids | self.defaults.keys() - self.decisions.rejected
        for cluster in self.clusters:
            if cluster.id in named:
                sizes[self.name(cluster.id)] += cluster.size
        return sizes

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
    stamps = tuple(points.key_of_snapshot(run, e) for e in (*earlier_epochs, epoch))
    assigned, ids, described_clusters = _describe_clusters(str(run.folder), epoch, stamps, key, is_thorough, decisions)
    return PredictionView(
        run, epoch, partition.split, partition.targets, network, decisions, defaults, assigned, ids, described_clusters
    )


def read_parent(view: PredictionView) -> PredictionView | None:
    """Return the clusters from which this run continues; None if there are none, or they no longer exist."""
    parent_id = inherited_files.parent_of(view.run)
    if not parent_id:
        return None
    try:
        return read_view(
            Run(view.run.root / parent_id), inherited_files.read_confirmed(view.run).epoch, is_thorough=False
        )
    except (UserError, OSError):
        return None


def read_assignment(run: Run, epoch: int) -> Assignment:
    """Return the predictions of an epoch; raises `UserError`."""
    key = str(run.folder), points.key_of_snapshot(run, epoch)
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
    is_moved = assigned != labels.merge_clusters(_decisions, network.predicted)
    labeled, leftovers = _count_labeled(run, partition.split, partition.targets, assigned)
    described = partial(
        clusters.describe_clusters,
        assigned,
        np.where(is_moved, np.nan, network.confidence),
        partition.targets[unlabeled],
        ids,
        len(partition.split.class_names),
        withheld=partition.split.validation_rows,
        labeled=labeled,
        leftovers=leftovers,
    )
    if not is_thorough:
        return assigned, ids, described()
    features, index = snapshots.read_thinned_features(run.snapshots, epoch)
    rows = np.searchsorted(unlabeled, index).clip(max=len(unlabeled) - 1)
    earlier = [a.predicted for a in _readable_assignments(run, [e for e, _ in stamps[:-1]])]
    made_by_user = {
        *_decisions.created_clusters,
        *map(_decisions.root, _decisions.parents),
        *_split_by_user(_decisions, network, unlabeled),
    }
    mixed = clusters.find_mixed_ids(network, clusters.read_first_features(run, unlabeled)) - made_by_user
    more = {"features": features, "feature_rows": rows, "mixed": mixed, "made_by_user": made_by_user}
    return assigned, ids, described(**more, earlier=earlier, predicted=network.predicted)


def _count_labeled(
    run: Run, split: Split, targets: np.ndarray, assigned: np.ndarray
) -> tuple[dict[int, int], set[int]]:
    """Return the number of labeled images of each id that stands for a class, and the ids that hold only leftovers.

    These are the ids with fewer unlabeled images than images that got their label from the user's decisions on an
    earlier run: a class that the user named there, or a seen class to which the user added most of its images.
    """
    seen = split.classes.seen
    labeled = np.bincount(targets[split.labeled], minlength=seen)[:seen]
    unlabeled = np.bincount(assigned, minlength=seen)[:seen]
    confirmed = np.bincount(targets[split.confirmed], minlength=seen)[:seen]
    aligned = labels.default_names(run, split)
    return {i: int(labeled[i]) for i in aligned}, {i for i in aligned if unlabeled[i] < confirmed[i]}


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
    folder, now = str(view.run.folder), points.key_of_snapshot(view.run, view.epoch)
    row = int(np.searchsorted(view.split.unlabeled, image))
    stored, heirs = {}, {}
    for epoch in history_epochs(view):
        try:
            assignment = read_assignment(view.run, epoch)
        except UserError:
            continue
        stored[epoch] = Assignment(assignment.predicted[[row]], assignment.confidence[[row]])  # copies
        heirs[epoch] = _match_clusters(folder, points.key_of_snapshot(view.run, epoch), now, key, view.assigned)
    return clusters.prediction_history(0, stored, heirs)


@st.cache_resource(max_entries=1024, show_spinner=False)
def _match_clusters(folder: str, snapshot_key, now, key: str, _assigned: np.ndarray) -> np.ndarray:
    return clusters.successors(read_assignment(Run(Path(folder)), snapshot_key[0]).predicted, _assigned)
