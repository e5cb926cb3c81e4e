"""Describe the clusters of an epoch: size, purity, confidence, stability, and reasons to doubt them.

A cluster is the set of unlabeled images with one id: the network's prediction, or a user's correction of it
(`lps.analysis.labels`). NumPy only. Images of unknown class have truth -1 and are left out of everything that needs
the truth.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from lps.analysis import mixed_clusters
from lps.analysis.projection import unit_rows
from lps.data.split import Split
from lps.errors import UserError
from lps.scores.metrics import match_ids
from lps.store import inherited_files
from lps.store.runs import Run
from lps.store.snapshots import check_ids, read_arrays, read_thinned_features, snapshot_epochs
from lps.wording import capitalized, counted

_TRUSTED = 0.5  # share of a cluster with a known class from which that class describes the whole cluster
_JUDGED = 0.9  # share of a cluster with a known class from which flags name its classes
_LARGE_PART = 1 / 3  # of a class: a cluster that holds this much of two classes has merged them
WINDOW = 5  # earlier snapshots used for stability


class _Flag(NamedTuple):
    """A reason to check a cluster first: text for users, when it is shown and how often it is right, what to do there.

    advice: with {where} for the place of the tools.
    """

    text: str
    meaning: str
    advice: str


_TAKE_APART = "choose three pictures of one class {where} and press Find similar"
FLAGS = {  # the figures are those of `python -m benchmarks.cluster_flags`, on digits and CIFAR-10
    "split": _Flag(
        "part of a class",
        "this cluster and another one have the same most frequent class; in a test, 8 of 8 such flags were correct",
        "merge it into the other cluster {where}",
    ),
    "merge": _Flag(
        "mixes classes",
        "at least two classes have a third or more of their images in this cluster; in a test, 15 of 16 such flags "
        "were correct",
        _TAKE_APART + "; a novel cluster can also stay unnamed",
    ),
    "mixed": _Flag(
        "looks mixed",
        "many of its pictures resemble pictures of several other clusters. Only the clearest cases get this flag, so "
        "look at every cluster: in our tests on collections of 600 photographs, the flag was right for 31 of 32 "
        "clusters, but 69 of 96 clusters without this flag were mixed, too",
        _TAKE_APART + ". If it has a bit of everything, mark it as not a class",
    ),
}
UNJUDGED_TEXT = "not judged"
UNJUDGED = {  # in place of flags: why a cluster cannot get one
    "made": "you made this cluster by a split or a merge, and only clusters of the model can get the flag “looks "
    "mixed”. Look at its pictures",
    "rest": "most pictures of this cluster have a label since you trained again. Only the rest is in it, so a flag "
    "would say little about the class. Move the pictures that show another class",
}
_PIECE = 512  # images whose unit features are in memory at once
_MAX_LOOKED_UP = 10_000  # largest id of a table by which many images find their cluster


@dataclass(frozen=True)
class Assignment:
    """The network's predictions for all unlabeled images: id int64 (n,), confidence float32 (n,)."""

    predicted: np.ndarray
    confidence: np.ndarray


@dataclass(frozen=True)
class Cluster:
    """One cluster. Classes are class ids, -1 for none; shares and confidence are fractions, NaN if unknown.

    known: images whose class is known. matched, matched_share: its class under the matching of accuracy/all, which
    need not be frequent in it, and that class's share of `known`. majority, purity, runner_up, runner_up_share: the
    two most frequent classes among `known`, and their shares of it. withheld: images whose label was withheld for
    validation. stability: see `cluster_stability`. nearest, similarity: see `nearest_clusters`. labeled: labeled images
    of the seen class that the id stands for. unjudged: why it cannot get a flag, a key of `UNJUDGED`; "" if it can.
    """

    id: int
    size: int
    known: int
    withheld: int
    confidence: float
    matched: int
    matched_share: float
    majority: int
    purity: float
    runner_up: int
    runner_up_share: float
    stability: float
    nearest: int
    similarity: float
    flags: tuple[str, ...]
    labeled: int = 0
    unjudged: str = ""

    @property
    def is_trusted(self) -> bool:
        """Whether enough images have a known class to describe the whole cluster by it."""
        return self.size > 0 and self.known >= _TRUSTED * self.size


def explain_flag(flag: str, where: str = "on Clusters") -> str:
    """Return the meaning of a flag and what to do, as a line of markdown. where: "below" on Clusters."""
    if flag in UNJUDGED:
        return f"**{capitalized(UNJUDGED_TEXT)}**: {UNJUDGED[flag]}."
    text, meaning, advice = FLAGS[flag]
    return f"**{capitalized(text)}**: {meaning}. **What to do**: {advice.format(where=where)}."


