"""Comparing runs: groups, differences, every format, the paper's numbers and their audit."""

import csv
import io
import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lps.__main__ import main
from lps.analysis import differences, paper_results, run_groups, run_scores, score_tables
from lps.analysis.paper_results import matching_row
from lps.analysis.run_groups import Group, group_runs
from lps.analysis.run_scores import Scored, score_run
from lps.charts import group_tables
from lps.errors import UserError
from lps.files import tables
from lps.scores.protocols import PROTOCOLS, Scores
from lps.settings import catalog
from lps.settings.backbone_names import ABOUT_LABELS
from lps.settings.config import configure
from lps.store.run_folders import recorded_runs
from lps.store.runs import Run
from lps.store.snapshots import read_split, write_arrays
from tests.sample_runs import events_of, make_run, rewritten

HOSTILE = "=cmd|' /C calc'!A0 <b>x</b> \\input{x} $x^2$ _a_ [b](c) 50 % & # ~ `d`\n*e*"


def scored(method="lps", seed=0, *, all=0.9, seen=0.95, split="s", run="", matched=False, **settings) -> Scored:
    config = configure({"method": method, "seed": seed} | settings)
    scores = Scores(seen, 0.8, all, 0.7, 0.6, 0.0, matched)
    name = run or f"20260101-000000-digits-{method}-s{seed}-aaaaaa"
    return Scored(Run(Path("runs") / name), config, 20, scores, 60.0, split=split)


def as_in_paper(method="lps", dataset="cifar10", ratio=0.5, freeze="layer3", **own):
    asked = {"dataset": dataset, "method": method, "split.labeled_ratio": ratio, "network.freeze_until": freeze}
    return configure(asked | ({"dataset.path": "/pictures"} if dataset == "imagenet100" else {}) | own)


def without_predictions(run: Run, root: Path) -> Run:
    """A copy of a run whose snapshots are gone."""
    copy = shutil.copytree(run.folder, root / run.id, ignore=shutil.ignore_patterns("recorded.json", "scores.json"))
    shutil.rmtree(copy / "snapshots")
    return Run(copy)


@pytest.mark.slow
@pytest.mark.parametrize("select", run_scores.SELECTIONS)
def test_a_run_without_predictions_has_the_scores_that_it_recorded(tmp_path, select):
    for run in recorded_runs():
        bare = without_predictions(run, tmp_path)
        if select == "validation":
            with pytest.raises(UserError, match="withholds no labels"):
                score_run(bare, select=select)
            continue
        whole, alone = score_run(run, select=select), score_run(bare, select=select)
        kept = score_run(bare, select=select)
        assert (alone.epoch, alone.split, alone.is_told, whole.is_told) == (whole.epoch, whole.split, True, False)
        assert vars(alone.scores) == pytest.approx(vars(whole.scores), abs=1e-4) and kept == alone


@pytest.mark.parametrize("how", [("gcd_v1", "last", "default"), ("orca", "last", "matched")])
def test_other_scores_of_a_run_without_predictions_are_refused_with_the_reason(tmp_path, how):
    bare = without_predictions(make_run(tmp_path / "one", epochs=2), tmp_path)
    with pytest.raises(UserError, match="predictions: were not found"):
        score_run(bare, *how)
    new = make_run(tmp_path, "queued")
    with pytest.raises(UserError, match="no epoch has been evaluated yet"):
        score_run(new, *how)


def test_mean_and_sample_deviation_over_seeds():
    values = [0.9, 0.92, 0.97]
    (group,) = group_runs([scored(seed=seed, all=value) for seed, value in enumerate(values)])
    assert group.mean("all") == pytest.approx(np.mean(values))
    assert group.std("all") == pytest.approx(np.std(values, ddof=1))
    assert score_tables.format_cell(group, "all") == "93.0 ± 3.6"
    assert score_tables.format_cell(group, "time") == "60 ± 0"
    (single,) = group_runs([scored()])
    assert math.isnan(single.std("all")) and score_tables.format_cell(single, "all") == "90.0"


@pytest.mark.parametrize(
    "settings, groups",
    [
        ({"device": "cpu", "threads": 1, "processes": 2, "precision": "fp32", "pretrain.seed": 4}, 1),
        ({"split.seed": 1, "split.labeled_ratio": 0.1, "lr": 0.01, "epochs": 3}, 2),
    ],
)
def test_what_may_differ_within_a_group_and_what_may_not(settings, groups):
    for key, value in settings.items():
        assert len(group_runs([scored(seed=0), scored(seed=1, **{key: value})])) == groups, key


