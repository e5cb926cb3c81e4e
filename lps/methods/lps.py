r"""LPS: an adaptive margin slows the seen classes down until the estimated class distribution meets the prior.

Citation:
    B. Ye, K. Gan, T. Wei, M.-L. Zhang: Bridging the Gap: Learning Pace Synchronization for Open-World Semi-Supervised
    Learning. IJCAI 2024.

Objective:
    $$\mathcal{L} = \mathcal{L}_{AM}
    + \eta_1 \mathcal{L}_{PC} + \eta_2 \mathcal{L}_{UC} + w \sum_k \bar p_k \log \bar p_k,
    \qquad \ell_{AM}(z, y) = -\log \frac{e^{z_y + \delta_y}}{e^{z_y + \delta_y} + \sum_{j \ne y} e^{z_j}},
    \qquad \delta_k = C \cdot \mathrm{KL} \cdot \frac{\hat\pi_k}{\max_j \hat\pi_j}$$

Views:
    w1 and w2 are weak, s is strong. View w1 is used for the cross-entropy of labeled rows and for the entropy term.
    View w2 gives the pseudo-labels and the class distribution. View s is used for the cross-entropy of confident
    unlabeled rows. Both contrastive terms use w2 and s. No gradient flows through the pseudo-labels, the class
    distribution or the margin.

Deviations:
    - The defaults follow the authors' code where it differs from the paper. The variants of the paper are options:
      `kl_direction`, `contrast_space`, `contrast_normalizer`, `threshold_clock`, `weak_views`. `contrast_variant` also
      offers a form that is neither in the code nor in the paper.
    - Thresholds depend on the completed share of the epochs. The authors' code divides the epoch by 200 (90 on
      ImageNet).
    - Contrastive sums are log-sum-exps in float32 with the diagonal masked. The authors' code sums over all entries and
      then subtracts the exponential of the diagonal.
    - The estimated distribution is clamped at 1e-8 inside the logarithm.
    - The prior of the paper is equal shares. With another prior q (`prior`) and the estimate pi, KL is KL(q || pi) or
      KL(pi || q). The entropy term is w KL(p || q), up to a constant. The last factor of the margin is r_k / max r
      instead of pi_k / max pi, with r_k = pi_k / max(q_k, 0.1 / K).
"""

from typing import Annotated, Literal

import torch
from torch import Tensor

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Method, Progress
from lps.methods.parts.losses import (
    margin_cross_entropy,
    negative_entropy_of_mean,
    similarities,
    supervised_contrastive,
    two_view_contrastive,
)
from lps.methods.parts.measurements import Measurement, sum_terms
from lps.methods.parts.pseudo_labels import (
    PseudoLabels,
    class_distribution,
    distribution_measurements,
    kl_from_estimate,
    kl_from_prior,
    pseudo_label_rates,
    pseudo_labels,
)
from lps.network.network import Network, Outputs
from lps.settings.parameters import ParameterDocs

MIN_SHARE = 0.1  # of an equal share: least value of a prior's share in the factor of the margin


