"""The Clusters page in every state, through app.py, without a browser; its table, sheet and charts on their own."""

import io
import json
import re
import shutil
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from lps.analysis import labels, mixed_clusters, naming
from lps.analysis.clusters import FLAGS, Moment
from lps.charts import confusion, line_charts
from lps.charts.palette import DARK, LIGHT
from lps.data import sources
from lps.data.classes import Classes
from lps.data.split import Split
from lps.inference import continued_training
from lps.settings.config import configure
from lps.store import snapshots
from lps.store.run_folders import create_run, recorded_runs
from lps.store.runs import Run
from lps.store.snapshots import Snapshot, write_snapshot, write_split
from lps.ui.clusters import compare_clusters, image_history, page, split_cluster, training_on
from lps.ui.pictures import gallery, points, predictions
from lps.ui.shared import data_table, select
from tests.sample_runs import ALIVE, held, make_damaged, make_one_of_each, make_run
from tests.visiting import words_of

PAGE = "clusters"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs"), epochs=6, lucky=False)


@pytest.fixture
def run(stored, tmp_path):
    """A finished run of its own, to name clusters of."""
    return Run(shutil.copytree(stored.folder, tmp_path / stored.id))


def test_a_run_on_own_data_comes_before_a_newer_one_on_digits(tmp_path, open_page):
    own = make_run(tmp_path, settings={"dataset.path": str(tmp_path / "pictures")})
    newest = make_run(tmp_path)
    assert open_page(tmp_path).selectbox("picked_run").value == own.id
    assert open_page(tmp_path, run=newest.id).selectbox("picked_run").value == newest.id


def all_heads(app) -> list[dict]:
    """The first line of the data of every component that draws pictures or a chart."""
    return [json.loads(e.proto.bytes.partition(b"\n")[0]) for e in app.get("bidi_component") if e.proto.bytes]


def heads(app) -> dict[str, dict]:
    """These by name: charts and the sheet."""
    return {head.get("name", "sheet"): head for head in all_heads(app)}


def shown(app) -> list[int]:
    return [tile["id"] for tile in heads(app)["sheet"]["tiles"]]


def tile_words(app, image: int) -> str:
    return next(tile["words"] for tile in heads(app)["sheet"]["tiles"] if tile["id"] == image)


def table(app) -> pd.DataFrame:
    return app.dataframe[0].value.set_index("Cluster")


def said(run: Run, epoch: int = 6) -> naming.Naming:
    return naming.naming_of_epoch(naming.read_entries(run), epoch)


def make_unknown(root, count: int = 40, total: int = 4) -> Run:
    """A run on data whose unlabeled images are of unknown class, but for two withheld ones; no pictures to be had."""
    run = create_run(root, configure({}))
    unlabeled = np.arange(4, count)
    order, classes = np.arange(total), Classes(2, total)
    split = Split(
        np.arange(4), unlabeled, classes, order, ("cat", "dog", "new 1", "new 2"), 0, validation=np.array([4, 5])
    )
    truth = np.full(count, -1)
    truth[:6] = [0, 1, 0, 1, 0, 1]
    write_split(run.folder, split, truth)
    run.snapshots.mkdir()
    predicted = (unlabeled % 3).astype(np.int16)
    features = np.eye(3)[predicted].astype(np.float16)
    snapshot = Snapshot(predicted, np.full(len(unlabeled), 0.5, np.float16), features, unlabeled.astype(np.int32))
    write_snapshot(run.snapshots, 1, snapshot)
    return run


def test_no_runs_and_a_run_without_predictions(open_page, tmp_path):
    for text in ("No run has predictions yet", "is waiting to start"):
        app = open_page(tmp_path / "runs")
        assert text in words_of(app) and not app.dataframe
        make_run(tmp_path / "runs", "queued")


@pytest.mark.slow
def test_every_state_at_once(open_page, tmp_path):
    runs = make_one_of_each(tmp_path)
    with held(*(runs[name] for name in ALIVE)):
        app = open_page(tmp_path)
        shown = set(runs) - {"queued", "starting", "pretraining", "unreadable", "foreign"}
        labels = select.run_labels([*(runs[name] for name in shown), *recorded_runs()])
        assert set(app.selectbox(key="picked_run").options) == set(labels.values())
        for name in ("running", "failed", "crashed", "stopped"):
            app = open_page(tmp_path, run=runs[name].id)
            assert len(app.dataframe) == 1 and app.select_slider(key="clusters_epoch").value == 8, name


def test_a_damaged_snapshot_is_named(open_page, tmp_path):
    run = make_damaged(tmp_path)
    app = open_page(tmp_path, run=run.id, epoch=7)
    assert "epoch-0007.npz: is damaged" in words_of(app) and not app.dataframe
    app = open_page(tmp_path, run=run.id, epoch=8)
    assert len(table(app)) == 10, "the damaged epoch before is passed over"


def test_an_epoch_that_nobody_chose_stays_while_the_run_goes_on(open_page, run):
    app = open_page(run.root)
    assert app.select_slider(key="clusters_epoch").value == 6
    shutil.copy(run.snapshots / "epoch-0006.npz", run.snapshots / "epoch-0007.npz")
    app.run()
    assert app.select_slider(key="clusters_epoch").value == 6 and not app.exception
    assert open_page(run.root).select_slider(key="clusters_epoch").value == 7


def test_without_truth_and_pictures(open_page, tmp_path):
    make_unknown(tmp_path)
    app = open_page(tmp_path)
    assert "36 unlabeled images (34 without a label, 2 with a withheld label) in 4 clusters" in words_of(app)
    assert "true classes unknown" in words_of(app)
    assert "dataset: has changed since the run" in words_of(app) and "shown by their numbers" in words_of(app)
    assert table(app)["Unlabeled"].tolist() == [12, 12, 12, 0] and "Class" not in table(app)
    assert table(app)["Known labels"].fillna("–").tolist() == ["–", "1 cat", "1 dog", "–"]
    assert [list(flags) for flags in table(app)["Flags"]] == [[], [], [], []]
    assert "No flag does not mean pure" in words_of(app)
    assert len(shown(app)) == 12 and heads(app)["sheet"]["mime"] == ""
    assert "6 with your label" in words_of(app) and "The labels include 2 withheld ones" in words_of(app)
    app = open_page(tmp_path, cluster=1, order="wrong")
    assert shown(app) == [4], "id 1 stands for the seen class dog, and image 4 is known to be a cat"
    assert tile_words(app, 4).endswith("label: cat") and "known label, written below" in words_of(app)
    app = open_page(tmp_path, cluster=2)
    assert tile_words(app, 5).endswith("label: dog") and "magenta" not in words_of(app), "cluster 2 has no class"
    assert "Misplaced" not in app.segmented_control(key="picked_order").options
    app = open_page(tmp_path, image=8, overview="confusion")
    assert "True class **unknown**" in words_of(app) and "confusion" in heads(app)