def test_different_splits_are_never_averaged_even_under_equal_settings():
    groups = group_runs([scored(seed=0, split="aaa"), scored(seed=1, split="bbb")])
    assert [group.label for group in groups] == ["LPS, split aaa", "LPS, split bbb"]
    assert differences.best_cells(groups) == set()  # and are no rivals either


def test_a_seed_counts_once_and_the_newest_run_of_it():
    old, new = "20260101-000000-digits-lps-s0-zzzzzz", "20260202-000000-digits-lps-s0-aaaaaa"
    runs = [scored(run=new, all=0.8), scored(run=old, all=0.2), scored(seed=1, all=0.9)]
    for order in (runs, runs[::-1]):
        (group,) = group_runs(order)
        assert group.mean("all") == pytest.approx(0.85) and [m.config.seed for m in group.members] == [0, 1]
        assert [member.run.id for member in group.replaced] == [old]
    assert "LPS, digits: seed 0 was run more than once; its newest finished run is used" in score_tables.table_notes(
        [group]
    )
    unfinished = [replace(runs[0], is_complete=False), runs[1]]
    assert group_runs(unfinished)[0].mean("all") == pytest.approx(0.2)  # what was broken off replaces nothing
    neither = group_runs([replace(run, is_complete=False) for run in unfinished])[0]
    assert neither.mean("all") == pytest.approx(0.8)
    assert "LPS, digits: seed 0 was run more than once; its newest run is used" in score_tables.table_notes([neither])


def test_an_explicit_pretraining_seed_that_is_the_runs_own_changes_nothing():
    runs = [scored(seed=3), scored(seed=3, run="20270101-000000-digits-lps-s3-aaaaaa", **{"pretrain.seed": 3})]
    assert len(group_runs(runs)[0].members) == 1
    assert len(group_runs([scored(seed=3), scored(seed=3, **{"pretrain.seed": 4})])[0].members) == 2


def test_labels_say_what_tells_groups_apart():
    runs = [scored(), scored(use_margin=False), scored("orca"), scored(**{"split.labeled_ratio": 0.1})]
    assert [group.label for group in group_runs(runs)] == [
        "LPS, 50 % labels, use_margin=true",
        "LPS, 50 % labels, use_margin=false",
        "ORCA, 50 % labels",
        "LPS, 10 % labels, use_margin=true",
    ]
    assert [group.label for group in group_runs([scored(), scored("orca", margin_scale=5.0)])] == [
        "LPS, margin_scale=10",
        "ORCA, margin_scale=5",
    ]


def test_the_label_of_a_group_that_is_alone_says_which_runs_these_are():
    def label(*runs, planned=()) -> str:
        return group_runs(runs, planned)[0].label

    assert label(scored(), scored(seed=1)) == "LPS, digits"
    (group,) = group_runs([scored(epochs=3, margin_scale=5.0)])
    assert (group.label, group.short_label) == ("LPS, digits, margin_scale=5, epochs=3", "LPS")
    many = {"margin_scale": 5.0, "entropy_weight": 0.5, "use_margin": False, "epochs": 3, "lr": 0.1}
    assert label(scored(**many)).count("=") == 4 and label(scored(**many)).endswith(", …")
    assert label(scored(), planned=[scored(lr=0.3).config]) == "LPS, lr=0.05", "runs of a sweep that are to come"


def test_labels_name_no_defaults_once_more_than_four_settings_differ():
    changed = {"margin_scale": 5.0, "entropy_weight": 0.5, "use_margin": False, "epochs": 3}
    groups = group_runs([scored(), *(scored(**{key: value}) for key, value in changed.items())])
    rest = "use_margin=true, entropy_weight=1"
    epochs = scored().config.epochs
    assert groups[0].label == f"LPS, epochs={epochs}, margin_scale=10, {rest}"
    assert groups[1].label == f"LPS, epochs={epochs}, margin_scale=5, {rest}"
    assert [group.short_label for group in groups[:2]] == ["LPS", "LPS, margin_scale=5"]
    more = group_runs([*(member for group in groups for member in group.members), scored(lr=0.3)])
    assert [group.label for group in more] == [group.short_label for group in more]
    assert more[0].label == "LPS" and more[-1].label == "LPS, lr=0.3"


def test_differences():
    def of(*runs):
        return run_groups.differing_settings([run.config for run in runs])

    assert of(scored(seed=0), scored(seed=1, device="cpu")) == {}
    assert of(scored(), scored(margin_scale=5.0)) == {"margin_scale": [10.0, 5.0]}
    assert of(scored(lr=0.1), scored(lr=0.2)) == {"lr": [0.1, 0.2]}
    assert of(scored(), scored("orca")) == {"method": ["lps", "orca"]}  # own settings are all as they were
    assert of(scored(use_margin=False), scored("orca")) == {"method": ["lps", "orca"], "use_margin": [False, None]}
    assert of(scored(margin_scale=5.0), scored(margin_scale=5.0, seed=2)) == {}


