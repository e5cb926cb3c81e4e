r"""RankStats: two images count as the same class if the same k features are the largest in both.

Citation:
    K. Han, S.-A. Rebuffi, S. Ehrhardt, A. Vedaldi, A. Zisserman: Automatically Discovering and Learning New Visual
    Categories with Ranking Statistics. ICLR 2020.

Objective:
    $$\mathcal{L} = \frac{1}{B_l} \sum_{i \in \mathcal{B}_l} \mathrm{CE}(z^s_i, y_i)
    - \frac{1}{B_u^2} \sum_{i, j \in \mathcal{B}_u} \big[ r_{ij} \log s_{ij} + (1 - r_{ij}) \log (1 - s_{ij}) \big]
    + w \big( \mathrm{MSE}(p^s, p'^s) + \mathrm{MSE}(p^a, p'^a) \big),$$
    $$r_{ij} = \mathbb{1}[\mathrm{top}_k(h_i) = \mathrm{top}_k(h_j)], \qquad s_{ij} = \langle p^a_j, p'^a_i \rangle,
    \qquad w = w_{\max}\, e^{-5 (1 - \min(e, T) / T)^2}$$

Views:
    w1 and w2 are weak. Two linear heads use the features after a ReLU: head s has one output per seen class, head a has
    one output per class, seen or novel. View w1 is used for the cross-entropy of labeled rows (head s), for the ranked
    features h (no gradient flows through them) and for the predictions p. View w2 is used for the predictions p'. The
    pair loss uses all ordered pairs of unlabeled rows, including each row with itself. The consistency term uses all
    rows. Gradients flow through both p and p'.

Prediction:
    An image gets the id with the largest output of head a. These ids have no meaning, so they are matched
    with classes before seen accuracy is computed.

Deviations:
    - Open world (ORCA, section 4): head a has one output per class, seen and novel, and learns from all unlabeled rows,
      because it is unknown which rows show novel classes (original: one output per novel class, and only images of
      novel classes). The incremental variant of the paper extends head s by the novel classes. It is left out, because
      here head a already covers all classes.
    - Common protocol: SimCLR start (original: RotNet), optimizer, schedule, steps, trained stages and weak views. The
      supervised stage is a share of the run (original: 100 epochs before 200 epochs of joint training). By default this
      share is 0, so that all methods train for the same number of steps. Joint training uses all labels too. T, the
      length of the ramp, is a share of the epochs after the supervised stage (original: 50 of 200 epochs on CIFAR-10,
      150 on CIFAR-100).
    - The supervised stage, if there is one, uses only the labeled rows of a batch.
    - In the pair loss, 1 - s_ij is limited to at least 0. Without this, rounding errors could make it negative.
"""

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Inference, Method, Prediction, Progress
from lps.methods.parts.measurements import Measurement, Ratio, sum_terms
from lps.methods.parts.pseudo_labels import class_distribution, distribution_measurements
from lps.methods.parts.schedules import epochs_of, ramp_up
from lps.network.network import Network, Outputs
from lps.settings.parameters import ParameterDocs

_TINY = 1e-7  # inside the logarithms of the pair loss, as in the original code


