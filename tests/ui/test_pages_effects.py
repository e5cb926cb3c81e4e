"""The Effects page in every state, through app.py, without a browser: curves, matrix, ablation; what a click starts."""

import itertools
import re
from base64 import b64decode
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lps.analysis import ablation, effects, paper_results, run_groups, run_scores
from lps.charts import effect_charts
from lps.charts.effect_charts import Axis
from lps.charts.palette import DARK, LIGHT
from lps.errors import UserError
from lps.settings.config import configure
from lps.settings.parameters import text_of
from lps.store.run_folders import list_runs
from lps.studies.sweep_layout import plan_runs, read_layout
from lps.ui.effects import ablations, backgrounds, page
from lps.ui.shared import group_differences
from tests.sample_runs import held, make_foreign, make_run, make_unreadable
from tests.visiting import charts_of, visit, words_of

SHORT = {"epochs": 2}


def make(root, seed=0, state="finished", lucky=True, **settings):
    written = 2 if state == "finished" else None
    return make_run(root, state, epochs=2, written=written, seed=seed, settings=settings, lucky=lucky)


def make_grid(root, seeds=(0,)):
    """Margin 5 and 10 with temperatures 0.2 and 0.4, but for the pair (10, 0.2)."""
    pairs = [(5.0, 0.2), (5.0, 0.4), (10.0, 0.4)]
    return {(c, t, s): make(root, s, margin_scale=c, temperature=t) for c, t in pairs for s in seeds}


def test_only_the_runs_of_the_address_are_looked_at_until_all_are_asked_for(root):
    chosen = [make(root, margin_scale=c).id for c in (5.0, 10.0)]
    make(root, use_margin=False)
    at = visit("effects", run=chosen)
    assert at.selectbox(key="picked_method").options == ["LPS · 2 runs"] and "Shown: 2 chosen runs." in words_of(at)
    next(button for button in at.button if button.label == "Show all runs").click().run()
    assert at.selectbox(key="picked_method").options == ["LPS · 3 runs"]
    assert "run" not in at.query_params
    assert not at.exception


def test_without_runs_in_the_address_the_newest_sweep_is_shown(root):
    sweep = [make(root, margin_scale=c) for c in (5.0, 10.0)] + [make(root, seed) for seed in (0, 1)]
    for run, name in zip(sweep, ("mine", "mine", "seeds only", "seeds only")):
        run.write_meta(tags=[f"sweep:{name}"])
    later = make(root, margin_scale=20.0)
    later.write_meta(tags=["sweep:effects"])
    later.folder.rename(root / f"2999{later.id[4:]}")
    at = visit("effects")
    assert at.selectbox(key="picked_method").options == ["LPS · 3 runs"], "with the run that completes it"
    assert "Shown: 3 runs of your newest sweep, mine." in words_of(at)
    next(button for button in at.button if button.label == "Show all runs").click().run()
    assert at.selectbox(key="picked_method").options == ["LPS · 5 runs"]
    assert visit("effects", runs="all").selectbox(key="picked_method").options == ["LPS · 5 runs"]


def keys_of(app) -> set[str]:
    return {button.key for button in app.button if (button.key or "").startswith("missing_")}


def array(value) -> list:
    """The numbers of an array in a figure, binary ones too."""
    if isinstance(value, dict):
        found = np.frombuffer(b64decode(value["bdata"]), value["dtype"])
        return found.reshape([int(n) for n in str(value.get("shape", len(found))).split(",")]).tolist()
    return value


def scored_of(*made) -> list[run_scores.Scored]:
    return [run_scores.score_run(run) for run in made]


def test_no_runs(root):
    app = visit("effects")
    assert "There are no runs yet" in words_of(app) and not keys_of(app)
    assert app.code[0].value == "python -m lps sweep --vary margin_scale=0,2,5,10,20 --seeds 0,1,2"
    assert not root.exists()


def test_no_run_has_finished(root):
    make(root, state="queued")
    make_unreadable(root)
    make_foreign(root)
    assert "No run has finished yet" in words_of(visit("effects"))


