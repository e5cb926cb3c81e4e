"""Define the interface of a method. Each file in this folder is a method; adding one edits no other file.

A method's hyperparameters are the keyword-only arguments of `__init__`, written as `name: Annotated[type, "meaning",
(minimum, maximum), ParameterDocs("Heading", larger="what that does")] = default` (see `lps.settings.catalog`): the
command line, the launch form and validation read that signature. The module docstring holds the title ("LPS: one
line"), Citation, Objective and Deviations. State that must survive from one epoch to the next is a buffer or a
parameter, or it is lost on resume; a buffer whose size only `start_epoch` knows is registered with no elements
(`torch.empty(0)`).

Several processes train a method together (`lps.network.parallel`) if `loss` passes images only through
`network.forward_views`, takes parameters of `network` from nowhere else, and draws no random numbers of its own;
otherwise the method sets `distributes = False`.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.errors import UserError
from lps.methods.parts.measurements import Measurement
from lps.network.network import Network, Outputs
from lps.settings import catalog

if TYPE_CHECKING:  # methods get their settings and do not check them
    from lps.settings.config import Config


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
        """Share of all steps done so far; in [0, 1)."""
        return (self.epoch * self.steps + self.step) / (self.epochs * self.steps)


@dataclass
class Inference:
    """Network outputs of all training images, in evaluation mode without augmentation, computed on first access.

    targets: int64 (labeled,), class ids of the labeled images. seed: for random choices (k-means). fitted: if
    `unlabeled` holds images that were not trained on, `Prediction.fitted` of the training images; empty for training
    images, or if the images shall be fitted to themselves.
    """

    infer_labeled: Callable[[], Outputs]
    infer_unlabeled: Callable[[], Outputs]
    targets: Tensor
    seed: int
    fitted: dict[str, Tensor] = field(default_factory=dict)

    @cached_property
    def labeled(self) -> Outputs:
        return self.infer_labeled()

    @cached_property
    def unlabeled(self) -> Outputs:
        return self.infer_unlabeled()


@dataclass(frozen=True)
class Prediction:
    """Class id int64 (n,) and confidence (n,) in [0, 1] of every unlabeled image, and further measurements by name.

    fitted: what was fitted to all of these images together (centres of k-means), for predicting others.
    """

    ids: Tensor
    confidence: Tensor
    measurements: dict[str, float | list[float]] = field(default_factory=dict)
    fitted: dict[str, Tensor] = field(default_factory=dict)


class Method(nn.Module):
    """An objective for a network. All parameters of the module with a gradient are trained."""

    views: tuple[str, ...] = ("weak",)
    distributes = True  # False: several processes cannot train it together
    trains = True  # False: nothing is trained after pretraining; the run is one evaluation
    # True: ids below `classes.seen` are these classes; else seen accuracy is matched and shown as such.
    seen_is_aligned = True
    test_clusters = "training"  # "test": a prediction fits clusters to the test images themselves
    uses_prior = False  # True: `loss` reads `class_prior`

    def __init__(self, network: Network, classes: Classes):
        super().__init__()
        self.network = network
        self.classes = classes
        # (classes,) shares that add up to 1, see `parts/prior.py`; None is the uniform prior, which is not stored.
        self.register_buffer("class_prior", None)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *more) -> None:
        """Load as usual, but let a buffer without elements take the size of the stored one."""
        for name, buffer in self._buffers.items():
            if buffer is not None and buffer.numel() == 0 and prefix + name in state_dict:
                self._buffers[name] = torch.empty_like(state_dict[prefix + name], device=buffer.device)
        super()._load_from_state_dict(state_dict, prefix, *more)

    @property
    def evaluated_network(self) -> Network:
        """Network used for evaluation, for example an average of past weights."""
        return self.network

    def start_epoch(self, inference: Inference, progress: Progress) -> None:
        """Compute what needs all images; called before the first step of every epoch. Store results in buffers."""

    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        """Return a scalar to minimise, and detached measurements by event name; `loss/total` is added if missing."""
        raise NotImplementedError

    def after_step(self) -> None:
        """Called after the optimizer has changed the parameters."""

    def predict(self, inference: Inference) -> Prediction:
        """Return class ids of all unlabeled images; by default the argmax of the classifier."""
        confidence, ids = inference.unlabeled.logits.float().softmax(dim=1).max(dim=1)
        return Prediction(ids, confidence)


def build(config: "Config", network: Network, classes: Classes) -> Method:
    """Return the method that `config` names, with its hyperparameters; raises `UserError` if its file is broken."""
    catalog.method_info(config.method)
    try:
        module = import_module(f"lps.methods.{config.method}")
    except Exception as error:  # a user's file may raise anything
        raise UserError("method", f"{config.method}.py cannot be imported ({catalog.error_in_words(error)})") from None
    (method_class,) = (
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Method) and value.__module__ == module.__name__
    )
    return method_class(network, classes, **config.hyperparameters)
