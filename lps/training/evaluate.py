"""Evaluation: the network over all unlabeled images, in evaluation mode and without augmentation (transductive)."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from lps.data.batches import PIECE, Pictures
from lps.data.class_shares import class_sizes, true_shares
from lps.data.split import Split
from lps.data.training_data import TrainingData
from lps.data.views import views_of
from lps.methods import Inference, Method
from lps.methods.parts.clustering import kmeans, knn_accuracy
from lps.network import parallel
from lps.network.network import Network, Outputs, channels_last
from lps.scores.metrics import agreement, prior_error
from lps.scores.protocols import open_world
from lps.settings import backbone_names
from lps.settings.config import Config
from lps.store.snapshots import Snapshot

_PIXELS = 64 * 224 * 224  # pixels of a batch of prepared pictures; EfficientNet-Lite0 takes 0.9 GB for them
_HALF = 65504  # the largest float16
_MAX_JUDGED = 100_000  # images that measure the quality of the start features by neighbours and clusters


def _piece(config: Config, images: Pictures) -> int:
    """Return the batch size for inference: smaller if pictures are large, or enlarged by a view or for a backbone."""
    if config.features == "stored":
        return PIECE
    preparation = backbone_names.preparation(config.network_name, config.network_image_size)
    side = preparation.size if preparation else 224 if config.views in ("imagenet", "gcd") else max(images.shape[2:])
    return min(PIECE, max(1, _PIXELS // side**2))


@torch.inference_mode()
def infer_features(backbone: nn.Module, images: Pictures, config: Config) -> np.ndarray:
    """Return backbone features (n, d) float32 of the images."""
    plain_view = views_of(config)["plain"]
    backbone.eval()
    parts = ((backbone(channels_last(part)),) for part in images.all_seen(plain_view, _piece(config, images)))
    return _joined(parts, len(images))[0].cpu().numpy()


@torch.inference_mode()
def infer(network: Network, images: Pictures, ids: np.ndarray, config: Config) -> Outputs:
    """Return outputs of the network for the images `ids`, in order, float32 on the device; divided among the ranks."""
    plain_view = views_of(config)["plain"]
    network.eval()
    own_images = images.part(parallel.own_rows(ids))
    columns = _joined(
        (network(part) for part in own_images.all_seen(plain_view, _piece(config, own_images))), len(own_images)
    )
    return Outputs(*(parallel.gather(column, len(ids)) for column in columns))


def _joined(parts: Iterable[Sequence[Tensor]], count: int) -> list[Tensor]:
    """Join each column of the parts to one float32 tensor of `count` rows; joined parts are released."""
    columns: list[Tensor] = []
    num_done = 0
    for part in parts:
        columns = columns or [column.new_empty((count, *column.shape[1:]), dtype=torch.float32) for column in part]
        for column, values in zip(columns, part):
            column[num_done : num_done + len(values)] = values
        num_done += len(part[0])
    return columns


def build_inference(method: Method, material: TrainingData, config: Config) -> Inference:
    """Return a method's input between epochs: all training images, and the targets of only the labeled ones."""
    network, images, split = method.evaluated_network, material.images, material.split
    return Inference(
        infer_labeled=lambda: infer(network, images, split.labeled, config),
        infer_unlabeled=lambda: infer(network, images, split.unlabeled, config),
        targets=torch.from_numpy(material.truth[split.labeled]).to(images.device),
        seed=config.seed,
    )


def inference_on_test(
    method: Method, material: TrainingData, config: Config, training: Inference, fitted: dict[str, Tensor]
) -> Inference:
    """Return the same as `build_inference`, with the test images as the unlabeled ones: the method only predicts them.

    fitted: `Prediction.fitted` of the training images; ignored if the method fits the test images themselves.
    """
    network, images = method.evaluated_network, material.images
    return Inference(
        infer_labeled=lambda: training.labeled,
        infer_unlabeled=lambda: infer(network, images, material.split.test, config),
        targets=training.targets,
        seed=training.seed,
        fitted=fitted if method.test_clusters == "training" else {},
    )


