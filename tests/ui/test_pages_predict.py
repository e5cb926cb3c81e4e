"""The page Predict: a run and pictures, what becomes of them, the threshold, and one picture beside what it is like."""

import contextlib
import csv
import io
import os
import re
import shutil
import time
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from lps.__main__ import main
from lps.analysis import naming, run_index
from lps.files.locks import try_lock
from lps.inference import export_job, model_folder, prediction_files, prediction_job
from lps.inference.prediction_result import PredictionResult
from lps.interop import uploaded_folders
from lps.machine import detached_jobs
from lps.scheduler import background_jobs
from lps.settings.config import configure
from lps.store import titles
from lps.store.run_folders import create_run
from lps.training import loop
from lps.ui.pictures import points, predictions
from lps.ui.predict import results, training_data
from lps.ui.server import uploads
from tests import vector_files
from tests.inference.test_prediction import digits, saved
from tests.sample_runs import make_run
from tests.ui.test_serving import ask
from tests.visiting import visit, words_of


@pytest.fixture
def run(trained_run, tmp_path, monkeypatch):
    """A run with weights; what a page begins is over when it returns."""
    (tmp_path / "home").mkdir()
    for variable, name in {"HOME": "home", "LPS_RUNS": "runs", "LPS_PICTURES": "kept"}.items():
        monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.delenv("LPS_FOLDERS", raising=False)

    def begin(result, command):
        result.parent.mkdir(exist_ok=True)
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            main(command[3:])
        result.with_suffix(".log").write_text(said.getvalue())

    monkeypatch.setattr(detached_jobs, "start_job", begin)
    return type(trained_run)(shutil.copytree(trained_run.folder, tmp_path / "runs" / trained_run.id))


@pytest.fixture
def pictures(run, tmp_path):
    return saved(tmp_path / "home" / "new", digits(run)[:60])


def button(at, label):
    return next(one for one in at.button if one.label.replace("\\", "") == label)


@pytest.mark.slow
def test_from_a_folder_to_names_and_reasons(run, pictures):
    (pictures / "broken.png").write_bytes(b"no picture")
    at = visit("predict")
    assert "Drop pictures or an archive of pictures" in [one.label for one in at.file_uploader]
    button(at, "new").click().run()
    button(at, "Use this folder").click().run()
    assert at.query_params["folder"] == str(pictures) and not at.exception
    assert "**60 pictures**" in words_of(at) and not at.warning
    assert [one.label for one in at.expander] == ["1 file left out", "Columns of the CSV file"]
    none = int(words_of(at).split("pictures**; ")[1].split(" marked")[0])
    assert f"{none} of your 60 pictures" in words_of(at)
    at.slider(key="predict_keep").set_value(100).run()
    assert "; 0 marked" in words_of(at) and "even if it is far" in words_of(at)
    at.slider(key="predict_keep").set_value(50).run()
    assert int(words_of(at).split("pictures**; ")[1].split(" marked")[0]) >= none
    assert "python -m lps predict" in "".join(one.value for one in at.code)
    at = visit("predict", run=run.id, folder=str(pictures), picture="7", show="table")
    assert not at.exception and at.dataframe[-1].value["File"].tolist()[7] == "007.png"
    at = visit("predict", run=run.id, folder=str(pictures), picture="7")
    shown = "".join(element.proto.body for element in at.get("html"))
    assert "Most similar training images" in shown and shown.count("<img") == 1 + 5
    at = visit("predict", run=run.id, folder=str(pictures), picture="50")
    assert "050.png" in words_of(at) and at.session_state["predict page "] == 2, "a link opens the page of its picture"
    at.session_state["predict page "] = 1
    at.run()
    assert "050.png" not in words_of(at) and "Click a picture" in words_of(at), "it is on the other page"
    name = at.selectbox(key="picked_class").options[1].rpartition(" (")[0]
    at.selectbox(key="picked_class").set_value(name).run()
    assert at.query_params["class"] == name


