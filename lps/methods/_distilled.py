"""A classifier that is trained by self-distillation across two views: the base of SimGCD and methods that extend it."""

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lps.data.classes import Classes
from lps.methods import Inference, Method, Prediction, Progress
from lps.methods.parts.losses import labeled_contrastive, labeled_rows, negative_entropy_of_mean, nt_xent
from lps.methods.parts.schedules import epochs_of
from lps.network.network import Network, Outputs, projection_head
from lps.settings.parameters import ParameterDocs


class Distilled(Method):
    """Base class. `network.classifier` becomes the projection head, so the logits in `Outputs` are projections here."""

    views = ("weak", "weak")
    uses_prior = True

    def __init__(
        self,
        network: Network,
        classes: Classes,
        *,
        supervised_weight: Annotated[
            float,
            "lambda: share of the two losses of labeled images; the rest is for the losses of all images",
            (0, 1),
            ParameterDocs(
                "Labels",
                larger="the losses of labeled images count more, those of all images less",
                paper="0.35 (SimGCD's code)",
            ),
        ] = 0.35,
        entropy_weight: Annotated[
            float,
            "epsilon: weight of the entropy term that keeps all classes in use; the term is also multiplied by "
            "1 - lambda",
            (0, 100),
            ParameterDocs(
                "Entropy",
                larger="guesses are spread more evenly over the classes",
                paper="1; 4 on CIFAR-100 (SimGCD's code)",
            ),
        ] = 1.0,
        student_temperature: Annotated[
            float,
            "tau_s: temperature of the classifier's cosines",
            (0.01, 10),
            ParameterDocs("Consistency", larger="predictions are less sharp", paper="0.1 (SimGCD's code)"),
        ] = 0.1,
        teacher_temperature_start: Annotated[
            float,
            "tau_t: temperature of the targets in the first epoch",
            (0.01, 10),
            ParameterDocs("Consistency", larger="targets are less sharp at first", paper="0.07 (SimGCD's code)"),
        ] = 0.07,
        teacher_temperature_end: Annotated[
            float,
            "tau_t: temperature of the targets after its decrease",
            (0.01, 10),
            ParameterDocs("Consistency", larger="targets are less sharp later", paper="0.04 (SimGCD's code)"),
        ] = 0.04,
        teacher_share: Annotated[
            float,
            "share of the run, from its start, in which the targets' temperature decreases",
            (0, 1),
            ParameterDocs(
                "Consistency", larger="targets become sharp more slowly", paper="30 of 200 epochs (SimGCD's code)"
            ),
        ] = 0.15,
        unsupervised_temperature: Annotated[
            float,
            "tau_u: temperature of the contrastive loss over all images",
            (0.01, 10),
            ParameterDocs(
                "Contrastive losses",
                larger="similar and dissimilar images count more equally in the loss",
                paper="1 (SimGCD's code)",
            ),
        ] = 1.0,
        supervised_temperature: Annotated[
            float,
            "tau: temperature of the contrastive loss between images with the same label",
            (0.01, 10),
            ParameterDocs(
                "Contrastive losses",
                larger="similar and dissimilar images count more equally in the loss",
                paper="0.07 (SimGCD's code)",
            ),
        ] = 0.07,
        projection_width: Annotated[
            int | None,
            "width of the two hidden layers of the projection head; none: 2048, but at most 4 times the "
            "number of features",
            (1, 16384),
            ParameterDocs("Projection", larger="a more powerful but slower head"),
        ] = None,
        projection_outputs: Annotated[
            int,
            "outputs of the projection head, used by the contrastive losses",
            (2, 65536),
            ParameterDocs("Projection", larger="images are compared in more dimensions"),
        ] = 256,
    ):
        super().__init__(network, classes)
        features = network.backbone.num_features
        network.classifier = projection_head(features, projection_width, projection_outputs)
        self.prototypes = nn.Parameter(F.normalize(torch.empty(classes.total, features).uniform_(-1, 1), dim=1))
        self.supervised_weight = supervised_weight
        self.entropy_weight = entropy_weight
        self.student_temperature = student_temperature
        self.teacher_temperature_start = teacher_temperature_start
        self.teacher_temperature_end = teacher_temperature_end
        self.teacher_share = teacher_share
        self.unsupervised_temperature = unsupervised_temperature
        self.supervised_temperature = supervised_temperature

    def terms(
        self, logits: list[Tensor], projected: list[Tensor], targets: Tensor, progress: Progress
    ) -> dict[str, Tensor]:
        """Return SimGCD's weighted loss terms; views: logits (n, classes), projections (n, d), labeled first."""
        of_all, of_labeled = 1 - self.supervised_weight, self.supervised_weight
        sharpness = self.student_temperature / self.teacher_temperature(progress)
        tau = self.supervised_temperature
        return {
            "loss/consistency": of_all * self_distillation(*logits, sharpness),
            "loss/entropy": of_all
            * self.entropy_weight
            * negative_entropy_of_mean(torch.cat(logits), self.class_prior),
            "loss/unsupervised_contrastive": of_all * nt_xent(torch.cat(projected), self.unsupervised_temperature),
            "loss/cross_entropy": of_labeled * F.cross_entropy(labeled_rows(logits, targets), targets.repeat(2)),
            "loss/supervised_contrastive": of_labeled * labeled_contrastive(projected, targets, tau),
        }

    def class_logits(self, outputs: Outputs) -> Tensor:
        """Return cosine(features, prototype) / student temperature (n, classes) in float32, as bf16 is too coarse."""
        with torch.autocast(outputs.features.device.type, enabled=False):
            features, prototypes = outputs.features.float(), self.prototypes.float()
            return F.normalize(features, dim=1) @ F.normalize(prototypes, dim=1).T / self.student_temperature

    def teacher_temperature(self, progress: Progress) -> float:
        """Return the teacher temperature: linear from start to end value over the first epochs, then constant."""
        falling = epochs_of(self.teacher_share, progress.epochs)
        if progress.epoch >= falling:
            return self.teacher_temperature_end
        start, end = self.teacher_temperature_start, self.teacher_temperature_end
        return start + (end - start) * progress.epoch / max(1, falling - 1)

    def predict(self, inference: Inference) -> Prediction:
        """Return the most probable class at the student's temperature."""
        confidence, ids = self.class_logits(inference.unlabeled).softmax(dim=1).max(dim=1)
        return Prediction(ids, confidence)


def self_distillation(first: Tensor, second: Tensor, sharpness: float) -> Tensor:
    """Return the mean over rows of both views of the cross-entropy with the other view's prediction as target.

    first, second: float32 logits (n, k) of the same images. Targets are the softmax of `sharpness` times the logits,
    without gradient.
    """
    targets = [(view.detach() * sharpness).softmax(dim=1) for view in (second, first)]
    return sum(F.cross_entropy(view, target) for view, target in zip((first, second), targets)) / 2
