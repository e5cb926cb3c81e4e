r"""A user's vectors instead of pictures: their views and how they are stored.

With $\mu_j$ and $\sigma_j$, mean and standard deviation of number $j$ over all items, $\epsilon_j \sim N(0, 1)$ and
$m_j \sim \text{Bernoulli}(1 - p)$, drawn again for every view, a vector $z$ is seen as

$$\text{plain: } z_j, \qquad \text{weak: } z_j + s \sigma_j \epsilon_j, \qquad
\text{strong: } m_j z_j + (1 - m_j) \mu_j + s \sigma_j \epsilon_j$$

with $s$ = `features.noise` and $p$ = `features.dropout`. An item with several views is seen plain in the first
one. Its weak views are the others unchanged, in order, and its strong views are made of these, in the same
order. The stored features are these vectors divided by the root mean square of all plain ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from lps.data.batches import PIECE, Lap, Pictures, no_lap
from lps.datasets import Vectors

FAMILY = "vectors"  # of `Config.views`


@dataclass(frozen=True)
class GivenVectors(Pictures):
    """Vectors in the place of pictures. pixels: (n, views, d) of any real type, on the host, perhaps a mapped file.

    about: their statistics. begins: which of an item's own views each vector is.
    """

    about: Vectors | None = None
    begins: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.pixels.shape[2]

    def beginning_at(self, kind: str, number: int) -> "GivenVectors":
        last_column = self.pixels.shape[1] - 1
        return self if kind == "plain" or not last_column else replace(self, begins=1 + number % last_column)

    def taken(self, ids: Tensor) -> Tensor:
        """Return float32 (b, d) on the device."""
        ids = ids if self.rows is None else self.rows[ids]
        return self.pixels[:, self.begins][ids].to(self.device, torch.float32)

    def seen(
        self, ids: Tensor, views: Sequence[Callable], noise: torch.Generator | None = None, lap: Lap = no_lap
    ) -> list[Tensor]:
        batch = self.taken(ids)
        lap("read")
        mean, spread = (torch.from_numpy(values).to(self.device) for values in (self.about.mean, self.about.spread))
        is_own = self.begins > 0  # a view supplied with the item
        return [view(batch, noise, mean, spread, is_own) for view in views]

    def feed(self, digest) -> None:
        """Feed every number of every view, as stored in the file."""
        for ids in self._ids(PIECE):
            digest.update(self.pixels[ids if self.rows is None else self.rows[ids]].contiguous().numpy())

    def backbone(self) -> nn.Module:
        return _ToOneSize(self.shape[1], self.about.size)


class _ToOneSize(nn.Module):
    """Divide vectors (n, d) by the root mean square of the training vectors."""

    def __init__(self, width: int, size: float):
        super().__init__()
        self.num_features = width
        self.register_buffer("size", torch.tensor(size))

    def forward(self, vectors: Tensor) -> Tensor:
        return vectors / self.size


def views(noise: float, dropout: float) -> dict[str, Callable]:
    """Return the views of vectors (n, d) by name, as defined in the module docstring."""
    return {"plain": _unchanged, "weak": partial(_weak, noise), "strong": partial(_strong, noise, dropout)}


def _unchanged(vectors: Tensor, generator, mean: Tensor, spread: Tensor, is_own: bool) -> Tensor:
    return vectors


def _weak(noise: float, vectors: Tensor, generator, mean: Tensor, spread: Tensor, is_own: bool) -> Tensor:
    return vectors if is_own else vectors + noise * spread * _drawn(torch.randn, vectors, generator)


def _strong(
    noise: float, dropout: float, vectors: Tensor, generator, mean: Tensor, spread: Tensor, is_own: bool
) -> Tensor:
    is_kept = _drawn(torch.rand, vectors, generator) >= dropout
    return torch.where(is_kept, vectors, mean) + noise * spread * _drawn(torch.randn, vectors, generator)


def _drawn(draw: Callable, like: Tensor, generator: torch.Generator) -> Tensor:
    return draw(like.shape, generator=generator, device=like.device)
