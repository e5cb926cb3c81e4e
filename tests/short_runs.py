"""Short real runs of a method for its tests: unbroken, and stopped in the middle of an epoch and resumed."""

import json
from pathlib import Path

import pytest
import torch

from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.store.runs import Run
from lps.training import checkpoints
from lps.training import loop as training

FORMATS = Path(__file__).resolve().parent.parent / "docs" / "formats.md"
SHORT = {"epochs": 2, "pretrain.epochs": 1, "threads": 1}
FEW = {"dataset.images_per_class": 60, "batch_size": 64}  # a third of the digits, in ten steps an epoch
TIMES = ("time/", "throughput/", "memory/", "eta_s")


def finished_run(root, method: str, **settings) -> Run:
    run = create_run(root, configure(_short(method, settings)))
    assert training.train(run) == 0
    return run


def _short(method: str, settings: dict) -> dict:
    """Return settings of two epochs, on a few digits unless the settings name the data or their number."""
    few = {} if settings.keys() & {"dataset", *FEW} else FEW
    return SHORT | few | {"method": method} | settings


def resumed_run(root, monkeypatch, method: str, at=(1, 4), **settings) -> Run:
    """Return a run like `finished_run`, but stopped after the step that `at` names as (epoch, step), and resumed."""
    run = create_run(root, configure(_short(method, settings)))
    stop_and_resume(run, monkeypatch, at)
    return run


def stop_and_resume(run: Run, monkeypatch, at: tuple[int, int]) -> None:
    attempt = training.RunTraining(run)

    def stop_at(epoch, epochs, step, steps):
        attempt._stop = (epoch, step) == at
        return training.methods.Progress(epoch, epochs, step, steps)

    with monkeypatch.context() as patch:
        patch.setattr(training, "Progress", stop_at)
        assert attempt.carry_out() == 0
    attempt.events.close()
    assert events(run)[-1]["kind"] == "stop"
    assert training.train(run) == 0


def events(run: Run) -> list[dict]:
    return [json.loads(line) for line in run.events.read_text().splitlines()]


def numbers(run: Run) -> dict:
    """Return every train and eval number that does not measure time, by (kind, epoch)."""
    return {
        (event["kind"], event["epoch"]): {k: v for k, v in event["values"].items() if not k.startswith(TIMES)}
        for event in events(run)
        if event["kind"] in ("train", "eval")
    }


def assert_numbers_documented(run: Run) -> None:
    """Assert that every name of a number is documented, and that the terms of the loss add up to it."""
    documented = FORMATS.read_text(encoding="utf-8")
    for (kind, _), values in numbers(run).items():
        for name in values:
            group, _, rest = name.rpartition("/")
            assert any(f"`{word}`" in documented for word in (name, f"/{rest}", f"{group}/*")), name
        if kind == "train":
            terms = [value for name, value in values.items() if name.startswith("loss/") and name != "loss/total"]
            assert sum(terms) == pytest.approx(values["loss/total"], rel=1e-4)


def state(run: Run) -> dict:
    """Return the method's state in the newest checkpoint."""
    return checkpoints.load_newest(run.checkpoints)[1]["method"]


def assert_same_end(run: Run, other: Run) -> None:
    """Assert the same numbers in every epoch and the same tensors in the last checkpoint, bit by bit."""
    assert numbers(run) == numbers(other)
    ours, theirs = state(run), state(other)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[key]) for key, value in ours.items() if isinstance(value, torch.Tensor))
