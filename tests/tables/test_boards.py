"""Charts that users make: their text, their figure, the table of values, and the Python that draws them."""

import math
from decimal import ROUND_HALF_UP, Context

import numpy as np
import pandas as pd
import pytest

from lps.analysis import run_index
from lps.charts import board_charts, palette
from lps.charts.board_charts import BoardLine
from lps.charts.event_log import EventLog
from lps.charts.palette import DARK, LIGHT, many_colors
from lps.scores.measurement_names import measurement_name
from lps.tables.boards import MAX_SMOOTH, BoardChart, read_chart, read_pins
from tests import sample_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    settings = [{"margin_scale": margin} for margin in (2.0, 5.0)]
    return [sample_runs.make_run(root, epochs=6, seed=seed, settings=s) for s in settings for seed in (0, 1)]


@pytest.fixture(scope="module")
def histories(runs):
    return [EventLog(run.events).read_history() for run in runs]


CHARTS = [
    BoardChart(),
    BoardChart("loss/total", "time", 0.6, "xy", "margin_scale"),
    BoardChart("kl", "accuracy/novel"),
    BoardChart(x="step"),
]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.text)
def test_a_chart_is_one_line_of_text_and_back(chart):
    assert read_chart(chart.text) == chart


@pytest.mark.parametrize("text", ["", ";;;", "y=", "smooth=nan", "smooth=x;log=zz", "=;y;x=", "z=3", "\0"])
def test_what_cannot_be_read_is_as_usual(text):
    assert read_chart(text) == BoardChart()
    assert read_chart("smooth=7").smooth == MAX_SMOOTH and read_chart("y=" + "a" * 999).y.startswith("aaa")


def test_x_is_an_epoch_a_step_hours_or_another_measurement(histories):
    past = histories[0]
    tables = {x: board_charts.measurement_table(past, BoardChart(x=x)) for x in ("epoch", "step", "time", "kl")}
    assert list(tables["epoch"]["x"]) == [1, 2, 3, 4, 5, 6]
    assert tables["step"]["x"].is_monotonic_increasing and tables["step"]["x"].iloc[0] > 1
    assert 0 < tables["time"]["x"].iloc[-1] < 1 and tables["time"]["x"].is_monotonic_increasing
    assert list(tables["kl"]["x"]) == list(past.column("kl"))
    assert len(board_charts.measurement_table(past, BoardChart("no such"))) == 0


def test_smoothing_is_an_average_of_what_came_before_that_does_not_start_at_zero():
    values = pd.Series([1.0, 0.0, 0.0])
    assert list(board_charts.smoothed(values, 0)) == [1, 0, 0]
    expected = [1, (0.5 * 1) / 1.5, (0.25 * 1) / 1.75]
    assert list(board_charts.smoothed(values, 0.5)) == pytest.approx(expected)


def test_shares_are_rounded_in_the_browser_as_in_tables():
    def in_browser(shares) -> list[str]:
        """Round to three digits as JavaScript does: ties up."""
        return [str(Context(3, ROUND_HALF_UP).create_decimal(float(100 * share))) for share in shares]

    shares = np.array([0.7625, 0.7675, 0.7645, 0.7635, 0.05125, -0.7625, 0.0762500001, 0.76])
    in_tables = [f"{100 * share:#.3g}" for share in shares]
    assert in_browser(shares)[0] == "76.3" and in_tables[0] == "76.2"
    assert list(map(float, in_browser(board_charts.with_even_ties(shares)))) == list(map(float, in_tables))
    assert list(board_charts.with_even_ties(shares[1:4])) == list(shares[1:4])
    assert board_charts.with_even_ties(np.array([0.0, np.nan, 1.0])).tolist() == pytest.approx(
        [0, math.nan, 1], nan_ok=True
    )


