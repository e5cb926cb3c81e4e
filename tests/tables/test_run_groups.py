"""Columns that vary, the order of rows, groups of runs, and their differences."""

import dataclasses
import math
import statistics

import pytest

from lps.analysis import differences
from lps.tables import columns, grouping
from lps.tables.run_names import Vocabulary
from lps.ui.runs import table
from tests.tables.test_run_filter import entry


def runs(margins=(0.0, 5.0), seeds=(0, 1, 2), **more):
    found = []
    for margin in margins:
        for seed in seeds:
            novel = 0.5 + 0.02 * margin + 0.01 * seed + 0.001 * (seed * margin) % 0.003
            found.append(entry(f"{margin} {seed}", margin_scale=margin, seed=seed, novel=novel, **more))
    return found


def novel():
    return Vocabulary().find("novel")


def test_what_somebody_has_varied_is_a_column_and_what_a_data_set_brings_is_not():
    found = [*runs(), entry("other data", dataset="mnist", method="orca")]
    assert columns.varying_settings(found) == ["margin_scale"]
    assert columns.default_columns(found).index("margin_scale") < columns.default_columns(found).index("method")
    assert columns.varying_settings(found[:3]) == [] and columns.varying_settings([]) == []


def test_the_cells_of_a_column_are_read_once_for_the_same_rows():
    rows, name = runs(), Vocabulary().find("margin_scale")
    cells = table.column_values(rows, name)
    assert table.column_values(list(rows), name) is cells
    changed = [*rows[:-1], entry("mine", margin_scale=77.0)]
    assert table.column_values(changed, name) == [*cells[:-1], 77.0]


def test_what_only_recordings_vary_comes_last():
    recording = dataclasses.replace(entry("a recording", **{"split.imbalance": 5.0}), shown_state="recorded")
    assert columns.varying_settings([*runs(), recording]) == ["margin_scale", "split.imbalance"]
    mine = entry("mine", **{"split.imbalance": 5.0})
    assert columns.varying_settings([*runs(), mine]) == ["split.imbalance", "margin_scale"]


def test_rows_are_sorted_by_any_column_and_those_without_it_come_last():
    have = [entry("b", lr=0.2, novel=0.5), entry("a", lr=0.05, novel=0.9), entry("c", lr=0.1)]
    order = lambda key, falling: [one.name for one in columns.sort_rows(have, Vocabulary().find(key), falling)]  # noqa: E731
    assert order("lr", False) == ["a", "c", "b"] and order("lr", True) == ["b", "c", "a"]
    assert order("novel", True) == ["a", "b", "c"] and order("novel", False) == ["b", "a", "c"]
    assert order("name", True) == ["c", "b", "a"]


def test_a_group_has_mean_spread_and_number():
    by = grouping.grouping_names(["margin_scale"], runs())
    low, high = grouping.group_runs(runs(), by)
    assert low.values == ("0",) and high.values == ("5",) and len(low.members) == 3
    values = [novel().display_value(one) for one in high.members]
    assert high.mean_and_std(novel()) == pytest.approx((statistics.fmean(values), statistics.stdev(values)))
    assert grouping.RunGroup(("x",), high.members[:1]).mean_and_std(novel()) == pytest.approx(
        (values[0], math.nan), nan_ok=True
    )


def test_everything_is_all_that_varies_but_the_seed():
    found = runs() + [dataclasses.replace(one, method="orca") for one in runs()]
    assert [name.key for name in grouping.grouping_names(["everything"], found)] == ["method", "margin_scale"]
    assert [name.key for name in grouping.grouping_names(["everything"], runs())] == ["method", "margin_scale"]


def test_a_run_is_in_the_group_of_each_of_its_tags():
    found = [entry("a", tags=("x", "y")), entry("b", tags=("y",)), entry("c")]
    grouped = grouping.group_runs(found, grouping.grouping_names(["tag"], found))
    assert {one.values[0]: len(one.members) for one in grouped} == {"x": 1, "y": 2, "–": 1}


def test_numbers_are_in_the_order_of_their_size():
    found = runs(margins=(10.0, 5.0, 0.0))
    ordered = grouping.group_runs(found, grouping.grouping_names(["margin_scale"], found))
    assert [one.values[0] for one in ordered] == ["0", "5", "10"]


def test_differences_are_taken_run_by_run_where_nothing_else_differs():
    found = runs() + runs(lr=0.2)
    by = grouping.grouping_names(["margin_scale"], found)
    low, high = grouping.group_runs(found, by)
    held = grouping.compare_to_baseline([low, high], low, novel(), by)[1]
    assert held.pairs == 6, "two learning rates with three seeds"
    assert held.mean == pytest.approx(0.1, abs=0.01) and held.low < held.mean < held.high
    assert held.is_distinguishable and differences.verdict(held) == "higher"
    assert differences.verdict(grouping.compare_to_baseline([low, high], high, novel(), by)[0]) == "lower"
    assert differences.format_difference(held).startswith("+10.")


def test_what_does_not_compare_is_said_so():
    found = runs(seeds=(0, 1)) + runs((7.0,), (0, 1), split__labeled_ratio=0.1)
    by = grouping.grouping_names(["margin_scale"], found)
    grouped = grouping.group_runs(found, by)
    held = grouping.compare_to_baseline(grouped, grouped[0], novel(), by)
    assert held[2] is None and differences.verdict(held[2]) == "other data or split"
    alone = grouping.group_runs(runs(seeds=(0,)), by)
    assert differences.verdict(grouping.compare_to_baseline(alone, alone[0], novel(), by)[1]).startswith("one run")
