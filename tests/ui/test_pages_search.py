"""The Search page in every state, through app.py, without a browser: the form, a search that goes on, what it found."""

import shutil
import sys

import numpy as np
import pytest

from lps.charts import search_charts
from lps.charts.palette import DARK, LIGHT
from lps.errors import UserError
from lps.scheduler import launcher
from lps.store.run_folders import list_runs
from lps.studies import search, sweeps
from lps.studies.search import list_searches, read_request
from lps.studies.search_results import read_results
from lps.ui.search import page as searches
from tests.studies.test_search import asked, drive
from tests.visiting import charts_of, visit, words_of


@pytest.fixture
def begun(monkeypatch):
    """The searches that would have been begun, instead of processes."""
    found: list[search.Search] = []
    monkeypatch.setattr(search, "start_driver", lambda one: not found.append(one))
    return found


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The folder of a search of real, quick runs that has ended."""
    folder = tmp_path_factory.mktemp("searched") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LPS_CPU_SLOTS", "2")
        assert drive(asked(folder, trials=6)) == "finished"
    return folder


@pytest.fixture
def hunted(ended, root):
    """A copy of that search among the runs of a test."""
    shutil.copytree(ended, root)
    return search.find_search(root, "hunt")


def button(app, key):
    return app.button(key=key)


def test_the_form_opens_with_a_search_that_can_be_started_and_writes_nothing(root, begun):
    app = visit("search")
    command = app.code[0].value
    assert "--space margin_scale=" in command and "--space lr=" in command and "--objective balanced" in command
    assert "No search has been started yet" in words_of(app) and not button(app, "search_start").disabled
    assert "20 runs, 2 at a time; time unknown" in words_of(app)
    assert "20 % of the labels are withheld" in words_of(app)
    assert not root.exists() and not begun


def test_a_click_begins_once_what_stood_there_and_what_the_command_beside_it_means(root, begun):
    app = visit("search")
    app.text_input(key="search_margin_scale_low").set_value("2").run()
    app.text_input(key="search_name").set_value("mine").run()
    app.number_input(key="search_trials").set_value(7).run()
    app.toggle(key="search_prune").set_value(False).run()
    command = app.code[0].value.split()
    button(app, "search_start").click().run()
    assert not app.exception and [one.name for one in begun] == ["mine"]
    request = begun[0].request()
    assert request.trials == 7 and request.space[0].low == 2 and request.objective == "balanced"
    assert request.base.split_validation_ratio == 0.2 and not request.prune and "--no-prune" in command
    spaces = [word for before, word in zip(command, command[1:]) if before == "--space"]
    settings = [word for before, word in zip(command, command[1:]) if before == "--set"]
    assert request == read_request("digits", "lps", spaces, settings, trials=7, prune=False, name="mine")
    assert app.query_params["search"] == "mine" and "Not started" in words_of(app)
    app.run()
    assert len(begun) == 1 and len(list_searches(root)) == 1


@pytest.mark.parametrize(
    "key, text, words",
    [
        ("search_margin_scale_low", "50", "is empty; expected LOW..HIGH"),
        ("search_lr_low", "0", "is not a number from 1e-08 to 100"),
    ],
)
def test_a_misfit_is_a_sentence_beside_its_field_and_nothing_can_be_started(root, begun, key, text, words):
    app = visit("search")
    app.text_input(key=key).set_value(text).run()
    assert words in words_of(app) and not [b for b in app.button if b.key == "search_start"]


def test_the_oracle_is_labelled_before_it_is_chosen_and_warned_of_after(root, begun):
    app = visit("search")
    (choice,) = app.radio
    assert "Oracle" in choice.options and not app.warning
    assert " ".join([*choice.options, *choice.proto.captions]).count("uses the hidden labels") == 1
    choice.set_value("oracle").run()
    assert "hidden labels" in app.warning[0].value
    assert "--objective oracle" in app.code[0].value and "withheld from training" not in words_of(app)


@pytest.mark.parametrize("method", ["gcd", "simclr", "fixmatch"])
def test_every_method_has_a_space_to_begin_with(root, begun, method):
    app = visit("search", method=method)
    assert "--space" in app.code[0].value and not button(app, "search_start").disabled


def test_a_failure_to_begin_is_a_sentence(root, monkeypatch):
    def refuse(one):
        raise UserError("search", "no process can be started")

    monkeypatch.setattr(search, "start_driver", refuse)
    app = visit("search")
    button(app, "search_start").click().run()
    assert "search: no process can be started" in words_of(app) and not app.exception


def test_without_optuna_the_page_says_how_to_get_it(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    app = visit("search")
    assert "optuna is not installed; install it with: pip install optuna" in words_of(app)


@pytest.mark.slow
def test_what_a_search_has_found_and_what_mattered(root, hunted):
    app = visit("search", search="hunt")
    result = read_results(hunted)
    words = words_of(app)
    assert f"Best so far: {result.best.value:.4f}" in words and f"in trial {result.best.number}" in words
    assert "LPS · digits · " in words
    assert "accuracy on withheld labels" in words.lower() and "ignores novel classes" in words
    table = app.dataframe[0].value
    assert list(table["Trial"]) == [5, 4, 3, 2, 1, 0] and list(table["Value"]) == [t.value for t in result.trials[::-1]]
    assert list(table["Run"]) == [t.runs[0] for t in result.trials[::-1]]
    assert table["State"].str.contains("★").sum() == 1 and "(usual)" in table["State"].iloc[-1]
    assert button(app, "search_more").label == "10 more trials"
    assert "From 6 finished trials" in words and "only a rough estimate" in words
    slices = {"search_setting_hunt_lr", "search_setting_hunt_margin_scale", "search_lines_hunt"}
    assert slices | {"search_history_hunt", "search_importance_hunt"} <= set(charts_of(app))


def test_the_list_has_every_search_and_a_damaged_one(root, begun):
    asked(root, name="one")
    (asked(root, name="two").folder / "search.json").write_text("{")
    words = words_of(visit("search"))
    assert "0 of 4 trials" in words and "search: two cannot be read" in words
    assert "search: two cannot be read" in words_of(visit("search", search="two"))
    assert "No search is called three" in words_of(visit("search", search="three"))


@pytest.mark.slow
def test_an_interrupted_search_goes_on_with_a_click_and_a_finished_one_can_have_more(root, hunted, begun):
    request = search.extend_search(hunted, trials=9)
    app = visit("search", search="hunt")
    assert request.trials == 9 and "All finished trials are saved" in words_of(app)
    button(app, "search_resume").click().run()
    assert [one.name for one in begun] == ["hunt"] and hunted.request().trials == 9
    search.extend_search(hunted, trials=6)
    button(visit("search", search="hunt"), "search_more").click().run()
    assert hunted.request().trials == 16 and len(begun) == 2


def test_a_search_under_way_can_be_stopped(root, monkeypatch):
    found = asked(root)
    monkeypatch.setattr("lps.studies.search_results.is_held", lambda path: True)
    app = visit("search", search="hunt")
    assert not found.is_stopping()
    button(app, "search_stop").click().run()
    assert found.is_stopping() and not app.exception and "Stopping" in words_of(app)


@pytest.mark.slow
def test_the_best_is_run_with_several_seeds_and_its_own_run_is_used_again(root, hunted, monkeypatch):
    monkeypatch.setattr(launcher, "launch_all", lambda runs, *rest, **more: None)
    app = visit("search", search="hunt")
    best = read_results(hunted).best
    before = {run.id for run in list_runs(root)}
    button(app, "search_best").click().run()
    assert not app.exception and app.title[0].value == "Sweep" and app.query_params["sweep"] == "best-of-hunt"
    swept = sweeps.runs_with_tag(root, "sweep:best-of-hunt")
    assert sorted(run.config().seed for run in swept) == [0, 1, 2]
    assert [run.id for run in swept if run.id in before] == list(best.runs)


@pytest.mark.slow
def test_the_link_to_the_launch_form_brings_the_settings(root, hunted):
    result = read_results(hunted)
    link = searches.launch_link(result, result.best)
    app = visit("launch", **link)
    assert app.text_input(key="form:seeds").value == "0, 1, 2"
    assert float(app.text_input(key="set:lr").value) == result.best.values["lr"]
    assert float(app.text_input(key="set:margin_scale").value) == result.best.values["margin_scale"]


def test_an_oracle_is_labelled_on_its_page_and_in_the_list(root):
    found = asked(root, objective="oracle")
    assert "oracle: uses the hidden labels" in words_of(visit("search"))
    page = words_of(visit("search", search="hunt"))
    assert "Oracle: uses the hidden labels" in page and "do not report it" in page
    assert found.request().objective == "oracle"


@pytest.mark.slow
@pytest.mark.parametrize("colors", [LIGHT, DARK])
def test_charts_tell_states_by_shape_and_draw_nothing_for_failures(root, hunted, colors):
    result = read_results(hunted)
    figure = search_charts.history(result, colors).figure()
    symbols = {trace.name: trace.marker.symbol for trace in figure.data if trace.mode == "markers"}
    assert len(set(symbols.values())) == len(symbols) == 3
    best = next(trace for trace in figure.data if trace.name == "Best so far")
    assert list(best.y)[-1] == result.best.value and list(best.y) == sorted(best.y)
    lr = search_charts.setting_slice(result, result.request.space[1], colors).figure()
    assert lr.layout.xaxis.type == "log"
    assert [p for trace in lr.data for p in trace.x] == [trial.values["lr"] for trial in result.trials]
    lines = search_charts.parallel(result, colors).figure().data
    assert len(lines) == 6 and all(len(line.y) == 3 for line in lines)
    best = lines[-1]
    values = result.best.values
    low, high = np.log10(1e-4), 0
    expected = [(values["margin_scale"] - 1) / 11, (np.log10(values["lr"]) - low) / (high - low), 1]
    assert best.name == "Best" and best.line.width > lines[0].line.width and list(best.y) == pytest.approx(expected)
    assert sum(search_charts.importance(dict(result.importance), colors).figure().data[0].x) == pytest.approx(1)