def test_one_run_says_what_to_vary(root):
    make(root, margin_scale=5.0)
    app = visit("effects")
    assert "There is one run. Vary a setting" in words_of(app)
    command = app.code[0].value
    assert command.startswith("python -m lps sweep --vary margin_scale=0,2,5,10,20 --seeds 0,1,2")
    assert "--set epochs=2" in command and "--set margin_scale=5" in command
    assert "effect_curves" not in charts_of(app) and len(app.dataframe) == 1  # the ablation table
    assert "missing_ablation" in keys_of(app)


def test_seeds_alone_are_no_effect(root):
    for seed in (0, 1, 2):
        make(root, seed)
    assert "All 3 runs differ in nothing but the seed" in words_of(visit("effects"))


@pytest.mark.parametrize("method", ["lps", "orca", "gcd", "simclr", "fixmatch"])
def test_the_example_of_every_method_can_be_swept(method):
    assert len(plan_runs(read_layout("digits", method, "0", varied=[page.example_values(method)]))) >= 3


def test_runs_that_have_not_finished_are_left_out_and_said(root):
    make(root)
    make(root, margin_scale=5.0)
    running = make(root, state="running", margin_scale=20.0)
    make(root, state="stopped", margin_scale=2.0)
    with held(running):
        app = visit("effects")
    said = words_of(app)
    assert "running; it is included once it has finished" in said and "stopped; only finished runs are included" in said
    assert "2 runs are left out" in said and "**2 of 3 runs have finished**; these numbers may change." in said
    assert app.selectbox(key="picked_setting").options == ["margin_scale · 2 values"]


@pytest.mark.slow
def test_the_page_restarts_when_a_run_ends(root, monkeypatch):
    watched = []
    monkeypatch.setattr(page.live_part, "restart_on_change", lambda read, _: watched.append((read, read())))
    running = make(root, state="running", margin_scale=5.0)
    with held(running):
        visit("effects", run=[running.id, make(root, margin_scale=10.0).id])
        assert [read() == first for read, first in watched] == [True]
    assert [read() == first for read, first in watched] == [False]


def test_many_runs_of_two_splits_and_two_methods(root):
    make_grid(root, seeds=(0, 1))
    make(root, **{"split.labeled_ratio": 0.1})
    make(root, **{"split.labeled_ratio": 0.1, "margin_scale": 5.0})
    make(root, method="gcd")
    app = visit("effects")
    splits = app.selectbox(key="picked_split")
    assert splits.options == ["Handwritten digits, 50 % labeled · 7 runs", "Handwritten digits, 10 % labeled · 2 runs"]
    assert app.selectbox(key="picked_method").options == ["LPS · 6 runs", "GCD · 1 run"]
    table = next(element.value for element in app.dataframe if "Seeds" in element.value)
    assert table["n"].tolist() == [2, 2] and "n = 2 seeds" in words_of(app)
    splits.select_index(1).run()
    app = visit("effects", split=app.query_params["split"])
    table = next(element.value for element in app.dataframe if "Seeds" in element.value)
    assert table["margin_scale"].tolist() == ["5", "10"] and table["n"].tolist() == [1, 1]
    assert "so the spread is unknown" in words_of(app)
    app = visit("effects", method="gcd")
    assert "The runs shown here are of GCD" in words_of(app)
    assert "preset" in ablations.explain_no_table("lps")


@pytest.mark.slow
def test_values_and_ablations_are_held_against_the_usual_ones(root):
    make_grid(root, seeds=(0, 1))
    make(root, use_margin=False)
    app = visit("effects")
    (setting,) = (element.value for element in app.dataframe if "Novel: result" in element.value)
    assert list(setting["Group"]) == ["C=5"]
    assert "difference from margin_scale=10" in charts_of(app)["against_intervals"]["alt"]
    app = visit("effects", view="ablation")
    (ablated,) = (element.value for element in app.dataframe if "Novel: result" in element.value)
    assert list(ablated["Group"]) == ["Without margin"]
    assert ablated["Novel: result"].tolist() == ["One seed: chance cannot be ruled out"]
    assert "difference from Full LPS" in charts_of(app)["ablated_intervals"]["alt"]


