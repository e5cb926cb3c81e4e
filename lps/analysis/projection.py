"""Maps of features on a plane: PCA in the caller, UMAP and t-SNE in a separate process, seeded, stored with the run.

Every point carries the id of its image, from the network's output to the screen. No torch here: a map is made from a
snapshot file; `start_map` makes one in the background.

Points move smoothly from epoch to epoch. PCA shows every epoch on the plane of the newest one. UMAP and t-SNE
are fitted again to the features of each epoch, because a plane fitted to the neighbours of one epoch misrepresents the
neighbours of another; but every fit starts from the stored map of the nearest epoch, and its result is rotated,
reflected and translated (never scaled) for the best agreement with that map (Procrustes). The first map starts
from the spectrum of the neighbour graph (UMAP) or from the principal plane (t-SNE).
"""

import importlib.util
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lps.errors import UserError, check_choice, shown
from lps.files import disk
from lps.files.atomic import as_user_error, write_json
from lps.machine import detached_jobs
from lps.store.runs import Run
from lps.store.snapshots import (
    MAX_POINTS,
    Snapshot,
    open_features,
    read_arrays,
    read_snapshot,
    snapshot_epochs,
    write_arrays,
)
from lps.wording import counted

METHODS = {"pca": "PCA", "umap": "UMAP", "tsne": "t-SNE"}
_SEED = 0
_WIDE = 1024  # from this width only the two largest directions are computed: all of 4,096 take half a minute
_PIECE = 1024  # images that are compared with all others in one step
_SELECTED = 32  # images whose nearest are selected in one step: their distances stay in the cache of a core
_LAYERS = 16  # columns of a group
MAX_EPOCHS = 24  # maps that `compute_all_maps` makes
LANDMARKS = 20_000
_GROUPS, _LOOKED_AT = 128, 8
_NEAREST = 8  # landmarks that determine the position of an image
# Times the usual distance of similar landmarks: those further from the most similar one than this do not pull.
_REACH = 3
_LATE_EXAGGERATION = 4.0  # of t-SNE that starts from a map: the usual 12 would tear that map apart


@dataclass(frozen=True)
class Map:
    """Points on the plane, float32 (m, 2), with the image id of each."""

    points: np.ndarray
    index: np.ndarray


def read_map(run: Run, method: str, epoch: int) -> Map | None:
    """Return a stored map, None if there is none; raises `UserError` if it is damaged."""
    path = map_path(run, method, epoch)
    if not path.exists():
        return None
    stored = read_arrays(path, ("points", "index"))
    points, index = stored["points"].astype(np.float32), stored["index"].astype(np.int64)
    if points.shape != (len(index), 2):
        raise UserError(path.name, "is damaged (expected two coordinates per image)")
    return Map(points, index)


def stored_epochs(run: Run, method: str) -> list[int]:
    """Return the epochs that have a stored map, ascending."""
    file_matches = (
        re.fullmatch(rf"{method}-epoch-([0-9]{{1,9}})\.npz", path.name) for path in run.projections.glob("*.npz")
    )
    return sorted(int(name[1]) for name in file_matches if name)


# ---------------------------------------------------------------------------------------------------- maps


def unit_rows(features: np.ndarray) -> np.ndarray:
    """Normalize features (m, d) to length 1, at least float32, as the cosine classifier does.

    Non-finite values count as 0, and zero rows stay zero. Makes a single copy.
    """
    rows = np.array(features, np.promote_types(features.dtype, np.float32))
    np.nan_to_num(rows, copy=False, posinf=0, neginf=0)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    norms[norms == 0] = 1
    return np.divide(rows, norms, out=rows)


def features_for_map(snapshot: Snapshot, epoch: int) -> np.ndarray:
    """Return the features of an epoch as float32 (m, d); raises `UserError` if they do not allow a map."""
    if not snapshot.features.size:
        raise UserError(f"epoch-{epoch:04d}.npz", "has no features, so no map can be computed")
    return _finite(snapshot.features, epoch)


