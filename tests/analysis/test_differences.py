"""Differences between groups: pairing by seed, marks, wording, and the rate of false marks."""

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lps.analysis import differences, score_tables
from lps.analysis.differences import compare_groups, compare_samples, seeds_needed_in_words, verdict
from lps.analysis.run_groups import group_runs
from lps.analysis.run_scores import Scored
from lps.scores.protocols import Scores
from lps.settings.config import configure
from lps.store.runs import Run


def runs_of(method="lps", values=(0.9,), seeds=None, split="s", matched=False, **settings) -> list[Scored]:
    """A run for each value of the accuracy on all; its seed is its place."""
    found = []
    for seed, value in zip(seeds or range(len(values)), values):
        config = configure({"method": method, "seed": seed} | settings)
        name = Run(Path("runs") / f"20260101-000000-digits-{method}-s{seed}-aaaaaa")
        found.append(Scored(name, config, 20, Scores(0.95, 0.8, value, 0.7, 0.6, 0.0, matched), 60.0, split=split))
    return found


def drawn(*values) -> dict[int, float]:
    return dict(enumerate(values))


def test_equal_seeds_are_compared_in_pairs_in_whatever_order_they_stand():
    found = compare_samples({0: 0.5, 1: 0.7, 2: 0.6}, {2: 0.5, 0: 0.41, 1: 0.6})
    assert (found.pairs, found.counts) == (3, (3, 3)) and found.mean == pytest.approx(0.29 / 3)
    assert found.high - found.mean == pytest.approx(4.302653 * np.std([0.09, 0.1, 0.1], ddof=1) / math.sqrt(3))


@pytest.mark.parametrize(
    "first, second, pairs",
    [
        ((0, 1, 2), (0, 1, 2, 3, 4), 3),
        ((0, 1, 2, 3, 4), (3, 1), 2),
        ((0, 1, 2, 3, 4), (3, 4, 5), 0),  # two pairs would leave four runs out
        ((0, 1, 2, 3), (2, 3, 4, 5), 0),
        ((0, 1, 2), (2, 3, 4), 0),
        ((0, 1), (5, 6), 0),
        ((0,), (0, 1), 1),
    ],
)
def test_who_is_paired(first, second, pairs):
    random = np.random.default_rng(0)
    found = compare_samples({s: random.normal() for s in first}, {s: random.normal() for s in second})
    assert (found.pairs, found.counts, found.has_interval) == (pairs, (len(first), len(second)), pairs != 1)


def test_pairs_of_another_pretraining_are_none():
    (group,) = group_runs(runs_of(values=(0.9, 0.91)))
    (other,) = group_runs(runs_of("orca", values=(0.8, 0.82), **{"pretrain.seed": 7}))
    assert differences.of_groups(group, other, "all").pairs == 0


def test_what_has_no_number_has_no_difference():
    assert compare_samples(drawn(0.5, math.nan), drawn(0.5, 0.6)) is None and compare_samples({}, drawn(0.5)) is None
    assert compare_samples(drawn(0.5, math.inf), drawn(0.5, 0.6)) is None
    assert compare_samples(drawn(0.5), drawn(-math.inf)) is None


def test_a_run_without_a_number_does_not_change_who_is_paired():
    """One of five has diverged: of the two groups that share two seeds it leaves Welch's t, of pairs both runs go."""
    five, three = {seed: 0.1 * seed for seed in range(5)}, {3: 0.3, 4: 0.1, 9: 0.2}
    apart = compare_samples(five | {0: math.inf}, three | {9: math.nan}, skips_missing=True)
    assert (apart.pairs, apart.counts) == (0, (4, 2))
    paired = compare_samples(five | {1: math.nan}, {0: 0.1, 1: 0.2, 2: 0.3}, skips_missing=True)
    assert (paired.pairs, paired.counts) == (2, (4, 3))
    assert compare_samples({0: math.nan}, {0: 0.1}, skips_missing=True) is None


