r"""LegoGCD: SimGCD without forgetting seen classes. A loss keeps confident seen predictions stable.

Citation:
    X. Cao, X. Zheng, G. Wang, W. Yu, Y. Shen, K. Li, Y. Lu, Y. Tian: Solving the Catastrophic Forgetting Problem in
    Generalized Category Discovery. CVPR 2024.

Objective:
    $$\mathcal{L} = \mathcal{L}_{SimGCD} + \beta \mathcal{L}_{LER} + (1 - \lambda) \gamma \mathcal{L}_{DKL}, \qquad
    \mathcal{L}_{DKL} = \frac{1}{B} \sum_i \sum_k p_{ik} \log \frac{s(p_i)_k}{s(p_{i'})_k}, \qquad
    s = \mathrm{softmax}$$
    $$\mathcal{L}_{LER} = \frac{1}{2B} \sum_{a \in \mathcal{U}} [\max_k p_{ak} \ge \theta]
    [\arg\max_k p_{ak} \text{ seen}] \; \mathrm{CE}\Big(r_a, \mathrm{softmax}\big(\tfrac{\cos(h_a, W)}{\tau_r}
    + m \log \hat q\big)\Big), \qquad r_a = \mathrm{softmax}\big(\tfrac{\cos(h_a, W)}{\tau_r}\big)$$

Views:
    The views are those of SimGCD. $\mathcal{L}_{LER}$, the loss that keeps seen classes, is computed over the unlabeled
    rows $\mathcal{U}$ of both views. Gradients flow through both arguments of its cross-entropy, even through r.
    $\mathcal{L}_{DKL}$, the consistency loss, compares w1 with w2 over all images, and gradients flow through both.

Deviations:
    - The deviations of SimGCD apply. All constants and the form of both terms are those of the authors' code.
    - $\mathcal{L}_{DKL}$: their code takes the softmax of values that are already probabilities, as above
      (agreement=official). The equation of the paper is $\mathrm{KL}(p_i \,\|\, p_{i'})$ (agreement=kl), with larger
      gradients. Runs made before this setting existed use agreement=kl.
    - The confidence $\theta$ is 0.95, as in their CIFAR-10 script. They use 0.85 on CIFAR-100 and 0.8 on ImageNet-100.
      An earlier revision of the scripts had 0.97, 0.9 and 0.8.
    - q, the moving average of the mean prediction, is computed from cosines that are not divided by a temperature, as
      in their code. q stays nearly uniform, so m has little effect. The setting `prior` does not change m;
      a prior other than equal shares is used only in the entropy term of SimGCD.
"""

from typing import Annotated, Literal

import torch
from torch import Tensor

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Method, Progress
from lps.methods._distilled import Distilled
from lps.methods.parts.measurements import Measurement, Ratio, sum_terms
from lps.methods.parts.pseudo_labels import distribution_measurements
from lps.network.network import Network
from lps.settings.parameters import ParameterDocs