def _finite(features: np.ndarray, epoch: int) -> np.ndarray:
    """Return features of an epoch as float32; raises `UserError` if they are not all finite."""
    if not np.isfinite(features).all():
        name = f"epoch-{epoch:04d}.npz"
        raise UserError(name, "has features that are not finite numbers, so no map can be computed")
    return features.astype(np.float32)


@dataclass(frozen=True)
class Plane:
    """The two directions of largest variance: points = (unit features - center) @ axes."""

    center: np.ndarray  # (d,)
    axes: np.ndarray  # (d, 2)

    def project(self, features: np.ndarray) -> np.ndarray:
        """Return the points, float32 (m, 2), of features (m, d)."""
        rows = unit_rows(features)
        rows -= self.center
        return (rows @ self.axes).astype(np.float32)


def fit_plane(features: np.ndarray) -> Plane:
    """Return the principal plane of features (m, d), the sign of each axis fixed by its largest entry."""
    directions = unit_rows(features)
    center = directions.mean(axis=0)
    directions -= center
    axes = _largest_directions(directions)
    if axes.shape[1] < 2:
        axes = np.pad(axes, ((0, 0), (0, 2 - axes.shape[1])))
    largest = np.abs(axes).argmax(axis=0)
    signs = np.sign(axes[largest, np.arange(2)])
    return Plane(center, axes * np.where(signs == 0, 1, signs))


def _largest_directions(centered: np.ndarray) -> np.ndarray:
    """Return the two directions (d, 2) of largest variance, the largest first; one if there is only one feature."""
    if centered.shape[1] < _WIDE:
        return np.linalg.eigh(centered.T @ centered)[1][:, ::-1][:, :2]
    from sklearn.utils.extmath import randomized_svd  # half a second, only for wide features

    return randomized_svd(centered, 2, n_oversamples=30, n_iter=10, random_state=_SEED)[2].T


def shared_plane(start: Snapshot, first: int, newest: Snapshot, last: int) -> Plane:
    """Return the principal plane of the newest epoch `last`, aligned with that of `first` so that it does not flip."""
    plane = fit_plane(features_for_map(newest, last))
    if first == last or not np.array_equal(start.feature_index, newest.feature_index):
        return plane
    now = plane.project(newest.features)
    return align_plane(plane, now, fit_plane(features_for_map(start, first)).project(start.features))


def align_plane(plane: Plane, points: np.ndarray, towards: np.ndarray) -> Plane:
    """Rotate or reflect `plane` so that its `points` are as close as possible to the points `towards` (Procrustes).

    Keeps a map from flipping when the plane is fitted again on a later epoch.
    """
    left_vectors, _, right = np.linalg.svd((points - points.mean(0)).T @ (towards - towards.mean(0)))
    return Plane(plane.center, plane.axes @ (left_vectors @ right))


def align_points(points: np.ndarray, towards: np.ndarray) -> np.ndarray:
    """Rotate, reflect and translate `points` (m, 2), without scaling, as close as possible to `towards` (m, 2).

    Least squares, by orthogonal Procrustes analysis (Schoenemann 1966).
    """
    left_vectors, _, right = np.linalg.svd((points - points.mean(0)).T @ (towards - towards.mean(0)))
    return (points - points.mean(0)) @ (left_vectors @ right) + towards.mean(0)


def compute_map(run: Run, method: str, epoch: int | None = None) -> Path:
    """Compute the map of one epoch (the last one if `epoch` is None), store it, return its path.

    The seed is fixed: the same snapshot and the same initial map give the same points. Raises `UserError`,
    also for a recording.
    """
    run.check_writable()
    check_choice("method", method, METHODS)
    epochs = snapshot_epochs(run.snapshots)
    epoch = epochs[-1] if epoch is None and epochs else epoch
    if epoch not in epochs:
        raise UserError("epoch", f"{epoch} has no snapshot; choices: {', '.join(map(str, epochs)) or 'none yet'}")
    path = map_path(run, method, epoch)
    count = feature_count(run, epoch)
    if count > MAX_POINTS:
        points, index, parameters = _project_many(run, method, epoch, count)
    else:
        points, index, parameters = _project_few(run, method, epoch)
    parameters |= {"method": method, "epoch": epoch, "rows": "unit length"}
    disk.make_folder(run.projections)
    points, index = points.astype(np.float32), index.astype(np.int32)
    write_arrays(path, points=points, index=index, parameters=np.array(json.dumps(parameters)))
    return path