def test_the_setting_that_matters_comes_first(root):
    make(root, lucky=False, margin_scale=5.0, temperature=0.2)
    make(root, lucky=False, margin_scale=5.0, temperature=0.4)
    make(root, margin_scale=10.0, temperature=0.2)
    make(root, margin_scale=10.0, temperature=0.4)
    app = visit("effects")
    said = next(text for text in words_of(app).splitlines() if text.startswith("Largest effects on novel accuracy"))
    assert "accuracy (one seed: chance cannot be ruled out): **margin_scale** +" in said and "from 5 to 10" in said
    assert "averaged over the other varied settings (2 combinations)" in said
    assert "With temperature=0.4, **margin_scale=10** has the highest novel accuracy" in words_of(app)
    assert app.selectbox(key="picked_setting").options[0] == "margin_scale · 2 values"
    bars = charts_of(app)["effect_main"]["data"][0]
    assert array(bars["x"])[1] > 1 and array(bars["x"])[0] == pytest.approx(0)


def test_one_setting_opens_where_its_effect_is_largest(root):
    """By the other rules temperature=0.4, with its three values, would be first."""
    for margin, temperature, lucky in ((0.0, 0.2, False), (10.0, 0.2, True), (0.0, 0.4, True), (10.0, 0.4, True)):
        make(root, margin_scale=margin, temperature=temperature, lucky=lucky)
    make(root, margin_scale=5.0, temperature=0.4)
    app = visit("effects", setting="margin_scale")
    assert app.selectbox(key="picked_background").options[0].startswith("temperature=0.2 · 2 values")
    assert "With temperature=0.2, **margin_scale=10** has the highest novel accuracy" in words_of(app)


def test_changed_settings_that_all_backgrounds_share_are_named(root):
    made = scored_of(*make_grid(root).values())
    both = effects.find_backgrounds(made, ["margin_scale"])  # temperature 0.4, which is the default, and 0.2
    told = [words.split(" · ")[0] for words in backgrounds.describe_backgrounds(both)]
    assert told == ["temperature=0.4", "temperature=0.2"]
    assert (
        backgrounds.describe_fixed_settings(both[1], ["margin_scale", "temperature"]).replace("\\", "")
        == "temperature=0.2"
    )
    (cells,) = effects.find_backgrounds(made, ["margin_scale", "temperature"])
    assert backgrounds.describe_backgrounds([cells]) == ["default settings except epochs=2 · 3 cells, 3 runs"]
    assert backgrounds.describe_fixed_settings(cells, ["margin_scale", "temperature"]) == ""


def test_a_link_restores_everything_and_strange_ones_mean_the_usual(root):
    make_grid(root)
    app = visit("effects", split="x", method="../etc", setting="rm", background="?", cell=["1", "2", "3"], rows="no")
    assert app.selectbox(key="picked_setting").value == "margin_scale" and "effect_matrix" in charts_of(app)
    app = visit("effects", cell=["99", "0.4"], measure="x", columns="margin_scale")
    assert "2 cells" not in words_of(app) and "3 of 4 cells have runs, 1 is empty" in words_of(app)
    app = visit("effects", setting="temperature", measure="gap", rows="temperature", cell=["0.4", "5"])
    picked = [app.selectbox(key=f"picked_{name}").value for name in ("setting", "rows", "columns")]
    assert picked == ["temperature", "temperature", "margin_scale"]
    assert "**temperature=0.4, margin_scale=5** · Seen" in words_of(app)
    box = app.selectbox(key="effect_cell")  # as with the keyboard
    assert box.options[0] == "0.2, 10" and len(box.options) == 4
    box.select_index(0).run()
    assert app.query_params["cell"] == ["0.2", "10"] and "missing_cell" in keys_of(app)
    assert "different configurations; these runs have 3." in words_of(visit("effects", view="lines"))


@pytest.mark.slow
def test_an_empty_cell_launches_exactly_one_run_with_its_settings(root):
    make_grid(root)
    before = {run.id for run in list_runs(root)}
    app = visit("effects", rows="margin_scale", cell=["10", "0.2"])
    said = words_of(app)
    assert "**1 run** would start: LPS with margin_scale=10, temperature=0.2, seed 0;" in said
    assert {run.id for run in list_runs(root)} == before, "looking starts nothing"
    wanted = configure(SHORT | {"margin_scale": 10.0, "temperature": 0.2})
    app.button(key="missing_cell").click().run()
    assert not app.exception and "1 run in progress." in words_of(app)
    for _ in range(2):  # the clicks that were on their way when the first one was answered
        app.session_state["effects_asked"] = (wanted,)
        app.run()
        assert "already exist" in words_of(app)
    (run,) = [run for run in list_runs(root) if run.id not in before]
    assert run.config() == wanted
    assert run.state().name == "queued" and run.meta()["tags"] == ["sweep:effects"]
    app = visit("effects", rows="margin_scale", cell=["10", "0.2"])
    assert "1 run exists and is queued" in words_of(app) and "missing_cell" not in keys_of(app)
    assert "1 in progress" in words_of(visit("effects"))


