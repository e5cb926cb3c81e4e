"""Compute the features that a run starts from, for studies of pictures without training: class count, data check."""

import sys
import time
from pathlib import Path

import numpy as np
from torch import nn

from lps.data import features
from lps.data.batches import Pictures
from lps.data.training_data import TrainingData, prepare
from lps.network import start_weights
from lps.scheduler import costs
from lps.scheduler.background_jobs import JobProgress
from lps.scheduler.costs import Span
from lps.settings.config import Config
from lps.training import checkpoints
from lps.training.evaluate import infer_features
from lps.training.loop import build
from lps.training.pretrain import pretrain_alone

_PIECE = 128  # images


def start_features(
    config: Config, root: Path, progress: JobProgress, phase: str, afterwards: Span | None
) -> tuple[np.ndarray, TrainingData]:
    """Return (features (n, d) float32 of all images, test images last; the data).

    Missing start weights are made first and stored for runs below `root`. phase, afterwards: name and duration of the
    work after this. Raises `UserError`, and `Cancelled` if the user cancels.
    """
    material = prepare(config)
    progress.check()
    if config.features == "stored":
        return _stored_features(config, progress, phase, afterwards), material
    method, _ = build(config, material)
    backbone = method.network.backbone
    if config.network_start in start_weights.ELSEWHERE:
        print(start_weights.load(config, backbone), file=sys.stderr, flush=True)
    elif config.network_start == "simclr" and config.pretrain_epochs:
        speed = _Speed(progress, "pretrain", afterwards)
        path = pretrain_alone(config, Path(root) / ".pretrained", report=speed, should_stop=progress.should_stop)
        progress.check()
        backbone.load_state_dict(checkpoints.load_checkpoint(path.parent, path.stem)["backbone"])
    image_features = _features(backbone, material.images, config, progress, afterwards)
    progress.report(phase, 0.0, afterwards)
    return image_features, material


def _stored_features(config: Config, progress: JobProgress, phase: str, afterwards: Span | None) -> np.ndarray:
    """Return float32 (n, d) from the store, which is made if it is missing and stays for runs."""
    speed = _Speed(progress, "features", afterwards)
    stored = features.plain_features(config, speed, progress.should_stop)
    progress.check()
    progress.report(phase, 0.0, afterwards)
    return np.asarray(stored, np.float32)


def _features(
    backbone: nn.Module, images: Pictures, config: Config, progress: JobProgress, afterwards: Span | None
) -> np.ndarray:
    """Return float32 (n, d), computed in pieces so that the user sees progress and can cancel."""
    count, parts, speed = len(images), [], _Speed(progress, "features", afterwards)
    for start in range(0, count, _PIECE):
        speed(start, count)
        parts.append(infer_features(backbone, images.part(np.arange(start, min(count, start + _PIECE))), config))
        progress.check()
    return np.concatenate(parts)


class _Speed:
    """Progress callback that estimates the remaining time from the speed since its first call."""

    def __init__(self, progress: JobProgress, phase: str, afterwards: Span | None):
        self._progress, self._phase, self._afterwards = progress, phase, afterwards
        self._first: tuple[float, int] | None = None

    def __call__(self, done: int, total: int) -> None:
        """Report `done` of `total` steps or pictures."""
        now = time.monotonic()
        start, first = self._first = self._first or (now, done)
        share = done / max(1, total)
        seconds = (now - start) / (done - first) * (total - done) if done > first else None
        phase_left = None if seconds is None else costs.job_time_left(seconds, share)
        total_left = phase_left.plus(self._afterwards) if phase_left and self._afterwards else phase_left
        self._progress.report(self._phase, share, total_left)
