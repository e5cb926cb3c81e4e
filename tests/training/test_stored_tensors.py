"""Checkpoints, snapshots, averages: what is written is read back, and damage is noticed."""

import math

import numpy as np
import pytest
import torch

from lps.data.classes import Classes
from lps.data.split import Split
from lps.errors import UserError
from lps.methods.parts.measurements import Averages, Ratio
from lps.store import snapshots
from lps.store.snapshots import Snapshot
from lps.training import checkpoints


@pytest.mark.slow
def test_a_checkpoint_comes_back_and_damage_falls_back_to_the_one_before(tmp_path):
    for step in (1, 2):
        checkpoints.save_checkpoint(
            tmp_path, f"step-{step:08d}", {"weight": torch.full((3,), float(step)), "epoch": step}
        )
    assert checkpoints.load_newest(tmp_path)[1]["epoch"] == 2
    newest = tmp_path / "step-00000002.pt"
    whole = newest.read_bytes()
    for damaged in (whole[:-1], b"", whole[:100] + bytes([whole[100] ^ 1]) + whole[101:], b"\0" * len(whole)):
        newest.write_bytes(damaged)
        name, state, bad = checkpoints.load_newest(tmp_path)
        assert (name, state["epoch"], bad) == ("step-00000001", 1, {"step-00000002": checkpoints.DAMAGED})
    newest.with_suffix(".json").unlink()
    newest.write_bytes(whole)
    assert checkpoints.load_newest(tmp_path)[0] == "step-00000001"  # without its record it never counted


@pytest.mark.parametrize("state", [torch.ones(2), None, Averages()])
def test_a_whole_file_that_is_no_checkpoint_is_passed_over_in_its_own_words(tmp_path, state):
    checkpoints.save_checkpoint(tmp_path, "step-00000001", {"epoch": 1})
    checkpoints.save_checkpoint(tmp_path, "step-00000002", state)
    assert checkpoints.load_newest(tmp_path) == ("step-00000001", {"epoch": 1}, {"step-00000002": checkpoints.FOREIGN})


def test_memory_that_runs_out_is_no_damage(tmp_path, monkeypatch):
    checkpoints.save_checkpoint(tmp_path, "step-00000001", {"epoch": 1})

    def load(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(torch, "load", load)
    monkeypatch.setattr("lps.files.limited_process.run_limited", lambda operation, size: None)
    with pytest.raises(MemoryError):
        checkpoints.load_newest(tmp_path)


def test_of_damaged_checkpoints_the_newest_alone_is_kept(tmp_path):
    def save_and_damage(*steps):
        for step in steps:
            checkpoints.save_checkpoint(tmp_path, f"step-{step:08d}", {"epoch": step})
            (tmp_path / f"step-{step:08d}.pt").write_bytes(b"damaged")
        checkpoints.set_aside(tmp_path, list(checkpoints.load_newest(tmp_path)[2]))
        return sorted(path.name for path in tmp_path.iterdir())

    assert save_and_damage(1, 2, 3) == ["damaged-step-00000003.pt"]
    assert save_and_damage(4) == ["damaged-step-00000004.pt"]
    checkpoints.set_aside(tmp_path, [])
    assert save_and_damage() == ["damaged-step-00000004.pt"]


def test_only_the_newest_two_and_the_best_are_kept(tmp_path):
    for step in range(5):
        checkpoints.save_checkpoint(tmp_path, f"step-{step:08d}", {"epoch": step})
        if step == 1:
            checkpoints.keep_as_best(tmp_path, "step-00000001")
        checkpoints.prune_checkpoints(tmp_path)
    assert sorted(p.name for p in tmp_path.glob("*.pt")) == ["best.pt", "step-00000003.pt", "step-00000004.pt"]
    assert checkpoints.load_checkpoint(tmp_path, "best")["epoch"] == 1 and len(list(tmp_path.iterdir())) == 6


def test_split_and_snapshot_come_back(tmp_path):
    split = Split(np.array([0, 2]), np.array([1, 3]), Classes(1, 2), np.array([1, 0]), ("é", "b"), 7)
    snapshots.write_split(tmp_path, split, np.array([0, 1, 0, -1]))
    read, truth = snapshots.read_split(tmp_path)
    assert read.class_names == ("é", "b") and read.classes == Classes(1, 2) and truth.tolist() == [0, 1, 0, -1]
    snapshot = Snapshot(
        np.array([1, 0], np.int16), np.ones(2, np.float16), np.ones((1, 4), np.float16), np.array([3], np.int32)
    )
    snapshots.write_snapshot(tmp_path, 12, snapshot)
    assert snapshots.snapshot_epochs(tmp_path) == [12]
    assert snapshots.read_snapshot(tmp_path, 12).feature_index.tolist() == [3]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a zip", b"\x00" * 300])
def test_a_damaged_or_missing_file_is_one_sentence(tmp_path, content):
    (tmp_path / "epoch-0001.npz").write_bytes(content)
    for epoch in (1, 2):
        with pytest.raises(UserError) as caught:
            snapshots.read_snapshot(tmp_path, epoch)
        assert "\n" not in str(caught.value)


def test_pickled_arrays_are_not_loaded(tmp_path):
    np.savez(tmp_path / "epoch-0001.npz", predicted=np.array([print], dtype=object))
    with pytest.raises(UserError):
        snapshots.read_snapshot(tmp_path, 1)


def test_averages_are_means_over_steps_and_ratios_means_over_rows():
    def step(number: float, vector: list[float], rows: int) -> dict:
        ratio = Ratio(torch.tensor(rows), torch.tensor(10))
        return {"a": torch.tensor(number), "v": torch.tensor(vector), "r": ratio, "f": 2.0}

    averages = Averages()
    averages.add(step(1.0, [1.0, 3.0], 1))
    for one in (averages, Averages(averages.state_dict())):
        one.add(step(3.0, [3.0, 5.0], 9))
        assert one.result() == {"a": 2.0, "v": [2.0, 4.0], "r": 0.5, "f": 2.0}


def test_a_ratio_that_never_had_a_row_is_not_a_number():
    averages = Averages()
    averages.add({"r": Ratio(torch.tensor(0), torch.tensor(0))})
    assert math.isnan(averages.result()["r"]) and Averages().result() == {}
