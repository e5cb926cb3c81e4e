"""Hidden runs: no page offers them, unless its address names one or a person asks for them."""

import pytest

from tests.sample_runs import make_run
from tests.shares import in_turn
from tests.visiting import visit

BOXES = {"live": "Runs", "pace": "Runs", "compare": "Runs", "projection": "Run", "clusters": "Run", "review": "Run"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    seen, hidden = make_run(root, epochs=2, name="open one"), make_run(root, epochs=2, seed=1, name="put away")
    hidden.write_meta(hidden=True)
    return seen, hidden


@pytest.fixture
def options(monkeypatch, runs):
    """options(page, hidden="true") -> what the page's box of runs offers, of the two runs."""

    def find(page, **query):
        monkeypatch.setenv("LPS_RUNS", str(runs[0].root))
        app = visit(page, **query)
        box = next(box for box in [*app.selectbox, *app.multiselect] if box.label == BOXES[page])
        return {name for name in ("open one", "put away") if any(name in option for option in box.options)}, app

    return find


@pytest.mark.parametrize("page", in_turn(BOXES, 3))
def test_they_come_back_where_they_are_asked_for(options, runs, page):
    assert options(page)[0] == {"open one"}
    assert options(page, run=runs[1].id)[0] == {"open one", "put away"}
    found, app = options(page, hidden="true")
    assert found == {"open one", "put away"} and [toggle.label for toggle in app.toggle][0].startswith("Show 1 hidden")


def test_effects_counts_open_runs_alone(monkeypatch, runs, tmp_path):
    monkeypatch.setattr("lps.store.run_folders.RECORDED", tmp_path / "no recordings")
    monkeypatch.setenv("LPS_RUNS", str(runs[0].root))
    assert "1 run" in visit("effects").selectbox[0].options[0]
    assert "2 runs" in visit("effects", hidden="true").selectbox[0].options[0]


def test_home_lists_open_runs_alone_and_says_where_the_others_are(monkeypatch, runs, tmp_path):
    monkeypatch.setenv("LPS_RUNS", str(runs[0].root))
    app = visit("home")
    texts = " ".join(element.value for element in [*app.markdown, *app.text, *app.caption])
    assert "open one" in texts and "put away" not in texts
    make_run(tmp_path, epochs=2).write_meta(hidden=True)
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    assert any("All runs are hidden" in caption.value for caption in visit("home").caption)


def test_runs_says_that_only_hidden_runs_match(monkeypatch, runs):
    monkeypatch.setenv("LPS_RUNS", str(runs[0].root))
    text = visit("runs", find="away").info[0].value
    assert text == "No runs match, except for 1 hidden run. Turn on “Show 1 hidden” above."
    assert visit("runs", find="elsewhere").info[0].value == "No runs match. Remove a filter above."
    assert len(visit("runs", find="away", hidden="true").dataframe[0].value) == 1
