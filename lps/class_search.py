"""Search for the number of classes: cluster the start features with every number, and see what the labels say.

Semi-supervised category discovery (S. Vaze et al.: Generalized Category Discovery, CVPR 2022, section 3.3) takes the
number whose k-means clusters agree best with the labeled images. That accuracy is flat while too few clusters make
novel classes share one, and falls once seen classes are torn apart. So the largest number is chosen whose accuracy is
within one standard error of the best; the published search takes the best itself, which chance picks on the plateau.
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.metrics import silhouette_score

from lps import checkpoints, preflight, starts
from lps.class_count import ClassCount, path_of, searched, write
from lps.clustering import kmeans, unit
from lps.config import Config
from lps.evaluate import infer_features
from lps.material import prepare
from lps.metrics import matched_accuracy
from lps.parameters import ConfigError
from lps.pretrain import pretrain_alone
from lps.train import build

ENOUGH = 10_000  # images that are clustered
FEW = 48  # numbers that are all tried; of more, some, and then more around the best
ENOUGH_LABELS, LABELS_A_CLASS = 100, 10  # labeled images; with fewer there is a caution
COMPARED = 2_000  # images for the silhouette


def count_classes(
    features: np.ndarray,
    labels: np.ndarray,
    seen: int,
    seed: int,
    most: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> ClassCount:
    """features: float32 (n, d); labels: int64 (n,), class ids below `seen`, -1 for every image without a label.

    most: the largest total that is tried; None: five times the seen classes, and 20 more than these at least.
    """
    rows = _sample(labels, seed)
    points, labels = unit(features[rows]), labels[rows]
    known = labels >= 0
    most = min(most or max(seen + 20, 5 * seen), len(points) - 1)
    found: dict[int, tuple[float, float]] = {}

    def score(total: int) -> None:
        if total in found:
            return
        clusters = kmeans(points, total, seed, restarts=10 if len(points) <= COMPARED else 3)
        accuracy = matched_accuracy(clusters[known], labels[known], max(total, seen))
        found[total] = accuracy, _silhouette(points, clusters, seed)
        say(f"{total} classes: accuracy on labels {accuracy:.3f}, silhouette {found[total][1]:.3f}")

    lowest = seen + 1
    every = range(lowest, most + 1)
    for total in every if len(every) <= FEW else np.geomspace(lowest, most, FEW // 2).round().astype(int).tolist():
        score(total)
    while True:
        total = _chosen(found, known.sum())
        gaps = _between(sorted(found), total)
        if not gaps:
            break
        for number in gaps:
            score(number)
    numbers = tuple(sorted(found))
    accuracy, silhouette = (tuple(float(found[n][part]) for n in numbers) for part in (0, 1))
    return ClassCount(numbers, accuracy, silhouette, _tolerance(max(accuracy), known.sum()), int(total), seen)


def _sample(labels: np.ndarray, seed: int) -> np.ndarray:
    """Rows of at most `ENOUGH` images, ascending; labeled and unlabeled ones in their proportion."""
    if len(labels) <= ENOUGH:
        return np.arange(len(labels))
    return np.sort(np.random.default_rng([seed, 1]).permutation(len(labels))[:ENOUGH])


def _silhouette(points: np.ndarray, clusters: np.ndarray, seed: int) -> float:
    if len(np.unique(clusters)) < 2:
        return math.nan
    return float(silhouette_score(points, clusters, sample_size=min(COMPARED, len(points)), random_state=seed))


def _tolerance(best: float, count: int) -> float:
    """Standard error of an accuracy measured on `count` images."""
    return math.sqrt(max(best * (1 - best), 0) / max(int(count), 1))


def _chosen(found: dict[int, tuple[float, float]], count: int) -> int:
    best = max(accuracy for accuracy, _ in found.values())
    return max(n for n, (accuracy, _) in found.items() if accuracy >= best - _tolerance(best, count))


def _between(numbers: list[int], chosen: int) -> list[int]:
    """Untried numbers half-way to both neighbours of `chosen`, where these are further off than 2 %."""
    place = numbers.index(chosen)
    near = max(1, chosen // 50)
    sides = numbers[max(0, place - 1) : place] + numbers[place + 1 : place + 2]
    far = [side for side in sides if abs(side - chosen) > near]
    return [(chosen + side) // 2 if side > chosen else -(-(chosen + side) // 2) for side in far]


def search(config: Config, root: Path, most: int | None, say: Callable[[str], None]) -> ClassCount:
    """Count the classes in the features that a run of `config` starts from, and store the result for pages.

    Raises `ConfigError`.
    """
    split = preflight.check(searched(config))
    if most is not None and not split.classes.seen < most < len(split.training):
        raise ConfigError(
            "most", f"{most} is not a whole number from {split.classes.seen + 1} to {len(split.training) - 1}"
        )
    features, labels, seen = start_features(searched(config), root, say)
    if caution := few_labels(int((labels >= 0).sum()), seen):
        say(caution)
    count = count_classes(features, labels, seen, config.seed, most, say)
    write(path_of(config, root), count)
    return count


def few_labels(count: int, seen: int) -> str:
    """A caution where `count` labeled images of `seen` classes are too few to tell numbers apart; "" else.

    With n labels the accuracy that decides has a standard error of up to 0.5 / sqrt(n): 5 % at 100.
    """
    if count >= max(ENOUGH_LABELS, LABELS_A_CLASS * seen):
        return ""
    error = f"{50 / math.sqrt(max(count, 1)):.0f} %"
    return f"caution: {count} labels of {seen} classes are few; accuracies may be {error} off, and so may be the number"


def start_features(config: Config, root: Path, say: Callable[[str], None]) -> tuple[np.ndarray, np.ndarray, int]:
    """(features (n, d), class id of every labeled image and -1 of the others, seen classes) of the training images."""
    material = prepare(config)
    method, _ = build(config, material)
    backbone, split = method.network.backbone, material.split
    if config.network_start in ("checkpoint", "torchvision"):
        say(starts.load(config, backbone))
    elif config.network_start == "simclr" and config.pretrain_epochs:
        path = pretrain_alone(config, Path(root) / ".pretrained", say)
        backbone.load_state_dict(checkpoints.load(path.parent, path.stem)["backbone"])
    features = infer_features(backbone, material.training[0], config)
    labels = np.full(len(material.truth), -1)
    labels[split.labeled] = material.truth[split.labeled]
    return features, labels[split.training], split.classes.seen
