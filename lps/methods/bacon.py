r"""BaCon: for classes of unequal size. A classifier learns class sizes from k-means and guides a second network.

Citation:
    J. Bai, Z. Liu, H. Wang, R. Chen, L. Mu, X. Li, J. T. Zhou, Y. Feng, J. Wu, H. Hu: Towards Distribution-Agnostic
    Generalized Category Discovery. NeurIPS 2023.

Objective:
    $$\mathcal{L}_{CE} = (1 - \lambda) \Big[ \frac{1}{2B} \sum_a \mathrm{CE}(q_{a'}, p_a)
    + \epsilon \Big(\sum_k r_k \log r_k + \log K\Big) \Big]
    + \lambda \frac{1}{2B_l} \sum_{a \in \mathcal{B}_l} -\log p_{a y_a},
    \qquad r_k = \frac{\bar p_k / n_k^{\rho}}{\sum_j \bar p_j / n_j^{\rho}}$$
    $$\mathcal{L}_{CL} = (1 - \lambda) \frac{1}{2B} \sum_a
    -\log \frac{e^{v_a \cdot v_{a'} / \tau_u}}{\sum_{b \ne a} e^{v_a \cdot v_b / \tau_u}}
    + \frac{\lambda}{2} \mathcal{L}_{sup} + \frac{\lambda}{2} \mathcal{L}_{soft}$$
    $$\mathcal{L}_{soft} = \frac{1}{2|S|} \sum_{a \in S} \frac{1}{\sum_{b} m_{ab}} \sum_{b \in S, b \ne a} m_{ab}
    \Big(-\log \frac{e^{v_a \cdot v_b / \tau}}{\sum_{c \in S, c \ne a} e^{v_a \cdot v_c / \tau}}\Big), \qquad
    m_{ab} = s_a \cdot s_b, \qquad s = \mathrm{softmax}\big(z - \tau_r \log \pi\big)$$

Views:
    w1 and w2 are weak. Two networks are trained. The first loss trains network 1, whose outputs are p and q as in
    SimGCD. The second loss trains network 2, whose outputs are the unit projections v. Network 2 is evaluated. L_sup is
    the contrastive loss of SimGCD between images with the same label. z are the cosines of network 1, divided by the
    temperature tau_s. s are soft labels of all images, labeled ones too. They are averaged over both views, and no
    gradient flows through them. S contains both views of the labeled images and of the selected unlabeled images. m_ab
    is 1 if a and b are two views of one image. During the first `warmup_epochs`, L_sup has weight lambda instead of
    lambda / 2, and L_soft has weight 0.

    n are the estimated class sizes, one per class, and pi = n / sum n. Every `estimate_every` epochs, k-means finds K
    clusters in the unit features of all training images, computed by network 2. Each seen class is matched with one
    cluster (Hungarian method, by the share of the cluster's images that are labeled as this class). This decides
    only which clusters count as seen. Their sizes are then sorted: the seen class with the most labels gets the largest
    size, and so on. The sizes of the other clusters are assigned to the novel ids, the largest first.

    Unlabeled images are selected in two steps. First, a random draw decides how many images of each class are used:
    each image predicted as class k counts with probability (min n / n_k)^beta, or (min n / n_k)^alpha if the batch has
    labels of k. Second, that number of images is taken from each class, the most confident ones first.

Prediction:
    k-means clusters the unit features of all training images, without labels (authors' code: of the test images). Ids
    are matched with classes before seen accuracy is computed. A test image gets the id of the nearest centre.

Deviations:
    - The loss terms that come from SimGCD have the deviations of SimGCD. The two networks share no layer (original:
      they share all blocks of a ViT except the last, and these blocks are frozen).
    - The random numbers of the draw depend only on the image and the epoch (original: on the state of torch's
      generator), so a resumed run draws the same images.
    - An empty cluster counts as one image. k-means is our own implementation.
    - alpha is 0, as in the authors' scripts (default of their code: 0.8).
    - `prior` is not used, because this method estimates the class sizes itself. The estimate is recorded as
      `class/prior`.
"""