def test_a_picture_too_far_from_all_classes_is_said_to_be_beyond_the_limit():
    values = {"confidence": [0.9, 0.9, 0.9], "distance": [0.526, 0.4, 0.526], "cluster": [0, 0, 1]}
    predicted = SimpleNamespace(names=lambda: ["cat"] * 3, rejected={1}, **values)
    said = [results.explain_prediction(predicted, row, 0.41) for row in range(3)]
    assert said == [
        "Confidence 90 % for cat, distance 0.526, limit 0.410: too far from all classes.",
        "Confidence 90 % for cat, distance 0.400.",
        "Confidence 90 % for cat, distance 0.526: you marked this cluster as not a class.",
    ]


def test_the_most_similar_pictures_say_whether_their_class_is_a_label_or_predicted(tmp_path, monkeypatch):
    run, shown = make_run(tmp_path, epochs=1), []
    split = points.read_partition(run).split
    ids = np.array([[split.labeled[0], split.unlabeled[0]]])
    values = {"confidence": [0.9], "distance": [0.1], "cluster": [0], "nearest": ids, "theirs": np.array([[0, 7]])}
    predicted = SimpleNamespace(
        names=lambda: ["0"], rejected=(), files=["a.png"], groups={0: "seen", 7: "novel"}, titles={0: "0", 7: "7"},
        **values,
    )  # fmt: skip
    monkeypatch.setattr(results.frames, "show_frames", lambda rows, size: shown.extend(rows))
    grey = results._make_thumbnails(str(tmp_path), None, ("a.png",))
    about = {"threshold": 0.4, "class_names": ["0"], "is_doubtful": [False], "thumbnails": lambda rows: grey}
    results._show_picture(SimpleNamespace(run=run, predicted=predicted, **about), 0)
    assert [frame.caption for frame in shown[-1][1]] == ["label: 0", "predicted: 7"]


def test_an_answer_that_few_of_the_most_similar_pictures_share_is_doubtful():
    near = np.array([[6, 1, 6, 3, 6], [6, 1, 6, 6, 6], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]])
    rows = {"cluster": np.array([6, 6, 6, 2]), "theirs": near, "distance": np.array([0.1, 0.1, 0.9, 0.1])}
    predicted = SimpleNamespace(is_none=lambda limit: np.array(rows["distance"] > limit), **rows)
    doubtful = PredictionResult.is_doubtful(predicted, 0.5).tolist()
    assert doubtful == [True, False, False, True], "one without a class has no answer to doubt"
    assert [results._write_caption("cat", 0.96, one) for one in doubtful[:2]] == ["cat\n96 %\ndoubtful", "cat\n96 %"]


def test_the_accuracy_of_a_class_is_that_on_its_withheld_labels(run, pictures):
    partition, predicted = points.read_partition(run), predictions.read_assignment(run, 2).predicted
    labels, rows = partition.targets[partition.split.validation], partition.split.validation_rows
    wrong = np.flatnonzero(predicted[rows] != labels)[0]  # a correction of a user is no prediction of the model
    steps = [{"do": "assign", "images": [int(partition.split.validation[wrong])], "to": int(labels[wrong])}]
    naming.record_steps(run, 2, steps)
    accuracy = training_data.accuracy_by_class(run, 2)
    for label in range(5):
        inside = labels == label
        assert accuracy[str(label)] == ((predicted[rows][inside] == label).mean(), inside.sum())
    at = visit("predict", run=run.id, folder=str(pictures))
    button(at, "Predict these pictures").click().run()
    shown = at.dataframe[0].value.set_index("Class")["Accuracy"]
    curve = prediction_files.read_predictions(prediction_job.prediction_path(run, pictures)).trade_off
    assert curve.right[-1] == pytest.approx((predicted[rows] == labels).mean())
    not_measured = set(shown.index[shown.isna()])
    assert not_measured - {"none of these"} and "not measured, because no label" in words_of(at)
    assert "withheld, not on these pictures" in words_of(at)
    assert all(shown[name].endswith(f" of {accuracy[name][1]}") for name in set(shown.index) - not_measured)
    assert "command line" in words_of(at) and words_of(at).count("The same on the command line") == 0


