"""Features as points on a plane: PCA at once, UMAP and t-SNE in a process of their own, seeded and stored with the run.

Every point carries the id of its image, from the network's output to the screen. No torch here: a map is made from a
snapshot file; `start` makes one in the background.
"""

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lps import background
from lps.parameters import ConfigError
from lps.runs import Run
from lps.snapshots import read_arrays, read_snapshot, snapshot_epochs, write_arrays

METHODS = {"pca": "PCA", "umap": "UMAP", "tsne": "t-SNE"}
SEED = 0


@dataclass(frozen=True)
class Map:
    """Points on the plane, float32 (m, 2), with the image id of each."""

    points: np.ndarray
    index: np.ndarray


def read_map(run: Run, method: str, epoch: int) -> Map | None:
    """A stored map, None where there is none; raises `ConfigError` where it is damaged."""
    path = _path(run, method, epoch)
    if not path.exists():
        return None
    stored = read_arrays(path, ("points", "index"))
    points, index = stored["points"].astype(np.float32), stored["index"].astype(np.int64)
    if points.shape != (len(index), 2):
        raise ConfigError(path.name, "is damaged (not two coordinates for every image)")
    return Map(points, index)


# ---------------------------------------------------------------------------------------------------- maps


def unit_rows(features: np.ndarray) -> np.ndarray:
    """Features (m, d) as directions: the cosine classifier looks at nothing else. Rows of zeros stay zero."""
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return np.divide(features, norms, out=np.zeros_like(features), where=norms > 0)


@dataclass(frozen=True)
class Plane:
    """The two directions of largest variance: points = (unit features - center) @ axes."""

    center: np.ndarray  # (d,)
    axes: np.ndarray  # (d, 2)

    def project(self, features: np.ndarray) -> np.ndarray:
        """Float32 points (m, 2) of features (m, d)."""
        return ((unit_rows(features) - self.center) @ self.axes).astype(np.float32)


def fit_plane(features: np.ndarray) -> Plane:
    """The principal plane of features (m, d), the sign of each axis fixed by its largest entry."""
    directions = unit_rows(features)
    center = directions.mean(axis=0)
    centered = directions - center
    axes = np.linalg.eigh(centered.T @ centered)[1][:, ::-1][:, :2]
    if axes.shape[1] < 2:
        axes = np.pad(axes, ((0, 0), (0, 2 - axes.shape[1])))
    largest = np.abs(axes).argmax(axis=0)
    signs = np.sign(axes[largest, np.arange(2)])
    return Plane(center, axes * np.where(signs == 0, 1, signs))


def turn(plane: Plane, points: np.ndarray, towards: np.ndarray) -> Plane:
    """`plane` turned or mirrored so that its `points` lie as close as can be to the points `towards` (Procrustes).

    Keeps a map from flipping over when the plane is fitted anew on a later epoch.
    """
    left, _, right = np.linalg.svd((points - points.mean(0)).T @ (towards - towards.mean(0)))
    return Plane(plane.center, plane.axes @ (left @ right))


def project(run: Run, method: str, epoch: int | None = None) -> Path:
    """Compute the map of one epoch (the last one without `epoch`), store it, return its path.

    The same snapshot gives the same points: the seed is fixed. Raises `ConfigError`, also for a recording.
    """
    run.check_writable()
    if method not in METHODS:
        raise ConfigError("method", f"{method!r} is not one of {', '.join(METHODS)}")
    epochs = snapshot_epochs(run.snapshots)
    epoch = epochs[-1] if epoch is None and epochs else epoch
    if epoch not in epochs:
        raise ConfigError("epoch", f"{epoch} has no snapshot; choices: {', '.join(map(str, epochs)) or 'none yet'}")
    snapshot = read_snapshot(run.snapshots, epoch)
    features = snapshot.features.astype(np.float32)
    count, width = features.shape
    print(f"{METHODS[method]} of {count:,} images with {width} features each", flush=True)
    points, parameters = {"pca": _pca, "umap": _umap, "tsne": _tsne}[method](features)
    parameters |= {"method": method, "epoch": epoch, "rows": "unit length"}
    run.projections.mkdir(exist_ok=True)
    path = _path(run, method, epoch)
    index = snapshot.feature_index.astype(np.int32)
    write_arrays(path, points=points.astype(np.float32), index=index, parameters=np.array(json.dumps(parameters)))
    return path


def _pca(features: np.ndarray) -> tuple[np.ndarray, dict]:
    return fit_plane(features).project(features), {}


def _umap(features: np.ndarray) -> tuple[np.ndarray, dict]:
    if importlib.util.find_spec("umap") is None:
        raise ConfigError("method", "umap needs the package umap-learn: pip install umap-learn")
    from umap import UMAP  # takes seconds to import

    parameters = {"n_neighbors": max(2, min(15, len(features) - 1)), "min_dist": 0.1, "metric": "cosine"}
    model = UMAP(**parameters, random_state=SEED, n_jobs=1)
    return model.fit_transform(unit_rows(features)), parameters | {"random_state": SEED}


def _tsne(features: np.ndarray) -> tuple[np.ndarray, dict]:
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    rows = unit_rows(features)
    if rows.shape[1] > 50 < len(rows):
        rows = PCA(50, svd_solver="full").fit_transform(rows)
    parameters = {"perplexity": float(min(30, (len(rows) - 1) / 3)), "init": "pca"}
    points = TSNE(**parameters, random_state=SEED, n_jobs=2).fit_transform(rows)
    return points, parameters | {"random_state": SEED, "components": rows.shape[1]}


# ---------------------------------------------------------------------------------------------------- in the background


def start(run: Run, method: str, epoch: int, command: tuple[str, ...] = ()) -> None:
    """Begin to compute a map in a detached process; does nothing where somebody is at it already."""
    asked = ("project", str(run.folder.resolve()), "--method", method, "--epoch", str(epoch))
    background.begin(_path(run, method, epoch), command or background.lps_command(*asked))


def progress(run: Run, method: str, epoch: int) -> background.Standing:
    """Where the map stands, from its files alone."""
    return background.standing(_path(run, method, epoch))


def _path(run: Run, method: str, epoch: int) -> Path:
    return run.projections / f"{method}-epoch-{epoch:04d}.npz"