@pytest.mark.parametrize(
    "first, second, words, seeds",
    [
        ((0.9, 0.91, 0.92), (0.5, 0.52, 0.51), "higher", ""),
        ((0.5, 0.52, 0.51), (0.9, 0.91, 0.92), "lower", ""),
        ((0.9, 0.8, 0.85), (0.85, 0.85, 0.8), "not distinguishable with 3 seeds", "97"),
        ((0.9, 0.8, 0.9), (0.8, 0.9, 0.8999), "not distinguishable with 3 seeds", "over 1,000"),
        ((0.9,), (0.5,), "one seed: chance cannot be ruled out", ""),
        ((0.9,), (0.5, 0.6), "one seed: chance cannot be ruled out", ""),
        ((0.9, 0.8), (0.9, 0.8), "equal results with all 2 seeds", ""),
        ((0.9, 0.8), (0.8, 0.7), "the same difference with all 2 seeds, so chance cannot be estimated", ""),
    ],
)
def test_what_is_said_of_a_difference_and_how_many_seeds_it_would_take(first, second, words, seeds):
    found = compare_samples(drawn(*first), drawn(*second))
    assert (verdict(found), seeds_needed_in_words(found)) == (words, seeds)
    assert found.is_distinguishable == (words in ("higher", "lower"))


def test_a_cell_has_points_and_the_interval_where_there_is_one():
    assert differences.format_difference(compare_samples(drawn(0.9, 0.92), drawn(0.8, 0.81))) == "+10.5 [+4.1, +16.9]"
    assert differences.format_difference(compare_samples(drawn(0.5), drawn(0.62))) == "-12.0"
    assert differences.format_difference(None) == "-"


def test_all_are_held_against_the_most_usual_lps_whatever_its_scores():
    runs = [*runs_of("orca", (0.99, 0.98)), *runs_of(values=(0.1, 0.2), margin_scale=5.0), *runs_of(values=(0.2, 0.1))]
    groups = group_runs(runs)
    held = compare_groups(groups)
    assert {reference.label for reference in held.references} == {"LPS, margin_scale=10"} and held.rows == [0, 1]
    other = compare_groups(groups, groups[0])
    assert other.rows == [1, 2] and other.differences[1, "all"].mean == pytest.approx(-0.835)


def test_groups_of_another_split_or_way_to_score_are_not_held_against_each_other():
    runs = [*runs_of(values=(0.9, 0.8)), *runs_of("orca", (0.5, 0.6)), *runs_of("gcd", (0.5, 0.6), matched=True)]
    runs += [*runs_of(values=(0.3, 0.2), split="t"), *runs_of("orca", (0.2, 0.1), split="t")]
    groups = group_runs(runs)
    held = compare_groups(groups)
    splits = [(groups[row].members[0].split, held.references[row].members[0].split) for row in held.rows]
    assert len(splits) == 3 and all(own == other for own, other in splits)
    gcd = next(row for row in held.rows if groups[row].config.method == "gcd")
    # Matched is no match for raw.
    assert {column for row, column in held.differences if row == gcd} == {"novel", "all", "nmi"}


def test_what_is_beyond_zero_alone_but_not_among_many_says_so():
    usual = runs_of(values=(0.80, 0.82, 0.81, 0.805))
    low = runs_of("orca", (0.79, 0.80, 0.803, 0.793))
    many = [run for k in range(1, 9) for run in runs_of(values=(0.8, 0.82, 0.8101, 0.8052), temperature=0.1 * k + 0.5)]
    alone, among = compare_groups(group_runs([*usual, *low])), compare_groups(group_runs([*usual, *low, *many]))
    assert verdict(alone.differences[1, "all"]) == "lower" and (1, "all") in alone.bold
    corrected = "distinguishable as a single comparison, but not after correction for 9 comparisons"
    assert verdict(among.differences[1, "all"]) == corrected
    assert (1, "all") not in among.bold and seeds_needed_in_words(among.differences[1, "all"]) == ""


def test_a_sentence_a_row_tells_what_these_seeds_cannot():
    groups = group_runs([*runs_of(values=(0.9, 0.8, 0.85)), *runs_of("orca", (0.85, 0.85, 0.8))])
    assert differences.undecided_in_words(compare_groups(groups)) == [
        "ORCA against LPS: equal results with all 3 seeds: seen, novel, NMI, gap",
        "ORCA against LPS: not distinguishable with 3 seeds: all (it would need 97)",
    ]
    said = " ".join(differences.explain_differences(compare_groups(groups)))
    assert "seed by seed" in said and "80 of 100" in said and "Holm" not in said
    assert differences.explain_differences(compare_groups(groups[:1])) == []
    json_rows = json.loads(score_tables.format_table(groups, "json"))
    assert json_rows[1]["differences"]["all"]["seeds_needed"] == 97
    assert json_rows[1]["differences"]["seen"]["seeds_needed"] is None


