"""Start weights are judged before there is a run, for pages by another process."""

import pytest
import torch

from lps.errors import UserError
from lps.network import shipped_weights
from lps.scheduler import start_check
from lps.settings.config import configure
from lps.store.run_folders import list_runs
from lps.ui.forms import start_runs


def misfit(tmp_path):
    torch.save({"other": torch.zeros(3)}, tmp_path / "other.pt")
    return configure({"network.start": "checkpoint", "network.checkpoint": str(tmp_path / "other.pt")})


def test_what_torch_need_not_judge_is_not_asked(monkeypatch):
    monkeypatch.setattr(start_check.subprocess, "run", lambda *_, **__: pytest.fail("asked"))
    start_check.check_start_in_subprocess(configure())
    start_check.check_start(configure())


def test_the_shipped_weights_are_judged_without_torch(monkeypatch):
    """To ask took five seconds of a processor, while a person waits for the first run on own pictures."""
    monkeypatch.setattr(start_check.subprocess, "run", lambda *_, **__: pytest.fail("asked"))
    config = configure({"features": "stored"})
    assert config.network_name == "efficientnet_lite0"
    start_check.check_start_in_subprocess(config)
    monkeypatch.setattr(shipped_weights, "PACKAGE", "no_such_package")
    with pytest.raises(UserError, match="the weights of efficientnet_lite0 are not installed; .* no-such-package"):
        start_check.check_start_in_subprocess(config)


@pytest.mark.slow
def test_a_file_that_does_not_fit_is_refused_before_a_run_is_made(tmp_path, monkeypatch):
    config = misfit(tmp_path)
    with pytest.raises(UserError) as here:
        start_check.check_start(config)
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    with pytest.raises(UserError) as asked:
        start_runs.start_runs("launch", "visit", (config,))
    assert str(asked.value) == str(here.value) and "network.checkpoint: does not fit" in str(here.value)
    assert not list_runs(tmp_path / "runs")
