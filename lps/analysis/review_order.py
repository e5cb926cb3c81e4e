"""Which pictures should a person look at next? Those that the network and their nearest pictures disagree about.

Belief in a cluster = half the network's confidence, where it put the picture there, + half the share of the 20 nearest
pictures (cosine of features) that are in it now. The margin of a picture is its belief in the cluster that it is in
less its largest belief in another one, least first: below zero the neighbours overrule the network. Over 45 finished
runs on CIFAR-10 and digits this order found more wrong assignments among the first 100 pictures than least confidence,
than the cosine margin between cluster means, and than the plain margin of the two best (`python -m benchmarks.review`).
NumPy only.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from lps.analysis import labels
from lps.analysis.clusters import Assignment, places, read_assignment
from lps.analysis.naming import Naming
from lps.analysis.projection import nearest_rows
from lps.data.split import Split
from lps.errors import UserError
from lps.store.runs import Run
from lps.store.snapshots import Snapshot, read_snapshot, read_split

NEIGHBOURS = 20
_SAME = 5  # nearest pictures that are too much alike to be asked about one after another
_APART = 10  # pictures that are between two alike
_MOST = 10_000  # pictures: the nearest of all others take two seconds on two cores
_MOST_BELIEFS = 1 << 23  # pictures x clusters


@dataclass(frozen=True)
class Surroundings:
    """images int64 (m,): ids, ascending; nearest int32 (m, k): rows of the pictures with the most similar features."""

    images: np.ndarray
    nearest: np.ndarray


def _surroundings(snapshot: Snapshot, most: int = _MOST) -> Surroundings:
    """The nearest pictures of at most `most` evenly spread ones whose features are stored."""
    count = len(snapshot.feature_index)
    rows = np.linspace(0, count - 1, min(count, most)).round().astype(int)
    rows = rows[np.argsort(snapshot.feature_index[rows], kind="stable")]
    return Surroundings(
        snapshot.feature_index[rows].astype(np.int64), nearest_rows(snapshot.features[rows], NEIGHBOURS)
    )


# ---------------------------------------------------------------------------------------------------- a run


@dataclass(frozen=True)
class ReviewSession:
    """What can be decided of an epoch. rows (m,): of the pictures of `around` among the unlabeled images."""

    split: Split
    targets: np.ndarray
    network: Assignment
    around: Surroundings
    rows: np.ndarray

    @property
    def nbytes(self) -> int:
        arrays = (self.targets, self.split.unlabeled, self.network.predicted, self.network.confidence)
        return sum(array.nbytes for array in (*arrays, self.around.images, self.around.nearest, self.rows))


def read_desk(run: Run, epoch: int) -> ReviewSession:
    """Raises `UserError` where files are missing or damaged."""
    split, targets = read_split(run.folder)
    network = read_assignment(run, epoch, split)
    snapshot = read_snapshot(run.snapshots, epoch, thinned=True)
    surroundings = _surroundings(snapshot, min(_MOST, _MOST_BELIEFS // split.classes.total))
    rows = places(surroundings.images, split.unlabeled)
    if not len(rows) or (rows < 0).any():
        raise UserError(f"epoch-{epoch:04d}.npz", "has no features of the unlabeled images")
    return ReviewSession(split, targets, network, surroundings, rows)


@dataclass(frozen=True)
class Doubts:
    """What speaks for which cluster, of the pictures of a desk, as a person has said so far.

    ids: the clusters that are a class, ascending. here (m,): the place in `ids` of every picture's cluster, -1 where a
    person rejected that, or said that the picture is not of it. believed (m, ids): `beliefs`. margin (m,): `margins`.
    waiting (m,): pictures of which nobody has said where they belong.
    """

    ids: np.ndarray
    here: np.ndarray
    believed: np.ndarray
    margin: np.ndarray
    waiting: np.ndarray

    def next(self, surroundings: Surroundings, leave: Collection[int], count: int) -> np.ndarray:
        """The `count` rows to decide about next, without the image ids `leave`."""
        return queue(
            self.margin, surroundings.nearest, self.waiting & ~np.isin(surroundings.images, list(leave)), count
        )

    def suggestions(self, row: int, most: int) -> list[int]:
        """Places in `ids` of what a picture may be, the likeliest first.

        Those that nothing speaks for come last, the ones first that pictures of its cluster are taken for.
        """
        kin = self.believed[self.here == self.here[row]].mean(axis=0)
        return np.lexsort((-kin, -self.believed[row]))[:most].tolist()


def doubts(desk: ReviewSession, decisions: Naming) -> Doubts:
    """How things stand once a person has said `decisions`."""
    assigned = labels.clusters_of(decisions, desk.network.predicted, desk.split.unlabeled)[desk.rows]
    ids = labels.cluster_ids(decisions, desk.network.predicted, desk.split.classes.total)
    ids = ids[~np.isin(ids, list(decisions.rejected))]
    is_wrong = np.isin(desk.around.images, list(decisions.wrong))
    decided = np.isin(desk.around.images, list(decisions.confirmed | decisions.nothing))
    waiting = is_wrong | (np.isin(assigned, ids) & ~decided)
    assigned[np.isin(desk.around.images, list(decisions.unlabeled))] = -1
    believed = beliefs(desk.around.nearest, assigned, desk.network.confidence[desk.rows], ids)
    cluster_places = places(assigned, ids)
    return Doubts(ids, cluster_places, believed, margins(believed, cluster_places), waiting)


# ---------------------------------------------------------------------------------------------------- mathematics


def beliefs(nearest: np.ndarray, assigned: np.ndarray, confidence: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """float32 (m, clusters): how much speaks for every cluster of `ids` (ascending); a row sums to 1 at most.

    assigned, confidence (m,): the cluster of every picture, and the network's confidence in it.
    """
    belief = places(assigned, ids)
    rows = np.arange(len(belief))
    cluster_places = np.zeros((len(belief), len(ids)), np.float32)
    for column in nearest.T:
        near = belief[column]
        np.add.at(cluster_places, (rows[near >= 0], near[near >= 0]), 0.5 / nearest.shape[1])
    cluster_places[rows[belief >= 0], belief[belief >= 0]] += 0.5 * np.nan_to_num(confidence[belief >= 0].astype(float))
    return cluster_places


def margins(believed: np.ndarray, cluster_places: np.ndarray) -> np.ndarray:
    """(m,) belief in the cluster that a picture is in, less the largest in another one: -1 to 1.

    here (m,): the column of every picture's cluster, -1 for none of them.
    """
    rows = np.arange(len(cluster_places))
    belief_in_own = np.where(cluster_places >= 0, believed[rows, cluster_places], 0)
    other_beliefs = believed.copy()
    other_beliefs[rows[cluster_places >= 0], cluster_places[cluster_places >= 0]] = 0
    return belief_in_own - other_beliefs.max(axis=1, initial=0)


def queue(urgency: np.ndarray, nearest: np.ndarray, waiting: np.ndarray, count: int) -> np.ndarray:
    """At most `count` rows of `waiting` (bool (m,)), the most urgent first (smallest number), none alike in a row.

    One that has a picture among its five nearest that is one of the ten before it comes as soon as it has none.
    """
    order = np.argsort(urgency, kind="stable")
    candidates = order[waiting[order]][: count * (_APART + 1)].tolist()
    queued: list[int] = []
    while len(queued) < count and candidates:
        last = set(queued[-_APART:])
        row = next((row for row in candidates if last.isdisjoint(nearest[row, :_SAME].tolist())), candidates[0])
        candidates.remove(row)
        queued.append(row)
    return np.array(queued, int)


def examples(row: int, nearest: np.ndarray, members: np.ndarray, count: int) -> np.ndarray:
    """Rows of a cluster (bool (m,)) to show beside a picture: its own nearest ones, then their nearest ones."""
    candidates = np.concatenate([nearest[row], nearest[nearest[row]].ravel(), np.flatnonzero(members)[:count]])
    _, first = np.unique(candidates, return_index=True)
    near = candidates[np.sort(first)]
    return near[members[near] & (near != row)][:count]
