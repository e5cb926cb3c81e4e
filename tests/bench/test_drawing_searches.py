"""The Python of a search's charts measures its trials again and draws the values that the charts show."""

import math

import numpy as np
import pytest

from lps.charts import search_charts
from lps.charts.palette import LIGHT
from lps.settings.config import configure
from lps.store.events import read_history
from lps.studies import search_results
from lps.studies.search import Request
from lps.studies.search_objective import OBJECTIVES, value_of
from lps.studies.search_results import Result, Trial
from lps.studies.search_space import read_space
from lps.ui.search import drawing_code
from tests.sample_runs import make_run

EPOCHS = 4
SPACE = ["margin_scale=1..12", "lr=1e-4..1:log", "use_margin=true,false"]
POINTS = [(4.0, 0.01, True), (2.0, 0.1, False), (8.0, 0.001, True), (3.0, 0.05, False)]


def measured(run, epoch, objective) -> float:
    """What a search takes for the run's value after an epoch; its withheld accuracy is made up here."""
    events = [event for event in read_history(run.events) if event["kind"] == "eval"]
    return value_of(objective, run, epoch, next(event["values"] for event in events if event["epoch"] == epoch))


@pytest.fixture(scope="module", params=list(OBJECTIVES))
def found(request, tmp_path_factory):
    """A search of two seeds a trial: three finished, one stopped early in its second run, one without a value."""
    root, objective = tmp_path_factory.mktemp("runs"), OBJECTIVES[request.param]
    space = read_space(SPACE, "lps")
    asked = Request("hunt", configure({"epochs": EPOCHS}), space, (0, 1), request.param, 5)
    trials = []
    for number, point in enumerate(POINTS):
        values = dict(zip(("margin_scale", "lr", "use_margin"), point))
        seeds = [2 * number, 2 * number + 1]  # so that no two trials have the same value
        runs = [make_run(root, epochs=EPOCHS, seed=seed, settings=values, pretrain=0) for seed in seeds]
        for run in runs:
            told = run.events.read_text().replace(
                '"accuracy/seen"', f'"accuracy/validation": 0.{number + 5}, "accuracy/seen"'
            )
            run.events.write_text(told)
        epoch, state = (2, "pruned") if number == 2 else (EPOCHS, "complete")
        ends = zip(runs, (EPOCHS, epoch))
        value = sum(measured(run, end, objective) for run, end in ends) / 2
        course = ((EPOCHS, 0.1), (EPOCHS + epoch, value))
        trials.append(Trial(number, state, values, value, tuple(run.id for run in runs), course=course))
    return root, Result(asked, "finished", (*trials, Trial(4, "failed", {}, None)))


def asked_of(found):
    """What the drawing functions are told first."""
    root, result = found
    counted = [(t.number, t.state, search_results.counted_epochs(result.request, t)) for t in result.trials if t.runs]
    return str(root), result.objective, counted


def dots(figure) -> dict[str, list]:
    """state -> [(x, y)] of the trials in this state."""
    names = {"Finished": "complete", "Stopped early": "pruned"}
    own = [trace for trace in figure.data if trace.mode == "markers" and len(trace.y)]
    return {names.get(t.name, t.name): [(float(x), round(float(y), 9)) for x, y in zip(t.x, t.y)] for t in own}


def test_a_trial_counts_up_to_where_it_was_judged(found):
    _, result = found
    ends = [list(search_results.counted_epochs(result.request, trial).values()) for trial in result.trials[:4]]
    assert ends == [[4, 4], [4, 4], [4, 2], [4, 4]]


def test_the_history_and_the_best_so_far(found, carried_out):
    chart, made = search_charts.history(found[1], LIGHT), carried_out(drawing_code.of_history(*asked_of(found)))
    assert dots(made) == dots(chart) and sum(map(len, dots(made).values())) == 4
    best, ours = chart.data[0], made.data[-1]
    assert list(ours.y) == pytest.approx(list(best.y)[:4]) and list(ours.x) == list(best.x)[:4]
    assert len({y for own in dots(chart).values() for _, y in own}) > 2


def test_the_value_over_each_setting(found, carried_out):
    for dimension in found[1].request.space:
        chart = search_charts.slice_of(found[1], dimension, LIGHT)
        made = carried_out(drawing_code.of_setting(*asked_of(found), dimension))
        assert dots(made) == dots(chart) and made.layout.xaxis.type == chart.layout.xaxis.type
        assert list(made.layout.xaxis.tickvals or ()) == list(chart.layout.xaxis.tickvals or ())


def test_finished_trials_as_lines(found, carried_out):
    chart = search_charts.parallel(found[1], LIGHT)
    made = carried_out(drawing_code.of_lines(*asked_of(found), found[1].request.space)).data[0].dimensions
    heights = []
    for axis in made:
        values = np.array(axis.values, float)
        low, high = axis.range or (values.min(), values.max())
        heights.append((values - low) / (high - low))
    shown = sorted(tuple(np.round(np.array(line.y, float), 6)) for line in chart.data)
    assert sorted(tuple(np.round(line, 6)) for line in np.array(heights).T) == shown and len(shown) == 3
    assert math.isclose(max(made[-1].values), found[1].best.value)