def feature_count(run: Run, epoch: int) -> int:
    """Return the number of images with stored features of an epoch; raises `UserError`."""
    with open_features(run.snapshots, epoch) as stored:
        return stored.head("features").shape[0]


def _project_few(run: Run, method: str, epoch: int) -> tuple[np.ndarray, np.ndarray, dict]:
    """Return (points, image ids, how the map was made)."""
    snapshot = read_snapshot(run.snapshots, epoch)
    features = features_for_map(snapshot, epoch)
    print(f"{METHODS[method]} of {len(features):,} images with {features.shape[1]} features each", flush=True)
    if method == "pca":
        return fit_plane(features).project(features), snapshot.feature_index, {"begun_from": None}
    points, parameters = _fit_map(run, method, epoch, features, snapshot.feature_index)
    return points, snapshot.feature_index, parameters


def _project_many(run: Run, method: str, epoch: int, count: int) -> tuple[np.ndarray, np.ndarray, dict]:
    """Project like `_project_few`, reading the features in parts.

    PCA uses the plane on which a page shows all epochs. Other methods map a sample, drawn by the seed; every other
    image is placed among its nearest landmarks.
    """
    if method == "pca":
        stored = snapshot_epochs(run.snapshots)
        ends = [read_snapshot(run.snapshots, end, thinned=True) for end in (stored[0], stored[-1])]
        place, parameters = shared_plane(ends[0], stored[0], ends[1], stored[-1]).project, {"plane_of": stored[-1]}
    else:
        rows = np.sort(np.random.default_rng(_SEED).choice(count, LANDMARKS, replace=False))
        with open_features(run.snapshots, epoch) as file:
            features, index = _finite(file.rows("features", rows), epoch), file.read("feature_index")
        print(f"{METHODS[method]} of {len(rows):,} of {count:,} images", flush=True)
        places, parameters = _fit_map(run, method, epoch, features, index, rows)
        landmarks = Landmarks(unit_rows(features), places, _SEED)
        parameters |= {"landmarks": LANDMARKS}

        def place(piece: np.ndarray) -> np.ndarray:
            return landmarks.place(unit_rows(piece))

    points, num_done = np.zeros((count, 2), np.float32), 0
    with open_features(run.snapshots, epoch) as file:
        index = file.read("feature_index")
        for piece in file.pieces("features"):
            points[num_done : num_done + len(piece)] = place(_finite(piece, epoch))
            num_done += len(piece)
            print(f"{METHODS[method]}: placed {num_done:,} of {count:,} images", flush=True)
    if method != "pca":
        points[rows] = places
    return points, index, parameters


def _fit_map(
    run: Run, method: str, epoch: int, features: np.ndarray, index: np.ndarray, rows: np.ndarray | None = None
) -> tuple[np.ndarray, dict]:
    """Return (points of the features, how they were made), started from the nearest map and aligned with it.

    index: image ids of the whole map; rows: those of them that the features belong to, None for all.
    """
    begun = _nearest_map(run, method, epoch, index)
    start = None if begun is None else begun[1].astype(np.float64)
    if start is not None and rows is not None:
        start = start[rows]
    points, parameters = {"umap": _umap, "tsne": _tsne}[method](features, start)
    if start is not None:
        points = align_points(points, start)
    return points, parameters | {"begun_from": begun and begun[0]}


