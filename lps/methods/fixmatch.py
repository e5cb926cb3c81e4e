r"""FixMatch: confident predictions on weak views are labels for strong views; unsure images are clustered as novel.

Citation:
    K. Sohn, D. Berthelot, C.-L. Li, Z. Zhang, N. Carlini, E. D. Cubuk, A. Kurakin, H. Zhang, C. Raffel: FixMatch:
    Simplifying Semi-Supervised Learning with Consistency and Confidence. NeurIPS 2020.

Objective:
    $$\mathcal{L} = \frac{1}{B_l} \sum_{i \in \mathcal{B}_l} \mathrm{CE}(z^w_i, y_i) + \lambda \frac{1}{B_u}
    \sum_{i \in \mathcal{B}_u} \mathbb{1}\big[\max_k q_{ik} \ge t\big]\, \mathrm{CE}\big(z^s_i, \arg\max_k q_{ik}\big),
    \qquad q_i = \mathrm{softmax}(z^w_i)$$

Views:
    View w is weak: a flip and a crop, with pixels beyond the border filled by reflection. It is used for the
    cross-entropy of labeled rows and for the pseudo-labels of unlabeled rows; no gradient flows through these. View s
    is strong. It is used for the cross-entropy of confident unlabeled rows, averaged over all unlabeled rows. The
    classifier has one output per seen class.

Prediction:
    Predictions use the moving average of the weights. An unlabeled image gets a seen class if its confidence reaches
    the threshold. The other images are novel and are clustered by k-means on unit backbone features.

Deviations:
    - Common protocol: SimCLR start and the network that all methods share (original: WideResNet from random weights);
      the optimizer, schedule, weight decay and steps of all methods (original: Nesterov SGD at 0.03, 7/16 of a cosine,
      2^20 steps); labeled and unlabeled images have the same proportion in a batch as in the split (original: 1 to 7);
      one forward pass per view (original: one pass with interleaved views); labeled images get no additional
      pseudo-label.
    - The decay of the average rises as (1 + step) / (10 + step) until it reaches `average_decay`. With a fixed decay of
      0.999, which averages over about 1000 steps, a short run would still be dominated by its start weights. On digits
      (280 steps), every image was then rejected.
    - Rejection and clustering are not in the original; the LPS paper evaluates FixMatch this way.
"""

from copy import deepcopy
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Inference, Method, Prediction, Progress
from lps.methods._closed_set import closed_set_classifier, predict_with_rejection
from lps.methods.parts.measurements import Measurement, Ratio
from lps.methods.parts.pseudo_labels import pseudo_labels
from lps.network.network import Network
from lps.settings.parameters import ParameterDocs


class FixMatch(Method):
    views = ("mirrored", "strong")

    def __init__(
        self,
        network: Network,
        classes: Classes,
        *,
        unlabeled_weight: Annotated[
            float,
            "lambda: weight of the cross-entropy of images with a pseudo-label",
            (0, 100),
            ParameterDocs("Pseudo-labels", larger="guesses count more relative to labels", paper="1 (authors' code)"),
        ] = 1.0,
        threshold: Annotated[
            float,
            "t: confidence needed for a seen class, in training and in prediction",
            (0, 1),
            ParameterDocs(
                "Pseudo-labels",
                larger="the model learns from fewer guesses, and more images are predicted as novel",
                paper="0.95 (authors' code)",
            ),
        ] = 0.95,
        rejection: Annotated[
            Literal["confidence", "closed_set_argmax"],
            "which images are predicted as novel",
            ParameterDocs(
                "Prediction",
                words={
                    "confidence": "images below the threshold",
                    "closed_set_argmax": "none: every image gets a seen class",
                },
            ),
        ] = "confidence",
        head: Annotated[
            Literal["linear", "network"],
            "kind of classifier",
            ParameterDocs(
                "Prediction", words={"linear": "linear (authors' code)", "network": "as set by network.head"}
            ),
        ] = "linear",
        use_average: Annotated[
            bool, "predict with the moving average of the weights instead of the weights", ParameterDocs("Prediction")
        ] = True,
        average_decay: Annotated[
            float,
            "decay of the moving average per step",
            (0, 0.999999),
            ParameterDocs(
                "Prediction",
                larger="the average looks further back",
                paper="0.999 (authors' code)",
                needs="use_average",
            ),
        ] = 0.999,
        test_clusters: Annotated[
            Literal["training", "test"],
            "clusters that test images are assigned to",
            ParameterDocs("Prediction", words={"training": "of the training images", "test": "of the test images"}),
        ] = "training",
    ):
        super().__init__(network, classes)
        network.classifier = closed_set_classifier(network, classes, head)
        self.average = deepcopy(network).requires_grad_(False)
        self.register_buffer("updates", torch.zeros(()))
        self.unlabeled_weight = unlabeled_weight
        self.threshold = threshold
        self.rejection = rejection
        self.use_average = use_average
        self.average_decay = average_decay
        self.test_clusters = test_clusters

    @property
    def evaluated_network(self) -> Network:
        return self.average if self.use_average else self.network

    def start_epoch(self, inference: Inference, progress: Progress) -> None:
        """Start the average at the start weights, which are loaded after the method is built."""
        if progress.epoch == 0:
            self.average.load_state_dict(self.network.state_dict())

    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        weak, strong = self.network.forward_views(batch.views())
        labeled = len(batch.targets)
        predicted = pseudo_labels(
            weak.logits[labeled:].detach().float().softmax(dim=1), self.threshold, self.threshold, self.classes
        )
        supervised = F.cross_entropy(weak.logits[:labeled].float(), batch.targets)
        per_row = F.cross_entropy(strong.logits[labeled:].float(), predicted.labels, reduction="none")
        unlabeled = self.unlabeled_weight * (per_row * predicted.confident).mean()
        total = supervised + unlabeled

        rows = torch.tensor(float(len(per_row)))
        return total, {
            "loss/total": total.detach(),
            "loss/cross_entropy": supervised.detach(),
            "loss/pseudo_label": unlabeled.detach(),
            "threshold/seen": self.threshold,
            "pseudo_label/rate/seen": Ratio(predicted.confident.sum(), rows),
            "pseudo_label/confidence/seen": Ratio(predicted.confidence.sum(), rows),
        }

    @torch.no_grad()
    def after_step(self) -> None:
        """Update average <- decay * average + (1 - decay) * weights; copy the statistics of batch norm."""
        self.updates += 1
        decay = ((1 + self.updates) / (10 + self.updates)).clamp(max=self.average_decay)
        for average, current in zip(self.average.parameters(), self.network.parameters()):
            average.lerp_(current, 1 - decay)
        for average, current in zip(self.average.buffers(), self.network.buffers()):
            average.copy_(current)

    def predict(self, inference: Inference) -> Prediction:
        outputs = inference.unlabeled
        confidence = outputs.logits.float().softmax(dim=1).amax(dim=1)
        accepted = confidence >= (self.threshold if self.rejection == "confidence" else 0)
        return predict_with_rejection(outputs, accepted, self.classes, inference.seed, inference.fitted.get("centres"))
