r"""ORCA: slows seen classes down with a margin, which is larger while the model is unsure; neighbours share a class.

Citation:
    K. Cao, M. Brbić, J. Leskovec: Open-World Semi-Supervised Learning. ICLR 2022.

Objective:
    $$\mathcal{L} = \frac{1}{B_l} \sum_{i \le B_l} -\log
    \frac{e^{z_{iy_i} + m}}{e^{z_{iy_i} + m} + \sum_{k \ne y_i} e^{z_{ik}}}
    - \frac{\eta}{B} \sum_i \log \langle p_i, p'_{j(i)} \rangle + w \sum_k \bar p_k \log \bar p_k,
    \qquad m = C \min(\bar u, c), \qquad \bar u = 1 - \frac{1}{|D_u|} \sum_{x \in D_u} \max_k p_k(x)$$

Views:
    w1 and w2 are weak. View w1 is used for the cross-entropy, the entropy term and the first image of every pair. View
    w2 is used for the second image of every pair. Gradients flow through both images of a pair. The nearest neighbour
    is found with the features of w1. No gradient flows through the neighbour, the uncertainty or the margin. The
    uncertainty is measured before every epoch over all unlabeled images, in evaluation mode and without augmentation.

Deviations:
    - Learning rate, steps, batch and views follow the common protocol (original: learning rate 0.1, times 0.1 after 70
      and 90 % of the run).
    - Scores are computed after each epoch. The original computes them before each epoch, so it never scores the final
      weights.
    - An image cannot be its own nearest neighbour (the diagonal is masked). The original takes the
      second-nearest image, because the nearest one is usually the image itself. If two images are identical, the
      second-nearest one may be the image itself.
    - The partner of a labeled image is the next image of its class in the shuffled batch. As in the original, every
      other image of the class is equally likely to be the partner. Unlike in the original, no two images have the same
      partner.
    - The pair loss is computed in log space. The original limits it to 100.
    - The regularizer is the entropy term of the authors' code, which assumes a uniform prior. With another prior q, it
      is w KL(p || q), up to a constant.
"""

from typing import Annotated

import torch
from torch import Tensor

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Inference, Method, Progress
from lps.methods.parts.losses import (
    margin_cross_entropy,
    negative_entropy_of_mean,
    pair_loss,
    pair_partners,
    similarities,
)
from lps.methods.parts.measurements import Measurement, sum_terms
from lps.methods.parts.pseudo_labels import distribution_measurements
from lps.network.network import Network
from lps.settings.parameters import ParameterDocs


class ORCA(Method):
    uses_prior = True
    views = ("weak", "weak")

    def __init__(
        self,
        network: Network,
        classes: Classes,
        *,
        margin_scale: Annotated[
            float,
            "C: what the margin adds to a seen logit per unit of uncertainty; 0: no margin",
            (0, 1000),
            ParameterDocs(
                "Margin",
                larger="seen classes are held back more while the network is unsure",
                paper="10 (authors' code)",
            ),
        ] = 10.0,  # default of margin_scale
        uncertainty_cap: Annotated[
            float,
            "c: largest uncertainty that the margin takes into account",
            (0, 1),
            ParameterDocs(
                "Margin", larger="a very unsure network holds the seen classes back more", paper="0.5 (authors' code)"
            ),
        ] = 0.5,
        pairwise_weight: Annotated[
            float,
            "eta: weight of the loss of positive pairs",
            (0, 100),
            ParameterDocs(
                "Pairs", larger="predictions of the images of a pair become more similar", paper="1 (authors' code)"
            ),
        ] = 1.0,
        entropy_weight: Annotated[
            float,
            "w: weight of the entropy term that keeps all classes in use",
            (0, 100),
            ParameterDocs(
                "Entropy", larger="guesses are spread more evenly over the classes", paper="1 (authors' code)"
            ),
        ] = 1.0,
    ):
        super().__init__(network, classes)
        self.margin_scale = margin_scale
        self.uncertainty_cap = uncertainty_cap
        self.pairwise_weight = pairwise_weight
        self.entropy_weight = entropy_weight
        self.register_buffer("uncertainty", torch.tensor(1.0))
        self.register_buffer("is_seen", (torch.arange(classes.total) < classes.seen).float(), persistent=False)

    def start_epoch(self, inference: Inference, progress: Progress) -> None:
        """Measure the uncertainty: 1 - mean confidence on the unlabeled images."""
        confidence = inference.unlabeled.logits.float().softmax(dim=1).amax(dim=1)
        self.uncertainty.copy_(1 - confidence.mean())

    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        first, second = self.network.forward_views(batch.views())
        partners = pair_partners(similarities(first.features.detach(), temperature=1.0), batch.targets)
        margins, labeled = self.margins(), len(batch.targets)
        terms = {
            "loss/cross_entropy": margin_cross_entropy(first.logits[:labeled], batch.targets, margins).mean(),
            "loss/pairwise": self.pairwise_weight * pair_loss(first.logits, second.logits, partners),
            "loss/entropy": self.entropy_weight * negative_entropy_of_mean(first.logits, self.class_prior),
        }

        mean = first.logits.detach().float().softmax(dim=1).mean(dim=0)
        total, measured = sum_terms(terms)
        measured |= {"uncertainty": self.uncertainty, "margin": margins}
        return total, measured | distribution_measurements(mean, self.class_prior)

    def margins(self) -> Tensor:
        """Return (classes,), added to a target's logit: margin_scale * min(uncertainty, cap) if seen, 0 if novel."""
        return self.margin_scale * self.uncertainty.clamp_max(self.uncertainty_cap) * self.is_seen