def test_the_clusters_that_you_named_are_listed_and_merged_ones_count_once(tmp_path):
    run = make_run(tmp_path, epochs=2)
    known = "Handwritten digits: 5 classes with labels (0, 1, 2, 3, 4)"
    assert training_data._describe_training_data(run) == f"{known} and 5 novel classes"
    steps = [{"do": "name", "id": 5, "name": "five"}, {"do": "name", "id": 7, "name": "seven"}]
    naming.record_steps(run, 2, [*steps, {"do": "merge", "id": 8, "into": 7}, {"do": "merge", "id": 9, "into": 2}])
    named = f"{known}, 2 clusters with your names (five, seven)"
    assert training_data._describe_training_data(run) == f"{named} and 1 cluster without a name"
    naming.record_steps(run, 2, [{"do": "reject", "id": 6}])
    assert training_data._describe_training_data(run) == named.replace("),", ") and")
    (run.folder / naming.FILE).write_text("{")
    assert training_data._describe_training_data(run) == f"{known} and 5 novel classes", "names that cannot be read"


@pytest.mark.slow
def test_an_older_run_offers_the_newest_one_that_continues_it(run, monkeypatch):
    newer, newest = (run.id.replace(run.id[-6:], ending) for ending in ("zzzzz1", "zzzzz2"))
    for run_id in (newer, newest):
        shutil.copytree(run.folder, run.root / run_id)
    monkeypatch.setattr(run_index, "parents_of", lambda rows: {newer: run.id, newest: newer})
    for run_id in (newer, run.id):
        at = visit("predict", run=run_id, folder="/pictures")
        assert "A newer run continues this one" in words_of(at)
        at.button(key="newer_run").click().run()
        assert at.query_params["run"] == newest and at.query_params["folder"] in ("/pictures", ["/pictures"])
        assert "A newer run" not in words_of(at)
    shutil.rmtree(run.root / newest / "checkpoints")
    at = visit("predict", run=run.id)
    at.button(key="newer_run").click().run()
    assert at.query_params["run"] == newer and "A newer run" not in words_of(at), "the newest one cannot predict"


def test_pictures_unlike_the_training_pictures_are_said_to_be_so(run, pictures):
    at = visit("predict", run=run.id, folder=str(pictures))
    known = "Handwritten digits: 5 classes with labels (0, 1, 2, 3, 4), 1 novel class and 4 novel classes without"
    assert f"Trained on {known}" in words_of(at)
    assert not (run.root / prediction_job.FOLDER).exists(), "a link alone begins nothing"
    button(at, "Predict these pictures").click().run()
    assert "**60 pictures**" in words_of(at) and not at.warning
    path = prediction_job.prediction_path(run, pictures)
    found = prediction_files.read_predictions(path)
    for num_far, is_warned in ((30, False), (31, True)):
        distance = np.where(np.arange(60) < num_far, 2, 0).astype(np.float32)
        prediction_files.write(path, replace(found, distance=distance))
        at = visit("predict", run=run.id, folder=str(pictures))
        warnings = [warning.value.replace("\\", "") for warning in at.warning]
        assert bool(warnings) == is_warned
    assert "31 of 60 pictures are unlike the images that this model was trained on (Handwritten digits)" in warnings[0]


@pytest.mark.slow
def test_the_command_for_dropped_pictures_names_no_hidden_folder(run):
    dropped = saved(uploaded_folders.home_of_new() / "inbox", digits(run)[:3])
    at = visit("predict", run=run.id, folder=str(dropped))
    (command,) = [code.value for code in at.code if "lps predict" in code.value]
    assert not at.exception and " FOLDER --to labels.csv" in command and ".new" not in command + words_of(at)


