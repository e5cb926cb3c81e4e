"""A network with given outputs and a matching batch, to test an objective alone."""

from types import SimpleNamespace

import numpy as np
import torch

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Inference, Method, build
from lps.network.network import Outputs
from lps.settings.config import configure

CLASSES = Classes(seen=3, total=6)
WIDTH = 8  # of the features


class Recorded(torch.nn.Module):
    """Return for the views of a batch the recorded logits (views, rows, k) and features (views, rows, WIDTH)."""

    def __init__(self, logits, features):
        super().__init__()
        self.logits = torch.nn.Parameter(logits)
        self.features = torch.nn.Parameter(features)
        self.backbone = SimpleNamespace(num_features=WIDTH)

    def forward_views(self, views):
        return [Outputs(f, z) for f, z in zip(self.features, self.logits)]


def scene(
    name: str,
    views: int,
    labeled=5,
    unlabeled=9,
    seed=0,
    scale=4.0,
    classes=CLASSES,
    targets=None,
    outputs=None,
    **hyperparameters,
) -> tuple[Method, Batch]:
    """Build the method `name` on recorded outputs: random normals times `scale`, `outputs` wide (default: classes)."""
    generator = torch.Generator().manual_seed(seed)
    rows = labeled + unlabeled
    logits = torch.randn(views, rows, outputs or classes.total, generator=generator) * scale
    features = torch.randn(views, rows, WIDTH, generator=generator)
    drawn = torch.randint(classes.seen, (labeled,), generator=generator)
    targets = drawn if targets is None else torch.tensor(targets)
    blank = torch.zeros(labeled, 1, 2, 2), torch.zeros(unlabeled, 1, 2, 2)
    batch = Batch((blank[0],) * views, targets, (blank[1],) * views, torch.arange(unlabeled))
    torch.manual_seed(seed)
    return build(configure({"method": name} | hyperparameters), Recorded(logits, features), classes), batch


def inference(labeled: torch.Tensor, unlabeled: torch.Tensor, targets: torch.Tensor, seed=0) -> Inference:
    """Return what a method may read between epochs, with these logits (or projections) and no features."""
    return Inference(
        lambda: Outputs(torch.zeros(len(labeled), WIDTH), labeled),
        lambda: Outputs(torch.zeros(len(unlabeled), WIDTH), unlabeled),
        targets,
        seed,
    )


def softmax(logits) -> np.ndarray:
    """Return the float64 softmax of one row."""
    logits = np.asarray(logits, np.float64)
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def unit(row) -> np.ndarray:
    """float64, length 1."""
    row = torch.as_tensor(row).detach().double().numpy()
    return row / np.linalg.norm(row)


def naive_contrast(vectors, targets, supervised: float, unsupervised: float) -> tuple[float, float]:
    """Contrast by label of the labeled rows, and of the two views of all, anchor by anchor; vectors: (views, n, d)."""
    rows, labeled = vectors.shape[1], len(targets)
    v = [unit(row) for view in vectors for row in view]

    def minus_log(anchor, positive, others, temperature):
        bottom = sum(np.exp(v[anchor] @ v[b] / temperature) for b in others if b != anchor)
        return -v[anchor] @ v[positive] / temperature + np.log(bottom)

    everyone = range(2 * rows)
    members = [a for a in everyone if a % rows < labeled]
    label = {a: int(targets[a % rows]) for a in members}
    by_label = [
        np.mean([minus_log(a, b, members, supervised) for b in members if b != a and label[b] == label[a]])
        for a in members
    ]
    apart = [minus_log(a, (a + rows) % (2 * rows), everyone, unsupervised) for a in everyone]
    return np.mean(by_label), np.mean(apart)


def value(measurement) -> torch.Tensor:
    """The number of a measurement, which may be a numerator and its denominator."""
    return measurement.numerator / measurement.denominator if isinstance(measurement, tuple) else measurement


def naive_partners(features, targets) -> list[int]:
    """Return the partner of each row: the next row of the same class, or the nearest by cosine."""
    labeled, rows = len(targets), len(features)
    unit = [f / np.linalg.norm(f) for f in np.asarray(features, np.float64)]
    partners = []
    for i in range(rows):
        if i < labeled:
            around = [(i + step) % labeled for step in range(1, labeled + 1)]
            partners.append(next(j for j in around if targets[j] == targets[i]))
        else:
            partners.append(max((j for j in range(rows) if j != i), key=lambda j: unit[i] @ unit[j]))
    return partners


class Pixels(torch.nn.Module):
    """Network whose features are the pixels of the images; the method's own classifier computes the logits."""

    def __init__(self):
        super().__init__()
        self.backbone, self.classifier = SimpleNamespace(num_features=WIDTH), torch.nn.Identity()

    def forward_views(self, views):
        return [Outputs(view.flatten(1), self.classifier(view.flatten(1))) for view in views]


def pixel_scene(
    name: str, labeled=5, unlabeled=9, seed=0, scale=1.0, classes=CLASSES, targets=None, **hyperparameters
) -> tuple[Method, Batch]:
    """Build the method `name` on `Pixels`, with two views of random images that require a gradient each."""
    torch.manual_seed(seed)
    method = build(configure({"method": name} | hyperparameters), Pixels(), classes)
    labeled_views, unlabeled_views = (
        tuple((torch.randn(rows, 1, 2, WIDTH // 2) * scale).requires_grad_() for _ in range(2))
        for rows in (labeled, unlabeled)
    )
    targets = torch.randint(classes.seen, (labeled,)) if targets is None else torch.tensor(targets)
    return method, Batch(labeled_views, targets, unlabeled_views, torch.arange(unlabeled))
