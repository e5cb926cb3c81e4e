"""The Python of charts of scores draws the numbers that the chart shows: settings, what goes with them, differences."""

import numpy as np
import pytest

from lps import api
from lps.errors import Refusal
from lps.studies import presets
from tests.sample_runs import make_run
from tests.ui.test_pages_sweeps import fill


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Eight setups, of which each was scored at another epoch; the first of them with two seeds."""
    root, made = tmp_path_factory.mktemp("runs"), []
    for place, (scale, temperature) in enumerate((c, t) for c in (1.0, 5.0) for t in (0.2, 0.3, 0.4, 0.5)):
        own = {"margin_scale": scale, "temperature": temperature}
        for seed in (0, 1)[: max(1, 2 - place)]:
            made.append(make_run(root, epochs=8, written=place + 1, seed=seed, settings=own, pretrain=0))
    return made


def test_accuracy_by_the_value_of_a_setting(drawn, runs):
    chart, made = drawn("effects", "effect_curves", setting="margin_scale")
    means = {tuple(np.round(np.array(line.y, float), 6)) for line in chart.data if len(line.y) == 2}
    assert [line.name for line in made.data] == ["seen", "novel", "all", "gap"]
    for line in made.data:
        assert list(line.x) == [1.0, 5.0] and tuple(np.round(np.array(line.y, float), 6)) in means


@pytest.mark.parametrize("page, query", [("effects", {"setting": "margin_scale"}), ("compare", {})])
def test_differences_and_their_intervals(drawn, runs, page, query):
    chart, made = drawn(page, "against_intervals", **query)
    points = sorted(float(x) for trace in chart.data for x in trace.x)
    reach = sorted(float(x) for trace in chart.data if trace.error_x.array is not None for x in trace.error_x.array)
    assert points and sorted(float(x) for trace in made.data for x in trace.x) == pytest.approx(points)
    assert sorted(float(x) for t in made.data if t.error_x.array is not None for x in t.error_x.array) == pytest.approx(
        reach
    )


def test_a_run_that_is_not_compared_cannot_be_held_against(runs):
    first, other = api.Run(runs[0].folder), api.Run(runs[3].folder)
    with pytest.raises(Refusal, match="none of the compared runs"):
        api.compare_runs([first], against=other)


@pytest.mark.parametrize("measure", ["novel", "gap"])
def test_pairs_of_values_of_two_settings(drawn, runs, measure):
    chart, made = drawn("effects", "effect_matrix", measure=measure, rows="temperature", columns="margin_scale")
    (cells,) = (trace for trace in chart.data if trace.meta != "no values")
    assert np.shape(cells.z) == (4, 2) and np.array(made.data[0].z, float) == pytest.approx(np.array(cells.z))
    assert [axis.title.text for axis in (made.layout.xaxis, made.layout.yaxis)] == ["margin_scale", "temperature"]
    assert [list(axis.ticktext) for axis in (made.layout.xaxis, made.layout.yaxis)] == [
        ["1.0", "5.0"],
        ["0.2", "0.3", "0.4", "0.5"],
    ]
    assert [[text.replace("-0.0", "0.0") for text in row] for row in made.data[0].text] == np.array(cells.text).tolist()


@pytest.fixture
def mixed(tmp_path):
    """The root of four runs: one pair of values is missing, of another there is a run in bf16, too."""
    for place, (scale, temperature, precision) in enumerate(((1, 0.2, "fp32"), (1, 0.2, "bf16"), (1, 0.4, "fp32"))):
        own = {"margin_scale": float(scale), "temperature": temperature, "precision": precision}
        make_run(tmp_path, epochs=4, written=place + 1, settings=own, pretrain=0)
    make_run(tmp_path, epochs=4, settings={"margin_scale": 5.0, "temperature": 0.4}, pretrain=0)
    return tmp_path


def test_a_pair_without_a_run_is_empty_and_runs_of_another_precision_are_averaged(mixed, charts, carried_out):
    chart, code = charts(mixed, "effects", setting="temperature")["effect_matrix"]
    (cells,) = (trace for trace in chart.data if trace.meta != "no values")
    z = np.array(carried_out(code).data[0].z, float)
    assert np.isnan(z).sum() == 1 and z == pytest.approx(np.array(cells.z), nan_ok=True)
    assert any("n = 2" in text for row in carried_out(code).data[0].text for text in row if text)


def test_differences_that_mix_what_the_comparison_keeps_apart_have_no_python(mixed, charts):
    shown = charts(mixed, "effects", setting="temperature")
    assert shown["against_intervals"][1] == "" and shown["effect_curves"][1]


@pytest.mark.parametrize("measure", ["seen", "gap"])
def test_runs_as_lines_through_their_settings(drawn, runs, measure):
    chart, made = drawn("effects", "effect_parallel", measure=measure)

    def axes(figure):
        return {axis.label: np.array(axis.values, float) for axis in figure.data[0].dimensions}

    shown, own = axes(chart), axes(made)
    assert list(own)[:-1] == list(shown)[:-1] == ["margin_scale", "temperature"]
    assert [len(values) for values in own.values()] == 3 * [len(runs)]
    for one, other in zip(own.values(), shown.values()):
        assert one == pytest.approx(other) and len(set(one.tolist())) > 1


@pytest.mark.parametrize("measure", ["novel", "gap"])
def test_what_goes_with_a_setting(drawn, runs, measure):
    chart, made = drawn("effects", "effect_importance", measure=measure)
    for one, other in zip(made.data, chart.data):
        assert list(one.x) == pytest.approx(list(other.x)[::-1])  # the page draws from below
    assert len(made.data) == 2 and len(made.data[0].x) == 2 and list(made.data[0].x) != list(made.data[1].x)
    assert [text.split(" · ")[0] for text in chart.layout.yaxis.ticktext[::-1]] == list(made.data[0].y)


def test_a_curve_of_a_sweep_beside_the_papers(tmp_path, charts, carried_out):
    asked = presets.Asked("C", seeds=(0, 1), fixed={"epochs": "2"})
    fill(tmp_path, asked, ["finished"] * 7)
    ((chart, code),) = (
        one for key, one in charts(tmp_path, "sweeps", sweep=asked.name).items() if key.startswith("sweep_curve")
    )
    made, by_name = {line.name: line for line in carried_out(code).data}, {line.name: line for line in chart.data}
    for name in ("Seen", "Novel", "All", "Gap"):
        y, spread = np.array(by_name[name].y), np.array(by_name[name].error_y.array)
        known = ~np.isnan(y)
        assert known.sum() == 5 and list(made[name.lower()].x) == list(np.array(by_name[name].x)[known])
        assert list(made[name.lower()].y) == pytest.approx(y[known].tolist())
        own = np.nan_to_num(np.array(made[name.lower()].error_y.array, float))
        assert own.tolist() == pytest.approx(spread[known].tolist()) and own.any()
    for name in ("Seen", "Novel", "All"):
        assert list(made[f"{name.lower()}, paper"].x) == list(by_name[f"{name}, paper"].x)
        assert list(made[f"{name.lower()}, paper"].y) == pytest.approx(list(by_name[f"{name}, paper"].y))