def test_a_hundred_classes_and_thousands_of_images(open_page, tmp_path):
    run = create_run(tmp_path, configure({}))
    unlabeled, order = np.arange(50, 12_000), np.arange(100)
    truth = np.arange(12_000) % 100
    split = Split(np.arange(50), unlabeled, Classes(50, 100), order, tuple(f"class {i}" for i in order), 0)
    write_split(run.folder, split, truth)
    run.snapshots.mkdir()
    predicted = truth[unlabeled].astype(np.int16)
    predicted[:6000] = 60
    sample = unlabeled[::10]
    features = np.random.default_rng(0).normal(size=(len(sample), 16)).astype(np.float16)
    ones = np.ones(len(unlabeled), np.float16)
    write_snapshot(run.snapshots, 1, Snapshot(predicted, ones, features, sample.astype(np.int32)))
    app = open_page(tmp_path, cluster=60)
    assert len(table(app)) == 100 and table(app).loc[60, "Unlabeled"] == (predicted == 60).sum()
    assert len(shown(app)) == page.PAGE and f"of {(predicted == 60).sum():,} unlabeled images" in words_of(app)
    app = open_page(tmp_path, cluster=60, overview="confusion")
    assert heads(app)["confusion"]["height"] < 900


def test_the_table_says_what_the_split_says(open_page, stored):
    app = open_page(stored.root, epoch=6)
    split, truth = snapshots.read_split(stored.folder)
    predicted = snapshots.read_snapshot(stored.snapshots, 6).predicted
    found = table(app)
    assert found["Unlabeled"].tolist() == np.bincount(predicted, minlength=10).tolist()
    assert found["Nearest"].str.fullmatch(r"\d").all()
    for cluster in range(10):
        inside = truth[split.unlabeled][predicted == cluster]
        assert found.loc[cluster, "Purity"] == pytest.approx(100 * np.bincount(inside).max() / len(inside), abs=0.06)
    assert found["Name"].fillna("–").tolist() == [*map(str, range(5)), *["–"] * 5]
    assert "Known labels" not in found and found["Top class"].tolist()[:5] == list(map(str, range(5)))


def let_look_mixed(monkeypatch, cluster: int) -> None:
    """Flag one cluster, also of runs that train their backbone."""
    monkeypatch.setattr(predictions.clusters, "read_first_features", lambda *_: (np.zeros((1, 2)), np.zeros(1, int)))
    monkeypatch.setattr(mixed_clusters, "find_mixed", lambda features, here, sure: np.arange(len(sure)) == cluster)


def make_mixed(run: Run) -> None:
    """Let cluster 7 of epoch 6 hold half of class 1 and fewer images of class 9, and cluster 8 most of 8 and 9."""
    split, truth = snapshots.read_split(run.folder)
    predicted = truth[split.unlabeled].copy()
    ones, nines, sevens = (np.flatnonzero(predicted == i) for i in (1, 9, 7))
    predicted[nines] = 8
    predicted[sevens] = 6
    predicted[[*ones[::2], *nines[:30], *sevens[:12]]] = 7
    snapshot = snapshots.read_snapshot(run.snapshots, 6)
    write_snapshot(run.snapshots, 6, replace(snapshot, predicted=predicted.astype(np.int16)))


def test_a_matched_class_that_is_not_the_most_frequent_one_is_told_from_it(open_page, run):
    make_mixed(run)
    split, truth = snapshots.read_split(run.folder)
    inside = truth[split.unlabeled][snapshots.read_snapshot(run.snapshots, 6).predicted == 7]
    ones, nines = (f"{100 * (inside == i).mean():.0f} %" for i in (1, 9))
    app = open_page(run.root, cluster=7)
    row = table(app).loc[7]
    assert (row["Matched class"], row["Top class"], row["Second class"]) == (f"9, {nines}", "1", f"9, {nines}")
    assert row["Purity"] == pytest.approx(100 * (inside == 1).mean(), abs=0.06)
    assert (
        f"Matched class: **9**, {nines} of the cluster's images. Most frequent class: **1**, {ones} of the cluster's "
        "images." in words_of(app)
    )
    assert "Most frequent class" not in words_of(open_page(run.root, cluster=8))
    assert "true class, written below it, is not 9." in words_of(app)


def test_a_cluster_that_no_class_is_left_for_says_so(stored):
    here = predictions.read_view(stored, 6)
    left_over = replace(here.clusters[7], matched=-1, matched_share=np.nan)
    clusters = [left_over]
    columns = page.cluster_columns(replace(here, clusters=clusters))
    assert data_table.table_data(columns, clusters).loc[0, "Matched class"] == "none"
    said = page.describe_classes(here, left_over)
    assert said.startswith("No class is matched") and "**7**, 100 %" in said


def look_of(heading, run):
    """How a column of the table looks."""
    return next(c.config for c in page.cluster_columns(predictions.read_view(run, 6)) if c.heading == heading)


def test_flags_are_explained_where_they_are_shown(open_page, run):
    make_mixed(run)
    app = open_page(run.root, cluster=7)
    assert "**Part of a class**" in words_of(app)
    assert "**Mixes classes**: at least two classes have a third" in words_of(open_page(run.root, cluster=8))
    assert list(table(app).loc[7, "Flags"])[0] == "split", "what is shown has other words; the keys stay"
    column = look_of("Flags", run)
    texts = [flag.text for flag in FLAGS.values()]
    assert [option["label"] for option in column["type_config"]["options"]] == [*texts, "not judged", "not judged"]
    assert all(flag.meaning in column["help"] for flag in FLAGS.values())
    assert "of one class below and press Find similar" in column["help"] and "on Clusters" not in column["help"]


def test_what_the_user_split_or_merged_no_longer_looks_mixed(open_page, run, monkeypatch):
    let_look_mixed(monkeypatch, 7)
    assert predictions.read_view(run, 6).clusters[7].flags == ("mixed",)
    assert "**Looks mixed**" in words_of(open_page(run.root, cluster=7))
    naming.record_steps(run, 6, [{"do": "reject", "id": 7}])
    assert "**Looks mixed**" not in words_of(open_page(run.root, cluster=7)), "its advice was followed"
    naming.undo_last(run, 6)
    naming.record_steps(run, 6, [{"do": "split", "new": 10, "images": shown_of(run, 6, 7)[:3]}])
    parts = [predictions.read_view(run, 6).clusters[i] for i in (7, 10)]
    assert not any("mixed" in part.flags for part in parts) and all(np.isnan(part.stability) for part in parts)
    naming.undo_last(run, 6)
    assert predictions.read_view(run, 6).clusters[7].flags == ("mixed",)
    naming.record_steps(run, 6, [{"do": "merge", "id": 8, "into": 7}])
    assert not any("mixed" in cluster.flags for cluster in predictions.read_view(run, 6).clusters)