@pytest.mark.slow
def test_an_empty_cell_gets_the_seeds_of_the_others_and_a_run_that_broke_off_goes_on(root):
    make_grid(root, seeds=(0, 2))
    make(root, 2, state="stopped", margin_scale=10.0, temperature=0.2)
    app = visit("effects", rows="margin_scale", cell=["10", "0.2"])
    assert "**2 runs** would start" in words_of(app) and "1 run with the state stopped is resumed" in words_of(app)
    app.button(key="missing_cell").click().run()
    made = [run for run in list_runs(root) if run.config().flat()["temperature"] == 0.2]
    wanted = [run for run in made if run.config().flat()["margin_scale"] == 10.0]
    assert sorted(run.config().seed for run in wanted) == [0, 2] and {r.state().name for r in wanted} == {"queued"}


def test_what_cannot_start_is_a_sentence(root, monkeypatch):
    make_grid(root)

    def refuse(configs):
        raise UserError("dataset.path", "is a folder of *nothing*")

    app = visit("effects", rows="margin_scale", cell=["10", "0.2"])
    monkeypatch.setattr("lps.studies.sweeps.check_sweep", refuse)
    app.button(key="missing_cell").click().run()
    assert not app.exception and "dataset.path: is a folder of *nothing*" in words_of(app)
    assert len(list_runs(root)) == 3


def test_the_matrix_shows_numbers_where_runs_are_and_nothing_elsewhere(root):
    made = make_grid(root)
    app = visit("effects", rows="margin_scale", measure="seen")
    empty, full = charts_of(app)["effect_matrix"]["data"]
    scores = {key[:2]: run_scores.score_run(run).scores.seen for key, run in made.items()}
    values = np.array(array(full["z"]), float)
    assert values[0].tolist() == pytest.approx([scores[5.0, 0.2], scores[5.0, 0.4]])
    assert np.isnan(values[1, 0]) and values[1, 1] == pytest.approx(scores[10.0, 0.4])
    assert [cell for line in array(empty["text"]) for cell in line] == ["", "", "+", ""]
    assert [divmod(code, 2) for line in array(full["customdata"]) for code in line] == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize("colors", [LIGHT, DARK])
def test_empty_cells_have_a_dashed_frame_and_no_ground(root, colors):
    made = scored_of(*make_grid(root).values())
    (background,) = effects.find_backgrounds(made, ["margin_scale", "temperature"])
    rows, columns = (Axis.from_values(name, background.values(name)) for name in background.settings)
    figure = effect_charts.matrix(rows, columns, background.groups, set(), "gap", colors).figure()
    empty, full = figure.data
    assert {color for _, color in empty.colorscale} == {"rgba(0,0,0,0)"} and full.colorscale[0][1] != "rgba(0,0,0,0)"
    (frame,) = figure.layout.shapes
    assert frame.path.count("M") == 1 and frame.path.startswith("M-0.46,0.54") and frame.line.dash == "dot"
    whole = {pair: background.groups[5.0, 0.4] for pair in [(5.0, 0.2), (5.0, 0.4), (10.0, 0.2), (10.0, 0.4)]}
    assert not effect_charts.matrix(rows, columns, whole, set(), "gap", colors).figure().layout.shapes


def test_no_line_passes_over_a_value_that_was_not_run_and_it_can_be_started(root):
    for margin in (0.0, 5.0, 20.0):
        make(root, margin_scale=margin)
    make(root, margin_scale=10.0, temperature=0.2)  # another background
    app = visit("effects")
    seen = next(t for t in charts_of(app)["effect_curves"]["data"] if t["name"] == "Seen")
    assert array(seen["x"]) == [0, 5, 10, 20] and np.isnan(array(seen["y"])[2]) and not seen["connectgaps"]
    said = words_of(app)
    assert "no run has the value 10." in said and "differ in other settings" in said
    app.button(key="missing_curve").click().run()
    (run,) = [run for run in list_runs(root) if run.state().name == "queued"]
    assert run.config() == configure(SHORT)
    assert "missing_curve" not in keys_of(visit("effects"))