def drawn(runs, histories, chart, count=None):
    entries = [run_index.read_run_row(run) for run in runs[:count]]
    found = board_charts.lines_of_runs(chart, entries, histories[:count], LIGHT)
    return board_charts.figure(found, chart, "Novel", LIGHT).figure()


def test_the_raw_line_stays_faint_behind_the_smoothed_one(runs, histories):
    figure = drawn(runs, histories, BoardChart(smooth=0.8, log="y"), 1)
    raw, smooth = figure.data
    assert raw.line.color.startswith("rgba(") and raw.hoverinfo == "skip" and not raw.showlegend
    assert raw.legendgroup == smooth.legendgroup and not np.allclose(raw.y, smooth.y)
    assert figure.layout.yaxis.type == "log" and figure.layout.xaxis.type == "linear"


def test_few_epochs_have_no_ticks_between_them():
    table = pd.DataFrame({"x": [1.0, 2.0], "y": [0.3, 0.4]}, index=[1, 2])
    line = BoardLine("k", "all", "all", table, "#123456")
    assert board_charts.figure([line], BoardChart(), "Novel", LIGHT).figure().layout.xaxis.dtick == 1
    for other in (BoardChart(x="time"), BoardChart(log="x")):
        assert board_charts.figure([line], other, "Novel", LIGHT).figure().layout.xaxis.dtick is None


def test_the_legend_has_the_order_of_the_last_values(runs, histories):
    figure = drawn(runs, histories, BoardChart())
    assert [line.y[-1] for line in figure.data] == sorted((line.y[-1] for line in figure.data), reverse=True)


def test_a_mean_has_a_band_of_one_standard_deviation(histories):
    tables = [board_charts.measurement_table(past, BoardChart()) for past in histories]
    mean = board_charts.mean_table(tables)
    values = [table["y"][3] for table in tables]
    assert mean["y"][3] == pytest.approx(np.mean(values)) and mean["std"][3] == pytest.approx(np.std(values, ddof=1))
    line = BoardLine("k", "all", "all", mean, "#123456")
    band, curve = board_charts.figure([line], BoardChart(), "Novel", LIGHT).figure().data
    assert band.fill == "toself" and max(band.y) == pytest.approx((mean["y"] + mean["std"]).max())
    assert curve.name == "all (n = 4)"
    low = board_charts.figure([line], BoardChart(log="y"), "Novel", LIGHT).figure().data[0].y
    assert min(low) > 0


def test_lines_have_keys_labels_and_short_ones_for_their_ends(runs, histories):
    entries = [run_index.read_run_row(run) for run in runs]
    found = board_charts.lines_of_runs(BoardChart(), entries, histories, LIGHT)
    assert [line.key for line in found] == [run.id for run in runs]
    assert [line.end_label for line in found] == ["C=2, seed 0", "C=2, seed 1", "C=5, seed 0", "C=5, seed 1"]
    assert found[0].label == "margin_scale=2, seed 0"
    groups = board_charts.lines_of_runs(BoardChart(by="margin_scale"), entries, histories, LIGHT)
    assert [(line.label, line.end_label) for line in groups] == [("margin_scale=2", "C=2"), ("margin_scale=5", "C=5")]
    assert len({line.key for line in groups}) == 2
    trace = board_charts.figure(found, BoardChart(), "Novel", LIGHT).figure().data[0]
    assert trace.meta["end"]
    assert list(trace.customdata) == [1, 2, 3, 4, 5, 6]
    assert trace.legendgroup in [run.id for run in runs]


@pytest.mark.parametrize(
    ("key", "value", "label"), [("labeled_ratio", 0.1, "10 % labels"), ("num_seen", 6, "6 seen classes")]
)
def test_lines_are_grouped_by_settings_that_have_a_phrase(runs, histories, tmp_path, key, value, label):
    other = sample_runs.make_run(tmp_path, epochs=1, settings={f"split.{key}": value})
    entries = [run_index.read_run_row(run) for run in (runs[0], other)]
    logs = [histories[0], EventLog(other.events).read_history()]
    lines = board_charts.lines_of_runs(BoardChart(by=f"split.{key}"), entries, logs, LIGHT)
    assert label in [line.label for line in lines] and label in [line.end_label for line in lines]


