"""Find clusters and neighbours in feature space: k-means, semi-supervised k-means, quality of a backbone's neighbours.

Features are best L2-normalised first: without it, k-means on SimCLR features loses about half of its accuracy.
Functions on arrays normalise themselves; functions on tensors work on their device and on the points as they are.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.cluster import KMeans
from torch import Tensor

_BLOCK = 1 << 17  # points whose distances to centres are computed at once
_MAX_TRIED = 1 << 18  # free points; beyond that, restarts use a sample, and all points start from its best centres
_ROW = 1024  # numbers whose running sum one group of a GPU's threads computes
_CHECK_EVERY = {False: 1, True: 16}  # rounds of k-means between two checks for convergence, on a CPU and on a GPU


def unit_rows(features: np.ndarray) -> np.ndarray:
    """Return the rows (n, d) at length 1, float32."""
    features = np.asarray(features, np.float32)
    return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)


def kmeans(features: np.ndarray, clusters: int, seed: int, restarts: int = 10, normalize: bool = True) -> np.ndarray:
    """Return ids (n,) of the best of `restarts` k-means on unit features (n, d); fewer clusters if n is smaller."""
    if len(features) == 0:
        return np.zeros(0, np.int64)
    points = unit_rows(features) if normalize else np.asarray(features, np.float32)
    cluster_ids = KMeans(min(clusters, len(points)), n_init=restarts, random_state=seed).fit_predict(points)
    return cluster_ids.astype(np.int64)


def knn_accuracy(features: np.ndarray, labels: np.ndarray, neighbours: int = 10, block: int = 4096) -> float:
    """Return the share of images whose class is the most common among the `neighbours` nearest others (cosine)."""
    points, total = unit_rows(features), int(labels.max()) + 1
    hits = 0
    for start in range(0, len(points), block):
        similarity = points[start : start + block] @ points.T
        similarity[np.arange(len(similarity)), np.arange(start, start + len(similarity))] = -np.inf
        count = min(neighbours, len(points) - 1)
        nearest = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
        votes = np.zeros((len(nearest), total), np.int64)
        np.add.at(votes, (np.arange(len(nearest))[:, None], labels[nearest]), 1)
        hits += int((votes.argmax(1) == labels[start : start + block]).sum())
    return hits / len(points)


class Clusters(NamedTuple):
    """k clusters of n free points; all three fields belong to the same centres."""

    centres: Tensor  # (k, d)
    distances: Tensor  # (n, k), squared Euclidean
    inertia: Tensor  # (), mean squared distance of all points, pinned ones too, to the centre of their own cluster

    @property
    def ids(self) -> Tensor:
        """int64 (n,): the nearest centre of every free point."""
        return self.distances.argmin(dim=1)


def semi_supervised_kmeans(
    points: Tensor, pinned: Tensor, pins: Tensor, clusters: int, seed: int, restarts: int = 10, iterations: int = 200
) -> Clusters:
    """Run k-means in which labeled points stay in their cluster (GCD, section 3.3); the best of `restarts` by inertia.

    points: float32 (n, d), free to move; pinned: (m, d) and pins: int64 (m,), the cluster of each. Clusters with pinned
    points start at their mean, the others are drawn from the free points by greedy k-means++. Without pinned points
    this is plain k-means. With more than `_MAX_TRIED` free points, the restarts use a sample.
    """
    generator = torch.Generator().manual_seed(seed)
    pinned_sums = _sums(pinned, pins, clusters)
    if len(points) > _MAX_TRIED and restarts > 1:
        rows = torch.randperm(len(points), generator=generator)[:_MAX_TRIED].sort().values.to(points.device)
        clusters_of_sample = semi_supervised_kmeans(points[rows], pinned, pins, clusters, seed, restarts, iterations)
        centres = _lloyd(points, pinned_sums, clusters_of_sample.centres, iterations)
        return Clusters(centres, squared_distances(points, centres), _inertia(points, pinned, pins, centres))
    free = (pinned_sums[1] == 0).nonzero().flatten().tolist()
    solutions, inertias = [], []
    for _ in range(restarts):
        centres = _lloyd(points, pinned_sums, _first_centres(points, pinned_sums, free, generator), iterations)
        solutions.append(centres)
        inertias.append(_inertia(points, pinned, pins, centres))
    best = int(torch.stack(inertias).argmin())
    return Clusters(solutions[best], squared_distances(points, solutions[best]), inertias[best])


def _inertia(points: Tensor, pinned: Tensor, pins: Tensor, centres: Tensor) -> Tensor:
    """Return the inertia as defined in `Clusters`, ()."""
    own_distances = squared_distances(pinned, centres).gather(1, pins[:, None])
    return (squared_distances(points, centres).amin(dim=1).sum() + own_distances.sum()) / (len(points) + len(pinned))


def squared_distances(points: Tensor, centres: Tensor) -> Tensor:
    """Return (n, k) squared Euclidean distances of (n, d) to (k, d), at least 0 even if rounding falls below."""
    if not torch.compiler.is_exporting() and len(points) > _BLOCK:  # an ONNX graph must take any number of points
        distances = points.new_empty((len(points), len(centres)))
        for part, block in zip(points.split(_BLOCK), distances.split(_BLOCK)):
            block.copy_(squared_distances(part, centres))
        return distances
    squares = points.square().sum(dim=1)[:, None] + centres.square().sum(dim=1)
    return (squares - 2 * points @ centres.T).clamp_min(0)


def cluster_confidence(distances: Tensor) -> Tensor:
    """Return (n,) in [0, 1] from squared distances (n, k): 1 - nearest / second nearest distance.

    0 halfway between two centres, 1 with a single centre.
    """
    if distances.shape[1] == 1:
        return torch.ones_like(distances[:, 0])
    nearest, second = distances.sqrt().topk(2, dim=1, largest=False).values.unbind(dim=1)
    return 1 - nearest / second.clamp_min(1e-12)


def cluster_centres(points: Tensor, ids: Tensor, clusters: int) -> Tensor:
    """Return (clusters, d): means of points (n, d) by their id int64 (n,), NaN for an empty cluster."""
    sums, counts = _sums(points, ids, clusters)
    return sums / counts[:, None]


def nearest_centres(points: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Return (id int64 (n,) of the nearest of `cluster_centres`, `cluster_confidence` (n,)) of points (n, d).

    Id and confidence are 0 if there is no cluster at all.
    """
    if len(centres) == 0:
        return torch.zeros(len(points), dtype=torch.int64, device=points.device), torch.zeros_like(points[:, 0])
    is_used = centres.isfinite().all(dim=1)
    distances = squared_distances(points, centres.nan_to_num()).masked_fill(~is_used, torch.inf)
    return distances.argmin(dim=1), cluster_confidence(distances).where(is_used.any(), 0.0)


