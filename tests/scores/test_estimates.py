"""Intervals of few samples against closed forms, tables and simulation; corrections; how many samples are enough."""

import math

import numpy as np
import pytest
from scipy import stats

from lps.scores.estimates import holm, of_mean, of_pairs, of_two, sample_size_needed

DRAWS = 10_000


def test_students_interval_is_the_textbooks():
    """Sleep gained with drug 2 over drug 1 by Student's ten patients (1908): 1.58 hours, t = 4.0621, p = 0.00283."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = of_pairs(second, first)
    assert found.mean == pytest.approx(1.58) and found.mean / found.error == pytest.approx(4.0621, abs=1e-4)
    assert found.chance == pytest.approx(0.00283, abs=1e-5)
    assert [found.mean - found.half_width, found.mean + found.half_width] == pytest.approx([0.7001, 2.4599], abs=1e-4)
    apart = of_two(second, first)  # the same, as if other patients had taken it
    assert apart.degrees == pytest.approx(17.776, abs=1e-3) and apart.chance == pytest.approx(0.07939, abs=1e-5)


@pytest.mark.parametrize("sizes", [(2, 2), (3, 5), (12, 4)])
def test_welch_is_scipys(sizes):
    random = np.random.default_rng(sum(sizes))
    first, second = random.normal(0, 1, sizes[0]), random.normal(0.5, 3, sizes[1])
    found, theirs = of_two(first, second), stats.ttest_ind(first, second, equal_var=False)
    limits = theirs.confidence_interval(0.95)
    assert found.chance == pytest.approx(theirs.pvalue)
    assert [found.mean - found.half_width, found.mean + found.half_width] == pytest.approx([limits.low, limits.high])


def test_two_pairs_have_the_closed_form_of_cauchy():
    found = of_pairs([0.3, 0.5], [0.1, 0.2])  # differences 0.2 and 0.3, one degree of freedom
    assert found.half_width == pytest.approx(math.tan(0.475 * math.pi) * 0.05)
    assert found.chance == pytest.approx(1 - 2 / math.pi * math.atan(0.25 / 0.05))


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_paired_intervals_cover_the_truth_in_95_of_100_draws(n):
    random = np.random.default_rng(n)
    seeds = random.normal(0, 5, (DRAWS, n))  # what runs with one seed share
    found = of_pairs(seeds + random.normal(1.5, 1, (DRAWS, n)), seeds + random.normal(0, 2, (DRAWS, n)))
    assert 0.94 < np.mean(np.abs(found.mean - 1.5) <= found.half_width) < 0.96


@pytest.mark.parametrize("sizes, spread", [((3, 3), 1), ((5, 3), 1), ((3, 5), 4), ((5, 5), 4), ((20, 4), 0.2)])
def test_unpaired_intervals_cover_the_truth_in_93_to_97_of_100_draws(sizes, spread):
    random = np.random.default_rng(10)
    found = of_two(random.normal(2, 1, (DRAWS, sizes[0])), random.normal(0, spread, (DRAWS, sizes[1])))
    assert 0.93 < np.mean(np.abs(found.mean - 2) <= found.half_width) < 0.97


def test_one_value_and_equal_values_have_a_mean_and_no_interval():
    for values in ([0.4], [0.4, 0.4, 0.4], [0.1 + 0.3, 0.4]):
        found = of_mean(values)
        assert found.mean == pytest.approx(0.4) and np.isnan(found.half_width) and np.isnan(found.chance)
    for pair in (([0.4], [0.1, 0.2]), ([0.4, 0.4], [0.1, 0.1])):
        assert np.isnan(of_two(*pair).half_width)
    half = of_two([0.4, 0.4], [0.1, 0.3])  # one side alone strays
    assert half.half_width == pytest.approx(of_mean([0.1, 0.3]).half_width)


def test_holm_is_the_step_down_of_his_paper():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, math.nan, 0.8]) == pytest.approx([1.0, math.nan, 1.0], nan_ok=True) and holm([]) == []


def test_holm_keeps_false_findings_among_ten_comparisons_at_5_of_100():
    random = np.random.default_rng(0)
    one, many = random.normal(size=(4000, 1, 4)), random.normal(size=(4000, 10, 4))
    found = [min(holm(chances)) < 0.05 for chances in of_pairs(many, np.broadcast_to(one, many.shape)).chance]
    assert 0.01 < np.mean(found) <= 0.05


@pytest.mark.parametrize("effect, known", [(0.5, 34), (1.0, 10), (0.2, 199)])
def test_enough_pairs_are_those_of_the_tables_of_cohen(effect, known):
    assert sample_size_needed(effect, [1.0]) == sample_size_needed(-3 * effect, [3.0]) == known


@pytest.mark.parametrize("effect, known", [(0.5, 64), (0.8, 26)])
def test_enough_in_two_groups_are_those_of_the_tables_of_cohen(effect, known):
    assert sample_size_needed(effect, [1.0, 1.0]) == known


def test_so_many_are_enough_in_simulation_and_one_less_is_not():
    random, n = np.random.default_rng(1), sample_size_needed(0.9, [1.0])
    finds = [np.mean(of_mean(random.normal(0.9, 1, (DRAWS, size))).chance < 0.05) for size in (n - 1, n)]
    assert finds[0] < 0.8 <= finds[1] + 0.01


def test_nothing_is_enough_for_no_difference_and_two_for_a_huge_one():
    assert sample_size_needed(0.0, [1.0]) is None and sample_size_needed(0.01, [1.0]) is None
    assert sample_size_needed(1e4, [1.0]) == 2 and sample_size_needed(100.0, [0.0, 1.0]) == 2
