"""Write a run's model as one ONNX graph: from uint8 pictures to the class ids, confidences and distances of `predict`.

The graph contains everything in between: the plain view, the backbone (with its rounding if features are stored), the
trained layers, the method's prediction as fitted to the training images, and the reference images for the distance.
"""

import io
import logging
import warnings
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lps.data.views import views_of_pictures
from lps.errors import UserError
from lps.inference import export_job
from lps.inference.new_pictures import PictureForm
from lps.inference.rejection import NEIGHBOURS
from lps.inference.trained_model import ReferenceImages, TrainedModel
from lps.network.network import Outputs
from lps.network.weight_files import first_line

PICTURES, VECTORS = "pictures", "vectors"  # names of the input
OUTPUTS = ("class", "confidence", "distance", "logits")
_OPSET = 18  # the first whose Resize is antialiased
_LARGEST_HALF = 65504.0


class _PredictionGraph(nn.Module):
    """Map uint8 (n, height, width, channels) to class int64 (n,), confidence and distance float32 (n,), logits (n, k).

    If the run was trained on embeddings, the input is float32 (n, d).
    """

    def __init__(self, model: TrainedModel, compared: ReferenceImages):
        super().__init__()
        self._model, self._plain = model, views_of_pictures(model.config)["plain"]
        self.network, self.backbone = model.method.evaluated_network, model.backbone
        self.register_buffer("points", torch.from_numpy(compared.points).to(model.device))

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        are_vectors = self._model.form.are_vectors
        inputs = pictures if are_vectors else self._plain(pictures.permute(0, 3, 1, 2).contiguous(), None)
        if self.backbone is not None:
            inputs = self.backbone(inputs).clamp(-_LARGEST_HALF, _LARGEST_HALF).half().float()
        outputs = Outputs(*(part.float() for part in self.network(inputs)))
        prediction = self._model.report(outputs)
        points = F.normalize(outputs.features if self.backbone is None else inputs, dim=1)
        nearest = (points @ self.points.T).topk(min(NEIGHBOURS, len(self.points)), dim=1).values
        return prediction.ids, prediction.confidence.float(), (1 - nearest).clamp_min(0).mean(dim=1), outputs.logits


def input_of(form: PictureForm) -> str:
    return VECTORS if form.are_vectors else PICTURES


def write_graph(path: Path, model: TrainedModel, compared: ReferenceImages) -> None:
    """Write the graph to a file, for any number of pictures; raises `UserError` if ONNX cannot express the model."""
    export_job.check_installed()
    if model.form.is_whole:
        raise UserError(
            "to", "model cannot be exported for imagenet100, because its pictures are resized to other proportions"
        )
    graph = _PredictionGraph(model, compared).eval()
    form = model.form
    if form.are_vectors:
        pictures = torch.zeros((2, form.channels), device=model.device)
    else:
        pictures = torch.zeros((2, form.height, form.width, form.channels), dtype=torch.uint8, device=model.device)
    pictures[1] = 255  # unlike the first, so that both branches of a rejection are traced
    try:
        with _quiet(), torch.no_grad():
            graph(pictures)  # fills the caches of the views, which must not become part of the graph
            program = torch.onnx.export(
                graph,
                (pictures,),
                dynamo=True,
                dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
                input_names=[input_of(form)],
                output_names=list(OUTPUTS),
                opset_version=_OPSET,
                verbose=False,
            )
            program.save(str(path), external_data=False)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # ONNX may not know an operation of the network or method
        model_words = f"{model.config.method} on {model.config.network_name}"
        reason = first_line(error.__cause__ or error)
        raise UserError("to", f"{model_words} cannot be exported as a model: ONNX refuses it ({reason})") from None


@contextmanager
def _quiet():
    """Suppress the exporter's messages to developers."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
