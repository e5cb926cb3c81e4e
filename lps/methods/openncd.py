r"""OpenNCD: learns many prototypes; during training, prototypes that share many images become one class.

Citation:
    J. Liu, Y. Wang, T. Zhang, Y. Fan, Q. Yang, J. Shao: Open-world Semi-supervised Novel Class Discovery. IJCAI 2023.

Objective:
    $$\mathcal{L} = -\frac{1}{B} \sum_i \log \langle a_i, a'_{j(i)} \rangle
    - \frac{\eta_1}{2B} \sum_i \big( \langle g'_i, \log g_i \rangle + \langle g_i, \log g'_i \rangle \big)
    + \eta_2\, \mathrm{KL}(\bar a \,\|\, \text{prior}) - \frac{w}{B_l} \sum_{i \le B_l} \log g_{i y_i},
    \qquad a = \mathrm{softmax}(v c^\top / \tau), \qquad g = a G^\top$$

Views:
    w1 and w2 are weak. From each view, the network computes projections v, prototype probabilities a and group
    probabilities g. View w1 is used for the first image of every pair, for the prior term and for the cross-entropy.
    View w2 is used for the second image of every pair. The group similarity uses both views. The gradient flows through
    both factors of every product. The nearest neighbours are found with v of w1. No gradient flows through them or
    through the groups G. G is computed before an epoch from all training images, in evaluation mode and without
    augmentation.

Deviations:
    - Optimizer, learning rate, steps, batch, views and frozen stages follow the common protocol (original: Adam 2e-3
      without weight decay, SimCLR views, layer3 detached). Weight decay shrinks the prototypes. This has no effect on
      the loss, which normalizes them to length 1.
    - Epoch numbers are converted to shares of the run. In a run of 150 epochs, the groups are computed again before
      each of the epochs 5 to 69. Runs of other lengths scale these numbers, but compute groups at least once. Until the
      groups are computed for the first time, every prototype is its own group, and the cross-entropy is off; an
      evaluation during this time computes its own groups.
    - The number of classes is known. Images vote without augmentation (original: with augmentation).
    - A prototype without votes is not in the graph. It joins the group of the most similar prototype (by cosine) that
      has votes. For spectral clustering, a small constant is added to every edge of the graph.
    - The id of a seen class goes to the group with the most labeled images of this class. A novel id goes to the
      group that shares the most prototypes with the group that had this id before (best matching). So ids stay the same
      from epoch to epoch. If the numbers of labeled images are equal, shared prototypes decide for seen classes too.
    - The partner of a labeled image is the next image of its class in the shuffled batch, so every other image of the
      class is equally likely.
    - The prior gives the share of every group: equal shares, unless you set `prior`. While every prototype is its own
      group, the shares are always equal.
    - In the prior term, epsilon is inside the logarithm. The similarity of prototypes is computed in log space.
"""

from typing import Annotated, Literal

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import SpectralClustering
from torch import Tensor, nn

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Inference, Method, Prediction, Progress
from lps.methods.parts.losses import pair_loss, pair_partners, similarities
from lps.methods.parts.measurements import Measurement, sum_terms
from lps.methods.parts.pseudo_labels import TINY, distribution_measurements
from lps.network.network import Network
from lps.settings.parameters import ParameterDocs

_CONNECTED = 1e-4  # added to every edge of the prototype graph, so that it is one component


