"""The page Add pictures: ways to bring them, what is there, the suggested number, and the start."""

import io
import json
import shutil
import zipfile

import numpy as np
import pytest

from lps.data import sources
from lps.data.class_shares import ADVISED
from lps.interop import uploaded_folders
from lps.machine import detached_jobs, devices
from lps.machine.devices import Device
from lps.scheduler import class_count, launcher
from lps.scheduler.class_count import ClassCount
from lps.settings.recipes import LOWER_THRESHOLDS
from lps.store.run_folders import list_runs
from lps.ui.own import page
from lps.ui.server import uploads
from tests import drawn_pictures, vector_files
from tests.sample_runs import make_run
from tests.visiting import visit, words_of


@pytest.fixture
def pictures(tmp_path):
    return drawn_pictures.make(tmp_path / "home" / "shapes", each=4, sorted_each=2)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """Runs, home and kept pictures in a folder of the test; no GPU, and nothing begins in the background."""
    (tmp_path / "home").mkdir(exist_ok=True)
    for variable, name in {"HOME": "home", "LPS_RUNS": "runs", "LPS_PICTURES": "kept", "LPS_CACHE": "cache"}.items():
        monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.setenv("LPS_DECISIONS", str(tmp_path / "decisions"))
    monkeypatch.delenv("LPS_FOLDERS", raising=False)
    monkeypatch.setattr(devices, "list_devices", lambda: [Device("cpu", "CPU")])
    monkeypatch.setattr(detached_jobs, "start_job", lambda result, command: begun.append(command[3]))
    begun = []
    return tmp_path / "runs", begun


def button(at, label: str):
    return next(one for one in at.button if one.label.replace("\\", "") == label)


def test_a_folder_of_this_machine_is_found_and_looked_into(root, pictures):
    at = visit("own")
    assert "Sort some of your pictures" in words_of(at) and not [one for one in at.error]
    assert button(at, "Use this folder").disabled and "This is your home folder" in words_of(at)
    button(at, "shapes").click().run()
    button(at, "Use this folder").click().run()
    assert str(pictures) in at.query_params["folder"]
    assert "4 labeled" in words_of(at) and "16 unlabeled" in words_of(at)
    shown = "".join(element.proto.body for element in at.get("html"))
    assert "disc: 2" in shown and "unlabeled: 16" in shown and shown.count("<img") == 2 + 2 + 8
    assert sorted(root[1]) == ["audit", "count-classes"]
    assert button(at, "Start").disabled and "how many novel classes to look for." in words_of(at), "no suggestion yet"
    button(at, "Other pictures").click().run()
    assert "folder" not in at.query_params and "Sort some of your pictures" in words_of(at)


def test_a_second_run_of_a_folder_gets_a_number(root):
    runs, _ = root
    for name in ("shapes", "shapes (2)"):
        make_run(runs, epochs=1, name=name)
    assert page._distinct_name("shapes") == "shapes (3)" and page._distinct_name("other") == "other"


@pytest.mark.parametrize("typed", [None, 4])
def test_a_suggestion_counts_until_a_number_is_typed_and_one_click_starts(root, pictures, monkeypatch, typed):
    runs, _ = root
    monkeypatch.setattr(launcher, "launch", lambda run, on=None: None)
    monkeypatch.setattr("lps.scheduler.start_check.check_start_in_subprocess", lambda config: None)
    config = page._config_for_checks(pictures)
    count = ClassCount((3, 4, 5, 6), (0.7, 0.99, 0.98, 0.6), (0.1,) * 4, 0.02, 4, 2)
    class_count.write_class_count(class_count.class_count_path(config, runs), count)
    at = visit("own", folder=str(pictures))
    field = at.number_input(key="own_novel")
    assert field.value is None and "3" in field.placeholder
    assert "Look for **3 novel classes** among 16 pictures" in words_of(at)
    assert "% of the labels are withheld from training to measure accuracy" in words_of(at)
    assert "**2 novel classes fit best, beside the 2 classes with labels; 3 leaves one to spare.**" in words_of(at)
    assert class_count.ADVICE in words_of(at)
    assert field.help == "1 to 4 novel classes are plausible (3 to 6 classes in all)."
    assert not at.expander(key="checks").proto.expanded
    assert "ImageNet's labels" in words_of(at)
    ended = []
    monkeypatch.setattr(detached_jobs, "cancel_job", ended.append)
    if typed:
        field.set_value(typed).run()
        assert "Look for **4 novel classes** among 16 pictures" in words_of(at)
    button(at, "Start").click().run()
    assert not at.exception
    assert ended == page._result_paths(page._config_for_checks(pictures)) and len(ended) == 2
    (run,) = list_runs(runs)
    config = run.config()
    assert (config.dataset_path, config.split_num_novel, config.features) == (str(pictures), typed or 3, "stored")
    assert config.network_name == "efficientnet_lite0" and run.meta()["name"] == "shapes"
    assert config.dataset_image_size == config.network_image_size


