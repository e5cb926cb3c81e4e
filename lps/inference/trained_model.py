"""Load a trained run: its newest weights and its training images, to predict other pictures.

Pictures pass through the plain view, backbone and rounding of the run, so the run's own pictures get the run's own
predictions. If the run uses stored features, new pictures pass through the backbone that computed them.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import nn

from lps.data import extraction, features, sources
from lps.data.batches import Pictures
from lps.data.features import StoredFeatures
from lps.data.training_data import TrainingData, pictures_on_device, prepare, resolve_device
from lps.datasets import Images
from lps.errors import UserError
from lps.inference.new_pictures import PictureForm
from lps.interop.imports import IMPORTED_FILE
from lps.machine.devices import available_cores
from lps.methods import Inference, Method, Prediction
from lps.methods.parts.clustering import unit_rows
from lps.network.network import Outputs
from lps.settings.config import Config
from lps.store import inherited_files
from lps.store.runs import Run
from lps.training import checkpoints
from lps.training.evaluate import build_inference, infer
from lps.training.loop import build

_MAX_COMPARED = 20_000  # training images, evenly spread, that new ones are compared with
_OTHER = "its pictures, labels or start weights differ from those of the training; restore them"


@dataclass(frozen=True)
class ReferenceImages:
    """The training images that new pictures are compared with, by ascending image id.

    predicted int64 (n,): the predicted id; for labeled images, the label. points float32 (n, d): see `Seen`.
    prediction: the model's output for all unlabeled images.
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
    """Outputs and features of pictures.

    points: float32 (n, d) at length 1, for distances: stored features if the run has them, on which labels had no
    influence, otherwise the network's features.
    """

    outputs: Outputs
    points: np.ndarray


@dataclass(frozen=True)
class TrainedModel:
    """A run's weights with everything that prediction needs.

    epoch, step: position of the weights; step is 0 after a complete epoch. form: the pictures that it accepts.
    """

    run: Run
    config: Config
    checkpoint: str
    epoch: int
    step: int
    method: Method
    material: TrainingData
    form: PictureForm
    backbone: nn.Module | None  # of stored features

    @property
    def device(self) -> torch.device:
        return self.material.images.device

    def see(self, images: Images, report: Callable[[int], object] = lambda done: None) -> Seen:
        """Compute outputs and features of pictures that have the right form. report: see `extract_float16`."""
        inputs: Pictures | StoredFeatures = pictures_on_device(images, self.device)
        if self.backbone is None:
            outputs = infer(self.method.evaluated_network, inputs, np.arange(len(inputs)), self.config)
            return Seen(outputs, unit_rows(outputs.features.cpu().numpy()))
        table = extraction.extract_float16(self.backbone, inputs, "plain", self.config, report=report)
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
        order = order[np.linspace(0, len(order) - 1, min(len(order), _MAX_COMPARED)).astype(np.int64)]
        return ReferenceImages(images[order], predicted[order], self._points(images[order], order), prediction)

    def _points(self, images: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return `Seen.points` of training images.

        rows: their positions in the list of labeled, then unlabeled images.
        """
        if isinstance(self.material.images, StoredFeatures):
            return unit_rows(torch.cat(list(self.material.images.part(images).all_seen("plain"))).cpu().numpy())
        features = torch.cat([self._inference.labeled.features, self._inference.unlabeled.features])
        return unit_rows(features[torch.from_numpy(rows).to(features.device)].cpu().numpy())

    def report(self, outputs: Outputs) -> Prediction:
        """Predict ids and confidences from outputs, with the method as fitted to the training images."""
        seen_by = replace(self._inference, infer_unlabeled=lambda: outputs, fitted=self.references.prediction.fitted)
        with torch.inference_mode():
            return self.method.predict(seen_by)


def load_model(run: Run, threads: int | None = None) -> TrainedModel:
    """Load the newest weights and the training images of a run; raises `UserError` if they are missing or changed.

    threads: of this process, None for all cores.
    """
    config = _on_this_machine(run.config())
    if run.is_recorded:
        raise UserError("run", f"{run.title} is a recording, which has no weights; launch a copy to get your own run")
    torch.set_num_threads(threads or available_cores())
    name, state = _weights(run)
    material = prepare(config, inherited_files.read_confirmed(run))
    form, backbone = PictureForm.from_pictures(config, material.images), None
    if config.features == "stored":
        backbone = extraction.backbone_at_start(config, material.images)
        extraction.prepare_for_inference(backbone, material.images.device)
        material = replace(material, images=features.plain_features_of(config, material.images))
    if "data" in state and not material.has_digest(state["data"]):
        raise UserError("dataset", _OTHER)
    method, _ = build(config, material, will_load=True)
    if not checkpoints.is_state_of(state.get("method"), method.state_dict()):
        raise UserError("run", f"the weights in {name} belong to another version of its method or backbone")
    method.load_state_dict(state["method"])
    method.eval()
    return TrainedModel(run, config, name, int(state["epoch"]), int(state["step"]), method, material, form, backbone)


def picture_form(config: Config) -> PictureForm:
    """Return the form of a run's pictures; raises `UserError` if the pictures cannot be read."""
    return PictureForm.from_pictures(config, pictures_on_device(sources.images_of(config), torch.device("cpu")))


def _on_this_machine(config: Config) -> Config:
    """Return the config for one process, on the run's device if this machine has it."""
    try:
        resolve_device(config.device)
    except UserError:
        return replace(config, device="auto", processes=1)
    return replace(config, processes=1)


def _weights(run: Run) -> tuple[str, dict]:
    """Return (name, state) of the newest usable checkpoint; raises `UserError`."""

    def has_place(state: dict) -> bool:
        return all(type(state.get(key)) is int for key in ("epoch", "step"))

    name, state, damaged = checkpoints.load_newest(run.checkpoints, has_place)
    if state is not None:
        return name, state
    best = checkpoints.load_checkpoint(run.checkpoints, "best")
    if best is not None and has_place(best):
        return "best", best
    raise UserError("run", f"{run.title} has no weights: {_unavailable_reason(run, damaged)}")


def _unavailable_reason(run: Run, damaged: dict[str, str]) -> str:
    for name, damage in damaged.items():
        return f"its checkpoint {name} {damage}".rstrip(",")
    if not run.events.exists():
        return "it has not trained yet"
    if (run.folder / IMPORTED_FILE).exists():
        return "it was imported without checkpoints; export it again without --light"
    return "its checkpoints were deleted or are not written yet"
