"""A trained run at work: its newest weights, the pictures that it was trained on, and what it says of others.

Pictures go through the same plain view, backbone and rounding as in the run, so that the run's own pictures get its own
predictions. Where features are stored, new pictures pass through the backbone that made the store.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import nn

from lps.data import extraction, features, sources
from lps.data.batches import Pictures
from lps.data.features import StoredFeatures
from lps.data.material import Material, pictures_on_device, prepare, resolve_device
from lps.datasets import Images
from lps.errors import UserError
from lps.inference.new_pictures import Form
from lps.interop.imports import IMPORTED_FILE
from lps.machine.devices import available_cores
from lps.methods import Inference, Method, Prediction
from lps.methods.parts.clustering import unit_rows
from lps.network.network import Outputs
from lps.settings.config import Config
from lps.store import inherited
from lps.store.runs import Run
from lps.training import checkpoints
from lps.training.evaluate import build_inference, infer
from lps.training.loop import build

_MOST_COMPARED = 20_000  # training images, evenly spread, that new ones are compared with
_OTHER = "its pictures, labels or start weights differ from those of the training; restore them"


@dataclass(frozen=True)
class ReferenceImages:
    """The training images that new pictures are compared with, by ascending image id.

    predicted int64 (n,): the predicted id, for labeled pictures the label. points float32 (n, d): see `Seen`.
    prediction: the model's output for all unlabeled pictures.
    """

    images: np.ndarray
    predicted: np.ndarray
    points: np.ndarray
    prediction: Prediction

    def without(self, images: Collection[int]) -> "ReferenceImages":
        """Return a copy without these images."""
        is_kept = ~np.isin(self.images, sorted(images))
        return replace(
            self, images=self.images[is_kept], predicted=self.predicted[is_kept], points=self.points[is_kept]
        )


@dataclass(frozen=True)
class Seen:
    """What pictures look like to the model.

    points: float32 (n, d) at length 1, by which pictures are compared: stored features where there are some, which the
    labels had no part in, else the network's own.
    """

    outputs: Outputs
    points: np.ndarray


@dataclass(frozen=True)
class Trained:
    """epoch, step: of the weights; step is 0 where the epoch was evaluated. form: of the pictures it takes."""

    run: Run
    config: Config
    checkpoint: str
    epoch: int
    step: int
    method: Method
    material: Material
    form: Form
    backbone: nn.Module | None  # of stored features

    @property
    def device(self) -> torch.device:
        return self.material.images.device

    def see(self, images: Images) -> Seen:
        """Pictures of its form as the network sees them."""
        inputs: Pictures | StoredFeatures = pictures_on_device(images, self.device)
        if self.backbone is None:
            outputs = infer(self.method.evaluated_network, inputs, np.arange(len(inputs)), self.config)
            return Seen(outputs, unit_rows(outputs.features.cpu().numpy()))
        table = extraction.extract_float16(self.backbone, inputs, "plain", self.config)
        inputs = StoredFeatures({"plain": (table,)}, "", self.device)
        outputs = infer(self.method.evaluated_network, inputs, np.arange(len(inputs)), self.config)
        return Seen(outputs, unit_rows(table.cpu().numpy()))

    @cached_property
    def _inference(self) -> Inference:
        return build_inference(self.method, self.material, self.config)

    @cached_property
    def references(self) -> ReferenceImages:
        split = self.material.split
        with torch.inference_mode():
            prediction = self.method.predict(self._inference)
        predicted = np.concatenate([self.material.truth[split.labeled], prediction.ids.cpu().numpy()])
        images = np.concatenate([split.labeled, split.unlabeled])
        order = np.argsort(images)
        order = order[np.linspace(0, len(order) - 1, min(len(order), _MOST_COMPARED)).astype(np.int64)]
        return ReferenceImages(images[order], predicted[order], self._points(images[order], order), prediction)

    def _points(self, images: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """`Seen.points` of training images. rows: where they stand in labeled, then unlabeled ones."""
        if isinstance(self.material.images, StoredFeatures):
            return unit_rows(torch.cat(list(self.material.images.part(images).all_seen("plain"))).cpu().numpy())
        features = torch.cat([self._inference.labeled.features, self._inference.unlabeled.features])
        return unit_rows(features[torch.from_numpy(rows).to(features.device)].cpu().numpy())

    def say(self, outputs: Outputs) -> Prediction:
        """Class ids and confidences of pictures, by what was fitted to the training images."""
        seen_by = replace(self._inference, infer_unlabeled=lambda: outputs, fitted=self.references.prediction.fitted)
        with torch.inference_mode():
            return self.method.predict(seen_by)


def load_model(run: Run, threads: int | None = None) -> Trained:
    """The newest weights of a run and what it was trained on; raises `UserError` where it has none (any more).

    threads: of this process, None for all cores.
    """
    config = _on_this_machine(run.config())
    if run.is_recorded:
        raise UserError("run", f"{run.title} is a recording, which has no weights; launch a copy to get your own run")
    torch.set_num_threads(threads or available_cores())
    name, state = _weights(run)
    material = prepare(config, inherited.read_confirmed(run))
    form, backbone = Form.from_pictures(config, material.images), None
    if config.features == "stored":
        backbone = extraction.backbone_at_start(config, material.images)
        extraction.prepare_for_inference(backbone, material.images.device)
        material = replace(material, images=features.plain_features_of(config, material.images))
    if "data" in state and not material.has_digest(state["data"]):
        raise UserError("dataset", _OTHER)
    method, _ = build(config, material)
    if not checkpoints.is_state_of(state.get("method"), method.state_dict()):
        raise UserError("run", f"the weights in {name} belong to another version of its method or backbone")
    method.load_state_dict(state["method"])
    method.eval()
    return Trained(run, config, name, int(state["epoch"]), int(state["step"]), method, material, form, backbone)


def form_of(config: Config) -> Form:
    """What the pictures of a run are; raises `UserError` where they cannot be had."""
    return Form.from_pictures(config, pictures_on_device(sources.images_of(config), torch.device("cpu")))


def _on_this_machine(config: Config) -> Config:
    """The config by itself in one process, on its own device where that is here."""
    try:
        resolve_device(config.device)
    except UserError:
        return replace(config, device="auto", processes=1)
    return replace(config, processes=1)


def _weights(run: Run) -> tuple[str, dict]:
    """(name, state) of the newest checkpoint that can be used; raises `UserError`."""

    def has_place(state: dict) -> bool:
        return all(type(state.get(key)) is int for key in ("epoch", "step"))

    name, state, damaged = checkpoints.load_newest(run.checkpoints, has_place)
    if state is not None:
        return name, state
    best = checkpoints.load_checkpoint(run.checkpoints, "best")
    if best is not None and has_place(best):
        return "best", best
    raise UserError("run", f"{run.title} has no weights: {_why_none(run, damaged)}")


def _why_none(run: Run, damaged: dict[str, str]) -> str:
    for name, damage in damaged.items():
        return f"its checkpoint {name} {damage}".rstrip(",")
    if not run.events.exists():
        return "it has not trained yet"
    if (run.folder / IMPORTED_FILE).exists():
        return "it was imported without checkpoints; export it again without --light"
    return "its checkpoints were deleted or are not written yet"