def of_seeds(method="lps", column="all", mean=0.9, matched=False, **settings) -> list[Scored]:
    """Three runs whose numbers in a column lie a little around `mean`, otherwise for each method."""
    step = 0.001 * (1 + len(method))
    values = (mean - step, mean, mean + step)
    return [scored(method, s, matched=matched, **{column: value}, **settings) for s, value in enumerate(values)]


def test_bold_is_what_is_distinguishable_from_every_other_row():
    groups = group_runs([*of_seeds(mean=0.9), *of_seeds("orca", mean=0.8), *of_seeds("nach", mean=0.7)])
    assert differences.best_cells(groups) == {(0, "all")}  # the other columns are the same with all seeds
    close = group_runs([*of_seeds(mean=0.9), *of_seeds("orca", mean=0.8997), *of_seeds("nach", mean=0.7)])
    assert differences.best_cells(close) == set()
    single = group_runs([scored(all=0.9), scored("orca", all=0.2)])
    assert differences.best_cells(single) == set() and differences.best_cells(single[:1]) == set()


def test_without_a_bold_cell_the_marks_say_whether_anything_was_tested():
    (one,) = score_tables.about_marks(group_runs([scored(), scored("orca")]))
    assert "nothing was tested" in one
    two = [scored(method, seed, all=0.5 + 0.1 * seed) for method in ("lps", "orca") for seed in (0, 1)]
    (several,) = score_tables.about_marks(group_runs(two))
    assert "nothing is bold" in several and "95 %" in several and "tested" not in several
    (mixed,) = score_tables.about_marks(group_runs([*two, scored("nach"), scored("gcd")]))
    assert mixed.startswith(several) and "not tested: NACH · GCD have one seed" in mixed
    assert score_tables.about_marks(group_runs(two[1:])) == ["nothing is bold, and not tested: LPS has one seed"]
    assert score_tables.about_marks(group_runs([scored()])) == []


def test_the_words_of_a_split_are_those_that_all_runs_share():
    configs = [configure({"split.labeled_ratio": ratio, "split.imbalance": 10.0}) for ratio in (0.1, 0.5)]
    words = "5 seen classes, split.seen_classes=first, split.seed=0, split.imbalance=10"
    assert score_tables.split_in_words(configs) == words
    assert score_tables.split_in_words(configs[:1]) == f"10 % labels, {words}"
    assert score_tables.split_in_words([]) == ""


def test_a_note_explains_the_columns():
    notes = score_tables.table_notes(group_runs([scored()]), scoring=False)
    assert all(word in notes[0] for word in ("NMI", "gap", "conflict", "without pretraining", "n: runs"))


def test_a_seen_accuracy_is_not_best_by_matching_alone():
    high = group_runs([*of_seeds(column="seen"), *of_seeds("openncd", "seen", 0.95, matched=True)])
    assert differences.best_cells(high) == set()
    low = group_runs([*of_seeds(column="seen"), *of_seeds("openncd", "seen", 0.85, matched=True)])
    assert differences.best_cells(low) == {(0, "seen")}


def test_scores_of_stored_predictions(tmp_path):
    run = make_run(tmp_path, epochs=3)
    found = score_run(run)
    assert (found.epoch, found.is_complete, found.scores.seen_is_matched) == (3, True, False)
    assert found.scores.seen == pytest.approx(_last(run, "accuracy/seen"))
    assert found.time == pytest.approx(3 * (0.047 * 31 + 0.2))
    by_hand = max((run_scores._predictions(run, e, read_split(run.folder)[0]) for e in (1, 2, 3)), key=_right(run))
    assert score_run(run, select="oracle").scores.all == pytest.approx(_right(run)(by_hand), abs=1e-9)
    assert score_run(run, seen="matched").scores.seen_is_matched
    assert score_run(run, "gcd_v2").scores.seen_is_matched
    assert score_run(make_run(tmp_path, epochs=3, seed=1)).split == found.split
    assert score_run(make_run(tmp_path, epochs=3, settings={"split.seed": 1})).split != found.split


def _last(run, name):
    return [event["values"][name] for event in events_of(run) if event["kind"] == "eval"][-1]


def _right(run):
    split, truth = read_split(run.folder)
    return lambda predicted: float(np.mean(predicted == truth[split.unlabeled]))


