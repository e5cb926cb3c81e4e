"""Files that would run a program when they are unpickled, wherever a file is read: none of them does."""

import io
import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from lps import checkpoints, datasets, imports, starts
from lps.config import configure
from lps.files import write_checked
from lps.parameters import ConfigError
from lps.projection import read_map
from lps.runs import create_run
from lps.snapshots import read_snapshot, read_split

KINDS = ("pickle", "torch", "torch, older", "npy", "npz", "npz, named like a tensor")


class Canary:
    """Makes a file where it is unpickled."""

    def __init__(self, nest: Path):
        self.nest = nest

    def __reduce__(self):
        return os.mkdir, (str(self.nest),)


def bait(kind: str, nest: Path, names=("x_train", "y_train")) -> bytes:
    """A file of some kind with a canary in it."""
    out = io.BytesIO()
    value = Canary(nest)
    if kind == "pickle":
        return pickle.dumps({"model": value})
    if kind.startswith("torch"):
        torch.save({"model": value, "x": torch.ones(2)}, out, _use_new_zipfile_serialization=kind == "torch")
    elif kind == "npy":
        np.save(out, np.array([value], dtype=object), allow_pickle=True)
    elif kind == "npz":
        np.savez(out, **{name: np.array([value], dtype=object) for name in names})
    else:
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps(value))
            archive.writestr("archive/version", "3\n")
            for name in names:
                archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + _header("{'descr': '|O', 'shape': (1,)}", value))
    return out.getvalue()


def _header(text: str, value) -> bytes:
    line = (text[:-1] + ", 'fortran_order': False}").ljust(117).encode() + b"\n"
    return struct.pack("<H", len(line)) + line + pickle.dumps(value)


@pytest.fixture
def nest(tmp_path):
    path = tmp_path / "hatched"
    yield path
    assert not path.exists(), "a file was unpickled, and ran what it said"


@pytest.mark.parametrize("kind", KINDS)
def test_the_canary_would_sing(tmp_path, kind):
    """The control: read without care, each of these files does what it says."""
    path, nest = tmp_path / "bait", tmp_path / "hatched"
    path.write_bytes(bait(kind, nest))
    if kind == "pickle":
        pickle.loads(path.read_bytes())
    elif kind.startswith("torch"):
        torch.load(path, weights_only=False)
    else:
        loaded = np.load(path, allow_pickle=True)
        if kind != "npy":
            loaded["x_train"]
    assert nest.is_dir()


@pytest.mark.parametrize("kind", KINDS)
def test_pictures(tmp_path, nest, kind, monkeypatch):
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "pictures.npz"
    path.write_bytes(bait(kind, nest))
    with pytest.raises(ConfigError):
        datasets.load("arrays", str(path))


@pytest.mark.parametrize("kind", KINDS)
def test_start_weights(tmp_path, nest, kind):
    path = tmp_path / "weights.pt"
    path.write_bytes(bait(kind, nest))
    with pytest.raises(ConfigError) as caught:
        starts.read_tensors(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_of_a_run_even_with_the_right_checksum(tmp_path, nest, kind):
    folder = create_run(tmp_path / "runs", configure({}), "").checkpoints
    folder.mkdir()
    checkpoints.save(folder, "step-00000001", {"epoch": 1})
    write_checked(folder / "step-00000002.pt", bait(kind, nest))
    assert checkpoints.load(folder, "step-00000002") is None
    assert checkpoints.load_newest(folder) == ("step-00000001", {"epoch": 1}, {"step-00000002": checkpoints.FOREIGN})


@pytest.mark.parametrize("kind", KINDS)
def test_snapshots_splits_and_maps(tmp_path, nest, kind):
    run = create_run(tmp_path / "runs", configure({}), "")
    for folder in (run.snapshots, run.projections):
        folder.mkdir()
    data = bait(kind, nest, ("predicted", "confidence", "features", "feature_index", "seen", "labeled", "points"))
    for path in (run.folder / "split.npz", run.snapshots / "epoch-0001.npz", run.projections / "umap-epoch-0001.npz"):
        path.write_bytes(data)
    for read in (
        lambda: read_split(run.folder),
        lambda: read_snapshot(run.snapshots, 1),
        lambda: read_map(run, "umap", 1),
    ):
        with pytest.raises((ConfigError, OSError, ValueError)):
            if read() is None:
                raise ValueError


@pytest.mark.parametrize("kind", KINDS)
def test_imported_runs(tmp_path, nest, kind):
    source = create_run(tmp_path / "theirs", configure({}), "")
    for folder in (source.checkpoints, source.snapshots):
        folder.mkdir()
    write_checked(source.checkpoints / "epoch-0001.pt", bait(kind, nest))
    (source.snapshots / "epoch-0001.npz").write_bytes(bait(kind, nest, ("predicted", "confidence")))
    (source.folder / "split.npz").write_bytes(bait(kind, nest, ("seen",)))
    try:
        imports.import_runs(source.folder, tmp_path / "runs")
    except ConfigError as error:
        assert str(error).isprintable()


def test_downloads_that_are_pickles_themselves(tmp_path, nest, monkeypatch):
    """CIFAR's own files are pickles: torchvision opens them, and only where their digest is the published one."""
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch", "batches.meta"]:
        (folder / name).write_bytes(bait("pickle", nest))
    with pytest.raises(ConfigError):
        datasets.load("cifar10", str(tmp_path))
