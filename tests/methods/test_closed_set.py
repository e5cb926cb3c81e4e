"""A closed-set classifier in the open world: accepted rows keep their class, rejected ones become novel clusters."""

import pytest
import torch

from lps.data.classes import Classes
from lps.methods._closed_set import closed_set_classifier, predict_with_rejection
from lps.network.network import CosineClassifier, Network, Outputs
from lps.settings.config import configure

CLASSES = Classes(seen=3, total=7)


def outputs(rows=12, seen=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Outputs(torch.randn(rows, 8, generator=generator), torch.randn(rows, seen, generator=generator) * 3)


def test_accepted_rows_keep_their_class_and_the_others_are_clustered_by_direction():
    given = outputs(rows=12)
    features = torch.eye(8)[torch.arange(12) % 4] * torch.rand(12, 1).add(0.1)  # rejected rows: directions 0 to 3
    accepted = torch.arange(12) % 3 == 0
    prediction = predict_with_rejection(Outputs(features, given.logits), accepted, CLASSES, seed=0)
    confidence, ids = given.logits.softmax(dim=1).max(dim=1)
    assert torch.equal(prediction.ids[accepted], ids[accepted])
    assert torch.equal(prediction.confidence[accepted], confidence[accepted])
    novel, groups = prediction.ids[~accepted], (torch.arange(12) % 4)[~accepted]
    assert novel.min() >= 3 and novel.max() <= 6
    assert torch.equal(novel[:, None] == novel, groups[:, None] == groups)
    assert (prediction.confidence[~accepted] > 0.99).all()
    assert prediction.measurements == {"rejected/share": 8 / 12}


@pytest.mark.parametrize("rejected", [0, 1, 2, 12])
@pytest.mark.parametrize("classes", [CLASSES, Classes(1, 4), Classes(3, 4)], ids=["4 novel", "1 seen", "1 novel"])
def test_any_number_of_rejected_rows_works(rejected, classes):
    """None, one, fewer than there are novel classes, all."""
    given = outputs(seen=classes.seen)
    prediction = predict_with_rejection(given, torch.arange(12) >= rejected, classes, seed=0)
    novel = prediction.ids[:rejected]
    assert (prediction.ids[rejected:] < classes.seen).all()
    assert ((novel >= classes.seen) & (novel < classes.total)).all()
    assert len(novel.unique()) == min(rejected, classes.novel)
    assert torch.isfinite(prediction.confidence).all()
    assert prediction.confidence.min() >= 0 and prediction.confidence.max() <= 1
    assert prediction.measurements["rejected/share"] == rejected / 12


def test_rejected_rows_of_later_images_go_to_the_earlier_centres():
    features = torch.eye(8)[torch.arange(12) % 4] * torch.rand(12, 1).add(0.1)
    given, accepted = Outputs(features, outputs().logits), torch.arange(12) % 3 == 0
    first = predict_with_rejection(given, accepted, CLASSES, seed=0)
    later = predict_with_rejection(given, accepted, CLASSES, seed=1, centres=first.fitted["centres"])
    assert torch.equal(later.ids, first.ids) and torch.allclose(later.confidence, first.confidence)


def test_rejected_rows_that_are_all_the_same_are_one_cluster():
    same = Outputs(torch.ones(5, 8), torch.zeros(5, 3))
    prediction = predict_with_rejection(same, torch.zeros(5, dtype=torch.bool), CLASSES, seed=0)
    assert len(prediction.ids.unique()) == 1 and torch.isfinite(prediction.confidence).all()


def test_bf16_outputs_are_predicted_too():
    given = Outputs(*(part.bfloat16() for part in outputs()))
    prediction = predict_with_rejection(given, torch.arange(12) > 5, CLASSES, seed=0)
    assert prediction.ids.dtype == torch.int64 and prediction.confidence.max() <= 1


@pytest.mark.parametrize("kind", ["cosine", "linear"])
def test_the_classifier_has_an_output_per_seen_class(kind):
    network = Network(configure({"network.head": kind, "network.cosine_scale": 4.0}), 1, 7)
    linear, own = (closed_set_classifier(network, CLASSES, head) for head in ("linear", "network"))
    assert isinstance(linear, torch.nn.Linear) and linear.bias is not None
    assert isinstance(own, CosineClassifier if kind == "cosine" else torch.nn.Linear)
    assert kind == "linear" or own.scale == 4
    features = torch.randn(2, network.backbone.num_features)
    assert linear(features).shape == own(features).shape == (2, 3)