@pytest.mark.slow
def test_predicted_pictures_arrive_as_one_archive_sorted_by_class(run, pictures):
    at = visit("predict", run=run.id, folder=str(pictures))
    button(at, "Predict these pictures").click().run()
    at.slider(key="predict_keep").set_value(70).run()
    link = re.search(r'href="([^"]*predictions[^"]*[.]zip)"', "".join(one.proto.body for one in at.get("html")))[1]
    status, headers, body = ask(link)
    assert status == 200 and headers["content-disposition"].startswith('attachment; filename="predictions-')
    archive = zipfile.ZipFile(io.BytesIO(body))
    table, *places = archive.namelist()
    rows = list(csv.DictReader(archive.read(table).decode("utf-8-sig").splitlines()))
    none = int(words_of(at).split("pictures**; ")[1].split(" marked")[0])
    assert len(places) == 60 and sum(place.split("/")[1] == "none of these" for place in places) == none > 0
    for row, place in zip(rows, places, strict=True):
        assert place.split("/")[1:] == [row["name"] or "none of these", row["file"]]
        assert archive.read(place) == (pictures / row["file"]).read_bytes()
    (pictures / "000.png").unlink()
    status, _, body = ask(link)
    assert status == 404 and b"'000.png' no longer exists" in body


@pytest.mark.slow
def test_what_cannot_be_predicted_is_one_sentence_and_the_button_stays(run, tmp_path):
    (tmp_path / "home" / "empty").mkdir()
    at = visit("predict", run=run.id, folder=str(tmp_path / "home" / "empty"))
    button(at, "Predict these pictures").click().run()
    assert "has no pictures." in words_of(at) and button(at, "Predict these pictures")
    for folder, words in (
        ("/", "is not inside"),
        (str(tmp_path / "home"), "is your home folder"),
        ("", "gets a class, with the name"),
    ):
        at = visit("predict", run=run.id, folder=folder)
        assert not at.exception and words in words_of(at)


@pytest.mark.slow
def test_a_damaged_result_is_one_sentence(run, pictures):
    path = prediction_job.prediction_path(run, pictures)
    path.parent.mkdir()
    path.write_bytes(b"no arrays")
    at = visit("predict", run=run.id, folder=str(pictures))
    assert not at.exception and "is damaged" in words_of(at)
    button(at, "Predict again").click().run()
    assert "**60 pictures**" in words_of(at)


def test_a_run_without_weights_says_so(run, tmp_path):
    bare = make_run(tmp_path / "runs", epochs=1)
    assert "is without weights: it has no checkpoint" in words_of(visit("predict", run=bare.id))
    shutil.rmtree(run.checkpoints)
    (run.folder / "recorded.json").write_text("{}")
    assert "No run has weights yet" in words_of(visit("predict"))
    assert "is a recording, which has no weights" in words_of(visit("predict", run=run.id))


@pytest.mark.slow
def test_pictures_from_the_browser_are_kept_beside_the_others(run, monkeypatch):
    monkeypatch.setattr(uploads, "free_uploads", lambda files: None)
    data = io.BytesIO()
    Image.fromarray(digits(run)[3].squeeze()).save(data, "PNG")
    at = visit("predict", run=run.id)
    at.file_uploader(key="predict_files_0").upload("three.png", data.getvalue(), "image/png").run()
    assert not at.exception and "**1 picture**" in words_of(at)
    (kept,) = uploaded_folders.folders(uploaded_folders.home_of_new())
    assert f"{kept.name}, saved by LPS Studio" in words_of(at) and ".new" not in words_of(at)
    assert at.query_params["folder"] == str(kept) and uploaded_folders.folders() == []
    button(at, "Other pictures").click().run()
    assert button(at, kept.name) and "folder" not in at.query_params


