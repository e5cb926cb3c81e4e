"""Effects: groups against loops over pairs of runs, shares of variance against closed forms, what is missing."""

import itertools
import math
import random
from pathlib import Path

import numpy as np
import pytest

from lps.analysis import ablation, effects, paper_results
from lps.analysis.effects import (
    find_backgrounds,
    missing_configs,
    most_cells,
    setting_importance,
    usual_seeds,
    varied_settings,
)
from lps.analysis.run_scores import REPEATED, Scored
from lps.charts import effect_charts
from lps.charts.palette import LIGHT
from lps.errors import UserError
from lps.scores.protocols import Scores
from lps.settings.config import configure
from lps.settings.parameters import text_of
from lps.store.runs import Run


def scored(seed=0, novel=0.8, *, split="s", day=1, method="lps", seen=0.95, complete=True, **settings) -> Scored:
    """A run of the `day`-th of a month with these scores; settings by key, dots written as __."""
    named = {key.replace("__", "."): value for key, value in settings.items()}
    config = configure({"method": method, "seed": seed} | named)
    scores = Scores(seen, novel, (seen + novel) / 2, 0.7, seen - novel, 0.0, False)
    run = Run(Path("runs") / f"202601{day:02d}-000000-digits-{method}-s{seed}-aaaaaa")
    return Scored(run, config, 20, scores, 60.0, split=split, is_complete=complete)


@pytest.fixture
def jumble():
    """Eighty runs with settings, seeds and splits drawn at random; some are the same experiment twice."""
    draw = random.Random(3)
    return [
        scored(
            draw.choice([0, 1, 2]),
            draw.random(),
            split=draw.choice(["one", "two"]),
            day=1 + place % 28,
            margin_scale=draw.choice([0, 5, 10]),
            temperature=draw.choice([0.2, 0.4]),
            lr=draw.choice([0.1, 0.05]),
            threads=draw.choice([1, 2]),
        )
        for place in range(80)
    ]


@pytest.mark.parametrize("settings", [("margin_scale",), ("temperature", "margin_scale"), ("lr",)])
def test_a_background_holds_the_runs_that_differ_in_the_settings_and_the_seed_alone(jumble, settings):
    def together(first, second):  # key by key
        if first.split != second.split:
            return False
        one, other = first.config.flat(), second.config.flat()
        return not [k for k in one if one[k] != other[k] and k not in REPEATED and k not in settings]

    found = find_backgrounds(jumble, settings)
    home = {id(m): b for b in found for g in b.groups.values() for m in (*g.members, *g.replaced)}
    assert len(home) == len(jumble)
    for first, second in itertools.combinations(jumble, 2):
        assert (home[id(first)] is home[id(second)]) == together(first, second)
    assert len({background.id for background in found}) == len(found)


def test_a_mean_is_over_one_run_of_every_seed_the_newest(jumble):
    for background in find_backgrounds(jumble, ("margin_scale",)):
        for (value,), group in background.groups.items():
            newest = {}
            for member in jumble:
                flat = member.config.flat()
                same = effects.rest_of(member.config, ("margin_scale",)) == background.rest
                if same and member.split == background.split and flat["margin_scale"] == value:
                    old = newest.get(member.config.seed)
                    newest[member.config.seed] = max(old, member, key=lambda m: m.run.id) if old else member
            numbers = [member.scores.novel for member in newest.values()]
            assert len(group.members) == len(numbers)
            assert group.mean("novel") == pytest.approx(sum(numbers) / len(numbers))
            if len(numbers) > 1:
                mean = sum(numbers) / len(numbers)
                variance = sum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1)
                assert group.std("novel") == pytest.approx(math.sqrt(variance))


def test_different_splits_are_never_averaged():
    runs = [scored(0, 0.2, split="one"), scored(1, 0.4, split="two", day=2), scored(2, 0.6, split="two", day=3)]
    first, second = find_backgrounds(runs, ("margin_scale",))
    assert [b.split for b in (first, second)] == ["two", "one"]
    assert first.groups[(10.0,)].mean("novel") == pytest.approx(0.5)
    kept, others = effects.one_split(runs)
    assert kept == runs[1:] and others == runs[:1]
    assert effects.one_split([]) == ([], [])
    with pytest.raises(UserError, match="different splits"):
        setting_importance(runs, "novel")


