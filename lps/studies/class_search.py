"""Search for the number of classes: cluster the start features with every number and compare with the labels.

Semi-supervised category discovery (S. Vaze et al.: Generalized Category Discovery, CVPR 2022, section 3.3) takes the
number whose k-means clusters agree best with the labeled images. That accuracy is flat while too few clusters make
novel classes share one, and chance decides the best on the plateau. So among the numbers within one standard error of
the best, the one whose clusters are separated best is chosen (P. Rousseeuw: Silhouettes, 1987). Clusters are searched
along the principal axes of the features, in units of the scatter of seen classes there, since labels define what a
class is.
"""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import silhouette_score
from threadpoolctl import threadpool_limits

from lps.errors import UserError
from lps.machine.devices import available_cores
from lps.methods.parts.clustering import kmeans, principal_axes, unit_rows
from lps.scheduler import costs, preflight
from lps.scheduler.background_jobs import JobProgress, ReportPhase, config_of_job, ignore_progress, working_on
from lps.scheduler.class_count import ClassCount, class_count_path, write_class_count
from lps.scheduler.costs import Span
from lps.scores.metrics import matched_accuracy
from lps.settings.config import Config
from lps.studies.start_features import start_features
from lps.wording import counted

_Scores = tuple[float, float]  # accuracy on labels, silhouette
Tell = Callable[[float, Span], None]
_CLUSTERING_S = 3e-6  # of one core for an image, a cluster and a restart; two shared cores
_RESTARTS = 2
_AXES = 48  # of the features that are clustered
_SHRINKAGE = 0.5  # of the scatter within classes towards one that is the same along all axes
_NEARER = 6  # numbers, about, that are tried around the best one after a coarse search
_ENOUGH = 10_000  # images that are clustered
_FEW = 48  # numbers that are all tried; of more, some, and then more around the best
_ENOUGH_LABELS, _LABELS_A_CLASS = 100, 10  # labeled images; with fewer there is a caution
_COMPARED = 2_000  # images for the silhouette


def count_classes(
    features: np.ndarray,
    labels: np.ndarray,
    seen: int,
    seed: int,
    most: int | None = None,
    report: Tell = lambda share, time_left: None,
) -> ClassCount:
    """Count the classes in features; returns the chosen number with all scores.

    features: float32 (n, d); labels: int64 (n,), class ids below `seen`, -1 for every image without a label. most: the
    largest total that is tried; None: five times the seen classes, and at least 20 more than these. report: called with
    the completed share and the time left after each number; may raise to end the search.
    """
    rows = _sample(labels, seed)
    labels = labels[rows]
    points = _in_class_scatter(_principal_components(unit_rows(features[rows])), labels)
    is_labeled = labels >= 0
    most = min(most or _default_most(seen), len(points) - 1)
    scores_by_number: dict[int, _Scores] = {}
    start = time.monotonic()

    def score(total: int) -> tuple[float, float]:
        with threadpool_limits(1):
            clusters = kmeans(points, total, seed, _RESTARTS, normalize=False)
            accuracy = matched_accuracy(clusters[is_labeled], labels[is_labeled], max(total, seen))
            return accuracy, _silhouette(points, clusters, seed)

    def score_all(numbers: list[int], later: int) -> None:
        """Score the numbers that have no score yet. later: approximate number of those to be tried afterwards."""
        todo = [number for number in numbers if number not in scores_by_number]
        for index, (number, scores) in enumerate(_score_in_parallel(score, todo), 1):
            scores_by_number[number] = scores
            work_done, remaining = sum(scores_by_number), sum(todo[index:]) + later
            passed = time.monotonic() - start
            share = work_done / (work_done + remaining)
            report(share, costs.job_time_left(passed / work_done * remaining, share))

    lowest = seen + 1
    planned = _first_numbers(lowest, most)
    later_work = 0 if len(planned) == most - lowest + 1 else _NEARER * sum(planned) // len(planned)
    score_all(planned, later_work)
    while True:
        total = _choose_number(scores_by_number, is_labeled.sum())
        gaps = _untried_between(sorted(scores_by_number), total)
        if not gaps:
            break
        score_all(gaps, 0)
    if later_work:
        report(1.0, costs.job_time_left(0.0, 1.0))
    numbers = tuple(sorted(scores_by_number))
    accuracy, silhouette = (tuple(float(scores_by_number[n][part]) for n in numbers) for part in (0, 1))
    return ClassCount(numbers, accuracy, silhouette, _tolerance(max(accuracy), is_labeled.sum()), int(total), seen)


def _default_most(seen: int) -> int:
    return max(seen + 20, 5 * seen)


def _principal_components(points: np.ndarray) -> np.ndarray:
    """Return (n, d) along the axes of largest variance, at most `_AXES` of them."""
    tensor = torch.from_numpy(points)
    mean, axes = principal_axes(tensor, min(_AXES, *points.shape))
    return ((tensor - mean) @ axes.T).numpy()