class LegoGCD(Distilled, Method):
    """SimGCD with two more terms; its network is used as in `Distilled`."""

    def __init__(
        self,
        network: Network,
        classes: Classes,
        *,
        known_weight: Annotated[
            float,
            "beta: weight of the cross-entropy of images predicted as seen",
            (0, 100),
            ParameterDocs("Keeping seen classes", larger="images predicted as seen change their predicted class less"),
        ] = 2.0,
        agreement_weight: Annotated[
            float,
            "gamma: weight of the KL divergence between the predictions of two views; it is multiplied by 1 - lambda",
            (0, 100),
            ParameterDocs("Consistency", larger="predictions of both views of an image become more similar"),
        ] = 1.0,
        agreement: Annotated[
            Literal["official", "kl"],
            "how two views are compared",
            ParameterDocs(
                "Consistency",
                words={"official": "softmax of probabilities (authors' code)", "kl": "KL divergence (paper)"},
                before="kl",
            ),
        ] = "official",
        known_threshold: Annotated[
            float,
            "theta: lowest confidence with which an image predicted as seen counts in the loss that keeps seen classes",
            (0, 1),
            ParameterDocs("Keeping seen classes", larger="fewer but more confident images count"),
        ] = 0.95,
        known_temperature: Annotated[
            float,
            "tau_r: temperature of the cosines in the cross-entropy of images predicted as seen",
            (0.01, 10),
            ParameterDocs(
                "Keeping seen classes", larger="less sharp predictions in the cross-entropy of images predicted as seen"
            ),
        ] = 0.05,
        margin: Annotated[
            float,
            "m: factor of log(mean prediction) in the cross-entropy of images that are predicted as seen",
            (0, 10),
            ParameterDocs("Keeping seen classes", larger="rarely predicted classes are favored more"),
        ] = 0.4,
        margin_decay: Annotated[
            float,
            "decay of the mean prediction per step",
            (0, 0.999999),
            ParameterDocs("Keeping seen classes", larger="the mean prediction looks further back"),
        ] = 0.999,
        **of_distilled,
    ):
        super().__init__(network, classes, **of_distilled)
        self.register_buffer("mean_prediction", torch.full((classes.total,), 1 / classes.total))
        self.known_weight = known_weight
        self.agreement_weight = agreement_weight
        self.agreement = agreement
        self.known_threshold = known_threshold
        self.known_temperature = known_temperature
        self.margin = margin
        self.margin_decay = margin_decay

    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        outputs = self.network.forward_views(batch.views())
        logits = [self.class_logits(view) for view in outputs]
        terms = self.terms(logits, [view.logits for view in outputs], batch.targets, progress)
        shared, labeled = 1 - self.supervised_weight, len(batch.targets)
        terms["loss/agreement"] = shared * self.agreement_weight * self._view_divergence(*logits)
        seen_rows = [self.taken_for_seen(view, labeled) for view in logits]
        terms["loss/known"] = self.known_weight * self._known_term(torch.cat(logits), torch.cat(seen_rows))

        total, measured = sum_terms(terms)
        all_logits = torch.cat(logits).detach()
        self._update_mean_prediction(all_logits)
        unlabeled = torch.cat([view[labeled:] for view in seen_rows])
        measured["known/rate"] = Ratio(unlabeled.sum(), torch.ones_like(unlabeled).sum())
        return total, measured | distribution_measurements(all_logits.softmax(dim=1).mean(dim=0), self.class_prior)

    def _view_divergence(self, first: Tensor, second: Tensor) -> Tensor:
        return (official_disagreement if self.agreement == "official" else kl_of_views)(first, second)

    def taken_for_seen(self, logits: Tensor, labeled: int) -> Tensor:
        """Return bool (n,): unlabeled rows that are predicted as a seen class with confidence; logits (n, classes)."""
        confidence, ids = logits.detach().softmax(dim=1).max(dim=1)
        confident_seen = (confidence >= self.known_threshold) & (ids < self.classes.seen)
        confident_seen[:labeled] = False
        return confident_seen

    def _known_term(self, logits: Tensor, confident_seen: Tensor) -> Tensor:
        """Return the cross-entropy of `confident_seen` rows with themselves, with the margin, divided by all rows."""
        sharper = logits * (self.student_temperature / self.known_temperature)
        log_margin = (sharper + self.margin * self.mean_prediction.float().log()).log_softmax(dim=1)
        return (-(sharper.softmax(dim=1) * log_margin).sum(dim=1) * confident_seen).mean()

    @torch.no_grad()
    def _update_mean_prediction(self, logits: Tensor) -> None:
        """Add the mean prediction of cosines, not divided by a temperature, to the moving average."""
        mean = (logits * self.student_temperature).softmax(dim=1).mean(dim=0)
        self.mean_prediction.lerp_(mean.to(self.mean_prediction.dtype), 1 - self.margin_decay)


def kl_of_views(first: Tensor, second: Tensor) -> Tensor:
    """Return the mean over rows of KL(p1 || p2), p the softmax of logits (n, k) of the same images in two views."""
    first_log, second_log = first.log_softmax(dim=1), second.log_softmax(dim=1)
    return (first_log.exp() * (first_log - second_log)).sum(dim=1).mean()


def official_disagreement(first: Tensor, second: Tensor) -> Tensor:
    """Return the authors' mean over rows of sum_k p1_k (log s(p1)_k - log s(p2)_k); s: softmax, p: that of logits."""
    first_probabilities, second_probabilities = first.softmax(dim=1), second.softmax(dim=1)
    return (
        (first_probabilities * (first_probabilities.log_softmax(dim=1) - second_probabilities.log_softmax(dim=1)))
        .sum(dim=1)
        .mean()
    )