def principal_axes(points: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the mean (d,) and the `count` directions (count, d) of largest variance of (n, d), largest first."""
    exact = points.double()
    mean = exact.mean(dim=0)
    axes = torch.linalg.eigh((exact - mean).T @ (exact - mean)).eigenvectors
    return mean.to(points.dtype), axes.flip(1)[:, :count].T.to(points.dtype).contiguous()


def _sums(points: Tensor, ids: Tensor, clusters: int) -> tuple[Tensor, Tensor]:
    """Return per cluster the sum (k, d) and number (k,) of points, by a matrix product, which repeats on a GPU."""
    sums, counts = [], []
    for part, block_ids in zip(points.split(_BLOCK), ids.split(_BLOCK)):
        members = F.one_hot(block_ids, clusters).to(points.dtype)
        sums.append(members.T @ part)
        counts.append(members.sum(dim=0))
    return sum(sums), sum(counts)


def _first_centres(
    points: Tensor, pinned_sums: tuple[Tensor, Tensor], free: list[int], generator: torch.Generator
) -> Tensor:
    """Return (k, d): means of pinned points, and greedy k-means++ draws for the `free` clusters without pinned points.

    A few candidates are drawn with probability proportional to the squared distance from the nearest centre so far, and
    the one that leaves the smallest sum of these is used (as in scikit-learn): with a single candidate two thirds of
    the runs end in a poor optimum on digits.
    """
    sums, counts = pinned_sums
    centres = sums / counts.clamp_min(1)[:, None]
    nearest = torch.full_like(points[:, 0], torch.inf)
    if len(free) < len(centres):
        pinned = sorted(set(range(len(centres))) - set(free))
        nearest = squared_distances(points, centres[pinned]).amin(dim=1)
    tries = 2 + int(math.log(len(centres)))
    chances = [torch.rand(tries, generator=generator, dtype=torch.float64) for _ in free]
    chances = torch.stack(chances).to(points.device) if free else chances
    for cluster, draws in zip(free, chances):
        candidates = points[_draw(nearest, draws)]
        new_distances = torch.minimum(nearest[:, None], squared_distances(points, candidates))
        best = new_distances.sum(dim=0).argmin()[None]
        centres[cluster], nearest = candidates[best][0], new_distances.index_select(1, best)[:, 0]
    return centres


def _draw(weights: Tensor, chances: Tensor) -> Tensor:
    """Return rows int64 (count,) with probability proportional to their weight (n,); any rows if all are 0 or infinite.

    chances: float64 (count,), uniform in [0, 1).
    """
    weights = weights.double()
    total = weights.sum()
    weights = torch.where(total.isfinite() & (total > 0), weights, 1.0)
    reached = _running_sum(weights)
    rows = torch.searchsorted(reached, chances * reached[-1], right=True)
    return rows.clamp_max(len(weights) - 1)  # rounding may pass the end


def _running_sum(values: Tensor) -> Tensor:
    """Return `cumsum` (n,), computed by rows of a matrix: that of one long row varies between calls on a GPU."""
    rows = F.pad(values, (0, -len(values) % _ROW)).view(-1, _ROW).cumsum(dim=1)
    before = rows[:, -1].cumsum(dim=0) - rows[:, -1]
    return (rows + before[:, None]).view(-1)[: len(values)]


def _lloyd(points: Tensor, pinned_sums: tuple[Tensor, Tensor], centres: Tensor, iterations: int) -> Tensor:
    """Return centres (k, d) after at most `iterations` rounds, or when the squared sum of their shifts is below 1e-4.

    A GPU does some more rounds without effect, so that the host rarely waits for it.
    """
    is_over = torch.zeros((), dtype=torch.bool, device=points.device)
    look_every = _CHECK_EVERY[points.device.type == "cuda"]
    for number in range(iterations):
        new_centres = _move_centres(points, pinned_sums, centres)
        shift = (new_centres - centres).norm(dim=1).sum()
        centres = torch.where(is_over, centres, new_centres)
        is_over = is_over | (shift.square() < 1e-4)
        if number % look_every == look_every - 1 and is_over:
            break
    return centres


def _move_centres(points: Tensor, pinned_sums: tuple[Tensor, Tensor], centres: Tensor) -> Tensor:
    """Return the means (k, d) of points nearest or pinned to each centre; empty clusters get the farthest ones."""
    nearest_parts = [squared_distances(part, centres).min(dim=1) for part in points.split(_BLOCK)]
    nearest, ids = (torch.cat(column) for column in zip(*nearest_parts))
    sums, counts = (free + fixed for free, fixed in zip(_sums(points, ids, len(centres)), pinned_sums))
    farthest = points[nearest.topk(min(len(centres), len(points))).indices]
    empty = counts == 0
    rank = (empty.cumsum(dim=0) - 1).clamp(0, len(farthest) - 1)
    return torch.where(empty[:, None], farthest[rank], sums / counts.clamp_min(1)[:, None])