import copy
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Inference, Method, Prediction, Progress
from lps.methods._distilled import Distilled, self_distillation
from lps.methods.parts.clustering import Clusters, cluster_confidence, nearest_centres, semi_supervised_kmeans
from lps.methods.parts.losses import TINY, labeled_contrastive, labeled_rows, nt_xent, similarities
from lps.methods.parts.measurements import Measurement, Ratio, sum_terms
from lps.methods.parts.pseudo_labels import distribution_measurements
from lps.network.network import Network
from lps.settings.parameters import ParameterDocs

_OUTSIDE = -1e30  # excludes an entry from a log-sum-exp; finite, so that its gradient is 0 and not NaN


class BaCon(Distilled, Method):
    """`network` is evaluated and learns by contrast; `labeler`, a copy of it, has the classifier."""

    uses_prior = False
    distributes = False  # the second network's passes are not distributed
    seen_is_aligned = False

    def __init__(
        self,
        network: Network,
        classes: Classes,
        *,
        prior_exponent: Annotated[
            float,
            "rho: exponent of the estimated class sizes in the entropy term",
            (0, 5),
            ParameterDocs(
                "Class sizes",
                larger="guesses follow the estimated sizes more; 0: equal shares",
                paper="1.1 (authors' code)",
            ),
        ] = 1.1,
        estimate_every: Annotated[
            int,
            "epochs between two estimates of the class sizes",
            (1, 100000),
            ParameterDocs(
                "Class sizes", larger="the estimate is older but costs less time", paper="10 (authors' code)"
            ),
        ] = 10,
        adjustment: Annotated[
            float,
            "tau_r: factor of log(estimated share), which is subtracted from the logits of the soft labels",
            (0, 10),
            ParameterDocs("Class sizes", larger="soft labels favor small classes more", paper="0.5 (authors' code)"),
        ] = 0.5,
        sampling_labeled: Annotated[
            float,
            "alpha: limits how many images of large classes are used. Let n_k be the estimated size of class k and "
            "n_min the smallest size. If the batch has labels of class k, a share of (n_min / n_k)^alpha of the "
            "unlabeled images predicted as k is used",
            (0, 10),
            ParameterDocs(
                "Class sizes",
                larger="fewer images of large classes are used",
                paper="0 in the authors' scripts, 0.8 by default in their code",
            ),
        ] = 0.0,
        sampling_unlabeled: Annotated[
            float,
            "beta: exponent that replaces alpha if the batch has no labels of the class",
            (0, 10),
            ParameterDocs("Class sizes", larger="fewer images of large classes are used", paper="0.5 (authors' code)"),
        ] = 0.5,
        warmup_epochs: Annotated[
            int,
            "epochs before the contrastive loss with soft labels is used",
            (0, 100000),
            ParameterDocs(
                "Contrastive losses",
                larger="the contrastive loss with soft labels is used later",
                paper="1 (authors' code)",
            ),
        ] = 1,
        kmeans_restarts: Annotated[
            int,
            "runs of k-means; the one with the tightest clusters is used",
            (1, 1000),
            ParameterDocs("Prediction", larger="slower; clusters are at least as tight", paper="10 (authors' code)"),
        ] = 10,
        **of_distilled,
    ):
        labeler = copy.deepcopy(network)
        labeler.classifier = nn.Identity()
        super().__init__(network, classes, **of_distilled)
        self.labeler = labeler
        self.register_buffer("class_sizes", torch.ones(classes.total))
        self.prior_exponent, self.adjustment = prior_exponent, adjustment
        self.estimate_every, self.warmup_epochs = estimate_every, warmup_epochs
        self.sampling_labeled, self.sampling_unlabeled = sampling_labeled, sampling_unlabeled
        self.kmeans_restarts = kmeans_restarts

    @property
    def shares(self) -> Tensor:
        """pi (classes,): the estimated class shares."""
        return self.class_sizes / self.class_sizes.sum()

    def start_epoch(self, inference: Inference, progress: Progress) -> None:
        if progress.epoch % self.estimate_every == 0:
            sizes = estimated_sizes(self._clusters(inference).ids, inference.targets, self.classes)
            self.class_sizes.copy_(sizes)

    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        views, targets = batch.views(), batch.targets
        logits = [self.class_logits(view) for view in self.labeler.forward_views(views)]
        projected = [view.logits for view in self.network.forward_views(views)]
        of_all, of_labeled = 1 - self.supervised_weight, self.supervised_weight
        sharpness = self.student_temperature / self.teacher_temperature(progress)
        mean = torch.cat(logits).softmax(dim=1).mean(dim=0)
        drawn = self._draw_rows(logits, targets, batch.unlabeled_positions, progress)
        is_soft = progress.epoch >= self.warmup_epochs
        terms = {
            "loss/consistency": of_all * self_distillation(*logits, sharpness),
            "loss/entropy": of_all
            * self.entropy_weight
            * _weighted_negative_entropy(mean, self.class_sizes**-self.prior_exponent),
            "loss/cross_entropy": of_labeled * F.cross_entropy(labeled_rows(logits, targets), targets.repeat(2)),
            "loss/unsupervised_contrastive": of_all * nt_xent(torch.cat(projected), self.unsupervised_temperature),
            "loss/supervised_contrastive": of_labeled
            * (0.5 if is_soft else 1.0)
            * labeled_contrastive(projected, targets, self.supervised_temperature),
        }
        if is_soft:
            likeness = _soft_likeness(self.soft_labels(logits))
            together = soft_contrastive(torch.cat(projected), likeness, drawn, self.supervised_temperature)
            terms["loss/soft_contrastive"] = of_labeled * 0.5 * together
        total, measured = sum_terms(terms)
        measured |= {"class/prior": self.shares, "drawn/rate": Ratio(drawn.sum(), torch.ones_like(drawn).sum())}
        return total, measured | distribution_measurements(mean.detach(), self.shares)

    def soft_labels(self, logits: list[Tensor]) -> Tensor:
        """Return s (n, classes): the mean over views of softmax(z - tau_r log pi), without gradient."""
        lowered = self.adjustment * self.shares.clamp_min(TINY).log()
        return torch.stack([(view.detach() - lowered).softmax(dim=1) for view in logits]).mean(dim=0)

    def _draw_rows(self, logits: list[Tensor], targets: Tensor, positions: Tensor, progress: Progress) -> Tensor:
        """Return bool (n,): the labeled rows and the drawn unlabeled ones."""
        confidence, ids = self.soft_labels(logits)[len(targets) :].max(dim=1)
        ratio = self.class_sizes.min() / self.class_sizes
        rates = ratio**self.sampling_unlabeled
        rates[targets] = ratio[targets] ** self.sampling_labeled
        is_drawn = most_confident_rows(
            ids, confidence, scattered_numbers(positions, progress.epoch) < rates[ids], self.classes.total
        )
        return torch.cat([torch.ones_like(targets, dtype=torch.bool), is_drawn])

    def _clusters(self, inference: Inference) -> Clusters:
        """Cluster all training images by k-means, labeled ones first."""
        features = torch.cat([inference.labeled.features, inference.unlabeled.features])
        points = F.normalize(features.float(), dim=1)
        no_ids = inference.targets[:0]
        return semi_supervised_kmeans(
            points, points[:0], no_ids, self.classes.total, inference.seed, self.kmeans_restarts
        )

    def predict(self, inference: Inference) -> Prediction:
        """Return ids of k-means, which have no meaning by themselves."""
        if inference.fitted:
            points = F.normalize(inference.unlabeled.features.float(), dim=1)
            return Prediction(*nearest_centres(points, inference.fitted["centres"]))
        clusters, labeled = self._clusters(inference), len(inference.targets)
        return Prediction(
            clusters.ids[labeled:],
            cluster_confidence(clusters.distances[labeled:]),
            {"cluster/inertia": clusters.inertia.item()},
            {"centres": clusters.centres},
        )


