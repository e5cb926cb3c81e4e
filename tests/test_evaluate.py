"""What an evaluation keeps for looking at later: as many features as `snapshot.images` says, those of these images."""

import numpy as np
import pytest
import torch

from lps.config import configure
from lps.evaluate import evaluate, inference
from lps.material import prepare
from lps.train import build


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
    everything = inference(method, material, config).unlabeled.features
    rows = torch.from_numpy(np.flatnonzero(np.isin(unlabeled, snapshot.feature_index)))
    order = np.argsort(unlabeled[rows.numpy()])
    expected = everything[rows].numpy()[order]
    assert np.allclose(snapshot.features[np.argsort(snapshot.feature_index)], expected, atol=2e-3, rtol=2e-3)
