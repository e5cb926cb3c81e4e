"""GCD: both contrastive terms row by row in float64, and the pinned k-means that predicts."""

import pytest
import torch
from scenes import CLASSES, WIDTH, naive_contrast, scene

from lps.data.classes import Classes
from lps.methods import Inference, Progress, build
from lps.network.network import Network, Outputs
from lps.settings.config import configure

NOW = Progress(3, 20, 0, 10)


def naive(method, batch, tau=0.07, unsupervised_tau=1.0, share=0.35):
    supervised, unsupervised = naive_contrast(method.network.logits, batch.targets, tau, unsupervised_tau)
    return {
        "loss/unsupervised_contrastive": (1 - share) * unsupervised,
        "loss/supervised_contrastive": share * supervised,
    }


OTHERS = {"supervised_weight": 0.6, "supervised_temperature": 0.5, "unsupervised_temperature": 0.2}


@pytest.mark.parametrize(
    "options, constants",
    [({}, {}), (OTHERS, dict(share=0.6, tau=0.5, unsupervised_tau=0.2))],
    ids=["default", "others"],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_both_terms_equal_the_naive_ones(options, constants, seed):
    method, batch = scene("gcd", 2, seed=seed, outputs=16, **options)
    _, measured = method.loss(batch, NOW)
    for name, value in naive(method, batch, **constants).items():
        assert measured[name].item() == pytest.approx(value, rel=1e-4), name


def test_labels_move_labeled_rows_alone_and_both_of_their_views():
    method, batch = scene("gcd", 2, outputs=16, supervised_weight=1.0)
    method.loss(batch, NOW)[0].backward()
    gradient = method.network.logits.grad.abs().sum(dim=2)
    assert (gradient[:, :5] > 0).all() and (gradient[:, 5:] == 0).all()
    method, batch = scene("gcd", 2, outputs=16, supervised_weight=0.0)
    method.loss(batch, NOW)[0].backward()
    assert (method.network.logits.grad.abs().sum(dim=2) > 0).all()


def test_the_projection_head_stands_where_the_classifier_was():
    def network_of(**options):
        config = configure({"method": "gcd"} | options)
        return build(config, Network(config, 1, 10), Classes(5, 10)).network

    images = torch.zeros(2, 1, 8, 8)
    assert network_of()(images).logits.shape == (2, 256)
    assert [layer.out_features for layer in network_of().classifier[::2]] == [256, 256, 256]  # 4 x 64 features
    wide = network_of(projection_width=2048, projection_outputs=32)
    assert [layer.out_features for layer in wide.classifier[::2]] == [2048, 2048, 32]


def blobs(noise=0.1):
    """Features around six directions: unlabeled 10 of each class, labeled 2 of each seen one; and both truths."""
    generator = torch.Generator().manual_seed(0)
    truth, targets = torch.arange(6).repeat(10), torch.arange(CLASSES.seen).repeat(2)
    middles = torch.eye(6, WIDTH)

    def around(labels):
        length = torch.rand(len(labels), 1, generator=generator) * 5 + 1  # which k-means must not see
        return length * (middles[labels] + noise * torch.randn(len(labels), WIDTH, generator=generator))

    return around(truth), around(targets), truth, targets


def looked_at(unlabeled, labeled, targets, seed=0):
    return Inference(lambda: Outputs(labeled, labeled), lambda: Outputs(unlabeled, unlabeled), targets, seed)


def test_ids_of_seen_classes_are_their_own_and_novel_ones_a_cluster_each():
    unlabeled, labeled, truth, targets = blobs()
    prediction = scene("gcd", 2)[0].predict(looked_at(unlabeled, labeled, targets))
    is_seen = truth < CLASSES.seen
    assert torch.equal(prediction.ids[is_seen], truth[is_seen])
    novel = prediction.ids[~is_seen].view(10, 3)
    assert (novel == novel[0]).all() and set(novel[0].tolist()) == {3, 4, 5}
    assert ((prediction.confidence >= 0) & (prediction.confidence <= 1)).all()
    everything = torch.cat([unlabeled, labeled]).double()
    everything = everything / everything.norm(dim=1, keepdim=True)
    labels = torch.cat([truth, targets])
    spread = [everything[labels == k] - everything[labels == k].mean(0) for k in range(6)]
    expected = sum(part.square().sum() for part in spread) / len(labels)
    assert prediction.measurements["cluster/inertia"] == pytest.approx(expected.item(), rel=1e-3)


def test_swapped_labels_swap_the_ids():
    unlabeled, labeled, truth, targets = blobs()
    prediction = scene("gcd", 2)[0].predict(looked_at(unlabeled, labeled, (targets + 1) % CLASSES.seen))
    is_seen = truth < CLASSES.seen
    assert torch.equal(prediction.ids[is_seen], (truth[is_seen] + 1) % CLASSES.seen)


@pytest.mark.parametrize("classes", [Classes(1, 4), Classes(3, 4)], ids=["one seen class", "one novel class"])
def test_one_labeled_image_per_class_predicts(classes):
    unlabeled, labeled, _, _ = blobs()
    method, _ = scene("gcd", 2, classes=classes)
    prediction = method.predict(looked_at(unlabeled, labeled[: classes.seen], torch.arange(classes.seen)))
    assert prediction.ids.max() < classes.total and torch.isfinite(prediction.confidence).all()
