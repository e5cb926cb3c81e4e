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
    w1 and w2 are weak. There are two linear heads on the rectified features: head s has one output per seen class, head
    a one per class. View w1 gives the cross-entropy of labeled rows (head s), the features h that are ranked (without
    gradient) and the predictions p. View w2 gives the predictions p'. Pairs are all ordered pairs of unlabeled rows,
    including each row with itself. The consistency term is computed over all rows. Both p and p' have gradient.

Prediction:
    The largest output of head a. Its ids have no meaning, so seen accuracy is matched.

Deviations:
    - Open world (ORCA, section 4): the second head has one output per class, seen and novel, and learns from all
      unlabeled rows, because seen and novel ones cannot be told apart (original: novel classes only, one output each).
      In this setting, the incremental variant, which extends the first head, has no effect, so it is left out.
    - Common protocol: SimCLR start (original: RotNet), its optimizer, schedule, steps, trained stages and weak views.
      The supervised stage (original: 100 epochs before 200 of joint training) is a share of the run, 0 by default:
      joint training learns from the same labels, and every method has the same steps. The length T of the ramp
      (original: 50 of 200 epochs on CIFAR-10, 150 on CIFAR-100) is a share of the epochs after the supervised stage.
    - The optional supervised stage only sees the labeled rows of a batch.
    - 1 - s is cut off at 0, because products of rounded probabilities can exceed 1.
"""

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Inference, Method, Prediction, Progress
from lps.methods.parts.measurements import Measurement, Ratio, summed
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
            "k: how many of the largest features two images must share to be a pair",
            (1, 1000),
            ParameterDocs("Pairs", larger="fewer but more certain pairs count as the same class", paper="5"),
        ] = 5,
        consistency_weight: Annotated[
            float | None,
            "w_max: weight of the consistency term once it no longer increases; none: 5 up to 10 classes, 50 above",
            (0, 1000),
            ParameterDocs(
                "Consistency",
                larger="predictions of both views of an image become more similar",
                paper="5 on CIFAR-10, 50 on CIFAR-100",
            ),
        ] = None,
        ramp_share: Annotated[
            float | None,
            "T: share of the joint training during which the consistency weight increases; none: 0.25 up to ten "
            "classes, 0.75 above",
            (0, 1),
            ParameterDocs(
                "Consistency",
                larger="the weight increases more slowly",
                paper="50 of 200 epochs on CIFAR-10, 150 on CIFAR-100",
            ),
        ] = None,
        supervised_share: Annotated[
            float,
            "share of the run, from its start, that learns only from labeled images",
            (0, 0.9),
            ParameterDocs(
                "Stages",
                larger="longer on labels only, shorter on all images",
                paper="100 epochs before 200 of joint training",
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
        total, of_terms = summed(terms)
        return total, measured | of_terms

    def consistency_at(self, progress: Progress) -> float:
        """w: weight of the consistency in this epoch of the joint training."""
        first = epochs_of(self.supervised_share, progress.epochs)
        return self.consistency_weight * ramp_up(progress.epoch - first, self.ramp_share * (progress.epochs - first))

    def _supervised(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy of the labeled rows, alone in the batch."""
        (outputs,) = self.network.forward_views([batch.labeled_views[0]])
        return {"loss/cross_entropy": F.cross_entropy(self._heads(outputs)[0], batch.targets)}

    def _joint(self, batch: Batch, consistency_weight: float) -> tuple[dict[str, Tensor], dict[str, Measurement]]:
        first, second = self.network.forward_views(batch.views())
        (seen, every), (seen_again, every_again) = self._heads(first), self._heads(second)
        labeled = len(batch.targets)
        positive = same_ranking(first.features[labeled:].detach().relu(), self.top_k)
        probabilities, probabilities_again = every.softmax(dim=1), every_again.softmax(dim=1)
        consistency = F.mse_loss(seen.softmax(dim=1), seen_again.softmax(dim=1)) + F.mse_loss(
            probabilities, probabilities_again
        )
        terms = {
            "loss/cross_entropy": F.cross_entropy(seen[:labeled], batch.targets),
            "loss/pairwise": pairwise_cross_entropy(probabilities[labeled:], probabilities_again[labeled:], positive),
            "loss/consistency": consistency_weight * consistency,
        }
        others = torch.tensor(float(len(positive) * (len(positive) - 1)))
        pi_hat = class_distribution(probabilities[labeled:].detach(), torch.ones_like(probabilities[labeled:, 0]))
        guessed = probabilities[labeled:].argmax(dim=1)
        agree = positive == (guessed[:, None] == guessed)
        measured = {
            "pair/agreement": Ratio(agree.sum() - len(positive), others),
            "pair/positive_rate": Ratio(positive.sum() - len(positive), others),
            "consistency_weight": consistency_weight,
        }
        return terms, measured | distribution_measurements(pi_hat)

    def _heads(self, outputs: Outputs) -> tuple[Tensor, Tensor]:
        """Float32 logits of the seen classes (n, seen) and of all classes (n, total)."""
        return outputs.logits.float().split([self.classes.seen, self.classes.total], dim=1)

    def predict(self, inference: Inference) -> Prediction:
        confidence, ids = self._heads(inference.unlabeled)[1].softmax(dim=1).max(dim=1)
        return Prediction(ids, confidence)


def same_ranking(features: Tensor, top_k: int) -> Tensor:
    """bool (n, n): whether the `top_k` largest entries of two rows of (n, d) are the same ones, in whatever order.

    Product of 0/1 indicators: it counts common entries, and sets of k are equal when they share k. Where fewer than k
    entries are positive the set is filled up with zeros, which ones is arbitrary.
    """
    mask = torch.zeros_like(features, dtype=torch.float32)
    mask.scatter_(1, features.topk(top_k, dim=1).indices, 1.0)
    with torch.autocast(features.device.type, enabled=False):
        return mask @ mask.T >= top_k - 0.5


def pairwise_cross_entropy(first: Tensor, second: Tensor, positive: Tensor) -> Tensor:
    """Mean over all ordered pairs of -log s where positive and -log(1 - s) elsewhere, s_ij = <first_j, second_i>.

    first, second: float32 probabilities (n, k); positive bool (n, n), symmetric.
    """
    with torch.autocast(first.device.type, enabled=False):
        similarity = second @ first.T
    likelihood = torch.where(positive, similarity, (1 - similarity).clamp_min(0))
    return -(likelihood + _TINY).log().mean()
