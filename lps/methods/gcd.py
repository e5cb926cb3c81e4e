r"""GCD: contrastive learning on all images and on labels, then k-means that keeps labeled images in their class.

Citation:
    S. Vaze, K. Han, A. Vedaldi, A. Zisserman: Generalized Category Discovery. CVPR 2022.

Objective:
    $$\mathcal{L} = (1 - \lambda) \frac{1}{2B} \sum_a
    -\log \frac{e^{v_a \cdot v_{a'} / \tau_u}}{\sum_{b \ne a} e^{v_a \cdot v_b / \tau_u}}
    + \lambda \frac{1}{2B_l} \sum_{a \in \mathcal{B}_l} \frac{1}{|P(a)|} \sum_{p \in P(a)}
    -\log \frac{e^{v_a \cdot v_p / \tau}}{\sum_{b \in \mathcal{B}_l, b \ne a} e^{v_a \cdot v_b / \tau}},
    \qquad \lambda = 0.35$$

Views:
    w1 and w2 are weak; gradients flow through both. The index a is a row: one view of one image. v are unit outputs of
    a projection head. a' denotes the other view of the same image. P(a) are the other labeled rows of both views with
    the label of a. The first term is computed for all rows, labeled ones too.

Prediction:
    Semi-supervised k-means clusters the unit backbone features (before the projection head) of all training images.
    Labeled images stay in the cluster of their class, so the ids of seen classes have a meaning. Nevertheless,
    ids are matched with classes before seen accuracy is computed, as for all methods that only cluster; the raw
    accuracy can be computed from the stored predictions. A test image gets the id of the nearest centre.

Deviations:
    - Common protocol: SimCLR start and the network that all methods share (original: DINO ViT-B/16 with its last block
      trained); the optimizer, schedule, steps and weak views of all methods; labeled and unlabeled images have the same
      proportion in a batch as in the split (original: half and half); the results are those of the last epoch.
    - The projection head has 256 outputs. The original adds a weight-normalized layer with 65,536 outputs. The hidden
      layers (original: 2048) are at most 4 times as wide as the features, which only matters for small backbones.
    - k-means has 10 restarts, the default of the authors' code (their scripts: 100). Each start is the best of a few
      draws. An empty cluster gets the farthest point (original: its mean is undefined). Ids are those of the final
      centres (original: of the centres of the previous iteration).
    - k-means gives no probabilities. Confidence is 1 - distance to the nearest centre / distance to the second one.
"""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Inference, Method, Prediction, Progress
from lps.methods.parts.clustering import cluster_confidence, nearest_centres, semi_supervised_kmeans
from lps.methods.parts.losses import labeled_contrastive, nt_xent
from lps.methods.parts.measurements import Measurement, sum_terms
from lps.network.network import Network, projection_head
from lps.settings.parameters import ParameterDocs


class GCD(Method):
    views = ("weak", "weak")
    seen_is_aligned = False

    def __init__(
        self,
        network: Network,
        classes: Classes,
        *,
        supervised_weight: Annotated[
            float,
            "lambda: share of the supervised contrastive loss; the rest is unsupervised",
            (0, 1),
            ParameterDocs(
                "Contrastive losses",
                larger="labels shape the features more; the images themselves shape them less",
                paper="0.35 (authors' code)",
            ),
        ] = 0.35,
        unsupervised_temperature: Annotated[
            float,
            "tau_u: temperature of the contrastive loss over all images",
            (0.01, 10),
            ParameterDocs(
                "Contrastive losses",
                larger="similar and dissimilar images count more equally in the loss",
                paper="1 (authors' code)",
            ),
        ] = 1.0,
        supervised_temperature: Annotated[
            float,
            "tau: temperature of the contrastive loss over labeled images",
            (0.01, 10),
            ParameterDocs(
                "Contrastive losses",
                larger="similar and dissimilar images count more equally in the loss",
                paper="0.07 (authors' code)",
            ),
        ] = 0.07,
        projection_width: Annotated[
            int | None,
            "width of the two hidden layers of the projection head; none: 2048, but at most 4 times the "
            "number of features",
            (1, 16384),
            ParameterDocs("Projection", larger="a more powerful but slower head", paper="2048 (authors' code)"),
        ] = None,
        projection_outputs: Annotated[
            int,
            "outputs of the projection head, used by the contrastive losses",
            (2, 65536),
            ParameterDocs(
                "Projection",
                larger="images are compared in more dimensions",
                paper="65536, after a layer of 256 (authors' code)",
            ),
        ] = 256,
        kmeans_restarts: Annotated[
            int,
            "runs of semi-supervised k-means; the one with the tightest clusters is used",
            (1, 1000),
            ParameterDocs(
                "Prediction",
                larger="slower; clusters are at least as tight",
                paper="100 in the authors' scripts, 10 by default in their code",
            ),
        ] = 10,
        kmeans_iterations: Annotated[
            int,
            "largest number of rounds of one run of semi-supervised k-means",
            (1, 10000),
            ParameterDocs(
                "Prediction",
                larger="slower; centres converge further",
                paper="200 in the authors' scripts, 10 by default in their code",
            ),
        ] = 200,
        test_clusters: Annotated[
            Literal["training", "test"],
            "clusters that test images are assigned to",
            ParameterDocs("Prediction", words={"training": "of the training images", "test": "of the test images"}),
        ] = "training",
    ):
        super().__init__(network, classes)
        network.classifier = projection_head(network.backbone.num_features, projection_width, projection_outputs)
        self.supervised_weight = supervised_weight
        self.unsupervised_temperature = unsupervised_temperature
        self.supervised_temperature = supervised_temperature
        self.kmeans_restarts, self.kmeans_iterations = kmeans_restarts, kmeans_iterations
        self.test_clusters = test_clusters

    def loss(self, batch: Batch, progress: Progress) -> tuple[Tensor, dict[str, Measurement]]:
        projected = [view.logits for view in self.network.forward_views(batch.views())]
        unsupervised = nt_xent(torch.cat(projected), self.unsupervised_temperature)
        supervised = labeled_contrastive(projected, batch.targets, self.supervised_temperature)
        terms = {
            "loss/unsupervised_contrastive": (1 - self.supervised_weight) * unsupervised,
            "loss/supervised_contrastive": self.supervised_weight * supervised,
        }
        return sum_terms(terms)

    def predict(self, inference: Inference) -> Prediction:
        """Return ids of semi-supervised k-means: seen classes below `seen`, the others are clusters without a name."""
        points = F.normalize(inference.unlabeled.features.float(), dim=1)
        if inference.fitted:
            return Prediction(*nearest_centres(points, inference.fitted["centres"]))
        clusters = semi_supervised_kmeans(
            points,
            F.normalize(inference.labeled.features.float(), dim=1),
            inference.targets,
            self.classes.total,
            inference.seed,
            self.kmeans_restarts,
            self.kmeans_iterations,
        )
        return Prediction(
            clusters.ids,
            cluster_confidence(clusters.distances),
            {"cluster/inertia": clusters.inertia.item()},
            {"centres": clusters.centres},
        )
