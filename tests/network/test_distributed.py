"""Two ranks against one process: same loss, gradients and predictions of every method; runs that stop and resume."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import one_step
import pytest
import torch
from short_runs import FEW, assert_same_end, events, finished_run, numbers
from torch import nn

from lps.data import feature_store
from lps.errors import UserError
from lps.network import parallel
from lps.scheduler import launcher
from lps.settings import catalog
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.store.runs import Run
from lps.training import ranks
from tests.shares import ALL

ROOT = Path(__file__).resolve().parents[2]
ONE_STEP = Path(__file__).parents[1] / "one_step.py"
SHORT = FEW | {"epochs": 2, "pretrain.epochs": 1, "threads": 2, "device": "cpu", "lr": 0.001}
CASES = sorted(one_step.CASES)
EXACT = 1e-8  # float64, so that a wrong row would be seen and rounding is not


def python(*words) -> None:
    """Run Python to its end, with the output in the error where it fails."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr


def torchrun(*words) -> None:
    python("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", 2, *words)


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> list[dict]:
    """What one process found, and what each of two ranks did, by case."""
    folder = tmp_path_factory.mktemp("found")
    python(ONE_STEP, folder)
    return [torch.load(folder / f"{name}.pt") for name in ("alone-0", "rank-0", "rank-1")]


def differences(ours: dict, theirs: dict) -> dict[str, float]:
    """Largest absolute difference by name, over the largest value of all gradients for gradients, else of its own."""
    assert ours.keys() == theirs.keys()
    steepest = max(value.abs().max().item() for name, value in theirs.items() if "gradient" in name)
    result = {}
    for name in theirs:
        our, their = ours[name].double(), theirs[name].double()
        assert our.shape == their.shape and torch.equal(our.isnan(), their.isnan()), name
        if our.numel():
            scale = steepest if "gradient" in name else max(1.0, their.abs().nan_to_num().max().item())
            result[name] = ((our - their).abs().nan_to_num().max() / scale).item()
    return result


@pytest.mark.turn(0, 3)
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_ranks_equal_one_process(found, case):
    """Loss, everything measured, every gradient, the buffers after the step, and the predictions."""
    alone, *together = (results[case] for results in found)
    for rank in together:
        off = {name: size for name, size in differences(rank, alone).items() if size > EXACT}
        assert not off
    gradients = [name for name in alone if "gradient" in name]
    assert len(gradients) > 10 and all(torch.equal(together[0][name], together[1][name]) for name in gradients)


@pytest.mark.turn(0, 3)
@pytest.mark.slow
def test_batch_norm_of_own_rows_alone_is_another_gradient(found):
    """A control: the comparison sees what is left out."""
    off = differences(found[1]["control"], found[0]["lps"])
    assert off["2 loss"] > 1e-3 and max(size for name, size in off.items() if "gradient" in name) > 1e-2


def test_every_method_is_compared_or_says_that_it_cannot():
    compared = {one_step.CASES[case][0].get("method", case) for case in CASES}
    alone = {name for name in catalog.method_names() if not catalog.method_info(name).distributes}
    assert compared | alone | {"simclr"} == set(catalog.method_names()) and alone == {"bacon", "ds3l"}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Run:
    """A run of two ranks under torchrun."""
    run = create_run(tmp_path_factory.mktemp("runs"), configure(SHORT | {"processes": 2}))
    torchrun("-m", "--", "lps", "train", "--run", run.folder)
    assert events(run)[-1]["kind"] == "finish"
    return run


def assert_close(together, alone):
    """Two epochs of both are the same but for rounding."""
    ours, theirs = numbers(together), numbers(alone)
    assert ours.keys() == theirs.keys()
    for epoch in (1, 2):
        assert ours["train", epoch]["loss/total"] == pytest.approx(theirs["train", epoch]["loss/total"], rel=0.01)
        assert ours["train", epoch]["pi_hat"] == pytest.approx(theirs["train", epoch]["pi_hat"], abs=0.01)
        assert ours["eval", epoch]["accuracy/all"] == pytest.approx(theirs["eval", epoch]["accuracy/all"], abs=0.03)


@pytest.mark.turn(1, 3)
@pytest.mark.slow
def test_a_run_of_two_ranks_is_close_to_that_of_one_process(unbroken):
    """And tells everything once. Rounding grows with every step: what is left after two epochs is a percent."""
    alone = finished_run(unbroken.root, "lps", **SHORT)
    told = [event["kind"] for event in events(unbroken)]
    assert told == ["start", "pretrain", "start", *["train", "eval"] * 2, "finish"]
    assert_close(unbroken, alone)


