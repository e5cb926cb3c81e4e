r"""SimCLR: k-means on the pretrained features of the unlabeled images; no label is used and nothing is trained.

Citation:
    T. Chen, S. Kornblith, M. Norouzi, G. Hinton: A Simple Framework for Contrastive Learning of Visual Representations.
    ICML 2020.

Objective:
    $$\min_{c, \mu} \sum_{i \in \mathcal{U}} \big\| v_i - \mu_{c_i} \big\|^2, \qquad v_i = \frac{h_i}{\|h_i\|}, \qquad
    c_i \in \{1, \dots, K\}$$

Views:
    There are no views: the features of every unlabeled image are computed once with the start weights, without
    augmentation. h are the backbone features, before the projection head of SimCLR. There is one cluster per class,
    seen or novel. k-means runs `restarts` times, and the best result is used. A test image gets the id of the nearest
    centre.

Deviations:
    - None in the clustering. Cluster ids have no meaning, so they are matched with classes before seen accuracy
      is computed.
    - k-means gives no probabilities. Confidence is 1 - distance to the nearest centre / distance to the second one.
"""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F

from lps.data.classes import Classes
from lps.methods import Inference, Method, Prediction
from lps.methods.parts.clustering import cluster_centres, kmeans, nearest_centres
from lps.network.network import Network
from lps.settings.parameters import ParameterDocs


class SimCLR(Method):
    trains = False
    seen_is_aligned = False

    def __init__(
        self,
        network: Network,
        classes: Classes,
        *,
        restarts: Annotated[
            int,
            "runs of k-means from new random centres; the one with the tightest clusters is used",
            (1, 1000),
            ParameterDocs("Prediction", larger="slower; clusters are at least as tight"),
        ] = 10,
        normalize: Annotated[
            bool, "normalize every feature vector to length 1 before k-means", ParameterDocs("Prediction")
        ] = True,
        test_clusters: Annotated[
            Literal["training", "test"],
            "clusters that test images are assigned to",
            ParameterDocs("Prediction", words={"training": "of the training images", "test": "of the test images"}),
        ] = "training",
    ):
        super().__init__(network, classes)
        self.restarts = restarts
        self.normalize = normalize
        self.test_clusters = test_clusters

    def predict(self, inference: Inference) -> Prediction:
        features = inference.unlabeled.features.float()
        points = F.normalize(features, dim=1) if self.normalize else features
        if inference.fitted:
            return Prediction(*nearest_centres(points, inference.fitted["centres"]))
        cluster_ids = kmeans(points.cpu().numpy(), self.classes.total, inference.seed, self.restarts, self.normalize)
        clusters = torch.from_numpy(cluster_ids).to(points.device)
        centres = cluster_centres(points, clusters, self.classes.total)
        return Prediction(clusters, nearest_centres(points, centres)[1], fitted={"centres": centres})
