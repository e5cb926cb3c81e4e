"""Whoever launches, however often and whoever is killed meanwhile: a run starts once, and no slot is shared."""

import pytest

from tests.reliability.launches import launch_and_kill, overlaps


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_servers_that_are_killed_start_every_run_once(tmp_path):
    done, wrong = launch_and_kill(tmp_path / "runs", 20, 3, seed=1, limit_s=600)
    assert not wrong
    assert (done["runs"], done["starts"], done["slots"]) == (20, 20, 4) and done["kills"] >= 2


@pytest.mark.turn(2, 3)
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_servers_without_locks_are_found_out(tmp_path):
    _, wrong = launch_and_kill(tmp_path / "runs", 8, 0, unlocked=True, limit_s=60)
    assert any("started" in text and "started 0" not in text for text in wrong)
    assert any("shares cpu-" in text for text in wrong)


def test_a_shared_slot_is_seen_in_what_the_trainers_wrote():
    starts = [("a", "cpu-0", 10), ("b", "cpu-1", 15), ("c", "cpu-0", 20)]
    apart, together = (
        [("a", "cpu-0", 19), ("b", "cpu-1", 40), ("c", "cpu-0", 30)],
        [("a", "cpu-0", 21), ("b", "cpu-1", 40)],
    )
    assert overlaps(starts, apart) == []
    assert overlaps(starts, together) == ["c: shares cpu-0"]
