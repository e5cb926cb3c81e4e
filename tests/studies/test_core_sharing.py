"""Sweeps and searches on the CPU: one thread for each run, unless the user or an earlier start says otherwise."""

import pytest

from lps.__main__ import main
from lps.machine.devices import Device
from lps.scheduler import queue, run_slots
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.studies import core_sharing, presets, search, sweeps
from lps.studies.sweep_layout import SweepSpec

SPACE = ["margin_scale=1..10"]


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.delenv("LPS_CPU_SLOTS", raising=False)
    machine(monkeypatch, 8)
    return tmp_path / "runs"


def machine(monkeypatch, cores, *gpus):
    monkeypatch.setattr("lps.machine.devices.available_cores", lambda: cores)
    monkeypatch.setattr(run_slots, "available_gpus", lambda: list(gpus))
    monkeypatch.setattr(run_slots.memory, "total_memory", lambda: None)


def threads(request, root, name=""):
    request, name = core_sharing.sweep_on_cores(request, root, name)
    return {item.config.threads for item in sweeps.lay_out_sweep(request, name).items}


def test_runs_of_a_sweep_have_one_thread(root):
    assert threads(SweepSpec(seeds=(0, 1)), root) == {1}
    assert threads(presets.PresetRequest("ablation"), root) == {1}


@pytest.mark.parametrize(
    ("fixed", "varied", "expected"),
    [
        ({"threads": "3"}, {}, {3}),
        ({"threads": "none"}, {}, {None}),
        ({}, {"threads": ("1", "none")}, {1, None}),
        ({"device": "cuda"}, {}, {None}),
        ({"processes": "2"}, {}, {None}),
    ],
)
def test_what_the_user_says_stays(root, fixed, varied, expected):
    assert threads(SweepSpec(fixed=fixed, varied=varied), root) == expected


def test_a_gpu_and_a_single_core_change_nothing(root, monkeypatch):
    machine(monkeypatch, 1)
    assert threads(SweepSpec(), root) == {None}
    machine(monkeypatch, 8, Device("cuda:0", "Fake"))
    assert threads(SweepSpec(), root) == {None}
    assert threads(SweepSpec(fixed={"device": "cpu"}), root) == {1}


def test_the_name_stays_and_the_command_means_the_same_sweep(root):
    request, name = core_sharing.sweep_on_cores(presets.PresetRequest("ablation"), root)
    assert name == "ablation-demo" and request.command(name).endswith("--set threads=1 --name ablation-demo")
    request, name = core_sharing.sweep_on_cores(SweepSpec(), root)
    assert name == "" and core_sharing.sweep_on_cores(request, root) == (request, "")


@pytest.mark.parametrize("request_of_sweep", [SweepSpec(seeds=(0, 1, 2)), presets.PresetRequest("C", seeds=(0,))])
def test_a_sweep_whose_runs_exist_keeps_them(root, request_of_sweep):
    configs = [item.config for item in sweeps.lay_out_sweep(request_of_sweep).items]
    for number, config in enumerate(configs, 1):
        queue.request_attempt(create_run(root, config), "run", 1)
        is_kept = core_sharing.sweep_on_cores(request_of_sweep, root)[0] == request_of_sweep
        assert is_kept == (2 * number >= len(configs))


def searched(root, settings=(), name=""):
    request = search.read_request("digits", "lps", SPACE, settings, name=name)
    return core_sharing.search_on_cores(request, root, settings, bool(name))


def test_trials_of_a_search_have_one_thread(root, monkeypatch):
    plain = search.read_request("digits", "lps", SPACE)
    request = searched(root)
    assert request.base == configure(plain.base.flat() | {"threads": 1}) and request.name != plain.name
    assert searched(root, ["threads=1"]) == request  # the command that the form prints
    assert searched(root, name="mine").name == "mine"
    assert searched(root, ["threads=none"]).base.threads is None
    machine(monkeypatch, 1)
    assert searched(root) == plain


@pytest.mark.parametrize("name", ["", "mine"])
def test_a_search_that_was_started_before_continues(root, name):
    plain = search.read_request("digits", "lps", SPACE, name=name)
    search.create_search(plain, root)
    assert searched(root, name=name) == plain


def test_the_command_says_it(root, capsys):
    assert main(["sweep", "--seeds", "0,1", "--dry-run", "--runs", str(root)]) == 0
    assert "Each run uses 1 thread; 8 train at a time." in capsys.readouterr().err
    assert main(["sweep", "--set", "threads=none", "--dry-run", "--runs", str(root)]) == 0
    assert "1 thread" not in capsys.readouterr().err
