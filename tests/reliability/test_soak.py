"""Half a minute of random faults beside the app; ten of them, or sixty, by `python -m tests.reliability soak`."""

import pytest

from tests.reliability.soak import HARMS, Soak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    for name in ("LPS_CPU_SLOTS", "LPS_STOP_GRACE"):
        monkeypatch.setenv(name, "1")  # so that what the trial sets is taken back


@pytest.mark.turn(0, 3)
def test_random_faults_leave_nothing_stuck_and_nothing_grown(tmp_path):
    trial = Soak(tmp_path / "runs", seed=3)
    assert trial.carry_out(30, 0.8, tmp_path / "app.txt") == []
    assert trial.done["launched"] >= 6 and trial.done["visits"] >= 4
    assert sum(trial.done[harm] for harm in HARMS) >= 4