def evaluate(method: Method, material: TrainingData, config: Config) -> tuple[dict, Snapshot]:
    """Return (measurements by event name, snapshot) on the unlabeled images, and on any test images."""
    split, truth = material.split, material.truth
    seen_by = build_inference(method, material, config)
    with torch.inference_mode():
        prediction = method.predict(seen_by)
    ids, confidence = prediction.ids.cpu().numpy(), prediction.confidence.cpu().numpy()
    scoring = {"seen_is_aligned": method.seen_is_aligned, "sizes": class_sizes(split, truth)}
    values = open_world(ids, split.judged(truth), split.classes, **scoring)
    values |= _prior_error(method, split, truth, ids)
    if len(split.validation):
        withheld_ids, withheld = ids[split.validation_rows], truth[split.validation]
        values["accuracy/validation"] = agreement(withheld_ids, withheld, seen_is_aligned=method.seen_is_aligned)
    tested = _predict_test(method, material, config, seen_by, prediction.fitted)
    scores = open_world(tested, truth[split.test], split.classes, **scoring)
    values |= {f"test/{name}": scores[name] for name in scores if name.startswith(("accuracy/", "nmi/"))}
    rows = sample_rows(truth[split.unlabeled], split.seed, config.snapshot_images)
    features = seen_by.unlabeled.features
    sample = features[torch.from_numpy(rows).to(features.device)].clamp(-_HALF, _HALF)
    snapshot = Snapshot(
        predicted=ids.astype(np.int16),
        confidence=confidence.astype(np.float16),
        features=sample.cpu().numpy().astype(np.float16),
        feature_index=split.unlabeled[rows].astype(np.int32),
        test_predicted=tested.astype(np.int16),
    )
    return values | prediction.measurements, snapshot


def _prior_error(method: Method, split: Split, truth: np.ndarray, ids: np.ndarray) -> dict[str, float]:
    """Return the distance of a method's prior from the true shares; empty without a prior or without known truth."""
    shares = true_shares(split, truth)
    if shares is None or not method.uses_prior:
        return {}
    class_prior = method.class_prior
    prior = np.full(len(shares), 1 / len(shares)) if class_prior is None else class_prior.cpu().numpy()
    return {"prior/error": prior_error(prior, shares, ids, truth[split.unlabeled], split.classes.seen)}


def _predict_test(
    method: Method, material: TrainingData, config: Config, training: Inference, fitted: dict[str, Tensor]
) -> np.ndarray:
    """Return the class id of every test image; empty without test images."""
    if len(material.split.test) == 0:
        return np.zeros(0, np.int64)
    with torch.inference_mode():
        prediction = method.predict(inference_on_test(method, material, config, training, fitted))
    return prediction.ids.cpu().numpy()


def sample_rows(truth: np.ndarray, seed: int, size: int | None) -> np.ndarray:
    """Return at most `size` rows (None: all), stratified by class, fixed by the seed; ascending."""
    if size is None or len(truth) <= size:
        return np.arange(len(truth))
    shuffled = np.random.default_rng([seed, 3]).permutation(len(truth))
    by_class = shuffled[np.argsort(truth[shuffled], kind="stable")]
    return np.sort(by_class[np.linspace(0, len(truth) - 1, size).round().astype(int)])


def start_quality(backbone: nn.Module, material: TrainingData, config: Config) -> dict[str, float]:
    """Return the `baseline` of a run; above `_MAX_JUDGED` images, from a sample stratified by class."""
    images, truth, split = material.images, material.truth, material.split
    if (split.judged(truth) < 0).all():
        return {}
    if len(truth) > _MAX_JUDGED:
        sample = sample_rows(truth, split.seed, _MAX_JUDGED)
        images, truth, split = images.part(sample), truth[sample], split.part(sample)
    return baseline(infer_features(backbone, images, config), truth, split, config.seed)


def baseline(features: np.ndarray, truth: np.ndarray, split: Split, seed: int) -> dict[str, float]:
    """Return the quality of the start features before training: k-means on the unlabeled images, and kNN over all.

    Empty if there is no known truth to compare the clusters with.
    """
    unlabeled = split.judged(truth)
    if (unlabeled < 0).all():
        return {}
    clusters = kmeans(features[split.unlabeled], split.classes.total, seed)
    values = open_world(clusters, unlabeled, split.classes, seen_is_aligned=False)
    training = split.training
    known_truth = training[truth[training] >= 0]
    names = {"all": "accuracy/all", "novel": "accuracy/novel", "seen": "accuracy/seen", "nmi": "nmi/all"}
    quality = {f"baseline/kmeans/{group}": values[name] for group, name in names.items()}
    return quality | {"baseline/knn/accuracy": knn_accuracy(features[known_truth], truth[known_truth])}