def test_the_model_is_made_and_offered(run, monkeypatch):
    asked = []
    monkeypatch.setattr(model_folder, "write_zip", lambda own, path: (asked.append(own.id), path.write_bytes(b"x")))
    at = visit("predict", run=run.id)
    button(at, "Export the model").click().run()
    shown = "".join(element.proto.body for element in at.get("html"))
    assert not at.exception and asked == [run.id] and f"/model/{run.id}.zip" in shown
    assert f"export {run.id[-6:]} --to model" in at.code[-1].value
    monkeypatch.setattr(export_job.importlib.util, "find_spec", lambda name: None)
    (run.folder / "names.json").write_text('{"version": 1, "entries": []}')
    at = visit("predict", run=run.id)
    button(at, "Export the model").click().run()
    assert "pip install -r requirements-onnx.txt" in words_of(at)


def test_another_state_of_weights_names_or_files_is_another_result(run, pictures):
    found = [prediction_job.prediction_path(run, pictures)]
    (run.folder / "names.json").write_text('{"version": 1, "entries": []}')
    found.append(prediction_job.prediction_path(run, pictures))
    saved(pictures, digits(run)[60:61], name="more{}.png")
    found.append(prediction_job.prediction_path(run, pictures))
    next(run.checkpoints.glob("*.json")).unlink()
    found.append(prediction_job.prediction_path(run, pictures))
    assert len(set(found)) == 4


@pytest.mark.slow
def test_old_results_are_forgotten(run, pictures, monkeypatch):
    monkeypatch.setattr(prediction_job, "_MAX_RESULTS", 2)
    for number in range(4):
        saved(pictures, digits(run)[60:61], name=f"more{number}.png")
        prediction_job.start_prediction(run, pictures)
    kept = list((run.root / prediction_job.FOLDER).glob("*.npz"))
    assert len(kept) == 3 and prediction_job.prediction_path(run, pictures) in kept
    assert len(list((run.root / prediction_job.FOLDER).glob("*.log"))) == 3


def test_a_prediction_is_a_job_that_is_listed_and_can_be_cancelled(run, pictures, monkeypatch):
    path = prediction_job.prediction_path(run, pictures)
    monkeypatch.setattr(detached_jobs, "start_job", lambda result, command: None)
    prediction_job.start_prediction(run, pictures)
    lock = try_lock(path.with_suffix(".lock"))
    try:
        progress = background_jobs.progress_of(path)
        progress.report("model")
        assert background_jobs.list_jobs(run.root)[0].phase_in_words == "loading the model"
        progress.report("predict", 0.25, done="3 of 12 pictures")
        (job,) = background_jobs.list_jobs(run.root)
        assert (job.state, job.phase_in_words, job.share) == ("working", "predicting, 3 of 12 pictures", 0.25)
        assert job.title == f"Prediction of {pictures.name} by {titles.run_label(run)}"
        at = visit("queue")
        (bar,) = [bar.proto for bar in at.get("progress") if bar.proto.text.startswith(":small[Prediction of")]
        assert not at.exception and bar.value == 25 and "predicting" in bar.text
        background_jobs.cancel_job(job)
        with pytest.raises(background_jobs.Cancelled, match="the next one starts from the beginning"):
            progress.check()
    finally:
        os.close(lock)
    assert background_jobs.job_at(path, time.time()).state == "cancelled"
    prediction_job.delete_result(path)
    assert not list(path.parent.glob("*"))


@pytest.mark.slow
def test_a_run_on_vectors_asks_for_a_file_of_them_and_shows_titles(run, tmp_path):
    path = vector_files.npz(tmp_path / "home" / "birds.npz")
    own = {"dataset": "embeddings", "dataset.path": str(path), "device": "cpu", "threads": 1, "split.num_novel": 1}
    on_vectors = create_run(tmp_path / "runs", configure(own | {"epochs": 1, "batch_size": 32}))
    assert loop.RunTraining(on_vectors).carry_out() == 0
    at = visit("predict", run=on_vectors.id)
    assert not at.exception and "Each item gets a class" in words_of(at)
    button(at, "birds.npz").click().run()
    assert not at.exception and "90 items" in words_of(at)
    at = visit("predict", run=on_vectors.id, folder=str(path), picture="3")
    assert not at.exception and "bird-3" in words_of(at) and "Bird number 3 sings" in words_of(at)
