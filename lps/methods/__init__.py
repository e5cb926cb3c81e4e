"""The contract of a method; one file a method, the folder listing is the registry. Adding one edits nothing else.

A method's hyperparameters are the keyword-only arguments of `__init__`, written as
`name: Annotated[type, "meaning", (minimum, maximum), ParameterDocs("Heading", larger="what that does")] = default` (see
`lps.settings.catalog`): the command line, the launch form and validation read that signature. The module docstring
holds the title ("LPS: one line"), Citation, Objective and Deviations. What a method must remember from one epoch to the
next is a buffer or a parameter, or it is lost on resume; a buffer whose size only `start_epoch` knows is registered
with no elements (`torch.empty(0)`).

Several processes train a method together without its doing (`lps.network.parallel`) if in `loss` it passes images
through `network.forward_views` alone, takes parameters of `network` from nowhere else, and draws no random numbers of
its own; one that cannot says `distributes = False`.
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

if TYPE_CHECKING:  # a method is told its settings, and need not know how they are checked
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
        """Share of all steps that are done; in [0, 1)."""
        return (self.epoch * self.steps + self.step) / (self.epochs * self.steps)


@dataclass
class Inference:
    """All training images through the network in evaluation mode, without augmentation; computed when first asked for.

    targets: int64 (labeled,), class ids of the labeled images. seed: for what is drawn at random (k-means).
    fitted: where images are asked for that were not trained on (they stand in `unlabeled`), `Prediction.fitted` of the
    training images; empty if they are training images, or shall be fitted to themselves.
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
    """Per unlabeled image: class id int64 (n,) and confidence (n,) in [0, 1]; and what else was measured, by name.

    fitted: what was fitted to all of these images together (centres of k-means), by which others can be judged.
    """

    ids: Tensor
    confidence: Tensor
    measurements: dict[str, float | list[float]] = field(default_factory=dict)
    fitted: dict[str, Tensor] = field(default_factory=dict)


class Method(nn.Module):
    """Turns a network into an objective. Every parameter of the module that asks for a gradient is trained."""

    views: tuple[str, ...] = ("weak",)
    distributes = True  # False: several processes cannot train it together
    trains = True  # False: nothing is learned after pretraining, one evaluation is the whole run
    seen_is_aligned = True  # ids below `classes.seen` mean these classes; else seen accuracy is matched, and said to be
    test_clusters = "training"  # "test": what a prediction fits, it fits to the test images themselves
    uses_prior = False  # True: `loss` reads `class_prior`

    def __init__(self, network: Network, classes: Classes):
        super().__init__()
        self.network = network
        self.classes = classes
        # (classes,) shares that add up to 1, see `parts/prior.py`; None is the uniform prior, and no part of the state.
        self.register_buffer("class_prior", None)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *more) -> None:
        """As usual, but a buffer without elements takes the size of the stored one."""
        for name, buffer in self._buffers.items():
            if buffer is not None and buffer.numel() == 0 and prefix + name in state_dict:
                self._buffers[name] = torch.empty_like(state_dict[prefix + name], device=buffer.device)
        super()._load_from_state_dict(state_dict, prefix, *more)

    @property
    def evaluated_network(self) -> Network:
        """The network that evaluation looks at (an average of past weights, for instance)."""
        return self.network

    def start_epoch(self, inference: Inference, progress: Progress) -> None:
        """Called before the first step of every epoch; for what looks at all images. Results belong in buffers."""

    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        """One scalar to minimise, and detached measurements by event name; `loss/total` is added where it lacks."""
        raise NotImplementedError

    def after_step(self) -> None:
        """Called when the optimizer has moved the parameters."""

    def predict(self, inference: Inference) -> Prediction:
        """Class ids of all unlabeled images; argmax of the classifier unless a method knows better."""
        confidence, ids = inference.unlabeled.logits.float().softmax(dim=1).max(dim=1)
        return Prediction(ids, confidence)


def build(config: "Config", network: Network, classes: Classes) -> Method:
    """The method that `config` names, with its hyperparameters; raises `UserError` if its file is broken."""
    catalog.method_info(config.method)
    try:
        module = import_module(f"lps.methods.{config.method}")
    except Exception as error:  # somebody's file may do anything
        raise UserError("method", f"{config.method}.py cannot be imported ({catalog.error_in_words(error)})") from None
    (kind,) = (
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Method) and value.__module__ == module.__name__
    )
    return kind(network, classes, **config.hyperparameters)