def test_methods_without_aligned_ids_are_matched_by_default(tmp_path):
    run = make_run(tmp_path, epochs=2, settings={"method": "simclr"})
    assert score_run(run).scores.seen_is_matched and not score_run(run, seen="raw").scores.seen_is_matched


@pytest.mark.parametrize("words", [{"protocol": "x"}, {"select": "best"}, {"seen": "maybe"}])
def test_an_unknown_word_is_named(tmp_path, words):
    ((name, value),) = words.items()
    with pytest.raises(UserError, match=f"{name}: '{value}' is not one of "):
        score_run(make_run(tmp_path, epochs=1), **words)


def test_damage_is_one_sentence_with_the_runs_name(tmp_path):
    def fails(run, words):
        with pytest.raises(UserError, match=re.escape(run.id) + ".*" + words):
            score_run(run)

    run = make_run(tmp_path, epochs=2)
    last = run.snapshots / "epoch-0002.npz"
    for predicted, words in [
        (np.zeros(3, np.int16), "does not have one class id for each of the"),
        (np.full(len(read_split(run.folder)[0].unlabeled), -1, np.int16), "has class ids from -1 to -1"),
        (np.full(len(read_split(run.folder)[0].unlabeled), 30_000, np.int16), "has class ids from 30000"),
        (np.zeros(len(read_split(run.folder)[0].unlabeled)), "predicted has an unexpected type or shape"),
    ]:
        write_arrays(last, predicted=predicted)
        fails(run, words)
    last.write_bytes(b"PK broken")
    fails(run, "epoch-0002.npz: is damaged")
    (run.folder / "split.npz").unlink()
    fails(run, "split.npz: does not exist yet")
    fails(make_run(tmp_path, "queued"), "no epoch has been evaluated yet")
    (run.folder / "config.json").write_text("{")
    fails(run, "config.json")


def test_odd_numbers_of_time_do_not_count(tmp_path):
    odd = {"time/step_s": "long", "time/eval_s": None}
    assert score_run(rewritten(make_run(tmp_path, epochs=1), lambda _, values: values | odd)).time == 0


def test_a_run_that_did_not_reach_its_end_is_noted(tmp_path):
    groups = group_runs([score_run(make_run(tmp_path, epochs=3)), score_run(make_run(tmp_path, "stopped", seed=1))])
    notes = score_tables.table_notes(groups)
    assert any("seed 1 ended early, scored at epoch 8 of 20" in note for note in notes)
    assert not any("seed 0 did" in note for note in notes)


def groups_for_tables() -> list[Group]:
    gcd = [scored("gcd", s, all=0.5 + 0.03 * s, seen=0.5, matched=True) for s in (0, 1)]
    groups = group_runs([scored(), scored(seed=1, all=0.94), *gcd])
    return [replace(groups[0], label=HOSTILE), groups[1]]


def test_markdown():
    text = score_tables.format_table(groups_for_tables(), "markdown")
    table = text.split("\n\n")[0].splitlines()
    differing = text.split("\n\n| ")[1].split("\n\n")[0].splitlines()
    assert len(table) == 4 and len(differing) == 3
    assert r"**-40.5 \[-46.9, -34.1\]**" in differing[2] and differing[2].startswith("| GCD | =cmd")
    assert all(len(re.findall(r"(?<!\\)\|", line)) == len(score_tables.SCORE_TABLE_HEADS) for line in table)
    assert "**92.0 ± 2.8**" in table[2] and "50.0 ± 0.0\\*" in table[3]
    assert r"\<b>" in table[2] and r"\[b\](c)" in table[2] and r"\`d\`" in table[2] and r"\_a\_" in table[2]
    assert r"\* seen accuracy after ids" in text
    assert score_tables.escape_markdown("LPS, use_margin=false") == "LPS, use_margin=false"


def test_latex_prints_every_character_as_it_stands():
    text = score_tables.format_table(groups_for_tables(), "latex")
    first, second = text.split("\n\n")
    body = [line for line in first.splitlines() if not line.startswith("%")]
    assert second.count(r"\begin{tabular}{llrrrrrr}") == 1 and r"\textbf{-40.5 {[}-46.9, -34.1{]}}" in second
    assert body[:2] == [r"\begin{tabular}{lrrrrrrrr}", r"\toprule"] and body[-2:] == [r"\bottomrule", r"\end{tabular}"]
    rows = [line.removesuffix(r" \\") for line in body[4:-2]]
    assert len(rows) == 2
    for row in rows:
        cells = re.split(r"(?<!\\)&", row)
        assert len(cells) == len(score_tables.SCORE_TABLE_HEADS) - 1  # the paper has nothing for them
        for cell in cells:
            left = re.sub(r"\$\\(pm|cdot)\$|\{[\[\]]\}|\\[a-z]+\{\}|\\[&%$#_{}]", "", cell.strip())
            left = re.sub(r"^\\textbf\{(.*)\}$", r"\1", left)
            assert not set(left) & set("\\{}$&#_%^~[]<>|"), cell
    assert r"\textbf{92.0 $\pm$ 2.8}" in rows[0] and r"\textbackslash{}input\{x\}" in rows[0]


