"""What is trained where features are stored: a small network on a backbone's features, which stand for images.

It begins as a projection to the principal components of the features, so that distances are at first what they were:
what is measured of the start weights alone is measured of the backbone.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

_LEAST_SPREAD = 1e-4  # of features that can be told apart, as a share of their root mean square


class FeatureHead(nn.Module):
    """Features (n, width) of a backbone -> features (n, num_features): a projection, then a perceptron beside it.

    The perceptron adds nothing at first, since its last layer begins at 0.
    """

    def __init__(self, width: int, outputs: int, hidden: int):
        super().__init__()
        self.num_features = min(width, outputs)
        self.projection = nn.Linear(width, self.num_features)
        self.perceptron = None
        if hidden:
            last = nn.Linear(hidden, self.num_features)
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
            self.perceptron = nn.Sequential(nn.Linear(self.num_features, hidden), nn.GELU(), last)

    def forward(self, features: Tensor) -> Tensor:
        projected = self.projection(features)
        return projected if self.perceptron is None else projected + self.perceptron(projected)

    @torch.no_grad()
    def begin_at(self, pieces: Iterator[Tensor]) -> None:
        """Let the projection give the principal components of features that come piece by piece.

        Their scale is brought to a mean square of 1. Where features differ by less than a ten-thousandth of their size,
        that share of their size counts as their spread, so that weights stay bounded, and the log says so.
        """
        sample = torch.cat(list(pieces)).double()
        least = _LEAST_SPREAD * sample.square().mean().sqrt()
        mean = sample.mean(dim=0)
        sample -= mean
        _, vectors = torch.linalg.eigh(sample.T @ sample)
        axes = vectors.flip(1)[:, : self.num_features].T
        axes = axes * axes.gather(1, axes.abs().argmax(dim=1, keepdim=True)).sign()
        spread = (sample @ axes.T).square().mean().sqrt()
        if spread <= least:
            print("The features of all images are nearly equal; nothing can be learned from them.", flush=True)
        scale = torch.maximum(spread, least)
        axes = axes / torch.where(scale > 0, scale, 1.0)
        self.projection.weight.copy_(axes)
        self.projection.bias.copy_(-axes @ mean)
