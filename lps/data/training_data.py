"""Training data on the training device: images, truth, split and batch plan."""

import hashlib
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lps import datasets
from lps.data import sources
from lps.data.batches import PIECE, BatchPlan, Pictures, plan_batches
from lps.data.confirmed_labels import Confirmed, add_confirmed
from lps.data.referenced_pictures import ReferencedPictures
from lps.data.split import Split, open_world_split
from lps.data.vectors import GivenVectors
from lps.datasets import Images
from lps.datasets.readers.picture_cache import digest_of
from lps.datasets.readers.picture_references import PictureReferences
from lps.errors import UserError
from lps.settings import backbone_names
from lps.settings.config import Config

_MIN_MAPPED_BYTES = 512 << 20  # bytes of pixels in a file from which CPU runs leave them there


@dataclass(frozen=True)
class TrainingData:
    """The data of a run. truth: int64 (n,), class ids, -1 unknown."""

    images: Pictures
    truth: np.ndarray
    split: Split
    plan: BatchPlan

    @cached_property
    def digest(self) -> str:
        """Return an identifier of every pixel and label and of the use of each image.

        For pictures in a file it begins with "files-" and uses the stored digest of pixels.
        """
        if getattr(self.images, "file", None) is None and not isinstance(self.images, ReferencedPictures):
            return self._digest(self.images.feed)
        return "files-" + self._digest(lambda digest: digest.update(digest_of_pictures(self.images).encode()))

    def has_digest(self, digest: object) -> bool:
        """Return whether `digest` identifies these data, in this format or the earlier one, which read every pixel."""
        return digest == self.digest or (self.digest.startswith("files-") and digest == self._digest(self.images.feed))

    def _digest(self, feed: Callable) -> str:
        checksum = hashlib.sha256(str(self.images.shape).encode())
        feed(checksum)
        for ids in (self.truth, self.split.labeled, self.split.unlabeled, self.split.test, self.split.validation):
            checksum.update(np.ascontiguousarray(ids, np.int64).tobytes() + b"|")
        return checksum.hexdigest()

    @property
    def training(self) -> tuple[Pictures, Tensor]:
        """Return (images, truth) of the labeled and unlabeled images; no pixel is copied."""
        truth = torch.from_numpy(self.truth)
        ids = self.split.training
        return (self.images, truth) if len(ids) == len(truth) else (self.images.part(ids), truth[ids])


def prepare(config: Config, confirmed: Confirmed | None = None) -> TrainingData:
    """Load the images, split them and move them to the config's device if they fit; raises `UserError`.

    confirmed: the labels that `split.confirmed` names, if this run trains on them.
    """
    device = resolve_device(config.device)
    images = sources.images_of(config)
    _check_kind(config, images)
    split = open_world_split(images.labels, images.class_names, config, images.num_test)
    truth = split.targets(images.labels)
    if confirmed is not None:
        split, truth = add_confirmed(split, images.labels, images.num_classes, confirmed)
    return TrainingData(pictures_on_device(images, device), truth, split, plan_batches(split, config.batch_size))


def _check_kind(config: Config, images: Images) -> None:
    """Raise `UserError` if the network is for pictures and the data are vectors, or the other way round."""
    is_given = config.network_name == backbone_names.GIVEN
    if is_given != (images.vectors is not None):
        mismatch = "pictures; choose a backbone" if is_given else f"vectors; choose {backbone_names.GIVEN}"
        raise UserError(
            "network.name", f"{config.network_name} does not fit data set {config.dataset}, which has {mismatch}"
        )


def pictures_on_device(images: Images, device: torch.device) -> Pictures:
    """Return the images of a run on `device`: copied there, or on the host if they are too large.

    Vectors stay on the host: they are read once, when features are stored.
    """
    if images.vectors is not None:
        return GivenVectors(_readable(images.vectors.values), device, about=images.vectors)
    if isinstance(images.pixels, PictureReferences):
        count, *sides, channels = images.pixels.shape
        sizes = None if images.sizes is None else torch.from_numpy(images.sizes)
        shape = torch.empty((count, channels, *sides), dtype=torch.uint8, device="meta")
        return ReferencedPictures(shape, device, sizes, stored=images.pixels)
    file = _file_of(images.pixels)
    limit = min(_MIN_MAPPED_BYTES, datasets.ON_DEVICE) if file and device.type == "cpu" else datasets.ON_DEVICE
    pixels = _on_device(images.pixels, device) if images.pixels.nbytes <= limit else _as_mapped_tensor(images.pixels)
    sizes = None if images.sizes is None else torch.from_numpy(images.sizes).to(pixels.device)
    return Pictures(pixels, device, sizes, file=file)


def digest_of_pictures(images: Pictures) -> str:
    """Return the sha256 of the bytes of `Pictures.feed`; for the pixels of a file it is cached beside the file.

    For pictures by reference it equals that of decoded pixels in a file.
    """
    if isinstance(images, ReferencedPictures) and images.rows is None and images.stored.rows is None:
        return images.stored.digest

    def compute() -> str:
        checksum = hashlib.sha256()
        images.feed(checksum)
        return checksum.hexdigest()

    return compute() if images.file is None or images.rows is not None else digest_of(images.file, compute)


def _file_of(pixels: np.ndarray) -> Path | None:
    """Return the file that holds these pixels and nothing else, if they are mapped from one."""
    name = getattr(pixels, "filename", None)
    return Path(name) if name and os.path.exists(name) and os.path.getsize(name) == pixels.nbytes else None


def _as_mapped_tensor(pixels: np.ndarray) -> Tensor:
    return _readable(pixels).permute(0, 3, 1, 2)


def _readable(values: np.ndarray) -> Tensor:
    """Return an array as a tensor that shares its memory or file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a read-only file is never written to
        return torch.from_numpy(values)


def _on_device(pixels: np.ndarray, device: torch.device) -> Tensor:
    """Copy uint8 (n, height, width, channels) there as (n, channels, height, width); piecewise, as it may be a file."""
    n, height, width, channels = pixels.shape
    images = torch.empty((n, channels, height, width), dtype=torch.uint8, device=device)
    for start in range(0, n, PIECE):
        piece = pixels[start : start + PIECE].transpose(0, 3, 1, 2)
        images[start : start + PIECE] = torch.from_numpy(np.array(piece, order="C"))
    return images


def resolve_device(name: str) -> torch.device:
    """Return the torch device of a config's `device`, a GPU with its index; raises `UserError` for a missing GPU.

    Without the index, a GPU does not equal the device of the tensors on it: `cuda` and `cuda:0` differ.
    """
    count = torch.cuda.device_count()
    if name == "cpu" or (name == "auto" and not count):
        return torch.device("cpu")
    index = None if name == "auto" else torch.device(name).index
    if (index or 0) >= count:
        devices = ", ".join(f"cuda:{i}" for i in range(count)) or "none"
        raise UserError("device", f"{name} is not available; GPUs that PyTorch can use: {devices}; cpu always works")
    return torch.device("cuda", torch.cuda.current_device() if index is None else index)
