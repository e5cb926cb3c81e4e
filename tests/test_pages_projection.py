"""The Projection page without a browser: what a lasso was around, what can be coloured by, with and without a truth."""

import csv
import io

import numpy as np
import pytest

from lps import naming, snapshots
from lps.runs import Run
from lps.ui import coloring, lasso, maps, plot, points
from lps.ui.live import history
from lps.ui.style import LIGHT
from tests.sample_runs import make_run
from tests.visiting import visit


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
    monkeypatch.setattr(maps, "explore", lambda *how: plot.Touch(None, tuple(images)))


# ---------------------------------------------------------------------------------------------------- what is reported


def packed(ids) -> str:
    """As plot.js does it."""
    ordered = np.sort(np.array(ids))
    gaps = np.concatenate([ordered[:1], np.diff(ordered)])
    return ".".join(np.base_repr(gap, 36).lower() for gap in gaps)


@pytest.mark.parametrize("ids", [[0], [5, 3, 900], list(range(50_000)), [2**31 - 1]])
def test_ids_arrive_as_they_were_sent(ids):
    assert plot.selected_ids({"token": "t", "ids": packed(ids)}, "t") == tuple(sorted(ids))


@pytest.mark.parametrize(
    "reported",
    [None, 7, {}, {"token": "t"}, {"token": "t", "ids": 3}, {"token": "t", "ids": ""}, {"token": "t", "ids": "1.-2"}]
    + [{"token": "t", "ids": words} for words in ("1..2", "zzzzzzz", "1 2", "1_0", "½")]
    + [{"token": "other", "ids": "1.2"}],
)
def test_whatever_else_is_reported_selects_nothing(reported):
    assert plot.selected_ids(reported, "t") == ()


# ---------------------------------------------------------------------------------------------------- a selection


def test_a_selection_is_counted_and_shown(run, open_page, monkeypatch):
    images = points.table(run, 3)["image"].to_numpy()[:60]
    select_images(monkeypatch, *images.tolist())
    app = open_page(run)
    assert [head.value for head in app.subheader] == ["60 selected images"]
    table = points.table(run, 3).set_index("image").loc[images]
    shown = app.dataframe[0].value.set_index("Class")
    for class_id, name in enumerate(points.partition(run).split.class_names):
        expected = [(table["truth"] == class_id).sum(), (table["predicted"] == class_id).sum()]
        assert (shown.loc[name].tolist() if name in shown.index else [0, 0]) == expected
    assert any("mean confidence" in caption.value for caption in app.caption)


def test_nothing_selected_shows_no_gallery(run, open_page, monkeypatch):
    select_images(monkeypatch)
    app = open_page(run)
    assert not app.subheader and not app.dataframe


def test_the_table_to_take_away_has_every_image_and_no_formula(run):
    rows = points.table(run, 3).head(5)
    names = ("=1+1", *points.partition(run).split.class_names[1:])
    lines = list(csv.DictReader(io.StringIO(lasso.as_csv(rows.assign(predicted=0), names, ()))))
    assert [int(line["image"]) for line in lines] == rows["image"].tolist()
    assert {line["predicted"] for line in lines} == {"'=1+1"} and {line["file"] for line in lines} == {""}
    assert [float(line["confidence"]) for line in lines] == pytest.approx(rows["confidence"].tolist(), abs=1e-4)


def test_a_selection_becomes_a_cluster_of_its_own(tmp_path, open_page, monkeypatch):
    run = make_run(tmp_path, epochs=2)
    images = sorted(points.table(run, 2)["image"].to_numpy()[[3, 9, 11]].tolist())
    select_images(monkeypatch, *images)
    app = open_page(run)
    app.button(key="lasso_split").click().run()
    assert not app.exception and not app.error
    assert sorted(naming.at(naming.read_entries(run), 2).moved) == images
    assert "Your clusters" in coloring.available(run, 2).values()
    found = dict((label, rows) for label, rows, _ in coloring.groups(run, 2, points.table(run, 2), "cluster", LIGHT))
    assert found["10"].sum() == 3


# ---------------------------------------------------------------------------------------------------- colours


def test_taken_up_are_those_above_the_threshold_of_the_predicted_group(run):
    table, split = points.table(run, 3), points.partition(run).split
    found = snapshots.read_snapshot(run.snapshots, 3)
    row_of = {int(image): row for row, image in enumerate(split.unlabeled)}
    limits = {g: history(run).column(f"threshold/{g}")[3] for g in ("seen", "novel")}
    groups = {label: rows for label, rows, _ in coloring.groups(run, 3, table, "adopted", LIGHT)}
    assert sum(rows.astype(int) for rows in groups.values()).tolist() == [1] * len(table)
    for place, image in enumerate(table["image"]):
        row = row_of[image]
        group = "seen" if found.predicted[row] < split.classes.seen else "novel"
        passes = float(found.confidence[row]) >= limits[group]
        assert groups[f"Taken up as {group}" if passes else "Not sure enough"][place]


def test_without_a_truth_nothing_asks_for_one(blind, open_page, monkeypatch):
    assert not set(coloring.OF_TRUTH) & set(coloring.available(blind, 2))
    images = points.table(blind, 2)["image"].to_numpy()[:20].tolist()
    select_images(monkeypatch, *images)
    app = open_page(blind, image=str(images[0]), color="called")
    assert not app.error and app.dataframe[0].value.columns.tolist() == ["Class", "Predicted"]
    assert any("20 of unknown class" in caption.value for caption in app.caption)


@pytest.mark.parametrize("key", ["predicted", "confidence", "called", "adopted"])
def test_every_colour_of_a_run_without_truth(blind, open_page, key):
    app = open_page(blind, color=key)
    assert not app.error and app.get("bidi_component")


def test_neighbours_are_told_and_can_be_missing(run, open_page):
    image = int(points.table(run, 3)["image"].iloc[0])
    said = [caption.value for caption in open_page(run, image=str(image)).caption]
    assert any("of 12 have its prediction" in words for words in said)
    labeled = int(points.partition(run).split.labeled[0])
    assert points.neighbours(run, 3, labeled, 5) is None


def test_maps_of_all_epochs_can_be_asked_for(run, open_page, monkeypatch):
    asked = []
    monkeypatch.setattr(maps.projection, "start_all", lambda *how: asked.append(how[1:]))
    app = open_page(run, map="umap", epoch="2")
    app.button(key="all_epochs").click().run()
    assert asked == [("umap", 2)] and not app.exception
