"""Main effects: paired differences over complete blocks, against numbers worked out by hand."""

import itertools
import math
from dataclasses import replace

import pytest

from lps.analysis.main_effects import MainEffect, find_interactions, find_reversal, main_effects
from lps.analysis.run_scores import score_run
from lps.charts import effect_charts
from lps.charts.palette import LIGHT
from lps.settings.config import configure
from lps.store.runs import Run
from lps.ui.shared import group_differences
from tests.sample_runs import make_run


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A function that makes a scored run of settings, a seed and a novel accuracy."""
    pattern = score_run(make_run(tmp_path_factory.mktemp("runs"), epochs=2))
    numbers = itertools.count()

    def make(novel: float, seed: int = 0, **settings):
        config = configure({"dataset": "digits", "method": "lps", "seed": seed} | settings)
        run = Run(pattern.run.folder.with_name(f"20260101-000000-digits-lps-s{seed}-{next(numbers):06d}"))
        return replace(pattern, run=run, config=config, scores=replace(pattern.scores, novel=novel))

    return make


def test_a_grid_of_two_by_two_has_the_mean_of_both_rows(scored):
    values = {(5.0, 0.2): 0.50, (10.0, 0.2): 0.60, (5.0, 0.4): 0.52, (10.0, 0.4): 0.82}
    found = main_effects([scored(v, margin_scale=c, temperature=t) for (c, t), v in values.items()], "novel")
    assert [(item.setting, item.before, item.after) for item in found] == [
        ("margin_scale", 5.0, 10.0),
        ("temperature", 0.2, 0.4),
    ]
    assert [item.difference for item in found] == pytest.approx([0.20, 0.12])
    assert all(math.isnan(item.half_width) and (item.seeds, item.contexts, item.pairs) == (1, 2, 1) for item in found)
    said = group_differences.describe_main_effects(found, "novel").replace("\\", "")
    assert said.startswith("Largest effects on novel accuracy (one seed: chance cannot be ruled out): **margin")
    assert "margin_scale** +20.0 points from 5 to 10; **temperature** +12.0 points from 0.2 to 0.4. " in said


def test_the_interval_comes_from_the_seeds(scored):
    gains = (0.10, 0.20, 0.30)
    made = [
        scored(0.5 + (c == 10.0) * gain, seed, margin_scale=c) for seed, gain in enumerate(gains) for c in (5.0, 10.0)
    ]
    (found,) = main_effects(made, "novel")
    assert found.difference == pytest.approx(0.20)
    assert found.half_width == pytest.approx(4.302653 * 0.1 / math.sqrt(3), rel=1e-5), "Student's t, two degrees"
    assert effect_charts.effect_in_points(found) == "+20.0 points, 95 % interval −4.8 to 44.8"
    said = group_differences.describe_main_effects([found], "novel")
    assert said.startswith("Largest effects on novel accuracy (not distinguishable from chance): **margin")
    advice = "vary too much between the 3 seeds to tell them from chance; 5 or more seeds narrow the intervals."
    assert said.endswith(f" The effects {advice}")
    averages = group_differences.describe_main_effects([replace(found, contexts=2)], "novel")
    assert f" These averages {advice} The difference of two single combinations can vary less" in averages
    assert "vary too much" not in group_differences.describe_main_effects([replace(found, seeds=5)], "novel")
    clear = replace(found, setting="temperature", half_width=0.1)
    said = group_differences.describe_main_effects([found, clear], "novel")
    assert "accuracy: **margin" in said and "from 5 to 10 (not distinguishable from chance); **temp" in said
    assert "vary too much" not in said


@pytest.mark.parametrize(
    ("points", "tie"),
    [((20, 19), "Both"), ((20, 17), ""), ((20, -19, 2), "**a** and **b**"), ((20, 19, 19), "**a**, **b** and **c**")],
)
def test_effects_of_about_the_same_size_are_called_so(points, tie):
    found = [MainEffect(name, 0, 1, point / 100, 0.01, 3, 1, 1) for name, point in zip("abc", points)]
    said = group_differences.describe_main_effects(found, "novel")
    assert (f". {tie} matter about equally. " in said) == bool(tie) == ("equally" in said)
    assert "equally" not in group_differences.describe_main_effects(
        [replace(item, half_width=0.5) for item in found], "novel"
    )


def test_of_several_values_the_largest_pair_counts_with_a_wider_interval(scored):
    level = {5.0: 0.5, 10.0: 0.6, 20.0: 0.9}
    made = [scored(level[c] + 0.01 * seed * (c == 20.0), seed, margin_scale=c) for c in level for seed in range(3)]
    (found,) = main_effects(made, "novel")
    assert (found.before, found.after, found.pairs) == (5.0, 20.0, 3)
    assert found.half_width == pytest.approx(7.648869 * 0.01 / math.sqrt(3), rel=1e-4), "t at 1 - 0.05 / 6"


def test_runs_that_lack_their_counterpart_do_not_count(scored):
    values = {(5.0, 0.2): 0.50, (10.0, 0.2): 0.60, (20.0, 0.4): 0.99}
    (found,) = main_effects([scored(v, margin_scale=c, temperature=t) for (c, t), v in values.items()], "novel")
    assert (found.setting, found.before, found.after) == ("margin_scale", 5.0, 10.0)
    assert found.difference == pytest.approx(0.1)


def test_only_seeds_that_both_values_have_are_compared(scored):
    made = [scored(0.5, 0, margin_scale=5.0), scored(0.9, 1, margin_scale=5.0), scored(0.6, 0, margin_scale=10.0)]
    (found,) = main_effects(made, "novel")
    assert found.difference == pytest.approx(0.1) and found.seeds == 1


def test_effects_that_round_to_nothing_are_not_named(scored):
    found = main_effects([scored(0.5, margin_scale=5.0), scored(0.5002, margin_scale=10.0)], "novel")
    said = group_differences.describe_main_effects(found, "novel")
    assert said == "No setting changes novel accuracy on average in these runs."


def test_nothing_varied_has_no_effect(scored):
    assert main_effects([scored(0.5), scored(0.6, 1)], "novel") == []
    assert group_differences.describe_main_effects([], "novel") == ""


def test_the_chart_has_a_bar_for_each_setting_the_largest_on_top(scored):
    values = {(5.0, 0.2): 0.50, (10.0, 0.2): 0.60, (5.0, 0.4): 0.52, (10.0, 0.4): 0.82}
    found = main_effects([scored(v, margin_scale=c, temperature=t) for (c, t), v in values.items()], "novel")
    figure = effect_charts.main_effects(found, LIGHT).figure()
    assert list(figure.data[0].x) == pytest.approx([12.0, 20.0]) and not figure.data[0].error_x.visible
    assert list(figure.layout.yaxis.ticktext) == ["temperature<br>0.2 → 0.4", "margin_scale<br>5 → 10"]
    assert [item.text for item in figure.layout.annotations] == ["+12.0", "+20.0"]
    with_intervals = effect_charts.main_effects([replace(found[0], half_width=0.248)], LIGHT).figure()
    assert with_intervals.layout.annotations[0].text == "+20.0 [−4.8, +44.8]"


def test_the_largest_pair_counts_though_another_has_more_contexts(scored):
    values = {(5.0, 0.2): 0.5, (10.0, 0.2): 0.501, (5.0, 0.4): 0.5, (10.0, 0.4): 0.501, (20.0, 0.4): 0.9}
    found = main_effects([scored(v, margin_scale=c, temperature=t) for (c, t), v in values.items()], "novel")
    assert (found[0].before, found[0].after, found[0].contexts) == (5.0, 20.0, 1)


def test_runs_of_another_precision_are_not_paired(scored):
    exact = [scored(0.5, margin_scale=c) for c in (5.0, 10.0)]
    rough = [replace(scored(0.8, margin_scale=10.0), precision="bf16")]
    (found,) = main_effects([*exact, *rough], "novel")
    assert found.difference == 0.0


def test_an_effect_that_changes_its_sign_is_named_although_its_mean_is_small(scored):
    values = {(5.0, 0.2): 0.50, (10.0, 0.2): 0.49, (5.0, 0.4): 0.60, (10.0, 0.4): 0.614}
    found = find_reversal([scored(v, margin_scale=c, temperature=t) for (c, t), v in values.items()], "novel")
    assert (found.low.setting, found.low.before, found.low.after) == ("margin_scale", 5.0, 10.0)
    assert (found.other, found.low_value, found.high_value) == ("temperature", 0.2, 0.4)
    assert (found.low.difference, found.high.difference) == pytest.approx((-0.01, 0.014))
    assert group_differences.describe_reversal(found).replace("\\", "") == (
        "The effect of **margin_scale** from 5 to 10 depends on **temperature**: −1.0 points with temperature=0.2 "
        "but +1.4 points with temperature=0.4 (one seed: chance cannot be ruled out)."
    )


def test_a_change_of_the_sign_that_the_mean_hides_is_named_below_one_point(scored):
    values = {(5.0, 0.5): 0.956, (5.0, 1.0): 0.965, (10.0, 0.5): 0.970, (10.0, 1.0): 0.964}
    found = find_reversal([scored(v, margin_scale=c, entropy_weight=w) for (c, w), v in values.items()], "novel")
    assert (found.low.setting, found.other) == ("entropy_weight", "margin_scale")
    assert (found.low_value, found.high_value) == (10.0, 5.0)
    assert (found.low.difference, found.high.difference) == pytest.approx((-0.006, 0.009))


@pytest.mark.parametrize("last", [0.595, 0.6003, 0.605])
def test_of_one_seed_an_effect_smaller_than_the_mean_or_of_one_sign_is_no_reversal(scored, last):
    values = {(5.0, 0.2): 0.50, (10.0, 0.2): 0.48, (5.0, 0.4): 0.60, (10.0, 0.4): last}
    made = [scored(v, margin_scale=c, temperature=t) for (c, t), v in values.items()]
    assert find_reversal(made, "novel") is None and group_differences.describe_reversal(None) == ""


@pytest.mark.parametrize(("noise", "is_found"), [(0.001, True), (0.03, False)])
def test_of_several_seeds_both_effects_of_a_reversal_exclude_0(scored, noise, is_found):
    means = {(5.0, 0.2): 0.50, (10.0, 0.2): 0.48, (5.0, 0.4): 0.60, (10.0, 0.4): 0.62}
    made = [
        scored(mean + noise * (seed - 1) * (c == 10.0), seed, margin_scale=c, temperature=t)
        for (c, t), mean in means.items()
        for seed in range(3)
    ]
    found = find_reversal(made, "novel")
    assert (found is not None) == is_found
    assert not is_found or "one seed" not in group_differences.describe_reversal(found)


def test_effects_that_differ_more_than_their_mean_are_named_instead_of_it(scored):
    """No pair of these runs differs by 17.1 points, which is the mean of +33.6 and +0.6."""
    values = {(1.0, 0.25): 0.619, (10.0, 0.25): 0.955, (1.0, 1.0): 0.955, (10.0, 1.0): 0.961}
    made = [scored(v, margin_scale=c, entropy_weight=w) for (c, w), v in values.items()]
    found = find_interactions(made, "novel", main_effects(made, "novel"))
    assert {(name, item.other) for name, item in found.items()} == {
        ("margin_scale", "entropy_weight"),
        ("entropy_weight", "margin_scale"),
    }
    assert group_differences.describe_effects(made, "novel").replace("\\", "") == (
        "Largest effects on novel accuracy (one seed: chance cannot be ruled out): **margin_scale** +33.6 points from "
        "1 to 10 with entropy_weight=0.25 but +0.6 points with entropy_weight=1; **entropy_weight** +33.6 points from "
        "0.25 to 1 with margin_scale=1 but +0.6 points with margin_scale=10. Both matter about equally. "
        "The combination matters."
    )


def test_an_effect_that_rounds_to_nothing_beside_a_large_one_is_called_equal(scored):
    values = {(1.0, 0.25): 0.619, (10.0, 0.25): 0.955, (1.0, 1.0): 0.955, (10.0, 1.0): 0.955}
    said = group_differences.describe_effects(
        [scored(v, margin_scale=c, entropy_weight=w) for (c, w), v in values.items()], "novel"
    ).replace("\\", "")
    assert "+33.6 points from 1 to 10 with entropy_weight=0.25 but equal with entropy_weight=1;" in said


def test_an_interaction_that_changes_the_sign_is_named_once(scored):
    values = {(5.0, 0.2): 0.50, (10.0, 0.2): 0.45, (5.0, 0.4): 0.60, (10.0, 0.4): 0.68}
    made = [scored(v, margin_scale=c, temperature=t) for (c, t), v in values.items()]
    said = group_differences.describe_effects(made, "novel").replace("\\", "")
    assert "**margin_scale** +8.0 points from 5 to 10 with temperature=0.4 but −5.0 points with" in said
    assert "**temperature** +16.5 points from 0.2 to 0.4" in said and "depends on" not in said


def test_effects_that_cancel_out_are_named_as_a_reversal(scored):
    values = {(5.0, 0.2): 0.5, (10.0, 0.2): 0.6, (5.0, 0.4): 0.6, (10.0, 0.4): 0.5}
    made = [scored(v, margin_scale=c, temperature=t) for (c, t), v in values.items()]
    said = group_differences.describe_effects(made, "novel").replace("\\", "")
    assert "No setting changes novel accuracy on average" in said and "depends on" in said and "+10.0 points" in said


@pytest.mark.parametrize("noise, last, is_found", [(0.001, 0.71, True), (0.2, 0.71, False), (0.001, 0.85, False)])
def test_of_several_seeds_an_interaction_is_distinguishable(scored, noise, last, is_found):
    means = {(1.0, 0.25): 0.4, (10.0, 0.25): 0.6, (1.0, 1.0): 0.7, (10.0, 1.0): last}
    made = [
        scored(mean + noise * (seed - 1) * (c == 10.0) * w, seed, margin_scale=c, entropy_weight=w)
        for (c, w), mean in means.items()
        for seed in range(3)
    ]
    assert ("margin_scale" in find_interactions(made, "novel", main_effects(made, "novel"))) == is_found


@pytest.mark.parametrize(("weights", "is_found"), [((0.0, 1.0), True), ((0.0, 0.25, 0.5, 0.75, 1.0), False)])
def test_the_more_values_the_other_setting_has_the_clearer_an_interaction_must_be(scored, weights, is_found):
    """Between the weights 0 and 1 alone, p is 0.03; for the reversal, p is 0.02 at each of them."""

    def grid(noise):
        return [
            scored(0.5 + (c == 10.0) * (part + noise(w) * (seed - 1)), seed, margin_scale=c, entropy_weight=w)
            for w, part in ((w, {0.0: -0.05, 1.0: 0.05}.get(w, 0.0)) for w in weights)
            for c in (1.0, 10.0)
            for seed in range(3)
        ]

    made = grid(lambda weight: 0.031 * weight)
    assert ("margin_scale" in find_interactions(made, "novel", main_effects(made, "novel"))) == is_found
    assert (find_reversal(grid(lambda weight: 0.0124), "novel") is not None) == is_found


def test_of_one_seed_a_small_spread_is_no_interaction(scored):
    values = {(5.0, 0.2): 0.500, (10.0, 0.2): 0.501, (5.0, 0.4): 0.500, (10.0, 0.4): 0.505}
    made = [scored(v, margin_scale=c, temperature=t) for (c, t), v in values.items()]
    assert not find_interactions(made, "novel", main_effects(made, "novel"))
