"""The Python that charts of bars, shares and differences are downloaded as draws the numbers that the chart shows."""

import numpy as np
import plotly.graph_objects as go
import pytest

from lps import api
from lps.bench import drawing_code
from lps.errors import Refusal
from lps.ui.shared import plot
from tests.sample_runs import make_run
from tests.visiting import visit


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two margins, two seeds each."""
    root = tmp_path_factory.mktemp("runs")
    settings = [{"margin_scale": scale} for scale in (1.0, 5.0)]
    return [make_run(root, epochs=4, seed=seed, settings=one) for one in settings for seed in (0, 1)]


@pytest.fixture
def drawn(runs, monkeypatch):
    """drawn("live", "pi_hat", run=[id]) -> (the chart of that key, the figure that its Python draws)."""
    monkeypatch.setenv("LPS_RUNS", str(runs[0].root))
    shown, charts, data = [], {}, plot._data
    monkeypatch.setattr(go.Figure, "show", lambda figure: shown.append(figure))

    def keep(figure, key, alt, **options):
        charts[key] = figure, options.get("code", "")
        return data(figure, key, alt, **options)

    monkeypatch.setattr(plot, "_data", keep)

    def open_page(page, key, **query):
        at = visit(page, **query)
        assert not at.exception and charts[key][1], f"{page} has {list(charts)}"
        exec(charts[key][1], {})
        return charts[key][0], shown.pop()

    return open_page


def bars(figure) -> list[float]:
    return [float(value) for trace in figure.data if trace.type == "bar" for value in trace.y]


@pytest.mark.parametrize("page, key", [("live", "pi_hat"), ("live", "class_accuracy"), ("explain", "explain_shares")])
def test_a_bar_a_class(drawn, runs, page, key):
    chart, made = drawn(page, key, run=[runs[0].id], epoch="3")
    assert len(bars(chart)) == 10 and bars(made) == pytest.approx(bars(chart), rel=1e-5)
    assert [trace.name for trace in made.data] == ["seen", "novel"]


def test_sizes_of_clusters_where_no_truth_is_known(runs, monkeypatch):
    shown = []
    monkeypatch.setattr(go.Figure, "show", lambda figure: shown.append(figure))
    exec(drawing_code.of_cluster_sizes(str(runs[0].folder), 3), {})
    predicted = api.Run(runs[0].folder).snapshot(3).predicted
    assert bars(shown[0]) == pytest.approx(np.bincount(predicted, minlength=10) / len(predicted))


@pytest.mark.parametrize("kind", ["predicted", "estimated"])
def test_shares_of_classes_of_a_race(drawn, runs, kind):
    chart, made = drawn("pace", "classes-A", run=[runs[0].id, runs[2].id], classes=kind, epoch="4")
    assert len(bars(chart)) == 10 and bars(made) == pytest.approx(bars(chart), rel=1e-5)


def test_images_of_every_class_in_every_cluster(drawn, runs):
    chart, made = drawn("clusters", "confusion", run=[runs[0].id], overview="confusion")

    def rows(figure):
        return {tuple(np.round(np.asarray(row, float), 9)) for row in figure.data[0].z}

    assert rows(made) == rows(chart) and len(rows(made)) > 3


def test_accuracy_by_the_value_of_a_setting(drawn, runs):
    chart, made = drawn("effects", "effect_curves", setting="margin_scale")
    means = {tuple(np.round(np.array(line.y, float), 6)) for line in chart.data if len(line.y) == 2}
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
