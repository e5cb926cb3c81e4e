r"""DTC: the network learns clusters of its features; each round of targets makes the clusters sharper.

Citation:
    K. Han, A. Vedaldi, A. Zisserman: Learning to Discover Novel Visual Categories via Deep Transfer Clustering.
    ICCV 2019.

Objective:
    $$\mathcal{L} = \frac{1}{B_u K} \sum_{i, k} t_{ik} \log \frac{t_{ik}}{q_{ik}} + w\, \mathrm{MSE}(q, q'), \qquad
    w = w_{\max}\, e^{-5 (1 - \min(e, T) / T)^2},$$
    $$q_{ik} \propto \frac{1}{1 + \| A h_i + b - \mu_k \|^2}, \qquad t_{ik} \propto \frac{q_{ik}^2}{\sum_j q_{jk}}$$

Views:
    Training has two stages. The first stage minimizes the cross-entropy of labeled rows in one weak view. The second
    stage minimizes the objective above on unlabeled rows only. In its variant PI, q is computed from the weak view w1
    and q' from the weak view w2. Gradients flow through both. The targets t are computed from q for all unlabeled
    images, in evaluation mode and without augmentation. They are stored per image, and no gradient flows through them.

    At the start of the second stage, the features of the unlabeled images are projected onto as many principal
    components as there are classes. k-means on these projections gives the centres mu and the first targets. The linear
    map (A, b) starts with random weights. The second stage begins with a warm-up, in which the targets stay fixed and w
    is 0. The targets are updated at the end of the warm-up, after the next epoch, and then every `target_interval`
    epochs. The variant TE is the default for 100 classes or more. It uses w1 only: q' is the average of earlier q of
    the same image, and no gradient flows through q'.

Prediction:
    An image gets the id of the nearest of the K centres. During the first stage, k-means on the principal components
    gives the ids. Ids have no meaning, so they are matched with classes before seen accuracy is computed.

Deviations:
    - Open world (ORCA, section 4): K counts all classes, and all unlabeled images are used (original: novel classes
      only).
    - Common protocol: SimCLR start (original: none), optimizer, schedule, steps, trained stages and weak views. Both
      stages use one optimizer. The length of each stage is a share of the run. The original has 180 supervised epochs
      from random weights (here, SimCLR replaces some of them), 10 epochs of warm-up and then 100 epochs of clustering.
      With 200 epochs on CIFAR, our warm-up has 2000 steps, as in the original. A warm-up of few steps is too short to
      fit A and b to the centres, and the targets that follow are useless. T, the number of epochs in which w increases,
      is a share of the epochs after the warm-up (original: 5 of 100).
    - TE: the average of an image is updated when the image is drawn, about once an epoch (original: at the end of the
      epoch). As long as an image has no earlier q, it has no consistency loss (original: the earlier q counts as 0).
    - If there are fewer features than classes, all principal components are used. In the first stage, a batch has only
      its labeled rows, so it is smaller.
"""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Inference, Method, Prediction, Progress
from lps.methods.parts.clustering import principal_axes, semi_supervised_kmeans, squared_distances
from lps.methods.parts.measurements import Measurement, sum_terms
from lps.methods.parts.pseudo_labels import TINY, class_distribution, distribution_measurements
from lps.methods.parts.schedules import epochs_of, ramp_up
from lps.network.network import Network
from lps.settings.parameters import ParameterDocs

_MANY = 100  # classes; from this number on, the original's choices for CIFAR-100 are the defaults