def test_what_is_left_of_a_class_after_training_again_gets_no_flag(open_page, run, monkeypatch):
    let_look_mixed(monkeypatch, 2)
    split, targets = snapshots.read_split(run.folder)
    naming.record_steps(run, 6, [{"do": "assign", "images": shown_of(run, 6, 2)[3:], "to": 3}])
    assert predictions.read_view(run, 6).clusters[2].flags == ("mixed",), "its labels were there from the beginning"
    labeled = split.labeled[targets[split.labeled] == 2]
    for confirmed in (labeled[:3], labeled):
        assert predictions.read_view(run, 6).clusters[2].flags == ("mixed",), "a few labels were added to it"
        (run.folder / "split.npz").unlink()
        write_split(run.folder, replace(split, confirmed=confirmed), targets)
        predictions._describe_clusters.clear()
    app = open_page(run.root, cluster=2)
    assert table(app).loc[2, ["Unlabeled", "Labeled"]].tolist() == [3, len(labeled)]
    assert list(table(app).loc[2, "Flags"]) == ["rest"] and "1 is not judged" in words_of(app)
    assert "**Not judged**: most pictures of this cluster have a label since you trained again" in words_of(app)
    assert np.isnan(table(app).loc[7, "Labeled"]), "no class"


def test_wrongly_assigned_images_have_a_frame_that_is_explained(open_page, stored):
    app, truth = open_page(stored.root, cluster=2, order="wrong"), snapshots.read_split(stored.folder)[1]
    assert "does not mean pure" not in words_of(app), "the table has the purity"
    assert shown(app) and all(truth[image] != 2 for image in shown(app)) and "magenta frame" in words_of(app)
    assert all(tile["wrong"] for tile in heads(app)["sheet"]["tiles"])
    app = open_page(stored.root, cluster=7)
    assert not any(tile["wrong"] for tile in heads(app)["sheet"]["tiles"]) and "magenta" not in words_of(app)


def test_a_link_restores_everything(open_page, stored):
    app = open_page(stored.root, run=stored.id, epoch=3, cluster=8, order="least", image=shown_of(stored, 3, 8)[0])
    assert app.select_slider(key="clusters_epoch").value == 3 and "Cluster 8" in words_of(app)
    confidence = [float(tile["words"].partition(" %")[0]) for tile in heads(app)["sheet"]["tiles"]]
    assert confidence == sorted(confidence) and "biography" in heads(app)
    assert app.session_state["clusters_table"]["selection"]["rows"] == [8]


def shown_of(run, epoch, cluster) -> list[int]:
    split = snapshots.read_split(run.folder)[0]
    return split.unlabeled[snapshots.read_snapshot(run.snapshots, epoch).predicted == cluster].tolist()


@pytest.mark.parametrize(
    "query",
    [{"epoch": "x", "order": "?", "cluster": 99, "truth": 99, "image": 10**8}, {"cluster": "-1", "image": 0}],
)
def test_strange_links_mean_the_usual(open_page, stored, query):
    app = open_page(stored.root, **query)
    assert len(table(app)) == 10 and shown(app)


def test_a_click_on_any_cell_of_a_row_opens_its_cluster(monkeypatch):
    opened = []
    monkeypatch.setattr(page, "_open_cluster", opened.append)
    for selection in ({"rows": [0], "cells": [(2, "Name")]}, {"rows": [1], "cells": []}, {"rows": [], "cells": []}):
        monkeypatch.setattr(page.st, "session_state", {"clusters_table": {"selection": selection}})
        page._open_row([5, 6, 7])
    assert opened == [7, 6]


def test_a_cell_of_the_confusion_matrix_shows_its_images(open_page, stored):
    app = open_page(stored.root, cluster=1, truth=9, overview="confusion")
    split, truth = snapshots.read_split(stored.folder)
    predicted = snapshots.read_snapshot(stored.snapshots, 6).predicted
    cell = split.unlabeled[(predicted == 1) & (truth[split.unlabeled] == 9)]
    assert sorted(shown(app)) == cell.tolist() and len(cell) > 0
    assert "Only true class 9" in [button.label for button in app.button]
    next(button for button in app.button if button.label == "Only true class 9").click().run()
    assert "truth" not in app.query_params and len(shown(app)) > len(cell)


def test_a_cell_of_the_confusion_matrix_is_chosen_with_the_keyboard(open_page, stored):
    app = open_page(stored.root, cluster=1, overview="confusion")
    whole = shown(app)
    cluster, true_class = app.selectbox(key="confusion_row"), app.selectbox(key="confusion_column")
    assert cluster.value == 1 and true_class.value is None and len(cluster.options) == len(true_class.options) == 10
    true_class.set_value(9).run()
    assert set(app.query_params["cluster"]) == {"1"} and set(app.query_params["truth"]) == {"9"}
    assert shown(app) == shown(open_page(stored.root, cluster=1, truth=9, overview="confusion")) != whole
    app.selectbox(key="confusion_row").set_value(2).run()
    assert "Cluster 2" in words_of(app) and set(app.query_params["truth"]) == {"9"}
    app.query_params["cluster"] = "3"
    del app.query_params["truth"]
    app.run()
    assert app.selectbox(key="confusion_row").value == 3 and app.selectbox(key="confusion_column").value is None


def test_a_cluster_is_named_and_the_name_stays(open_page, run):
    app = open_page(run.root, cluster=7)
    assert app.text_input[0].label == "Name"
    app.text_input[0].set_value("  seven <b>*s* ").run()
    assert app.text_input[0].label == "Name (saved)"
    here = predictions.read_view(run, 6)
    assert page._nearest_cluster(here, replace(here.clusters[0], nearest=7)) == "seven <b>*s*"
    assert said(run).names == {7: "seven <b>*s*"} and not app.exception
    assert table(app).loc[7, "Name"] == "seven <b>*s*" and "Cluster 7 · seven <b>*s*" in words_of(app)
    assert open_page(run.root, cluster=7).text_input[0].value == "seven <b>*s*"
    app.text_input[0].set_value("").run()
    assert said(run).names == {} and app.text_input[0].value == "" and not app.exception
    assert pd.isna(table(app).loc[7, "Name"]) and len(naming.read_entries(run)) == 2
    app.text_input[0].set_value(" ").run()
    assert len(naming.read_entries(run)) == 2, "what has no name has none to lose"
    app.button(key="undo").click().run()
    assert said(run).names == {7: "seven <b>*s*"} and app.text_input[0].value == "seven <b>*s*"
    app.button(key="undo").click().run()
    assert said(run).is_empty and app.text_input[0].value == "" and app.text_input[0].label == "Name"


def test_any_earlier_state_is_restored(open_page, run):
    naming.record_steps(run, 6, [{"do": "name", "id": 7, "name": "sevens"}])
    naming.record_steps(run, 6, [{"do": "name", "id": 8, "name": "eights"}])
    app = open_page(run.root, cluster=7)
    states = app.selectbox(key="state 2")
    assert states.value == 2 and states.options[0].startswith("Current: 2") and len(states.options) == 3
    assert app.button(key="restore").disabled, "it is the current state"
    states.set_value(1).run()
    app.button(key="restore").click().run()
    assert said(run).names == {7: "sevens"} and not app.exception and not app.error
    assert "State 1 restored." in words_of(app) and len(app.selectbox(key="state 3").options) == 4
    naming.record_steps(run, 6, [{"do": "name", "id": 9, "name": "nines"}])  # in another window
    app.button(key="undo").click().run()
    assert "cluster 9 named nines" in app.error[0].value and said(run).names == {7: "sevens", 9: "nines"}
    app.button(key="undo").click().run()
    assert said(run).names == {7: "sevens"} and not app.error
    assert "Undone: cluster 9 named nines." in words_of(app)


