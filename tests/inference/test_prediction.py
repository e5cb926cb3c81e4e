"""Predictions of new pictures: the run's own pictures get its own predictions, names and none of these follow."""

import csv
import io
import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image

import lps
from lps.__main__ import main
from lps.analysis import naming
from lps.data import sources
from lps.errors import UserError
from lps.inference import continued_training, prediction_files, prediction_job, rejection, trained_model
from lps.inference.prediction import _clusters, predict
from lps.inference.prediction_columns import describe_columns
from lps.inference.prediction_result import NONE
from lps.interop import archives, imports
from lps.store.run_folders import create_run
from lps.store.snapshots import read_snapshot, read_split
from lps.training import checkpoints, loop
from tests.data.test_features import STORED, config
from tests.inference.test_training_on import launched
from tests.short_runs import finished_run

SMALL = {"dataset.images_per_class": 20, "batch_size": 32, "split.validation_ratio": 0.2, "device": "cpu"}
KINDS = {  # what a run is made of -> what makes its predictions
    "live": {"method": "lps", **SMALL},
    "stored": {"method": "lps", **STORED},
    "k-means": {"method": "gcd", **STORED, "kmeans_restarts": 1},
    "rejection": {"method": "fixmatch", **SMALL},
}


@pytest.fixture
def own(trained_run, tmp_path):
    """A copy of it."""
    return type(trained_run)(shutil.copytree(trained_run.folder, tmp_path / "runs" / trained_run.id))


def digits(run) -> np.ndarray:
    return sources.images_of(run.config()).pixels


def saved(folder, pixels, name="{:03d}.png"):
    folder.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(pixels):
        Image.fromarray(picture.squeeze()).save(folder / name.format(number))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_pictures_of_a_run_get_what_the_run_says_of_them(kind, trained_run, tmp_path):
    run = trained_run if kind == "live" else finished_run(tmp_path, **KINDS[kind])
    split, _ = read_split(run.folder)
    reports = []
    found = predict(run, digits(run), lambda done, total: reports.append((done, total)))
    assert reports == sorted(reports) and (reports[0], reports[-1]) == ((0, 200), (200, 200))
    assert len(reports) > 10 or run.config().features != "stored", "after each batch of a backbone"
    stored = read_snapshot(run.snapshots, 2)
    assert found.epoch == 2 and found.files == tuple(map(str, range(200)))
    assert np.array_equal(found.predicted[split.unlabeled], stored.predicted)
    assert np.allclose(found.confidence[split.unlabeled], stored.confidence.astype(np.float32), atol=1e-3)
    assert np.array_equal(found.nearest[split.training, 0], split.training)  # each is most like itself
    assert found.distance.min() >= 0


@pytest.mark.slow
def test_a_folder_of_picture_files_is_read_as_the_data_set_folder_reads_it(tmp_path):
    pixels, animals = np.random.default_rng(0).integers(0, 256, (60, 20, 24, 3), np.uint8), tmp_path / "animals"
    for label in range(2):
        pixels[label::3, :, :, label] //= 4
    for label, name in enumerate(("cat", "dog", "unlabeled")):
        saved(animals / name, pixels[label::3])
    settings = {"dataset": "folder", "dataset.path": str(animals), "split.num_novel": 1, "dataset.image_size": 16}
    run = finished_run(tmp_path / "runs", "lps", **settings, **{"pretrain.batch_size": 32, "batch_size": 16},
                       **{"network.name": "digits_resnet", "network.freeze_until": "none"})  # fmt: skip
    split, _ = read_split(run.folder)
    found = predict(run, animals)
    rows = [found.files.index(sources.images_of(run.config()).file_names[image]) for image in split.unlabeled]
    assert np.array_equal(found.predicted[rows], read_snapshot(run.snapshots, 2).predicted)
    (animals / "cat" / "000.png").unlink()
    with pytest.raises(UserError, match="differ from those of the training"):
        predict(run, animals)


@pytest.mark.slow
def test_a_run_that_goes_on_from_another_one_predicts_by_its_own_labels(own, monkeypatch):
    usual = int(np.bincount(read_snapshot(own.snapshots, 2).predicted).argmax())
    naming.record_steps(own, 2, [{"do": "name", "id": usual, "name": "usual"}])
    run = launched(continued_training.plan_continued_training(own, rule="all"), monkeypatch)
    assert loop.train(run) == 0
    split, _ = read_split(run.folder)
    found = predict(run, digits(run))
    assert np.array_equal(found.predicted[split.unlabeled], read_snapshot(run.snapshots, found.epoch).predicted)


