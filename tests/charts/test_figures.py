"""`lps.figures`: the Python that a chart hands out draws the same figure as the page."""

import json
import os
import subprocess
import sys

import pytest

from lps import ConfigError, api, figures
from lps.scheduler import launcher
from lps.studies import presets
from tests.sample_runs import make_run
from tests.studies.test_search import asked, drive
from tests.ui.test_pages_blind import without_truth
from tests.ui.test_pages_sweeps import fill
from tests.visiting import maps_of, visit


def traces(figure) -> list[dict]:
    """What a figure draws, but for the frame around the point of a map that was clicked."""
    drawn = json.loads(figure.to_json())["data"]
    return [trace for trace in drawn if trace.get("hoverinfo") != "skip" or trace.get("customdata") != []]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two margins, two seeds each."""
    root = tmp_path_factory.mktemp("runs")
    settings = [{"margin_scale": scale} for scale in (1.0, 5.0)]
    return [make_run(root, epochs=4, seed=seed, settings=one) for one in settings for seed in (0, 1)]


@pytest.fixture(scope="module")
def setups(tmp_path_factory):
    """Eight setups, of which each was scored at another epoch; the first of them with two seeds."""
    root, made = tmp_path_factory.mktemp("setups"), []
    for place, (scale, temperature) in enumerate((c, t) for c in (1.0, 5.0) for t in (0.2, 0.3, 0.4, 0.5)):
        own = {"margin_scale": scale, "temperature": temperature}
        for seed in (0, 1)[: max(1, 2 - place)]:
            made.append(make_run(root, epochs=8, written=place + 1, seed=seed, settings=own, pretrain=2))
    return made


@pytest.mark.parametrize("page, keys, query", [
    ("live", {"pace", "losses", "pseudo_labels", "pi_hat", "class_accuracy"}, {"epoch": "3"}),
    ("explain", {"explain_shares"}, {"epoch": "3"}),
    ("clusters", {"confusion"}, {"overview": "confusion"}),
])  # fmt: skip
def test_charts_of_a_run(charts, carried_out, runs, page, keys, query):
    shown = charts(runs[0].root, page, run=[runs[0].id], **query)
    for key in keys:
        chart, code = shown[key]
        assert traces(carried_out(code)) == traces(chart) and len(chart.data), key


@pytest.mark.parametrize("page, key, query", [
    ("live", "points", {"epoch": "3"}), ("projection", "map", {}), ("projection", "map", {"color": "truth"}),
])  # fmt: skip
def test_the_code_of_a_map_draws_its_groups(runs, monkeypatch, carried_out, page, key, query):
    monkeypatch.setenv("LPS_RUNS", str(runs[0].root))
    shown = maps_of(visit(page, run=runs[0].id, **query))[key]
    groups = {label: set(shown["ids"][shown["codes"] == code]) for code, (label, _) in enumerate(shown["groups"])}
    made = carried_out(shown["code"])
    assert {trace.name: set(trace.customdata) for trace in made.data} == {k: v for k, v in groups.items() if v}


@pytest.mark.slow
def test_charts_of_several_runs(drawn, runs):
    two = [runs[0].id, runs[2].id]
    chart, made = drawn(runs[0].root, "live", "pace_of_runs", run=two)
    assert traces(made) == traces(chart) and len(chart.data) == 8
    for key in ("difference-novel", "difference-gap"):
        chart, made = drawn(runs[0].root, "pace", key, run=[*two, runs[3].id])
        assert traces(made) == traces(chart) and [trace.name for trace in made.data] == ["A − B", "A − C"]


def test_the_pace_of_a_run_beside_others_has_its_lines(drawn, runs):
    chart, made = drawn(runs[0].root, "pace", "pace-A", run=[runs[0].id, runs[2].id])
    lines = {trace.name: list(trace.y) for trace in chart.data if trace.name in ("Seen", "Novel")}
    assert lines == {trace.name: list(trace.y) for trace in made.data if trace.name in lines} and len(lines) == 2


def test_how_sure_a_run_was_of_an_image(drawn, runs):
    images = [row["image"] for row in api.Run(runs[0].folder).labels(4) if row["predicted"] is not None]
    chart, made = drawn(runs[0].root, "clusters", "biography", run=[runs[0].id], image=str(images[7]))
    assert traces(made) == traces(chart)


@pytest.mark.parametrize("query", [{}, {"run": [0, 1, 2]}, {"find": "margin_scale=5"}])
def test_charts_of_a_board(charts, carried_out, runs, query):
    query = query | {"run": [runs[k].id for k in query.get("run", [])]}
    wanted = "y=accuracy/novel y=accuracy/seen;smooth=0.5;log=y y=kl;x=step y=accuracy/novel;by=margin_scale".split()
    shown = charts(runs[0].root, "charts", chart=wanted, **query)
    for chart, code in (shown[f"board_{place}"] for place in range(4)):
        assert traces(carried_out(code)) == traces(chart)


def test_a_chart_of_a_board_with_a_hidden_run_and_a_pinned_colour(drawn, runs):
    query = {"off": [runs[0].id, "gone"], "pin": [f"{runs[1].id}:123456"]}
    shown, made = drawn(runs[0].root, "charts", "board_0", chart="y=accuracy/novel", **query)
    expected = [trace for trace in traces(shown) if trace["legendgroup"] != runs[0].id]
    assert traces(made) == expected and len(expected) == 3
    assert [t["line"]["color"] for t in expected if t["legendgroup"] == runs[1].id] == ["#123456"]


@pytest.mark.parametrize("query", [{}, {"curve": "kl", "by": "margin_scale", "band": "interval"}])
def test_curves_of_groups(drawn, runs, query):
    chart, made = drawn(runs[0].root, "compare", "curves_of_groups", **query)
    assert traces(made) == traces(chart) and len(chart.data) > 2


@pytest.mark.slow
def test_a_run_without_truth(tmp_path, drawn):
    run = without_truth(make_run(tmp_path, epochs=3))
    for key in ("pace", "cluster_sizes"):
        chart, made = drawn(tmp_path, "live", key, run=[run.id], part="training")
        assert traces(made) == traces(chart) and len(chart.data)


@pytest.mark.parametrize("keys, query", [
    ({"effect_curves"}, {"setting": "margin_scale"}),
    ({"effect_matrix", "effect_main"}, {"measure": "novel", "rows": "temperature", "columns": "margin_scale"}),
    ({"effect_matrix"}, {"measure": "gap", "protocol": "strict"}),
    ({"effect_parallel", "effect_importance"}, {"measure": "gap", "view": "lines"}),
])  # fmt: skip
def test_charts_of_settings(charts, carried_out, setups, keys, query):
    shown = charts(setups[0].root, "effects", **query)
    for key in keys:
        chart, code = shown[key]
        assert traces(carried_out(code)) == traces(chart), key


@pytest.mark.parametrize("page, query", [("effects", {"setting": "margin_scale"}), ("compare", {})])
def test_differences_and_their_intervals(drawn, setups, page, query):
    chart, made = drawn(setups[0].root, page, "against_intervals", **query)

    def points(figure):
        return sorted(float(x) for trace in figure.data for x in trace.x)

    def reach(figure):
        return sorted(float(x) for trace in figure.data if trace.error_x.array is not None for x in trace.error_x.array)

    assert points(chart) and points(made) == pytest.approx(points(chart)) and reach(made) == pytest.approx(reach(chart))


def test_differences_that_mix_what_the_comparison_keeps_apart_have_no_python(tmp_path, charts):
    """Of a pair of values there is a run in bf16, too."""
    for scale, temperature, precision in ((1, 0.2, "fp32"), (1, 0.2, "bf16"), (1, 0.4, "fp32"), (5, 0.4, "fp32")):
        own = {"margin_scale": float(scale), "temperature": temperature, "precision": precision}
        make_run(tmp_path, epochs=4, settings=own, pretrain=0)
    shown = charts(tmp_path, "effects", setting="temperature")
    assert shown["against_intervals"][1] == "" and shown["effect_curves"][1]


def test_a_curve_of_a_sweep_beside_the_papers(tmp_path, charts, carried_out):
    asked = presets.PresetRequest("C", seeds=(0, 1), fixed={"epochs": "2"})
    fill(tmp_path, asked, ["finished"] * 7)
    shown = charts(tmp_path, "sweeps", sweep=asked.name)
    ((chart, code),) = (one for key, one in shown.items() if key.startswith("sweep_curve"))
    assert traces(carried_out(code)) == traces(chart) and len(chart.data) > 5


@pytest.mark.slow
def test_charts_of_a_search(tmp_path, monkeypatch, charts, carried_out):
    monkeypatch.setenv("LPS_CPU_SLOTS", "2")
    one = asked(tmp_path / "runs", trials=6)
    assert drive(one) == "finished"
    monkeypatch.setattr(launcher, "dispatch", lambda *_: [])
    shown = charts(one.root, "search", search=one.name)
    own = {key: pair for key, pair in shown.items() if key.startswith("search_")}
    assert len(own) >= 4
    for key, (chart, code) in own.items():
        assert traces(carried_out(code)) == traces(chart), key


@pytest.mark.slow
def test_every_chart_with_a_python_button_is_a_public_function(runs, charts):
    for page in ("live", "pace", "charts", "compare", "effects", "clusters", "projection", "explain"):
        for key, (_, code) in charts(runs[0].root, page, run=[runs[0].id]).items():
            if code:
                name = code.split("figures.", 1)[1].split("(")[0]
                assert getattr(figures, name).__doc__, (page, key)
                assert len(code.strip().splitlines()) == 4 and "dark" not in code


def test_runs_are_given_as_run_folder_or_path(runs):
    one, same, again = (figures.pace(run) for run in (api.Run(runs[0].folder), runs[0].folder, str(runs[0].folder)))
    assert traces(one) == traces(same) == traces(again)
    assert traces(figures.pace(runs[0].folder, dark=True)) != traces(one)


@pytest.mark.parametrize("call, words", [
    (lambda run: figures.pace("/nowhere/at/all"), "run: '/nowhere/at/all' is not a folder"),
    (lambda run: figures.measurement(run, "nothing"), "name: 'nothing' was not measured by "),
    (lambda run: figures.class_accuracy(run, 99), "epoch: 99 of "),
    (lambda run: figures.cluster_sizes(run, 99), "epoch: 99 has no stored predictions; choices: 1, 2"),
    (lambda run: figures.confusion(run, 99), "epoch-0099.npz"),
    (lambda run: figures.image_confidence(run, 10**9), "image: 1000000000 is not an unlabeled image of "),
    (lambda run: figures.map_of_features(run, 4, "tsne"), "method: there is no 'tsne' map of epoch 4"),
    (lambda run: figures.intervals([run], "/"), "against: "),
    (lambda run: figures.setting_curves([run], "nothing"), "setting: 'nothing' is not a setting of these runs"),
    (lambda run: figures.setting_curves([run], "lr", judge="me"), "scoring: judge is not one of protocol, select"),
    (lambda run: figures.curves([]), "runs: have no run"),
    (lambda run: figures.curves([run], band="wide"), "band: 'wide' is not one of range, std, interval, none"),
    (lambda run: figures.sweep_curve("nothing", root=run.root), "name: 'nothing' is not a sweep of a preset in "),
    (lambda run: figures.search_history("nothing", root=run.root), "search: 'nothing' is not a search in "),
])  # fmt: skip
def test_what_cannot_be_drawn_is_one_sentence(runs, call, words):
    with pytest.raises(ConfigError) as error:
        call(runs[0])
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.slow
def test_figures_need_no_streamlit(runs):
    call = f"figures.pace({str(runs[0].folder)!r})"
    code = f"import sys; sys.modules['streamlit'] = None; from lps import figures; {call}"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": os.getcwd()}, timeout=120)