def compute_all_maps(run: Run, method: str, epoch: int | None = None) -> list[Path]:
    """Run `compute_map` for up to `MAX_EPOCHS` epochs, evenly spread: `epoch` first, then outwards in both directions.

    Existing maps are kept. Raises `UserError`.
    """
    stored = snapshot_epochs(run.snapshots)
    epoch = stored[-1] if epoch is None and stored else epoch
    if epoch not in stored:
        return [compute_map(run, method, epoch)]  # raises the reason
    order = sorted({epoch, *spread_epochs(stored)}, key=lambda other_epoch: (abs(other_epoch - epoch), -other_epoch))
    paths = []
    for num_done, other_epoch in enumerate(order, 1):
        path = map_path(run, method, other_epoch)
        paths.append(path if path.exists() else compute_map(run, method, other_epoch))
        print(f"{METHODS[method]}: {num_done} of {counted(len(order), 'epoch')}", flush=True)
    write_json(_all_path(run, method, stored), {"epochs": sorted(order)})
    return paths


def spread_epochs(epochs: Sequence[int], count: int = MAX_EPOCHS) -> list[int]:
    """Return at most `count` epochs, evenly spread, with the first and the last; at least two if there are two."""
    positions = np.linspace(0, len(epochs) - 1, min(len(epochs), max(2, count))).round().astype(int)
    return [epochs[position] for position in sorted(set(positions.tolist()))]


def _nearest_map(run: Run, method: str, epoch: int, index: np.ndarray) -> tuple[int, np.ndarray] | None:
    """Return (epoch, points) of the stored map of the nearest epoch that has the images `index`, or None."""
    for other_epoch in sorted(
        stored_epochs(run, method), key=lambda other_epoch: (abs(other_epoch - epoch), -other_epoch)
    ):
        if other_epoch == epoch:
            continue
        try:
            stored_map = read_map(run, method, other_epoch)
        except UserError:
            continue  # damaged: treated as missing
        if stored_map is not None and np.array_equal(stored_map.index, index) and np.isfinite(stored_map.points).all():
            return other_epoch, stored_map.points
    return None


def _umap(features: np.ndarray, start: np.ndarray | None) -> tuple[np.ndarray, dict]:
    if importlib.util.find_spec("umap") is None:
        raise UserError("method", "umap needs the package umap-learn: pip install umap-learn")
    from umap import UMAP  # takes seconds to import

    parameters = {"n_neighbors": max(2, min(15, len(features) - 1)), "min_dist": 0.1, "metric": "cosine"}
    start_options = {} if start is None else {"init": start.astype(np.float32)}
    model = UMAP(**parameters, **start_options, random_state=_SEED, n_jobs=1)
    return model.fit_transform(unit_rows(features)), parameters | {"random_state": _SEED}


def _tsne(features: np.ndarray, start: np.ndarray | None) -> tuple[np.ndarray, dict]:
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    rows = unit_rows(features)
    if rows.shape[1] > 50 < len(rows):
        rows = PCA(50, svd_solver="full").fit_transform(rows)
    parameters = {"perplexity": float(min(30, (len(rows) - 1) / 3))}
    start_options = {"init": "pca"}
    if start is not None:
        start_options = {"init": (start - start.mean(0)).astype(np.float32), "early_exaggeration": _LATE_EXAGGERATION}
    points = TSNE(**parameters, **start_options, random_state=_SEED, n_jobs=2).fit_transform(rows)
    return points, parameters | {"random_state": _SEED, "components": rows.shape[1]}


# ---------------------------------------------------------------------------------------------------- landmarks