def test_what_is_far_from_everything_is_none_of_these():
    generator, centres = np.random.default_rng(0), np.eye(8, dtype=np.float32)[:4]
    clusters = np.repeat(np.arange(4), 50)
    points = centres[clusters] + 0.05 * generator.normal(size=(200, 8)).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    withheld = np.arange(0, 200, 10)
    found = rejection.measure_trade_off(points, withheld, np.arange(20) < 15)
    limit = found.threshold(0.95)
    at = np.searchsorted(found.thresholds, limit)
    assert (np.diff(found.kept) >= 0).all()
    assert found.kept[at] >= 0.95 > found.kept[at - 1] or found.withheld_kept[at] >= 0.95 > found.withheld_kept[at - 1]
    assert found.right[-1] == 0.75 and found.withheld == 20
    away, _ = rejection.nearest_images(np.eye(8, dtype=np.float32)[4:6], points)
    assert (away.mean(axis=1) > limit).all()
    assert found.basis.startswith("Measured on 200 training images. Only labels of seen classes are withheld.")
    assert "other classes" in found.basis and "not known" in found.basis
    first, second = found.in_words(found.thresholds[-1]).split(". ")
    assert first == "100 % of the pictures of known classes get a class"
    assert second == "Of 20 pictures with a withheld label, 20 get a class, and 15 the right one."
    assert found.withheld_in_words(found.thresholds[0]).endswith("; without the limit, 15 would be right.")


def test_a_limit_that_accepts_more_than_requested_says_why():
    curve = np.array([0.9, 0.96, 1.0])
    few = rejection.TradeOff(np.arange(3.0), curve, "40 training images", 16, np.array([0.8, 0.9, 1.0]), curve)
    assert few.threshold(0.95) == 2.0
    assert few.explain_excess(2.0, 0.95).startswith("In fact, 100 % get a class, because 95 % of the pictures")
    rough = rejection.TradeOff(np.arange(2.0), np.array([0.8, 1.0]), "5 training images", 0, np.ones(2), np.ones(2))
    assert "because few pictures were measured" in rough.explain_excess(rough.threshold(0.95), 0.95)
    assert few.explain_excess(2.0, 1.0) == few.explain_excess(-1.0, 0.5) == ""


@pytest.mark.slow
def test_keep_says_how_many_known_pictures_stay(live):
    found = predict(live, digits(live))
    noise = np.random.default_rng(0).integers(0, 256, (20, 8, 8, 1), np.uint8)
    limits = [found.threshold(keep) for keep in (0.5, 0.95, 1)]
    assert limits == sorted(limits) and limits[-1] == float("inf") and limits[0] < limits[1]
    far = predict(live, noise)
    assert far.distance.mean() > found.distance.mean()
    assert not far.is_none(limits[-1]).any() and far.is_none(limits[0]).mean() > far.is_none(limits[1]).mean() - 1e-9
    with pytest.raises(UserError, match="expected more than 0 and at most 1"):
        found.threshold(0)


def test_names_and_merges_of_clusters_are_used(own):
    before = predict(own, digits(own))
    first, second = np.unique(before.predicted)[:2].tolist()
    naming.record_steps(
        own, 2, [{"do": "merge", "id": first, "into": second}, {"do": "name", "id": second, "name": "seven"}]
    )
    after = predict(own, digits(own))
    assert np.array_equal(after.predicted, before.predicted)
    moved = np.isin(before.predicted, (first, second))
    assert moved.any() and {after.names()[row] for row in np.flatnonzero(moved)} == {"seven"}
    naming.record_steps(own, 2, [{"do": "reject", "id": second}])
    assert predict(own, digits(own)).is_none(float("inf"))[moved].all()


@pytest.mark.slow
def test_what_a_person_took_out_of_its_cluster_is_compared_with_nothing(own):
    picture = int(read_split(own.folder)[0].unlabeled[0])
    assert predict(own, digits(own)[[picture]]).nearest[0, 0] == picture
    naming.record_steps(own, 2, [{"do": "nothing", "images": [picture]}])
    found = predict(own, digits(own)[[picture]])
    assert picture not in found.nearest and found.distance[0] > 0


@pytest.mark.slow
def test_names_that_were_given_at_another_epoch_follow_the_images(own):
    split, _ = read_split(own.folder)
    then, now = (read_snapshot(own.snapshots, epoch).predicted for epoch in (1, 2))
    shared = [(int((then[now == i] == i).sum() * 2 > (now == i).sum()), int(i)) for i in np.unique(now)]
    stays = next((i for is_same, i in shared if is_same), None)
    assert stays is not None, "no cluster of the sample run stays the same; train it longer"
    naming.record_steps(own, 1, [{"do": "name", "id": stays, "name": "stays"}])
    found = predict(own, digits(own))
    assert {found.names()[image] for image in split.unlabeled[now == stays]} == {"stays"} and not found.lost


