"""Disk space for runs: a warning before they start, only if it is known to be short."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lps.__main__ import main
from lps.data.class_shares import ADVISED
from lps.files import disk
from lps.machine.devices import Device
from lps.network import backbones
from lps.scheduler import disk_use, launcher, preflight
from lps.scheduler.costs import KnownCosts, RunSpeed
from lps.settings.config import configure
from tests.visiting import visit


@pytest.fixture
def left(monkeypatch):
    """Sets what is free, and what a run takes by those that are known: 100 MB an epoch on digits, else nothing."""
    config = configure({"epochs": 1})
    known = KnownCosts([RunSpeed(config, 10.0)])
    monkeypatch.setattr(disk_use, "_written", lambda run, epochs: (100_000_000.0, 0.0))
    monkeypatch.setattr(preflight.costs, "known_costs", lambda root, kinds: known)
    return lambda free: monkeypatch.setattr(disk, "free_bytes", lambda folder: free)


def test_a_disk_with_too_little_room_is_told_before_the_start(left, tmp_path):
    run, root = configure({"epochs": 3}), tmp_path / "not" / "there"
    for free, count, says in ((299_000_000, 1, True), (300_000_000, 1, False), (599_999_999, 2, True)):
        left(free)
        words = preflight.disk_warning([run] * count, root)
        assert bool(words) == says, free
        if words:
            assert "will write about" in words and f"are free in {tmp_path}." in words and words.isprintable()
    left(preflight.AMPLE_BYTES)
    assert preflight.disk_warning([run] * 2000, root) == ""
    left(0)
    assert preflight.disk_warning([], root) == ""


def test_what_nobody_knows_is_told_only_where_there_is_little(left, tmp_path):
    run = configure({"method": "orca"})
    left(preflight.LOW_BYTES - 1)
    assert "is not known" in preflight.disk_warning([run], tmp_path)
    left(preflight.LOW_BYTES)
    assert preflight.disk_warning([run], tmp_path) == ""


def test_the_command_line_says_it(left, tmp_path, capsys):
    left(1_000_000)
    assert main(["sweep", "--dry-run", "--seeds", "0,1", "--runs", str(tmp_path)]) == 0
    assert "The disk is too small: these 2 runs will write about" in capsys.readouterr().err
    left(10**15)
    assert main(["sweep", "--dry-run", "--seeds", "0,1", "--runs", str(tmp_path)]) == 0
    assert "disk" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("imbalance", "warning"),
    [
        ({"split.imbalance": 10.0}, ""),
        ({"split.imbalance": 1000.0}, "The imbalance is 183 instead of 1000 .split.imbalance.: the largest class"),
        ({"split.labeled_imbalance": 10.0, "split.validation_ratio": 0.5}, ""),
        (
            {"split.labeled_imbalance": 200.0},
            "The imbalance of the labels is 92 instead of 200 .split.labeled_imbalance.: the largest class has only 92 "
            "labeled images, and the smallest one keeps 1.",
        ),
    ],
)
def test_an_imbalance_that_is_not_reached_is_told(imbalance, warning):
    config = configure(imbalance | {"split.rule": "stratified", "split.num_seen": 5})
    warnings = preflight.start_warnings(config)
    assert len(warnings) == bool(warning) and re.fullmatch(f"{warning}.*", "".join(warnings))


def test_high_thresholds_over_many_classes_are_told_once(tmp_path):
    """Only for LPS on stored features, where the numbers come from."""
    path = tmp_path / "many.npz"
    np.savez(path, x_train=np.zeros((120, 8, 8, 3), np.uint8), y_train=np.arange(120) % 60)
    usual = {"dataset": "arrays", "dataset.path": str(path), "features": "stored", "split.rule": "stratified"}
    configs = [configure(usual | {"margin_scale": scale, "seed": seed}) for scale in (2.0, 5.0) for seed in (0, 1)]
    (warning,) = preflight.start_warnings(*configs)
    assert warning.startswith("There are 60 classes. With so many, few predictions reach the confidence of 0.4 to 0.8")
    for other in ({"threshold_novel_start": 0.1}, {"method": "orca"}, {"features": "live"}):
        assert preflight.start_warnings(configure(usual | other)) == []


def test_the_command_line_advises_a_prior_where_labels_look_unequal(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(launcher, "launch", lambda run, **wish: None)
    monkeypatch.setattr(launcher, "dispatch", lambda root: [])
    usual = ["launch", "--dataset", "digits", "--runs", str(tmp_path)]
    unequal = [*usual, "--set", "split.imbalance=20", "--set", "split.rule=stratified"]
    for words, is_told in ((usual, False), (unequal, True), ([*unequal, "--set", f"prior={ADVISED}"], False)):
        assert main(words) == 0
        assert (f"prior = {ADVISED}. Evidence: docs/" in capsys.readouterr().err) == is_told


@pytest.fixture
def gpu(monkeypatch):
    """A GPU of 24 GiB as the only one, and 131,700 pictures of 256 pixels that nobody has."""
    pixels = np.broadcast_to(np.uint8(0), (131_700, 256, 256, 3))
    monkeypatch.setattr(preflight.sources, "images_of", lambda config: SimpleNamespace(pixels=pixels))
    found = [Device("cpu", "CPU"), Device("cuda:0", "Fake", bytes=24 << 30)]
    monkeypatch.setattr(preflight.devices, "list_devices", lambda: found)


def test_paper_scale_is_told_what_does_not_fit_the_gpu(gpu):
    paper = {"dataset": "imagenet100", "dataset.path": "/somewhere"}
    stay, step = preflight.memory_warnings([configure(paper | {"precision": "fp32"})])
    assert "take 25.9 GB" in stay and "kept in main memory" in stay and "copies 101 MB" in stay
    assert "about 88.1 GB" in step and "has 25.8 GB" in step and "precision=bf16" in step
    assert "about 44.0 GB" in preflight.memory_warnings([configure(paper | {"precision": "bf16"})])[1]
    for fits in ({"network.start": "random"}, {"pretrain.batch_size": 64}, {"pretrain.epochs": 0}):
        assert preflight.memory_warnings([configure(paper | fits)]) == [stay]
    for elsewhere in ("cpu", "cuda:1"):
        assert preflight.memory_warnings([configure(paper | {"device": elsewhere})]) == []


def test_what_several_runs_have_in_common_is_said_once(gpu):
    paper = {"dataset": "imagenet100", "dataset.path": "/somewhere"}
    runs = [
        configure(paper | {"seed": seed, "pretrain.batch_size": size}) for seed in (0, 1) for size in (64, 512, 1024)
    ]
    stay, *steps = preflight.memory_warnings(runs)
    assert "take 25.9 GB" in stay and [words[:20] for words in steps] == ["A step of pretrainin"] * 2


def test_sweeps_and_searches_say_what_is_large_for_the_gpu(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(preflight, "memory_warnings", lambda configs: asked.append(list(configs)) or ["It is large."])
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    for page in ("sweeps", "search"):
        app = visit(page)
        assert "It is large\\." in [info.value for info in app.info], page
    assert main(["sweep", "--seeds", "0,1", "--dry-run", "--runs", str(tmp_path)]) == 0
    assert "It is large." in capsys.readouterr().err and len(asked[-1]) == 2


@pytest.mark.parametrize("name, side", [("digits_resnet", 8), ("cifar_resnet18", 32), ("resnet50", 224)])
def test_what_a_step_keeps_for_its_gradient_is_counted(name, side):
    """A batch without values; what layers share counts once."""
    with torch.device("meta"):
        backbone = backbones.build(name, 3).train()
    kept = {}

    def keep(tensor):
        if not isinstance(tensor, torch.nn.Parameter):
            storage = tensor.untyped_storage()
            kept[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        backbone(torch.empty(4, 3, side, side, device="meta"))
    counted = sum(storage.nbytes() for storage in kept.values()) / 4 / side**2
    assert preflight.ACTIVATION_BYTES[name] == pytest.approx(counted, rel=0.02)


def test_free_bytes_are_those_of_the_system(tmp_path, monkeypatch):
    import os

    about = SimpleNamespace(f_bavail=3, f_bfree=5, f_blocks=9, f_frsize=1000)
    monkeypatch.setattr(disk.os, "statvfs", lambda folder: about)
    for user, free in ((0, 5000), (1000, 3000)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert disk.free_bytes(tmp_path) == free
        disk.check_fits(tmp_path / "a", free)
        with pytest.raises(disk.TooSmall, match="No space left") as caught:
            disk.check_fits(tmp_path / "a", free + 1)
        assert (caught.value.needed, caught.value.free) == (free + 1, free)
    about.f_blocks = 0  # a file system that does not tell
    disk.check_fits(tmp_path / "a", 2**62)
