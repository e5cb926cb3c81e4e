"""The points of a projection as a data frame: position, image, class and prediction."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from lps import datasets
from lps.analysis import labels, projection
from lps.analysis.projection import NearestImages, Plane, nearest_images
from lps.charts import maps
from lps.data.split import Split
from lps.errors import UserError
from lps.files.atomic import fingerprint
from lps.store import snapshots
from lps.store.runs import Run
from lps.store.snapshots import MAX_POINTS, Snapshot
from lps.ui.pictures.bounded_cache import BoundedCache
from lps.ui.shared.history import read_history

_TABLES = BoundedCache(160 << 20)  # a million points take 37 MB
_MARGIN = 0.06  # around the points of a view, share of their extent


@dataclass(frozen=True)
class Partition:
    """The split of a run, and the class id of every image of its data set, -1 unknown."""

    split: Split
    targets: np.ndarray


def read_partition(run: Run) -> Partition:
    """Return the content of `split.npz`; raises `UserError`."""
    return _load_partition(str(run.folder), fingerprint(run.folder / "split.npz"))


def stamp_of(run: Run) -> str:
    """Return a value that changes with `split.npz`: while it is the same, an image id means the same picture."""
    return "-".join(f"{number:x}" for number in fingerprint(run.folder / "split.npz") or (0,))


def key_of_snapshot(run: Run, epoch: int) -> tuple[int, object]:
    """Return the epoch with a stamp of its stored predictions and features, which changes with them."""
    return epoch, fingerprint(run.snapshots / f"epoch-{epoch:04d}.npz")


def stored_epochs(run: Run) -> list[int]:
    """Return the epochs with stored features, ascending."""
    return snapshots.snapshot_epochs(run.snapshots)


def read_points(run: Run, epoch: int, method: str = "pca") -> pd.DataFrame | None:
    """Return one row per point: x, y, image, truth, predicted (both class ids, -1 unknown), confidence, right.

    None if the map of this method has not been computed. PCA is fitted to the newest snapshot, so the points of all
    epochs share one plane; a recording, also an imported one, has these maps instead of the features of every epoch.
    Raises `UserError` for missing or damaged files.
    """
    stored = stored_epochs(run)
    if epoch not in stored:
        raise UserError("epoch", f"{epoch} has no stored predictions")
    snapshot_keys = tuple(key_of_snapshot(run, e) for e in (stored[0], epoch, stored[-1]))
    is_live = method == "pca" and not run.is_recorded and not is_thinned(run, epoch)
    if is_live and len(_load_snapshot(str(run.folder), snapshot_keys[1]).features):
        return _pca_table(str(run.folder), *snapshot_keys)
    map_stamp = fingerprint(projection.map_path(run, method, epoch))
    if map_stamp is None:
        return _pca_table(str(run.folder), *snapshot_keys) if method == "pca" else None
    key = (str(run.folder), method, snapshot_keys[1], map_stamp)
    return _TABLES.get(key, lambda: _mapped_table(run, method, epoch, snapshot_keys[1]), _bytes_of_table)


def is_thinned(run: Run, epoch: int) -> bool:
    """Return whether an epoch has more features than a page reads, so that its PCA shows only some of them."""
    return _feature_count(str(run.folder), key_of_snapshot(run, epoch)) > MAX_POINTS


@st.cache_resource(max_entries=1024, show_spinner=False)
def _feature_count(folder: str, snapshot_key) -> int:
    return projection.feature_count(Run(Path(folder)), snapshot_key[0])


def _mapped_table(run: Run, method: str, epoch: int, snapshot_key) -> pd.DataFrame:
    stored_map = projection.read_map(run, method, epoch)
    if stored_map is None:
        raise UserError("projections", f"no longer has the map of epoch {epoch}; reload the page")
    return _make_points(str(run.folder), snapshot_key, stored_map.points, stored_map.index)


def axis_limits(run: Run, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (lowest, highest) x and y around the points of a few epochs, so that the view fits every epoch.

    For PCA: the first, the newest and some in between; for other methods: the epochs with a map.
    """
    stored = stored_epochs(run)
    if method == "pca":
        epochs = projection.spread_epochs(stored, 7)
    else:
        epochs = [epoch for epoch in projection.stored_epochs(run, method) if epoch in stored]
    end_keys = tuple(key_of_snapshot(run, epoch) for epoch in (*stored[:1], *stored[-1:]))
    corners = []
    for epoch in epochs:
        stamp = fingerprint(projection.map_path(run, method, epoch))
        with contextlib.suppress(UserError):  # the page shows the error when this epoch is opened
            corners.append(_map_limits(str(run.folder), method, epoch, stamp, end_keys))
    corners = [table for table in corners if table is not None]
    if not corners:
        return np.full(2, -1.0), np.full(2, 1.0)
    low, high = np.min([limits[0] for limits in corners], 0), np.max([limits[1] for limits in corners], 0)
    margin = _MARGIN * np.maximum(high - low, 1e-6)
    return low - margin, high + margin