def test_csv_is_read_back_and_holds_no_formula():
    rows = list(csv.DictReader(io.StringIO(score_tables.format_table(groups_for_tables(), "csv"))))
    assert rows[0]["method"] == "'" + " ".join(HOSTILE.split())
    assert float(rows[0]["all_mean"]) == pytest.approx(0.92) and rows[0]["seeds"] == "0 1"
    assert float(rows[1]["all_difference"]) == pytest.approx(-0.405) and rows[1]["all_distinguishable"] == "True"
    assert rows[1]["pairs"] == "2" and rows[1]["against"] == rows[0]["method"] and rows[0]["against"] == ""
    assert rows[1]["seen_difference"] == "" and rows[1]["nmi_low"] == ""  # matched beside raw; the same with all seeds
    assert rows[1]["seen_is_matched"] == "True" and rows[1]["not_comparable"].startswith("it has no results on digits")
    for text in ("=1", "+1", "-1", "@a", "\t=1", "\n=1", "\r+1"):
        assert tables.line_cell(text)[0] == "'"


def test_tables_say_what_their_numbers_are():
    once, twice = scored(), [scored(margin_scale=5.0, seed=seed) for seed in (0, 1)]
    for form in ("latex", "markdown"):
        text = score_tables.format_table(group_runs([once, *twice]), form)
        units = "accuracies and NMI in percent, gap and conflict in points, time in seconds: "
        assert f"{units}mean ± sample standard deviation over n = 1 to 2 seeds\n" in text
        assert f"{units}one seed per row" in score_tables.format_table(group_runs([once]), form)
        assert f"protocol orca: {PROTOCOLS['orca']}\n" in text
        assert f"scored: the unlabeled training images, at the last epoch; epoch {once.epoch}\n" in text
        assert "differences in percent points, with 95 % intervals in brackets" in text
    rows = list(csv.DictReader(io.StringIO(score_tables.format_table(group_runs([once, *twice]), "csv"))))
    assert [row["scored_epochs"] for row in rows] == [f"{once.epoch}", f"{once.epoch} {once.epoch}"]


def test_tables_say_which_experiment_it_is_and_which_settings_each_row_has():
    groups = group_runs([scored(epochs=30), scored(epochs=30, margin_scale=5.0), scored("orca", epochs=30)])
    for form in ("latex", "markdown"):
        lines = [line.removeprefix("% ") for line in score_tables.format_table(groups, form).splitlines()]
        (shared,) = [line for line in lines if line.startswith("all rows: ")]
        assert "dataset=digits, epochs=30, 50 % labels, 5 seen classes" in shared and "entropy_weight=1" in shared
        (orca,) = [line for line in lines if line.startswith("ORCA: ")]
        assert orca == "ORCA: uncertainty_cap=0.5, pairwise_weight=1", "margin_scale=10 is in its label"
        (lps,) = [line for line in lines if line.startswith("LPS: ")]
        assert "temperature=0.4" in lps and "margin_scale" not in lps
    rows = list(csv.DictReader(io.StringIO(score_tables.format_table(groups, "csv"))))
    assert [row["margin_scale"] for row in rows] == ["10", "5", "10"]
    assert [row["uncertainty_cap"] for row in rows] == ["", "", "0.5"]
    names = ("dataset", "epochs", "split.labeled_ratio", "split.num_seen", "entropy_weight")
    assert {tuple(row[name] for name in names) for row in rows} == {("digits", "30", "0.5", "5", "1")}
    changed = score_tables.notes_on_settings(group_runs([scored(lr=0.2)]))
    assert "lr=0.2" in changed[0] and score_tables.notes_on_settings([]) == []
    seeds = group_runs([scored(seed=seed, **{"pretrain.seed": seed + 3}) for seed in (0, 1)])
    assert "pretrain.seed" not in score_tables.format_table(seeds, "csv"), "the runs of a row differ in it"


