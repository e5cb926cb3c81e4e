"""The exported model: its results in onnxruntime equal ours, and its folder describes it."""

import json
import os
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
import torch

from lps.__main__ import main
from lps.analysis import naming
from lps.data import sources
from lps.errors import UserError
from lps.inference import export_job, model_folder, model_graph
from lps.inference.prediction import predict
from tests.inference.test_prediction import KINDS, digits, saved
from tests.network import published_layouts
from tests.shares import OFFSET, share
from tests.short_runs import finished_run

pytestmark = pytest.mark.slow

SIDE = 64
LITE = {
    "dataset": "arrays", "features": "stored", "network.name": "efficientnet_lite0", "network.start": "published",
    "network.image_size": SIDE, "features.weak_views": 1, "features.strong_views": 1, "features.width": 16,
    "features.hidden": 16, "split.num_seen": 2, "batch_size": 16, "device": "cpu",
}  # fmt: skip


def coloured(path):
    """Forty pictures of 32 x 32 pixels in four classes that a colour tells."""
    pixels = np.random.default_rng(0).integers(0, 120, (40, 32, 32, 3), np.uint8)
    labels = np.arange(40) % 4
    for row, label in enumerate(labels):
        pixels[row, :, :, label % 3] += 100 if label < 3 else 40
    np.savez(path, x_train=pixels, y_train=labels)
    return str(path)


def vit(path):
    torch.save(published_layouts.dinov2(), path)
    return {"network.name": "vit:dinov2", "network.checkpoint": str(path), "network.image_size": 24}


def ours_and_theirs(run, folder, pixels):
    """What `predict` says of pictures, and what the graph says, from batches of different sizes."""
    onnxruntime = pytest.importorskip("onnxruntime")
    graph = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    assert [one.shape[1:] for one in graph.get_inputs()] == [list(pixels.shape[1:])]
    parts = [graph.run(None, {graph.get_inputs()[0].name: part}) for part in (pixels[:1], pixels[1:8], pixels[8:])]
    return predict(run, pixels), dict(zip(model_graph.OUTPUTS, map(np.concatenate, zip(*parts))))


def assert_same(found, said):
    assert np.array_equal(said["class"], found.predicted)
    assert np.allclose(said["confidence"], found.confidence, atol=2e-3)
    assert np.allclose(said["distance"], found.distance, atol=2e-3)


@pytest.mark.parametrize("kind", share([*KINDS, "EfficientNet-Lite0", "vision transformer"], OFFSET, 6))
def test_the_graph_says_what_the_run_says(kind, tmp_path):
    settings = dict(KINDS.get(kind, {"method": "lps"} | LITE))
    if kind not in KINDS:
        settings["dataset.path"] = coloured(tmp_path / "coloured.npz")
    if kind == "vision transformer":
        settings |= vit(tmp_path / "vit.pt") | {"network.start": "checkpoint", "features": "live"}
        settings |= {"network.freeze_until": "last_but_one"}
    run = finished_run(tmp_path / "runs", **settings)
    folder = model_folder.write_model_folder(run, tmp_path / "model")
    assert_same(*ours_and_theirs(run, folder, np.array(sources.images_of(run.config()).pixels[:40])))
    assert sorted(path.name for path in folder.iterdir()) == sorted(model_folder.FILES)


def test_the_folder_has_names_and_an_example_that_needs_nothing_of_ours(tmp_path, capsys):
    run = finished_run(tmp_path / "runs", **KINDS["stored"])
    usual = int(np.bincount(predict(run, digits(run)).predicted).argmax())
    naming.record_steps(
        run, 2, [{"do": "name", "id": usual, "name": "=often"}, {"do": "reject", "id": (usual + 1) % 10}]
    )
    assert main(["export", run.id, "--to", "model", "--runs", str(run.root), "--into", str(tmp_path / "out")]) == 0
    folder = tmp_path / "out" / run.id
    assert capsys.readouterr().out.endswith(f"{folder}\n")
    told = json.loads((folder / "labels.json").read_text())
    assert told["classes"][usual]["name"] == "=often" and told["classes"][(usual + 1) % 10]["name"] is None
    card = (folder / "card.md").read_text()
    assert "=often" in card and "| withheld labels |" not in card and "python -m lps train --dataset digits" in card
    assert "no published weights were used" in card and str(tmp_path) not in card + json.dumps(told)
    pictures = saved(tmp_path / "new", digits(run)[:6])
    files = sorted(map(str, pictures.iterdir()))
    code = "import sys; sys.modules['lps'] = sys.modules['torch'] = None; import runpy; sys.argv = sys.argv[1:]; "
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code, str(folder / "example.py"), *files], cwd=tmp_path, check=True,
                          capture_output=True, text=True)  # fmt: skip
    found = predict(run, pictures)
    none = found.is_none(found.threshold())
    expected = ["none of these" if is_none else name for is_none, name in zip(none, found.names())]
    assert [line.split("\t")[1] for line in done.stdout.splitlines()] == expected
    model_folder.write_zip(run, tmp_path / "model.zip")
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        assert sorted(archive.namelist()) == sorted(f"model-{run.id[-6:]}/{name}" for name in model_folder.FILES)
    assert [path.name for path in tmp_path.glob("model*")] == ["model.zip"]
    with pytest.raises(UserError, match="already exists"):
        model_folder.write_model_folder(run, folder)


def test_what_cannot_leave_says_why_and_writes_nothing(trained_run, tmp_path, monkeypatch, capsys):
    run = trained_run

    def broken(*arguments, **options):
        raise RuntimeError("Unsupported: aten::odd\nand more")

    monkeypatch.setattr(torch.onnx, "export", broken)
    with pytest.raises(
        UserError, match=r"lps on digits_resnet cannot be exported .*RuntimeError: Unsupported: aten::odd\)"
    ):
        model_folder.write_model_folder(run, tmp_path / "out" / "model")
    assert not list((tmp_path / "out").iterdir())
    monkeypatch.setattr(export_job.importlib.util, "find_spec", lambda name: None)
    assert main(["export", run.id, "--to", "model", "--runs", str(run.root)]) == 2
    assert "model needs onnx and onnxscript: python -m pip install -r requirements-onnx.txt" in capsys.readouterr().err
    assert main(["export", "--to", "model", "--runs", str(run.root)]) == 2
    assert "the ids of the runs" in capsys.readouterr().err


def test_a_command_that_is_ended_leaves_no_draft(trained_run, tmp_path, monkeypatch):
    def ended(*arguments, **options):
        assert len(list(into.iterdir())) == 1
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    into = tmp_path / "into"
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # not the end of all tests where nobody takes it
    monkeypatch.setattr(torch.onnx, "export", ended)
    try:
        with pytest.raises(SystemExit, match="143"):
            main(["export", trained_run.id, "--to", "model", "--runs", str(trained_run.root), "--into", str(into)])
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN and not list(into.iterdir())
    finally:
        signal.signal(signal.SIGTERM, before)