def marks_of(cluster: Cluster) -> tuple[str, ...]:
    """Return the flags of a cluster, or the key of `UNJUDGED` if it has pictures and cannot get one."""
    return cluster.flags or ((cluster.unjudged,) if cluster.size and cluster.unjudged else ())


def unflagged_twin(clusters: Iterable[Cluster], cluster: int) -> Cluster | None:
    """Return the other cluster if this and the other one are each other's nearest and neither has a flag."""
    unmarked = {one.id: one for one in clusters if one.size and not marks_of(one)}
    twin = unmarked.get(unmarked[cluster].nearest) if cluster in unmarked else None
    return twin if twin and twin.nearest == cluster else None


def flags_in_words(clusters: Iterable[Cluster]) -> str:
    """ "2 clusters have a flag", "no cluster has a flag, 3 are not judged": the same count on every page."""
    marks = [marks_of(cluster) for cluster in clusters]
    unjudged = sum(mark[0] in UNJUDGED for mark in marks if mark)
    count = sum(map(bool, marks)) - unjudged
    text = f"{counted(count, 'cluster')} {'has' if count == 1 else 'have'} a flag" if count else "no cluster has a flag"
    return f"{text}, {unjudged} {'is' if unjudged == 1 else 'are'} {UNJUDGED_TEXT}" if unjudged else text


def read_assignment(run: Run, epoch: int, split: Split) -> Assignment:
    """Return the predictions of an epoch for `split.unlabeled`; raises `UserError` if missing or of other images."""
    name = f"epoch-{epoch:04d}.npz"
    stored = read_arrays(run.snapshots / name, ("predicted", "confidence"))
    predicted, confidence = stored["predicted"], stored["confidence"]
    check_ids(name, predicted, split.unlabeled, split.classes)
    if confidence.shape != predicted.shape:
        raise UserError(name, f"does not have one confidence for each of the {len(predicted)} unlabeled images")
    return Assignment(predicted.astype(np.int32), confidence.astype(np.float32))


