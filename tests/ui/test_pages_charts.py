"""The page Charts: which runs, which charts, what is kept of them."""

import pytest

from lps.ui.board import page
from tests import sample_runs
from tests.shares import in_turn
from tests.visiting import charts_of, visit, words_of


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for margin in (2.0, 5.0):
        for seed in (0, 1):
            name = f"margin {margin:g}, {seed}"
            sample_runs.make_run(root, epochs=5, seed=seed, name=name, settings={"margin_scale": margin})
    return root


@pytest.fixture
def root(filled, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(filled))
    (filled / ".boards.json").unlink(missing_ok=True)
    return filled


def names(chart: dict) -> set[str]:
    return {trace["name"] for trace in chart["data"] if trace.get("showlegend") is not False}


def test_without_a_choice_two_charts_show_every_run(root):
    found = charts_of(visit("charts"))
    assert sorted(found) == ["board_0", "board_1"] and len(names(found["board_0"])) == 4
    assert "4 lines" in found["board_0"]["alt"]


@pytest.mark.slow
def test_many_runs_are_drawn_as_means_until_somebody_wants_each_of_them(root, tmp_path, monkeypatch):
    """Fourteen runs: two lines for C, the choice of each run stays in the address."""
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    for margin in (2.0, 5.0):
        for seed in range(7):
            sample_runs.make_run(tmp_path, epochs=1, pretrain=0, seed=seed, settings={"margin_scale": margin})
    at = visit("charts")
    assert names(charts_of(at)["board_0"]) == {f"margin_scale={c} (n = 7)" for c in (2, 5)}
    assert "14 runs: each line is the mean of runs with equal settings except for the seed." in words_of(at)
    at.selectbox(key="chart0_by").set_value("").run()
    assert at.query_params["chart"] == ["y=accuracy/novel", "y=accuracy/seen;by=everything"]
    assert "14 lines" in charts_of(at)["board_0"]["alt"] and "2 lines" in charts_of(at)["board_1"]["alt"]


def test_the_values_of_a_sweep_name_its_runs_as_the_run_list_does(tmp_path, monkeypatch):
    """A narrow column showed "margin_scale=2, entropy_w" in every row."""
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    for margin in (2.0, 5.0):
        settings, name = {"margin_scale": margin, "entropy_weight": 0.25}, f"margin_scale={margin:g}, lps seed 0"
        sample_runs.make_run(tmp_path, epochs=1, pretrain=0, name=name, settings=settings)
    assert sorted(visit("charts").dataframe[0].value["Run"]) == ["C=2", "C=5"]


def test_filter_and_charts_are_in_the_address(root):
    at = visit(
        "charts", find="margin_scale=5", chart=["y=kl;log=y;x=step", "y=accuracy/all;by=margin_scale;smooth=0.5"]
    )
    found = charts_of(at)
    assert names(found["board_0"]) == {"margin 5, 0", "margin 5, 1"}
    assert found["board_0"]["layout"]["yaxis"]["type"] == "log"
    assert names(found["board_1"]) == {"margin_scale=5 (n = 2)"}
    assert list(at.dataframe[0].value["Run"]) == ["margin 5, 1", "margin 5, 0"]


def test_a_filter_that_fits_none_or_cannot_be_read_is_said(root):
    assert visit("charts", find="margin_scale=7").info[0].value.startswith("No runs match")
    at = visit("charts", find="marginn=7")
    assert "position 1" in at.error[0].value and charts_of(at)
    assert "has recorded" in " ".join(caption.value for caption in visit("charts", chart=["y=no/such"]).caption)


@pytest.mark.slow
def test_charts_are_added_changed_moved_and_removed(root):
    at = visit("charts", chart=["y=kl"])
    at.selectbox(key="new_y").set_value("accuracy/all").run()
    at.button(key="add_chart").click().run()
    assert at.query_params["chart"] == ["y=kl", "y=accuracy/all"] and not at.exception
    at.slider(key="chart0_smooth").set_value(0.5).run()
    assert at.query_params["chart"] == ["y=kl;smooth=0.5", "y=accuracy/all"]
    at.button(key="chart1_up").click().run()
    assert at.query_params["chart"] == ["y=accuracy/all", "y=kl;smooth=0.5"]
    at.button(key="chart0_remove").click().run()
    assert list(charts_of(at)) == ["board_0"] and not at.exception


def test_values_at_an_epoch_last_and_best(root):
    at = visit("charts", chart=["y=accuracy/novel"], epoch="2")
    assert list(at.dataframe[0].value) == [
        "Run", "Novel accuracy, epoch 2", "Novel accuracy, last", "Novel accuracy, best", "Novel accuracy, best epoch",
    ]  # fmt: skip
    assert "Novel accuracy, epoch 2" not in visit("charts").dataframe[0].value


def test_a_board_is_kept_and_opened(root):
    at = visit("charts", find="margin_scale=2", chart=["y=kl"])
    at.text_input(key="view_name").set_value("mine").run()
    at.button(key="keep_view").click().run()
    opened = visit("charts")
    opened.button(key="open_mine").click().run()
    assert not opened.exception and names(charts_of(opened)["board_0"]) == {"margin 2, 0", "margin 2, 1"}


def test_of_many_runs_the_newest_are_drawn(root, monkeypatch):
    monkeypatch.setattr(page, "MAX_RUNS", 3)
    at = visit("charts")
    assert len(names(charts_of(at)["board_0"])) == 3
    assert "newest 3 of 4 runs" in " ".join(caption.value for caption in at.caption)


ODD = ["0", "-1", "9" * 9, "", "x" * 2000, "**b** <i>", "y=;x=;by=;smooth=inf", "y=<b>;x=$x$;by=nothing", "\n", "é%"]


@pytest.mark.parametrize("text", in_turn(ODD, 3))
def test_whatever_stands_in_an_address_the_pages_are_drawn(root, text):
    visit("charts", chart=[text, text], epoch=text, off=[text, text], pin=[text, f"{text}:ffffff"])
    visit("runs", columns=[text, "lr"], pinned=text, by=text, group=text, held=text, against=text, sort=text)
    visit("runs", by=["margin_scale", text], sort="-lr", run=[text])


def test_symbols_at_the_lines_are_explained_and_all_runs_are_one_click_away(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    made = [
        sample_runs.make_run(tmp_path, epochs=2, settings={"margin_scale": c, "entropy_weight": c / 10})
        for c in (5.0, 10.0, 20.0)
    ]
    app = visit("charts", run=[run.id for run in made[:2]])
    said = words_of(app).replace("\\", "")
    assert "C = margin_scale, w = entropy_weight" in said and "Shown: 2 chosen runs." in said
    next(button for button in app.button if button.label == "Show all runs").click().run()
    assert "run" not in app.query_params and "chosen runs" not in words_of(app)