def test_the_background_with_most_values_is_first_then_most_runs_then_the_newest():
    runs = [scored(0, day=1, margin_scale=c, temperature=0.2) for c in (0, 5, 20)]
    runs += [scored(seed, day=2, margin_scale=c, temperature=0.3) for c in (0, 5) for seed in range(5)]
    runs += [scored(seed, day=4, margin_scale=c, temperature=0.6) for c in (0, 5) for seed in range(3)]
    runs += [scored(seed, day=5, margin_scale=c, temperature=0.5) for c in (0, 5) for seed in range(3)]
    order = [b.config.hyperparameters["temperature"] for b in find_backgrounds(runs, ["margin_scale"])]
    assert order == [0.2, 0.3, 0.5, 0.6]


def test_of_equally_large_backgrounds_the_most_usual_is_first():
    runs = [scored(day=1, margin_scale=c) for c in (0, 5)] + [scored(day=9, margin_scale=c, lr=0.3) for c in (0, 5)]
    assert [b.config.lr for b in find_backgrounds(runs, ["margin_scale"])] == [0.05, 0.3]


def test_a_method_without_the_setting_has_no_background():
    assert find_backgrounds([scored(method="gcd"), scored()], ["margin_scale"])[0].members == [scored()]
    assert find_backgrounds([scored(method="gcd")], ["margin_scale"]) == []


@pytest.mark.parametrize("settings", [["margin_scale"], ["temperature", "lr"], ["lr", "margin_scale"]])
def test_the_quick_count_of_cells_is_that_of_the_largest_background(jumble, settings):
    own = [member for member in jumble if member.split == "one"]
    largest = find_backgrounds(own, settings)[0]
    configs = [member.config for member in own]
    assert most_cells(configs, settings, varied_settings(configs)) == len(largest.groups)
    cells = {(m.config.flat()[settings[0]], m.config.flat()[settings[-1]]) for m in largest.members}
    assert len(cells) == len(largest.groups)


def test_what_is_varied_leaves_out_repetitions_splits_and_data():
    runs = [scored(0, threads=1, pretrain__seed=4), scored(1, threads=2, split__labeled_ratio=0.1)]
    assert varied_settings(run.config for run in runs) == {}
    runs.append(scored(0, lr=0.02, margin_scale=0, kl_direction="est_to_uniform", use_margin=False, threads=1))
    found = varied_settings(run.config for run in runs)
    assert found == {
        "use_margin": [False, True],
        "margin_scale": [0.0, 10.0],
        "kl_direction": ["est_to_uniform", "uniform_to_est"],
        "lr": [0.02, configure().lr],
    }
    assert list(found)[-1] == "lr"  # the method's own come first


def test_values_stand_in_the_order_of_an_axis():
    assert effects.sort_values({10, None, 0.5, 2}) == [None, 0.5, 2, 10]
    assert effects.sort_values(["b", "a"]) == ["a", "b"] and effects.sort_values([True, False]) == [False, True]


@pytest.mark.parametrize(
    "values, kind",
    [
        ([0.0, 2.0, 5.0, 10.0, 20.0], "linear"),
        ([0.2, 0.6], "linear"),
        ([0.001, 0.01, 0.1], "log"),
        ([1, 99], "linear"),
        ([1, 100], "log"),
        ([0, 0.001, 0.1], "places"),
        ([False, True], "places"),
        (["batch", "subset"], "places"),
        ([None, 5], "places"),
        ([0.0], "linear"),
    ],
)
def test_the_scale_fits_the_values(values, kind):
    assert effects.axis_scale(values) == kind