class OpenNCD(Method):
    """OpenNCD. `network.classifier` becomes the projector, so the logits in `Outputs` are projections here."""

    views = ("weak", "weak")
    uses_prior = True

    def __init__(
        self,
        network: Network,
        classes: Classes,
        *,
        prototypes_per_class: Annotated[
            int,
            "number of prototypes, as a multiple of the number of classes",
            (1, 100),
            ParameterDocs(
                "Prototypes",
                larger="each prototype covers a smaller part of a class; slower",
                paper="5 (authors' code)",
            ),
        ] = 5,
        projection_width: Annotated[
            int,
            "outputs of the projection head",
            (2, 4096),
            ParameterDocs("Prototypes", larger="images are compared in more dimensions", paper="32 (authors' code)"),
        ] = 32,
        temperature: Annotated[
            float,
            "tau: temperature of the softmax over prototypes",
            (0.01, 10),
            ParameterDocs("Prototypes", larger="an image is assigned to more prototypes", paper="0.1 (authors' code)"),
        ] = 0.1,
        votes: Annotated[
            int | None,
            "number of nearest prototypes that each image votes for; none: 3 for at most 10 classes, otherwise 10",
            (1, 100),
            ParameterDocs(
                "Groups",
                larger="an image connects more prototypes, including more distant ones",
                paper="3 on CIFAR-10, 10 on CIFAR-100 (authors' code)",
            ),
        ] = None,
        graph_weight: Annotated[
            float | None,
            "weight of shared votes in the similarity of two prototypes; the rest of the weight goes to their cosine "
            "similarity; none: 1 for at most 10 classes, otherwise 0.9",
            (0, 1),
            ParameterDocs(
                "Groups",
                larger="shared votes count more; cosine similarity of prototypes counts less",
                paper="1 on CIFAR-10, 0.9 on CIFAR-100 (authors' code)",
            ),
        ] = None,
        group_start: Annotated[
            float,
            "share of the run after which prototypes are grouped",
            (0, 1),
            ParameterDocs(
                "Groups",
                larger="grouping and cross-entropy on labels start later",
                paper="epoch 5 of 150 (authors' code)",
            ),
        ] = 0.0333,
        group_end: Annotated[
            float,
            "share of the run after which the groups no longer change",
            (0, 1),
            ParameterDocs("Groups", larger="groups may change for longer", paper="epoch 69 of 150 (authors' code)"),
        ] = 0.4666,
        group_weight: Annotated[
            float,
            "eta1: weight of the term that makes both views of an image choose the same group",
            (0, 100),
            ParameterDocs(
                "Groups", larger="both views of an image are more often in the same group", paper="1 (authors' code)"
            ),
        ] = 1.0,
        prior_weight: Annotated[
            float,
            "eta2: weight of the term that keeps all groups in use",
            (0, 1000),
            ParameterDocs(
                "Groups", larger="images are spread more evenly over the groups", paper="10 (authors' code), 1 (paper)"
            ),
        ] = 10.0,
        cross_entropy_weight: Annotated[
            float,
            "w: weight of the cross-entropy of labeled images, once prototypes are grouped",
            (0, 100),
            ParameterDocs("Labels", larger="the labels count more", paper="1 (authors' code)"),
        ] = 1.0,
        prediction: Annotated[
            Literal["nearest_prototype", "largest_group"],
            "how an image gets its class",
            ParameterDocs(
                "Variants of the paper",
                words={
                    "nearest_prototype": "group of the nearest prototype (authors' code)",
                    "largest_group": "most probable group (paper)",
                },
            ),
        ] = "nearest_prototype",
    ):
        super().__init__(network, classes)
        width, count = network.backbone.num_features, prototypes_per_class * classes.total
        network.classifier = nn.Sequential(
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, projection_width)
        )
        self.prototypes = nn.Parameter(torch.randn(count, projection_width))
        self.temperature = temperature
        few = classes.total <= 10
        self.votes = min(votes or (3 if few else 10), count)
        self.graph_weight = (1.0 if few else 0.9) if graph_weight is None else graph_weight
        self.group_start, self.group_end = group_start, group_end
        self.group_weight = group_weight
        self.prior_weight = prior_weight
        self.cross_entropy_weight = cross_entropy_weight
        self.prediction = prediction
        self.register_buffer("groups", torch.arange(count))  # group id by prototype; class ids once grouped
        self.register_buffer("is_grouped", torch.tensor(False))

    def start_epoch(self, inference: Inference, progress: Progress) -> None:
        """Group the prototypes again in the epochs for that, and at least once."""
        in_time = self.group_start <= progress.by_epoch < self.group_end
        if in_time or (progress.by_epoch >= self.group_start and not self.is_grouped):
            self.groups.copy_(self._grouping(inference))
            self.is_grouped.fill_(True)

    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        first, second = (outputs.logits for outputs in self.network.forward_views(batch.views()))
        partners = pair_partners(similarities(first.detach(), temperature=1.0), batch.targets)
        logits = [self.prototype_logits(projections) for projections in (first, second)]
        groups = [self.group_probabilities(view_logits) for view_logits in logits]
        is_grouped = progress.by_epoch >= self.group_start
        terms = {
            "loss/prototype_similarity": pair_loss(*logits, partners),
            "loss/group_similarity": self.group_weight * _cross_similarity(*groups),
            "loss/prior": self.prior_weight * kl_to_prior(logits[0].softmax(dim=1).mean(dim=0), self.prototype_prior()),
        }
        if is_grouped:
            of_target = groups[0][: len(batch.targets)].gather(1, batch.targets[:, None])
            terms["loss/cross_entropy"] = -self.cross_entropy_weight * (of_target + TINY).log().mean()

        total, measured = sum_terms(terms)
        if is_grouped:
            measured |= distribution_measurements(
                groups[0].detach().mean(dim=0)[: self.classes.total], self.class_prior
            )
        return total, measured

    def predict(self, inference: Inference) -> Prediction:
        """Return the group of every image's nearest prototype, or its most probable group."""
        groups = self.groups if self.is_grouped else inference.fitted.get("groups")
        groups = self._grouping(inference) if groups is None else groups
        logits = self.prototype_logits(inference.unlabeled.logits)
        probabilities, nearest = self.group_probabilities(logits, groups), logits.argmax(dim=1)
        by_prototype = self.prediction == "nearest_prototype"
        ids = groups[nearest] if by_prototype else probabilities[:, : self.classes.total].argmax(dim=1)
        confidence = probabilities.gather(1, ids[:, None]).squeeze(1).clamp_max(1)
        measurements = {
            "prototype/in_use": len(nearest.unique()),
            "group/in_use": len(ids.unique()),
            "group/prototypes": groups.bincount(minlength=self.classes.total).tolist(),
        }
        return Prediction(ids, confidence, measurements, {} if self.is_grouped else {"groups": groups})

    def prototype_logits(self, projections: Tensor) -> Tensor:
        """Return cosine(projection, prototype) / temperature: (n, prototypes), float32."""
        with torch.autocast(projections.device.type, enabled=False):
            cosine = F.normalize(projections.float(), dim=1) @ F.normalize(self.prototypes.float(), dim=1).T
        return cosine / self.temperature

    def group_probabilities(self, logits: Tensor, groups: Tensor | None = None) -> Tensor:
        """Return sums of prototype probabilities by group: (n, prototypes), 0 for ids beyond the number of groups."""
        with torch.autocast(logits.device.type, enabled=False):
            return logits.softmax(dim=1) @ _membership(self.groups if groups is None else groups)

    def prototype_prior(self) -> Tensor:
        """Return (prototypes,): every group has the same mass, spread evenly over its prototypes.

        With a class prior q and once grouped, the group of class k has the mass q_k, as a share of all groups in use.
        """
        sizes = _membership(self.groups).sum(dim=0)
        if self.class_prior is None or not self.is_grouped:
            return 1 / ((sizes > 0).sum() * sizes[self.groups])
        mass = self.class_prior.clamp_min(TINY)[self.groups] / sizes[self.groups]
        return mass / mass.sum()

    def _grouping(self, inference: Inference) -> Tensor:
        """Return the group id of every prototype (prototypes,), from the votes of all training images."""
        labeled, unlabeled = (self.prototype_logits(part.logits) for part in (inference.labeled, inference.unlabeled))
        votes = torch.zeros(len(labeled) + len(unlabeled), len(self.prototypes), device=labeled.device)
        votes.scatter_(1, torch.cat([labeled, unlabeled]).topk(self.votes, dim=1).indices, 1.0)
        directions = F.normalize(self.prototypes.detach().float(), dim=1).cpu().numpy()
        votes = votes.cpu().numpy()
        groups = group_prototypes(votes, directions, self.graph_weight, self.classes.total, inference.seed)
        nearest, targets = labeled.argmax(dim=1).cpu().numpy(), inference.targets.cpu().numpy()
        before = self.groups.cpu().numpy() if self.is_grouped else np.full(len(groups), -1)
        return torch.from_numpy(align_groups(groups, before, nearest, targets, self.classes)).to(labeled.device)


