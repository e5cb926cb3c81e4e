"""SimCLR: features without labels, the common start of every method; cached by (data set, network, recipe, seed).

T. Chen, S. Kornblith, M. Norouzi, G. Hinton: A Simple Framework for Contrastive Learning of Visual Representations.
ICML 2020. All training images are used, including those evaluated later (as the papers' checkpoints presumably did);
labels serve only to measure quality.

In the cache folder, beside the weights `<key>.pt`: `<key>.partial/` with checkpoints of unfinished weights,
which the next process continues, and `<key>.lock`, held by the one process that makes them.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from lps.data.batches import PRETRAINING, Pictures, seeded
from lps.data.training_data import prepare
from lps.data.views import views_of
from lps.errors import UserError
from lps.files import disk, locks
from lps.files.atomic import remove_abandoned
from lps.machine.devices import available_cores
from lps.methods.parts.losses import nt_xent
from lps.methods.parts.optimizers import without_compiler
from lps.network import backbones
from lps.network.network import autocast
from lps.settings.config import Config
from lps.training import checkpoints
from lps.training.feature_quality import feature_quality

Report = Callable[[int, int, dict], None]  # epoch, step, values
_QUALITY_EVERY = 5  # epochs between two measurements of the features, in short pretrainings
_MAX_MEASUREMENTS = 20  # number of measurements in long ones
SAVE_EVERY_S = 30.0  # most work that a kill can cost
_MOMENTUM = 0.9  # of SGD

# Settings added later count only if they are changed: existing weights keep their names.
_LATER = ("pretrain.optimizer", "pretrain.projector_width", "pretrain.projector_outputs")
_LATER += ("network.image_size", "network.tokens")


def cache_key(config: Config, images: Pictures) -> str:
    """Return an identifier of everything that the pretrained weights depend on."""
    settings = {key: value for key, value in config.flat().items() if key.startswith("pretrain.") or key in _LATER}
    for key in _LATER:
        if settings[key] == Config.__dataclass_fields__[key.replace(".", "_")].default:
            del settings[key]
    settings |= {"network": config.network_name, "views": config.views}
    settings |= {"seed": _pretrain_seed(config), "pretrain.seed": None}  # the seed itself, from either setting
    if config.precision != "auto":
        settings["precision"] = config.precision
    if config.threads is not None:  # a fixed number of threads means fixed numerical results
        settings["threads"] = config.threads
    pixels = hashlib.sha256()
    images.feed(pixels)
    text = json.dumps(settings | {"pixels": pixels.hexdigest()}, sort_keys=True)
    return f"{config.dataset}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _pretrain_seed(config: Config) -> int:
    return config.seed if config.pretrain_seed is None else config.pretrain_seed


def pretrained_backbone(
    config: Config,
    images: Pictures,
    truth: Tensor,
    cache: Path,
    report: Report,
    should_stop: Callable[[], bool],
    report_wait: Callable[[int], None] = lambda step: None,
) -> dict[str, Tensor] | None:
    """Return backbone weights from the cache folder, or train and cache them. None if `should_stop` returned True.

    truth: int64 (n,), -1 unknown, for quality only.
    While another process makes the same weights, waits for them and gives its saved step to `report_wait`; if it dies,
    continues its work.
    """
    key = cache_key(config, images)
    partial, lock = cache / f"{key}.partial", cache / f"{key}.lock"
    stored = checkpoints.load_checkpoint(cache, key)
    if stored is None or partial.exists() or lock.exists():  # the latter two: another process was killed at cleanup
        with locks.wait_for_lock(
            lock, should_stop, lambda: report_wait(_steps_done(partial)), "start weights"
        ) as is_ours:
            if not is_ours:
                return None
            remove_abandoned(cache)
            stored = checkpoints.load_checkpoint(cache, key)
            if stored is None:
                stored = train_simclr(config, images, truth, report, should_stop, partial)
                if stored is None:
                    return None
                checkpoints.save_checkpoint(cache, key, stored)
                disk.remove_folder(partial)
                return stored["backbone"]
            disk.remove_folder(partial)
    report(config.pretrain_epochs, 0, {"pretrain/reused": 1, **stored["quality"]})
    return stored["backbone"]


def _steps_done(partial: Path) -> int:
    """Return the step of the newest checkpoint in `partial`, for processes that wait for another one."""
    names = [path.stem.removeprefix("step-") for path in partial.glob("step-*.json")]
    return max((int(name) for name in names if name.isdigit()), default=0)


def train_simclr(
    config: Config,
    images: Pictures,
    truth: Tensor,
    report: Report,
    should_stop: Callable[[], bool],
    partial: Path | None = None,
) -> dict | None:
    """Return weights and quality after `pretrain.epochs` epochs: {"backbone": ..., "quality": {event name: number}}.

    partial: the folder with checkpoints to continue from. None if stopped; with `partial` it stops at once
    and saves all work there.
    """
    work = Pretraining(config, images, partial)
    while work.epoch < config.pretrain_epochs:
        if not work.train_epoch(report, should_stop):
            return None
        values = {"pretrain/loss": work.loss_sum.item() / work.steps, "pretrain/lr": work.rate}
        if not math.isfinite(values["pretrain/loss"]):
            work.discard()
            raise UserError(
                "pretrain.lr", f"{config.pretrain_lr:g} is too large: the SimCLR loss is no longer a finite number"
            )
        work.next_epoch()
        if work.is_measuring_epoch():
            work.quality = feature_quality(work.encoder.backbone, images, truth, config, work.seed)
            values |= work.quality
        report(work.epoch, work.steps, values)
    weights = work.encoder.backbone.state_dict()
    weights = {name: value.detach().cpu().clone() for name, value in weights.items()}
    return {"backbone": weights, "quality": work.quality}


class Pretraining:
    """One process's work on SimCLR weights: the encoder, its optimizer, and their position.

    Training depends only on this state and the config, so that on a CPU weights made in several
    attempts equal those of an uninterrupted one.
    """

    def __init__(self, config: Config, images: Pictures, partial: Path | None):
        self.config, self.images, self.partial = config, images, partial
        self.seed, self.size = _pretrain_seed(config), min(config.pretrain_batch_size, len(images))
        self.steps = len(images) // self.size
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(seeded(torch.device("cpu"), self.seed, PRETRAINING.weights).initial_seed()))
            encoder = ContrastiveNetwork(config, images.shape[1])
        self.encoder = encoder.to(images.device, memory_format=torch.channels_last)
        self.optimizer = _optimizer(config, self.encoder)
        self.epoch = self.step = 0
        self.loss_sum, self.rate, self.quality = torch.zeros((), device=images.device), 0.0, {}
        self._saved = time.monotonic()
        if partial is not None:
            self._restore()

    def train_epoch(self, report: Report, should_stop: Callable[[], bool]) -> bool:
        """Train the rest of the current epoch. Returns False if stopped between two steps."""
        config, device = self.config, self.images.device
        cpu = torch.device("cpu")
        order = torch.randperm(len(self.images), generator=seeded(cpu, self.seed, self.epoch, PRETRAINING.order))
        order = order.to(self.images.home)
        view = views_of(config)["simclr"]
        parts = list(order.split(self.size)[self.step : self.steps])
        images = self.images.expecting(parts)
        self.encoder.train()
        while self.step < self.steps:
            if should_stop():
                self._save()
                return False
            self.rate = _rate(config, self.epoch * self.steps + self.step, self.steps)
            self.optimizer.param_groups[0]["lr"] = self.rate
            noise = seeded(device, self.seed, self.epoch, self.step, PRETRAINING.noise)
            ids = order[self.step * self.size :][: self.size]
            pair = torch.cat(images.seen(ids, (view, view), noise))
            with autocast(config, device):
                projections = self.encoder(pair)
            loss = nt_xent(projections, config.pretrain_temperature)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.loss_sum += loss.detach()
            self.step += 1
            report(self.epoch, self.step, {})
            if time.monotonic() - self._saved >= SAVE_EVERY_S:
                self._save()
        return True

    def next_epoch(self) -> None:
        self.epoch, self.step = self.epoch + 1, 0
        self.loss_sum.zero_()

    def is_measuring_epoch(self) -> bool:
        """Return whether to measure the quality of the features after the epoch that has just ended."""
        interval = max(_QUALITY_EVERY, self.config.pretrain_epochs // _MAX_MEASUREMENTS)
        return self.epoch == self.config.pretrain_epochs or self.epoch % interval == 0

    def _save(self) -> None:
        if self.partial is None:
            return
        state = {"encoder": self.encoder.state_dict(), "optimizer": self.optimizer.state_dict()}
        state |= {"epoch": self.epoch, "step": self.step, "loss_sum": self.loss_sum, "rate": self.rate}
        disk.make_folder(self.partial)
        checkpoints.save_checkpoint(self.partial, f"step-{self.epoch * self.steps + self.step:08d}", state)
        checkpoints.prune_checkpoints(self.partial)
        self._saved = time.monotonic()

    def discard(self) -> None:
        """Remove the checkpoints, so that nothing continues from lost weights."""
        if self.partial is not None:
            disk.remove_folder(self.partial)

    def _restore(self) -> None:
        """Resume from the newest valid checkpoint, if there is one."""
        _, state, damaged = checkpoints.load_newest(self.partial)
        for name, damage in damaged.items():
            print(f"pretraining checkpoint {name} {damage} and was not used", flush=True)
        checkpoints.set_aside(self.partial, list(damaged))
        if state is None:
            return
        self.encoder.load_state_dict(state["encoder"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.step, self.rate = state["epoch"], state["step"], state["rate"]
        self.loss_sum = state["loss_sum"].to(self.images.device)
        print(f"pretraining continues in epoch {self.epoch + 1}", flush=True)


def _optimizer(config: Config, encoder: nn.Module) -> torch.optim.Optimizer:
    settings = {"lr": config.pretrain_lr, "weight_decay": config.pretrain_weight_decay, "foreach": True}
    if config.pretrain_optimizer == "sgd":
        return without_compiler(torch.optim.SGD)(encoder.parameters(), momentum=_MOMENTUM, **settings)
    return without_compiler(torch.optim.AdamW)(encoder.parameters(), **settings)


class ContrastiveNetwork(nn.Module):
    """Backbone and a two-layer projection head, as wide as the features unless the config sets another width."""

    def __init__(self, config: Config, channels: int):
        super().__init__()
        self.backbone = backbones.build_backbone(config, channels)
        features = self.backbone.num_features
        hidden = config.pretrain_projector_width or features
        outputs = config.pretrain_projector_outputs or features
        self.projector = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, outputs))

    def forward(self, images: Tensor) -> Tensor:
        return self.projector(self.backbone(images.contiguous(memory_format=torch.channels_last)))


def _rate(config: Config, step: int, steps_per_epoch: int) -> float:
    """Return the learning rate: linear warm-up, then cosine to 0 over all steps."""
    total, warmup = config.pretrain_epochs * steps_per_epoch, config.pretrain_warmup_steps
    if step < warmup:
        return config.pretrain_lr * (step + 1) / warmup
    return config.pretrain_lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


def pretrain_alone(
    config: Config,
    cache: Path,
    report_line: Callable[[str], None] = lambda line: None,
    report: Callable[[int, int], None] = lambda done, steps: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Path:
    """Make the SimCLR start of a run without the run: from the cache folder or trained now; returns its file.

    report_line: called with the losses of every epoch; report: with the steps done and all steps, after every step. If
    `should_stop` returns true, the work ends without a file; the next call for the same start continues from there.
    """
    if config.network_start != "simclr":
        raise UserError("network.start", f"{config.network_start} needs no pretraining; choose simclr")
    if config.pretrain_epochs == 0:
        raise UserError("pretrain.epochs", "0 leaves nothing to pretrain; choose at least 1")
    torch.set_num_threads(config.threads or available_cores())
    material = prepare(config)
    images, truth = material.training
    steps = len(images) // min(config.pretrain_batch_size, len(images))
    total = config.pretrain_epochs * steps

    def tell(epoch: int, step: int, values: dict) -> None:
        if values:
            numbers = ", ".join(f"{name.removeprefix('pretrain/')} {value:.4g}" for name, value in values.items())
            report_line(f"epoch {epoch} of {config.pretrain_epochs}: {numbers}")
        report(min(epoch * steps + (0 if values else step), total), total)

    backbones.check_backbone(config, *images.shape[1:])
    cache.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    pretrained_backbone(config, images, truth, cache, tell, should_stop, lambda step: tell(0, step, {}))
    return cache / f"{cache_key(config, images)}.pt"