@pytest.mark.parametrize(("gaps", "ticks"), [((2.87, 3.01), ".2f"), ((1.0, 3.0), ".1f"), ((1.0, 12.0), ".0f")])
def test_ticks_of_a_narrow_axis_have_digits_that_tell_them_apart(root, gaps, ticks):
    (made,) = scored_of(make(root))
    groups = {
        float(i): run_groups.Group("", (replace(made, scores=replace(made.scores, seen=gap / 100, novel=0.0)),))
        for i, gap in enumerate(gaps)
    }
    axis = Axis.from_values("margin_scale", list(groups))
    assert effect_charts.curves(axis, axis.values, groups, {}, LIGHT).figure().layout.yaxis2.tickformat == ticks


def test_points_are_means_and_bars_sample_deviations_and_a_gap_is_in_points_in_every_figure(root):
    made = [make(root, seed, margin_scale=margin) for margin in (5.0, 10.0) for seed in (0, 1)]
    runs = scored_of(*made)
    (background,) = effects.find_backgrounds(runs, ["margin_scale"])
    groups = {values[0]: group for values, group in background.groups.items()}
    axis = Axis.from_values("margin_scale", [5.0, 10.0])
    figure = effect_charts.curves(axis, axis.values, groups, {}, LIGHT).figure()
    drawn = {t.name: t for t in figure.data}
    novel = np.array([run.scores.novel for run in runs]).reshape(2, 2)
    points = 100 * np.array([run.scores.gap for run in runs]).reshape(2, 2)
    for name, values in (("Novel", novel), ("Gap", points)):
        assert drawn[name].y == pytest.approx(values.mean(axis=1))
        assert drawn[name].error_y.array == pytest.approx(values.std(axis=1, ddof=1))
        assert sorted(drawn[f"{name}, runs"].y) == pytest.approx(sorted(values.ravel()))
    assert drawn["Gap"].yaxis == "y2" and drawn["Gap"].mode == "lines+markers"
    assert figure.layout.yaxis.tickformat.endswith("%") and figure.layout.yaxis2.tickformat.endswith("f")
    assert [note.text for note in figure.layout.annotations] == ["Accuracy", "Gap, seen minus novel, points"]
    assert " points, n = 2" in drawn["Gap"].text[0] and " %, n = 2" in drawn["Novel"].text[0]
    (trace,) = effect_charts.parallel(runs, {"margin_scale": [5.0, 10.0]}, "gap", LIGHT).figure().data
    last = trace.dimensions[-1]
    assert last.label == "Gap, seen minus novel, points" and last.tickformat == ".0f"
    assert sorted(last["values"]) == pytest.approx(sorted(points.ravel()))


def test_words_have_no_line_and_decades_a_log_axis(root):
    made = scored_of(make(root), make(root, kl_direction="est_to_uniform"), make(root, lr=0.0001))
    for setting, mode, kind in (("kl_direction", "markers", "linear"), ("lr", "lines+markers", "log")):
        background = effects.find_backgrounds(made, [setting])[0]
        groups = {values[0]: group for values, group in background.groups.items()}
        axis = Axis.from_values(setting, background.values(setting))
        figure = effect_charts.curves(axis, axis.values, groups, {}, LIGHT).figure()
        assert next(t for t in figure.data if t.name == "Seen").mode == mode
        assert figure.layout.xaxis.type == kind
        low, high = figure.layout.xaxis.range
        ends = np.log10([0.0001, 0.05]) if kind == "log" else (0, 1)
        assert low < ends[0] and high > ends[1]


def test_the_papers_curve_is_drawn_where_it_may_be(root):
    (scored,) = scored_of(make(root))
    groups = {10.0: run_groups.group_runs([scored])[0]}
    published = {
        float(r.value): r for r in paper_results.paper_rows() if (r.table, r.dataset) == ("supp_C", "CIFAR-10")
    }
    axis = Axis.from_values("margin_scale", sorted(published))
    drawn = {t.name: t for t in effect_charts.curves(axis, [10.0], groups, published, LIGHT).figure().data}
    assert list(drawn["Novel, paper"].x) == [1, 5, 10, 15, 20]
    assert drawn["Novel, paper"].y == pytest.approx([0.906, 0.919, 0.934, 0.933, 0.919])
    assert drawn["Novel"].x.tolist() == [10.0]