def _membership(groups: Tensor) -> Tensor:
    """Return 0/1 (prototypes, groups) of group ids (prototypes,), with a column for every possible group."""
    return (groups[:, None] == torch.arange(len(groups), device=groups.device)).float()


def _cross_similarity(first: Tensor, second: Tensor) -> Tensor:
    """Return half the mean over rows of both cross-entropies between two views' group probabilities (n, groups)."""
    forward = (second * (first + TINY).log()).sum(dim=1).mean()
    backward = (first * (second + TINY).log()).sum(dim=1).mean()
    return -(forward + backward) / 2


def kl_to_prior(mean: Tensor, prior: Tensor) -> Tensor:
    """Return KL(mean || prior) of two distributions over prototypes; the prior is positive everywhere."""
    return (mean * ((mean + TINY).log() - prior.log())).sum()


def prototype_graph(votes: np.ndarray, directions: np.ndarray, weight: float) -> np.ndarray:
    """Return the similarity of prototypes (p, p): images that vote for both, as a share of the smaller number of votes.

    votes: 0/1 (images, p), at least one per prototype; directions: unit prototypes (p, d). Their cosine, mapped to [0,
    1], has the share 1 - weight. The vote part of the diagonal is 0.
    """
    common = (votes.T @ votes).astype(np.float64)
    counts = common.diagonal()
    fewest = np.minimum(counts[:, None], counts[None, :])
    shared = common / fewest
    np.fill_diagonal(shared, 0)
    return weight * shared + (1 - weight) * (1 + directions @ directions.T) / 2