def assign_colors(keys, colors, pinned) -> dict[str, str]:
    return palette.assign_colors(dict(zip(keys, keys)), keys, colors, pinned)


def test_lines_have_the_colours_of_their_oldest_runs_while_each_run_has_one():
    few, many = list("abcdefgh"), list("abcdefghi")
    oldest_runs = {"younger": "d", "older": "b"}
    colors = palette.assign_colors(oldest_runs, few[::-1], LIGHT, {})
    assert colors == {"younger": LIGHT.groups[3], "older": LIGHT.groups[1]}
    colors = palette.assign_colors(oldest_runs, many, LIGHT, {})
    assert colors == {"younger": LIGHT.groups[1], "older": LIGHT.groups[0]}
    of_two_tags = palette.assign_colors({"tag": "a", "other tag": "a"}, few, LIGHT, {})
    assert len(set(of_two_tags.values())) == 2


def test_a_pinned_colour_belongs_to_its_line_alone_and_no_two_lines_share_one():
    keys = list("abcdef")
    usual = assign_colors(keys, LIGHT, {})
    assert list(usual.values()) == many_colors(6, LIGHT)
    found = assign_colors(keys, LIGHT, {"a": usual["c"], "gone": usual["d"]})
    assert found["a"] == usual["c"] and found["c"] == usual["a"]
    assert len(set(found.values())) == 6 and all(found[key] == usual[key] for key in "bdef")
    dark = assign_colors(keys, DARK, {"a": usual["c"]})
    assert dark["a"] == many_colors(6, DARK)[2], "as the same colour looks on a dark ground"
    two = assign_colors(["x", "a"], LIGHT, {"a": usual["a"]})
    assert two["a"] == usual["a"] != two["x"]


def test_pins_are_read_from_an_address():
    assert read_pins(["run-1:2c369d", "margin_scale~ab:c:00ff00"]) == {
        "run-1": "#2c369d",
        "margin_scale~ab:c": "#00ff00",
    }
    assert (
        read_pins(["", "run", "run:", ":2c369d", "run:red", "run:2C369D", "run:2c369d;", "x" * 300 + ":2c369d"]) == {}
    )


@pytest.mark.parametrize("colors", [LIGHT, DARK])
def test_sixty_lines_have_sixty_colours_and_neighbours_are_far_apart(colors):
    found = many_colors(60, colors)
    assert len(set(found)) == 60
    channels = np.array([[int(one[i : i + 2], 16) for i in (1, 3, 5)] for one in found])
    assert np.linalg.norm(np.diff(channels, axis=0), axis=1).min() > 60
    assert many_colors(8, colors) == list(colors.groups)


def test_values_at_an_epoch_last_and_best(histories):
    tables = {
        "a": {name: board_charts.measurement_table(histories[0], BoardChart(name)) for name in ("accuracy/novel", "kl")}
    }
    row = board_charts.value_table(tables, 2).iloc[0]
    novel, kl = histories[0].column("accuracy/novel"), histories[0].column("kl")
    kl_name = measurement_name("kl")
    assert row["Novel accuracy, epoch 2"] == float(f"{100 * novel[2]:.1f}")
    assert row["Novel accuracy, best"] == float(f"{100 * novel.max():.1f}") and row[f"{kl_name}, best"] == kl.min()
    assert row[f"{kl_name}, best epoch"] == kl.idxmin() and row[f"{kl_name}, last"] == kl.iloc[-1]
    gone = board_charts.value_table(
        {"a": {"x": board_charts.measurement_table(histories[0], BoardChart("x"))}}, 99
    ).iloc[0]
    assert all(value is None or math.isnan(value) for value in gone.iloc[1:])