class Landmarks:
    """Features of unit length (m, d) and their positions on the plane (m, 2), from which other images get theirs.

    Landmarks are grouped by k-means, and an image is compared only with those of the groups nearest to it: with 20,000
    landmarks in 128 groups of which 8 are searched, with a sixteenth.
    """

    def __init__(self, features: np.ndarray, places: np.ndarray, seed: int):
        from sklearn.cluster import MiniBatchKMeans  # takes a second to import

        self.features, self.places = features.astype(np.float32), places.astype(np.float32)
        groups = min(_GROUPS, len(features))
        clusters = MiniBatchKMeans(groups, random_state=seed, batch_size=4096, n_init=1).fit(self.features)
        self.centers = clusters.cluster_centers_.astype(np.float32)
        self.centers /= np.linalg.norm(self.centers, axis=1, keepdims=True) + 1e-9
        own_group = self._group_of(self.features)
        near_groups = np.argsort(-(self.centers @ self.centers.T), axis=1)[:, :_LOOKED_AT]
        self.around = [np.flatnonzero(np.isin(own_group, groups)) for groups in near_groups]
        self.reach = _REACH * float(np.median(self._spread(self.nearest(self.features)[0])))

    def nearest(self, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (rows int (n, k), cosines float32 (n, k)) of the most similar landmarks in the nearest groups.

        The most similar come first. directions: features of unit length (n, d).
        """
        count = min(_NEAREST, min(map(len, self.around)))
        rows, cosines = np.zeros((len(directions), count), int), np.zeros((len(directions), count), np.float32)
        group = self._group_of(directions)
        for group_id in np.unique(group):
            rows_of_group, among = np.flatnonzero(group == group_id), self.around[group_id]
            likeness = directions[rows_of_group] @ self.features[among].T
            candidates = np.argpartition(-likeness, count - 1, axis=1)[:, :count]
            values = np.take_along_axis(likeness, candidates, axis=1)
            order = np.argsort(-values, axis=1, kind="stable")
            rows[rows_of_group] = among[np.take_along_axis(candidates, order, axis=1)]
            cosines[rows_of_group] = np.take_along_axis(values, order, axis=1)
        return rows, cosines

    def place(self, directions: np.ndarray) -> np.ndarray:
        """Return float32 (n, 2): mean position of the nearest landmarks, weighted by similarity.

        The weight is exp(-(d - d1) / mean(d - d1)) with cosine distances d, of which d1 is the smallest.
        """
        rows, cosines = self.nearest(directions)
        further = cosines[:, :1] - cosines
        weights = np.exp(-further / (further.mean(axis=1, keepdims=True) + 1e-9))
        weights[self._spread(rows) > self.reach] = 0
        return (weights[..., None] * self.places[rows]).sum(axis=1) / weights.sum(axis=1, keepdims=True)

    def _spread(self, rows: np.ndarray) -> np.ndarray:
        """Return the distance on the plane of each landmark of `rows` (n, k) to the first of its row."""
        return np.linalg.norm(self.places[rows] - self.places[rows[:, :1]], axis=2)

    def _group_of(self, directions: np.ndarray) -> np.ndarray:
        return (directions @ self.centers.T).argmax(axis=1)


# ---------------------------------------------------------------------------------------------------- in the background


def start_map(run: Run, method: str, epoch: int, command: tuple[str, ...] = ()) -> None:
    """Start computing a map in a detached process; does nothing if a process is already computing it.

    Raises `UserError`.
    """
    arguments = ("project", str(run.folder.resolve()), "--method", method, "--epoch", str(epoch))
    _start_job(map_path(run, method, epoch), command or detached_jobs.lps_command(*arguments))


def _start_job(path: Path, command: Sequence[str]) -> None:
    with as_user_error("projections", f"{shown(path.with_suffix(''))} cannot be computed"):
        detached_jobs.start_job(path, command)


def cancel_map(run: Run, method: str, epoch: int) -> None:
    """Ask the process that computes a map to end."""
    detached_jobs.cancel_job(map_path(run, method, epoch))


def end_when_cancelled(run: Run, method: str, epoch: int | None, is_all: bool) -> None:
    """Make this process, which computes a map or (is_all) maps of many epochs, end when they are cancelled."""
    stored = snapshot_epochs(run.snapshots)
    map_epoch = epoch if epoch is not None or not stored else stored[-1]
    path = _all_path(run, method, stored) if is_all or map_epoch is None else map_path(run, method, map_epoch)
    detached_jobs.end_when_cancelled(path)


def map_progress(run: Run, method: str, epoch: int) -> detached_jobs.JobState:
    """Return the progress of a map, from its files alone."""
    return detached_jobs.job_state(map_path(run, method, epoch))


def start_all_maps(run: Run, method: str, epoch: int) -> None:
    """Start computing maps of many epochs (`compute_all_maps`), as `start_map` does for one."""
    arguments = ("project", str(run.folder.resolve()), "--method", method, "--epoch", str(epoch), "--all")
    path = _all_path(run, method, snapshot_epochs(run.snapshots))
    _start_job(path, detached_jobs.lps_command(*arguments))


def progress_of_all_maps(run: Run, method: str) -> detached_jobs.JobState:
    """Return the progress of the maps of many epochs, up to the newest stored epoch."""
    return detached_jobs.job_state(_all_path(run, method, snapshot_epochs(run.snapshots)))


def _all_path(run: Run, method: str, stored: Sequence[int]) -> Path:
    """Return the path of the record that the maps up to the newest epoch of `stored` have been made."""
    return run.projections / f"{method}-to-{stored[-1] if stored else 0:04d}.json"


def map_path(run: Run, method: str, epoch: int) -> Path:
    """Return the file of a map, which may not exist."""
    return run.projections / f"{method}-epoch-{epoch:04d}.npz"


# ---------------------------------------------------------------------------------------------------- neighbours


@dataclass(frozen=True)
class NearestImages:
    """Neighbours, the nearest first. images: ids int64 (k,); distances: float64 (k,), 1 - cosine, from 0 to 2."""

    images: np.ndarray
    distances: np.ndarray


def nearest_images(snapshot: Snapshot, image: int, count: int) -> NearestImages | None:
    """Return the `count` images (fewer if there are not as many) whose features have the largest cosine with `image`.

    None if the snapshot does not have the features of `image`. The length of features does not matter, just as for the
    cosine classifier.
    """
    from sklearn.neighbors import NearestNeighbors  # half a second, only where neighbours are asked for

    index = snapshot.feature_index.astype(np.int64)
    own_row = np.flatnonzero(index == image)
    other_rows = np.flatnonzero(index != image)
    if not len(own_row) or not len(other_rows):
        return None
    features = snapshot.features.astype(np.float32)
    search = NearestNeighbors(n_neighbors=min(count, len(other_rows)), metric="cosine", algorithm="brute")
    distances, rows = search.fit(features[other_rows]).kneighbors(features[own_row[:1]])
    return NearestImages(index[other_rows][rows[0]], distances[0].astype(np.float64))


def nearest_rows(features: np.ndarray, count: int) -> np.ndarray:
    """Return int32 (m, k): for each of the features (m, d) the `count` other rows of largest cosine, nearest first."""
    directions = unit_rows(features)
    total, count = len(directions), max(0, min(count, len(directions) - 1))
    nearest = np.zeros((total, count), np.int32)
    if not count:
        return nearest
    layers = max(1, min(_LAYERS, total // (4 * count)))
    opposite = np.pad(-directions.T, ((0, 0), (0, -total % layers)))
    for start in range(0, total, _PIECE):
        distance = directions[start : start + _PIECE] @ opposite
        row_numbers = np.arange(len(distance))
        distance[row_numbers, start + row_numbers] = np.inf
        distance[:, total:] = np.inf
        for first in range(0, len(distance), _SELECTED):
            some_away = distance[first : first + _SELECTED]
            nearest[start + first : start + first + len(some_away)] = _smallest_columns(some_away, count, layers)
    return nearest


def _smallest_columns(values: np.ndarray, count: int, layers: int) -> np.ndarray:
    """Return the columns (r, count) of the smallest values of each row (r, n), smallest first.

    Column i is grouped with i + n / layers, i + 2 n / layers, ...: the `count` smallest values of a row are in the
    groups with the `count` smallest minima.
    """
    minima = values.reshape(len(values), layers, -1).min(axis=1)
    groups = np.argpartition(minima, count - 1, axis=1)[:, :count]
    columns = (groups[:, :, None] + np.arange(0, values.shape[1], minima.shape[1])).reshape(len(values), -1)
    candidates = np.take_along_axis(values, columns, axis=1)
    smallest = np.argpartition(candidates, count - 1, axis=1)[:, :count]
    order = np.argsort(np.take_along_axis(candidates, smallest, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, np.take_along_axis(smallest, order, axis=1), axis=1)
