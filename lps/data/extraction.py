"""Compute features of pictures: a backbone processes every picture in a view, one piece of a store at a time.

On a CPU every thread processes its own small batch. Threads that share a batch wait for each other at each
layer, and outputs above 32 MB are allocated from the system anew each time, which takes as long as the arithmetic.
"""

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from lps.data import feature_store
from lps.data.batches import Pictures, seeded
from lps.data.training_data import digest_of_pictures
from lps.data.vectors import GivenVectors
from lps.data.views import views_of_pictures
from lps.errors import UserError
from lps.machine import memory
from lps.network import backbones, start_weights
from lps.network.network import channels_last
from lps.settings import backbone_names
from lps.settings.config import Config

NOISE = 12  # last part of the random key of stored views, beside `batches.TRAINING`
_STREAM = {"plain": 0, "weak": 1, "strong": 2}  # of random numbers, by kind
_AT_ONCE = 64  # images whose views are drawn in one batch
_ON_A_THREAD = 16  # of them per backbone batch on a CPU
_LARGEST = 65504.0  # largest float16
_OF_TRAINING = {  # network settings that do not change the features of the backbone
    *("network.start", "network.checkpoint"),  # the digest of the weights stands for these
    "network.continues",  # concerns the head that is trained on the features
    *("network.head", "network.cosine_scale", "network.freeze_until", "network.frozen_batchnorm"),
    "network.fused_views",
}
_TOLD = ("dataset", "network.name", "network.start", "network.checkpoint", "network.image_size", "views", "features.")


def backbone_at_start(config: Config, images: Pictures) -> nn.Module:
    """Return the backbone for stored features, with its start weights; raises `UserError` if they are not available.

    For vectors, return the scaling to a common size.
    """
    if isinstance(images, GivenVectors):
        return images.backbone()
    seed = int(seeded(torch.device("cpu"), config.features_seed, NOISE).initial_seed())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # for random initial weights
        backbone = backbones.build_backbone(config, images.shape[1])
    if config.network_start != "random":
        start_weights.load(config, backbone)
    return backbone


def prepare_for_inference(backbone: nn.Module, device: torch.device) -> nn.Module:
    """Prepare the backbone for evaluation, optimized for speed."""
    backbone.eval()
    if hasattr(backbone, "fold"):
        backbone.fold()
    return backbone.to(device, memory_format=torch.channels_last)


@torch.inference_mode()
def extract_float16(
    backbone: nn.Module,
    images: Pictures,
    kind: str,
    config: Config,
    noise: torch.Generator | None = None,
    report: Callable[[int], object] = lambda done: None,
) -> Tensor:
    """Return features (n, d) of images in one kind of view, float16 as a store holds them; raises `UserError`.

    backbone: from `prepare_for_inference`. report: called with the number of finished images after each batch.
    """
    view = views_of_pictures(config)[kind]
    ids = torch.arange(len(images), device=images.home).split(_AT_ONCE)
    features = _compute_features(backbone, [images.seen(chunk, [view], noise)[0] for chunk in ids], report)
    if not features.isfinite().all():
        raise UserError("features", f"{config.network_name} outputs values that are not finite; use other weights")
    return features.clamp_(-_LARGEST, _LARGEST).half()


class Extraction:
    """A backbone with its start weights, and the pictures whose features it computes."""

    def __init__(self, config: Config, images: Pictures):
        self._config, self._images = config, images
        self._backbone = backbone_at_start(config, images)
        flat = config.flat()
        network = {key: value for key, value in flat.items() if key.startswith("network.") and key not in _OF_TRAINING}
        self._about = network | {
            "pictures": digest_of_pictures(images),
            "shape": list(images.shape),
            "weights": _digest_of_weights(self._backbone),
            "prepared": str(backbone_names.preparation(config.network_name, config.network_image_size)),
            "views": config.views,
            "seed": config.features_seed,
        }
        if isinstance(images, GivenVectors):
            self._about |= {"noise": config.features_noise, "dropout": config.features_dropout}
        self.key = feature_store.store_key(config.dataset, self._about)

    def begin(self) -> tuple[int, dict[str, object], Callable[[str, int, int], bytes]]:
        """Return the feature width, facts for lists, and the compute function, for `feature_store.complete_store`."""
        prepare_for_inference(self._backbone, self._images.device)
        settings = {key: value for key, value in self._config.flat().items() if key.startswith(_TOLD)}
        return self._backbone.num_features, {"about": self._about, "settings": settings}, self.compute

    def compute(self, name: str, start: int, stop: int) -> bytes:
        """Compute the features of pictures `start` to `stop` in one view, as a store holds them."""
        kind, _, number = name.partition("-")
        key = (self._config.features_seed, _STREAM[kind], int(number or 0), start, NOISE)
        noise = seeded(self._images.device, *key)
        part = self._images.part(np.arange(start, stop)).beginning_at(kind, int(number or 0))
        return extract_float16(self._backbone, part, kind, self._config, noise).cpu().numpy().tobytes()


def _compute_features(backbone: nn.Module, parts: list[Tensor], report: Callable[[int], object]) -> Tensor:
    """Return features (n, d) float32 of batches of images, in order."""
    compute_batch = partial(_features_of_batch, backbone)
    if parts[0].device.type != "cpu":
        return _joined(map(compute_batch, parts), report)
    memory.keep_freed()
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return _joined(pool.map(compute_batch, torch.cat(parts).split(_ON_A_THREAD)), report)
    finally:
        torch.set_num_threads(threads)  # some libraries have one setting for all threads


def _joined(batches: Iterable[Tensor], report: Callable[[int], object]) -> Tensor:
    features, num_done = [], 0
    for batch in batches:
        features.append(batch)
        num_done += len(batch)
        report(num_done)
    return torch.cat(features)


@torch.inference_mode()  # threads do not inherit it
def _features_of_batch(backbone: nn.Module, images: Tensor) -> Tensor:
    return backbone(channels_last(images)).float()


def _digest_of_weights(backbone: nn.Module) -> str:
    checksum = hashlib.sha256()
    for name, value in backbone.state_dict().items():
        checksum.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        checksum.update(value.detach().cpu().contiguous().numpy().reshape(-1).view(np.uint8))
    return checksum.hexdigest()
