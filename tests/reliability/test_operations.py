"""A fault at operations of a real training, in a scale for every day: `python -m tests.reliability` has the full one.

Which operations it is changes from day to day, unless LPS_OFFSET says; so over weeks it is every one.
"""

import random

import pytest

from tests.reliability.corruption import damages
from tests.reliability.faults import KINDS
from tests.reliability.operations import points, sweep
from tests.reliability.trials import Workshop, kill_and_resume
from tests.shares import OFFSET

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
EVERY = 240


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("workshop"))


def test_the_faults_reach_every_way_in_which_files_are_written(workshop):
    assert set(workshop.operations) >= set("create open_end write truncate sync sync_folder rename link remove".split())
    assert all(len(points(workshop.operations, kind)) > 30 for kind in KINDS)


@pytest.mark.turn(1, 3)
def test_after_a_fault_at_any_operation_the_run_goes_on_and_ends_as_if_nothing_had_been(workshop):
    tried = list(sweep(workshop, EVERY, OFFSET))
    assert len(tried) >= 4 and {kind for kind, *_ in tried} == set(KINDS)
    wrong = [f"{kind} at {number} ({name}): {what}" for kind, number, name, what in tried if what]
    assert not wrong, f"again by: LPS_OFFSET={OFFSET}\n" + "\n".join(wrong)


@pytest.mark.turn(2, 3)
def test_random_kills(workshop):
    draws, kills = random.Random(OFFSET), 0
    while kills < 3:
        count, wrong = kill_and_resume(workshop, draws)
        kills += count
        assert not wrong, f"again by: LPS_OFFSET={OFFSET}"


@pytest.mark.turn(0, 3)
def test_damage_to_the_newest_checkpoint_is_noticed_and_said(workshop):
    found = list(damages(workshop, flips=20, cuts=5, seed=OFFSET))
    assert len(found) == 26 and not [one for one in found if one[1]]