def test_what_is_said_against_single_pictures_is_shown(run):
    naming.record_steps(run, 6, [{"do": "wrong", "images": shown_of(run, 6, 7)[:1], "id": 7}])
    naming.record_steps(run, 6, [{"do": "nothing", "images": shown_of(run, 6, 7)[1:2]}])
    here = predictions.read_view(run, 6)
    about = here.clusters[7]
    rows = np.flatnonzero(here.assigned == 7)[:3]
    words = [tile.words.split("\n")[-1] for tile in page._make_tiles(here, about, rows)]
    assert words[:2] == ["wrong cluster", "none of these"] and words[2].endswith("%")


def test_training_on_is_offered_once_a_cluster_has_a_name(open_page, run, monkeypatch):
    let_look_mixed(monkeypatch, 8)
    app = open_page(run.root, cluster=7)
    assert app.button(key="train_on").disabled and "Name a cluster or assign a picture first" in words_of(app)
    naming.record_steps(run, 6, [{"do": "split", "images": shown_of(run, 6, 7)[:1], "new": 10}])
    app = open_page(run.root, cluster=7)
    assert app.button(key="train_on").disabled, "a split gives no label"
    naming.undo_last(run, 6)
    naming.record_steps(run, 6, [{"do": "assign", "images": shown_of(run, 6, 7)[:2], "to": 2}])
    app = open_page(run.root, cluster=7)
    assert not app.button(key="train_on").disabled
    assert "0 clusters with a name, 5 without, 2 assigned pictures" in words_of(app)
    naming.record_steps(run, 6, [{"do": "name", "id": 7, "name": "sevens"}])
    app = open_page(run.root, cluster=7)
    assert not app.button(key="train_on").disabled
    app.button(key="train_on").click().run()
    assert not app.exception and "start from the beginning instead" in words_of(app)
    app.button(key="train_on").click()
    app.session_state["train_on_start"] = "afresh"
    app.run()
    assert "1 name: 1 new seen class, more labels for 1 class" in words_of(app)
    assert "3 clusters without a name stay novel, 1 cluster is not a class" in words_of(app), "the one that looks mixed"
    by_name = next(one.value for one in app.dataframe if "Get the label" in one.value)
    assert by_name["Name"].tolist() == ["sevens", "2"] and 0 < by_name["Get the label"][0] <= by_name["Pictures"][0]
    assert by_name["Get the label"][1] == 2, "pictures that were assigned to a seen class"
    assert f"{by_name['Get the label'].sum()} new labeled pictures" in words_of(app)
    assert not [one for one in app.warning if "sevens looks mixed" in one.value]
    assert not app.exception and app.code[-1].value.endswith("--dissolve 8")
    assert "The same on the command line" in [one.label for one in app.expander]
    app = open_page(run.root, cluster=7, **{"continue": "true"})
    assert not app.exception and "continue" not in app.query_params and "train_on_labels" in app.session_state
    app.query_params["continue"] = "true"  # as when the browser goes back to the link
    assert "The same on the command line" not in [one.label for one in app.run().expander], "the dialog stays closed"


def test_training_on_is_the_main_button_only_with_names_that_no_run_was_trained_with(open_page, run, monkeypatch):
    monkeypatch.setattr(continued_training.submit.launcher, "launch", lambda run, *rest, **wish: run.state())
    naming.record_steps(run, 6, [{"do": "name", "id": 7, "name": "sevens"}])
    planned = continued_training.plan_continued_training(run, rule="all", from_weights=False)
    child = continued_training.start_continued_training(planned, name="with sevens")
    app = open_page(run.root, run=run.id, cluster=7)
    (link,) = [link.proto for link in app.get("page_link") if link.proto.label == "Continued by: with sevens"]
    assert link.page == "live" and link.query_string == f"run={child.id}"
    assert app.button(key="train_on").proto.type == "secondary" and not app.button(key="train_on").disabled
    monkeypatch.setattr(naming, "time", SimpleNamespace(time=lambda: time.time() + 2))
    naming.record_steps(run, 6, [{"do": "name", "id": 8, "name": "eights"}])
    assert open_page(run.root, run=run.id, cluster=7).button(key="train_on").proto.type == "primary"
    naming.undo_last(run, 6)
    assert open_page(run.root, run=run.id, cluster=7).button(key="train_on").proto.type == "secondary"


def test_a_name_in_another_case_than_its_seen_class_has_its_pictures(run, monkeypatch):
    cells = []
    monkeypatch.setattr(training_on.data_table, "show_data_table", lambda columns, *_, **__: cells.append(columns[1]))
    view = SimpleNamespace(run=run, clusters=[], decisions=naming.Naming(names={7: "Cat"}), name=lambda cluster: "Cat")
    training_on._show_named(view, SimpleNamespace(labeled={"cat": 9}))
    assert cells[0].cells(SimpleNamespace(id=7)) == 9


def test_a_named_cluster_that_looks_mixed_is_warned_about_before_training_on(open_page, run, monkeypatch):
    let_look_mixed(monkeypatch, 7)
    steps = [{"do": "name", "id": 7 + i, "name": name} for i, name in enumerate(["sevens", "eights"])]
    steps += [{"do": "merge", "id": 9, "into": 8}]
    naming.record_steps(run, 6, steps)
    app = open_page(run.root, cluster=7)
    app.button(key="train_on").click()
    app.session_state["train_on_start"] = "afresh"
    app.run()
    assert not app.exception and any("sevens looks mixed" in one.value for one in app.warning)
    by_name = next(one.value for one in app.dataframe if "Get the label" in one.value)
    assert by_name["Merged in"].tolist()[1] == "9" and "looks mixed" in by_name["Flags"][0]


def test_the_table_has_the_novel_clusters_while_clusters_are_named_one_by_one(open_page, run):
    app = open_page(run.root, turn="true", cluster=7)
    assert table(app).index.tolist() == [5, 6, 7, 8, 9]
    assert app.session_state["clusters_table"]["selection"]["rows"] == [2]
    assert len(table(open_page(run.root, turn="true", cluster=2))) == 10, "a seen class is open"


def test_an_open_cluster_below_the_visible_rows_is_the_first_of_the_table(open_page, run, monkeypatch):
    monkeypatch.setattr(page.names.naming_wizard, "is_on", lambda: True)
    monkeypatch.setattr(page, "_TABLE_ROWS", 3)
    listed = [c.id for c in page._listed_clusters(predictions.read_view(run, 6), 8)]
    assert listed == [8, 9, 5, 6, 7]
    assert "the table hides 5 clusters" in words_of(open_page(run.root, cluster=8))


@pytest.mark.parametrize("taken", ["3", "eight"])
def test_a_name_that_is_taken_is_refused(open_page, run, taken):
    naming.record_steps(run, 6, [{"do": "name", "id": 8, "name": "eight"}])
    app = open_page(run.root, cluster=7)
    app.text_input[0].set_value(taken).run()
    assert "is already the name of cluster" in refusal(app) and len(app.error) == 1 and 7 not in said(run).names
    assert app.text_input[0].value == taken, "what was typed can be mended"
    app.query_params["image"] = str(shown(app)[0])
    app.run()
    assert app.text_input[0].value == taken and refusal(app), "looking at a picture changes nothing"
    for cluster in ("9", "7"):
        app.query_params["cluster"] = cluster
        app.run()
        assert not app.error and app.text_input[0].value == "", "a refused name is forgotten with its cluster"
    app.text_input[0].set_value(f"{taken} too").run()
    assert said(run).names[7] == f"{taken} too" and not app.error


