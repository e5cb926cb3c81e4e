"""SimCLR: features without labels, the common start of every method; cached by (data set, network, recipe, seed).

T. Chen, S. Kornblith, M. Norouzi, G. Hinton: A Simple Framework for Contrastive Learning of Visual Representations.
ICML 2020. All training images are used, the later evaluated ones too (as the papers' checkpoints presumably were);
labels serve only to measure quality.
"""

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from lps import checkpoints
from lps.batches import NOISE, ORDER, seeded
from lps.clustering import kmeans, knn_accuracy
from lps.config import Config
from lps.evaluate import infer_features
from lps.losses import similarities, two_view_contrastive
from lps.material import prepare
from lps.metrics import matched_accuracy
from lps.network import BACKBONES
from lps.views import FAMILIES

Report = Callable[[int, int, dict], None]  # epoch, step, values
QUALITY_EVERY = 5  # epochs between two looks at kNN and k-means quality


def cache_key(config: Config, images: Tensor) -> str:
    """A name for everything that the pretrained weights depend on."""
    settings = {key: value for key, value in config.flat().items() if key.startswith("pretrain.")}
    settings |= {"network": config.network_name, "seed": pretrain_seed(config), "views": config.views}
    pixels = hashlib.sha256(images.cpu().contiguous().numpy().tobytes()).hexdigest()
    text = json.dumps(settings | {"pixels": pixels}, sort_keys=True)
    return f"{config.dataset}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def pretrain_seed(config: Config) -> int:
    return config.seed if config.pretrain_seed is None else config.pretrain_seed


def pretrained_backbone(
    config: Config, images: Tensor, truth: Tensor, cache: Path, report: Report, should_stop: Callable[[], bool]
) -> dict[str, Tensor] | None:
    """Backbone weights: from the cache folder, or trained now and put there. None when `should_stop` said so.

    images: uint8 (n, channels, height, width) on the training device; truth: int64 (n,), -1 unknown, for quality only.
    """
    key = cache_key(config, images)
    stored = checkpoints.load(cache, key)
    if stored is not None:
        report(config.pretrain_epochs, 0, {"pretrain/reused": 1, **stored["quality"]})
        return stored["backbone"]
    result = train_simclr(config, images, truth, report, should_stop)
    if result is not None:
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        checkpoints.save(cache, key, result)
    return result and result["backbone"]


def train_simclr(
    config: Config, images: Tensor, truth: Tensor, report: Report, should_stop: Callable[[], bool]
) -> dict | None:
    """Weights and quality after `pretrain.epochs` epochs: {"backbone": ..., "quality": {event name: number}}."""
    seed, size, device = pretrain_seed(config), min(config.pretrain_batch_size, len(images)), images.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(seeded(torch.device("cpu"), seed, 0).initial_seed()))
        encoder = SimCLR(BACKBONES[config.network_name](images.shape[1])).to(device, memory_format=torch.channels_last)
    steps = len(images) // size
    optimizer = torch.optim.AdamW(
        encoder.parameters(), lr=config.pretrain_lr, weight_decay=config.pretrain_weight_decay, foreach=True
    )
    view, quality = FAMILIES[config.views]["simclr"], {}
    for epoch in range(config.pretrain_epochs):
        order = torch.randperm(len(images), generator=seeded(torch.device("cpu"), seed, epoch, ORDER)).to(device)
        encoder.train()
        loss_sum = torch.zeros((), device=device)
        for step in range(steps):
            if should_stop():
                return None
            optimizer.param_groups[0]["lr"] = rate = _rate(config, epoch * steps + step, steps)
            noise = seeded(device, seed, epoch, step, NOISE)
            batch = images[order[step * size :][:size]]
            pair = torch.cat([view(batch, noise), view(batch, noise)])
            loss = nt_xent(encoder(pair), config.pretrain_temperature)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.detach()
            report(epoch, step + 1, {})
        values = {"pretrain/loss": loss_sum.item() / steps, "pretrain/lr": rate}
        if epoch + 1 == config.pretrain_epochs or (epoch + 1) % QUALITY_EVERY == 0:
            quality = feature_quality(infer_features(encoder.backbone, images, config), truth, seed)
            values |= quality
        report(epoch + 1, steps, values)
    weights = {name: value.detach().cpu().clone() for name, value in encoder.backbone.state_dict().items()}
    return {"backbone": weights, "quality": quality}


class SimCLR(nn.Module):
    """Backbone and a two-layer projection head as wide as the features."""

    def __init__(self, backbone: nn.Module):
        super().__init__()
        width = backbone.num_features
        self.backbone = backbone
        self.projector = nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, width))

    def forward(self, images: Tensor) -> Tensor:
        return self.projector(self.backbone(images.contiguous(memory_format=torch.channels_last)))


def nt_xent(projections: Tensor, temperature: float) -> Tensor:
    """Mean over the 2n rows (two stacked views) of the cross-entropy of finding the other view among 2n - 1 others."""
    everyone = torch.ones(len(projections), dtype=torch.bool, device=projections.device)
    return two_view_contrastive(similarities(projections, temperature), everyone)


def feature_quality(features, truth: Tensor, seed: int) -> dict[str, float]:
    """kNN (leave-one-out, k = 10) and k-means accuracy on the images of known truth; empty where there are none."""
    known = (truth >= 0).cpu().numpy()
    labels = truth.cpu().numpy()[known]
    if len(labels) < 2:
        return {}
    points, total = features[known], int(labels.max()) + 1
    return {
        "pretrain/knn_accuracy": knn_accuracy(points, labels),
        "pretrain/kmeans_accuracy": matched_accuracy(kmeans(points, total, seed), labels, total),
    }


def _rate(config: Config, step: int, steps_per_epoch: int) -> float:
    """Linear warm-up, then cosine to 0 over all steps."""
    total, warmup = config.pretrain_epochs * steps_per_epoch, config.pretrain_warmup_steps
    if step < warmup:
        return config.pretrain_lr * (step + 1) / warmup
    return config.pretrain_lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


def pretrain_alone(config: Config, cache: Path, say: Callable[[str], None]) -> Path:
    """The SimCLR start of a run without the run: from the cache folder or trained now; gives its file."""
    material = prepare(config)

    def report(epoch: int, step: int, values: dict) -> None:
        if values:
            numbers = ", ".join(f"{name.removeprefix('pretrain/')} {value:.4g}" for name, value in values.items())
            say(f"epoch {epoch} of {config.pretrain_epochs}: {numbers}")

    pretrained_backbone(config, material.images, torch.from_numpy(material.truth), cache, report, lambda: False)
    return cache / f"{cache_key(config, material.images)}.pt"
