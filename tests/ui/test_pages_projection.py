"""The Projection page without a browser: what a lasso was around, what can be coloured by, with and without a truth."""

import base64
import csv
import io
import json
import re

import numpy as np
import pytest

from lps.analysis import naming
from lps.charts.palette import LIGHT
from lps.store import snapshots
from lps.store.runs import Run
from lps.ui.pictures import coloring, point_map, points
from lps.ui.pictures.point_map import MapEvents
from lps.ui.projection import filters, page, selection
from lps.ui.projection.filters import Conditions
from lps.ui.shared.history import read_history
from tests.sample_runs import make_run
from tests.shares import in_turn
from tests.visiting import column_of, maps_of, visit


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs"), epochs=3, lucky=False)


@pytest.fixture(scope="module")
def blind(tmp_path_factory):
    """A run of images whose unlabeled part has no known class."""
    run = make_run(tmp_path_factory.mktemp("runs"), epochs=2)
    split, truth = snapshots.read_split(run.folder)
    truth[split.unlabeled] = -1
    (run.folder / "split.npz").unlink()
    snapshots.write_split(run.folder, split, truth)
    return run


@pytest.fixture
def open_page(monkeypatch):
    def open_one(run: Run, **query):
        monkeypatch.setenv("LPS_RUNS", str(run.root))
        return visit("projection", run=run.id, **query)

    return open_one


def select_images(monkeypatch, *images):
    """As if a lasso were around these images."""
    monkeypatch.setattr(page, "show_map", lambda *how, **more: MapEvents(None, np.array(images, np.int64)))


def reported(ids) -> str:
    """As map_points.js does it."""
    return base64.b64encode(point_map.pack_ids(np.array(ids))).decode()


@pytest.mark.parametrize("ids", [[0], [5, 3, 900], list(range(50_000)), [1_999_999]])
def test_ids_arrive_as_they_were_sent(ids):
    assert point_map.selected_ids({"token": "t", "bits": reported(ids)}, "t").tolist() == sorted(ids)


@pytest.mark.parametrize(
    "told",
    [None, 7, {}, {"token": "t"}, {"token": "t", "bits": 3}, {"token": "t", "bits": ""}, {"token": "t", "bits": "1.-2"}]
    + [{"token": "t", "bits": words} for words in ("A", "½", "AA=A", "A" * 400_000)]
    + [{"token": "other", "bits": "AQ=="}],
)
def test_whatever_else_is_reported_selects_nothing(told):
    assert not len(point_map.selected_ids(told, "t"))


def test_every_point_is_sent_with_its_place_and_its_group(run, open_page):
    app, table = open_page(run, color="truth"), points.read_points(run, 3)
    assert not app.subheader and not app.dataframe, "nothing is selected"
    shown = maps_of(app)["map"]
    assert shown["ids"].tolist() == table["image"].tolist()
    (corner, side), places = shown["extent"], shown["places"].reshape(2, -1)
    back = np.array(corner)[:, None] + places / 65535 * side
    assert np.allclose(back, table[["x", "y"]].to_numpy().T, atol=side / 60_000)
    names = points.read_partition(run).split.class_names
    assert [shown["groups"][code][0] for code in shown["codes"]] == [names[truth] for truth in table["truth"]]


def test_a_selection_is_counted_and_shown(run, open_page, monkeypatch):
    images = points.read_points(run, 3)["image"].to_numpy()[:60]
    select_images(monkeypatch, *images.tolist())
    app = open_page(run)
    assert [head.value for head in app.subheader] == ["60 selected images"]
    table = points.read_points(run, 3).set_index("image").loc[images]
    shown = app.dataframe[0].value.set_index("Class")
    for class_id, name in enumerate(points.read_partition(run).split.class_names):
        expected = [(table["truth"] == class_id).sum(), (table["predicted"] == class_id).sum()]
        assert (shown.loc[name].tolist() if name in shown.index else [0, 0]) == expected
    assert any("mean confidence" in caption.value for caption in app.caption)