@pytest.mark.turn(1, 3)
@pytest.mark.slow
def test_two_ranks_on_stored_features_are_close_to_one_process(tmp_path):
    """The first rank makes the store, the other one waits for it; then both draw from it."""
    own = {"features": "stored", "network.name": "digits_resnet", "network.image_size": None, "device": "cpu"}
    own |= {"network.start": "random", "lr": 0.001, "epochs": 2, "features.width": 16} | FEW
    together = create_run(tmp_path, configure(own | {"processes": 2, "threads": 2}))
    python("-m", "lps", "train", "--run", together.folder)
    (store,) = feature_store.list_stores()
    assert set(store.rows.values()) == {600}
    assert_close(together, finished_run(tmp_path, "lps", **own))


@pytest.mark.turn(2, 3)
@pytest.mark.slow
def test_two_ranks_stop_together_and_resume_where_they_were(unbroken):
    run = create_run(unbroken.root, configure(SHORT | {"processes": 2}))
    launcher.launch(run)
    while (now := run.read_json("progress.json")).get("phase") != "train" or not now.get("step"):
        assert not launcher.wait_for_end(run, 0.05).is_over, run.log.read_text()
    launcher.stop(run)
    state = launcher.wait_for_end(run, 120)
    assert (state.name, state.reason) == ("stopped", "stopped by request"), run.log.read_text()
    assert events(run)[-1]["kind"] == "stop" and 0 < events(run)[-1]["step"] < 20
    launcher.resume(run)
    assert launcher.wait_for_end(run, 120).name == "finished", run.log.read_text()
    assert_same_end(run, unbroken)


@pytest.mark.slow
@pytest.mark.skipif(not ALL, reason="two tasks of a cluster do the same in tests/scheduler/test_jobs.py")
def test_two_machines_with_a_rank_each_end_with_the_numbers_of_two_ranks_on_one(unbroken):
    """Two trainings that meet over a file of the run, as a cluster starts them; nothing else passes between them."""
    run = create_run(unbroken.root, configure(SHORT | {"processes": 2}))
    command = [sys.executable, "-m", "lps", "train", "--run", str(run.folder)]
    about = os.environ | {"LPS_PARTS": "2", "LPS_MEETING": "1", "LPS_ADDRESS": "127.0.0.1"}
    both = [subprocess.Popen(command, cwd=ROOT, env=about | {"LPS_PART": part}) for part in "01"]
    assert [process.wait(240) for process in both] == [0, 0]
    assert_same_end(run, unbroken)


def test_rows_are_shared_out_evenly_and_in_order(monkeypatch):
    for rows, count in itertools.product([0, 1, 2, 6, 7, 37], [1, 2, 3, 7]):
        monkeypatch.setattr(parallel, "num_ranks", lambda count=count: count)
        parts = [list(range(rows))[part] for part in parallel._bounds(rows)]
        assert sum(parts, []) == list(range(rows)) and max(map(len, parts)) - min(map(len, parts)) <= 1, (rows, count)


def test_with_one_process_nothing_is_touched():
    """Not even copied: a run without ranks is what it was before there were any."""
    rows, layer = torch.randn(3, 2), nn.BatchNorm1d(2)
    parallel.join(0, 1, 1, torch.device("cpu"))
    parallel.synchronise_batchnorm(layer)
    assert parallel.own_rows(rows) is rows and parallel.gather(rows, 3) is rows
    assert type(layer) is nn.BatchNorm1d and parallel.num_ranks() == 1
    assert (parallel.any_of(True), parallel.any_of(False), parallel.broadcast_number(7)) == (True, False, 7)
    parallel.leave()


def test_a_number_of_processes_that_was_not_started_is_one_sentence(monkeypatch):
    with pytest.raises(UserError, match="^processes: 2 differs from the number of started processes, 1$"):
        parallel.join(*ranks.own_rank(), 2, torch.device("cpu"))


def test_more_ranks_than_gpus_is_one_sentence(monkeypatch):
    for name, value in {ranks.TORCHRUN: "x", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(UserError, match="^processes: 2 is more than the 1 GPUs here; every process needs one$"):
        parallel.join(*ranks.own_rank(), 2, torch.device("cuda"))