class DTC(Method):
    seen_is_aligned = False

    def __init__(
        self,
        network: Network,
        classes: Classes,
        *,
        consistency: Annotated[
            Literal["auto", "PI", "Baseline", "TE", "TEP"],
            "what a prediction should agree with; automatic: the prediction for the other view if there are fewer than "
            "100 classes, otherwise earlier predictions",
            ParameterDocs(
                "Consistency",
                words={
                    "auto": "automatic",
                    "PI": "the other view (PI)",
                    "Baseline": "nothing (Baseline)",
                    "TE": "earlier predictions for the image (TE)",
                    "TEP": "targets from earlier predictions (TEP)",
                },
            ),
        ] = "auto",
        consistency_weight: Annotated[
            float,
            "w_max: final weight of the consistency term",
            (0, 1000),
            ParameterDocs(
                "Consistency",
                larger="predictions stay closer to the other view or to earlier predictions",
                paper="10 (authors' code)",
            ),
        ] = 10.0,
        ramp_share: Annotated[
            float,
            "T: how long the consistency weight increases, as a share of the epochs that follow the warm-up",
            (0, 1),
            ParameterDocs(
                "Consistency", larger="the weight increases more slowly", paper="5 of 100 epochs (authors' code)"
            ),
        ] = 0.05,
        average_decay: Annotated[
            float,
            "TE, TEP: decay of the moving average of an image's predictions",
            (0, 0.999),
            ParameterDocs("Consistency", larger="the average looks further back", paper="0.6 (authors' code)"),
        ] = 0.6,
        target_interval: Annotated[
            int | None,
            "epochs between updates of the targets; none: 5 for fewer than 100 classes, otherwise 10",
            (1, 100000),
            ParameterDocs(
                "Clusters",
                larger="targets stay the same for longer",
                paper="5 on CIFAR-10, 10 on CIFAR-100 (authors' code)",
            ),
        ] = None,
        supervised_share: Annotated[
            float,
            "share of the run, from its start, in which only labeled images are used",
            (0, 0.9),
            ParameterDocs(
                "Stages",
                larger="more epochs on labeled images, fewer on clusters",
                paper="180 epochs, then 110 epochs of clustering, on CIFAR-10 (authors' code)",
            ),
        ] = 0.3,
        warmup_share: Annotated[
            float,
            "share of the run in which the targets stay fixed (warm-up)",
            (0, 0.9),
            ParameterDocs(
                "Stages",
                larger="the first targets are used for longer",
                paper="10 of 110 epochs on CIFAR-10, 30 of 130 on CIFAR-100 (authors' code)",
            ),
        ] = 0.1,
        kl_reduction: Annotated[
            Literal["mean", "batchmean"],
            "average of the clustering loss",
            ParameterDocs(
                "Variants of the paper",
                words={"mean": "over images and clusters (authors' code)", "batchmean": "over images only"},
            ),
        ] = "mean",
        init_linear_from_pca: Annotated[
            bool,
            "initialize the linear layer in front of the clusters with the principal components, not with random "
            "values (authors' code: random values)",
            ParameterDocs("Variants of the paper"),
        ] = False,
        kmeans_restarts: Annotated[
            int,
            "runs of k-means; the one with the tightest clusters is used",
            (1, 1000),
            ParameterDocs(
                "Clusters", larger="slower; the first clusters are at least as tight", paper="20 (authors' code)"
            ),
        ] = 20,
    ):
        super().__init__(network, classes)
        features = network.backbone.num_features
        network.classifier = nn.Linear(features, classes.seen)  # used in the supervised stage
        self.reduction = nn.Linear(features, min(classes.total, features))
        self.centres = nn.Parameter(torch.zeros(classes.total, self.reduction.out_features))
        # t: (unlabeled images, clusters), filled when the transfer begins
        self.register_buffer("targets", torch.empty(0))
        self.register_buffer("past", torch.empty(0))  # TE, TEP: decaying sum of q, of the same shape
        self.register_buffer("visits", torch.empty(0))  # (unlabeled images,), number of q in that sum
        many = classes.total >= _MANY
        consistency = ("TE" if many else "PI") if consistency == "auto" else consistency
        self.views = ("weak", "weak") if consistency == "PI" else ("weak",)
        self.consistency = consistency
        self.consistency_weight = consistency_weight
        self.ramp_share = ramp_share
        self.average_decay = average_decay
        self.target_interval = target_interval or (10 if many else 5)
        self.supervised_share, self.warmup_share = supervised_share, warmup_share
        self.kl_reduction = kl_reduction
        self.init_linear_from_pca = init_linear_from_pca
        self.kmeans_restarts = kmeans_restarts

    def stages(self, epochs: int) -> tuple[int, int]:
        """Return (first epoch of the transfer, first epoch after its warm-up)."""
        transfer = epochs_of(self.supervised_share, epochs)
        return transfer, min(epochs, transfer + epochs_of(self.warmup_share, epochs))

    def consistency_at(self, progress: Progress) -> float:
        """Return w, the weight of the consistency term in this epoch; 0 in the warm-up."""
        _, main = self.stages(progress.epochs)
        if progress.epoch < main or self.consistency in ("Baseline", "TEP"):
            return 0.0
        return self.consistency_weight * ramp_up(progress.epoch - main, self.ramp_share * (progress.epochs - main))

    def start_epoch(self, inference: Inference, progress: Progress) -> None:
        """Begin the transfer, or update the targets, in the epochs for that."""
        transfer, main = self.stages(progress.epochs)
        done = progress.epoch - main
        if progress.epoch == transfer:
            self._begin_transfer(inference)
        elif done == 0:
            self.targets = sharpen_assignments(self.assignments(inference))
        elif done > 0:
            self._update_targets(inference, renew=(done - 1) % self.target_interval == 0)

    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        if progress.epoch < self.stages(progress.epochs)[0]:
            terms, measured = self._supervised(batch), {}
        else:
            terms, measured = self._transfer(batch, self.consistency_at(progress))
        total, of_terms = sum_terms(terms)
        return total, measured | of_terms

    def predict(self, inference: Inference) -> Prediction:
        """Return the nearest centre and its soft assignment."""
        if len(self.targets):
            confidence, ids = self.assignments(inference).max(dim=1)
            return Prediction(ids, confidence)
        features, fitted = inference.unlabeled.features.float(), inference.fitted
        if fitted:
            points = F.linear(features, fitted["weight"], fitted["bias"])
            assignments = log_student_t(squared_distances(points, fitted["centres"])).exp()
        else:
            centres, assignments, weight, bias = self._first_clusters(features, inference.seed)
            fitted = {"centres": centres, "weight": weight, "bias": bias}
        confidence, ids = assignments.max(dim=1)
        return Prediction(ids, confidence, fitted=fitted)

    def assignments(self, inference: Inference) -> Tensor:
        """Return q (unlabeled images, clusters) in evaluation mode, once the transfer has begun."""
        return self._log_assignments(inference.unlabeled.features).exp()

    def _first_clusters(self, features: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return centres (k, components), q (n, k), and weight and bias of the map to principal components."""
        mean, axes = principal_axes(features, self.reduction.out_features)
        points, no_ids = (features - mean) @ axes.T, torch.zeros(0, dtype=torch.int64, device=features.device)
        clusters = semi_supervised_kmeans(points, points[:0], no_ids, len(self.centres), seed, self.kmeans_restarts)
        return clusters.centres, log_student_t(clusters.distances).exp(), axes, -axes @ mean

    def _begin_transfer(self, inference: Inference) -> None:
        """Set centres and targets by k-means on the principal components of the unlabeled features."""
        centres, assignments, weight, bias = self._first_clusters(inference.unlabeled.features.float(), inference.seed)
        self.centres.copy_(centres)
        self.targets = sharpen_assignments(assignments)
        if self.init_linear_from_pca:
            self.reduction.weight.copy_(weight)
            self.reduction.bias.copy_(bias)
        if self.consistency in ("TE", "TEP"):
            self.past = torch.zeros_like(self.targets)
            self.visits = torch.zeros_like(self.targets[:, 0])

    def _update_targets(self, inference: Inference, renew: bool) -> None:
        """After the warm-up, add the epoch's predictions to the averages (TEP) and update the targets if `renew`."""
        all_images = torch.arange(len(self.targets), device=self.targets.device)
        if self.consistency == "TEP":
            self._add_to_averages(self.assignments(inference), all_images)
        if renew:
            uses_averages = self.consistency == "TEP"
            self.targets = sharpen_assignments(
                self._average(all_images) if uses_averages else self.assignments(inference)
            )

    def _supervised(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy of the labeled rows, which are passed alone."""
        (outputs,) = self.network.forward_views([batch.labeled_views[0]])
        return {"loss/cross_entropy": F.cross_entropy(outputs.logits.float(), batch.targets)}

    def _transfer(self, batch: Batch, weight: float) -> tuple[dict[str, Tensor], dict[str, Measurement]]:
        outputs = self.network.forward_views(list(batch.unlabeled_views))
        targets = self.targets[batch.unlabeled_positions]
        log_q, *log_other_views = (self._log_assignments(view.features) for view in outputs)
        divisor = log_q.numel() if self.kl_reduction == "mean" else len(log_q)
        terms = {"loss/clustering": F.kl_div(log_q, targets, reduction="sum") / divisor}
        if self.consistency == "PI":
            terms["loss/consistency"] = weight * F.mse_loss(log_q.exp(), log_other_views[0].exp())
        elif self.consistency == "TE":
            distance = self._distance_from_past(log_q.exp(), batch.unlabeled_positions, remember=weight > 0)
            terms["loss/consistency"] = weight * distance
        pi_hat = class_distribution(log_q.detach().exp(), torch.ones_like(log_q[:, 0]))
        measured = {"consistency_weight": weight, "target/distribution": targets.mean(dim=0)}
        return terms, measured | distribution_measurements(pi_hat)

    def _distance_from_past(self, assignments: Tensor, positions: Tensor, remember: bool) -> Tensor:
        """Return the mean squared difference of q (n, k) from the images' averages, 0 without any; then add q to them.

        remember: False in the warm-up, whose assignments do not fit the targets yet.
        """
        is_visited = (self.visits[positions] > 0)[:, None]
        distance = ((assignments - self._average(positions)).square() * is_visited).mean()
        if self.training and remember:
            self._add_to_averages(assignments.detach(), positions)
        return distance

    def _add_to_averages(self, assignments: Tensor, positions: Tensor) -> None:
        """Add q (n, k) of the images at `positions` to their averages."""
        decay = self.average_decay
        self.past[positions] = decay * self.past[positions] + (1 - decay) * assignments
        self.visits[positions] = self.visits[positions] + 1

    def _average(self, positions: Tensor) -> Tensor:
        """Return (n, k): decaying averages of q, corrected for starting at 0."""
        correction = 1 - self.average_decay ** self.visits[positions]
        return self.past[positions] / correction.clamp_min(TINY)[:, None]

    def _log_assignments(self, features: Tensor) -> Tensor:
        """Return log q (n, k) in float32 of features (n, d)."""
        with torch.autocast(features.device.type, enabled=False):
            return log_student_t(squared_distances(self.reduction(features.float()), self.centres))


def log_student_t(distances: Tensor) -> Tensor:
    """Return log q (n, k): Student's t with one degree of freedom of squared distances (n, k), over all clusters.

    In log space, since 1 / (1 + d^2) of a far point is 0 in half precision.
    """
    return (-distances.log1p()).log_softmax(dim=1)


def sharpen_assignments(assignments: Tensor) -> Tensor:
    """Return t (n, k) of q (n, k) over all images: q^2 over the size of the cluster, normalised over clusters.

    q^2 / sum q is at most q, so a cluster without near images stays near 0.
    """
    weights = assignments.square() / assignments.sum(dim=0).clamp_min(TINY)
    return weights / weights.sum(dim=1, keepdim=True).clamp_min(TINY)
