"""Batches: which images a step sees, in which views. Order follows from (seed, epoch), noise from (seed, epoch, step).

So a run resumes at any step without any stored generator. A `Batch` carries no targets of unlabeled images: label
leakage cannot be written.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lps.config import Config
from lps.split import Split

ORDER, NOISE = 1, 2  # streams of random numbers under one seed


@dataclass(frozen=True)
class Batch:
    """One step: per view, float images of the labeled rows (b_l, ...) and of the unlabeled rows (b_u, ...)."""

    labeled_views: tuple[Tensor, ...]
    targets: Tensor  # int64 (b_l,), class ids below `seen`
    unlabeled_views: tuple[Tensor, ...]
    unlabeled_positions: Tensor  # int64 (b_u,), rows of `split.unlabeled`

    def views(self) -> list[Tensor]:
        """Per view all rows, labeled ones first: (b_l + b_u, channels, height, width)."""
        return [torch.cat(pair) for pair in zip(self.labeled_views, self.unlabeled_views)]


@dataclass(frozen=True)
class BatchPlan:
    """Rows of a step, steps of an epoch: the batch is shared out by set size, an epoch is one pass over the labeled."""

    labeled: int
    unlabeled: int
    steps: int


def plan_batches(split: Split, batch_size: int) -> BatchPlan:
    """floor(batch_size * n_l / n) labeled rows, at least one, no more than there are; the rest unlabeled."""
    n_labeled, n_unlabeled = len(split.labeled), len(split.unlabeled)
    labeled = batch_size * n_labeled // (n_labeled + n_unlabeled)
    labeled = min(max(1, labeled), n_labeled, batch_size - 1)
    return BatchPlan(labeled, batch_size - labeled, n_labeled // labeled)


def seeded(device: torch.device, *key: int) -> torch.Generator:
    """A generator on `device` whose numbers are a function of the integers in `key`."""
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
    return torch.Generator(device).manual_seed(int(state) & (2**63 - 1))


def training_batches(
    images: Tensor,
    targets: Tensor,
    split: Split,
    views: tuple,
    plan: BatchPlan,
    config: Config,
    epoch: int,
    first_step: int = 0,
) -> Iterator[Batch]:
    """The batches of one epoch from `first_step` on.

    images: uint8 (n, channels, height, width) on the training device; targets: int64 (labeled,) in the order of
    `split.labeled`; views: one function per view of the method.
    """
    device = images.device
    order = seeded(torch.device("cpu"), config.seed, epoch, ORDER)
    labeled_order = torch.randperm(len(split.labeled), generator=order).to(device)
    unlabeled_order = _endless(len(split.unlabeled), plan.steps * plan.unlabeled, order).to(device)
    labeled_ids = torch.from_numpy(split.labeled).to(device)
    unlabeled_ids = torch.from_numpy(split.unlabeled).to(device)
    for step in range(first_step, plan.steps):
        rows = labeled_order[step * plan.labeled :][: plan.labeled]
        positions = unlabeled_order[step * plan.unlabeled :][: plan.unlabeled]
        labeled, unlabeled = images[labeled_ids[rows]], images[unlabeled_ids[positions]]
        noise = seeded(device, config.seed, epoch, step, NOISE)
        together = [view(torch.cat([labeled, unlabeled]), noise) for view in views]
        yield Batch(
            labeled_views=tuple(view[: len(rows)] for view in together),
            targets=targets[rows],
            unlabeled_views=tuple(view[len(rows) :] for view in together),
            unlabeled_positions=positions,
        )


def evaluation_batches(images: Tensor, ids: np.ndarray, size: int = 1024) -> Iterator[Tensor]:
    """uint8 images of `ids`, in order, `size` at a time."""
    for part in torch.from_numpy(ids).to(images.device).split(size):
        yield images[part]


def _endless(n: int, count: int, generator: torch.Generator) -> Tensor:
    """`count` positions from shuffles of 0 .. n-1, one after another."""
    rounds = -(-count // n)
    return torch.cat([torch.randperm(n, generator=generator) for _ in range(rounds)])[:count]