def test_a_missing_cell_is_asked_for_with_the_seeds_and_everything_else_of_the_others():
    grid = [(5, 0.2), (5, 0.4), (10, 0.4)]
    runs = [
        scored(seed, margin_scale=c, temperature=t, lr=0.03, threads=seed + 1, pretrain__seed=7 + seed)
        for c, t in grid
        for seed in (1, 3)
    ]
    (background,) = find_backgrounds(runs, ("margin_scale", "temperature"))
    seeds = usual_seeds(background.groups.values())
    assert seeds == (1, 3)
    wanted = [
        configure(
            {"seed": s, "margin_scale": 10.0, "temperature": 0.2, "lr": 0.03, "threads": s + 1, "pretrain.seed": 7 + s}
        )
        for s in (1, 3)
    ]
    assert missing_configs(background, (10.0, 0.2), seeds) == wanted
    assert missing_configs(background, (5.0, 0.2), seeds) == []
    assert [config.seed for config in missing_configs(background, (5.0, 0.2), (1, 2, 3, 4))] == [2, 4]


def test_the_usual_seeds_are_those_of_most_cells():
    def seeds_of(*cells):
        runs = [scored(seed, margin_scale=i) for i, seeds in enumerate(cells) for seed in seeds]
        return usual_seeds(find_backgrounds(runs, ["margin_scale"])[0].groups.values())

    assert seeds_of([0], [0, 1, 2], [2, 1, 0]) == (0, 1, 2)
    assert seeds_of([0], [0, 1, 2]) == (0, 1, 2)  # as frequent, and more
    assert seeds_of([4], [3]) == (3,)
    assert usual_seeds([]) == ()


def test_a_value_that_does_not_fit_is_told():
    (background,) = find_backgrounds([scored()], ["margin_scale"])
    with pytest.raises(UserError, match="margin_scale: -1"):
        missing_configs(background, (-1.0,), (0,))


def grid_of(effect, seeds=(0, 1)) -> list[Scored]:
    """Three margins, two temperatures, two learning rates; `effect` gives the novel accuracy of a setup."""
    return [
        scored(seed, effect(c, t, lr) + (0.01 if seed else -0.01), margin_scale=c, temperature=t, lr=lr)
        for c, t, lr in itertools.product((0, 5, 10), (0.2, 0.4), (0.1, 0.05))
        for seed in seeds
    ]


def test_shares_of_independent_effects_are_their_variances_and_add_up_to_all():
    found, left_out = setting_importance(grid_of(lambda c, t, lr: 0.3 + 0.02 * c + 0.5 * t), "novel")
    margin = np.var([0.0, 0.1, 0.2])
    heat = np.var([0.1, 0.2])
    shares = {item.setting: item.share for item in found}
    assert shares == pytest.approx(
        {"margin_scale": margin / (margin + heat), "temperature": heat / (margin + heat), "lr": 0}
    )
    assert sum(shares.values()) == pytest.approx(1) and left_out == {}
    assert [item.share for item in found] == sorted(shares.values(), reverse=True)
    assert {item.setting: item.chance for item in found} == {
        "margin_scale": 2 / 11,
        "temperature": 1 / 11,
        "lr": 1 / 11,
    }


def test_shares_equal_a_loop_over_setups():
    draw = np.random.default_rng(5)
    runs = grid_of(lambda c, t, lr: draw.random())
    found, _ = setting_importance(runs, "gap")
    means = {}
    for run in runs:
        means.setdefault(tuple(effects.values_of(run.config, ["margin_scale", "temperature", "lr"])), []).append(
            run.scores.gap
        )
    means = {key: sum(own) / len(own) for key, own in means.items()}
    grand = sum(means.values()) / len(means)
    total = sum((mean - grand) ** 2 for mean in means.values())
    for place, setting in enumerate(["margin_scale", "temperature", "lr"]):
        between = 0.0
        for value in {key[place] for key in means}:
            own = [mean for key, mean in means.items() if key[place] == value]
            between += len(own) * (sum(own) / len(own) - grand) ** 2
        assert next(i.share for i in found if i.setting == setting) == pytest.approx(between / total)


