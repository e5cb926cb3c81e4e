"""Labels of all images of a run: the given ones, and those from predicted clusters and the user's decisions."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lps import datasets
from lps.analysis import naming
from lps.analysis.clusters import Assignment, cluster_indices, count_pairs, read_assignment
from lps.analysis.naming import Naming
from lps.data import sources as data_sources
from lps.data.split import Split
from lps.errors import UserError
from lps.settings import catalog
from lps.store import thumbnails
from lps.store.runs import Run
from lps.store.snapshots import read_split, snapshot_epochs, stored_epochs

_SOURCES = ("labeled", "withheld", "predicted", "rejected")


@dataclass(frozen=True)
class Labels:
    """One row per training image, ascending by image id.

    predicted, cluster: -1 for labeled images, which get no cluster. names: "" for rejected images: those of a rejected
    cluster and those that the user rejected. confidence: NaN for labeled images. groups: "seen",
    "novel", or "" if unknown. sources: one of `_SOURCES`; "withheld" are unlabeled images with a known label that
    was kept from training and is used here.
    """

    epoch: int
    images: np.ndarray
    predicted: np.ndarray
    cluster: np.ndarray
    confidence: np.ndarray
    names: tuple[str, ...]
    groups: tuple[str, ...]
    sources: tuple[str, ...]


def clusters_of(decisions: Naming, predicted: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Return int64 (n,): the cluster of every image after the user's merges and splits.

    predicted: ids of the model (n,). images: image ids (n,), ascending.
    """
    assigned = predicted.astype(np.int64)
    if decisions.moved:
        moved_images = np.array(sorted(decisions.moved), np.int64)
        rows = cluster_indices(moved_images, images)
        assigned[rows[rows >= 0]] = [decisions.moved[image] for image in moved_images[rows >= 0].tolist()]
    return merge_clusters(decisions, assigned)


def merge_clusters(decisions: Naming, predicted: np.ndarray) -> np.ndarray:
    """Return int64 (n,): what the model says of every image, with merges, without the images that the user moved."""
    merged = predicted.astype(np.int64)
    if not decisions.parents:
        return merged
    roots = np.arange(max(int(merged.max(initial=0)), *decisions.parents) + 1)
    for part in decisions.parents:
        roots[part] = decisions.root(part)
    return roots[merged]


def cluster_ids(decisions: Naming, predicted: np.ndarray, total: int) -> np.ndarray:
    """Return all cluster ids, ascending: those the model can predict and those split off, without merged ones."""
    count = max(total, int(predicted.max(initial=0)) + 1)
    return np.array(sorted({*range(count), *decisions.moved.values()} - set(decisions.parents)), np.int64)


def default_names(run: Run, split: Split) -> dict[int, str]:
    """Return the default names of clusters: those of the seen classes, if the method's ids mean classes."""
    if not catalog.method_info(run.config().method).seen_is_aligned:
        return {}
    return dict(enumerate(split.class_names[: split.classes.seen]))


def name_of(cluster: int, decisions: Naming, defaults: Mapping[int, str]) -> str:
    """Return the user's name of a cluster, else its default name, else "cluster 7"."""
    return decisions.names.get(cluster) or defaults.get(cluster) or f"cluster {cluster}"


def title_of(cluster: int, decisions: Naming, defaults: Mapping[int, str]) -> str:
    """Return the id with the name, if there is one."""
    name = decisions.names.get(cluster) or defaults.get(cluster, "")
    return f"{cluster} · {name}" if name not in ("", str(cluster)) else str(cluster)


def cluster_names(run: Run, split: Split) -> list[str]:
    """Return the name of every cluster at the newest stored epoch: the user's, else that of the labeled class."""
    stored = snapshot_epochs(run.snapshots)
    decisions = naming.naming_of_epoch(naming.read_entries(run), stored[-1] if stored else 0)
    defaults = default_names(run, split)
    return [name_of(cluster, decisions, defaults) for cluster in range(split.classes.total)]


def digest_of_predictions(predicted: np.ndarray) -> str:
    """Return a short identifier of the predictions of an epoch."""
    return hashlib.sha256(np.ascontiguousarray(predicted, np.int64).tobytes()).hexdigest()[:12]


