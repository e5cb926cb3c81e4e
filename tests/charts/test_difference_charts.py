"""The chart of differences: every group once, filled where it is distinguishable, zero always in sight."""

from dataclasses import replace

import numpy as np

from lps.analysis.differences import compare_groups
from lps.analysis.run_groups import group_runs
from lps.charts import difference_charts
from lps.charts.palette import LIGHT
from tests.analysis.test_differences import runs_of


def test_every_group_is_drawn_once_by_what_can_be_said_of_it():
    runs = [*runs_of(values=(0.9, 0.92, 0.91)), *runs_of("orca", (0.5, 0.53, 0.51)), *runs_of("nach", (0.5,))]
    runs += runs_of("fixmatch", (0.91, 0.9, 0.92))
    figure = difference_charts.intervals(compare_groups(group_runs(runs)), "all", LIGHT).figure()
    drawn = {trace.name: (trace.x.tolist(), trace.error_x.array) for trace in figure.data}
    assert list(drawn) == ["Distinguishable", "Not distinguishable", "No interval"]
    assert np.allclose(drawn["Distinguishable"][0], [-39.6666667]) and drawn["No interval"][1] is None
    assert figure.layout.yaxis.ticktext == ("ORCA", "NACH", "FixMatch")
    low, high = figure.layout.xaxis.range
    assert low < -39.7 and high > 0
    compared = compare_groups(group_runs(runs))
    changed = {key: replace(difference, among=0.2) for key, difference in compared.differences.items()}
    figure = difference_charts.intervals(replace(compared, differences=changed), "all", LIGHT).figure()
    assert figure.data[0].name == "Not distinguishable after correction", "an interval without 0 beside this name"


def test_an_interval_of_two_seeds_does_not_stretch_the_axis_beyond_what_is_possible():
    held = compare_groups(group_runs([*runs_of(values=(0.9, 0.1)), *runs_of("orca", (0.2, 0.8))]))
    figure = difference_charts.intervals(held, "all", LIGHT).figure()
    low, high = figure.layout.xaxis.range
    assert low > -115 and high < 115
    arrows = figure.data[-1]
    assert arrows.name == "Interval goes on" and arrows.marker.symbol == ("triangle-left", "triangle-right")
    assert all(low < x < high for x in arrows.x) and arrows.text[0].startswith("The interval goes on to −")


def test_long_and_hostile_labels_are_shortened_and_shown_as_they_stand():
    runs = [*runs_of(values=(0.9, 0.8)), *runs_of("orca", (0.5, 0.6))]
    groups = group_runs(runs)
    object.__setattr__(groups[1], "label", "<b>$x$</b>" * 9)
    (name,) = difference_charts.intervals(compare_groups(groups), "all", LIGHT).figure().layout.yaxis.ticktext
    assert name.startswith("&lt;b&gt;$\u200bx") and name.endswith("…")


def test_a_label_of_many_settings_takes_several_lines_and_its_row_their_room():
    groups = group_runs([*runs_of(values=(0.9, 0.8)), *runs_of("orca", (0.5, 0.6))])
    short = difference_charts.intervals(compare_groups(groups), "all", LIGHT).figure()
    object.__setattr__(groups[1], "label", "LPS, margin_scale=20, entropy_weight=0.5")
    figure = difference_charts.intervals(compare_groups(groups), "all", LIGHT).figure()
    assert figure.layout.yaxis.ticktext == ("LPS, margin_scale=20,<br>entropy_weight=0.5",)
    assert figure.layout.margin.l < 190
    object.__setattr__(groups[1], "label", ", ".join(f"setting_number_{k}=10" for k in range(9)))
    high = difference_charts.intervals(compare_groups(groups), "all", LIGHT).figure()
    assert high.layout.height > short.layout.height >= 160  # the buttons of a lower chart cover its legend


def test_a_label_shows_what_tells_its_group_from_the_others():
    words = "LPS, margin_scale={}, entropy_weight={}, epochs=8"
    labels = [words.format(*values) for values in ((0, 1), (10, 0.5), (0, 0.5))]
    assert difference_charts._shorten_labels(labels) == [
        "margin_scale=0, entropy_weight=1",
        "margin_scale=10, entropy_weight=0.5",
        "margin_scale=0, entropy_weight=0.5",
    ]
    same_margin = [words.format(5, 1), words.format(5, 0.5)]
    assert difference_charts._shorten_labels(same_margin, [words.format(10, 0.5)] * 2) == [
        "margin_scale=5, entropy_weight=1",
        "margin_scale=5, entropy_weight=0.5",
    ], "the baseline has another margin"
    assert difference_charts._shorten_labels(["LPS", "LPS, epochs=8"]) == ["LPS", "epochs=8"]
    assert difference_charts._shorten_labels(["LPS, epochs=8"]) == ["LPS, epochs=8"]
