"""Figures from frames: what is drawn, on which axis, in which colour; no page and no browser."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lps.charts import class_bars, figures, line_charts, maps, palette
from lps.charts.event_log import History
from lps.charts.palette import DARK, LIGHT
from lps.store.snapshots import MAX_POINTS
from lps.ui.shared.history import read_history
from tests.sample_runs import make_run

NAMES = [str(name) for name in range(10)]


@pytest.fixture(scope="module")
def past(tmp_path_factory) -> History:
    return read_history(make_run(tmp_path_factory.mktemp("runs")))


def trace(figure, name):
    return next(t for t in figure.data if t.name == name)


def area(x, y) -> float:
    """Shoelace formula."""
    return abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2


def test_pace_draws_the_records_in_one_figure_with_one_epoch_axis(past):
    figure = line_charts.pace(past, 20, LIGHT).figure()
    assert {t.yaxis or "y" for t in figure.data} == {"y", "y2", "y3", "y4"}
    assert {t.xaxis for t in figure.data} <= {None, "x"}
    assert figure.layout.hovermode == "x unified"
    assert figure.layout.hoversubplots == "axis"
    assert figure.layout.xaxis.spikemode == "across"
    domains = [figure.layout[f"yaxis{n}"].domain for n in ("", 2, 3, 4)]
    assert all(upper[0] > lower[1] for upper, lower in zip(domains, domains[1:], strict=False))
    assert list(figure.layout.xaxis.range) == [0, 20.4]
    assert np.array_equal(trace(figure, "Seen").x, np.arange(1, 21))
    assert np.allclose(trace(figure, "Novel").y, past.column("accuracy/novel"))
    assert trace(figure, "Seen").line.color == LIGHT.seen
    assert trace(line_charts.pace(past, 20, DARK).figure(), "Novel").line.color == DARK.novel
    margins = past.vectors["margin"].loc[3].to_numpy()
    assert trace(figure, "Margin, seen").y[2] == pytest.approx(margins[:5].mean(), rel=1e-5)
    assert trace(figure, "Margin, novel").y[2] == pytest.approx(margins[5:].mean(), rel=1e-5)


def test_pace_leaves_out_the_panels_that_a_method_does_not_measure(past):
    def panel_titles(history: History, **options) -> list[str]:
        return [note.text for note in line_charts.pace(history, 20, LIGHT, **options).figure().layout.annotations]

    kept = ["Accuracy", "KL of the estimated class distribution", "Mean margin"]
    without = replace(past, epochs=past.epochs.filter(regex="^(?!threshold/)"))
    assert panel_titles(without) == kept
    assert panel_titles(without, keeps_empty=True) == panel_titles(past) == [*kept, "Confidence threshold"]
    assert len(panel_titles(History())) == 4, "before the first epoch"


def test_baseline_is_drawn_only_where_it_is_known(past):
    lines = [t for t in line_charts.pace(past, 20, LIGHT).figure().data if t.name == "k-means before training"]
    assert [float(line.y[0]) for line in lines] == [0.93, 0.9]
    without = History(epochs=past.epochs)
    assert not [t for t in line_charts.pace(without, 20, LIGHT).figure().data if t.name == "k-means before training"]


@pytest.mark.parametrize(
    "figure", [line_charts.pace, line_charts.losses, line_charts.pseudo_labels, line_charts.pretraining]
)
def test_nothing_recorded_gives_an_empty_figure(figure):
    assert len(figure(History(), 20, LIGHT).traces) == 0


def test_pretraining_has_no_panel_for_what_was_not_measured_yet():
    early = History(pretrain=pd.DataFrame({"pretrain/loss": [5.0]}, index=[1]))
    figure = line_charts.pretraining(early, 20, LIGHT).figure()
    assert [note.text for note in figure.layout.annotations] == ["SimCLR loss"]
    assert trace(figure, "SimCLR loss").mode == "markers"
    later = History(pretrain=pd.DataFrame({"pretrain/loss": [5.0], "pretrain/knn_accuracy": [0.4]}, index=[1]))
    figure = line_charts.pretraining(later, 20, LIGHT).figure()
    assert "Quality of the features" in [note.text for note in figure.layout.annotations]
    assert figure.layout.legend.y > 1.05, "the title of the first panel is at 1"


@pytest.mark.parametrize("colors", [LIGHT, DARK])
def test_no_measure_of_pretraining_looks_like_a_group_of_classes(colors):
    names = [f"pretrain/{name}_accuracy" for name in ("knn", "linear", "kmeans")]
    table = pd.DataFrame(0.5, index=[1, 2], columns=names)
    drawn = {t.line.color for t in line_charts.pretraining(History(pretrain=table), 20, colors).figure().data}
    assert len(drawn) == 3 and not drawn & {colors.seen, colors.novel}


def test_one_epoch_is_a_dot():
    one = History(epochs=pd.DataFrame({"accuracy/seen": [0.9], "accuracy/novel": [0.4]}, index=[1]))
    assert trace(line_charts.pace(one, 20, LIGHT).figure(), "Seen").mode == "markers"


def test_gap_bands_cover_the_area_between_the_curves():
    epochs = np.arange(4.0)
    seen, novel = np.array([0.8, 0.8, 0.4, 0.6]), np.array([0.2, 0.6, 0.6, 0.6])
    bands = line_charts.gap_bands(epochs, seen, novel)
    # by hand: trapezoids of the difference 0.6, 0.2, -0.2, 0 with a crossing in the middle of epoch 1 to 2
    assert area(*bands["seen"]) == pytest.approx((0.6 + 0.2) / 2 + 0.5 * 0.2 / 2)
    assert area(*bands["novel"]) == pytest.approx(0.5 * 0.2 / 2 + 0.2 / 2)
    assert 1.5 in bands["seen"][0]
    behind = line_charts.gap_bands(np.arange(5.0), np.full(5, 0.9), np.linspace(0.1, 0.8, 5))["novel"]
    assert area(*behind) == pytest.approx(0)


def test_losses_draw_every_term_and_the_total_first(past):
    names = [t.name for t in line_charts.losses(past, 20, LIGHT).figure().data]
    assert names[0] == "Total"
    assert set(names) == {"Total", "Adaptive margin", "Pseudo label contrastive", "Unsupervised contrastive", "Entropy"}
    extra = past.epochs.assign(**{"loss/something_new": 1.0})
    assert "Something new" in [t.name for t in line_charts.losses(History(epochs=extra), 20, LIGHT).figure().data]


def test_runs_differ_by_colour_and_share_a_legend_entry(past):
    colors = {"one": "#111111", "<b>two</b>": "#222222"}
    figure = line_charts.pace_of_runs({"one": past, "<b>two</b>": past}, 20, LIGHT, colors).figure()
    assert figure.layout.legend.y > 1.03, "the title of the first panel is at 1"
    assert {t.name for t in figure.data} == {"one", "&lt;b&gt;two&lt;/b&gt;"}
    assert sum(t.showlegend for t in figure.data) == 2
    assert {t.name: t.line.color for t in figure.data} == {"one": "#111111", "&lt;b&gt;two&lt;/b&gt;": "#222222"}


def test_class_distribution_has_the_prior_and_a_still_axis():
    estimated = np.full(10, 0.1)
    figure = class_bars.class_distribution(estimated, 4, NAMES, LIGHT, top=0.3).figure()
    assert list(trace(figure, "Seen").x) == [0, 1, 2, 3]
    assert list(trace(figure, "Novel").x) == [4, 5, 6, 7, 8, 9]
    assert trace(figure, "Seen").marker.color == LIGHT.seen
    assert np.allclose(trace(figure, "Prior").y, 0.1)
    assert figure.layout.yaxis.range == (0, pytest.approx(0.33))


def test_hundred_classes_have_few_tick_labels():
    figure = class_bars.class_accuracy(np.linspace(0, 1, 100), 50, [f"class {i}" for i in range(100)], LIGHT).figure()
    assert len(figure.layout.xaxis.tickvals) == 20


def points(count: int) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    truth, predicted = draw.integers(-1, 10, count), draw.integers(-1, 10, count)
    columns = {"x": draw.normal(size=count), "y": draw.normal(size=count), "image": draw.permutation(count) + 7}
    columns |= {"truth": truth, "predicted": predicted, "confidence": draw.random(count), "right": truth == predicted}
    return pd.DataFrame(columns)


@pytest.mark.parametrize("color_by", ["group", "truth", "predicted", "right", "confidence"])
def test_every_point_keeps_its_image(color_by):
    table = points(500)
    figure = maps.projection(table, color_by, LIGHT, 4, NAMES).figure()
    drawn = {}
    for t in figure.data:
        assert t.type == "scattergl"
        assert t.customdata.ndim == 1
        drawn |= {int(i): (x, y) for i, x, y in zip(t.customdata, t.x, t.y, strict=True)}
    assert drawn == {row.image: (np.float32(row.x), np.float32(row.y)) for row in table.itertuples()}


def test_groups_are_where_they_belong_and_hover_texts_are_the_names_of_truth_and_prediction():
    table = points(500)
    figure = maps.projection(table, "group", LIGHT, 4, ["<i>0</i>", *NAMES[1:]]).figure()
    said = {int(i): tuple(words.split(" → ")) for t in figure.data for i, words in zip(t.customdata, t.text)}
    names = {-1: "unknown", 0: "&lt;i&gt;0&lt;/i&gt;"} | {int(name): name for name in NAMES[1:]}
    assert said == {row.image: (names[row.truth], names[row.predicted]) for row in table.itertuples()}
    novel = set(table[table["truth"] >= 4]["image"])
    assert set(trace(figure, "Novel").customdata.tolist()) == novel
    assert trace(figure, "Unknown").marker.color == LIGHT.all


def test_a_small_chart_shows_fewer_points():
    figure = maps.projection(points(20_000), "confidence", LIGHT, 4, NAMES, height=260).figure()
    assert len(figure.data[0].x) == figures.FEW_POINTS
    assert len(set(figure.data[0].customdata.tolist())) == figures.FEW_POINTS


def test_fifty_thousand_points_are_small_and_more_are_cut():
    figure = maps.projection(points(60_000), "confidence", LIGHT, 4, NAMES).figure()
    assert len(figure.data[0].x) == MAX_POINTS
    arrays = json.loads(figure.to_json())["data"][0]
    assert all(isinstance(arrays[name], dict) for name in ("x", "y", "customdata"))  # base64, not text


def test_text_of_a_run_cannot_become_markup():
    names = ["<b>a</b>", "$x$", "&amp;", *NAMES[3:]]
    figure = class_bars.class_accuracy(np.ones(10), 5, names, LIGHT).figure()
    assert figure.layout.xaxis.ticktext[0] == "&lt;b&gt;a&lt;/b&gt;"
    assert "<b>" not in figure.to_json()


@pytest.mark.parametrize("colors", [LIGHT, DARK])
def test_class_colours_are_distinct_and_tell_seen_from_novel(colors):
    shades = palette.class_colors(5, 10, colors)
    assert len(set(shades)) == 10
    blue, red = (np.array([int(s[i : i + 2], 16) for s in shades]) for i in (5, 1))
    assert (blue - red)[:5].min() > (blue - red)[5:].max()  # cool ones before warm ones
    assert len(palette.class_colors(50, 100, colors)) == 100


def test_every_colour_has_one_counterpart_in_the_other_theme():
    pairs = set(palette.color_pairs())
    assert len({light for light, _ in pairs}) == len({dark for _, dark in pairs}) == len(pairs)


@pytest.mark.parametrize("epochs", [1, 2, 5, 20, 3000])
def test_ticks_of_epochs_are_whole_and_none_stands_twice(epochs):
    ticks = line_charts.pace(History(), epochs, LIGHT).figure().layout.xaxis
    assert ticks.tickformat == "~f"  # "d" writes 0.4 as 0
    assert ticks.dtick == (1 if epochs <= figures.FEW else None)


@pytest.mark.parametrize(
    "pattern", ["a bird of the kind number {}", "bird number {:03} of a hundred", "{} birds of a kind"]
)
def test_long_names_differ_after_the_cut_and_keep_their_front(pattern):
    names = [pattern.format(number) for number in range(100)]
    short = figures.short_names(names)
    assert len(set(short)) == 100 and max(map(len, short)) <= figures.LONGEST_NAME
    assert all(text[:2] == name[:2] for text, name in zip(short, names))
    bars = class_bars.class_accuracy(np.ones(100), 5, names, LIGHT).figure()
    assert list(bars.layout.xaxis.ticktext) == short[::5]


def test_class_names_have_the_room_that_they_need():
    flat = class_bars.class_accuracy(np.ones(10), 5, [str(i) for i in range(10)], LIGHT).figure()
    names = ["automobile", "golden retriever", "a name of far more than sixteen letters", *"abcdefg"]
    upright = class_bars.class_accuracy(np.ones(10), 5, names, LIGHT).figure()
    assert upright.layout.xaxis.ticktext[:3] == ("automobile", "golden retriever", "a name of far m…")
    assert (flat.layout.xaxis.tickangle, upright.layout.xaxis.tickangle) == (0, -90)
    assert upright.layout.margin.b >= 7 * figures.LONGEST_NAME
    plots = {figure.layout.height - figure.layout.margin.b for figure in (flat, upright)}
    assert len(plots) == 1  # the bars are as high as ever
