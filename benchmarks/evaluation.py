"""Time an evaluation (a pass over the unlabeled images and its metrics), ours and in the original's structure."""

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import normalized_mutual_info_score
from torch.utils.data import DataLoader, Subset

from benchmarks import pil_views
from benchmarks.cases import Case
from benchmarks.clocks import best_of, clock_of
from benchmarks.reference import Pictures, Reference
from lps.data.classes import Classes
from lps.scores.protocols import open_world
from lps.training.evaluate import evaluate

METRIC_IMAGES = 37_500  # unlabeled images of CIFAR with half of the labels


def measure_pass(case: Case, rounds: int, workers: int = 1) -> dict[str, float]:
    """Microseconds per unlabeled image of the whole pass: network, metrics and what a snapshot keeps."""
    reference = Reference(case)
    actions = {
        "ours": lambda: evaluate(case.method, case.material, case.config),
        "reference": lambda: reference_pass(reference, workers),
    }
    return _per_image(best_of(rounds, actions, case.device), len(case.material.split.unlabeled), clock_of(case.device))


def measure_metrics(classes: int, rounds: int, count: int = METRIC_IMAGES) -> dict[str, float]:
    """Microseconds per image of the metrics alone, from class probabilities that are there already."""
    draw = np.random.default_rng(0)
    truth = draw.integers(0, classes, count)
    guessed = np.where(draw.random(count) < 0.7, truth, draw.integers(0, classes, count))
    probabilities = np.full((count, classes), 0.1 / classes, np.float32)
    probabilities[np.arange(count), guessed] += 0.9
    parts = np.array_split(np.arange(count), -(-count // 512))
    actions = {
        "ours": lambda: open_world(guessed, truth, Classes(classes // 2, classes)),
        "reference": lambda: reference_metrics([(probabilities[part], truth[part]) for part in parts], classes // 2),
    }
    host = torch.device("cpu")
    return _per_image(best_of(rounds, actions, host), count, "processor")


def _per_image(costs: dict, count: int, clock: str) -> dict[str, float]:
    result = {name: 1e6 * cost.by(clock) / count for name, cost in costs.items()}
    return result | {"ratio": result["reference"] / result["ours"]}


@torch.no_grad()
def reference_pass(reference: Reference, workers: int = 1) -> dict[str, float]:
    """Pictures through PIL one by one, batches of 512, and the metrics of `reference_metrics`."""
    case, method = reference.case, reference.method
    truth, split = case.material.truth, case.material.split
    pictures = Pictures(case.material.images.pixels, [pil_views.FAMILIES[case.config.views]["plain"]])
    method.eval()
    parts = []
    for images, ids in DataLoader(Subset(pictures, split.unlabeled.tolist()), batch_size=512, num_workers=workers):
        logits = method.network(images.to(case.device)).logits
        parts.append((torch.softmax(logits, dim=1).cpu().numpy(), truth[ids.numpy()]))
    return reference_metrics(parts, split.classes.seen)


def reference_metrics(parts: list[tuple[np.ndarray, np.ndarray]], seen: int) -> dict[str, float]:
    """Seen, novel and overall accuracy and NMI, counted image by image.

    parts: per batch (probabilities (n, classes), truth (n,)); they are appended to what was collected before.
    """
    predicted, truth, collected = np.array([]), np.array([]), np.zeros((0, parts[0][0].shape[1]))
    for probabilities, targets in parts:
        predicted = np.append(predicted, probabilities.argmax(1))
        truth = np.append(truth, targets)
        collected = np.append(collected, probabilities, axis=0)
    predicted, truth = predicted.astype(int), truth.astype(int)
    is_seen = np.array([label < seen for label in truth])
    return {
        "accuracy/all": matched_one_by_one(predicted, truth),
        "accuracy/seen": float((predicted[is_seen] == truth[is_seen]).mean()),
        "accuracy/novel": matched_one_by_one(predicted[~is_seen], truth[~is_seen]),
        "nmi/all": normalized_mutual_info_score(truth, predicted),
        "nmi/novel": normalized_mutual_info_score(truth[~is_seen], predicted[~is_seen]),
    }


def matched_one_by_one(predicted: np.ndarray, truth: np.ndarray) -> float:
    """Accuracy after the best one-to-one map of ids; the table is filled by a loop over images."""
    size = max(predicted.max(), truth.max()) + 1
    counts = np.zeros((size, size), dtype=np.int64)
    for guess, label in zip(predicted, truth):
        counts[guess, label] += 1
    rows, columns = linear_sum_assignment(counts.max() - counts)
    return sum(counts[row, column] for row, column in zip(rows, columns)) / len(truth)