def load_pictures(run: Run, split: Split, targets: np.ndarray) -> datasets.Images:
    """Return the images of a run; raises `UserError` if they are missing or not those that the run saw.

    For a recording: its small copies, if it has any.
    """
    if thumbnails.has_thumbnails(run):
        return thumbnails.read_thumbnails(run, split, targets)
    images = data_sources.images_of(run.config())
    is_matching = len(images.labels) == len(targets) and images.num_classes <= len(split.class_order)
    known_rows = np.ones(len(targets), bool)
    known_rows[split.confirmed] = False  # their labels come from the user, not from the data set
    if not is_matching or not np.array_equal(split.targets(images.labels)[known_rows], targets[known_rows]):
        raise UserError("dataset", "has changed since the run started, so its pictures cannot be used")
    return images


# ---------------------------------------------------------------------------------------------------- all labels


def label_all(run: Run, epoch: int | None = None) -> Labels:
    """Return the labels of a run at an epoch: the newest with user names, else the newest; raises `UserError`."""
    _, targets = read_split(run.folder)
    seen = read_clusters(run, epoch)
    return build_labels(seen.epoch, seen.split, targets, seen.network, seen.decisions, seen.defaults)


def build_labels(
    epoch: int, split: Split, targets: np.ndarray, network: Assignment, decisions: Naming, defaults: Mapping[int, str]
) -> Labels:
    """Build the labels from their parts; targets: class id of every image, -1 unknown."""
    images = split.training
    rows = np.searchsorted(images, split.unlabeled)
    has_label = np.isin(images, np.concatenate([split.labeled, split.validation]))
    is_labeled = np.isin(images, split.labeled)
    predicted, cluster = np.full(len(images), -1), np.full(len(images), -1)
    confidence = np.full(len(images), np.nan)
    predicted[rows], confidence[rows] = network.predicted, network.confidence
    cluster[rows] = clusters_of(decisions, network.predicted, split.unlabeled)
    rejected = ~has_label & (np.isin(cluster, list(decisions.rejected)) | np.isin(images, list(decisions.unlabeled)))
    ids = range(max(int(cluster.max(initial=0)), 0) + 1)
    names = _spread([name_of(c, decisions, defaults) for c in ids], cluster)
    groups = _spread([group_of_cluster(c, split, decisions, defaults) for c in ids], cluster)
    names[has_label] = _spread(split.class_names, targets[images[has_label]])
    groups[has_label], sources = "seen", _spread(_SOURCES, np.full(len(images), _SOURCES.index("predicted")))
    names[rejected], groups[rejected], sources[rejected] = "", "", "rejected"
    sources[has_label], sources[is_labeled] = "withheld", "labeled"
    columns = (tuple(texts.tolist()) for texts in (names, groups, sources))
    return Labels(epoch, images, predicted, cluster, confidence, *columns)


def _spread(texts: Sequence[str], rows: np.ndarray) -> np.ndarray:
    """Return texts[rows] as objects (n,): every text is in memory once."""
    return np.array(texts, object)[rows]


def group_of_cluster(cluster: int, split: Split, decisions: Naming, defaults: Mapping[int, str]) -> str:
    """Return "seen", "novel" or "". If ids do not mean classes, the name alone decides."""
    if defaults:
        return "seen" if cluster < split.classes.seen else "novel"
    if cluster not in decisions.names:
        return ""
    seen_names = map(str.casefold, split.class_names[: split.classes.seen])
    return "seen" if decisions.names[cluster].casefold() in seen_names else "novel"


@dataclass(frozen=True)
class LabelCheck:
    """The data of an epoch that a user reviews. cluster: of every unlabeled image; ids: of all clusters, ascending."""

    epoch: int
    split: Split
    network: Assignment
    decisions: Naming
    defaults: Mapping[int, str]
    cluster: np.ndarray
    ids: tuple[int, ...]

    def name(self, cluster: int) -> str:
        """Return the name of a cluster, "" if it has none."""
        if cluster in self.decisions.rejected:
            return "(not a class)"
        return self.decisions.names.get(cluster) or self.defaults.get(cluster, "")

    def size(self, cluster: int) -> int:
        """Return the number of unlabeled images in a cluster."""
        return int((self.cluster == cluster).sum())


