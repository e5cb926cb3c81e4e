"""Check pictures before training: near duplicates, outliers, labels that contradict those of the neighbours.

Every rule is one threshold on distances between features of length 1. The thresholds were
chosen on CIFAR-10 with planted faults (`python -m benchmarks.planted`; detection and false alarm rates
are in benchmarks/README.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lps.errors import UserError
from lps.methods.parts.clustering import unit_rows
from lps.scores.neighbours import Tell, nearest_neighbours

LABELED, UNLABELED, TEST = 0, 1, 2  # the parts of a data set
PARTS = ("labeled", "unlabeled", "test")
_SAME = 0.55  # two pictures are near duplicates below this share of the distance to the tenth neighbour of both
_CORRELATED = 0.95  # or if their thumbnails, one perhaps mirrored, have at least this correlation
FAR = 2.5  # robust standard deviations beyond the median of the distances to the 30th neighbour
_WITNESSES = 20  # labeled neighbours; a label is doubted if none of them has it and `_AGREED` of them agree on another
_AGREED = 0.5
MAX_COMPARED_PICTURES = 1_000_000  # pictures that are compared with each other, at most
_MAX_VALUES = 1 << 28  # numbers in the features of more than `_ALWAYS` of them: 1 GB, of which there are two copies
_ALWAYS = 100_000  # pictures that are compared for any number of features
_NEIGHBOURS = 10  # their distance normalizes the distance of a pair
_WIDE = 30  # an outlier is far from all of so many neighbours, so a few outliers of one kind are still found
_ALIKE = 20  # neighbours that are searched for duplicates
_SIDE = 16  # pixels of a thumbnail
_BLOCK = 1024  # pictures that are compared with all others at a time
_CLOSE = 1e-3  # a distance that float16 features of the same picture may have
_MAD = 1.4826  # standard deviations in a median absolute deviation of normal numbers


@dataclass(frozen=True)
class NearDuplicates:
    """Pictures that are near duplicates of one another. across: the parts that contain them; worst: largest distance
    between two near duplicates; labels: number of different labels."""

    pictures: tuple[int, ...]
    across: tuple[str, ...]
    labels: int
    worst: float


@dataclass(frozen=True)
class UnlikelyPicture:
    """A picture far from all others. score: robust standard deviations above the median."""

    picture: int
    score: float


@dataclass(frozen=True)
class DoubtfulLabel:
    """A picture whose labeled neighbours have other labels. label, others: class ids; share: of neighbours with it."""

    picture: int
    label: int
    others: int
    share: float


@dataclass(frozen=True)
class Audit:
    """Findings, the most serious first; pictures by their row. count: number of pictures checked.

    recall: share of the nearest neighbours that were found, see `neighbours.Neighbours`; None if all were.
    """

    count: int
    duplicates: tuple[NearDuplicates, ...]
    strangers: tuple[UnlikelyPicture, ...]
    denied: tuple[DoubtfulLabel, ...]
    recall: float | None = None


def parts_of(labels: np.ndarray, num_test: int) -> np.ndarray:
    """Return int8 (n,) with `LABELED`, `UNLABELED` or `TEST`. labels: -1 unknown; the last `num_test` are test."""
    parts = np.where(labels < 0, UNLABELED, LABELED).astype(np.int8)
    parts[len(parts) - num_test :] = TEST
    return parts


def audit_features(
    features: np.ndarray,
    labels: np.ndarray,
    parts: np.ndarray,
    pixels: np.ndarray | None = None,
    report: Tell = lambda share: None,
) -> Audit:
    """Search for near duplicates, outliers and doubtful labels.

    features: float (n, d); labels: int64 (n,), -1 unknown; parts: as of `parts_of`. pixels: uint8 (n, height, width,
    channels): used to find duplicates if they have colour. report: called with the share done after every block; it
    may raise to cancel. Memory: the features as float32, 800 bytes of thumbnails and 400 of neighbours a picture, and a
    block of distances; of many pictures also the graph of approximate neighbours. Raises `UserError` if there are too
    few or too many pictures.
    """
    count = len(features)
    check_count(count, features.shape[1])
    points, labeled_rows = unit_rows(features), np.flatnonzero(labels >= 0)
    searches = 1 + (_NEIGHBOURS < len(labeled_rows) < count)
    neighbours = nearest_neighbours(points, _WIDE, lambda share: report(share / searches))
    distances, neighbour_rows, recall = neighbours.distances, neighbours.rows, neighbours.recall
    pair_distances = _near_duplicates(distances, neighbour_rows, pixels)
    groups = connected_components(pair_distances, directed=False)[1]
    duplicates = _duplicates(pair_distances, groups, labels, parts)
    strangers = _unlikely_pictures(distances)
    if len(labeled_rows) <= _NEIGHBOURS:
        return Audit(count, duplicates, strangers, (), recall)
    if len(labeled_rows) < count:
        neighbours = nearest_neighbours(points[labeled_rows], _WIDE, lambda share: report((1 + share) / searches))
        neighbour_rows = labeled_rows[neighbours.rows]
        recall = min((share for share in (recall, neighbours.recall) if share is not None), default=None)
    return Audit(count, duplicates, strangers, _doubtful_labels(labeled_rows, neighbour_rows, labels, groups), recall)


def check_count(count: int, width: int = 1) -> None:
    """Raise `UserError` for too few or too many pictures with features of `width` numbers."""
    most = max(_ALWAYS, min(MAX_COMPARED_PICTURES, _MAX_VALUES // width))
    if not _NEIGHBOURS < count <= most:
        kind = f" with {width:,} features each" if most < MAX_COMPARED_PICTURES else ""
        raise UserError(
            "pictures",
            f"{count:,} images{kind} cannot be compared; expected {_NEIGHBOURS + 1} to {most:,}. Set "
            "dataset.images_per_class to use a part of them",
        )


def _near_duplicates(distances: np.ndarray, neighbour_rows: np.ndarray, pixels: np.ndarray | None) -> coo_array:
    """Return sparse (n, n) distances, + `_CLOSE`, of the pairs that are near duplicates."""
    count = len(neighbour_rows)
    usual_distance = distances[:, min(_NEIGHBOURS, neighbour_rows.shape[1]) - 1]
    distances, neighbour_rows = distances[:, :_ALIKE], neighbour_rows[:, :_ALIKE]
    limits = np.minimum(usual_distance[:, None], usual_distance[neighbour_rows])
    is_alike = distances <= np.maximum(_SAME * limits, _CLOSE)
    if pixels is not None and pixels.shape[3] == 3 and min(pixels.shape[1:3]) >= _SIDE:
        is_alike |= (distances <= limits) & (_correlations(pixels, neighbour_rows) >= _CORRELATED)
    rows, columns = np.nonzero(is_alike)
    return coo_array((distances[rows, columns] + _CLOSE, (rows, neighbour_rows[rows, columns])), shape=(count, count))


def _correlations(pixels: np.ndarray, neighbour_rows: np.ndarray) -> np.ndarray:
    """Return float32 (n, k): correlation of each thumbnail with its neighbours', the larger of plain and mirrored."""
    small = np.concatenate([_thumbnails(pixels[i : i + _BLOCK]) for i in range(0, len(pixels), _BLOCK)])
    correlations = np.empty(neighbour_rows.shape, np.float32)
    for start in range(0, len(neighbour_rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        own_pixels, rows_of_part = _centred(small[part]), neighbour_rows[part]
        for column in range(neighbour_rows.shape[1]):
            others = small[rows_of_part[:, column]]
            agreements = [(own_pixels * _centred(version)).sum(axis=1) for version in (others, others[:, :, ::-1])]
            correlations[part, column] = np.maximum(*agreements)
    return correlations


def _thumbnails(pixels: np.ndarray) -> np.ndarray:
    """Return uint8 (n, 16, 16, channels): means over blocks of pixels."""
    tops, lefts = (np.linspace(0, side, _SIDE, endpoint=False).astype(int) for side in pixels.shape[1:3])
    sums = np.add.reduceat(np.add.reduceat(pixels, tops, axis=1, dtype=np.int64), lefts, axis=2)
    heights, widths = (np.diff([*cuts, side]) for cuts, side in ((tops, pixels.shape[1]), (lefts, pixels.shape[2])))
    return (sums / (heights[:, None] * widths)[..., None]).astype(np.uint8)


def _centred(pictures: np.ndarray) -> np.ndarray:
    """Return float32 (n, values) with mean 0 and length 1; 0 for a picture of a single colour."""
    values = pictures.reshape(len(pictures), -1).astype(np.float32)
    values -= values.mean(axis=1, keepdims=True)
    return values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-3)


def _duplicates(
    pair_distances: coo_array, groups: np.ndarray, labels: np.ndarray, parts: np.ndarray
) -> tuple[NearDuplicates, ...]:
    """Return the groups; those across parts or with several labels first, then by similarity."""
    worst = np.zeros(len(groups), np.float32)
    np.maximum.at(worst, groups[pair_distances.coords[0]], pair_distances.data - _CLOSE)
    duplicates = []
    for members in _members(groups):
        part_names = [PARTS[part] for part in np.unique(parts[members])]
        names = np.unique(labels[members][labels[members] >= 0])
        duplicates.append(
            NearDuplicates(tuple(members.tolist()), tuple(part_names), len(names), float(worst[groups[members[0]]]))
        )
    return tuple(sorted(duplicates, key=lambda pair: (-len(pair.across), -pair.labels, pair.worst, pair.pictures)))


def _members(groups: np.ndarray) -> Iterator[np.ndarray]:
    """Return the rows of every group with several members, ascending."""
    is_shared = np.bincount(groups)[groups] > 1
    order = np.flatnonzero(is_shared)
    order = order[np.argsort(groups[order], kind="stable")]
    for members in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        if len(members) > 1:
            yield members


def _unlikely_pictures(distances: np.ndarray) -> tuple[UnlikelyPicture, ...]:
    distance = distances[:, -1]
    middle = np.median(distance)
    spread = max(_MAD * float(np.median(np.abs(distance - middle))), 1e-6)
    scores = (distance - middle) / spread
    strangers = [UnlikelyPicture(int(row), float(scores[row])) for row in np.flatnonzero(scores >= FAR)]
    return tuple(sorted(strangers, key=lambda stranger: (-stranger.score, stranger.picture)))


def _doubtful_labels(
    labeled_rows: np.ndarray, near: np.ndarray, labels: np.ndarray, groups: np.ndarray
) -> tuple[DoubtfulLabel, ...]:
    """Return labels that the neighbours contradict. Copies of a picture do not count as neighbours.

    near: (m, k) the nearest other labeled rows of each of `labeled_rows` (m,).
    """
    denied, is_contradicted = [], np.ones(len(labeled_rows), bool)
    for column in near[:, :_WITNESSES].T:  # a witness with the same label settles it
        is_contradicted &= (labels[column] != labels[labeled_rows]) | (groups[column] == groups[labeled_rows])
    for row, neighbour_rows in zip(labeled_rows[is_contradicted].tolist(), near[is_contradicted]):
        witnesses = labels[neighbour_rows[groups[neighbour_rows] != groups[row]][:_WITNESSES]]
        label, counts = int(labels[row]), np.bincount(witnesses, minlength=labels.max() + 1)
        top = int(counts.argmax())
        if len(witnesses) and not counts[label] and counts[top] >= _AGREED * len(witnesses):
            denied.append(DoubtfulLabel(row, label, top, float(counts[top] / len(witnesses))))
    return tuple(sorted(denied, key=lambda item: (-item.share, item.picture)))