def _in_class_scatter(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return points (n, d) whitened by the scatter of labeled ones around class means; unchanged without scatter."""
    is_labeled = labels >= 0
    labeled_points = points[is_labeled].astype(np.float64)
    classes, class_index = np.unique(labels[is_labeled], return_inverse=True)
    means = np.stack([labeled_points[class_index == k].mean(axis=0) for k in range(len(classes))])
    deviations = labeled_points - means[class_index]
    scatter = deviations.T @ deviations / len(deviations)
    mean_variance = np.trace(scatter) / len(scatter)
    if not mean_variance > 0:
        return points
    shrunk = (1 - _SHRINKAGE) * scatter + _SHRINKAGE * mean_variance * np.eye(len(scatter))
    variances, axes = np.linalg.eigh(shrunk)
    return (points @ axes / np.sqrt(variances)).astype(np.float32)


def _first_numbers(lowest: int, most: int) -> list[int]:
    """Return the numbers to try first; all of them if there are few."""
    numbers = range(lowest, most + 1)
    return list(numbers) if len(numbers) <= _FEW else np.geomspace(lowest, most, _FEW // 2).round().astype(int).tolist()


def _score_in_parallel(score: Callable[[int], _Scores], numbers: list[int]) -> Iterator[tuple[int, _Scores]]:
    """Yield numbers with their scores, in this order; one number per core at a time.

    Threads of one k-means wait for each other in a loop: on two busy cores (load 13) 600 features in 6 clusters took
    8.3 s with two threads and 0.16 s with one.
    """
    pool = ThreadPoolExecutor(available_cores())
    try:
        yield from zip(numbers, pool.map(score, numbers))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _sample(labels: np.ndarray, seed: int) -> np.ndarray:
    """Return rows of at most `_ENOUGH` images, ascending, labeled and unlabeled ones in proportion."""
    if len(labels) <= _ENOUGH:
        return np.arange(len(labels))
    return np.sort(np.random.default_rng([seed, 1]).permutation(len(labels))[:_ENOUGH])


def _silhouette(points: np.ndarray, clusters: np.ndarray, seed: int) -> float:
    if len(np.unique(clusters)) < 2:
        return math.nan
    return float(silhouette_score(points, clusters, sample_size=min(_COMPARED, len(points)), random_state=seed))


def _tolerance(best: float, count: int) -> float:
    """Return the standard error of an accuracy measured on `count` images."""
    return math.sqrt(max(best * (1 - best), 0) / max(int(count), 1))


def _choose_number(scores_by_number: dict[int, _Scores], count: int) -> int:
    """Return the number of best silhouette (NaN: none) among those with an accuracy as good as the best."""
    best = max(accuracy for accuracy, _ in scores_by_number.values())
    equal = [n for n, (accuracy, _) in scores_by_number.items() if accuracy >= best - _tolerance(best, count)]
    return max(equal, key=lambda n: (np.nan_to_num(scores_by_number[n][1], nan=-1.0), n))


def _untried_between(numbers: list[int], chosen_number: int) -> list[int]:
    """Return untried numbers half-way to both neighbours of `chosen_number`, if these are more than 2 % away."""
    index = numbers.index(chosen_number)
    closest = max(1, chosen_number // 50)
    sides = numbers[max(0, index - 1) : index] + numbers[index + 1 : index + 2]
    distant = [side for side in sides if abs(side - chosen_number) > closest]
    return [
        (chosen_number + side) // 2 if side > chosen_number else -(-(chosen_number + side) // 2) for side in distant
    ]


def search_count(
    config: Config,
    root: Path,
    most: int | None,
    report_line: Callable[[str], None],
    is_begun: bool = False,
    show_progress: ReportPhase = ignore_progress,
) -> ClassCount:
    """Count the classes in the features that a run of `config` starts from, and store the result for pages.

    Other processes see the progress and may cancel. report_line: called with notes on the result; show_progress: with
    the progress; is_begun: as in `working_on`. Raises `UserError`, and `Cancelled` if the user cancels.
    """
    config = config_of_job(config)
    split = preflight.check_config(config)
    if most is not None and not split.classes.seen < most < len(split.training):
        raise UserError(
            "most", f"{most} is not a whole number from {split.classes.seen + 1} to {len(split.training) - 1}"
        )
    with working_on(config, class_count_path(config, root), is_begun, show_progress) as progress:
        counting = _expected_duration(len(split.training), split.classes.seen, most)
        features, labels, seen = _training_features(config, root, progress, counting)
        if caution := label_caution(int((labels >= 0).sum()), seen):
            report_line(caution)
        progress.report("count", 0.0, counting)

        def report_clustering(share: float, time_left: Span) -> None:
            progress.report("count", share, time_left)
            progress.check()

        count = count_classes(features, labels, seen, config.seed, most, report_clustering)
        write_class_count(class_count_path(config, root), count)
    return count


def _expected_duration(images: int, seen: int, most: int | None) -> Span:
    """Return the expected duration of the clustering, before anything is measured."""
    images = min(images, _ENOUGH)
    numbers = _first_numbers(seen + 1, max(seen + 1, min(most or _default_most(seen), images - 1)))
    seconds = images * sum(numbers) * _RESTARTS * _CLUSTERING_S / available_cores()
    return Span.about(seconds, costs.ROUGH, costs.load_per_core())


def label_caution(count: int, seen: int) -> str:
    """Return a caution if `count` labeled images of `seen` classes are too few to distinguish numbers; else "".

    With n labels the accuracy that decides has a standard error of up to 0.5 / sqrt(n): 5 % at 100.
    """
    if count >= max(_ENOUGH_LABELS, _LABELS_A_CLASS * seen):
        return ""
    error = f"{50 / math.sqrt(max(count, 1)):.0f} %"
    return (
        f"caution: with only {counted(count, 'label')} of {counted(seen, 'class')}, accuracies may be off by {error}, "
        "and the suggested number may be wrong too"
    )


def _training_features(
    config: Config, root: Path, progress: JobProgress, afterwards: Span
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return (features (n, d), class id of labeled and -1 of other images, seen classes) of the training images."""
    features, material = start_features(config, root, progress, "count", afterwards)
    split = material.split
    labels = np.full(len(material.truth), -1)
    labels[split.labeled] = material.truth[split.labeled]
    return features[split.training], labels[split.training], split.classes.seen
