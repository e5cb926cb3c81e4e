r"""NACH: filtered pairs of similar images, and pseudo-labels. Novel pseudo-labels have a threshold of their own.

Citation:
    L.-Z. Guo, Y.-G. Zhang, Z.-F. Wu, J.-J. Shao, Y.-F. Li: Robust Semi-Supervised Learning when Not All Classes have
    Labels. NeurIPS 2022.

Objective:
    $$\mathcal{L} = \frac{1}{B_l} \sum_{i \le B_l} \ell(z_i, y_i)
    - \frac{\eta_1}{B} \sum_i \log \langle p_i, p'_{j(i)} \rangle
    + \frac{\eta_2}{B} \sum_i m_i\, \ell(z''_i + \log (K \hat\pi), \hat y_i) + w \sum_k \bar p_k \log \bar p_k,
    \qquad \lambda_{novel} = \lambda_{seen} - \min(s g, c)$$

Views:
    w1 and w2 are weak, s is strong. View w1 is used for the cross-entropy, the entropy term and the first image of
    every pair. View w2 is used for the second image of every pair, and for the pseudo-labels, the class distribution
    and the confidence. View s is used for the cross-entropy of confident rows. Labeled rows are among them, with their
    predicted label instead of the given one. Neighbours are found with the features of w1. No gradient flows through
    pseudo-labels, class distribution, confidence and neighbours.

Deviations:
    - There is no official code. We follow two third-party implementations. Two choices are ours: the
      number k of the pair filter (`filter_rank`) depends on the number of classes (theirs: 1 and 2), and the confidence
      gap is computed over all rows.
    - Learning rate, steps, batch and views follow the common protocol.
    - The pair loss is computed in log space. An image cannot be its own nearest neighbour (the diagonal is masked).
    - The partner of a labeled image is the next image of its class in the shuffled batch, so every other image of the
      class is equally likely.
    - The class distribution is clamped at 1e-8 inside the logarithm.
    - The logit adjustment and the entropy term assume equal shares. With another prior q, log(pi_k / q_k) is added to
      the logits, and the entropy term is w KL(p || q), up to a constant.
    - If no row of an epoch was predicted as seen, the confidence of seen classes counts as 0 in the confidence gap. The
      same holds for novel classes.
"""

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Inference, Method, Progress
from lps.methods.parts.losses import negative_entropy_of_mean, pair_loss, pair_partners, similarities
from lps.methods.parts.measurements import Measurement, Ratio, sum_terms
from lps.methods.parts.pseudo_labels import (
    TINY,
    PseudoLabels,
    class_distribution,
    distribution_measurements,
    pseudo_label_rates,
    pseudo_labels,
)
from lps.network.network import Network
from lps.settings.parameters import ParameterDocs


