"""Define the cases to measure: digits with their recipe, and pictures of CIFAR's size with its ResNet-18."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks.views import smooth_pictures
from lps.data.batches import Pictures, plan_batches
from lps.data.split import open_world_split
from lps.data.training_data import TrainingData, prepare, resolve_device
from lps.methods import Method, Progress
from lps.settings.config import Config, configure
from lps.training.evaluate import build_inference
from lps.training.loop import build

EPOCH, EPOCHS = 30, 40  # late enough that every stage of every method has begun
KINDS = ("digits", "cifar")


@dataclass
class Case:
    """A method in the middle of a run: everything that its next training step needs."""

    config: Config
    material: TrainingData
    method: Method
    optimizer: torch.optim.Optimizer
    progress: Progress

    @property
    def device(self) -> torch.device:
        return self.material.images.device

    @property
    def targets(self) -> Tensor:
        """int64 (labeled,) on the device, as `lps.training.loop` hands them to `training_batches`."""
        return torch.from_numpy(self.material.truth[self.material.split.labeled]).to(self.device)

    @property
    def images_per_step(self) -> int:
        """Images that a step takes from the data set, each in all of the method's views."""
        return self.material.plan.labeled + self.material.plan.unlabeled


def make_case(kind: str, method: str, device: str = "auto", **settings) -> Case:
    """kind: "digits" or "cifar". settings: by key, over the recipe; `pictures` of "cifar", 2,048 by default."""
    pictures = settings.pop("pictures", 2048)
    values = {"dataset": "digits" if kind == "digits" else "arrays", "method": method, "device": device}
    config = configure(values | {"epochs": EPOCHS} | settings)
    material = prepare(config) if kind == "digits" else _random_material(config, pictures)
    learner, optimizer = build(config, material)
    case = Case(config, material, learner, optimizer, Progress(EPOCH, EPOCHS, 0, material.plan.steps))
    _begin_epochs(case)
    return case


def _random_material(config: Config, count: int) -> TrainingData:
    """`count` random pictures of ten classes, half of them seen and half of those labeled."""
    labels = np.arange(count) % 10
    split = open_world_split(labels, tuple("0123456789"), config)
    images = smooth_pictures(count).to(resolve_device(config.device))
    return TrainingData(
        Pictures(images, images.device), split.targets(labels), split, plan_batches(split, config.batch_size)
    )


def _begin_epochs(case: Case) -> None:
    """What the method does before every epoch, up to the current one; all on one look at the images."""
    if not case.method.trains:
        return
    seen_by = build_inference(case.method, case.material, case.config)
    with torch.no_grad():
        for epoch in range(EPOCH + 1):
            case.method.start_epoch(seen_by, Progress(epoch, EPOCHS, 0, case.material.plan.steps))
    case.method.train()