@pytest.mark.parametrize(("taken", "into", "is_wizard_on"), [("3", 3, False), ("Eight", 8, False), ("Eight", 8, True)])
def test_a_name_that_is_taken_offers_to_merge(open_page, run, monkeypatch, taken, into, is_wizard_on):
    monkeypatch.setattr(page.names.naming_wizard, "is_on", lambda: is_wizard_on)
    naming.record_steps(run, 6, [{"do": "name", "id": 8, "name": "eight"}])
    app = open_page(run.root, cluster=7)
    app.text_input[0].set_value(taken).run()
    (offer,) = [button for button in app.button if button.label.startswith("Merge with")]
    offer.click().run()
    opened = "9" if is_wizard_on else str(into)
    assert said(run).parents == {7: into} and not app.error and app.query_params["cluster"] == opened


def refusal(app) -> str:
    """What is said against a name in the column of its field."""
    beside = next(column for column in app.columns if column.text_input)
    return " ".join(error.value for error in beside.error)


def test_clusters_are_merged_and_rejected(open_page, run):
    app = open_page(run.root, cluster=9)
    box = next(box for box in app.selectbox if box.label == "Merge into")
    box.set_value(7).run()
    assert said(run).parents == {9: 7} and not app.exception
    assert 9 not in table(app).index and "Cluster 7 (merged with 9)" in words_of(app)
    assert np.isnan(table(app).loc[7, "Stability"]), "the network never had this cluster"
    assert app.dataframe[0].proto.placeholder == "–"
    assert "made by a split or a merge have no value" in look_of("Stability", run)["help"]
    assert set(app.query_params["cluster"]) == {"7"}
    app.button(key="reject").click().run()
    assert said(run).rejected == {7} and table(app).loc[7, "Name"] == "(not a class)"
    assert "rejected" not in words_of(app) and re.search(r", [\d,]+ marked as not a class\.", words_of(app))
    assert "Cluster 7 (merged with 9): not a class" in words_of(app) and "1 marked as not a class" in words_of(app)
    assert app.button(key="reject").label == "Mark as a class" and "so its images stay unlabeled" in words_of(app)
    assert "Cluster 7 is not a class; its images stay unlabeled." in words_of(app)
    app.button(key="reject").click().run()
    assert said(run).rejected == {7}, "the second click of a double click does nothing"
    del app.session_state["rejected_at"]
    app.button(key="reject").click().run()
    assert said(run).rejected == frozenset() and "Cluster 7 is not a class" not in words_of(app)
    assert "Cluster 7 (merged with 9)" in words_of(open_page(run.root, cluster=9)), "an old link leads to where it went"


def test_merged_and_rejected_clusters_do_not_count_as_named(open_page, run):
    steps = [{"do": "name", "id": i, "name": f"name {i}"} for i in (7, 8, 9)]
    naming.record_steps(run, 6, [*steps, {"do": "merge", "id": 9, "into": 7}, {"do": "reject", "id": 8}])
    words = words_of(open_page(run.root, cluster=7))
    assert "1 named by you" in words and "1 cluster with a name, 2 without, 1 marked as not a class" in words


def test_chosen_images_are_split_off(open_page, run, monkeypatch):
    app = open_page(run.root, cluster=7)
    assert app.button(key="split").disabled and "click the circle in their top right corner" in words_of(app)
    assert words_of(app).count("circle") == words_of(app).count("Shift") == 1, "how to choose is said once"
    mine = shown_of(run, 6, 7)[:3]
    monkeypatch.setattr(gallery, "show_sheet", lambda *a, **k: gallery.Choice(ticked=tuple(mine)))
    app = open_page(run.root, cluster=7)
    assert "In both cases, they get no label" in words_of(app) and "click the circle" not in words_of(app)
    app.button(key="split").click().run()
    assert said(run).moved == dict.fromkeys(mine, 10) and not app.exception
    assert table(app).loc[10, "Unlabeled"] == 3
    assert table(app).loc[7, "Unlabeled"] == len(shown_of(run, 6, 7)) - 3


def test_next_without_a_name_goes_round(open_page, run):
    naming.record_steps(run, 6, [{"do": "name", "id": 6, "name": "six"}])
    app = open_page(run.root, cluster=9, opened="true")
    assert app.session_state["naming_scroll"] and "opened" not in app.query_params, "its pictures come into sight"
    for cluster in (5, 7):
        app.button(key="next_unnamed").click().run()
        assert f"Cluster {cluster}" in words_of(app)


def test_in_turn_the_last_cluster_has_the_switch_and_the_keyboard_too(open_page, run):
    """It lost both a moment after it was opened, and with them the name that was being typed."""
    for cluster in range(5, 9):
        naming.record_steps(run, 6, [{"do": "name", "id": cluster, "name": f"name {cluster}"}])
    app = open_page(run.root, cluster=9, turn="true")
    assert app.toggle(key="turn").value is True
    assert any(element.proto.component_name == "lps_naming_wizard" for element in app.get("bidi_component"))
    app.text_input[0].set_value("the last").run()
    assert said(run).names[9] == "the last"
    assert "turn" in app.query_params, "or the browser's Back button would only bring it back"
    assert "turn" not in [toggle.key for toggle in app.toggle], "there is nothing left to name"
    assert len(table(app)) == 10
    app.button(key="undo").click().run()
    assert said(run).names.keys() == {5, 6, 7, 8} and not app.exception


def test_names_are_given_in_turn_where_somebody_wants_to(open_page, run):
    app = open_page(run.root, cluster=8, turn="true")
    app.text_input[0].set_value("eights").run()
    assert said(run).names == {8: "eights"} and "Cluster 9" in words_of(app) and app.text_input[0].value == ""
    app.toggle(key="turn").set_value(False).run()
    app.text_input[0].set_value("nines").run()
    assert said(run).names == {8: "eights", 9: "nines"} and "Cluster 9 · nines" in words_of(app)
    app.toggle(key="turn").set_value(True).run()
    assert "Cluster 5" in words_of(app), "the open cluster has a name, so the first one without opens"
    app.button(key="reject").click().run()
    assert said(run).rejected == {5} and "Cluster 6" in words_of(app), "a rejected cluster needs no name"


def test_names_are_carried_to_a_later_epoch(open_page, run):
    naming.record_steps(run, 5, [{"do": "name", "id": 7, "name": "sevens"}, {"do": "merge", "id": 8, "into": 6}])
    app = open_page(run.root, epoch=6)
    assert "You named clusters at epoch 5" in words_of(app)
    app.button(key="carry_names").click().run()
    assert said(run).names == {7: "sevens"} and said(run).root(8) == said(run).root(6) and not app.exception
    assert "You named clusters" not in words_of(app) and said(run, 5).names == {7: "sevens"}
    app = open_page(run.root, epoch=1)
    app.button(key="go_to_names").click().run()
    assert app.select_slider(key="clusters_epoch").value == 6