def read_first_features(run: Run, unlabeled: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (features, rows of `unlabeled`) after the first epoch; of a run that continues another one, of that one.

    None if they cannot be read, and for a run that trains its backbone: there too few flags were right (digits).
    """
    passed = {run.id}
    while (config := run.config_if_readable()) and config.network_continues:
        parent = Run(run.root / inherited_files.parent_of(run))
        if parent.id in passed or not snapshot_epochs(parent.snapshots):
            break
        run = parent
        passed.add(run.id)
    if config is None or config.features != "stored" or config.network_start == "random":
        return None
    try:
        features, index = read_thinned_features(run.snapshots, snapshot_epochs(run.snapshots)[0])
    except (UserError, IndexError):
        return None
    is_here = np.isin(index, unlabeled)
    return features[is_here], np.searchsorted(unlabeled, index[is_here])


def find_mixed_ids(network: Assignment, first: tuple[np.ndarray, np.ndarray] | None) -> set[int]:
    """Return the network's clusters that look mixed; first: `read_first_features`."""
    if first is None or not len(first[0]):
        return set()
    ids, places = np.unique(network.predicted, return_inverse=True)
    confidence = np.bincount(places, weights=network.confidence) / np.bincount(places)
    return set(ids[mixed_clusters.find_mixed(first[0], places[first[1]], confidence)].tolist())


# ---------------------------------------------------------------------------------------------------- counts


def count_pairs(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Count every (row, column) pair, int64 of `shape`; pairs with a negative member are left out."""
    is_counted = (rows >= 0) & (columns >= 0)
    return np.bincount(rows[is_counted] * shape[1] + columns[is_counted], minlength=shape[0] * shape[1]).reshape(shape)


def cluster_indices(assigned: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the index in `ids` (ascending) of each image's cluster; -1 for a cluster that is not in `ids`."""
    if len(ids) == 0:
        return np.full(len(assigned), -1)
    if ids[0] >= 0 and ids[-1] < _MAX_LOOKED_UP < len(assigned):
        table = np.full(int(ids[-1]) + 2, -1)
        table[ids] = np.arange(len(ids))  # the last entry is that of all other ids
        return table[np.where(assigned < 0, len(table) - 1, np.minimum(assigned, len(table) - 1))]
    positions = np.searchsorted(ids, assigned).clip(max=len(ids) - 1)
    return np.where(ids[positions] == assigned, positions, -1)


def confusion_counts(assigned: np.ndarray, truth: np.ndarray, ids: np.ndarray, num_classes: int) -> np.ndarray:
    """Return (clusters, classes) counts of images of known class, clusters in the order of `ids` (ascending)."""
    return count_pairs(cluster_indices(assigned, ids), truth, (len(ids), num_classes))


def jaccard_overlap(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return the Jaccard index (images in both over images in either) of all cluster pairs; 0 for empty clusters.

    rows, columns: index of the cluster of every image in each assignment, -1 for none.
    """
    pair_counts = count_pairs(rows, columns, shape)
    either = pair_counts.sum(axis=1, keepdims=True) + pair_counts.sum(axis=0, keepdims=True) - pair_counts
    return np.divide(pair_counts, either, out=np.zeros(shape), where=either > 0)


def cluster_stability(assigned: np.ndarray, ids: np.ndarray, earlier: Sequence[np.ndarray]) -> np.ndarray:
    """Return (clusters,): mean over earlier assignments of the largest overlap with any cluster of that assignment.

    NaN for a cluster without images, and for all if there are no earlier assignments.
    """
    assigned_places = cluster_indices(assigned, ids)
    sizes = np.bincount(assigned_places[assigned_places >= 0], minlength=len(ids))
    if not len(earlier) or not len(ids):
        return np.full(len(ids), np.nan)
    best = [
        jaccard_overlap(assigned_places, old_places, (len(ids), int(old_places.max(initial=0)) + 1)).max(axis=1)
        for old_places in earlier
    ]
    return np.where(sizes > 0, np.mean(best, axis=0), np.nan)


def successors(old_assigned: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Return for every id of `old_assigned` the id of `now` with the largest overlap, -1 for ids without images.

    Ids need not mean the same at two epochs: some methods cluster again at each.
    """
    ids = np.unique(now)
    shared = jaccard_overlap(old_assigned, cluster_indices(now, ids), (int(old_assigned.max(initial=-1)) + 1, len(ids)))
    if not shared.size:
        return np.full(len(shared), -1)
    return np.where(shared.max(axis=1) > 0, ids[shared.argmax(axis=1)], -1)


def nearest_clusters(features: np.ndarray, positions: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (index of the nearest other cluster, -1 for none; cosine of the two mean directions), each (count,).

    features (m, d) of a sample of the images and the place of each one's cluster, -1 for none.
    """
    totals = np.zeros((count, features.shape[1]))
    placed = np.flatnonzero(positions >= 0)
    placed = placed[np.argsort(positions[placed], kind="stable")]
    for start in range(0, len(placed), _PIECE):
        rows = placed[start : start + _PIECE]
        present, starts = np.unique(positions[rows], return_index=True)
        totals[present] += np.add.reduceat(unit_rows(features[rows]), starts, axis=0, dtype=float)
    directions = unit_rows(totals)
    cosines = directions @ directions.T
    absent = ~directions.any(axis=1)
    cosines[:, absent] = cosines[absent] = -np.inf
    np.fill_diagonal(cosines, -np.inf)
    nearest = cosines.argmax(axis=1) if count else np.zeros(0, int)
    similarity = cosines[np.arange(count), nearest]
    is_alone = np.isinf(similarity)
    return np.where(is_alone, -1, nearest), np.where(is_alone, np.nan, similarity)


# ---------------------------------------------------------------------------------------------------- clusters


def describe_clusters(
    assigned: np.ndarray,
    confidence: np.ndarray,
    truth: np.ndarray,
    ids: np.ndarray,
    num_classes: int,
    *,
    withheld: np.ndarray | None = None,
    earlier: Sequence[np.ndarray] = (),
    features: np.ndarray | None = None,
    feature_rows: np.ndarray | None = None,
    mixed: Collection[int] = (),
    made_by_user: Collection[int] = (),
    predicted: np.ndarray | None = None,
    labeled: Mapping[int, int] = MappingProxyType({}),
    leftovers: Collection[int] = (),
) -> list[Cluster]:
    """Return one `Cluster` for each of `ids` (ascending).

    assigned, confidence, truth: (n,), of the unlabeled images; confidence is NaN where the model gave none for this
    cluster, and such images are left out of the mean. withheld: rows whose label is known and was withheld.
    earlier: predicted ids at epochs before. features (m, d): of the images in the rows `feature_rows` (m,). mixed: the
    ids that look mixed (`find_mixed_ids`). made_by_user: the ids of which this cannot be told, and which have no
    stability, because the model never had these clusters. predicted (n,): the ids before the user's corrections, of
    which the stability is measured; default: `assigned`. labeled: number of labeled images of the class of an id.
    leftovers: the ids of which no flag is set, because most of their images got a label.
    """
    cluster_places = cluster_indices(assigned, ids)
    counts = confusion_counts(assigned, truth, ids, num_classes)
    sizes = np.bincount(cluster_places[cluster_places >= 0], minlength=len(ids))
    num_known = counts.sum(axis=1)
    trusted = (sizes > 0) & (num_known >= _TRUSTED * sizes)
    shares = _over(counts, num_known[:, None])
    matched = np.where(trusted, match_classes(counts), -1)
    order = np.argsort(-counts, axis=1, kind="stable")[:, :2]
    sorted_shares = np.take_along_axis(shares, order, axis=1)
    leading = np.where(np.take_along_axis(counts, order, axis=1) > 0, order, -1)
    places_of_withheld = cluster_places[[] if withheld is None else withheld]
    withheld_sizes = np.bincount(places_of_withheld[places_of_withheld >= 0], minlength=len(ids))
    is_sure = (cluster_places >= 0) & ~np.isnan(confidence)
    sums = np.bincount(cluster_places[is_sure], weights=confidence[is_sure].astype(float), minlength=len(ids))
    num_sure = np.bincount(cluster_places[is_sure], minlength=len(ids))
    stability = cluster_stability(assigned if predicted is None else predicted, ids, earlier)
    is_made = np.isin(ids, [*made_by_user])
    nearest, similarity = np.full(len(ids), -1), np.full(len(ids), np.nan)
    if features is not None and feature_rows is not None and len(features):
        nearest, similarity = nearest_clusters(features, cluster_places[feature_rows], len(ids))
    columns = {
        "size": sizes,
        "known": num_known,
        "withheld": withheld_sizes,
        "confidence": _over(sums, num_sure),
        "matched": matched,
        "matched_share": np.where(matched >= 0, shares[np.arange(len(ids)), matched], np.nan),
        "majority": leading[:, 0],
        "purity": sorted_shares[:, 0],
        "runner_up": leading[:, 1] if num_classes > 1 else np.full(len(ids), -1),
        "runner_up_share": sorted_shares[:, 1] if num_classes > 1 else np.full(len(ids), np.nan),
        "stability": np.where(is_made, np.nan, stability),
        "nearest": np.where(nearest >= 0, ids[nearest], -1),
        "similarity": similarity,
        "labeled": np.array([labeled.get(i, 0) for i in ids.tolist()], int),
    }
    is_known = trusted & (num_known >= _JUDGED * sizes)
    is_rest = np.isin(ids, [*leftovers])
    columns["unjudged"] = np.select([is_rest, is_made & ~is_known], ["rest", "made"], "")
    flags = _flags(counts, is_known & ~is_rest, np.isin(ids, [*mixed]) & ~is_rest)
    rows = zip(*(column.tolist() for column in columns.values()))
    return [Cluster(int(i), **dict(zip(columns, row)), flags=marks) for i, row, marks in zip(ids, rows, flags)]


def match_classes(counts: np.ndarray) -> np.ndarray:
    """Return the class of each cluster under the one-to-one matching with the largest count; -1 if none is shared."""
    size = max(counts.shape)
    square = np.zeros((size, size), counts.dtype)
    square[: counts.shape[0], : counts.shape[1]] = counts
    matched = match_ids(square)[: len(counts)]
    return np.where(square[np.arange(len(counts)), matched] > 0, matched, -1)


def _flags(counts: np.ndarray, is_judged: np.ndarray, mixed: np.ndarray) -> list[tuple[str, ...]]:
    """Return the flags of every cluster, as keys of `FLAGS`.

    counts (clusters, classes); is_judged: clusters whose classes are known; mixed: those that look mixed.
    """
    majority = np.where(is_judged & (counts.sum(axis=1) > 0), counts.argmax(axis=1), -1)
    parts = _over(counts, counts.sum(axis=0))
    rows = []
    for i in range(len(counts)):
        flags = {
            "split": majority[i] >= 0 and (majority == majority[i]).sum() > 1,
            "merge": is_judged[i] and (parts[i] >= _LARGE_PART).sum() > 1,
            "mixed": mixed[i],
        }
        rows.append(tuple(name for name, is_set in flags.items() if is_set))
    return rows


def _over(part: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return part / total, NaN if the total is 0."""
    total = np.broadcast_to(total, part.shape)
    return np.divide(part, total, out=np.full(part.shape, np.nan), where=total > 0)


# ---------------------------------------------------------------------------------------------------- one image


@dataclass(frozen=True)
class Moment:
    """An image at an epoch. heir: the cluster of today that overlaps most with the one it was in, -1 for none."""

    epoch: int
    predicted: int
    confidence: float
    heir: int


def prediction_history(row: int, past: dict[int, Assignment], heirs_of: dict[int, np.ndarray]) -> list[Moment]:
    """Return the predictions for the image in this row of the unlabeled ones, epoch by epoch.

    past: assignments by epoch. heirs_of: `successors` of every epoch.
    """
    moments = []
    for epoch in sorted(past):
        predicted = int(past[epoch].predicted[row])
        moments.append(Moment(epoch, predicted, float(past[epoch].confidence[row]), int(heirs_of[epoch][predicted])))
    return moments