def test_a_picture_of_a_split_id_goes_where_its_neighbours_went():
    said = naming.Naming(moved={4: 12}, parents={12: 13, 1: 0})
    predicted = np.array([7, 7, 1])
    theirs = np.array([[7, 7, 3, 7], [7, 7, 7, 3], [3, 3, 3, 3]])
    went = np.array([[13, 13, 3, 7], [7, 13, 3, 3], [3, 3, 3, 3]])
    assert _clusters(said, predicted, theirs, went).tolist() == [13, 7, 0]


def test_the_table_has_a_row_a_picture_and_arrays_come_back(live, tmp_path):
    found = predict(live, digits(live)[:7])
    limit = float(np.sort(found.distance)[3])
    rows = list(csv.DictReader(io.StringIO(prediction_files.as_csv(found, limit))))
    assert [row["file"] for row in rows] == list("0123456")
    assert [row["none"] for row in rows].count("yes") == 3
    assert all((row["name"] == "") == (row["none"] == "yes") and row["guess"] for row in rows)
    assert rows[2]["nearest_1"] == str(found.nearest[2, 0])
    assert [row["doubtful"] == "yes" for row in rows] == found.is_doubtful(limit).tolist()
    assert all((row["doubtful"] == "") == (row["none"] == "yes") for row in rows), "no answer, so nothing to doubt"
    assert [*rows[0]] == [*describe_columns()] and f"above {limit:.4f}" in describe_columns(limit)["distance"]
    prediction_files.write(tmp_path / "found.npz", found)
    again = prediction_files.read_predictions(tmp_path / "found.npz")
    assert prediction_files.as_csv(again, limit) == prediction_files.as_csv(found, limit)
    assert again.trade_off.in_words(limit) == found.trade_off.in_words(limit)


@pytest.mark.parametrize("spoil", [
    lambda told: told.pop("files"), lambda told: told.update(files=["a"]), lambda told: told.update(titles={}),
    lambda told: told.update(skipped=[3]), lambda told: told.update(curve={}), lambda told: told.update(epoch=[], x=1),
])  # fmt: skip
def test_damaged_arrays_are_one_sentence(live, tmp_path, spoil):
    path = tmp_path / "found.npz"
    prediction_files.write(path, predict(live, digits(live)[:3]))
    arrays = dict(np.load(path, allow_pickle=False))
    told = json.loads(arrays["about"].tobytes())
    spoil(told)
    np.savez(path, **arrays | {"about": np.frombuffer(json.dumps(told).encode(), np.uint8)})
    with pytest.raises(UserError, match="it has no predictions.; predict again"):
        prediction_files.read_predictions(path)


def test_a_folder_has_copies_by_class_and_the_originals_stay(live, tmp_path, capsys):
    folder = saved(tmp_path / "new", digits(live)[:6])
    saved(folder / "more", digits(live)[6:8])
    before = {path: path.read_bytes() for path in folder.rglob("*.png")}
    asked = ["predict", live.id, str(folder), "--runs", str(live.root), "--keep", "1"]
    assert main([*asked, "--to", str(tmp_path / "out")]) == 0
    assert {path: path.read_bytes() for path in folder.rglob("*.png")} == before
    copies = [path for path in (tmp_path / "out").rglob("*.png")]
    assert sorted(path.read_bytes() for path in copies) == sorted(before.values())
    assert capsys.readouterr().out.endswith(f"{tmp_path / 'out'}\n")
    rows = list(csv.DictReader((tmp_path / "out" / prediction_files.TABLE).open()))
    assert {path.parent.name for path in copies} == {row["name"] for row in rows} and len(rows) == 8
    assert main([*asked, "--to", str(tmp_path / "out")]) == 2
    assert "already exists" in capsys.readouterr().err


def test_pictures_out_of_an_array_are_written_as_files(live, tmp_path):
    np.savez(tmp_path / "new.npz", x=digits(live)[:4, :, :, 0])
    command = ["predict", live.id, str(tmp_path / "new.npz"), "--runs", str(live.root), "--to", str(tmp_path / "out")]
    assert main([*command, "--keep", "0.000001"]) == 0
    found = sorted((tmp_path / "out" / NONE).glob("*.png"))
    assert [np.asarray(Image.open(path)).tolist() for path in found] == digits(live)[:4, :, :, 0].tolist()


def test_from_python(live, tmp_path):
    rows = lps.predict(lps.find_run(live.id, live.root), digits(live)[:3], keep=1, to=tmp_path / "new.csv")
    assert [row["file"] for row in rows] == ["0", "1", "2"] and all(row["name"] == row["guess"] for row in rows)
    assert rows[0]["nearest"][0] == 0 and len((tmp_path / "new.csv").read_text().splitlines()) == 4