def test_predictions_that_changed_after_they_were_named(open_page, run):
    naming.record_steps(run, 6, [{"do": "name", "id": 7, "name": "sevens"}], "another")
    assert "were recomputed" in words_of(open_page(run.root))
    naming.undo_last(run, 6)
    digest = labels.digest_of_predictions(snapshots.read_snapshot(run.snapshots, 6).predicted)
    naming.record_steps(run, 6, [{"do": "name", "id": 7, "name": "sevens"}], digest)
    assert "were recomputed" not in words_of(open_page(run.root))


def test_damaged_names_are_said_to_be_damaged(open_page, run):
    (run.folder / "names.json").write_text("{")
    assert "names.json: is damaged and was not changed" in words_of(open_page(run.root))


@pytest.mark.slow
def test_a_folder_is_written_beside_the_files_of_the_run(open_page, run):
    naming.record_steps(run, 6, [{"do": "name", "id": 7, "name": "sevens"}])
    app = open_page(run.root)
    for expected in ("epoch-0006", "epoch-0006-2"):
        app.button(key="write_folder").click().run()
        assert not app.exception
        folder = run.folder / "exports" / expected
        assert str(folder) in [block.value for block in app.code]
        assert len(list((folder / "sevens").iterdir())) == len(shown_of(run, 6, 7))
    assert app.code[-1].value.startswith(f"python -m lps export {run.id[-6:]} --epoch 6 --to labels.csv")


