"""Batches: where a run's images are stored, and which of them a step sees in which views.

The order follows from (seed, epoch), noise from (seed, epoch, step). So a run resumes at any step without a stored
generator. A `Batch` carries no targets of unlabeled images, which rules out label leakage.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:  # only for types: batches do not depend on how splits and settings are made
    from lps.data.split import Split
    from lps.settings.config import Config

PIECE = 1024  # images per step when all of them are processed
Lap = Callable[[str], None]  # receives the stage of a step that has just ended


def no_lap(stage: str) -> None:
    """Do nothing; the default if stages are not timed."""


class _Streams(NamedTuple):
    """Last parts of the keys of random numbers under one seed, see `seeded`."""

    weights: int
    order: int
    noise: int


# Runs and pretraining share no order, noise or initial weights.
PRETRAINING, TRAINING = _Streams(0, 1, 2), _Streams(9, 10, 11)


@dataclass(frozen=True)
class Pictures:
    """uint8 images (n, channels, height, width) in any memory; those that are selected are copied to `device`.

    pixels: on the device, or on the host if they do not fit; there they may be a memory-mapped file in any
    layout. sizes: int64 (n, 2), height and width of images that were squeezed into squares, on the same device; None
    if they were not. rows: int64, the selected images in this order, on the same device; None: all. file: the file that
    holds all the pixels and nothing else; None if there is none.
    """

    pixels: Tensor
    device: torch.device
    sizes: Tensor | None = None
    rows: Tensor | None = None
    file: Path | None = None

    def __len__(self) -> int:
        return len(self.pixels if self.rows is None else self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self.pixels.shape[1:])

    @property
    def home(self) -> torch.device:
        """The device on which ids select images without waiting."""
        return self.pixels.device

    def part(self, ids: np.ndarray) -> "Pictures":
        """Return the images of these ids alone; no pixel is copied."""
        ids = torch.from_numpy(ids).to(self.home)
        return replace(self, rows=ids if self.rows is None else self.rows[ids])

    def beginning_at(self, kind: str, number: int) -> "Pictures":
        """Return the source of view `number` of a kind: the same picture for all."""
        return self

    def expecting(self, parts: Sequence[Tensor]) -> "Pictures":
        """Return the same images, prepared for a reader of exactly these ids, one part after the other.

        Pictures in files are read ahead.
        """
        return self

    def taken(self, ids: Tensor) -> Tensor:
        """Return the images of these ids (int64, on `home`) on the device, contiguous in memory."""
        ids = ids if self.rows is None else self.rows[ids]
        if self.home == self.device and self.pixels.is_contiguous():
            return self.pixels[ids]
        stored = self.pixels.permute(0, 2, 3, 1)  # file layout: each image is contiguous, so the copy is fast
        is_pinned = self.device.type == "cuda"  # lets the copy run while the host goes on
        batch = torch.empty((len(ids), *stored.shape[1:]), dtype=torch.uint8, pin_memory=is_pinned)
        torch.index_select(stored, 0, ids, out=batch)
        return batch.to(self.device, non_blocking=True).permute(0, 3, 1, 2).contiguous()

    def seen(
        self, ids: Tensor, views: Sequence[Callable], noise: torch.Generator | None = None, lap: Lap = no_lap
    ) -> list[Tensor]:
        """Return the images of these ids in each of the views, which draw from `noise` one after the other."""
        batch = self.taken(ids)
        lap("read")
        if self.sizes is None:
            return [view(batch, noise) for view in views]
        sizes = self.sizes[ids if self.rows is None else self.rows[ids]].to(self.device, non_blocking=True)
        return [view(batch, noise, sizes) for view in views]

    def all_seen(self, view: Callable, piece: int = PIECE) -> Iterator[Tensor]:
        """Yield all images in order in one deterministic view, `piece` of them at a time."""
        parts = self._ids(piece)
        images = self.expecting(parts)
        for ids in parts:
            yield images.seen(ids, [view])[0]

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield all images in order as arrays (m, channels, height, width) on the host."""
        at_home = replace(self, device=self.home)
        for ids in self._ids():
            yield at_home.taken(ids).cpu().numpy()

    def feed(self, digest) -> None:
        """Feed every pixel in order into a digest of `hashlib`, then the sizes if there are any."""
        for piece in self.pieces():
            digest.update(piece)
        if self.sizes is not None:
            digest.update((self.sizes if self.rows is None else self.sizes[self.rows]).cpu().numpy())

    def _ids(self, piece: int = PIECE) -> Sequence[Tensor]:
        return torch.arange(len(self), device=self.home).split(piece)


