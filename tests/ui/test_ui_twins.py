"""Which runs fit beside each other, and what their shared axes, differences and frames are."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lps.analysis import run_diff, run_groups
from lps.charts import pace_charts
from lps.charts.event_log import History
from lps.charts.palette import LIGHT
from lps.errors import UserError
from lps.race import race_data
from lps.scores.milestones import Mark
from lps.settings import cli_args, config
from lps.store import titles
from lps.store.run_folders import create_run
from lps.ui.race import page
from lps.ui.server import run_toasts
from lps.ui.shared import comparable_runs
from lps.ui.shared.history import read_history
from tests.sample_runs import held, make_run, make_unreadable


def short(root, state="finished", **settings):
    """A run of one epoch."""
    seed = settings.pop("seed", 0)
    return make_run(root, state, epochs=1, written=1, seed=seed, settings=settings, name="")


def series(values: dict[int, float]) -> pd.Series:
    return pd.Series(values, dtype=float)


def past(**columns: dict[int, float]) -> History:
    """accuracy/<name> by epoch."""
    return History(epochs=pd.DataFrame({f"accuracy/{name}": series(values) for name, values in columns.items()}))


def test_partners_are_telling_and_of_one_split(tmp_path):
    older = short(tmp_path, method="orca")
    other_seed = short(tmp_path, method="orca", seed=1)
    gcd = short(tmp_path, method="gcd")
    scale = short(tmp_path, margin_scale=5.0)
    without = short(tmp_path, use_margin=False)
    left_out = [
        short(tmp_path, method="nach", **{"split.labeled_ratio": 0.3}),
        short(tmp_path, "failed", method="nach"),
        short(tmp_path, seed=2),  # the same but for its seed
        make_unreadable(tmp_path),
    ]
    first = short(tmp_path)
    runs = [first, *left_out, without, scale, gcd, other_seed, older]
    assert comparable_runs.find_partners(first, runs) == [without, older, gcd, scale]
    assert comparable_runs.default_candidates(runs) == [first, without]
    assert comparable_runs.find_margin_pair(without, runs) == [first, without]
    assert run_toasts._link_to_run(first, runs) == f"[Watch the race](/pace?run={first.id}&run={without.id})"
    assert run_toasts._link_to_run(first, runs, frozenset([first.id, without.id])) == ""
    ended = short(tmp_path, "failed"), short(tmp_path, "stopped")  # their partner has finished
    assert not any(comparable_runs.find_margin_pair(run, runs) for run in (older, scale, other_seed, *ended))
    without_it = [run for run in runs if run != without]
    assert comparable_runs.default_candidates(without_it) == [first, older, gcd, scale]
    newer = [short(tmp_path, entropy_weight=weight, seed=1) for weight in (0.5, 0.6, 0.7)]
    assert comparable_runs.default_candidates([*newer, *runs]) == [first, without], "a pair before the newest runs"
    assert comparable_runs.default_candidates([other_seed, gcd]) == [other_seed]  # no LPS, and no other run of its seed
    assert comparable_runs.default_candidates([without, gcd])[0] == without


def test_runs_that_train_are_compared_first(tmp_path):
    finished = [short(tmp_path, use_margin=False), short(tmp_path)]
    demo = [
        short(tmp_path, "running", entropy_weight=0.5),
        short(tmp_path, "running", entropy_weight=0.5, use_margin=False),
    ]
    runs = [*demo[::-1], *finished[::-1]]
    with held(demo[0]), held(demo[1]):
        assert comparable_runs.default_candidates(runs) == demo
        assert comparable_runs.find_partners(demo[0], runs) == [finished[1], finished[0]]  # fewer differences first


def test_a_comparable_run_differs_in_one_setting(tmp_path):
    first = short(tmp_path, margin_scale=5.0)
    found = {
        str(settings): comparable_runs.describe_difference(first, short(tmp_path, **settings))
        for settings in (
            *({}, {"margin_scale": 5.0}, {"margin_scale": 5.0, "lr": 0.3}, {"method": "gcd"}),
            *({"lr": 0.3}, {"method": "gcd", "lr": 0.3}, {"lr": 0.3, "views": "grey", "margin_scale": 2.0}),
            *({"margin_scale": 5.0, "seed": 1}, {"margin_scale": 5.0, "split.labeled_ratio": 0.1}),
        )
    }
    assert list(found.values()) == [
        *("", "", "", ""),
        *("differs in lr, margin_scale", "differs in method, lr", "differs in lr, views and 1 more"),
        *("differs in seed", "differs in split.labeled_ratio"),
    ]
    longer = make_run(tmp_path, epochs=2, written=2, seed=1, settings={"margin_scale": 5.0})
    assert comparable_runs.describe_difference(first, longer) == "differs in seed, epochs"
    other_data = create_run(tmp_path, config.configure({"dataset": "cifar10", "epochs": 1}))
    assert comparable_runs.describe_difference(first, other_data) == "differs in dataset"
    assert comparable_runs.describe_difference(first, make_unreadable(tmp_path)) == run_diff.DAMAGED


def test_a_comparable_run_is_offered_before_one_of_another_length(tmp_path):
    longer = make_run(tmp_path, epochs=2, written=2, settings={"use_margin": False}, name="")
    scale = short(tmp_path, margin_scale=5.0)
    first = short(tmp_path)
    assert comparable_runs.find_partners(first, [first, longer, scale]) == [scale, longer]


def test_splits_are_compared_by_what_is_stored(tmp_path):
    first = short(tmp_path)
    written_out = short(tmp_path, **{"split.num_seen": 5})  # what the default means for ten classes
    assert comparable_runs.split_difference(first, written_out) == ""
    fewer = short(tmp_path, **{"split.labeled_ratio": 0.1, "split.seed": 3})
    assert comparable_runs.split_difference(first, fewer) == "split.labeled_ratio is 0.1 in one and 0.5 in the other"
    assert comparable_runs.split_difference(fewer, first) == "split.labeled_ratio is 0.5 in one and 0.1 in the other"
    queued = make_run(tmp_path, "queued", settings={"split.seed": 3})
    assert comparable_runs.split_difference(first, queued) == "split.seed is 3 in one and 0 in the other"
    assert comparable_runs.split_difference(first, make_run(tmp_path, "queued")) == ""
    assert comparable_runs.split_difference(first, make_unreadable(tmp_path)) == run_diff.DAMAGED


def test_same_settings_with_other_images_are_another_split(tmp_path):
    first, other = short(tmp_path), short(tmp_path)
    (other.folder / "split.npz").write_bytes((short(tmp_path, **{"split.seed": 3}).folder / "split.npz").read_bytes())
    assert "have changed" in comparable_runs.split_difference(first, other)


def test_difference_is_taken_where_both_have_the_epoch():
    first, other = past(novel={1: 0.5, 2: 0.7, 4: 0.9}), past(novel={2: 0.6, 3: 0.6, 4: 1.0})
    found = pace_charts.difference(first, other, "accuracy/novel")
    assert found.index.tolist() == [2, 4]
    assert found.to_numpy() == pytest.approx([10, -10])
    assert np.allclose(found, -pace_charts.difference(other, first, "accuracy/novel"))
    assert pace_charts.difference(first, past(seen={1: 1.0}), "accuracy/novel").empty
    wide, turned = past(novel={1: 0.1}), past(novel={1: -0.3})
    assert pace_charts.difference(wide, turned, "accuracy/novel").tolist() == pytest.approx([40])
    assert pace_charts.difference(wide, turned, "accuracy/novel", absolute=True).tolist() == pytest.approx([-20])


def test_zero_has_no_sign_on_the_axis_of_differences():
    axis = pace_charts.differences({"Novel": pd.Series({1: 0.0, 2: 10.0})}, 2, LIGHT).layout["yaxis"]
    assert (axis["tickformat"], axis["labelalias"]["+0"]) == ("+d", "0")


def test_axes_hold_the_values_of_all_runs():
    one = History(epochs=pd.DataFrame({"kl": [0.2, 0.1]}, index=[1, 2]))
    two = History(
        start={"classes/seen": 1},
        epochs=pd.DataFrame({"kl": [1.0]}, index=[1]),
        vectors={"margin": pd.DataFrame([[4.0, -2.0]], index=[1])},
    )
    ranges = pace_charts.shared_ranges([one, two])
    assert ranges["KL"][0] == 0 and 1.0 < ranges["KL"][1] < 1.2
    assert ranges["Mean margin"][0] < -2 and ranges["Mean margin"][1] > 4
    nothing = pace_charts.shared_ranges([History()])
    assert all(low < high for low, high in nothing.values())


def test_marks_of_one_epoch_share_a_triangle(tmp_path):
    run = read_history(make_run(tmp_path, epochs=4, written=4))
    marks = [Mark(2, "gap", "one"), Mark(2, "kl", "two"), Mark(4, "best", "three")]
    figure = pace_charts.pace("A", run, 6, pace_charts.shared_ranges([run]), marks, "LPS", True, LIGHT).figure()
    (drawn,) = (trace for trace in figure.data if trace.name == "Marks")
    assert drawn.x.tolist() == [2, 4] and list(drawn.text) == ["one<br>two", "three"]
    (shade,) = figure.layout.shapes
    assert (shade.x0, shade.x1) == (4, 6.4)
    seen = next(trace for trace in figure.data if trace.name == "Seen")
    assert seen.customdata.tolist() == [1, 2, 3, 4]
    running = pace_charts.pace("A", run, 6, pace_charts.shared_ranges([run]), marks, "LPS", False, LIGHT).figure()
    assert not running.layout.shapes


def test_marks_skip_what_a_run_has_not_measured():
    past_run = past(seen={1: 0.9, 2: 0.9}, novel={1: 0.5, 2: 0.88})
    found = race_data.marks_of(past_run, True)
    assert {mark.kind: mark.epoch for mark in found} == {"gap": 2, "best": 2}
    assert race_data.marks_of(past_run, False) == [mark for mark in found if mark.kind != "best"]
    assert race_data.marks_of(History(), True) == []


def test_same_method_is_told_apart_by_its_settings(tmp_path):
    first, without = short(tmp_path), short(tmp_path, use_margin=False, seed=1)
    assert page.describe_run(first, [first, without]) == ["seed 0"]
    assert page.describe_run(without, [first, without]) == ["margin off", "seed 1"]
    assert titles.run_title(without) == "LPS, margin off, epochs=1 on digits, seed 1"
    assert page.describe_run(short(tmp_path, method="orca"), [first]) == ["seed 0"]


def test_settings_are_told_in_words_and_those_of_all_are_not(tmp_path):
    few = {"split.labeled_ratio": 0.1}
    first, other = short(tmp_path, entropy_weight=0.0, **few), short(tmp_path, method="orca", **few)
    assert titles.changed_settings(first) == ["entropy_weight=0", "10 % labels", "epochs=1"]
    assert titles.changed_settings(first, [first, other]) == ["entropy_weight=0"]
    many = short(tmp_path, use_margin=False, entropy_weight=0.0, temperature=0.7, **few)
    assert len(titles.changed_settings(many)) == 4 and titles.changed_settings(many)[-1] == "…"


def test_the_line_below_a_title_has_what_the_sweep_varied_as_in_formulas(tmp_path):
    name = "margin_scale=10, entropy_weight=1, lps seed 0"
    run = make_run(tmp_path, epochs=1, settings={"margin_scale": 10.0, "epochs": 1, "lr": 0.3}, name=name)
    assert titles.notable_settings(run) == ["C=10", "w=1", "epochs=1", "lr=0.3"], "the first two are defaults"
    run.write_meta(name="mine")
    assert titles.notable_settings(run) == ["epochs=1", "lr=0.3"]


def test_lines_of_a_chart_are_called_by_what_varies(tmp_path):
    runs = [short(tmp_path, margin_scale=c, temperature=0.4, seed=seed) for c in (5.0, 10.0) for seed in (0, 1)]
    expected = [f"margin_scale={c}, seed {seed}" for c in (5, 10) for seed in (0, 1)]
    assert run_diff.short_labels(runs) == expected
    assert run_diff.short_labels(runs[::2]) == ["margin_scale=5", "margin_scale=10"]
    orca = short(tmp_path, method="orca")
    assert run_diff.short_labels([runs[0], orca]) == ["LPS, margin_scale=5", "ORCA, margin_scale=10"]


def test_a_name_of_a_sweep_is_short_in_a_table_and_others_stay():
    asked = config.configure({"margin_scale": 10.0, "entropy_weight": 0.5})
    for kept in ("margin_scale=10, entropy_weight=0.5, lps seed 0", "margin scale 10, entropy weight 0.5, lps seed 0"):
        assert titles.name_in_symbols(kept, asked) == "C=10, w=0.5, LPS seed 0"
    for kept in ("use_margin=false, LPS seed 0", "without margin, LPS seed 0", "my margin_scale=10"):
        assert titles.name_in_symbols(kept, asked) == kept
    varied = ("entropy_weight", "margin_scale", "use_margin")
    title = "LPS, margin_scale=5, entropy_weight=0.5, epochs=3 on digits, seed 0"
    changed = config.configure({"margin_scale": 5.0, "entropy_weight": 0.5, "epochs": 3})
    assert titles.name_in_symbols(title, changed, varied) == "C=5, w=0.5, LPS seed 0 on digits"
    with_epochs = titles.name_in_symbols(title, changed, ("epochs", "margin_scale"))
    assert with_epochs == "C=5, LPS seed 0 on digits, epochs=3"
    assert titles.name_in_symbols(title, changed) == title
    assert titles.name_in_symbols("my run, seed 0", changed, varied) == "my run, seed 0"
    assert titles.symbols("lps")["C"] == "margin_scale" and titles.symbols("gone") == {}


@pytest.mark.parametrize("name, value", [("margin_scale", 5.0), ("use_margin", False), ("entropy_weight", 0.25)])
def test_titles_groups_and_commands_write_a_setting_alike(name, value):
    forms = {
        titles.setting_in_words(name, value),
        run_groups.setting_in_words(name, value),
        cli_args.format_setting(name, value),
    }
    assert len(forms) == 1


def test_how_data_sets_differ_anyway_tells_no_line_from_another(tmp_path):
    own = {"dataset": "folder", "dataset.path": str(tmp_path / "animals"), "split.num_novel": 3, "epochs": 9}
    runs = [short(tmp_path), short(tmp_path, margin_scale=5.0), create_run(tmp_path, config.configure(own))]
    labels = ["digits, margin_scale=10", "digits, margin_scale=5", "animals, margin_scale=10"]
    assert run_diff.short_labels(runs) == labels


def test_runs_that_nothing_tells_apart_and_named_ones_have_their_names(tmp_path):
    same = [short(tmp_path), short(tmp_path)]
    assert run_diff.short_labels(same) == [titles.run_label(run) for run in same]
    named = make_run(tmp_path, epochs=1, name="the best one")
    assert run_diff.short_labels([same[0], named])[1] == "the best one"
    other = short(tmp_path, margin_scale=5.0)
    for name in ("margin scale 5, lps seed 0", "lps seed 0, margin_scale=5", "lps on digits seed 0"):
        named.write_meta(name=name)  # by a sweep
        assert run_diff.short_labels([other, named])[1] == "margin_scale=10"
    named.write_meta(name="the best lps seed 0")
    assert run_diff.short_labels([other, named])[1] == "the best lps seed 0"
    assert run_diff.short_labels([same[0]]) == [titles.run_title(same[0])] and run_diff.short_labels([]) == []


def test_a_run_whose_data_set_broke_still_has_a_title(tmp_path, monkeypatch):
    run = short(tmp_path, margin_scale=5.0)
    assert titles.run_title(run) == "LPS, margin_scale=5, epochs=1 on digits, seed 0"

    def refuse(*asked):
        raise UserError("dataset", "digits.py is not written as it should be")

    monkeypatch.setattr(config, "_defaults", refuse)
    vars(run.config()).pop("changed", None)
    assert titles.run_title(run) == "LPS on digits, seed 0" and run_diff.short_labels([run]) == [titles.run_title(run)]


def test_what_follows_from_stored_features_is_not_named(tmp_path):
    run = create_run(tmp_path, config.configure({"dataset": "digits", "features": "stored", "margin_scale": 7.0}))
    assert titles.changed_settings(run) == ["margin_scale=7", "stored features"]


def test_the_usual_race_has_accuracies(tmp_path, monkeypatch):
    known = make_run(tmp_path, epochs=2)
    blind = make_run(tmp_path, epochs=2, seed=1)
    monkeypatch.setattr(comparable_runs, "read_history", lambda run: SimpleNamespace(is_blind=run.id == blind.id))
    assert comparable_runs.default_candidates([blind, known])[0].id == known.id
    assert comparable_runs.default_candidates([blind])[0].id == blind.id


def test_a_run_on_own_pictures_is_called_by_their_folder(tmp_path):
    settings = {"dataset": "folder", "dataset.path": str(tmp_path / "my animals"), "split.num_novel": 3}
    run = create_run(tmp_path / "runs", config.configure(settings))
    assert titles.run_title(run) == "LPS, 3 novel classes on my animals, seed 0"
    assert titles.setting_in_words("split.num_novel", 1) == "1 novel class"
    assert titles.setting_in_words("split.num_novel", None) == "split.num_novel=none"


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ("lps seed 0, margin_scale=5", "margin_scale=5, LPS seed 0"),
        (
            "orca on digits seed 1, split.labeled_ratio=0.1, lr=0.2",
            "split.labeled_ratio=0.1, lr=0.2, orca on digits seed 1",
        ),
        ("margin scale 10, with margin, lps seed 0", "margin_scale=10, use_margin=true, LPS seed 0"),
        ("margin scale 5, lps seed 0", "margin scale 5, LPS seed 0"),
        ("the best lps seed 0, really", "the best lps seed 0, really"),
    ],
)
def test_the_name_that_an_old_sweep_gave_says_first_what_varies(tmp_path, kept, shown):
    run = create_run(tmp_path, config.configure({}), kept)
    assert titles.run_title(run) == shown and run.meta()["name"] == kept