def group_prototypes(votes: np.ndarray, directions: np.ndarray, weight: float, count: int, seed: int) -> np.ndarray:
    """Return ids int64 (p,) of at most `count` groups; prototypes without votes join the nearest one with some."""
    voted = np.flatnonzero(votes.any(axis=0))
    groups = spectral_groups(prototype_graph(votes[:, voted], directions[voted], weight), count, seed)
    nearest = (directions @ directions[voted].T).argmax(axis=1)
    nearest[voted] = np.arange(len(voted))
    return groups[nearest]


def spectral_groups(graph: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return ids int64 (p,) of at most `count` groups of a graph (p, p); up to `count` nodes are a group each."""
    if len(graph) <= count:
        return np.arange(len(graph))
    clustering = SpectralClustering(count, affinity="precomputed", random_state=seed)
    return clustering.fit_predict(graph + _CONNECTED).astype(np.int64)


def align_groups(
    groups: np.ndarray, before: np.ndarray, nearest: np.ndarray, targets: np.ndarray, classes: Classes
) -> np.ndarray:
    """Renumber groups (p,) one-to-one by the labeled images in them, then by the prototypes that they keep.

    before (p,): the previous ids, -1 for none. nearest (labeled,): the nearest prototype of every labeled image.
    """
    prototypes = np.zeros((classes.total, classes.total), np.int64)
    images = np.zeros_like(prototypes)
    old = before >= 0
    np.add.at(prototypes, (groups[old], before[old]), 1)
    np.add.at(images, (groups[nearest], targets), 1)
    _, ids = linear_sum_assignment(images * (len(groups) + 1) + prototypes, maximize=True)
    return ids[groups]
