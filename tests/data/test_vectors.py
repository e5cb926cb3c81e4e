"""Own embeddings in training: views by noise and dropout, the store, and everything that a run of them gives."""

import numpy as np
import pytest
import torch

from lps.__main__ import main
from lps.analysis.labels import label_all
from lps.data import features, sources, vectors
from lps.data.batches import seeded
from lps.data.training_data import pictures_on_device, prepare
from lps.errors import UserError
from lps.inference import new_pictures, prediction_files
from lps.inference.folder_watch import FolderWatch
from lps.inference.prediction import predict
from lps.interop import label_files
from lps.settings.config import configure
from lps.store.runs import Run
from lps.studies import picture_audit
from lps.training import loop
from tests.short_runs import create_run
from tests.vector_files import KINDS, WIDTH, items, npz

CPU = torch.device("cpu")
SETTINGS = {"dataset": "embeddings", "device": "cpu", "threads": 1, "split.num_novel": 1, "epochs": 12}
FORM = new_pictures.PictureForm(0, 0, WIDTH, False, False, True)
SMALL = {"batch_size": 32, "features.width": 8, "features.hidden": 16}


def config(path, **more):
    return configure(SETTINGS | SMALL | {"dataset.path": str(path)} | more)


def made(own):
    return features.features_for_run(
        own, pictures_on_device(sources.images_of(own), CPU), lambda done, total: None, lambda: False
    )


def test_views_are_what_their_equations_say():
    mean, spread = torch.tensor([5.0, -1.0, 2.0]), torch.tensor([1.0, 2.0, 0.0])
    rows = torch.arange(60_000.0).view(-1, 3) % 7
    views = vectors.views(noise=0.5, dropout=0.2)
    plain, weak, strong = (
        views[kind](rows, seeded(CPU, 1), mean, spread, False) for kind in ("plain", "weak", "strong")
    )
    assert torch.equal(plain, rows)
    assert torch.allclose((weak - rows).std(dim=0), 0.5 * spread, rtol=0.03)
    still = strong[:, 2] == mean[2]  # a number without spread has no noise: it is kept, or its mean
    assert torch.allclose(still.float().mean(), 0.2 + 0.8 * (rows[:, 2] == mean[2]).float().mean(), atol=0.01)
    assert torch.equal(strong[~still, 2], rows[~still, 2])
    assert torch.equal(views["strong"](rows, seeded(CPU, 1), mean, spread, False), strong)
    none = vectors.views(noise=0, dropout=0)
    assert all(torch.equal(none[kind](rows, seeded(CPU, 1), mean, spread, False), rows) for kind in none)


def test_the_store_holds_the_vectors_at_one_size_and_its_name_follows_from_the_views(tmp_path):
    own = config(npz(tmp_path / "a.npz"))
    stored, (given, _) = made(own), items()
    size = np.sqrt(np.square(given).mean())
    assert np.allclose(stored.tables["plain"][0].float().numpy(), given / size, atol=2e-3)
    assert len(stored.tables["weak"]) == len(stored.tables["strong"]) == 3
    assert not torch.equal(stored.tables["weak"][0], stored.tables["weak"][1])
    assert made(own).key == stored.key
    others = [{"features.noise": 0.1}, {"features.dropout": 0.5}, {"features.seed": 1}]
    keys = {made(config(tmp_path / "a.npz", **more)).key for more in others}
    assert len(keys | {stored.key}) == 4
    assert made(config(npz(tmp_path / "b.npz", vectors=given * np.float32(1.1)))).key != stored.key