def estimated_sizes(clusters: Tensor, targets: Tensor, classes: Classes) -> Tensor:
    """Estimate the images of each class, float32 (classes,), at least 1, by cluster sizes; see the module's Views.

    clusters: int64 (n,), ids of all training images, labeled ones first; targets: int64 (labeled,).
    """
    ids, labeled = clusters.cpu().numpy(), targets.cpu().numpy()
    sizes = np.bincount(ids, minlength=classes.total).clip(1)
    votes = np.zeros((classes.total, classes.total))
    np.add.at(votes, (ids[: len(labeled)], labeled), 1)
    _, order = linear_sum_assignment(votes / sizes[:, None], maximize=True)
    labels = np.bincount(labeled, minlength=classes.seen)
    counts = np.empty(classes.total, np.float32)
    counts[: classes.seen][labels.argsort(kind="stable")] = np.sort(sizes[order < classes.seen])
    counts[classes.seen :] = np.sort(sizes[order >= classes.seen])[::-1]
    return torch.from_numpy(counts).to(targets.device)


def _weighted_negative_entropy(mean: Tensor, weights: Tensor) -> Tensor:
    """Return sum_k r_k log r_k + log K, r proportional to mean * weights, both (k,); 0 if r is uniform."""
    relative = mean * weights
    relative = relative / relative.sum()
    return (relative * relative.clamp_min(TINY).log()).sum() + np.log(len(mean))


