"""What no chart of Live draws has a chart of its own."""

import pandas as pd
import pytest

from lps.charts import class_bars, line_charts, measurements, palette
from lps.charts.event_log import EventLog, History
from lps.store.run_folders import recorded_runs

DRAWN = [line_charts, class_bars]  # they say what they draw once they are imported


def history(**columns) -> History:
    names = {"my_value": [1.0, 2.0], "loss/mine": [1.0, 2.0], "never": [float("nan")] * 2} | columns
    vectors = {name: pd.DataFrame([[0, 2, 4], [1, 3, 5]], [1, 2]) for name in ("pi_hat", "by_class")}
    return History(epochs=pd.DataFrame(names, [1, 2]), vectors=vectors, start={"classes/seen": 1, "classes/total": 3})


def test_a_new_name_is_left_for_the_other_measurements():
    assert measurements.undrawn_measurements(history()) == ["my_value", "by_class"]


@pytest.mark.parametrize("run", recorded_runs(), ids=lambda run: run.id)
def test_every_measurement_of_a_recording_is_drawn_or_left(run):
    past = EventLog(run.events).read_history()
    left = measurements.undrawn_measurements(past)
    assert {"lr", "nmi/all", "time/step_s"} <= set(left)
    assert not [name for name in left if name.startswith(("loss/", "accuracy/se", "threshold/", "pseudo_label/"))]
    assert not {"kl", "pi_hat", "margin", "class/accuracy"} & set(left)


def test_its_chart_has_its_values_and_its_name():
    figure = measurements.other_measurement(history(), "my_value", 5, palette.LIGHT).figure()
    assert [list(trace.y) for trace in figure.data] == [[1, 2]]
    assert figure.layout.annotations[0].text == "my_value"


def test_of_one_by_class_the_means_over_seen_and_novel_classes_are_drawn():
    figure = measurements.other_measurement(history(), "by_class", 5, palette.LIGHT).figure()
    assert {trace.name: list(trace.y) for trace in figure.data} == {"Seen": [0, 1], "Novel": [3, 4]}


def test_a_chart_claims_what_it_draws(monkeypatch):
    monkeypatch.setattr(measurements, "_drawn", set(measurements._drawn))
    measurements.draws("my_*")(lambda: None)
    assert measurements.undrawn_measurements(history()) == ["by_class"]
