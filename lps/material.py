"""What a run trains on, on the device it trains on: images, truth, split and batch plan."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from lps import datasets
from lps.batches import BatchPlan, plan_batches
from lps.config import Config
from lps.parameters import ConfigError
from lps.split import Split, open_world_split

PIECE = 4096  # images that are copied to the device at a time


@dataclass(frozen=True)
class Material:
    """images: uint8 (n, channels, height, width) on the device; truth: int64 (n,), class ids, -1 unknown."""

    images: Tensor
    truth: np.ndarray
    split: Split
    plan: BatchPlan

    @cached_property
    def digest(self) -> str:
        """A name for every pixel and label, and for which of them are used how; other data have another name."""
        found = hashlib.sha256(str(tuple(self.images.shape)).encode())
        for start in range(0, len(self.images), PIECE):
            found.update(self.images[start : start + PIECE].cpu().contiguous().numpy())
        for ids in (self.truth, self.split.labeled, self.split.unlabeled, self.split.test, self.split.validation):
            found.update(np.ascontiguousarray(ids, np.int64).tobytes() + b"|")
        return found.hexdigest()

    @property
    def training(self) -> tuple[Tensor, Tensor]:
        """(images, truth) without the test images."""
        if len(self.split.test) == 0:
            return self.images, torch.from_numpy(self.truth)
        ids = torch.from_numpy(self.split.training)
        return self.images[ids.to(self.images.device)], torch.from_numpy(self.truth)[ids]


def prepare(config: Config) -> Material:
    """Load the images, split them and put them on the config's device; raises `ConfigError`."""
    device = resolve_device(config.device)
    images = datasets.of(config)
    split = open_world_split(images.labels, images.class_names, config, images.num_test)
    pixels = _on_device(images.pixels, device)
    return Material(pixels, split.targets(images.labels), split, plan_batches(split, config.batch_size))


def _on_device(pixels: np.ndarray, device: torch.device) -> Tensor:
    """uint8 (n, height, width, channels) as (n, channels, height, width) there; piecewise, since it may be a file."""
    n, height, width, channels = pixels.shape
    images = torch.empty((n, channels, height, width), dtype=torch.uint8, device=device)
    for start in range(0, n, PIECE):
        piece = pixels[start : start + PIECE].transpose(0, 3, 1, 2)
        images[start : start + PIECE] = torch.from_numpy(np.array(piece, order="C"))
    return images


def resolve_device(name: str) -> torch.device:
    """The torch device of a config's `device`; raises `ConfigError` for a GPU that is not there."""
    count = torch.cuda.device_count()
    if name == "auto":
        return torch.device("cuda" if count else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= count:
        found = ", ".join(f"cuda:{i}" for i in range(count)) or "none"
        raise ConfigError("device", f"{name} is not here; GPUs that PyTorch can use: {found}; cpu always works")
    return device
