"""The Python that charts of runs, bars and shares are downloaded as draws the numbers that the chart shows."""

import numpy as np
import pytest

from lps import api
from lps.bench import drawing_code
from tests.sample_runs import make_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two margins, two seeds each."""
    root = tmp_path_factory.mktemp("runs")
    settings = [{"margin_scale": scale} for scale in (1.0, 5.0)]
    return [make_run(root, epochs=4, seed=seed, settings=one) for one in settings for seed in (0, 1)]


def bars(figure) -> list[float]:
    return [float(value) for trace in figure.data if trace.type == "bar" for value in trace.y]


@pytest.mark.parametrize("page, key", [("live", "pi_hat"), ("live", "class_accuracy"), ("explain", "explain_shares")])
def test_a_bar_a_class(drawn, runs, page, key):
    chart, made = drawn(page, key, run=[runs[0].id], epoch="3")
    assert len(bars(chart)) == 10 and bars(made) == pytest.approx(bars(chart), rel=1e-5)
    assert [trace.name for trace in made.data] == ["seen", "novel"]


def test_sizes_of_clusters_where_no_truth_is_known(runs, carried_out):
    made = carried_out(drawing_code.of_cluster_sizes(str(runs[0].folder), 3))
    predicted = api.Run(runs[0].folder).snapshot(3).predicted
    assert bars(made) == pytest.approx(np.bincount(predicted, minlength=10) / len(predicted))


@pytest.mark.parametrize("kind", ["predicted", "estimated"])
def test_shares_of_classes_of_a_race(drawn, runs, kind):
    chart, made = drawn("pace", "classes-A", run=[runs[0].id, runs[2].id], classes=kind, epoch="4")
    assert len(bars(chart)) == 10 and bars(made) == pytest.approx(bars(chart), rel=1e-5)


def test_images_of_every_class_in_every_cluster(drawn, runs):
    chart, made = drawn("clusters", "confusion", run=[runs[0].id], overview="confusion")

    def rows(figure):
        return {tuple(np.round(np.asarray(row, float), 9)) for row in figure.data[0].z}

    assert rows(made) == rows(chart) and len(rows(made)) > 3


def lines(figure) -> list[list[float]]:
    """The values of every line over several epochs, in the same order whatever their names."""
    own = [trace for trace in figure.data if trace.type == "scatter" and trace.hoverinfo != "skip"]
    return sorted([float(y) for y in trace.y] for trace in own if trace.mode in (None, "lines") and len(trace.y) > 1)


@pytest.mark.parametrize("page, key, count", [("pace", "pace-A", 8), ("live", "pace", 8), ("live", "pace_of_runs", 8)])
def test_curves_of_runs_with_means_over_classes(drawn, runs, page, key, count):
    two = [runs[0].id, runs[2].id]
    chart, made = drawn(page, key, run=two if key != "pace" else two[:1], epoch="3")
    assert len(lines(chart)) == count
    assert np.array(lines(made)) == pytest.approx(np.array(lines(chart)), rel=1e-5)


def test_the_first_of_a_race_minus_each_of_the_others(drawn, runs):
    for key, name in (("difference-novel", "accuracy/novel"), ("difference-gap", "accuracy/gap")):
        chart, made = drawn("pace", key, run=[runs[0].id, runs[2].id, runs[3].id], view="epochs")
        assert [trace.name for trace in made.data] == [trace.name for trace in chart.data] == ["A − B", "A − C"]
        assert np.array(lines(made)) == pytest.approx(np.array(lines(chart)))
        assert np.ptp(lines(chart)) > 0 and name in made.layout.yaxis.title.text


def test_a_gap_to_the_other_side_counts_by_its_size(tmp_path, charts, carried_out):
    first, other = (make_run(tmp_path, epochs=4, seed=seed) for seed in (0, 1))
    other.events.write_text(other.events.read_text().replace('"accuracy/gap": 0', '"accuracy/gap": -0'))
    chart, code = charts(tmp_path, "pace", run=[first.id, other.id], view="epochs")["difference-gap"]
    assert np.array(lines(carried_out(code))) == pytest.approx(np.array(lines(chart)))


def test_how_sure_a_run_was_of_an_image(drawn, runs):
    images = api.Run(runs[0].folder).labels(4)
    unlabeled = [row["image"] for row in images if row["predicted"] is not None]
    chart, made = drawn("clusters", "biography", run=[runs[0].id], image=str(unlabeled[7]))
    course = next(trace for trace in chart.data if trace.mode == "lines" and not trace.name)
    assert list(made.data[-1].x) == list(course.x) == [1, 2, 3, 4]
    assert list(made.data[-1].y) == pytest.approx(list(course.y))
    thresholds = {trace.name: list(trace.y) for trace in chart.data if (trace.name or "").startswith("Threshold")}
    assert {trace.name.capitalize(): list(trace.y) for trace in made.data[:2]} == thresholds and len(thresholds) == 2