def test_the_table_to_take_away_has_every_image_and_no_formula(run):
    rows = points.read_points(run, 3).head(5)
    names = ("=1+1", *points.read_partition(run).split.class_names[1:])
    lines = list(csv.DictReader(io.StringIO(selection.as_csv(rows.assign(predicted=0), names, ()))))
    assert [int(line["image"]) for line in lines] == rows["image"].tolist()
    assert {line["predicted"] for line in lines} == {"'=1+1"} and {line["file"] for line in lines} == {""}
    assert [float(line["confidence"]) for line in lines] == pytest.approx(rows["confidence"].tolist(), abs=1e-4)


def test_a_selection_becomes_a_cluster_of_its_own(tmp_path, open_page, monkeypatch):
    run = make_run(tmp_path, epochs=2)
    images = sorted(points.read_points(run, 2)["image"].to_numpy()[[3, 9, 11]].tolist())
    select_images(monkeypatch, *images)
    app = open_page(run)
    assert not [box for box in app.selectbox if box.key == "where_cluster"]
    app.button(key="lasso_split").click().run()
    assert not app.exception and not app.error
    assert sorted(naming.naming_of_epoch(naming.read_entries(run), 2).moved) == images
    assert "Your clusters" in coloring.list_colorings(run, 2).values()
    found = coloring.color_points(run, 2, points.read_points(run, 2), "cluster", LIGHT)
    assert (found.codes == found.labels.index("10")).sum() == 3
    ids = filters.find_matching_ids(run, 2, points.read_points(run, 2), Conditions(cluster=10))
    assert ids.tolist() == images
    assert fill(open_page(run), cluster=10).query_params["where"] == "cluster:10"


def test_taken_up_are_those_above_the_threshold_of_the_predicted_group(run):
    table, split = points.read_points(run, 3), points.read_partition(run).split
    found = snapshots.read_snapshot(run.snapshots, 3)
    row_of = {int(image): row for row, image in enumerate(split.unlabeled)}
    limits = {g: read_history(run).column(f"threshold/{g}")[3] for g in ("seen", "novel")}
    colored = coloring.color_points(run, 3, table, "adopted", LIGHT)
    for place, image in enumerate(table["image"]):
        row = row_of[image]
        group = "seen" if found.predicted[row] < split.classes.seen else "novel"
        passes = float(found.confidence[row]) >= limits[group]
        assert colored.labels[colored.codes[place]] == (f"Pseudo-label: {group}" if passes else "Not confident")


def test_without_a_truth_nothing_asks_for_one(blind, open_page, monkeypatch):
    assert not set(coloring.OF_TRUTH) & set(coloring.list_colorings(blind, 2))
    images = points.read_points(blind, 2)["image"].to_numpy()[:20].tolist()
    select_images(monkeypatch, *images)
    app = open_page(blind, image=str(images[0]), color="called")
    assert not app.error and app.dataframe[0].value.columns.tolist() == ["Class", "Predicted"]
    assert [box.key for box in app.selectbox if (box.key or "").startswith("where")] == ["where_predicted"]
    assert any("20 of unknown class" in caption.value for caption in app.caption)


def test_clusters_that_a_person_has_named_are_the_first_colour_where_no_truth_is_known(tmp_path):
    run = make_run(tmp_path, epochs=2)
    split, truth = snapshots.read_split(run.folder)
    truth[split.unlabeled] = -1
    (run.folder / "split.npz").unlink()
    snapshots.write_split(run.folder, split, truth)
    assert next(iter(coloring.list_colorings(run, 2))) == "predicted"
    naming.record_steps(run, 2, [{"do": "name", "id": 7, "name": "sevens"}])
    assert next(iter(coloring.list_colorings(run, 2))) == "cluster"


@pytest.mark.parametrize("key", in_turn(["predicted", "confidence", "called", "adopted"], 2))
def test_every_colour_of_a_run_without_truth(blind, open_page, key):
    app = open_page(blind, color=key)
    assert not app.error and app.get("bidi_component")


def test_neighbours_are_told_and_can_be_missing(run, open_page):
    image = int(points.read_points(run, 3)["image"].iloc[0])
    said = [caption.value for caption in open_page(run, image=str(image)).caption]
    assert any(re.search("Same prediction: [0-9]+ of 12", text) for text in said)
    labeled = int(points.read_partition(run).split.labeled[0])
    assert points.find_neighbours(run, 3, labeled, 5) is None


