r"""DS3L: a second network weighs every unlabeled image, so that a training step lowers the loss on labeled images.

Citation:
    L.-Z. Guo, Z.-Y. Zhang, Y. Jiang, Y.-F. Li, Z.-H. Zhou: Safe Deep Semi-Supervised Learning for Unseen-Class
    Unlabeled Data. ICML 2020.

Objective:
    $$\mathcal{L}(\theta, a) = \frac{\eta}{B_l} \sum_{i \in \mathcal{B}_l} \mathrm{CE}(z^1_i, y_i) + c(t)
    \frac{\sum_{i \in \mathcal{B}_u} w_i d_i}{\sum_{i \in \mathcal{B}_u} w_i}, \qquad
    d_i = \frac{1}{K_s} \big\| \mathrm{softmax}(z^2_i) - \mathrm{sg}[\mathrm{softmax}(z^1_i)] \big\|^2, \qquad
    w_i = g_a(\mathrm{softmax}(z^1_i))$$
    $$\min_a \; \mathrm{CE}\big(\theta - \alpha \nabla_\theta \mathcal{L}(\theta, a)\big), \qquad
    c(t) = c_{\max}\, e^{-5 (1 - t)^2}$$

Views:
    Views 1 and 2 are both weak. View 1 is used for the cross-entropy of labeled rows and for the target of the
    consistency term. Its predictions are also the input of the weight network g_a. The prediction for view 2 should
    agree with the target. Each training step has two parts. The virtual step updates a temporary copy of theta. The
    cross-entropy of the labeled rows in view 2 measures the result and trains the weight network. The real step then
    updates theta with the image weights w; no gradient flows through w there.

Prediction:
    As in FixMatch, an image gets a seen class if its confidence reaches the threshold. The other images are novel and
    are clustered by k-means on unit backbone features. The setting `rejection` offers two other rules: an image gets a
    seen class if its weight reaches a threshold, or if its weight is not among the lowest. The objective divides the
    weights by their sum, so only their order is meaningful.

Deviations:
    - The original passes each image twice through a network that augments it inside (flip, shift, noise). We use two
      weak views instead, with one forward pass per view. The virtual and the real step share these passes.
    - Common protocol: SimCLR start and the network that all methods share (original: WideResNet from random weights);
      the optimizer, schedule, weight decay and steps of all methods (original: Adam at 3e-4, 200,000 steps); labeled
      and unlabeled images have the same proportion in a batch as in the split (original: half and half). In c(t), t is
      the completed share of the training steps: as in the original, c increases during the whole run.
    - Cross-entropy is a mean over labeled rows. The original divides by the number of all rows. If half of the rows are
      labeled, the original corresponds to `supervised_weight` = 0.5 here.
    - The pass that measures the virtual step does not change the running statistics of batch norm. The original uses a
      copy of the network for this pass, with the same effect.
    - Rejection and clustering are not in the original; the LPS paper evaluates DS3L this way.
"""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Inference, Method, Prediction, Progress
from lps.methods._closed_set import closed_set_classifier, predict_with_rejection
from lps.methods.parts.measurements import Measurement
from lps.methods.parts.optimizers import without_compiler
from lps.methods.parts.schedules import ramp_up
from lps.network.network import Network
from lps.settings.parameters import ParameterDocs

_TINY = 1e-8  # keeps the mean finite if every weight is 0