def test_too_little_is_refused():
    runs = grid_of(lambda c, t, lr: 0.3 + 0.02 * c)
    with pytest.raises(UserError, match="at least 8 different configurations; these runs have 7"):
        setting_importance(runs[:14], "novel")
    with pytest.raises(UserError, match="cannot be measured"):
        setting_importance(grid_of(lambda c, t, lr: 0.5), "novel")
    with pytest.raises(UserError, match="these runs have 0"):
        setting_importance([], "novel")
    with pytest.raises(UserError, match="these runs have 1$"):
        setting_importance(runs[:1], "novel")
    one_by_one = [scored(0, 0.1 * place, margin_scale=place) for place in range(9)]
    found, left_out = setting_importance(one_by_one, "novel")
    assert found == [] and "with 9 values and only 9 configurations" in left_out["margin_scale"]


def associated(seed: int) -> list[Scored]:
    """18 setups of three settings: the margin does all, lr does nothing but is mostly high where the margin is."""
    draw, runs = np.random.default_rng(seed), []
    for margin, lr, heat in itertools.product((0, 5, 10), range(3), (0.2, 0.4)):
        rate = 0.1 if (lr < 2) == (margin > 0) else 0.05
        own = {"margin_scale": margin, "lr": rate, "temperature": heat, "entropy_weight": 0.1 * lr}
        runs.append(scored(0, 0.3 + 0.03 * margin + draw.normal(0, 0.02), **own))
    return runs


@pytest.mark.slow
def test_a_setting_that_does_nothing_gets_no_share_for_going_along_with_one_that_does():
    """By itself it has more than a fifth of the variance; a share near its mark is right."""
    shares = []
    for seed in range(30):
        found, left_out = setting_importance(associated(seed), "novel")
        shares.append({item.setting: (item.share, item.chance) for item in found})
        assert left_out == {}
    chance = shares[0]["lr"][1]
    assert np.mean([own["lr"][0] for own in shares]) < chance < 0.1
    assert min(own["margin_scale"][0] for own in shares) > 0.5
    ((one, other, strength), *_) = effects.setting_associations(associated(0))
    assert {one, other} == {"margin_scale", "lr"} and 0.3 < strength < 1


def test_a_setting_that_follows_from_another_is_left_out():
    runs = [
        scored(0, 0.1 * place + 0.01 * heat, margin_scale=place, lr=0.1 if place < 2 else 0.05, temperature=heat)
        for place in range(4)
        for heat in (0.2, 0.4, 0.6)
    ]
    found, left_out = setting_importance(runs, "novel")
    assert [item.setting for item in found] == ["temperature"]
    assert left_out.keys() == {"margin_scale", "lr"} and "determined by" in left_out["lr"]
    assert effects.setting_associations(runs)[0][2] == pytest.approx(1)


def test_independent_settings_are_not_associated():
    assert effects.setting_associations(grid_of(lambda c, t, lr: 0.5)) == []


def test_settings_that_changed_together_are_named():
    configs = [scored(margin_scale=c, lr=0.01 * (c + 1), temperature=t).config for c in (0, 5) for t in (0.2, 0.4)]
    assert effects.changed_together(configs) == [("margin_scale", "lr")]
    assert effects.changed_together(configs[:1]) == []


def test_the_papers_curve_stands_beside_a_run_that_is_like_it():
    member = scored(dataset="cifar10", margin_scale=7)
    found, reasons = effects.paper_curve(member, "margin_scale")
    printed = {
        float(row.value): row.novel
        for row in paper_results.paper_rows()
        if (row.table, row.dataset) == ("supp_C", "CIFAR-10")
    }
    assert {value: row.novel for value, row in found.items()} == printed and len(printed) == 5 and reasons == []


@pytest.mark.parametrize(
    "settings, setting, words",
    [
        ({}, "margin_scale", "it has no results on digits"),
        ({"dataset": "cifar10"}, "lr", "it has no curve of lr for LPS"),
        ({"dataset": "cifar10"}, "pseudo_label_weight", "it has no curve of pseudo_label_weight for CIFAR-10"),
        ({"dataset": "cifar10", "epochs": 3}, "margin_scale", "3 epochs"),
        ({"dataset": "cifar10", "lr": 0.1, "temperature": 0.25}, "margin_scale", "temperature=0.25"),
        ({"dataset": "cifar10", "split__labeled_ratio": 0.1}, "margin_scale", "it has no curve of margin_scale"),
        ({"method": "gcd"}, "temperature", "it has no curve of temperature for GCD"),
    ],
)
def test_the_reasons_against_the_papers_curve_are_told(settings, setting, words):
    found, reasons = effects.paper_curve(scored(**settings), setting)
    assert found == {} and any(words in reason for reason in reasons)


