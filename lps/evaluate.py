"""Evaluation: the network over all unlabeled images, in evaluation mode and without augmentation (transductive)."""

import numpy as np
import torch
from torch import Tensor, nn

from lps.batches import evaluation_batches
from lps.clustering import kmeans, knn_accuracy
from lps.config import Config
from lps.material import Material
from lps.methods import Method
from lps.metrics import matched_accuracy, open_world
from lps.network import Outputs
from lps.snapshots import Snapshot
from lps.split import Split
from lps.views import FAMILIES

SAMPLE = 2000  # images whose features a snapshot keeps
HALF = 65504  # the largest float16


@torch.inference_mode()
def infer_features(backbone: nn.Module, images: Tensor, config: Config) -> np.ndarray:
    """Backbone features (n, d) float32 of uint8 images (n, channels, height, width)."""
    plain = FAMILIES[config.views]["plain"]
    backbone.eval()
    parts = [backbone(plain(part).contiguous(memory_format=torch.channels_last)) for part in images.split(1024)]
    return torch.cat(parts).float().cpu().numpy()


@torch.inference_mode()
def infer(method: Method, images: Tensor, ids: np.ndarray, config: Config) -> Outputs:
    """Outputs of the network for the images `ids`, in their order, on the device."""
    plain = FAMILIES[config.views]["plain"]
    method.eval()
    parts = [method.network(plain(part)) for part in evaluation_batches(images, ids)]
    return Outputs(*(torch.cat(column).float() for column in zip(*parts)))


def evaluate(method: Method, material: Material, config: Config) -> tuple[dict, Snapshot]:
    """(measurements by event name, snapshot) on the unlabeled images."""
    split, truth = material.split, material.truth
    outputs = infer(method, material.images, split.unlabeled, config)
    ids, confidence = (part.cpu().numpy() for part in method.predict(outputs))
    values = open_world(ids, truth[split.unlabeled], split.classes)
    rows = sample_rows(truth[split.unlabeled], split.seed)
    sample = torch.from_numpy(rows).to(outputs.features.device)
    snapshot = Snapshot(
        predicted=ids.astype(np.int16),
        confidence=confidence.astype(np.float16),
        features=outputs.features[sample].clamp(-HALF, HALF).cpu().numpy().astype(np.float16),
        feature_index=split.unlabeled[rows].astype(np.int32),
    )
    return values, snapshot


def sample_rows(truth: np.ndarray, seed: int, size: int = SAMPLE) -> np.ndarray:
    """At most `size` rows, the same share of every class, always the same ones for a seed; ascending."""
    if len(truth) <= size:
        return np.arange(len(truth))
    shuffled = np.random.default_rng([seed, 3]).permutation(len(truth))
    by_class = shuffled[np.argsort(truth[shuffled], kind="stable")]
    return np.sort(by_class[np.linspace(0, len(truth) - 1, size).round().astype(int)])


def baseline(features: np.ndarray, truth: np.ndarray, split: Split, seed: int) -> dict[str, float]:
    """What the start features give without any training: k-means on the unlabeled images, and kNN over all."""
    unlabeled = truth[split.unlabeled]
    clusters = kmeans(features[split.unlabeled], split.classes.total, seed)
    values = open_world(clusters, unlabeled, split.classes)
    if not values:
        return {}
    seen = unlabeled < split.classes.seen
    return {
        "baseline/kmeans/all": values["accuracy/all"],
        "baseline/kmeans/novel": values["accuracy/novel"],
        "baseline/kmeans/seen": matched_accuracy(clusters[seen], unlabeled[seen], split.classes.total),
        "baseline/kmeans/nmi": values["nmi/all"],
        "baseline/knn/accuracy": knn_accuracy(features[truth >= 0], truth[truth >= 0]),
    }