class DS3L(Method):
    views = ("weak", "weak")
    distributes = False  # the virtual step differentiates a gradient, and a rank has only that of its own rows

    def __init__(
        self,
        network: Network,
        classes: Classes,
        *,
        supervised_weight: Annotated[
            float,
            "eta: weight of the cross-entropy of labeled images",
            (0, 100),
            ParameterDocs(
                "Labels",
                larger="the labels count more",
                paper="0.5 (authors' code, which divides by the size of the whole batch)",
            ),
        ] = 1.0,
        consistency_weight: Annotated[
            float,
            "c_max: weight of the consistency term at the end of the run",
            (0, 1000),
            ParameterDocs(
                "Consistency",
                larger="predictions of both views of an image become more similar",
                paper="10 (authors' code)",
            ),
        ] = 10.0,
        virtual_lr: Annotated[
            float,
            "alpha: learning rate of the virtual step",
            (0, 100),
            ParameterDocs("Weights of images", larger="the virtual step is larger", paper="0.001 (authors' code)"),
        ] = 1e-3,
        weight_lr: Annotated[
            float,
            "learning rate of the weight network's Adam",
            (0, 100),
            ParameterDocs("Weights of images", larger="the weights change faster", paper="6e-05 (authors' code)"),
        ] = 6e-5,
        rejection: Annotated[
            Literal["confidence", "weight", "novel_share"],
            "how novel images are recognized. With the choice 'the lowest weights', the images with the lowest weights "
            "are novel; their number is computed as if all classes had the same size",
            ParameterDocs(
                "Prediction",
                words={
                    "confidence": "confidence below a threshold",
                    "weight": "weight below a threshold",
                    "novel_share": "the lowest weights",
                },
            ),
        ] = "confidence",
        threshold: Annotated[
            float,
            "minimum confidence for a seen class, if confidence decides",
            (0, 1),
            ParameterDocs("Prediction", larger="more images are predicted as novel"),
        ] = 0.95,
        weight_threshold: Annotated[
            float,
            "minimum weight for a seen class, if weight decides",
            (0, 1),
            ParameterDocs("Prediction", larger="more images are predicted as novel"),
        ] = 0.5,
        head: Annotated[
            Literal["linear", "network"],
            "kind of classifier",
            ParameterDocs(
                "Prediction", words={"linear": "linear (authors' code)", "network": "as set by network.head"}
            ),
        ] = "linear",
        test_clusters: Annotated[
            Literal["training", "test"],
            "clusters that test images are assigned to",
            ParameterDocs("Prediction", words={"training": "of the training images", "test": "of the test images"}),
        ] = "training",
    ):
        super().__init__(network, classes)
        network.classifier = closed_set_classifier(network, classes, head)
        self.weight_network = nn.Sequential(nn.Linear(classes.seen, 100), nn.ReLU(), nn.Linear(100, 1), nn.Sigmoid())
        self.weight_network.requires_grad_(False)  # trained only by `weight_optimizer`
        self.weight_optimizer = without_compiler(torch.optim.Adam)(self.weight_network.parameters(), lr=weight_lr)
        self.supervised_weight = supervised_weight
        self.consistency_weight = consistency_weight
        self.virtual_lr = virtual_lr
        self.rejection = rejection
        self.threshold = threshold
        self.weight_threshold = weight_threshold
        self.test_clusters = test_clusters

    def get_extra_state(self) -> dict:
        """Return the state of the weight network's Adam for the checkpoint."""
        return self.weight_optimizer.state_dict()

    def set_extra_state(self, state: dict) -> None:
        self.weight_optimizer.load_state_dict(state)

    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        first, second = self.network.forward_views(batch.views())
        labeled = len(batch.targets)
        probabilities = first.logits[labeled:].float().softmax(dim=1)
        agreed = second.logits[labeled:].float().softmax(dim=1)
        differences = (agreed - probabilities.detach()).square().mean(dim=1)
        supervised = self.supervised_weight * F.cross_entropy(first.logits[:labeled].float(), batch.targets)
        factor = self.ramp(progress)

        outer = self._learn_weights(supervised, factor, differences, probabilities, batch)
        weights = self.weigh(probabilities.detach())
        consistency = factor * _weighted_mean(differences, weights)
        total = supervised + consistency
        return total, {
            "loss/total": total.detach(),
            "loss/cross_entropy": supervised.detach(),
            "loss/consistency": consistency.detach(),
            "consistency_weight": factor,
            "consistency/difference": differences.detach().mean(),
            "image_weight/mean": weights.mean(),
            "image_weight/deviation": weights.std(correction=0),
            "image_weight/outer_loss": outer,
        }

    def ramp(self, progress: Progress) -> float:
        """Return c(t): from 0.7 % of the consistency weight at the first step to all of it at the last."""
        return self.consistency_weight * ramp_up(progress.by_step, 1)

    def weigh(self, probabilities: Tensor, parameters: dict[str, Tensor] | None = None) -> Tensor:
        """Return the weight of each row of (n, seen) probabilities, float32 (n,) in [0, 1]. parameters: else own."""
        with torch.autocast(probabilities.device.type, enabled=False):
            return functional_call(self.weight_network, parameters or {}, (probabilities,)).squeeze(1)

    def _learn_weights(
        self, supervised: Tensor, factor: float, differences: Tensor, probabilities: Tensor, batch: Batch
    ) -> Tensor:
        """Train the weight network by one step on the labeled cross-entropy after a virtual step of the network.

        Returns that cross-entropy. The graph of `supervised`, `differences` and `probabilities` stays for the real
        step.
        """
        weights = {name: value.detach().requires_grad_() for name, value in self.weight_network.named_parameters()}
        inner = supervised + factor * _weighted_mean(differences, self.weigh(probabilities, weights))
        virtual = self._virtual_step(inner)
        buffer_copies = {name: value.clone() for name, value in self.network.named_buffers()}
        labeled_logits = functional_call(self.network, virtual | buffer_copies, (batch.labeled_views[1],))
        outer = F.cross_entropy(labeled_logits.logits.float(), batch.targets)
        for parameter, gradient in zip(self.weight_network.parameters(), torch.autograd.grad(outer, weights.values())):
            parameter.grad = gradient
        self.weight_optimizer.step()
        return outer.detach()

    def _virtual_step(self, inner: Tensor) -> dict[str, Tensor]:
        """Return trained parameters by name after theta - alpha * gradient of `inner`, with that gradient's graph."""
        trained = {name: value for name, value in self.network.named_parameters() if value.requires_grad}
        gradients = torch.autograd.grad(inner, trained.values(), create_graph=True)
        return {name: value - self.virtual_lr * grad for (name, value), grad in zip(trained.items(), gradients)}

    def predict(self, inference: Inference) -> Prediction:
        probabilities, fitted = inference.unlabeled.logits.float().softmax(dim=1), inference.fitted
        if self.rejection == "confidence":
            accepted = probabilities.amax(dim=1) >= self.threshold
        elif self.rejection == "weight":
            accepted = self.weigh(probabilities) >= self.weight_threshold
        elif fitted:
            accepted = self.weigh(probabilities) > fitted["heaviest_rejected"]
        else:
            accepted = self._reject_lightest(self.weigh(probabilities), len(inference.targets))
        prediction = predict_with_rejection(
            inference.unlabeled, accepted, self.classes, inference.seed, fitted.get("centres")
        )
        if self.rejection == "novel_share" and not fitted:
            rejected = self.weigh(probabilities)[~accepted]
            prediction.fitted["heaviest_rejected"] = rejected.amax() if len(rejected) else rejected.new_tensor(-1.0)
        return prediction

    def _reject_lightest(self, weights: Tensor, labeled: int) -> Tensor:
        """Return bool (n,): False for the lowest weights, as many as novel images if all classes have equal size."""
        novel = round((labeled + len(weights)) * self.classes.novel / self.classes.total)
        accepted = torch.ones_like(weights, dtype=torch.bool)
        accepted[weights.argsort(stable=True)[:novel]] = False
        return accepted


def _weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Return sum w v / sum w of two (n,) tensors; 0 if all weights are 0."""
    return (weights * values).sum() / weights.sum().clamp_min(_TINY)