def test_a_row_that_shares_only_some_seeds_with_its_baseline_names_them():
    held = compare_groups(groups := group_runs([*runs_of(values=(0.9, 0.8, 0.7)), *runs_of("orca", (0.8, 0.8))]))
    assert held.seeds(1) == "0, 1 (2 of 3)" and held.differences[1, "all"].mean == pytest.approx(-0.05)
    assert any("0 (1 of 2)" in line for line in differences.explain_differences(held))
    assert all("0, 1 (2 of 3)" in score_tables.format_table(groups, form) for form in ("markdown", "latex"))
    (row,) = list(csv.DictReader(io.StringIO(score_tables.format_table(groups, "csv"))))[1:]
    assert (row["pairs"], row["paired_seeds"]) == ("2", "0 1")
    assert json.loads(score_tables.format_table(groups, "json"))[1]["paired_seeds"] == [0, 1]


@pytest.mark.parametrize(
    "own, others, missing",
    [
        ([0], [0, 1, 2], [1, 2]),
        ([0, 1], [0, 1, 2], [2]),
        ([7], [0, 1], [0, 1]),
        ([0], [0], [1]),
        ([1], [1], [0]),
        ([0, 1], [0, 1], []),
        ([0, 1, 2], [0, 1], []),
        ([3, 4], [0, 1], []),
    ],
)
def test_a_row_lacks_the_seeds_of_its_baseline_and_with_one_seed_another_one(own, others, missing):
    groups = [group_runs(runs_of(values=(0.9,) * len(seeds), seeds=seeds))[0] for seeds in (own, others)]
    assert differences.missing_seeds(*groups) == missing


def test_the_number_of_comparisons_is_told_beside_rows_that_cannot_be_tested():
    runs = [*runs_of(values=(0.9, 0.8, 0.85)), *runs_of("orca", (0.2, 0.3, 0.25)), *runs_of("fixmatch", (0.4,))]
    runs += runs_of("gcd", (0.1, 0.2, 0.12))
    held = compare_groups(group_runs(runs))
    assert {difference.together for difference in held.differences.values()} == {0, 2}
    assert any("bold" in line and "2" in line for line in differences.explain_differences(held))


def test_a_difference_that_does_not_match_the_rounded_numbers_is_explained():
    held = compare_groups(group_runs([*runs_of(values=(0.9976,)), *runs_of("orca", (0.9953,))]))
    cell = differences.format_difference(held.differences[1, "all"])
    assert cell == "-0.2", "99.8 and 99.5 in the table"
    assert any("before rounding" in line for line in differences.explain_differences(held))


def test_a_seed_that_was_run_twice_counts_once():
    twice = runs_of(values=(0.9, 0.8))
    again = replace(twice[0], run=Run(Path("runs/20270101-000000-digits-lps-s0-bbbbbb")))
    groups = group_runs([*twice, again, *runs_of("orca", (0.5, 0.6))])
    assert compare_groups(groups).differences[1, "all"].pairs == 2


@pytest.mark.parametrize("means, n", [([0] * 2, 3), ([0] * 3, 3), ([0] * 5, 5), ([100, 100, 0, 0], 5)])
def test_of_equal_groups_one_is_marked_in_at_most_5_of_100_draws(means, n):
    """The best groups have the same mean, and all share what a seed does; a mark is false each time."""
    random, draws = np.random.default_rng(len(means)), 1500
    values = random.normal(0, 1, (draws, len(means), n)) + random.normal(0, 2, (draws, 1, n)) + np.c_[means]
    marked = [differences.best_sample([drawn(*own) for own in one]) is not None for one in values]
    assert np.mean(marked) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / draws)


def test_a_clear_winner_is_marked():
    values = np.random.default_rng(0).normal(0, 1, (200, 3, 5)) + np.array([0, 10, 0])[:, None]
    assert np.mean([differences.best_sample([drawn(*own) for own in one]) == 1 for one in values]) > 0.99