def test_the_ablation_table_has_a_row_for_each_part_and_knows_what_is_missing():
    runs = [scored(seed, 0.9 - 0.1 * seed) for seed in (0, 1)]
    runs += [scored(seed, 0.5, use_margin=False) for seed in (0, 1)]
    runs += [scored(0, 0.4, entropy_weight=0), scored(0, 0.3, entropy_weight=0, unsupervised_weight=0)]
    (table,) = ablation.ablation_tables([*runs, scored(method="gcd")])
    assert [row.name for row in table.rows] == ["Full LPS", *ablation.WITHOUT]
    assert [len(row.group.members) if row.group else 0 for row in table.rows] == [2, 2, 0, 0, 1]
    assert table.rows[0].group.mean("novel") == pytest.approx(0.85) and table.rows[0].group.label == "Full LPS"
    lacking = {row.name: table.missing(row) for row in table.rows if table.missing(row)}
    assert lacking == {
        "Without pseudo-label contrastive loss": [configure({"seed": s, "pseudo_label_weight": 0.0}) for s in (0, 1)],
        "Without unsupervised contrastive loss": [configure({"seed": s, "unsupervised_weight": 0.0}) for s in (0, 1)],
        "Without entropy": [configure({"seed": 1, "entropy_weight": 0.0})],
    }
    assert table.runs == 5 and ablation.changed_weights(table) == ""


def test_either_way_to_leave_out_the_margin_counts_and_they_are_not_mixed():
    runs = [
        scored(0, 0.9),
        scored(0, 0.5, use_margin=False),
        scored(0, 0.6, margin_scale=0),
        scored(1, 0.8, margin_scale=0),
    ]
    (table,) = ablation.ablation_tables(runs)
    assert table.rows[1].group.mean("novel") == pytest.approx(0.7)
    (table,) = ablation.ablation_tables(runs[:3])
    assert table.rows[1].group.mean("novel") == pytest.approx(0.5)


def test_a_part_that_was_left_out_of_nothing_else_makes_a_table_of_its_own():
    (table,) = ablation.ablation_tables([scored(use_margin=False, margin_scale=5)])
    assert table.rows[0].group is None and table.rows[1].group is not None
    assert table.missing(table.rows[0]) == [configure({"margin_scale": 5.0})]
    assert ablation.changed_weights(table) == "margin_scale=5"


def test_full_methods_are_kept_apart_and_the_most_complete_table_is_first():
    runs = [scored(lr=0.02), scored(), scored(entropy_weight=0), scored(entropy_weight=2.0), scored(split="other")]
    found = ablation.ablation_tables(runs)
    assert [len(table.groups) for table in found] == [2, 2, 1, 1]  # the run without entropy belongs to both weights
    assert len({table.id for table in found}) == 4
    assert found[0].rows[0].group.members == (runs[1],)
    assert ablation.ablation_tables([scored(method="gcd")]) == []


def test_a_label_is_written_as_after_set():
    (background,) = find_backgrounds([scored(use_margin=False)], ["use_margin", "margin_scale"])
    assert [group.label for group in background.groups.values()] == ["use_margin=false, margin_scale=10"]
    assert text_of(0.0) == "0"


@pytest.mark.parametrize(
    "values, has_ticks", [((1.0, 5.0, 10.0), True), ((1.9091156976, 1.9883771, 18.74685), False), (("in", "out"), True)]
)
def test_every_value_has_its_tick_where_their_words_have_room(values, has_ticks):
    axis = effect_charts.Axis.from_values("margin_scale", values).layout(LIGHT)
    assert ("ticktext" in axis) == has_ticks
    assert effect_charts.shorten_value(18.746856864570596) == "18.75"