@st.cache_resource(max_entries=1024, show_spinner=False)
def _map_limits(folder: str, method: str, epoch: int, stamp, end_keys) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (lowest, highest) x and y of a map; None if there is none."""
    table = read_points(Run(Path(folder)), epoch, method)
    if table is None or not len(table):
        return None
    positions = table[["x", "y"]].to_numpy(float)
    return positions.min(0), positions.max(0)


def find_neighbours(run: Run, epoch: int, image: int, count: int) -> NearestImages | None:
    """Return the images with the most similar features at an epoch; None if those of `image` are not stored.

    Raises `UserError` for missing or damaged files.
    """
    return nearest_images(_load_snapshot(str(run.folder), key_of_snapshot(run, epoch)), image, count)


def read_features(run: Run, epoch: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (image ids int64 (m,), features (m, d)) of an epoch that a page reads; raises `UserError`."""
    snapshot = _load_snapshot(str(run.folder), key_of_snapshot(run, epoch))
    return snapshot.feature_index.astype(np.int64), snapshot.features


def read_pictures(run: Run) -> datasets.Images:
    """Return the images that the ids of a run's points mean.

    Raises `UserError` if they cannot be read, or if the data set is not the one that the run used.
    """
    partition = read_partition(run)
    return labels.load_pictures(run, partition.split, partition.targets)


def class_names(run: Run) -> list[str]:
    """Return the name of every class id; of a run without known classes, the names of clusters.

    Empty if the split or the names cannot be read.
    """
    try:
        split = read_partition(run).split
        return labels.cluster_names(run, split) if read_history(run).is_blind else list(split.class_names)
    except UserError:
        return []


def file_names(run: Run) -> tuple[str, ...]:
    """Return the file names of a run's pictures; () if they are not files or no longer exist."""
    try:
        return read_pictures(run).file_names
    except UserError:
        return ()


@st.cache_resource(max_entries=8, show_spinner=False)
def _load_partition(folder: str, stamp) -> Partition:
    return Partition(*snapshots.read_split(Path(folder)))


@st.cache_resource(max_entries=4, show_spinner=False)
def _load_snapshot(folder: str, snapshot_key) -> Snapshot:
    """Return the thinned snapshot of `snapshot_key` (epoch, file stamp).

    Raises `UserError` for a damaged one or one of another split.
    """
    snapshot = snapshots.read_snapshot(Path(folder) / "snapshots", snapshot_key[0], thinned=True)
    split = read_partition(Run(Path(folder))).split
    snapshots.check_ids(f"epoch-{snapshot_key[0]:04d}.npz", snapshot.predicted, split.unlabeled, split.classes)
    return snapshot


@st.cache_resource(max_entries=32, show_spinner=False)
def _fit_plane(folder: str, first_key, last_key) -> Plane:
    """Return the principal plane of the newest snapshot, aligned with that of the first so that it does not flip."""
    return projection.shared_plane(
        _load_snapshot(folder, first_key), first_key[0], _load_snapshot(folder, last_key), last_key[0]
    )


def _pca_table(folder: str, first_key, snapshot_key, last_key) -> pd.DataFrame:
    return _TABLES.get(
        (folder, first_key, snapshot_key, last_key),
        lambda: _map_table(folder, first_key, snapshot_key, last_key),
        _bytes_of_table,
    )


def _bytes_of_table(table: pd.DataFrame) -> int:
    return int(table.memory_usage().sum())


def _map_table(folder: str, first_key, snapshot_key, last_key) -> pd.DataFrame:
    snapshot = _load_snapshot(folder, snapshot_key)
    points = maps.project_points(_fit_plane(folder, first_key, last_key), snapshot, snapshot_key[0])
    return _make_points(folder, snapshot_key, points, snapshot.feature_index)


def _make_points(folder: str, snapshot_key, points: np.ndarray, index: np.ndarray) -> pd.DataFrame:
    partition = read_partition(Run(Path(folder)))
    return maps.point_table(points, index, partition.split, partition.targets, _load_snapshot(folder, snapshot_key))