@pytest.mark.parametrize("colors", [LIGHT, DARK])
def test_parallel_coordinates_have_one_line_a_run_shaded_in_the_colour_of_what_is_measured(root, colors):
    """Blue and orange mean seen and novel, not low and high; the lowest line is not as pale as the grid."""
    made = scored_of(*make_grid(root, seeds=(0, 1)).values())
    varied = effects.varied_settings(member.config for member in made)
    for measure, tint in (("gap", colors.ink), ("seen", colors.seen), ("all", colors.all), ("novel", colors.novel)):
        (trace,) = effect_charts.parallel(made, varied, measure, colors).figure().data
        assert [color for _, color in trace.line.colorscale] == [colors.grid, tint]
        assert trace.line.cmin < min(trace.line.color) and trace.line.cmax == max(trace.line.color)

    assert trace.line.color == pytest.approx([member.scores.novel for member in made])
    assert [d.label for d in trace.dimensions] == ["margin_scale", "temperature", "Novel accuracy"]
    words = [np.array(d.ticktext)[np.array(d["values"])].tolist() for d in trace.dimensions[:2]]
    assert words == [[text_of(member.config.flat()[key]) for member in made] for key in ("margin_scale", "temperature")]


@pytest.mark.slow
def test_of_many_settings_those_that_matter_most_have_axes_until_others_are_chosen(root):
    make(root)
    others = {"margin_scale": 5.0, "temperature": 0.2, "entropy_weight": 0.0, "lr": 0.1, "momentum": 0.5,
              "pseudo_label_weight": 0.0, "weight_decay": 0.01, "contrast_variant": "out"}  # fmt: skip
    for key, value in others.items():
        make(root, lucky=key != "contrast_variant", **{key: value})
    app = visit("effects", view="lines")
    (axes,) = [box for box in app.multiselect if box.label == "Axes (8 settings differ)"]
    shown = [axis["label"] for axis in charts_of(app)["effect_parallel"]["data"][0]["dimensions"]]
    assert len(axes.value) == page.MAX_AXES and shown == [*axes.value, "Novel accuracy"]
    assert "contrast_variant" in shown, "the only setting that made a difference"
    axes.set_value(["lr"]).run()
    shown = [axis["label"] for axis in charts_of(app)["effect_parallel"]["data"][0]["dimensions"]]
    assert shown == ["lr", "Novel accuracy"]


def test_importance_says_what_it_is_not(root):
    for margin in (0.0, 2.0, 5.0, 20.0):
        make(root, margin_scale=margin, temperature=0.2, entropy_weight=0.0, lucky=False)
        make(root, margin_scale=margin, temperature=0.4)
    app = visit("effects", measure="all", view="lines")
    said = words_of(app)
    assert "Always changed together, so they count as one: temperature, entropy_weight" in said
    assert "varied independently" in said
    bars, marks = charts_of(app)["effect_importance"]["data"]
    assert array(bars["x"]) == pytest.approx([0, 1]) and array(marks["x"]) == pytest.approx([3 / 7, 1 / 7])


def test_settings_that_were_varied_together_are_said_to_be(root):
    for margin, temperature in ((0.0, 0.2), (0.0, 0.4), (2.0, 0.2), (5.0, 0.4), (9.0, 0.4)):
        for weight in (0.0, 1.0):
            make(root, margin_scale=margin, temperature=temperature, entropy_weight=weight, lucky=weight > 0)
    said = words_of(visit("effects", measure="all", view="lines"))
    assert "margin_scale and temperature were varied together (Cramer's V 0." in said
    assert "varied independently" not in said


def test_names_in_figures_are_literal():
    item = effects.Importance("<b>x", 0.5, 0.1, 3)
    bars, marks = effect_charts.importance([item], LIGHT).figure().data
    assert bars.x.tolist() == [0.5] and marks.x.tolist() == [0.1]
    assert "&lt;b&gt;x" in bars.hovertext[0]