class NACH(Method):
    uses_prior = True
    views = ("weak", "weak", "strong")

    def __init__(
        self,
        network: Network,
        classes: Classes,
        *,
        threshold_seen: Annotated[
            float,
            "lambda_seen: confidence needed for a pseudo-label of a seen class",
            (0, 1),
            ParameterDocs(
                "Thresholds",
                larger="the model learns from fewer but more confident guesses",
                paper="0.95 (third-party code)",
            ),
        ] = 0.95,
        gap_scale: Annotated[
            float,
            "s: decrease of the novel threshold per unit of the confidence gap",
            (0, 100),
            ParameterDocs(
                "Thresholds", larger="lagging novel classes need less confidence", paper="2 (third-party code)"
            ),
        ] = 2.0,
        gap_cap: Annotated[
            float,
            "c: largest decrease of the novel threshold",
            (0, 1),
            ParameterDocs(
                "Thresholds",
                larger="novel classes that lag far behind need less confidence",
                paper="0.5 (third-party code)",
            ),
        ] = 0.5,
        gap_start: Annotated[
            float,
            "g: value used as confidence gap (seen minus novel) in the first epoch, before the gap is measured",
            (-1, 1),
            ParameterDocs(
                "Thresholds",
                larger="novel classes need less confidence in the first epoch",
                paper="1 (third-party code)",
            ),
        ] = 1.0,
        filter_rank: Annotated[
            int | None,
            "k: a pair is used if its two images are at least as similar as the neighbour and its k-th most similar "
            "labeled image; none: k = 2 up to 10 classes, 1 above",
            (1, 1000),
            ParameterDocs(
                "Pairs", larger="more pairs are used, including doubtful ones", paper="1 or 2 (third-party code)"
            ),
        ] = None,
        pairwise_weight: Annotated[
            float,
            "eta1: weight of the loss of positive pairs",
            (0, 100),
            ParameterDocs(
                "Pairs", larger="predictions of the images of a pair become more similar", paper="1 (third-party code)"
            ),
        ] = 1.0,
        pseudo_label_weight: Annotated[
            float,
            "eta2: weight of the pseudo-label cross-entropy",
            (0, 100),
            ParameterDocs(
                "Pseudo-labels", larger="guesses count more relative to labels", paper="1 (third-party code)"
            ),
        ] = 1.0,
        entropy_weight: Annotated[
            float,
            "w: weight of the entropy term that keeps all classes in use",
            (0, 100),
            ParameterDocs(
                "Entropy", larger="guesses are spread more evenly over the classes", paper="1 (third-party code)"
            ),
        ] = 1.0,
    ):
        super().__init__(network, classes)
        self.threshold_seen = threshold_seen
        self.gap_scale, self.gap_cap = gap_scale, gap_cap
        self.filter_rank = filter_rank or (2 if classes.total <= 10 else 1)
        self.pairwise_weight = pairwise_weight
        self.pseudo_label_weight = pseudo_label_weight
        self.entropy_weight = entropy_weight
        self.register_buffer("pace_gap", torch.tensor(float(gap_start)))
        self.register_buffer("confidence_sum", torch.zeros(2))  # sums of batch means: rows predicted as seen, as novel
        self.register_buffer("confidence_steps", torch.zeros(2))  # batches that had such a row

    def start_epoch(self, inference: Inference, progress: Progress) -> None:
        """Set the confidence gap of the last epoch: mean of rows predicted as seen minus mean of those as novel."""
        seen, novel = self.confidence_sum / self.confidence_steps.clamp_min(1)
        measured = self.confidence_steps.sum() > 0
        self.pace_gap.copy_(torch.where(measured, seen - novel, self.pace_gap))
        self.confidence_sum.zero_()
        self.confidence_steps.zero_()

    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        first, second, strong = self.network.forward_views(batch.views())
        targets, labeled = batch.targets, len(batch.targets)
        similarity = similarities(first.features.detach(), temperature=1.0)
        partners, is_accepted = filtered_partners(similarity, targets, self.filter_rank)
        probabilities = second.logits.detach().float().softmax(dim=1)
        threshold_novel = self.threshold_novel()
        predicted = pseudo_labels(probabilities, self.threshold_seen, threshold_novel, self.classes)
        pi_hat = class_distribution(probabilities, predicted.confident)
        self._add_confidence(predicted)

        adjusted = logit_adjusted_cross_entropy(strong.logits, predicted, pi_hat, self.class_prior)
        terms = {
            "loss/cross_entropy": F.cross_entropy(first.logits[:labeled].float(), targets),
            "loss/pairwise": self.pairwise_weight * pair_loss(first.logits, second.logits, partners),
            "loss/logit_adjusted": self.pseudo_label_weight * adjusted,
            "loss/entropy": self.entropy_weight * negative_entropy_of_mean(first.logits, self.class_prior),
        }

        total, measured = sum_terms(terms)
        # A batch without a confident row has no class distribution
        has_confident_row = predicted.confident.any().float()
        prior_measurements = distribution_measurements(pi_hat, self.class_prior)
        measured |= {
            name: Ratio(has_confident_row * value, has_confident_row) for name, value in prior_measurements.items()
        }
        measured |= {
            "threshold/seen": self.threshold_seen,
            "threshold/novel": threshold_novel,
            "pace_gap": self.pace_gap,
        }
        measured["pair/rejected"] = 1 - is_accepted.float().mean()
        return total, measured | pseudo_label_rates(PseudoLabels(*(part[labeled:] for part in predicted)), self.classes)

    def threshold_novel(self) -> Tensor:
        """Return the threshold of novel labels, lower than that of seen ones while the seen classes are ahead."""
        return self.threshold_seen - (self.gap_scale * self.pace_gap).clamp_max(self.gap_cap)

    def _add_confidence(self, predicted: PseudoLabels) -> None:
        """Add this batch's mean confidences on rows predicted as seen and as novel to those of the epoch."""
        is_seen = predicted.labels < self.classes.seen
        rows = torch.stack([is_seen, ~is_seen]).to(predicted.confidence.dtype)
        counts = rows.sum(dim=1)
        self.confidence_sum += (rows * predicted.confidence).sum(dim=1) / counts.clamp_min(1)
        self.confidence_steps += counts > 0


def filtered_partners(similarity: Tensor, targets: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return (partners (n,), accepted bool (unlabeled,)) as `pair_partners`; rejected rows are their own partners.

    similarity (n, n) with the diagonal masked out. Row i and its nearest neighbour j are accepted if they are at least
    as similar as j and its `rank`-th most similar labeled row, in whose ranking a labeled j itself comes first, with 1.
    """
    labeled = len(targets)
    partners = pair_partners(similarity, targets)
    to_labeled = similarity[:, :labeled].clone().fill_diagonal_(1.0)
    needed = to_labeled.topk(min(rank, labeled), dim=1).values[:, -1]
    rows = torch.arange(len(similarity), device=similarity.device)
    is_accepted = similarity[rows, partners] >= needed[partners]
    is_accepted[:labeled] = True
    return torch.where(is_accepted, partners, rows), is_accepted[labeled:]


def logit_adjusted_cross_entropy(
    logits: Tensor, predicted: PseudoLabels, pi_hat: Tensor, prior: Tensor | None = None
) -> Tensor:
    """Return the sum of confident rows' cross-entropy of logits (n, k) + log(k pi_hat), divided by n.

    With a prior q (k,) the logits are raised by log(pi_hat / q), the same for q = 1 / k: the network then learns a
    posterior for the class shares q.
    """
    adjusted = logits.float() + (len(pi_hat) * pi_hat.clamp_min(TINY)).log()
    if prior is not None:
        adjusted = adjusted - (len(prior) * prior.clamp_min(TINY)).log()
    return (F.cross_entropy(adjusted, predicted.labels, reduction="none") * predicted.confident).mean()
