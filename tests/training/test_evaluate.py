"""What an evaluation stores for display, and what may judge test images."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from lps.data.training_data import prepare
from lps.settings.config import configure
from lps.training.evaluate import build_inference, evaluate, inference_on_test
from lps.training.loop import build
from tests.shares import in_turn


@pytest.mark.parametrize("wanted", [25, 400, None])
def test_a_snapshot_has_the_features_of_as_many_images_as_asked_for(wanted):
    config = configure({"device": "cpu", "snapshot.images": wanted, "seed": 3})
    material = prepare(config)
    method, _ = build(config, material)
    _, snapshot = evaluate(method, material, config)
    unlabeled = material.split.unlabeled
    kept = len(unlabeled) if wanted is None else wanted
    assert len(snapshot.features) == len(set(snapshot.feature_index.tolist())) == kept < 2000
    assert np.isin(snapshot.feature_index, unlabeled).all()
    assert len(snapshot.predicted) == len(snapshot.confidence) == len(unlabeled)  # of all images in any case
    everything = build_inference(method, material, config).unlabeled.features
    rows = torch.from_numpy(np.flatnonzero(np.isin(unlabeled, snapshot.feature_index)))
    order = np.argsort(unlabeled[rows.numpy()])
    expected = everything[rows].numpy()[order]
    assert np.allclose(snapshot.features[np.argsort(snapshot.feature_index)], expected, atol=2e-3, rtol=2e-3)


CLUSTERING = {
    "simclr": {},
    "gcd": {},
    "fixmatch": {"threshold": 0.3},
    "ds3l": {"threshold": 0.3},
    "ds3l by weight": {"rejection": "novel_share"},
    "dtc": {},
    "openncd": {},
}


def judged(name, **settings):
    """(method, prediction of training images, function that gives that of some images as test images)."""
    few = {"dataset.images_per_class": 25, "split.test_ratio": 0.3, "device": "cpu"}
    config = configure({"method": name.partition(" ")[0]} | few | CLUSTERING[name] | settings)
    material = prepare(config)
    method, _ = build(config, material)
    training = build_inference(method, material, config)
    with torch.inference_mode():
        prediction = method.predict(training)

    def on_test(ids):
        other = replace(material, split=replace(material.split, test=ids))
        with torch.inference_mode():
            return method.predict(inference_on_test(method, other, config, training, prediction.fitted))

    return material.split, prediction, on_test


@pytest.mark.parametrize("name", in_turn(CLUSTERING, 2))
def test_a_test_image_is_judged_by_what_was_fitted_to_training_images_whatever_other_test_images_there_are(name):
    split, prediction, on_test = judged(name)
    whole = on_test(split.test).ids
    for part in (slice(0, 1), slice(None, None, 2)):
        some = on_test(split.test[part])
        assert torch.equal(some.ids, whole[part])
        if name == "openncd":  # all images of an untrained network are in one of its groups
            assert torch.equal(some.fitted["groups"], prediction.fitted["groups"])
    assert len(whole.unique()) > 1 or name == "openncd"
    again = on_test(split.unlabeled).ids
    assert (again == prediction.ids).float().mean() > 0.98  # k-means stops a little before its centres stand still


@pytest.mark.parametrize("name", in_turn([name for name in CLUSTERING if name not in ("dtc", "openncd")], 2))
def test_by_choice_test_images_are_clustered_by_themselves(name):
    split, prediction, on_test = judged(name, test_clusters="test")
    assert prediction.fitted
    whole, others = on_test(split.test), judged(name)[2](split.test)
    assert not torch.equal(whole.ids, others.ids)
    assert torch.equal(others.fitted.get("centres", prediction.fitted["centres"]), prediction.fitted["centres"])
    assert not torch.equal(whole.fitted["centres"], prediction.fitted["centres"])