def read_clusters(run: Run, epoch: int | None = None) -> LabelCheck:
    """Return the clusters of a run at an epoch: the newest with user names, else the newest; raises `UserError`."""
    epochs, entries = stored_epochs(run), naming.read_entries(run)
    if epoch is None:
        epoch = max(set(naming.named_epochs(entries)) & set(epochs), default=epochs[-1])
    if epoch not in epochs:
        raise UserError(
            "epoch",
            f"{epoch} has no stored predictions; {len(epochs)} epochs from {epochs[0]} to {epochs[-1]} have them",
        )
    split, _ = read_split(run.folder)
    decisions, network = naming.naming_of_epoch(entries, epoch), read_assignment(run, epoch, split)
    cluster = clusters_of(decisions, network.predicted, split.unlabeled)
    ids = cluster_ids(decisions, network.predicted, split.classes.total)
    return LabelCheck(epoch, split, network, decisions, default_names(run, split), cluster, tuple(ids.tolist()))


# ---------------------------------------------------------------------------------------------------- another epoch


def transfer_decisions(
    decisions: Naming, before: np.ndarray, now: np.ndarray, images: np.ndarray, total: int
) -> tuple[list[dict], list[str]]:
    """Transfer decisions to a later epoch: (equivalent steps there, names of clusters that nothing there continues).

    before, now: predicted ids (n,) of the images (n,) at the epoch of the decisions and at the later one;
    total: ids of the model. An id of the later epoch continues the cluster that more than half of its images come from.
    Split-off images that no id continues are split off again, and images that the user assigned are assigned again.
    Clusters without a decision are not transferred.
    """
    clusters = clusters_of(decisions, before, images)
    empty = decisions.created_clusters.difference(decisions.split_off)
    named_clusters = {
        *decisions.names,
        *decisions.rejected,
        *decisions.parents.values(),
        *decisions.moved.values(),
        *decisions.wrong_clusters.values(),
    }
    named_clusters = {decisions.root(cluster) for cluster in named_clusters} - empty
    named_clusters = np.array(sorted(named_clusters), np.int64)
    count = max(total, int(now.max(initial=0)) + 1)
    shared = count_pairs(cluster_indices(clusters, named_clusters), now, (len(named_clusters), count))
    sizes = np.bincount(now, minlength=count)
    steps, lost, copied_steps = [], [], count
    for row, cluster in enumerate(named_clusters.tolist()):
        followers = [int(i) for i in np.argsort(-shared[row], kind="stable") if 2 * shared[row, i] > sizes[i] > 0]
        if not followers and cluster in decisions.split_off:
            members = images[clusters == cluster]
            steps.append({"do": "split", "images": members.tolist(), "new": copied_steps})
            followers, copied_steps = [copied_steps], copied_steps + 1
        if not followers:
            lost.append(name_of(cluster, decisions, {}))
            continue
        steps += _repeat(cluster, decisions, followers)
        confirmed = [image for image in images[clusters == cluster].tolist() if image in decisions.confirmed]
        steps += [{"do": "assign", "images": confirmed, "to": followers[0]}] if confirmed else []
        wrong = sorted(decisions.wrong_clusters.items())
        wrong_images = [image for image, wrong_cluster in wrong if decisions.root(wrong_cluster) == cluster]
        steps += [{"do": "wrong", "images": wrong_images, "id": followers[0]}] if wrong_images else []
    if decisions.classless_images:
        steps.append({"do": "nothing", "images": sorted(decisions.classless_images)})
    return steps, lost


def _repeat(cluster: int, decisions: Naming, followers: list[int]) -> list[dict]:
    """Return the decisions on a cluster as steps for the ids that continue it; the first of them gets the name."""
    first, *later = followers
    steps: list[dict] = [{"do": "merge", "id": other_cluster, "into": first} for other_cluster in later]
    if cluster in decisions.names:
        steps.append({"do": "name", "id": first, "name": decisions.names[cluster]})
    if cluster in decisions.rejected:
        steps.append({"do": "reject", "id": first})
    return steps
