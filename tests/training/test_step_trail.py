"""Measurements of single steps: stored, summarized as a few means per epoch, the same after a checkpoint."""

import pytest
import torch

from lps.methods.parts.measurements import Ratio
from lps.training.step_measurements import MAX_NUMBERS, StepMeasurements


def measured(step: int) -> dict:
    """Of a method of two seen classes and one novel one: 6 - step of six guesses are seen."""
    rates = {
        "seen": Ratio(torch.tensor(1), torch.tensor(6 - step)),
        "novel": Ratio(torch.tensor(0), torch.tensor(step)),
    }
    return {
        "kl": torch.tensor(step / 10),
        "margin": torch.tensor([1.0, 3.0, 0.5]) * step,
        "loss/total": torch.tensor(7.0),
    } | {f"pseudo_label/rate/{group}": rate for group, rate in rates.items()}


def test_a_few_steps_are_told_one_by_one():
    trail = StepMeasurements(seen=2)
    for step in range(4):
        trail.add(measured(step))
    found = trail.result(4)
    assert found["steps/kl"] == pytest.approx([0, 0.1, 0.2, 0.3])
    assert found["steps/guessed_seen"] == pytest.approx([1, 5 / 6, 4 / 6, 3 / 6], rel=1e-4)
    assert found["steps/margin/seen"] == [0, 2, 4, 6] and found["steps/margin/novel"] == [0, 0.5, 1, 1.5]
    assert set(found) == {"steps/kl", "steps/guessed_seen", "steps/margin/seen", "steps/margin/novel"}


def test_many_steps_are_means_over_even_stretches():
    trail, count = StepMeasurements(seen=2), 10 * MAX_NUMBERS
    for step in range(count):
        trail.add({"kl": torch.tensor(float(step))})
    assert trail.result(count) == {"steps/kl": [10 * k + 4.5 for k in range(MAX_NUMBERS)]}


def test_a_checkpoint_in_the_midst_of_an_epoch_changes_nothing():
    unbroken, first = StepMeasurements(seen=2), StepMeasurements(seen=2)
    for step in range(5):
        unbroken.add(measured(step))
        if step < 3:
            first.add(measured(step))
    second = StepMeasurements(2, first.state_dict())
    for step in (3, 4):
        second.add(measured(step))
    assert second.result(5) == unbroken.result(5)


def test_what_not_every_step_has_measured_is_left_out():
    """As after a checkpoint of an earlier version, in the midst of an epoch."""
    trail = StepMeasurements(seen=2)
    trail.add(measured(0))
    trail.add({"kl": torch.tensor(0.5)})
    assert set(trail.result(2)) == {"steps/kl"} and trail.result(9) == {}


def test_a_share_of_no_guesses_is_null():
    trail, none = StepMeasurements(seen=2), Ratio(torch.tensor(0), torch.tensor(0))
    trail.add({"pseudo_label/rate/seen": none, "pseudo_label/rate/novel": none})
    assert trail.result(1) == {"steps/guessed_seen": [None]}