def test_json():
    first, second = json.loads(score_tables.format_table(groups_for_tables(), "json"))
    assert first["label"] == HOSTILE and first["seeds"] == [0, 1] and second["all"]["mean"] == pytest.approx(0.515)
    assert second["against"] == HOSTILE and first["against"] is None and first["differences"] == {}
    told = second["differences"]["all"]
    assert (told["difference"], told["low"]) == pytest.approx((-0.405, -0.46853), abs=1e-5) and told["pairs"] == 2
    assert second["differences"]["nmi"]["low"] is None and "seen" not in second["differences"]
    assert second["paper"] is None and second["config"]["method"] == "gcd"


def test_what_was_not_measured_is_a_dash_or_null():
    nothing = replace(scored(), scores=Scores(*[math.nan] * 6, False))
    groups = group_runs([nothing])
    assert score_tables.format_cell(groups[0], "all") == "-" and differences.best_cells(groups) == set()
    assert json.loads(score_tables.format_table(groups, "json"))[0]["all"]["mean"] is None
    assert all(score_tables.format_table(groups, form) for form in score_tables.FORMATS)
    tiny = replace(scored(), scores=replace(scored().scores, conflict=-1e-9))
    assert score_tables.format_cell(group_runs([tiny])[0], "conflict") == "0.0"


def test_the_notes_name_raw_scores_of_ids_without_a_meaning():
    unaligned = next(name for name in catalog.method_names() if not catalog.method_info(name).seen_is_aligned)
    by_method = {method: score_tables.table_notes(group_runs([scored(method)])) for method in ("lps", unaligned)}
    assert [any("chance level" in note for note in notes) for notes in by_method.values()] == [False, True]


def test_the_notes_name_protocol_and_oracle():
    member = replace(scored(), protocol="strict", select="oracle")
    notes = score_tables.table_notes(group_runs([member]))
    assert any(note.startswith("protocol strict: ") for note in notes) and any("oracle" in note for note in notes)
    notes = score_tables.table_notes(group_runs([member]), scoring=False)
    assert not any(note.startswith(("protocol", "oracle")) for note in notes)


@pytest.mark.parametrize("form", score_tables.FORMATS)
def test_the_command_line(tmp_path, capsys, form):
    for seed in (0, 1):
        make_run(tmp_path, epochs=2, seed=seed)
    assert (
        main(["compare", "--runs", str(tmp_path), "--format", form, "--select", "oracle", "--protocol", "strict"]) == 0
    )
    assert "LPS" in capsys.readouterr().out
    assert main(["compare", "--runs", str(tmp_path), "--protocol", "x"]) == 2
    assert "protocol: 'x' is not one of orca" in capsys.readouterr().err


def test_the_row_that_others_are_held_against_can_be_named(tmp_path, capsys):
    runs = [make_run(tmp_path, epochs=2, settings={"margin_scale": scale}) for scale in (10, 20, 5)]
    where = ["compare", "--runs", str(tmp_path), "--format", "json"]

    def against(*asked) -> list[str | None]:
        assert main([*where, *asked]) == 0
        return [row["against"] for row in json.loads(capsys.readouterr().out)]

    assert against().count("LPS, margin_scale=10") == against("--against", "LPS").count("LPS, margin_scale=10") == 2
    assert against("--against", "lps, margin_scale=5").count("LPS, margin_scale=5") == 2
    assert against("--against", runs[1].id).count("LPS, margin_scale=20") == 2
    assert main([*where, "--against", "orca"]) == 2
    said = capsys.readouterr().err
    assert "against: 'orca' is not a row or a run of this table; choices: " in said
    assert "LPS, margin_scale=20" in said


def test_the_audit_of_table_1():
    table = [row for row in paper_results.paper_rows() if row.table == "table1_main"]
    assert len(table) == 60

    def lines_with(words: str) -> set[tuple]:
        doubts = {(r.dataset, r.labeled_ratio, r.method): paper_results.find_inconsistencies(r) for r in table}
        return {line for line, found in doubts.items() if any(words in doubt for doubt in found)}

    assert lines_with("above") == {
        ("ImageNet-100", 0.1, "RankStats"),
        ("ImageNet-100", 0.5, "RankStats"),
        ("CIFAR-10", 0.1, "SimCLR"),
        ("ImageNet-100", 0.5, "GCD"),
    }
    assert lines_with("same three") == {("CIFAR-10", 0.5, "GCD"), ("ImageNet-100", 0.5, "GCD")}
    excess = paper_results.find_inconsistencies(paper_results.main_row("ImageNet-100", 0.5, "RankStats"))[0]
    assert "5.4 points" in excess  # 40.3 - (47.3 + 2 * 28.7) / 3


