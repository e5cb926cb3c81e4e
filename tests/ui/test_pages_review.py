"""The page Review in every state, through app.py, without a browser."""

import json

import numpy as np
import pytest

from lps.analysis import mixed_clusters, naming
from lps.ui.pictures import points, predictions
from tests.sample_runs import make_run
from tests.visiting import visit, words_of


@pytest.fixture
def open_page(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    return lambda **query: visit("review", **query)


def told(app) -> dict:
    """What the deck of pictures is given; {} where there is none."""
    found = [json.loads(element.proto.json) for element in app.get("bidi_component") if element.proto.json]
    return next((data for data in found if "readonly" in data), {})


def test_the_deck_is_that_of_the_epoch_that_has_names(open_page, tmp_path):
    run = make_run(tmp_path, epochs=3)
    app = open_page(run=run.id)
    told_by_page = told(app)
    split = points.read_partition(run).split
    (about,) = (one for one in app.caption if "Reviewed here" in one.value)
    assert f": 1,000 of {split.pictures_in_words('image')}. The small images" in about.value
    assert "differs from the confidence on Clusters" in about.help and "20 most similar" in about.help
    assert (told_by_page["address"], told_by_page["readonly"]) == (f"/desk/{run.id}/3", False)
    assert told_by_page["noun"] == "Image"
    naming.record_steps(run, 2, [{"do": "name", "id": 7, "name": "seven"}])
    assert told(open_page(run=run.id))["address"].endswith("/2")
    assert told(open_page(run=run.id, epoch="1"))["address"].endswith("/1")


def test_without_an_epoch_there_is_nothing_to_review(open_page, tmp_path):
    run = make_run(tmp_path, "running", written=0)
    app = open_page(run=run.id)
    assert "has nothing to show here" in words_of(app) and not told(app)


@pytest.mark.parametrize("name", ["names.json", "split.npz", "snapshots/epoch-0002.npz"])
def test_a_damaged_file_is_one_sentence(open_page, tmp_path, name):
    run = make_run(tmp_path, epochs=2)
    (run.folder / name).write_bytes(b"{")
    app = open_page(run=run.id)
    assert len(app.error) == 1 and "is damaged" in app.error[0].value and not told(app)


def test_clusters_that_look_mixed_are_a_click_away_the_largest_first(open_page, tmp_path, monkeypatch):
    run = make_run(tmp_path, epochs=2)
    monkeypatch.setattr(predictions.clusters, "read_first_features", lambda *_: (np.zeros((1, 2)), np.zeros(1, int)))
    monkeypatch.setattr(
        mixed_clusters, "find_mixed", lambda features, here, sure: np.arange(len(sure)) >= len(sure) - 2
    )
    predictions._describe_clusters.clear()
    page = open_page(run=run.id)
    found = [link for link in page.get("page_link") if "cluster=" in link.proto.query_string]
    sizes = [int(link.proto.label.split(", ")[1].split()[0]) for link in found]
    assert len(found) == 2 and sizes == sorted(sizes, reverse=True)
    assert all(f"run={run.id}" in link.proto.query_string for link in found)
    predictions._describe_clusters.clear()
    monkeypatch.setattr(mixed_clusters, "find_mixed", lambda features, here, sure: np.zeros(len(sure), bool))
    assert "look mixed" not in words_of(open_page(run=run.id))