@pytest.mark.slow
@pytest.mark.parametrize("is_taken", [True, False])
def test_unequal_folders_train_with_the_advised_prior_unless_a_person_says_no(root, pictures, monkeypatch, is_taken):
    runs, _ = root
    monkeypatch.setattr(launcher, "launch", lambda run, on=None: None)
    monkeypatch.setattr("lps.scheduler.start_check.check_start_in_subprocess", lambda config: None)
    at = visit("own", folder=str(pictures))
    assert "own_prior" not in {toggle.key for toggle in at.toggle}, "the folders are alike"
    large = min(folder for folder in pictures.iterdir() if folder.name != "unlabeled")
    first = min(large.iterdir())
    for number in range(60):
        shutil.copy(first, large / f"more-{number}.png")
    at = visit("own", folder=str(pictures))
    at.toggle(key="own_prior").set_value(is_taken).run()
    at.number_input(key="own_novel").set_value(2).run()
    button(at, "Start").click().run()
    assert not at.exception
    assert list_runs(runs)[0].config().prior == (ADVISED if is_taken else "uniform")


def test_a_search_under_way_says_that_nobody_has_to_wait_for_it(root, pictures, monkeypatch):
    monkeypatch.setattr(page.detached_jobs, "job_state", lambda path: detached_jobs.JobState("working"))
    monkeypatch.setattr(page.background_work, "wait_for_work", lambda path, text: page.st.caption(text))
    assert "enter a number and start now: Start ends the search" in words_of(visit("own", folder=str(pictures)))


def test_a_link_alone_begins_nothing(root, pictures):
    at = visit("own", folder=str(pictures))
    assert root[1] == [] and not at.exception
    button(at, "Suggest a number").click().run()
    assert sorted(root[1]) == ["audit", "count-classes"]


@pytest.mark.parametrize("where, words", [
    ("/", "is not inside"), ("{home}", "is your home folder"), ("{home}/none", "is not a folder"),
    ("{home}/empty", "has no class"),
    ("{home}/shapes/disc", "has no class"), ("", ""),
])  # fmt: skip
def test_what_cannot_be_used_is_one_sentence_and_the_ways_stay(root, pictures, where, words):
    (pictures.parent / "empty").mkdir()
    at = visit("own", folder=where.format(home=pictures.parent))
    assert not at.exception and words in words_of(at) and "Sort some of your pictures" in words_of(at)


def test_without_unlabeled_pictures_nobody_asks_for_a_number(pictures):
    for picture in (pictures / "unlabeled").iterdir():
        picture.unlink()
    (pictures / "unlabeled").rmdir()
    at = visit("own", folder=str(pictures))
    assert not at.exception and not at.number_input and "a demonstration" in words_of(at)
    assert "rename it to **unlabeled**" in words_of(at)  # a folder of unsorted pictures is taken for a class
    assert not button(at, "Start").disabled