@pytest.mark.parametrize("side, channels, kind", [(8, 1, "png"), (28, 3, "png"), (64, 3, "jpeg"), (300, 3, "jpeg")])
def test_a_contact_sheet_has_every_picture_in_its_place(side, channels, kind):
    shades = np.linspace(20, 240, 7).astype(np.uint8)
    pixels = np.broadcast_to(shades[:, None, None, None], (7, side, side, channels))
    data, mime = gallery.make_contact_sheet(pixels)
    whole = np.asarray(Image.open(io.BytesIO(data)).convert("L")).astype(int)
    across, tile = gallery.count_columns(7), min(side, gallery.FINE)
    assert mime == f"image/{kind}" and whole.shape == (3 * tile, 3 * tile) and across == 3
    for i, shade in enumerate(shades.tolist()):
        middle = whole[i // across * tile + tile // 2, i % across * tile + tile // 2]
        assert abs(middle - shade) <= 3


def test_small_pictures_keep_every_pixel():
    pixels = sources.load("digits").pixels[:5]
    whole = np.asarray(Image.open(io.BytesIO(gallery.make_contact_sheet(pixels)[0])))
    assert np.array_equal(whole[8:16, :8], pixels[3, ..., 0])


@pytest.mark.parametrize("count, across", [(0, 1), (1, 1), (2, 2), (4, 2), (48, 7)])
def test_sheets_are_about_square(count, across):
    assert gallery.count_columns(count) == across


@pytest.mark.parametrize(
    "reported, found",
    [
        ({"token": "t", "ids": [3, 1, 3]}, (1, 3)),
        ({"token": "other", "ids": [3]}, ()),
        ({"token": "t", "ids": [-1, "2", True, 2.5, 4]}, (4,)),
        ({"token": "t", "ids": "12"}, ()),
        (None, ()),
        ([1], ()),
    ],
)
def test_what_the_browser_reports_is_checked(reported, found):
    assert gallery.chosen_images(reported, "t") == found


def test_cells_of_the_confusion_matrix_know_where_they_are():
    counts = np.array([[3, 0, 1], [0, 0, 0], [1, 5, 0], [0, 2, 2]])
    drawn = confusion.figure(counts, ["0", "1", "<b>", "3"], ["a", "b", "c"], 1, LIGHT, (2, 1)).figure()
    trace = drawn.data[0]
    assert np.array(trace.z)[2].tolist() == pytest.approx([1 / 6, 5 / 6, 0]) and np.array(trace.z)[1].tolist() == [
        0,
        0,
        0,
    ]
    for row in range(4):
        for column in range(3):
            assert divmod(int(np.array(trace.customdata)[row, column]), 3) == (row, column)
    assert "<b>" not in drawn.to_json() and np.array(trace.text)[0].tolist() == ["3", "", "1"]


def test_the_matrix_has_a_diagonal(stored):
    here = predictions.read_view(stored, 6)
    matched = [here.clusters[i].matched for i in confusion.row_order(here.clusters)]
    found = [m for m in matched if m >= 0]
    assert found == sorted(found) and matched[len(found) :] == [-1] * (len(matched) - len(found))


def test_adoption_is_judged_by_the_threshold_of_the_group_predicted():
    told = [Moment(1, 0, 0.9, 0), Moment(2, 7, 0.9, 7), Moment(3, 7, 0.3, 7), Moment(4, 0, 0.99, 0)]
    limits = {"seen": pd.Series({1: 0.95, 2: 0.95, 3: 0.95}), "novel": pd.Series({1: 0.4, 2: 0.4, 3: 0.4})}
    found = image_history.find_adoption(told, limits, seen=5)
    assert found == image_history.ReachedThreshold((2,), 3) and image_history.count_moves(told) == 2
    nothing = {"seen": pd.Series(dtype=float), "novel": pd.Series(dtype=float)}
    assert image_history.find_adoption(told, nothing, 5) == image_history.ReachedThreshold((), 0)


def test_the_life_of_an_image_of_a_large_run_is_told_by_some_epochs(open_page, stored, monkeypatch):
    monkeypatch.setattr(predictions, "_MIN_HISTORY_EPOCHS", 3)
    monkeypatch.setattr(predictions, "_MAX_HISTORY_IMAGES", 1)
    here = predictions.read_view(stored, 2)
    image = int(here.split.unlabeled[0])
    whole = points.stored_epochs(stored)
    told = [moment.epoch for moment in predictions.read_image_history(here, image)]
    assert told == sorted({whole[0], 2, told[-2], whole[-1]}) and len(told) <= 4 < len(whole)
    said = words_of(open_page(stored.root, epoch="2", image=image))
    assert f"{len(told)} of {len(whole)} epochs" in said
    monkeypatch.undo()
    assert len(predictions.read_image_history(here, image)) == len(whole)


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_a_biography_marks_the_epochs_in_another_cluster(colors):
    told = [Moment(1, 0, 0.9, 0), Moment(2, 7, 0.9, 7), Moment(3, 7, 0.3, 7)]
    thresholds = {"seen": pd.Series({1: 0.9, 3: 0.9})}
    drawn = line_charts.image_confidence(told, 7, thresholds, {0: "0 · <cat>", 7: "7"}, colors).figure()
    dots = {trace.name: list(trace.x) for trace in drawn.data if trace.mode == "markers"}
    assert dots == {"This cluster": [2, 3], "Another": [1]} and "<cat>" not in drawn.to_json()


def test_two_images_are_compared_over_the_epochs():
    lives = {
        "Image 3": [Moment(1, 6, 0.4, 6), Moment(2, 6, 0.6, 6), Moment(3, 7, 0.9, 7)],
        "Image 5": [Moment(1, 7, 0.5, 7), Moment(2, 6, 0.7, 6), Moment(3, 7, 0.8, 7)],
    }
    said = image_history.describe_shared_epochs(*lives.values())
    assert said.startswith("The images were in the same cluster at 2 of 3 epochs and have been together since epoch 2.")
    first, second = line_charts.image_pair(lives, {6: "six", 7: "seven"}, LIGHT).figure().data
    assert (first.name, second.name) == ("Image 3", "Image 5") and list(second.y) == [0.5, 0.7, 0.8]
    assert list(first.marker.symbol) == list(second.marker.symbol) == ["x", "circle", "circle"]
    assert list(first.text) == ["six", "six", "seven"]
    one = [Moment(1, 6, 0.4, 6)]
    assert image_history.describe_shared_epochs(one, one).startswith(
        "The images were in the same cluster at 1 of 1 epoch. "
    )


def test_two_ticked_pictures_are_shown_beside_each_other(open_page, stored, monkeypatch):
    here = predictions.read_view(stored, 6)
    pair = tuple(sorted(here.split.unlabeled[:2].tolist()))
    monkeypatch.setattr(page.gallery, "chosen_images", lambda *about: pair)
    app = open_page(stored.root, run=stored.id, size=144)
    assert not app.exception and app.select_slider(key="picture_size").value == 144
    said = words_of(app)
    assert all(f"Image **{image}**" in said for image in pair) and "same cluster at" in said
    app.select_slider(key="picture_size").set_value(72).run()
    assert "size" not in app.query_params


def test_a_cluster_is_split_after_a_look_at_its_parts(open_page, run, monkeypatch):
    computed, leading_components = [], mixed_clusters.leading_components
    count_calls = lambda features: computed.append(1) or leading_components(features)  # noqa: E731
    monkeypatch.setattr(mixed_clusters, "leading_components", count_calls)
    app = open_page(run.root, run=run.id, cluster=7)
    before = predictions.read_view(run, 6)
    app.segmented_control[-1].set_value(3).run()
    assert len(computed) == 1, "they take seconds for thousands of images"
    assert [button.label for button in app.button if button.key == "take_parts"] == ["Apply this split"]
    assert all(text in words_of(app) for text in ("stay in cluster 7", "become cluster 10", "become cluster 11"))
    wide = app.columns[[bool(column.text_input) for column in app.columns].index(True) - 1]
    assert [button.key for button in wide.button if button.key == "take_parts"], "beside the pictures of the cluster"
    sheets = [json.loads(element.proto.bytes.partition(b"\n")[0]) for element in wide.get("bidi_component")]
    samples = [len(sheet["tiles"]) for sheet in sheets]
    app.button(key="close_parts").click().run()
    assert not [button for button in app.button if button.key == "take_parts"] and len(shown(app)) == 48
    app.segmented_control[-1].set_value(3).run()
    app.button(key="take_parts").click().run()
    after = predictions.read_view(run, 6)
    assert not app.exception and said(run).split_off == [10, 11]
    assert "Cluster 10" in words_of(app), "a new cluster is open, and its name field comes into sight"
    sizes = [int((after.assigned == part).sum()) for part in (10, 11)]
    assert f"split. New: cluster 10 ({sizes[0]} images) and cluster 11 ({sizes[1]} images)." in words_of(app)
    old, parts = before.assigned == 7, [after.assigned == part for part in (7, 10, 11)]
    assert (np.sum(parts, axis=0) == old).all() and samples == [min(24, part.sum()) for part in parts] and min(samples)
    assert not said(run).confirmed, "nobody has looked at each of them"
    app.button(key="undo").click().run()
    assert said(run).is_empty


def test_a_cluster_is_compared_with_its_twin_and_merged(open_page, run, monkeypatch):
    twins = {1: 2, 7: 5, 5: 7}
    monkeypatch.setattr(compare_clusters.clusters, "unflagged_twin", lambda found, cluster: found[twins[cluster]])
    offered = [button.key for button in open_page(run.root, run=run.id, cluster=1).button]
    assert "compare_clusters" not in offered, "two classes with labels are not one class"
    app = open_page(run.root, run=run.id, cluster=7)
    app.button(key="compare_clusters").click().run()
    samples = [[tile["id"] for tile in head["tiles"]] for head in all_heads(app) if "tiles" in head]
    assert [set(sample) <= set(shown_of(run, 6, cluster)) for sample, cluster in zip(samples, (7, 5))] == [True, True]
    app.button(key="merge_compared").click().run()
    assert said(run).parents == {7: 5} and "Cluster 5 (merged with 7)" in words_of(app) and not app.exception


def test_chosen_images_are_put_in_a_cluster(open_page, run, monkeypatch):
    mine = predictions.read_view(run, 6).split.unlabeled[predictions.read_view(run, 6).assigned == 7][:2].tolist()
    monkeypatch.setattr(page, "_show_sheet", lambda *about: tuple(mine))
    app = open_page(run.root, run=run.id, cluster=7)
    box = next(box for box in app.selectbox if "2 chosen images" in box.label)
    assert box.options[0] == "A new cluster (cluster 10)"
    sizes = {c.id: c.size for c in predictions.read_view(run, 6).clusters}
    assert f"cluster 8 ({sizes[8]} images)" in box.options
    assert any(option.startswith(f"3 ({sizes[3]} unlabeled images, ") for option in box.options)
    assert not any(option.startswith("cluster 7 ") for option in box.options)
    box.set_value(3).run()
    assert said(run).moved == dict.fromkeys(mine, 3) and said(run).confirmed == set(mine)
    assert "2 images moved to 3." in words_of(app)
    assert "naming_scroll" not in app.session_state, "the pictures stay where they are"
    both = [*mine, shown_of(run, 6, 7)[2]]
    monkeypatch.setattr(page, "_show_sheet", lambda *about: tuple(both))
    app = open_page(run.root, run=run.id, cluster=7)
    next(box for box in app.selectbox if "3 chosen images" in box.label).set_value(3).run()
    assert "1 image moved to 3; already there: 2." in words_of(app)
    monkeypatch.setattr(page, "_show_sheet", lambda *about: tuple(mine))
    app = open_page(run.root, run=run.id, cluster=7)
    next(box for box in app.selectbox if "2 chosen images" in box.label).set_value(-1).run()
    assert said(run).moved == dict.fromkeys(mine, 10) | {both[2]: 3} and not app.exception


def test_a_moved_image_has_no_confidence_in_its_new_cluster(open_page, run):
    before, moved = predictions.read_view(run, 6).clusters, shown_of(run, 6, 7)[:2]
    naming.record_steps(run, 6, [{"do": "assign", "images": [*moved, shown_of(run, 6, 3)[0]], "to": 3}])
    app = open_page(run.root, cluster=3, image=moved[0])
    assert set(shown(app)[:2]) == set(moved), "the user is sure of them"
    assert [tile_words(app, image).split("\n")[0] for image in moved] == ["moved by you"] * 2
    assert tile_words(app, shown(app)[2]).split("\n")[0].endswith(" %"), "the model put it there, too"
    assert "Cluster **3, moved by you**" in words_of(app)
    after = predictions.read_view(run, 6).clusters
    assert after[3].confidence == before[3].confidence and after[7].size == before[7].size - 2
    assert [c.stability for c in after] == [c.stability for c in before], "the model did not change"
    assert not set(shown(open_page(run.root, cluster=3, order="least"))[:2]) & set(moved)
    naming.record_steps(run, 6, [{"do": "split", "images": shown_of(run, 6, 8)[:3], "new": 10}])
    assert np.isnan(predictions.read_view(run, 6).clusters[10].confidence)


def tile_moves(app) -> list:
    """The menus that move ticked images."""
    return [box for box in app.selectbox if "chosen image" in box.label]


def test_what_the_user_assigned_stays_in_a_cluster_that_is_split(open_page, run, monkeypatch):
    here = predictions.read_view(run, 6)
    ids, features = split_cluster.read_features(here, 7)
    parts = mixed_clusters.split_points(mixed_clusters.leading_components(features), 2)
    mine = [*ids[parts == 1][:3].tolist(), int(ids[parts == 0][0])]
    naming.record_steps(run, 6, [{"do": "assign", "images": mine, "to": 7}])
    kinds = []
    for separation in (0.3, 0.1):
        monkeypatch.setattr(mixed_clusters, "separation", lambda *about, value=separation: value)
        app = open_page(run.root, run=run.id, cluster=7)
        app.segmented_control[-1].set_value(2).run()
        kinds.append(app.button(key="take_parts").proto.type)
        assert ("hardly separate" in words_of(app)) == (separation < 0.2)
    assert kinds == ["primary", "secondary"], "a split that is not advised is not the main button"
    assert "assigned stay in the cluster: 4." in words_of(app)
    app.button(key="take_parts").click().run()
    assert not app.exception and said(run).confirmed == set(mine)
    largest = ids[parts == 0].tolist()
    assert said(run).moved == dict.fromkeys(mine, 7) | dict.fromkeys(set(largest) - set(mine), 10)
    assert "4 assigned pictures" in words_of(app)
    assert {tile_words(app, image).split("\n")[0] for image in shown(app)} == {"split off"}
    assert "Cluster **10, split off**" in words_of(open_page(run.root, cluster=10, image=shown(app)[0]))


def test_images_like_the_chosen_ones_are_of_all_clusters(open_page, run, monkeypatch):
    here = predictions.read_view(run, 6)
    mine = tuple(
        image for image in points.read_features(run, 6)[0].tolist() if here.assigned[here.split.unlabeled == image] == 7
    )
    found = split_cluster.similar_images(here, mine[:2], 24)
    assert len(found) == 24 and not set(found.tolist()) & set(mine[:2])
    assert (here.assigned[np.searchsorted(here.split.unlabeled, found)] == 7).mean() > 0.5
    monkeypatch.setattr(page, "_show_sheet", lambda *about: mine[:2])
    app = open_page(run.root, run=run.id, cluster=7)
    app.button(key="more_like").click().run()
    assert app.session_state["naming_scroll"][1] == "similar_images" and not app.exception
    assert "split" not in [button.key for button in app.button], "it is about the images of the cluster"
    assert "Below the proposed images is a menu" in words_of(app) and "Tick two" not in words_of(app)
    app.select_slider(key="similar_count").set_value(12).run()
    proposed, tokens = [*mine[:2], *found[:12].tolist()], set()
    for key, ticked in (("like_none", []), ("like_none", []), ("like_all", proposed)):
        app.button(key=key).click().run()
        (sheet,) = [head for head in all_heads(app) if "tiles" in head]
        tokens.add(sheet["token"])
        assert sheet["ticked"] == ticked and len(tile_moves(app)) == bool(ticked)
    assert len(tokens) == 3, "the browser resets the ticks, also those made between two presses"
    assert [tile["id"] for tile in sheet["tiles"]] == proposed
    next(box for box in app.selectbox if "14 chosen images" in box.label).set_value(-1).run()
    assert said(run).moved == dict.fromkeys(proposed, 10) and "".join(app.query_params["cluster"]) == "10"
    assert not [button for button in app.button if button.key == "close_like"], "it is done"
    assert "14 images moved to cluster 10." in words_of(app)
    app.button(key="more_like_moved").click().run()
    (sheet,) = [head for head in all_heads(app) if "tiles" in head]
    assert sheet["tiles"] and not {tile["id"] for tile in sheet["tiles"]} & set(proposed)
    others = tuple(image for image in mine if image not in proposed)[:2]
    monkeypatch.setattr(page, "_show_sheet", lambda *about: others)
    later = open_page(run.root, run=run.id, cluster=7)
    later.button(key="more_like").click().run()
    (sheet,) = [head for head in all_heads(later) if "tiles" in head]
    assert {tile["id"] for tile in sheet["tiles"]} & set(proposed) and not set(sheet["ticked"]) & set(proposed)
    app.button(key="undo_outcome").click().run()
    assert not said(run).moved and "".join(app.query_params["cluster"]) == "7" and not app.exception


@pytest.mark.parametrize("is_after_a_move", [False, True])
def test_only_images_that_wait_for_a_decision_are_chosen_at_first(open_page, run, monkeypatch, is_after_a_move):
    here, unnamed, named, labeled, moved = (shown_of(run, 6, cluster)[4] for cluster in (7, 8, 9, 3, 5))
    steps = [{"do": "name", "id": 9, "name": "nine"}, {"do": "assign", "images": [moved], "to": 8}]
    naming.record_steps(run, 6, steps)
    proposed = np.array([here, unnamed, named, labeled, moved])
    monkeypatch.setattr(split_cluster, "similar_images", lambda *about: proposed)
    mine = tuple(shown_of(run, 6, 7)[:2])
    monkeypatch.setattr(page, "_show_sheet", lambda *about: mine)
    app = open_page(run.root, run=run.id, cluster=7)
    if is_after_a_move:
        next(box for box in app.selectbox if "2 chosen images" in box.label).set_value(9).run()
    app.button(key="more_like_moved" if is_after_a_move else "more_like").click().run()
    (sheet,) = [head for head in all_heads(app) if "tiles" in head]
    assert sheet["ticked"] == [*(() if is_after_a_move else mine), here, unnamed]
    assert "in this cluster and in clusters without a name" in words_of(app)


def test_pictures_with_the_label_of_another_class_are_not_chosen(open_page, tmp_path, monkeypatch):
    run = make_unknown(tmp_path)
    monkeypatch.setattr(page, "_show_sheet", lambda *about: (7, 8))
    app = open_page(run.root, run=run.id, cluster=1)
    app.button(key="more_like").click().run()
    (sheet,) = [head for head in all_heads(app) if "tiles" in head]
    labeled = {tile["id"]: tile["words"] for tile in sheet["tiles"] if "label" in tile["words"]}
    assert (
        labeled == {4: "dog\nlabel: cat", 5: "cluster 2\nlabel: dog"}
        and not {4, 5} & set(sheet["ticked"])
        and len(sheet["ticked"]) > 2
    )
    assert sum("chosen image" in box.label for box in app.selectbox) == 1, "one menu moves pictures"
