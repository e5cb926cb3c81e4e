"""The trainer of a real run is killed, and the run ends as if nobody had."""

import random

import pytest

from tests.reliability.trainer_kills import kill_again, unbroken
from tests.shares import ALL


@pytest.mark.turn(1, 3)
@pytest.mark.slow
def test_a_real_run_whose_trainer_is_killed_ends_with_the_numbers_of_an_unbroken_one(tmp_path):
    kills, epochs = (3, 24) if ALL else (1, 8)
    reference, seconds = unbroken(tmp_path / "unbroken", epochs, is_launched=ALL)
    trial = kill_again(tmp_path / "killed", kills, random.Random(0), seconds, reference, epochs)
    assert trial.wrong == [] and len(trial.phases) == kills