def test_an_archive_from_the_browser_is_kept_and_looked_into(root, tmp_path, pictures, monkeypatch):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for picture in sorted(pictures.rglob("*.png")):
            archive.write(picture, picture.relative_to(pictures.parent))
        archive.writestr("shapes/notes.txt", "x")
    forgotten = []
    monkeypatch.setattr(uploads, "free_uploads", lambda files: forgotten.extend(file.name for file in files))
    at = visit("own")
    at.file_uploader(key="own_zip_0").upload("my shapes.zip", data.getvalue(), "application/zip").run()
    assert str(tmp_path / "kept" / "my_shapes") in at.query_params["folder"]
    assert "4 labeled" in words_of(at) and sorted(root[1]) == ["audit", "count-classes"]
    assert not at.file_uploader and forgotten == ["my shapes.zip"]
    kept, own = (
        sources.load("folder", str(folder)) for folder in (uploaded_folders.home_folder() / "my_shapes", pictures)
    )
    assert np.array_equal(kept.pixels, own.pixels)
    button(at, "Other pictures").click().run()
    assert button(at, "my_shapes") and "Earlier uploads" in words_of(at)
    at.file_uploader(key="own_zip_1").upload("no.zip", b"PK nothing", "application/zip").run()
    assert not at.exception and "damaged or not an archive" in words_of(at)


def test_an_earlier_upload_can_be_deleted_and_says_which_runs_use_it(root, tmp_path):
    kept = drawn_pictures.make(tmp_path / "kept" / "shapes", each=4, sorted_each=2)
    make_run(root[0], epochs=1)  # of another data set
    launched = make_run(root[0], epochs=1)
    config = json.loads((launched.folder / "config.json").read_text())
    (launched.folder / "config.json").write_text(json.dumps(config | {"dataset": "folder", "dataset.path": str(kept)}))
    at = visit("own")
    button(at, "Delete shapes").click().run()
    assert "1 run uses it" in words_of(at)
    at.button(key="delete_upload").click()  # the whole page is drawn, and the dialog has to be asked for again
    button(at, "Delete shapes").click().run()
    assert not at.exception and not kept.exists() and "Earlier uploads" not in words_of(at)


def test_a_folder_without_classes_leads_to_predict(tmp_path):
    kept = tmp_path / "kept" / "new"
    kept.mkdir(parents=True)
    (kept / "1.png").write_bytes(b"x")
    at = visit("own", folder=str(kept))
    assert "'new'" not in words_of(at) and "new has no classes" in words_of(at).replace("\\", "")
    link = next(link for link in at.get("page_link") if link.proto.label == "Sort these pictures with a trained model")
    assert "new" in link.proto.query_string


def test_a_file_of_vectors_is_found_previewed_and_ready_to_start(root, tmp_path):
    path = vector_files.npz(tmp_path / "home" / "birds.npz")
    at = visit("own")
    button(at, "birds.npz").click().run()
    assert str(path) in at.query_params["folder"] and not at.exception
    assert "30 labeled" in words_of(at) and "60 unlabeled" in words_of(at)
    shown = "".join(element.proto.body for element in at.get("html"))
    assert "owl: 15" in shown and "unlabeled: 60" in shown and shown.count("<img") == 8 + 8 + 8
    assert sorted(root[1]) == ["audit", "count-classes"]
    at.number_input(key="own_novel").set_value(1).run()
    assert "1 novel class" in words_of(at) and "among 60 items" in words_of(at)
    draft = page.draft_for_folder(path, 1)
    assert draft.dataset == "embeddings" and draft.effort == "full"
    many = page.draft_for_folder(path, 40, num_classes=60)
    assert {key: float(many.text(key)) for key in LOWER_THRESHOLDS} == LOWER_THRESHOLDS != draft.texts
    assert float(draft.text("threshold_seen")) == 0.95


def test_a_wrong_file_of_vectors_gets_one_sentence(root, tmp_path):
    path = vector_files.npz(tmp_path / "home" / "birds.npz", ids=["a"] * 90)
    at = visit("own", folder=str(path))
    assert not at.exception and "two items have the id" in words_of(at)


def test_uploaded_vectors_are_kept_under_a_free_name(root, tmp_path):
    data = vector_files.npz(tmp_path / "birds.npz").read_bytes()
    for name in ("birds.npz", "birds-2.npz"):
        upload = io.BytesIO(data)
        upload.name = "../birds.npz"
        kept = uploaded_folders.keep_vectors(upload)
        assert kept == uploaded_folders.home_folder() / name and kept.read_bytes() == data
    assert [path.name for path in uploaded_folders.folders()] == ["birds-2.npz", "birds.npz"]
    assert uploaded_folders.folder(str(kept)) == kept
