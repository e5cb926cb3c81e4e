"""Guarantees for all tests, also on a busy machine."""

import importlib
import os
import sys
from pathlib import Path

import hypothesis
import pytest
import torch

from lps.scheduler import launcher
from lps.settings.config import configure
from lps.store.run_folders import create_run


def test_an_example_may_take_as_long_as_a_busy_machine_needs():
    assert hypothesis.settings().deadline is None
    assert hypothesis.HealthCheck.too_slow in hypothesis.settings().suppress_health_check


@pytest.mark.parametrize("turn", ["first", "after a training that took more"])
def test_a_test_has_one_thread_for_arithmetic(turn):
    assert torch.get_num_threads() == 1
    torch.set_num_threads(2)


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="a GPU needs Triton")
def test_nothing_is_printed_behind_the_last_line():
    """Triton lists what its bindings leaked when Python exits."""
    importlib.import_module("torchvision")
    assert not [name for name in sys.modules if name.startswith("triton.")]


def test_no_two_files_of_tests_have_the_same_name():
    """Python takes them for one module, and pytest then collects nothing at all."""
    names = [path.name for path in Path(__file__).parents[1].rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)


def test_a_quick_test_starts_no_real_training(tmp_path):
    run = create_run(tmp_path, configure({"device": "cpu"}))
    with pytest.raises(AssertionError, match="real training"):
        launcher.launch(run)