class RankStats(Method):
    views = ("weak", "weak")
    seen_is_aligned = False

    def __init__(
        self,
        network: Network,
        classes: Classes,
        *,
        top_k: Annotated[
            int,
            "k: two images count as the same class if the same k features are the largest in both",
            (1, 1000),
            ParameterDocs("Pairs", larger="fewer but more certain pairs count as the same class", paper="5"),
        ] = 5,
        consistency_weight: Annotated[
            float | None,
            "w_max: final weight of the consistency term; none: 5 for at most 10 classes, otherwise 50",
            (0, 1000),
            ParameterDocs(
                "Consistency",
                larger="predictions of both views of an image become more similar",
                paper="5 on CIFAR-10, 50 on CIFAR-100",
            ),
        ] = None,
        ramp_share: Annotated[
            float | None,
            "T: share of the joint training during which the consistency weight increases; none: 0.25 for at "
            "most 10 classes, otherwise 0.75",
            (0, 1),
            ParameterDocs(
                "Consistency",
                larger="the weight increases more slowly",
                paper="50 of 200 epochs on CIFAR-10, 150 on CIFAR-100",
            ),
        ] = None,
        supervised_share: Annotated[
            float,
            "share of the run, from its start, in which only labeled images are used",
            (0, 0.9),
            ParameterDocs(
                "Stages",
                larger="more epochs on labeled images only, fewer on all images",
                paper="100 epochs, then 200 epochs of joint training",
            ),
        ] = 0.0,
    ):
        super().__init__(network, classes)
        few = classes.total <= 10
        features = network.backbone.num_features
        network.classifier = nn.Sequential(nn.ReLU(), nn.Linear(features, classes.seen + classes.total))  # both heads
        self.top_k = min(top_k, features)
        self.consistency_weight = (5.0 if few else 50.0) if consistency_weight is None else consistency_weight
        self.ramp_share = (0.25 if few else 0.75) if ramp_share is None else ramp_share
        self.supervised_share = supervised_share

    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        if progress.epoch < epochs_of(self.supervised_share, progress.epochs):
            terms, measured = self._supervised(batch), {}
        else:
            terms, measured = self._joint(batch, self.consistency_at(progress))
        total, of_terms = sum_terms(terms)
        return total, measured | of_terms

    def consistency_at(self, progress: Progress) -> float:
        """Return w, the weight of the consistency term in this epoch of the joint training."""
        first = epochs_of(self.supervised_share, progress.epochs)
        return self.consistency_weight * ramp_up(progress.epoch - first, self.ramp_share * (progress.epochs - first))

    def _supervised(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy of the labeled rows, which are passed alone."""
        (outputs,) = self.network.forward_views([batch.labeled_views[0]])
        return {"loss/cross_entropy": F.cross_entropy(self._heads(outputs)[0], batch.targets)}

    def _joint(self, batch: Batch, consistency_weight: float) -> tuple[dict[str, Tensor], dict[str, Measurement]]:
        first, second = self.network.forward_views(batch.views())
        (seen, all_classes), (seen_again, all_classes_again) = self._heads(first), self._heads(second)
        labeled = len(batch.targets)
        positive = same_ranking(first.features[labeled:].detach().relu(), self.top_k)
        probabilities, probabilities_again = all_classes.softmax(dim=1), all_classes_again.softmax(dim=1)
        consistency = F.mse_loss(seen.softmax(dim=1), seen_again.softmax(dim=1)) + F.mse_loss(
            probabilities, probabilities_again
        )
        terms = {
            "loss/cross_entropy": F.cross_entropy(seen[:labeled], batch.targets),
            "loss/pairwise": pairwise_cross_entropy(probabilities[labeled:], probabilities_again[labeled:], positive),
            "loss/consistency": consistency_weight * consistency,
        }
        num_pairs = torch.tensor(float(len(positive) * (len(positive) - 1)))
        pi_hat = class_distribution(probabilities[labeled:].detach(), torch.ones_like(probabilities[labeled:, 0]))
        predicted = probabilities[labeled:].argmax(dim=1)
        agree = positive == (predicted[:, None] == predicted)
        measured = {
            "pair/agreement": Ratio(agree.sum() - len(positive), num_pairs),
            "pair/positive_rate": Ratio(positive.sum() - len(positive), num_pairs),
            "consistency_weight": consistency_weight,
        }
        return terms, measured | distribution_measurements(pi_hat)

    def _heads(self, outputs: Outputs) -> tuple[Tensor, Tensor]:
        """Return float32 logits of the seen classes (n, seen) and of all classes (n, total)."""
        return outputs.logits.float().split([self.classes.seen, self.classes.total], dim=1)

    def predict(self, inference: Inference) -> Prediction:
        confidence, ids = self._heads(inference.unlabeled)[1].softmax(dim=1).max(dim=1)
        return Prediction(ids, confidence)


def same_ranking(features: Tensor, top_k: int) -> Tensor:
    """Return bool (n, n): whether the `top_k` largest entries of two rows of (n, d) are the same, in any order.

    Product of 0/1 indicators: it counts common entries, and sets of k are equal if they share k. If fewer than k
    entries are positive, the set is filled up with arbitrary zeros.
    """
    mask = torch.zeros_like(features, dtype=torch.float32)
    mask.scatter_(1, features.topk(top_k, dim=1).indices, 1.0)
    with torch.autocast(features.device.type, enabled=False):
        return mask @ mask.T >= top_k - 0.5


def pairwise_cross_entropy(first: Tensor, second: Tensor, positive: Tensor) -> Tensor:
    """Return the mean over all ordered pairs of -log s if positive, else -log(1 - s), s_ij = <first_j, second_i>.

    first, second: float32 probabilities (n, k); positive bool (n, n), symmetric.
    """
    with torch.autocast(first.device.type, enabled=False):
        similarity = second @ first.T
    likelihood = torch.where(positive, similarity, (1 - similarity).clamp_min(0))
    return -(likelihood + _TINY).log().mean()