def test_the_counterpart_of_a_run_as_in_the_paper():
    row, reasons = matching_row(as_in_paper())
    assert reasons == [] and (row.seen, row.novel, row.all, row.nmi) == (90.2, 93.4, 92.4, 86.45)
    assert matching_row(as_in_paper("openncd", ratio=0.1))[0].all == 85.3
    assert matching_row(as_in_paper("gcd", "imagenet100"))[0].all == 68.2
    assert matching_row(replace(as_in_paper(), split_num_seen=5))[0] is not None


@pytest.mark.parametrize(
    "own, expected",
    [
        ({"use_margin": False}, (90.6, 89.4, 89.8)),
        ({"entropy_weight": 0.0}, (90.8, 55.4, 66.2)),
        ({"margin_scale": 5.0}, (90.3, 91.9, 91.4)),
        ({"temperature": 0.2}, (85.3, 92.7, 90.3)),
        ({"threshold_novel_end": 0.75}, (89.8, 93.5, 92.3)),
        ({"freeze": "none"}, (95.0, 95.5, 95.3)),
    ],
)
def test_the_counterpart_of_an_ablation(own, expected):
    row, _ = matching_row(as_in_paper(**own))
    assert (row.seen, row.novel, row.all) == expected


@pytest.mark.parametrize(
    "changed, reason",
    [
        ({"split_labeled_ratio": 0.3}, "30 % labels"),
        ({"split_num_seen": 8}, "8 seen classes"),
        ({"split_seen_classes": "random"}, "seen classes random"),
        ({"network_name": "digits_resnet"}, "network digits_resnet"),
        ({"network_freeze_until": "layer1"}, "frozen until layer1"),
        ({"epochs": 20}, "20 epochs"),
        ({"batch_size": 64}, "batch size 64"),
        ({"pretrain_epochs": 0}, "no SimCLR start"),
        ({"pretrain_epochs": 1}, "1 SimCLR epoch"),
        ({"network_name": "resnet50"}, "network resnet50"),
        ({"lr": 5.0}, "lr=5.0"),
        ({"network_head": "linear"}, "network.head=linear"),
        ({"split_rule": "stratified"}, "split.rule=stratified"),
        ({"network_name": "resnet50", "network_start": "published"}, "start weights trained with ImageNet's labels"),
        ({"dataset_images_per_class": 10}, "dataset.images_per_class=10"),
    ],
)
def test_every_reason_against_a_counterpart(changed, reason):
    row, reasons = matching_row(replace(as_in_paper(), **changed))
    assert row is None and reason in reasons


def test_changed_settings_and_another_way_to_score_have_no_counterpart():
    assert matching_row(as_in_paper(margin_scale=7.0)) == (None, ["margin_scale=7.0"])
    assert matching_row(as_in_paper(ratio=0.3)) == (None, ["30 % labels"])
    assert matching_row(as_in_paper(use_margin=False, temperature=0.2))[1] == ["use_margin=false, temperature=0.2"]
    assert matching_row(as_in_paper("gcd", freeze="none"))[1] == ["nothing frozen"]
    assert matching_row(as_in_paper(), "strict")[1] == ["protocol strict"]
    assert matching_row(as_in_paper(), select="oracle")[1] == ["epoch chosen by an oracle"]
    assert matching_row(as_in_paper(), seen_is_matched=True)[1] == ["seen accuracy matched, not raw"]
    assert matching_row(as_in_paper("gcd"), seen_is_matched=False)[1] == ["seen accuracy raw, not matched"]
    assert matching_row(as_in_paper("gcd"), seen_is_matched=True)[1] == []


def test_the_notes_on_the_paper_read_well():
    digits = group_runs([scored(epochs=20), scored("orca", epochs=20)])
    shared = (
        "not comparable with the paper: it has no results on digits; network digits_resnet; 20 epochs; batch size 128"
    )
    assert score_tables.notes_on_paper(digits) == [shared]  # said once
    member = scored()
    published = Group("LPS", (replace(member, config=as_in_paper()),))
    assert "| 90.2 / 93.4 / 92.4 |" in score_tables.format_table([published, digits[0]], "markdown")
    assert "paper |" not in score_tables.format_table(digits, "markdown")
    doubted = Group("GCD", (replace(scored("gcd", matched=True), config=as_in_paper("gcd", "cifar10")),))
    assert score_tables.paper_cell(published) == "90.2 / 93.4 / 92.4"
    assert score_tables.paper_cell(doubted).endswith("79.1 †")
    assert score_tables.notes_on_paper([published, doubted]) == [
        "† GCD, paper: the table has the same three numbers at 10 % labels"
    ]
    assert score_tables.notes_on_paper([published, digits[0]])[0] == f"LPS: {shared}"
    assert score_tables.paper_cell(digits[0]) == "-"


