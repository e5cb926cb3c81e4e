"""Classify with seen classes only, and cluster the images that the classifier rejects.

Semi-supervised systems made for unlabeled images of the labeled classes enter the open world this way (LPS paper,
section 4; ORCA): images that they reject are novel, and k-means assigns the novel classes. A rejected test image goes
to the nearest cluster of rejected training images.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lps.data.classes import Classes
from lps.methods import Prediction
from lps.methods.parts.clustering import cluster_centres, kmeans, nearest_centres
from lps.network.network import CosineClassifier, Network, Outputs


def closed_set_classifier(network: Network, classes: Classes, head: str) -> nn.Module:
    """Return a new classifier with one output per seen class: "linear", or "network" for the network's own kind."""
    width = network.backbone.num_features
    if head == "network" and isinstance(network.classifier, CosineClassifier):
        return CosineClassifier(width, classes.seen, network.classifier.scale)
    return nn.Linear(width, classes.seen)


def predict_with_rejection(
    outputs: Outputs, accepted: Tensor, classes: Classes, seed: int, centres: Tensor | None = None
) -> Prediction:
    """Give accepted rows the classifier's class, and the others `classes.seen` + their cluster among the rejected rows.

    outputs: logits (n, seen), features (n, d); accepted bool (n,). There is one cluster per novel class, on unit
    features; fewer if fewer rows are rejected. The confidence of a rejected row is that of its cluster. centres: those
    of an earlier prediction (its `fitted`), to which rejected rows are assigned instead.
    """
    confidence, ids = outputs.logits.float().softmax(dim=1).max(dim=1)
    if centres is not None:
        clusters, cluster_confidence = nearest_centres(F.normalize(outputs.features.float(), dim=1), centres)
        ids, confidence = ids.where(accepted, classes.seen + clusters), confidence.where(accepted, cluster_confidence)
        return Prediction(ids, confidence.clamp(max=1), fitted={"centres": centres})
    rejected = (~accepted).nonzero().squeeze(1)
    points = F.normalize(outputs.features[rejected].float(), dim=1)
    clusters = torch.from_numpy(kmeans(points.cpu().numpy(), classes.novel, seed)).to(ids.device)
    centres = cluster_centres(points, clusters, classes.novel)
    ids[rejected] = classes.seen + clusters
    confidence[rejected] = nearest_centres(points, centres)[1]
    return Prediction(ids, confidence.clamp(max=1), {"rejected/share": len(rejected) / len(ids)}, {"centres": centres})