def scattered_numbers(positions: Tensor, epoch: int) -> Tensor:
    """Return numbers in [0, 1), float64 (n,), evenly spread over positions int64 (n,) and different in every epoch."""
    return (positions.double() * 0.6180339887498949 + epoch * 0.7548776662466927) % 1


def most_confident_rows(ids: Tensor, confidence: Tensor, is_hit: Tensor, classes: int) -> Tensor:
    """Return bool (n,): of each class as many rows as `is_hit` has, those of the largest confidence.

    ids int64 (n,), confidence (n,), is_hit bool (n,).
    """
    zeros = torch.zeros(classes, dtype=torch.int64, device=ids.device)
    counts, sizes = (zeros.index_add(0, ids, one.long()) for one in (is_hit, torch.ones_like(is_hit)))
    by_confidence = confidence.argsort(descending=True, stable=True)
    order = by_confidence[ids[by_confidence].argsort(stable=True)]  # by class, most confident first
    rank_in_class = torch.arange(len(ids), device=ids.device) - (sizes.cumsum(0) - sizes)[ids[order]]
    is_most_confident = torch.empty_like(is_hit)
    is_most_confident[order] = rank_in_class < counts[ids[order]]
    return is_most_confident


def _soft_likeness(labels: Tensor) -> Tensor:
    """Return m (n, n): inner products of soft labels (n, classes), 1 on the diagonal."""
    return (labels @ labels.T).fill_diagonal_(1)


def soft_contrastive(projections: Tensor, likeness: Tensor, chosen: Tensor, temperature: float) -> Tensor:
    """Return the mean over chosen rows of the mean -log softmax of all other chosen rows, weighted by likeness.

    projections (2n, d): two stacked views; likeness (n, n) between images, without gradient; chosen bool (n,).
    """
    chosen_rows = chosen.repeat(2)
    similarity = similarities(projections, temperature)
    log_probability = similarity - similarity.masked_fill(~chosen_rows, _OUTSIDE).logsumexp(dim=1, keepdim=True)
    weights = (likeness.repeat(2, 2) * chosen_rows).fill_diagonal_(0)
    per_row = -(weights * log_probability.masked_fill(weights == 0, 0)).sum(dim=1) / weights.sum(dim=1).clamp_min(TINY)
    return torch.where(chosen_rows, per_row, 0).sum() / chosen_rows.sum()