def test_a_map_that_cannot_be_begun_is_a_sentence(open_page, tmp_path):
    """A link stands in place of the folder of the maps."""
    own = make_run(tmp_path / "runs", epochs=2)
    (tmp_path / "elsewhere").mkdir()
    own.projections.symlink_to(tmp_path / "elsewhere")
    for label in ("Compute UMAP", "Compute 2 more epochs"):
        app = open_page(own, map="umap", epoch="2")
        next(button for button in app.button if button.label == label).click().run()
        assert not app.exception
        assert "cannot be computed (it is a link, and links are not followed)" in app.error[0].value.replace("\\", "")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("start", "query", "key", "expected"),
    [
        ("start_all_maps", {"map": "umap", "epoch": "2"}, "all_epochs", ("umap", 2)),
        ("start_map", {}, "whole_map", ("pca", 3)),  # of very many images
    ],
)
def test_maps_of_all_epochs_and_of_all_images_can_be_asked_for(
    run, open_page, monkeypatch, start, query, key, expected
):
    monkeypatch.setattr(points, "MAX_POINTS", 500)
    asked = []
    monkeypatch.setattr(page.projection, start, lambda *how: asked.append(how[1:]))
    app = open_page(run, **query)
    app.button(key=key).click().run()
    assert asked == [expected] and not app.exception


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"predicted": 7},
        {"truth": 3, "below": 80},
        {"image": 0, "nearest": 9},
        {"predicted": -1, "cluster": 12, "truth": 0, "below": 1, "image": 999, "nearest": 5000},
    ],
)
def test_conditions_come_back_from_an_address(wanted):
    assert filters.parse_conditions(Conditions(**wanted).text()) == Conditions(**wanted)


@pytest.mark.parametrize(
    "text", ["", ":", "predicted", "predicted:x", "text:3", "__class__:3", "truth:²", "below:" + 40 * "9"]
)
def test_what_means_nothing_in_an_address_is_no_condition(text):
    assert filters.parse_conditions(text) == Conditions() and not Conditions()


def naive(run, epoch, wanted) -> list[int]:
    """The ids of the images that fit, asked of every image by itself."""
    features = snapshots.read_snapshot(run.snapshots, epoch)
    vectors = {int(i): v.astype(float) for i, v in zip(features.feature_index, features.features, strict=True)}
    near = set(vectors)
    if wanted.image is not None:
        own = vectors[wanted.image]
        cosine = {i: own @ v / np.linalg.norm(own) / np.linalg.norm(v) for i, v in vectors.items()}
        others = sorted((i for i in vectors if i != wanted.image), key=lambda i: -cosine[i])
        near = {wanted.image, *others[: wanted.nearest]}
    found = []
    for row in points.read_points(run, epoch).itertuples():
        fits = wanted.predicted is None or row.predicted == wanted.predicted
        fits = fits and (wanted.truth is None or row.truth == wanted.truth)
        fits = fits and (wanted.below is None or 100 * row.confidence < wanted.below)
        if fits and row.image in near:
            found.append(int(row.image))
    return sorted(found)


@pytest.mark.parametrize(
    "wanted",
    [
        {"predicted": 8},
        {"truth": 9},
        {"below": 60},
        {"image": "first", "nearest": 15},
        {"truth": 9, "below": 90},
        {"predicted": 6, "below": 95, "image": "first", "nearest": 300},
    ],
)
def test_the_images_that_fit_are_those_of_a_loop_over_all(run, wanted):
    table = points.read_points(run, 3)
    wanted = Conditions(**wanted | ({"image": int(table["image"].iloc[4])} if "image" in wanted else {}))
    expected = naive(run, 3, wanted)
    assert 0 < len(expected) < len(table)
    assert filters.find_matching_ids(run, 3, table, wanted).tolist() == expected


def fill(at, **values):
    for name, value in values.items():
        (at.selectbox if name in filters.CLASSES else at.number_input)(key=f"where_{name}").set_value(value)
    at.button(key="where_select").click().run()
    assert not at.exception
    return at


