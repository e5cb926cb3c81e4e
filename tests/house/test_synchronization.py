"""No training step waits for the device: it never fetches a number or a count of rows."""

import os
import traceback

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lps.data.batches import seeded, training_batches
from lps.data.training_data import prepare
from lps.data.views import FAMILIES
from lps.methods import Progress
from lps.settings import catalog
from lps.settings.config import configure
from lps.training.evaluate import build_inference
from lps.training.loop import build

WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique", "_unique2", "bincount")


class Waits(TorchDispatchMode):
    """Collects the operations that make a host wait for its GPU."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        by_mask = name in ("index", "index_put", "index_put_") and any(
            i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1]
        )
        if (name in WAITING or by_mask) and not _in_optimizer():
            self.found.add(name)
        return function(*args, **(kwargs or {}))


def _in_optimizer() -> bool:
    """Whether an optimizer counts its steps, which it does in tensors that stay on the host."""
    return any(os.path.join("torch", "optim") in frame.filename for frame in traceback.extract_stack(limit=12))


@pytest.fixture(scope="module")
def material():
    return prepare(configure({"threads": 1, "device": "cpu"}))


@pytest.mark.slow
@pytest.mark.parametrize("name", catalog.method_names())
def test_a_step_of_a_method_never_waits(name, material):
    config = configure({"method": name, "threads": 1, "device": "cpu"})
    method, optimizer = build(config, material)
    if not method.trains:
        return
    progress = Progress(30, 40, 0, material.plan.steps)
    seen_by = build_inference(method, material, config)
    with torch.no_grad():
        for epoch in range(progress.epoch + 1):
            method.start_epoch(seen_by, Progress(epoch, 40, 0, material.plan.steps))
    views = tuple(FAMILIES[config.views][view] for view in method.views)
    targets = torch.from_numpy(material.truth[material.split.labeled])
    batch = next(training_batches(material.images, targets, material.split, views, material.plan, config, 30))
    method.train()
    with Waits() as waits:
        loss, _ = method.loss(batch, progress)
        loss.backward()
        optimizer.step()
        method.after_step()
    assert not waits.found


@pytest.mark.parametrize("family", FAMILIES)
def test_views_never_wait(family, monkeypatch):
    monkeypatch.setattr("lps.data.randaugment._on_host", lambda values: False)  # as where a GPU draws
    side = 40 if family in ("imagenet", "gcd") else 16
    images = torch.randint(0, 256, (6, 3, side, side)).to(torch.uint8)
    for name, view in FAMILIES[family].items():
        with Waits() as waits:
            view(images, seeded(torch.device("cpu"), 0))
        assert not waits.found, name


def test_waiting_is_noticed():
    values = torch.arange(4.0)
    for act in (lambda: values.sum().item(), lambda: values[values > 1], lambda: (values > 1).nonzero()):
        with Waits() as waits:
            act()
        assert waits.found