def test_a_run_on_weights_that_know_imagenets_classes_is_never_held_against_the_paper_and_says_why():
    own = group_runs([scored()])
    known = group_runs([scored("orca", features="stored")])
    assert score_tables.paper_cell(known[0]) == "-"
    assert score_tables.notes_on_paper(known)[-1] == ABOUT_LABELS
    assert score_tables.notes_on_paper([*own, *known])[-1] == f"{known[0].label}: {ABOUT_LABELS}"
    assert ABOUT_LABELS in score_tables.format_table(known, "markdown")
    assert ABOUT_LABELS in score_tables.format_table(known, "latex")
    assert not any(ABOUT_LABELS in note for note in score_tables.table_notes(own))


def test_runs_of_another_precision_are_another_group_and_say_so():
    whole, half = scored(), scored(seed=1)
    assert len(group_runs([whole, half])) == 1
    groups = group_runs([whole, replace(half, precision="bf16")])
    assert [group.label for group in groups] == ["LPS, fp32", "LPS, bf16"]
    assert group_tables.settings_table(groups)["precision"].tolist() == ["fp32", "bf16"]
    rows = csv.DictReader(io.StringIO(score_tables.format_table(groups, "csv")))
    assert [row["precision"] for row in rows] == ["fp32", "bf16"]


@pytest.mark.parametrize(
    "asked, told, gigabytes, expected",
    [
        ("auto", "bf16", 0.0, "bf16"),
        ("auto", "fp32", 5.0, "fp32"),
        ("auto", None, 5.0, "bf16"),  # runs of earlier versions
        ("auto", None, 0.0, "fp32"),
        ("fp32", None, 5.0, "fp32"),
        ("auto", ["x"], 0.0, "fp32"),
    ],
)
def test_the_precision_that_auto_came_to_is_told_by_the_run(tmp_path, asked, told, gigabytes, expected):
    run = make_run(tmp_path, epochs=1, settings={"precision": asked})
    text = run.events.read_text().replace('"memory/device_gb": 0.0', f'"memory/device_gb": {gigabytes}')
    run.events.write_text(text.replace('"kind": "start"', f'"precision": {json.dumps(told)}, "kind": "start"'))
    assert score_run(run).precision == expected == score_run(run).precision  # of its events, and as kept


@pytest.mark.parametrize(
    "method, chosen, told, expected",
    [
        ("simclr", {}, None, "test"),  # runs of earlier versions
        ("simclr", {}, "training", "training"),
        ("simclr", {"test_clusters": "test"}, "test", "test"),
        ("lps", {}, None, "training"),
    ],
)
def test_a_number_of_test_images_that_were_clustered_by_themselves_is_marked(tmp_path, method, chosen, told, expected):
    run = make_run(tmp_path, epochs=1, settings={"method": method} | chosen)
    if told:
        run.events.write_text(
            run.events.read_text().replace('"kind": "start"', f'"test_clusters": "{told}", "kind": "start"')
        )
    assert run_scores.read_course(run).test_clusters(run.config()) == expected
    assert score_run(run).test_clusters == "training"  # unlabeled images are clustered by themselves everywhere
    (group,) = group_runs([replace(score_run(run), images="test", test_clusters=expected)])
    marked = [column for column in run_scores.COLUMNS if score_tables.format_cell(group, column).endswith("‡")]
    assert marked == (["seen", "novel", "all", "nmi"] if expected == "test" else [])
    assert (run_scores.ABOUT_CLUSTERED_APART in score_tables.table_notes([group])) == (expected == "test")


def test_runs_whose_test_images_were_clustered_otherwise_are_told_apart():
    own = [replace(m, images="test", test_clusters="test") for m in of_seeds("simclr", mean=0.99)]
    others = [replace(m, images="test") for m in of_seeds("simclr", mean=0.5)]
    groups = group_runs([*own, *others])
    assert [g.label for g in groups] == ["SimCLR, test images clustered separately", "SimCLR"]
    assert differences.best_cells(groups) == set() and not differences.compare_groups(groups).differences


@pytest.mark.parametrize("dataset", ["cifar10", "cifar100", "imagenet100"])
def test_the_papers_recipes_train_in_fp32_and_other_precisions_do_not_compare(dataset):
    config = as_in_paper(dataset=dataset)
    assert config.precision == "fp32" and matching_row(config)[0] is not None
    for other in ("auto", "bf16"):
        assert matching_row(as_in_paper(dataset=dataset, precision=other)) == (None, [f"precision={other}"])