def as_user_error(run, what) -> str:
    with pytest.raises(UserError) as error:
        predict(run, what)
    return str(error.value)


def test_pictures_of_another_kind_are_one_sentence(live, tmp_path):
    assert as_user_error(live, np.zeros((2, 9, 8, 1), np.uint8)) == (
        "pictures: have 9 x 8 pixels with 1 channel; this run was trained on pictures of 8 x 8 pixels with 1 channel"
    )
    assert "8 x 8 pixels with 3 channels" in as_user_error(live, np.zeros((2, 8, 8, 3), np.uint8))
    assert "expected uint8" in as_user_error(live, np.zeros((2, 8, 8)))
    assert "does not exist; expected a folder" in as_user_error(live, tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    assert "has no pictures" in as_user_error(live, tmp_path / "empty")
    (tmp_path / "a.txt").write_text("a")
    assert "is another kind of file" in as_user_error(live, tmp_path / "a.txt")
    (tmp_path / "a.npz").write_text("a")
    assert "pictures: " in as_user_error(live, tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", y=np.zeros(3))
    assert "expected one of x, x_train, x_test" in as_user_error(live, tmp_path / "b.npz")


def test_files_that_cannot_be_used_are_left_out_by_name(live, tmp_path, capsys):
    folder = saved(tmp_path / "new", digits(live)[:3])
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n")
    (folder / "note.txt").write_text("no picture")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)).save(folder / "colours.png")
    found = predict(live, folder)
    reasons = dict(found.skipped)
    assert set(reasons) == {"broken.png", "note.txt", "colours.png"} and len(found.files) == 3
    assert "is in colour" in reasons["colours.png"]
    assert main(["predict", live.id, str(folder), "--runs", str(live.root)]) == 0
    assert "3 files left out" in capsys.readouterr().err
    for path in folder.glob("0*.png"):
        path.unlink()
    assert "none can be used: " in as_user_error(live, folder)


def test_a_run_without_weights_says_why(own, tmp_path):
    with_both = digits(own)[:2]
    sound = next(own.checkpoints.glob("step-*.pt"))
    shutil.copytree(own.checkpoints, tmp_path / "kept")
    for path in own.checkpoints.glob("*.pt"):
        path.write_bytes(path.read_bytes()[:-20])
    assert "is damaged" in as_user_error(own, with_both)
    shutil.rmtree(own.checkpoints)
    assert "its checkpoints were deleted" in as_user_error(own, with_both)
    archive = archives.pack_run(own, tmp_path / "out", light=True)
    (brought,) = imports.import_runs(archive, tmp_path / "elsewhere")
    assert "imported without checkpoints; export it again without --light" in as_user_error(brought.run, with_both)
    shutil.copytree(tmp_path / "kept", own.checkpoints)
    state = checkpoints.load_checkpoint(own.checkpoints, sound.stem)
    state["method"].popitem()
    for path in own.checkpoints.glob("*.pt"):
        checkpoints.save_checkpoint(own.checkpoints, path.stem, state)
    assert "to another version of its method or backbone" in as_user_error(own, with_both)
    assert "has not trained yet" in as_user_error(create_run(tmp_path / "runs", own.config()), with_both)
    (own.folder / "recorded.json").write_text("{}")
    assert "is a recording, which has no weights" in as_user_error(own, with_both)


def test_another_data_set_than_the_run_had_is_noticed(own, monkeypatch):
    whole = sources.images_of(own.config())
    pixels = whole.pixels.copy()
    pixels[0] ^= 1
    monkeypatch.setattr(sources, "images_of", lambda config: type(whole)(pixels, whole.labels, whole.class_names))
    assert "differ from those of the training" in as_user_error(own, whole.pixels[:2])


@pytest.mark.slow
def test_only_the_newest_weights_count_and_all_training_pictures_are_compared_with(trained_run, monkeypatch):
    model = trained_model.load_model(trained_run)
    assert (model.epoch, model.step) == (2, 0) and model.form.in_words == "8 x 8 pixels with 1 channel"
    assert np.array_equal(model.references.images, read_split(trained_run.folder)[0].training)
    monkeypatch.setattr(trained_model, "_MAX_COMPARED", 50)
    assert len(trained_model.load_model(trained_run).references.images) == 50
    assert config().features == "stored"


def test_a_link_that_leads_nowhere_among_the_results_stops_nothing(tmp_path):
    (tmp_path / "old.npz").symlink_to(tmp_path / "gone")
    (tmp_path / "new.npz").write_bytes(b"x")
    prediction_job.forget_old(tmp_path, ".npz", 1)
    assert not os.path.lexists(tmp_path / "old.npz") and (tmp_path / "new.npz").exists()
