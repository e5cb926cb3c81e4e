"""Provide pictures by reference as training data: worker processes read and decode the pictures of the next steps."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from lps.data.batches import Pictures
from lps.datasets.readers.picture_references import PictureReferences
from lps.errors import UserError
from lps.machine.devices import available_cores
from lps.machine.processes import die_with_parent

_MAX_WORKERS = 16
_AHEAD = 2  # batches that each worker prepares
_SHARED = "/dev/shm"  # where workers put batches for the training process
_SHARE = 0.5  # usable share of its free space


@dataclass
class DecodingRate:
    """Work of the worker processes since the last query: pictures, and the seconds of worker time that they took."""

    workers: int = 0
    pictures: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class ReferencedPictures(Pictures):
    """Pictures that stay in their files. pixels: on the device "meta", which has a shape and no memory.

    stored: the references. upcoming: batches from the workers, in the announced order; None if none were
    announced.
    """

    stored: PictureReferences | None = None
    upcoming: Iterator[Tensor] | None = None
    reading: DecodingRate = field(default_factory=DecodingRate)

    @property
    def home(self) -> torch.device:
        return torch.device("cpu")

    def expecting(self, parts: Sequence[Tensor]) -> "ReferencedPictures":
        workers = _workers(parts, self.pixels.shape[1:].numel())
        if not workers:
            return self
        return replace(self, upcoming=self._from_workers(parts, workers))

    def taken(self, ids: Tensor) -> Tensor:
        batch = self._read(self._file_rows(ids).numpy()) if self.upcoming is None else next(self.upcoming)
        if self.device.type == "cuda":
            batch = batch.pin_memory()
        return batch.to(self.device, non_blocking=True).permute(0, 3, 1, 2).contiguous()

    def feed(self, digest) -> None:
        """Feed the stored digest of all decoded pictures and the selected rows; reads no picture."""
        digest.update(self.stored.digest.encode())
        for rows in (self.stored.rows, None if self.rows is None else self.rows.numpy()):
            digest.update(b"|" if rows is None else np.ascontiguousarray(rows, np.int64))

    def _file_rows(self, ids: Tensor) -> Tensor:
        return ids if self.rows is None else self.rows[ids]

    def _read(self, rows: np.ndarray) -> Tensor:
        """Read uint8 (b, height, width, channels), with threads of this process."""
        with ThreadPoolExecutor(available_cores()) as pool:
            parts = np.array_split(rows, min(len(rows), available_cores()))
            return torch.from_numpy(np.concatenate(list(pool.map(self.stored.__getitem__, parts))))

    def _from_workers(self, parts: Sequence[Tensor], workers: int) -> Iterator[Tensor]:
        """Yield a batch for each of `parts`, in order; raises `UserError` if a picture is gone."""
        self.reading.workers = workers
        loader = DataLoader(
            _Batches(self.stored),
            batch_size=None,
            sampler=[self._file_rows(ids).numpy() for ids in parts],
            num_workers=workers,
            prefetch_factor=_AHEAD,
            worker_init_fn=_Begin(),
            multiprocessing_context="fork" if sys.platform == "linux" else None,
        )
        for batch, seconds in loader:
            if isinstance(batch, str):
                raise UserError("dataset.path", batch)
            self.reading.pictures += len(batch)
            self.reading.seconds += seconds
            yield batch


def rate_of_workers(images: object) -> dict[str, float]:
    """Return `throughput/decoded_per_s`, the worker capacity in pictures per second since the last query.

    {} if no worker was active.
    """
    reading = getattr(images, "reading", None)
    if reading is None or not reading.seconds:
        return {}
    rate = reading.workers * reading.pictures / reading.seconds
    reading.pictures, reading.seconds = 0, 0.0
    return {"throughput/decoded_per_s": rate}


class _Batches(Dataset):
    """Worker task: return the pictures of some rows and the time taken, or the reason for a failure."""

    def __init__(self, stored: PictureReferences):
        self._stored = stored

    def __getitem__(self, rows: np.ndarray) -> tuple[Tensor | str, float]:
        start = time.perf_counter()
        try:
            batch = torch.from_numpy(self._stored[rows])
        except UserError as error:  # its two arguments prevent a worker from raising it
            return str(error).partition(": ")[2], 0.0
        return batch, time.perf_counter() - start


class _Begin:
    """Worker start: make the worker end with the training process in every case."""

    def __init__(self):
        self._ask = die_with_parent()

    def __call__(self, number: int) -> None:
        if self._ask is not None:
            self._ask()


def _workers(parts: Sequence[Tensor], picture: int) -> int:
    """Return the number of worker processes; 0 if shared memory has no room for their batches.

    picture: bytes of one picture.
    """
    batch = max((len(ids) for ids in parts), default=0) * picture
    num_workers = min(_MAX_WORKERS, available_cores(), len(parts))
    try:
        shared_memory = os.statvfs(_SHARED)
    except OSError:  # this system has no such folder
        return num_workers
    return min(
        num_workers, int(_SHARE * shared_memory.f_bavail * shared_memory.f_frsize) // max(1, (_AHEAD + 1) * batch)
    )