def test_views_that_come_with_an_item_are_its_views(tmp_path):
    given = items(views=3)[0]
    own = config(npz(tmp_path / "a.npz", vectors=given))
    stored, size = made(own), np.sqrt(np.square(given[:, 0]).mean())
    for number, view in enumerate((1, 2, 1)):
        table = stored.tables["weak"][number].float().numpy()
        assert np.allclose(table, given[:, view] / size, atol=2e-3)
    away = [np.abs(stored.tables["strong"][0].float().numpy() - given[:, view] / size).mean() for view in range(3)]
    assert 0.05 < away[1] < min(away[0], away[2])


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"features": "live"}, "features: live is not possible with embeddings; choose stored"),
        ({"views": "cifar"}, "views: cifar is not possible with embeddings; choose vectors"),
        ({"network.start": "published"}, "network.start: published is not possible with embeddings"),
        ({"dataset": "digits"}, "views: vectors is only possible with embeddings, not with digits"),
    ],
)
def test_settings_of_pictures_do_not_fit(more, sentence):
    own = {"dataset": "embeddings", "dataset.path": "a.npz", "views": "vectors", "features": "stored"}
    with pytest.raises(UserError, match=sentence):
        configure(own | more)


def test_a_backbone_does_not_look_at_vectors_nor_none_at_pictures(tmp_path):
    given = {"features": "stored", "network.name": "given", "network.start": "random", "views": "vectors"}
    own = configure(given | {"dataset": "digits", "device": "cpu", "network.image_size": None})
    with pytest.raises(UserError, match="network.name: given does not fit data set digits, which has pictures"):
        prepare(own)
    other = config(npz(tmp_path / "a.npz"), **{"network.name": "efficientnet_lite0", "views": "cifar",
                                               "network.start": "published"})  # fmt: skip
    with pytest.raises(UserError, match="does not fit data set embeddings, which has vectors; choose given"):
        prepare(other)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on a file of vectors, and that file."""
    folder = tmp_path_factory.mktemp("birds")
    path = npz(folder / "birds.npz")
    run = create_run(folder / "runs", config(path))
    assert loop.RunTraining(run).carry_out() == 0
    return Run(run.folder), path


@pytest.mark.parametrize("method", ["orca", "simgcd", "fixmatch"])
def test_other_methods_train_on_them_too(tmp_path, method):
    run = create_run(tmp_path / "runs", config(npz(tmp_path / "a.npz"), method=method, epochs=1))
    assert loop.RunTraining(run).carry_out() == 0


def test_a_run_finds_the_kind_without_labels(trained):
    run, _ = trained
    found, kinds = label_all(run), items()[1]
    herons = [name for image, name in zip(found.images.tolist(), found.names) if KINDS[kinds[image]] == "heron"]
    others = [name for image, name in zip(found.images.tolist(), found.names) if KINDS[kinds[image]] != "heron"]
    novel = {name for name, group in zip(found.names, found.groups) if group == "novel"}
    assert np.mean([name in novel for name in herons]) > 0.9 > 0.1 > np.mean([name in novel for name in others])


def test_new_vectors_are_predicted_from_each_kind_of_source(trained, tmp_path):
    run, _ = trained
    new, kinds = items(30, seed=5)
    np.save(tmp_path / "new.npy", new)
    file = npz(tmp_path / "new.npz", vectors=new, ids=[f"x/{row}" for row in range(30)], labels=None, titles=None)
    by_array, by_npy, by_npz = (predict(run, what) for what in (new, tmp_path / "new.npy", file))
    for found in (by_array, by_npy, by_npz):
        assert np.array_equal(found.predicted, by_array.predicted) and np.allclose(found.distance, by_array.distance)
    assert by_npy.files[2] == "2" and by_npz.files[2] == "x/2"
    right = [name == KINDS[kind] for name, kind in zip(by_array.names(), kinds.tolist()) if kind < 2]
    assert np.mean(right) > 0.9
    pixels = (one for images in new_pictures.open_pictures(file, FORM).pieces() for one in images.pixels)
    place = prediction_files.write_folder(tmp_path / "sorted", by_npz, 1.0, pixels)
    assert len(list(place.rglob("*.png"))) == 30


@pytest.mark.parametrize(
    "convert",
    [
        np.ndarray.tolist,
        torch.from_numpy,
        lambda new: new[::-1, ::-1].copy()[::-1, ::-1],
        lambda new: new.astype(">f4"),
    ],
)
def test_new_vectors_may_be_a_list_a_tensor_or_an_array_of_any_layout(convert):
    new = items(30, seed=5)[0]
    (piece,) = new_pictures.open_pictures(convert(new), FORM).pieces()
    pictures = pictures_on_device(piece, CPU)
    assert np.array_equal(pictures.taken(torch.arange(30)).numpy(), new)


def test_its_own_vectors_get_its_own_predictions(trained):
    run, path = trained
    found, own = predict(run, path), label_all(run)
    said = dict(zip(own.images.tolist(), own.predicted.tolist()))
    rows = [row for row in range(len(found.files)) if said.get(row, -1) >= 0]
    assert rows and all(found.predicted[row] == said[row] for row in rows)


def test_what_cannot_be_predicted_gets_one_sentence(trained, tmp_path):
    run, _ = trained
    np.save(tmp_path / "wide.npy", np.ones((3, WIDTH + 1)))
    np.save(tmp_path / "nan.npy", np.full((3, WIDTH), np.nan))
    for what, sentence in (
        (tmp_path / "wide.npy", f"items: are vectors of {WIDTH + 1} numbers; this run was trained on vectors of"),
        (tmp_path / "nan.npy", "items: the vector of '0' holds NaN or infinity"),
        (tmp_path, "items: .* has pictures; this run was trained on vectors of 12 numbers"),
        (tmp_path / "gone.npy", "pictures: .* does not exist"),
        (None, "pictures: are not an array of numbers but NoneType; expected an array, or a folder"),
        ([[1.0], [1.0, 2.0]], "pictures: are not an array of numbers but list"),
    ):
        with pytest.raises(UserError, match=sentence):
            predict(run, what)
    with pytest.raises(UserError, match="cannot be watched: this run was trained on vectors"):
        FolderWatch(run, tmp_path)


def test_the_command_line_calls_them_items(trained, capsys):
    run, path = trained
    assert not main(["predict", run.id, str(path), "--runs", str(run.root)])
    message = capsys.readouterr().err
    assert "% of the items of known classes" in message and "picture" not in message and "image" not in message


@pytest.mark.slow
def test_labels_are_taken_away_with_ids(trained, tmp_path):
    run, _ = trained
    label_files.export(run, tmp_path / "labels.csv")
    assert "bird-7," in (tmp_path / "labels.csv").read_text()
    label_files.export(run, tmp_path / "sorted")
    assert len(list((tmp_path / "sorted").rglob("*.png"))) == len(label_all(run).images)


def test_a_look_finds_copies_and_strangers_by_the_vectors_alone(tmp_path):
    given, _ = items()
    given[50], given[20] = given[11], 40.0
    titles = ["the same title"] * len(given)
    own = config(npz(tmp_path / "a.npz", vectors=given, titles=titles))
    found = picture_audit.audit_pictures(own, tmp_path / "runs").findings
    copies = [one.pictures for one in found if one.kind == "duplicate"]
    assert ("bird-11", "bird-50") in copies and len(copies) < 5
    assert ("bird-20",) in [one.pictures for one in found if one.kind == "stranger"]


@pytest.mark.slow
def test_the_model_is_taken_away_as_a_graph_of_vectors(trained, tmp_path):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name)
    import json
    import subprocess
    import sys

    from lps.inference import model_folder

    run, _ = trained
    folder = model_folder.write_model_folder(run, tmp_path / "model")
    told = json.loads((folder / "labels.json").read_text())["input"]
    assert told == {"name": "vectors", "type": "float32", "layout": "NC", "channels": WIDTH}
    new, _ = items(20, seed=6)
    np.save(tmp_path / "new.npy", new)
    command = [sys.executable, "example.py", str(tmp_path / "new.npy")]
    lines = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()
    found = predict(run, new)
    distances = [float(line.split("\t")[3]) for line in lines]
    assert len(lines) == 20 and np.allclose(distances, found.distance, atol=2e-3)