class LPS(Method):
    uses_prior = True

    def __init__(
        self,
        network: Network,
        classes: Classes,
        *,
        margin_scale: Annotated[
            float,
            "C: factor of the adaptive margin; 0: no margin",
            (0, 1000),
            ParameterDocs(
                "Margin",
                larger="classes that are guessed too often are held back more",
                paper="10; tried 1 to 20",
                needs="use_margin",
            ),
        ] = 10.0,  # default of margin_scale; 2 with features=stored (_ON_STORED_FEATURES_BY_METHOD, lps/settings)
        use_margin: Annotated[
            bool,
            "use the adaptive margin; otherwise the loss is plain cross-entropy (ablation w/o L_AM)",
            ParameterDocs("Margin"),
        ] = True,
        threshold_seen: Annotated[
            float,
            "lambda_seen: confidence needed for a pseudo-label of a seen class",
            (0, 1),
            ParameterDocs(
                "Thresholds",
                larger="the model learns from fewer but more confident guesses of seen classes",
                paper="0.95",
            ),
        ] = 0.95,
        threshold_novel_start: Annotated[
            float,
            "lambda_novel: confidence needed for a novel pseudo-label in the first epoch",
            (0, 1),
            ParameterDocs("Thresholds", larger="novel pseudo-labels come later, and only confident ones", paper="0.4"),
        ] = 0.4,
        threshold_novel_end: Annotated[
            float,
            "lambda_novel: confidence needed for a novel pseudo-label at the end of the run; the "
            "threshold changes evenly from its value in the first epoch to this value",
            (0, 1),
            ParameterDocs(
                "Thresholds",
                larger="late in training, fewer but more confident novel guesses count",
                paper="0.8; tried 0.7 to 0.9",
            ),
        ] = 0.8,
        pseudo_label_weight: Annotated[
            float,
            "eta1: weight of the pseudo-label contrastive loss",
            (0, 100),
            ParameterDocs(
                "Contrastive losses",
                larger="images with the same guess are pulled together more",
                paper="1; tried 0.6 to 1.4",
            ),
        ] = 1.0,
        unsupervised_weight: Annotated[
            float,
            "eta2: weight of the unsupervised contrastive loss",
            (0, 100),
            ParameterDocs(
                "Contrastive losses",
                larger="images without a confident guess are pushed apart more",
                paper="1; tried 0.6 to 1.4",
            ),
        ] = 1.0,
        temperature: Annotated[
            float,
            "tau: temperature of both contrastive losses",
            (0.01, 10),
            ParameterDocs(
                "Contrastive losses",
                larger="similar and dissimilar images count more equally in the loss",
                paper="0.4; tried 0.2 to 0.6",
            ),
        ] = 0.4,
        entropy_weight: Annotated[
            float,
            "w: weight of the entropy term that keeps all classes in use",
            (0, 100),
            ParameterDocs(
                "Entropy",
                larger="guesses are spread more evenly over the classes",
                paper="1 (authors' code; the paper gives no value)",
            ),
        ] = 1.0,
        threshold_clock: Annotated[
            Literal["epoch", "iteration"],
            "when the novel threshold moves",
            ParameterDocs(
                "Variants of the paper",
                words={"epoch": "every epoch (authors' code)", "iteration": "every step (paper)"},
            ),
        ] = "epoch",
        kl_direction: Annotated[
            Literal["uniform_to_est", "est_to_uniform"],
            "direction of the KL divergence in the margin",
            ParameterDocs(
                "Variants of the paper",
                words={
                    "uniform_to_est": "prior ‖ estimate (authors' code)",
                    "est_to_uniform": "estimate ‖ prior (paper)",
                },
                needs="use_margin",
            ),
        ] = "uniform_to_est",
        contrast_space: Annotated[
            Literal["cosine_logits", "raw_logits", "features"],
            "what the contrastive losses compare",
            ParameterDocs(
                "Variants of the paper",
                words={
                    "cosine_logits": "logits, length 1 (authors' code)",
                    "raw_logits": "logits as they are (paper)",
                    "features": "features, length 1",
                },
            ),
        ] = "cosine_logits",
        contrast_normalizer: Annotated[
            Literal["batch", "subset"],
            "what the denominator of the unsupervised contrastive loss sums over",
            ParameterDocs(
                "Variants of the paper",
                words={
                    "batch": "all views of the batch (authors' code)",
                    "subset": "only views of images without a confident guess (paper)",
                },
            ),
        ] = "batch",
        contrast_variant: Annotated[
            Literal["in", "out"],
            "position of the mean over images with the same guess",
            ParameterDocs(
                "Variants of the paper",
                words={"in": "inside the logarithm (authors' code, paper)", "out": "outside the logarithm"},
            ),
        ] = "in",
        weak_views: Annotated[
            Literal["2", "1"],
            "number of weak views per image",
            ParameterDocs("Variants of the paper", words={"2": "two (authors' code)", "1": "one (paper)"}),
        ] = "2",
    ):
        super().__init__(network, classes)
        self.views = ("weak",) * int(weak_views) + ("strong",)
        self.margin_scale = margin_scale if use_margin else 0.0
        self.pseudo_label_weight = pseudo_label_weight
        self.unsupervised_weight = unsupervised_weight
        self.entropy_weight = entropy_weight
        self.temperature = temperature
        self.threshold_seen = threshold_seen
        self.threshold_novel_start, self.threshold_novel_end = threshold_novel_start, threshold_novel_end
        self.threshold_clock = threshold_clock
        self.kl_direction = kl_direction
        self.contrast_space = contrast_space
        self.contrast_normalizer = contrast_normalizer
        self.contrast_variant = contrast_variant

    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        outputs = self.network.forward_views(batch.views())
        first, second, strong = outputs[0], outputs[-2], outputs[-1]  # first and second are the same with one weak view
        labeled = len(batch.targets)
        probabilities = second.logits.detach().float().softmax(dim=1)
        threshold_novel = self.threshold_novel(progress)
        predicted = pseudo_labels(probabilities, self.threshold_seen, threshold_novel, self.classes)
        known = _with_labels(predicted, batch.targets)
        pi_hat = class_distribution(probabilities, known.confident)
        margins = self.margins(pi_hat)

        terms = {"loss/adaptive_margin": self._adaptive_margin(first, strong, known, margins, labeled)}
        terms |= self._contrastive(second, strong, known)
        terms["loss/entropy"] = self.entropy_weight * negative_entropy_of_mean(first.logits, self.class_prior)

        total, measured = sum_terms(terms)
        measured |= {
            **distribution_measurements(pi_hat, self.class_prior),
            "kl/margin": self.kl(pi_hat),
            "margin": margins,
        }
        measured |= {"threshold/seen": self.threshold_seen, "threshold/novel": threshold_novel}
        return total, measured | pseudo_label_rates(PseudoLabels(*(part[labeled:] for part in predicted)), self.classes)

    def threshold_novel(self, progress: Progress) -> float:
        """Return lambda_novel, which moves from its start to its end value with the run's progress."""
        done = progress.by_epoch if self.threshold_clock == "epoch" else progress.by_step
        return self.threshold_novel_start + (self.threshold_novel_end - self.threshold_novel_start) * done

    def kl(self, pi_hat: Tensor) -> Tensor:
        """Return the KL between the prior and pi_hat in the direction that the margin uses."""
        measure = kl_from_prior if self.kl_direction == "uniform_to_est" else kl_from_estimate
        return measure(pi_hat, self.class_prior)

    def margins(self, pi_hat: Tensor) -> Tensor:
        """Return delta (classes,), the margin added to a target's logit: C * KL * r / max r, with r_k = pi_k / q_k.

        With the margin, an image of class k has the loss of one whose odds of k are exp(delta_k) times as large, so
        training settles for odds that are smaller by this factor. A model that predicts the shares pi predicts the
        shares q once the odds of k are smaller by pi_k / q_k (logit adjustment, Menon et al., ICLR 2021). So the larger
        pi_k / q_k is, the more class k has to be held back; classes predicted too often by the same factor are held
        back alike, whatever their sizes. With equal shares q_k = 1 / K this is the paper's pi_k / max_j pi_j. Shares of
        q below a tenth of 1 / K count as a tenth: a batch has too few images of such a class to show how often it is
        predicted, and one of them would take the margin from all others.
        """
        relative = pi_hat
        if self.class_prior is not None:
            relative = pi_hat / self.class_prior.clamp_min(MIN_SHARE / len(pi_hat))
        return self.margin_scale * self.kl(pi_hat) * relative / relative.max().clamp_min(1e-8)

    def _adaptive_margin(
        self, first: Outputs, strong: Outputs, pseudo_labels: PseudoLabels, margins: Tensor, labeled: int
    ) -> Tensor:
        """Return the mean over labeled rows (first view) plus the mean over *all* unlabeled rows of the confident ones
        (strong).
        """
        supervised = margin_cross_entropy(first.logits[:labeled], pseudo_labels.labels[:labeled], margins).mean()
        unlabeled = margin_cross_entropy(strong.logits[labeled:], pseudo_labels.labels[labeled:], margins)
        return supervised + (unlabeled * pseudo_labels.confident[labeled:]).mean()

    def _contrastive(self, second: Outputs, strong: Outputs, pseudo_labels: PseudoLabels) -> dict[str, Tensor]:
        """Return both contrastive terms from one similarity matrix of the 2B rows of the two views."""
        pairs = [view.features if self.contrast_space == "features" else view.logits for view in (second, strong)]
        similarity = similarities(torch.cat(pairs), self.temperature, normalize=self.contrast_space != "raw_logits")
        labels, confident = pseudo_labels.labels.repeat(2), pseudo_labels.confident.repeat(2)
        clustered = supervised_contrastive(similarity, labels, confident, self.contrast_variant)
        self_supervised = two_view_contrastive(similarity, ~confident, self.contrast_normalizer)
        return {
            "loss/pseudo_label_contrastive": self.pseudo_label_weight * clustered,
            "loss/unsupervised_contrastive": self.unsupervised_weight * self_supervised,
        }


def _with_labels(predicted: PseudoLabels, targets: Tensor) -> PseudoLabels:
    """Give the labeled rows, which come first, their true labels, and mark them as confident."""
    labels, confident = predicted.labels.clone(), predicted.confident.clone()
    labels[: len(targets)] = targets
    confident[: len(targets)] = True
    return PseudoLabels(labels, predicted.confidence, confident)
