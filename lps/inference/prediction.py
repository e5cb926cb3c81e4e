"""Predict new pictures with a run: class, confidence, "none of these", and the most similar training images.

Names are those that the user gave on Clusters, transferred to the epoch of the weights. If the user split the cluster
of an id, a picture with this id goes to the part that most of its nearest training images with this id are in. Images
that the user removed from their cluster are not used for comparison.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import numpy as np

from lps.analysis import labels, naming
from lps.analysis.clusters import read_assignment
from lps.analysis.naming import Naming
from lps.data.split import Split
from lps.datasets import Images
from lps.inference import new_pictures, novel_proposals, rejection, trained_model
from lps.inference.new_pictures import NewPictures
from lps.inference.prediction_result import PredictionResult
from lps.inference.rejection import NEIGHBOURS, TradeOff, nearest_images
from lps.inference.trained_model import ReferenceImages, Seen, TrainedModel
from lps.store.runs import Run
from lps.store.snapshots import snapshot_epochs

_CANDIDATES = 4 * NEIGHBOURS  # neighbours among which those of a split id are looked for
Report = Callable[[int, int | None], None]  # pictures that are done, and how many there are at most


def predict(
    run: Run, source: str | os.PathLike | np.ndarray, report: Report = lambda done, total: None
) -> PredictionResult:
    """Predict the pictures of a folder, an .npz or an array; raises `UserError`."""
    new_pictures.check_source(source)
    predictor = Predictor(run)
    pictures = new_pictures.open_pictures(source, predictor.model.form)
    return predictor.with_names(predictor.rows(pictures, report), pictures)


@dataclass(frozen=True)
class PredictedRows:
    """Predictions without names, one row per picture, see `PredictionResult`.

    near int64 (n, k): rows of the most similar reference images. points float16 (g, d): features of the newest pictures
    that are far from all training images (`novel_proposals.is_far`).
    """

    files: tuple[str, ...]
    predicted: np.ndarray
    cluster: np.ndarray
    confidence: np.ndarray
    distance: np.ndarray
    near: np.ndarray
    points: np.ndarray

    COLUMNS: ClassVar = ("predicted", "cluster", "confidence", "distance", "near", "points")

    @classmethod
    def joined(cls, parts: Sequence["PredictedRows"]) -> "PredictedRows":
        files = tuple(chain.from_iterable(rows.files for rows in parts))
        *columns, points = (np.concatenate([getattr(rows, name) for rows in parts]) for name in cls.COLUMNS)
        return cls(files, *columns, points[-novel_proposals.MAX_COMPARED_PICTURES :])


class Predictor:
    """A trained run, loaded once to predict any number of times; raises `UserError` if the run has no weights."""

    def __init__(self, run: Run, threads: int | None = None):
        self.model = trained_model.load_model(run, threads)
        self._decisions, self._lost = decisions_for_model(self.model)
        self._references = self.model.references.without(self._decisions.unlabeled)
        self._own = labels.clusters_of(self._decisions, self._references.predicted, self._references.images)
        self._curve = trade_off_of(self.model, self._references, self._decisions)

    def rows(self, pictures: NewPictures, report: Report = lambda done, total: None) -> PredictedRows:
        """Predict pictures; raises `UserError` if none of them can be used."""
        report(0, pictures.count)
        parts = []
        for part in self.parts(pictures.pieces(), pictures, report):
            parts.append(part)
            report(len(pictures.names) + len(pictures.skipped), pictures.count)
        return PredictedRows.joined(parts)

    def parts(
        self, pieces: Iterator[Images], pictures: NewPictures, report: Report = lambda done, total: None
    ) -> Iterator[PredictedRows]:
        """Yield the predictions of each piece of `pictures`."""
        for images in pieces:
            files = pictures.names[-len(images.pixels) :]
            before = len(pictures.names) + len(pictures.skipped) - len(files)
            seen = self.model.see(images, lambda done, before=before: report(before + done, pictures.count))
            yield self._predict_seen(seen, files)

    def _predict_seen(self, seen: Seen, files: Sequence[str]) -> PredictedRows:
        prediction = self.model.report(seen.outputs)
        distances, rows = nearest_images(seen.points, self._references.points, _CANDIDATES)
        distance, predicted = distances[:, :NEIGHBOURS].mean(axis=1), prediction.ids.cpu().numpy().astype(np.int64)
        return PredictedRows(
            tuple(files),
            predicted,
            _clusters(self._decisions, predicted, self._references.predicted[rows], self._own[rows]),
            prediction.confidence.float().cpu().numpy(),
            distance,
            rows[:, :NEIGHBOURS],
            seen.points[novel_proposals.is_far(distance, self._curve)].astype(np.float16),
        )

    def with_names(self, rows: PredictedRows, pictures: NewPictures) -> PredictionResult:
        """Add the names of the clusters, and the possible novel classes."""
        model, own_clusters = self.model, self._own[rows.near]
        titles, groups = _names_and_groups(
            model.run, model.material.split, self._decisions, np.append(rows.cluster, own_clusters)
        )
        return PredictionResult(
            model.run.id,
            model.epoch,
            None if pictures.root is None else str(pictures.root.resolve()),
            rows.files,
            rows.predicted,
            rows.cluster,
            rows.confidence,
            rows.distance,
            self._references.images[rows.near],
            own_clusters,
            titles,
            groups,
            self._decisions.rejected,
            tuple(self._lost),
            self._curve,
            tuple(pictures.skipped),
            novel_proposals.propose_classes(rows.points, rows.distance, self._curve),
        )


def decisions_for_model(model: TrainedModel) -> tuple[Naming, list[str]]:
    """Return (the user's decisions for the ids of these weights, names that no cluster of the weights continues)."""
    run, split = model.run, model.material.split
    entries = naming.read_entries(run)
    named = set(naming.named_epochs(entries)) & set(snapshot_epochs(run.snapshots))
    if not named:
        return Naming(), []
    epoch = max(named)
    decisions = naming.naming_of_epoch(entries, epoch)
    if epoch == model.epoch and model.step == 0:
        return decisions, []
    assigned = read_assignment(run, epoch, split).predicted.astype(np.int64)
    now = model.references.prediction.ids.cpu().numpy()
    steps, lost = labels.transfer_decisions(decisions, assigned, now, split.unlabeled, split.classes.total)
    carried = Naming()
    for step in steps:
        carried = naming.apply_step(carried, step)
    return carried, lost


def _clusters(
    decisions: Naming, predicted: np.ndarray, neighbour_ids: np.ndarray, cluster_of_image: np.ndarray
) -> np.ndarray:
    """Return the cluster of every picture.

    predicted: ids (n,). neighbour_ids, cluster_of_image: (n, k), ids and clusters of the nearest training images,
    nearest first.
    """
    cluster = labels.merge_clusters(decisions, predicted)
    if decisions.moved:
        for row in range(len(predicted)):
            votes = cluster_of_image[row][neighbour_ids[row] == predicted[row]][:NEIGHBOURS]
            if len(votes):
                values, counts = np.unique(votes, return_counts=True)
                most_frequent = set(values[counts == counts.max()].tolist())
                # Of equal ones that of the nearest
                cluster[row] = next(candidate for candidate in votes.tolist() if candidate in most_frequent)
    return cluster


def _names_and_groups(
    run: Run, split: Split, decisions: Naming, clusters: np.ndarray
) -> tuple[dict[int, str], dict[int, str]]:
    """Return (name by cluster, group by cluster)."""
    defaults, cluster_ids = labels.default_names(run, split), np.unique(clusters).tolist()
    titles = {cluster: labels.name_of(cluster, decisions, defaults) for cluster in cluster_ids}
    return titles, {cluster: labels.group_of_cluster(cluster, split, decisions, defaults) for cluster in cluster_ids}


def trade_off_of(model: TrainedModel, compared: ReferenceImages, decisions: Naming) -> TradeOff:
    """Measure what thresholds accept, among `compared`. Withheld labels are compared with what the model says."""
    split = model.material.split
    rows = np.flatnonzero(np.isin(compared.images, split.validation))
    truth = model.material.truth[compared.images[rows]]
    defaults = labels.default_names(model.run, split)
    is_right = [
        labels.name_of(cluster, decisions, defaults) == split.class_names[label]
        for cluster, label in zip(labels.merge_clusters(decisions, compared.predicted[rows]).tolist(), truth.tolist())
    ]
    return rejection.measure_trade_off(compared.points, rows, np.array(is_right, bool))