def test_the_form_chooses_what_fits_and_a_link_brings_it_back(run, open_page):
    expected = naive(run, 3, Conditions(predicted=6, below=95))
    assert len(expected) > 1
    at = fill(open_page(run), predicted=6, below=95)
    assert at.query_params["where"] == "predicted:6,below:95"
    assert [head.value for head in at.subheader] == [f"{len(expected)} selected images"]
    again = open_page(run, where="predicted:6,below:95")
    assert [head.value for head in again.subheader] == [f"{len(expected)} selected images"]
    assert again.number_input(key="where_below").value == 95 and again.selectbox(key="where_predicted").value == 6
    again.button(key="lasso_clear").click().run()
    assert not again.subheader and "where" not in again.query_params
    assert again.number_input(key="where_below").value is None


def test_what_fits_nothing_is_said(run, open_page):
    labeled = int(points.read_partition(run).split.labeled[0])
    at = open_page(run, where=f"image:{labeled}")
    assert not at.subheader and f"image\\: {labeled} is not on this map" in at.error[0].value.replace("\u2060", "")
    image = int(points.read_points(run, 3)["image"].iloc[0])
    truth = int(points.read_points(run, 3)["truth"].iloc[0])
    at = open_page(run, where=f"truth:{(truth + 1) % 10},image:{image},nearest:1,below:1")
    assert not at.subheader and not at.error and "No image matches" in at.info[0].value


def test_the_last_of_form_and_lasso_counts(run, open_page, monkeypatch):
    images = points.read_points(run, 3)["image"].to_numpy()[:7].tolist()
    at = open_page(run, where="predicted:9")
    monkeypatch.setattr(page, "show_map", lambda *how, **more: MapEvents(None, np.array(images), True))
    at.run()
    assert [head.value for head in at.subheader] == ["7 selected images"] and "where" not in at.query_params
    tokens = []
    monkeypatch.setattr(page, "show_map", lambda *how, **more: tokens.append(more["token"]) or MapEvents())
    fill(at, below=50)
    assert tokens[-1] != f"{run.id} 0"  # the browser forgets what was drawn
    assert at.query_params["where"] == "below:50" and at.subheader


def test_selected_images_are_put_in_a_cluster_that_is_there(open_page, run):
    app = open_page(run, where="predicted:7")
    box = next(box for box in app.selectbox if box.label == "Move to")
    box.set_value(3).run()
    said = naming.naming_of_epoch(naming.read_entries(run), 3)
    assert not app.exception and {said.root(to) for to in said.moved.values()} == {3} and not said.confirmed
    naming.undo_last(run, 3)


def test_selected_images_get_a_name_in_one_step_and_the_same_name_again_adds_to_it(run):
    table = points.read_points(run, 3)
    for predicted, name in ((7, "zebra"), (8, " Zebra ")):  # AppTest types no new option into a selectbox
        selection._put_in_cluster(run, 3, table["image"][table["predicted"] == predicted].tolist(), name)
        assert selection._ERROR not in selection.st.session_state
    said = naming.naming_of_epoch(naming.read_entries(run), 3)
    (cluster,) = [one for one, name in said.names.items() if name == "zebra"]
    there = {image for image, to in said.moved.items() if said.root(to) == cluster}
    assert there == set(table["image"][table["predicted"].isin([7, 8])].tolist()) and not said.confirmed
    naming.undo_last(run, 3)
    naming.undo_last(run, 3)


def test_the_map_is_told_what_fits_and_the_gallery_the_surest_first(run, open_page):
    app, expected = open_page(run, where="below:60"), naive(run, 3, Conditions(below=60))
    mask = maps_of(app)["map"]["mask"]
    assert np.flatnonzero(np.unpackbits(mask, bitorder="little")).tolist() == expected
    told = [json.loads(element.proto.json or "null") for element in app.get("bidi_component")]
    (head,) = [one for one in told if isinstance(one, dict) and "opened" in one]
    ids, percent = (column_of(head[name], kind) for name, kind in (("ids", np.int32), ("confidence", np.uint8)))
    assert sorted(ids.tolist()) == expected and (np.diff(percent.astype(int)) <= 0).all() and percent.max() <= 60