@pytest.mark.slow
def test_the_ablation_marks_what_is_missing_and_starts_it_with_one_click(root):
    for seed in (0, 1):
        make(root, seed)
        make(root, seed, use_margin=False)
    make(root, 0, entropy_weight=0.0)
    before = {run.id for run in list_runs(root)}
    app = visit("effects", view="ablation")
    table = next(element.value for element in app.dataframe if "Variant" in element.value).set_index("Variant")
    assert table["n"].tolist() == [2, 2, 0, 0, 1]
    assert table.loc["Without pseudo-label contrastive loss", "Novel"] == "not run"
    assert "**5 runs** would start" in words_of(app)
    buttons = {button.label: button for button in app.button if (button.key or "").startswith("missing_ablation")}
    assert len(buttons) == 4
    buttons["Without entropy"].click().run()
    (run,) = [run for run in list_runs(root) if run.id not in before]
    assert run.config() == configure(SHORT | {"seed": 1, "entropy_weight": 0.0})
    app = visit("effects", view="ablation")
    assert "**4 runs** would start" in words_of(app)
    next(button for button in app.button if button.label == "Launch all of them").click().run()
    fresh = [run.config().flat() for run in list_runs(root) if run.id not in before]
    assert len(fresh) == 5
    off = {
        (key, flat["seed"]) for flat in fresh for key in ("pseudo_label_weight", "unsupervised_weight") if not flat[key]
    }
    assert off == {(key, seed) for key in ("pseudo_label_weight", "unsupervised_weight") for seed in (0, 1)}
    app = visit("effects", view="ablation")
    table = next(element.value for element in app.dataframe if "Variant" in element.value).set_index("Variant")
    assert table.loc["Without pseudo-label contrastive loss", "Novel"] == "in progress" and not keys_of(app)


def test_full_methods_have_tables_of_their_own(root):
    make(root)
    make(root, use_margin=False)
    make(root, lr=0.02)
    app = visit("effects", full="any")  # of an earlier version
    assert app.segmented_control(key="picked_view").value == "ablation"
    assert [option.split(" · ")[0] for option in app.selectbox(key="picked_full").options] == [
        "lr=0.05, epochs=2",
        "lr=0.02, epochs=2",
    ]
    assert "the full method has lr=0.05, epochs=2" in words_of(app)
    first, second = ablation.ablation_tables(scored_of(*list_runs(root)))
    assert ablations.find_waiting_rows(first, [configure(SHORT | {"entropy_weight": 0.0})]) == {"Without entropy"}
    assert ablations.find_waiting_rows(second, [configure(SHORT | {"entropy_weight": 0.0})]) == set()


@pytest.mark.slow
def test_the_best_value_is_told_with_its_interval_and_what_these_seeds_can_say(root):
    for c in (5.0, 10.0, 20.0):
        for seed in range(3):
            make(root, seed, margin_scale=c, lucky=c == 5)
    words = words_of(visit("effects"))
    found = re.search(r"\*\*margin_scale=5\*\* has the highest novel accuracy: ([\d.]+) %, 95 % interval ([\d.]+) to "
                      r"([\d.]+), 3 seeds\. Its difference from every other value", words)  # fmt: skip
    assert found and float(found[2]) < float(found[1]) < float(found[3])
    gap = words_of(visit("effects", measure="gap"))
    assert "margin_scale=5** has the smallest gap" in gap.replace("Gap", "gap") and "points, 95 %" in gap


def test_an_interval_of_a_share_ends_at_nought_and_one_and_that_of_a_gap_does_not():
    group = SimpleNamespace(members=[SimpleNamespace(value=lambda measure, v=v: v) for v in (0.7, 0.95)])
    assert group_differences._format_mean(group, "novel") == "82.5 %, 95 % interval 0.0 to 100.0, 2 seeds"
    assert group_differences._format_mean(group, "gap") == "82.5 points, 95 % interval −76.3 to 241.3, 2 seeds"


def test_values_that_seeds_cannot_tell_apart_have_no_winner(root):
    for c, seed in itertools.product((5.0, 10.0), range(3)):
        make(root, seed, margin_scale=c)
    assert "Several values share the best novel accuracy." in words_of(visit("effects"))
    make(root, 3, margin_scale=5.0)
    assert "+0.0 points: equal results with all 3 seeds" in words_of(visit("effects"))