@dataclass(frozen=True)
class Batch:
    """One step: per view, float images of the labeled rows (b_l, ...) and of the unlabeled rows (b_u, ...)."""

    labeled_views: tuple[Tensor, ...]
    targets: Tensor  # int64 (b_l,), class ids below `seen`
    unlabeled_views: tuple[Tensor, ...]
    unlabeled_positions: Tensor  # int64 (b_u,), rows of `split.unlabeled`

    def views(self) -> list[Tensor]:
        """Return per view all rows, labeled ones first: (b_l + b_u, channels, height, width)."""
        return [torch.cat(pair) for pair in zip(self.labeled_views, self.unlabeled_views)]


@dataclass(frozen=True)
class BatchPlan:
    """Rows of a step, steps of an epoch: the batch is divided by set size, an epoch is one pass over labeled images."""

    labeled: int
    unlabeled: int
    steps: int


def plan_batches(split: "Split", batch_size: int) -> BatchPlan:
    """Return floor(batch_size * n_l / n) labeled rows, at least one and at most n_l; the rest are unlabeled."""
    n_labeled, n_unlabeled = len(split.labeled), len(split.unlabeled)
    labeled = batch_size * n_labeled // (n_labeled + n_unlabeled)
    labeled = min(max(1, labeled), n_labeled, batch_size - 1)
    return BatchPlan(labeled, batch_size - labeled, n_labeled // labeled)


def seeded(device: torch.device, *key: int) -> torch.Generator:
    """Return a generator on `device` seeded by a function of the integers in `key`."""
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
    return torch.Generator(device).manual_seed(int(state) & (2**63 - 1))


def training_batches(
    images: Pictures,
    targets: Tensor,
    split: "Split",
    views: tuple,
    plan: BatchPlan,
    config: "Config",
    epoch: int,
    first_step: int = 0,
    lap: Lap = no_lap,
) -> Iterator[Batch]:
    """Yield the batches of one epoch from `first_step` on.

    targets: int64 (labeled,) on the training device in the order of `split.labeled`; views: one function per view of
    the method. lap: receives the stages `read` and `views`.
    """
    device, home = images.device, images.home
    order = seeded(torch.device("cpu"), config.seed, epoch, TRAINING.order)
    labeled_order = torch.randperm(len(split.labeled), generator=order)
    unlabeled_order = _endless(len(split.unlabeled), plan.steps * plan.unlabeled, order)
    labeled_ids = torch.from_numpy(split.labeled)[labeled_order].to(home)
    unlabeled_ids = torch.from_numpy(split.unlabeled)[unlabeled_order].to(home)
    labeled_order, unlabeled_order = labeled_order.to(device), unlabeled_order.to(device)
    steps = range(first_step, plan.steps)
    labeled_parts = [slice(step * plan.labeled, (step + 1) * plan.labeled) for step in steps]
    unlabeled_parts = [slice(step * plan.unlabeled, (step + 1) * plan.unlabeled) for step in steps]
    parts = [torch.cat([labeled_ids[a], unlabeled_ids[b]]) for a, b in zip(labeled_parts, unlabeled_parts)]
    images = images.expecting(parts)
    for step, ids, labeled, unlabeled in zip(steps, parts, labeled_parts, unlabeled_parts):
        rows = labeled_order[labeled]
        batch = images.seen(ids, views, seeded(device, config.seed, epoch, step, TRAINING.noise), lap)
        lap("views")
        yield Batch(
            labeled_views=tuple(view[: len(rows)] for view in batch),
            targets=targets[rows],
            unlabeled_views=tuple(view[len(rows) :] for view in batch),
            unlabeled_positions=unlabeled_order[unlabeled],
        )


def _endless(n: int, count: int, generator: torch.Generator) -> Tensor:
    """Yield `count` positions from consecutive shuffles of 0 .. n-1."""
    rounds = -(-count // n)
    return torch.cat([torch.randperm(n, generator=generator) for _ in range(rounds)])[:count]
