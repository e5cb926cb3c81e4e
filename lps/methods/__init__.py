"""The contract of a method; one file a method, the folder listing is the registry. Adding one edits nothing else.

A method's hyperparameters are the keyword-only arguments of `__init__`, written as
`name: Annotated[type, "meaning", (minimum, maximum)] = default` (see `lps.catalog`): the command line, the launch form
and validation read that signature. The module docstring holds the title, Citation, Objective and Deviations.
"""

import inspect
from dataclasses import dataclass
from importlib import import_module

from torch import Tensor, nn

from lps import catalog
from lps.batches import Batch
from lps.config import Config
from lps.measurements import Measurement
from lps.network import Network, Outputs
from lps.split import Classes


@dataclass(frozen=True)
class Progress:
    """How far the run is: 0-based epoch of `epochs`, 0-based step of `steps` in this epoch."""

    epoch: int
    epochs: int
    step: int
    steps: int

    @property
    def by_epoch(self) -> float:
        """epoch / epochs, constant within an epoch; in [0, 1)."""
        return self.epoch / self.epochs

    @property
    def by_step(self) -> float:
        """Share of all steps that are done; in [0, 1)."""
        return (self.epoch * self.steps + self.step) / (self.epochs * self.steps)


class Method(nn.Module):
    """Turns a network into an objective. Every parameter of the module that asks for a gradient is trained."""

    views: tuple[str, ...] = ("weak",)

    def __init__(self, network: Network, classes: Classes):
        super().__init__()
        self.network = network
        self.classes = classes

    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        """One scalar to minimise, and detached measurements by event name."""
        raise NotImplementedError

    def predict(self, outputs: Outputs) -> tuple[Tensor, Tensor]:
        """Class ids int64 (n,) and confidences (n,) for the outputs of all unlabeled images in evaluation mode."""
        confidence, ids = outputs.logits.float().softmax(dim=1).max(dim=1)
        return ids, confidence


def build(config: Config, network: Network, classes: Classes) -> Method:
    """The method that `config` names, with its hyperparameters."""
    catalog.method_info(config.method)
    module = import_module(f"lps.methods.{config.method}")
    (kind,) = (
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Method) and value.__module__ == module.__name__
    )
    return kind(network, classes, **config.hyperparameters)
