"""Runs side by side: who is averaged with whom, what differs, every format, the paper's numbers and their audit."""

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lps import compare, paper
from lps.__main__ import main
from lps.compare import Group, Scored, group_runs, score_run
from lps.config import configure
from lps.parameters import ConfigError
from lps.protocols import Scores
from lps.runs import Run
from lps.snapshots import read_split, write_arrays
from tests.sample_runs import make_run

HOSTILE = "=cmd|' /C calc'!A0 <b>x</b> \\input{x} $x^2$ _a_ [b](c) 50 % & # ~ `d`\n*e*"


def scored(method="lps", seed=0, *, all=0.9, seen=0.95, split="s", run="", matched=False, **settings) -> Scored:
    config = configure({"method": method, "seed": seed} | settings)
    scores = Scores(seen, 0.8, all, 0.7, 0.6, 0.0, matched)
    name = run or f"20260101-000000-digits-{method}-s{seed}-aaaaaa"
    return Scored(Run(Path("runs") / name), config, 20, scores, 60.0, split=split)


def as_in_paper(method="lps", dataset="cifar10", ratio=0.5, freeze="layer3", **own):
    asked = {"dataset": dataset, "method": method, "split.labeled_ratio": ratio, "network.freeze_until": freeze}
    return configure(asked | ({"dataset.path": "/pictures"} if dataset == "imagenet100" else {}) | own)


# ---------------------------------------------------------------------------------------------------- groups


def test_mean_and_sample_deviation_over_seeds():
    values = [0.9, 0.92, 0.97]
    (group,) = group_runs([scored(seed=seed, all=value) for seed, value in enumerate(values)])
    assert group.mean("all") == pytest.approx(np.mean(values)) and group.std("all") == pytest.approx(
        np.std(values, ddof=1)
    )
    assert compare.cell(group, "all") == "93.0 ± 3.6" and compare.cell(group, "time") == "60 ± 0"
    (single,) = group_runs([scored()])
    assert math.isnan(single.std("all")) and compare.cell(single, "all") == "90.0"


@pytest.mark.parametrize(
    "key, value", [("device", "cpu"), ("threads", 1), ("processes", 2), ("precision", "fp32"), ("pretrain.seed", 4)]
)
def test_what_may_differ_within_a_group(key, value):
    assert len(group_runs([scored(seed=0), scored(seed=1, **{key: value})])) == 1


@pytest.mark.parametrize("key, value", [("split.seed", 1), ("split.labeled_ratio", 0.1), ("lr", 0.01), ("epochs", 3)])
def test_what_may_not(key, value):
    assert len(group_runs([scored(seed=0), scored(seed=1, **{key: value})])) == 2


def test_different_splits_are_never_averaged_even_under_equal_settings():
    groups = group_runs([scored(seed=0, split="aaa"), scored(seed=1, split="bbb")])
    assert [group.label for group in groups] == ["LPS, split aaa", "LPS, split bbb"]
    assert compare.best(groups) == set()  # and are no rivals either


def test_a_seed_counts_once_and_the_newest_run_of_it():
    old, new = "20260101-000000-digits-lps-s0-zzzzzz", "20260202-000000-digits-lps-s0-aaaaaa"
    runs = [scored(run=new, all=0.8), scored(run=old, all=0.2), scored(seed=1, all=0.9)]
    for order in (runs, runs[::-1]):
        (group,) = group_runs(order)
        assert group.mean("all") == pytest.approx(0.85) and [m.config.seed for m in group.members] == [0, 1]
        assert [member.run.id for member in group.replaced] == [old]
    assert "LPS: seed 0 was run more than once, its newest finished run counts" in compare.notes([group])
    unfinished = [replace(runs[0], is_complete=False), runs[1]]
    assert group_runs(unfinished)[0].mean("all") == pytest.approx(0.2)  # what was broken off replaces nothing
    neither = group_runs([replace(run, is_complete=False) for run in unfinished])[0]
    assert neither.mean("all") == pytest.approx(0.8)
    assert "LPS: seed 0 was run more than once, its newest run counts" in compare.notes([neither])


def test_an_explicit_pretraining_seed_that_is_the_runs_own_changes_nothing():
    runs = [scored(seed=3), scored(seed=3, run="20270101-000000-digits-lps-s3-aaaaaa", **{"pretrain.seed": 3})]
    assert len(group_runs(runs)[0].members) == 1
    assert len(group_runs([scored(seed=3), scored(seed=3, **{"pretrain.seed": 4})])[0].members) == 2


def test_labels_say_what_tells_groups_apart():
    runs = [scored(), scored(use_margin=False), scored("orca"), scored(**{"split.labeled_ratio": 0.1})]
    assert [group.label for group in group_runs(runs)] == [
        "LPS, 50 % labels",
        "LPS, 50 % labels, use_margin=false",
        "ORCA, 50 % labels",
        "LPS, 10 % labels",
    ]
    assert [group.label for group in group_runs([scored(), scored("orca", margin_scale=5.0)])] == [
        "LPS",
        "ORCA, margin_scale=5",
    ]


def test_differences():
    def of(*runs):
        return compare.differences([run.config for run in runs])

    assert of(scored(seed=0), scored(seed=1, device="cpu")) == {}
    assert of(scored(), scored(margin_scale=5.0)) == {"margin_scale": [10.0, 5.0]}
    assert of(scored(lr=0.1), scored(lr=0.2)) == {"lr": [0.1, 0.2]}
    assert of(scored(), scored("orca")) == {"method": ["lps", "orca"]}  # own settings are all as they were
    assert of(scored(use_margin=False), scored("orca")) == {"method": ["lps", "orca"], "use_margin": [False, None]}
    assert of(scored(margin_scale=5.0), scored(margin_scale=5.0, seed=2)) == {}


def test_best_of_a_column():
    groups = group_runs([scored(all=0.9, seen=0.9), scored("orca", all=0.90004, seen=0.8), scored("nach", all=0.89)])
    assert {(row, c) for row, c in compare.best(groups) if c == "all"} == {(0, "all"), (1, "all")}  # equal as printed
    matched = group_runs([scored(seen=0.9), scored("gcd", seen=0.95, matched=True)])
    assert "seen" not in {column for _, column in compare.best(matched)}  # matching alone may have made it better
    raw = group_runs([scored(seen=0.95), scored("gcd", seen=0.9, matched=True)])
    assert (0, "seen") in compare.best(raw)
    assert compare.best(group_runs([scored()])) == set()


# ---------------------------------------------------------------------------------------------------- scores


def test_scores_of_stored_predictions(tmp_path):
    run = make_run(tmp_path, epochs=3)
    found = score_run(run)
    assert (found.epoch, found.is_complete, found.scores.seen_is_matched) == (3, True, False)
    assert found.scores.seen == pytest.approx(_last(run, "accuracy/seen"))
    assert found.time == pytest.approx(3 * (0.047 * 31 + 0.2))
    by_hand = max((compare._predictions(run, e, read_split(run.folder)[0]) for e in (1, 2, 3)), key=_right(run))
    assert score_run(run, select="oracle").scores.all == pytest.approx(_right(run)(by_hand), abs=1e-9)
    assert score_run(run, seen="matched").scores.seen_is_matched
    assert score_run(run, "gcd_v2").scores.seen_is_matched
    assert score_run(make_run(tmp_path, epochs=3, seed=1)).split == found.split
    assert score_run(make_run(tmp_path, epochs=3, settings={"split.seed": 1})).split != found.split


def _last(run, name):
    events = [json.loads(line) for line in run.events.read_text().splitlines()]
    return [event["values"][name] for event in events if event["kind"] == "eval"][-1]


def _right(run):
    split, truth = read_split(run.folder)
    return lambda predicted: float(np.mean(predicted == truth[split.unlabeled]))


def test_methods_without_aligned_ids_are_matched_by_default(tmp_path):
    run = make_run(tmp_path, epochs=2, settings={"method": "simclr"})
    assert score_run(run).scores.seen_is_matched and not score_run(run, seen="raw").scores.seen_is_matched


@pytest.mark.parametrize("words", [{"protocol": "x"}, {"select": "best"}, {"seen": "maybe"}])
def test_an_unknown_word_is_named(tmp_path, words):
    ((name, value),) = words.items()
    with pytest.raises(ConfigError, match=f"{name}: '{value}' is not one of "):
        score_run(make_run(tmp_path, epochs=1), **words)


def test_damage_is_one_sentence_with_the_runs_name(tmp_path):
    def fails(run, words):
        with pytest.raises(ConfigError, match=re.escape(run.id) + ".*" + words):
            score_run(run)

    run = make_run(tmp_path, epochs=2)
    last = run.snapshots / "epoch-0002.npz"
    for predicted, words in [
        (np.zeros(3, np.int16), "does not hold one class id for each of the"),
        (np.full(len(read_split(run.folder)[0].unlabeled), -1, np.int16), "holds class ids from -1 to -1"),
        (np.full(len(read_split(run.folder)[0].unlabeled), 30_000, np.int16), "holds class ids from 30000"),
        (np.zeros(len(read_split(run.folder)[0].unlabeled)), "predicted has another form"),
    ]:
        write_arrays(last, predicted=predicted)
        fails(run, words)
    last.write_bytes(b"PK broken")
    fails(run, "epoch-0002.npz: is damaged")
    (run.folder / "split.npz").unlink()
    fails(run, "split.npz: is not there yet")
    fails(make_run(tmp_path, "queued"), "no epoch has been evaluated yet")
    (run.folder / "config.json").write_text("{")
    fails(run, "config.json")


def test_odd_numbers_of_time_do_not_count(tmp_path):
    run = make_run(tmp_path, epochs=1)
    lines = [json.loads(line) for line in run.events.read_text().splitlines()]
    for event in lines:
        event["values"] |= {"time/step_s": "long", "time/eval_s": None}
    run.events.write_text("".join(json.dumps(event) + "\n" for event in lines))
    assert score_run(run).time == 0


def test_a_run_that_did_not_reach_its_end_is_noted(tmp_path):
    groups = group_runs([score_run(make_run(tmp_path, epochs=3)), score_run(make_run(tmp_path, "stopped", seed=1))])
    notes = compare.notes(groups)
    assert any("seed 1 did not reach its end, scored at epoch 8 of 20" in note for note in notes)
    assert not any("seed 0 did" in note for note in notes)


# ---------------------------------------------------------------------------------------------------- formats


def groups_for_tables() -> list[Group]:
    groups = group_runs([scored(), scored(seed=1, all=0.94), scored("gcd", all=0.5, seen=0.5, matched=True)])
    return [replace(groups[0], label=HOSTILE), groups[1]]


def test_markdown():
    text = compare.table(groups_for_tables(), "markdown")
    table = text.split("\n\n")[0].splitlines()
    assert len(table) == 4
    assert all(len(re.findall(r"(?<!\\)\|", line)) == len(compare.HEADS) + 1 for line in table)
    assert "**92.0 ± 2.8**" in table[2] and "50.0\\*" in table[3]
    assert r"\<b>" in table[2] and r"\[b\](c)" in table[2] and r"\`d\`" in table[2] and r"\_a\_" in table[2]
    assert r"\* seen accuracy after matching" in text
    assert compare.markdown("LPS, use_margin=false") == "LPS, use_margin=false"


def test_latex_prints_every_character_as_it_stands():
    text = compare.table(groups_for_tables(), "latex")
    body = [line for line in text.splitlines() if not line.startswith("%")]
    assert body[:2] == [r"\begin{tabular}{lrrrrrrrrr}", r"\toprule"] and body[-2:] == [r"\bottomrule", r"\end{tabular}"]
    rows = [line.removesuffix(r" \\") for line in body[4:-2]]
    assert len(rows) == 2
    for row in rows:
        cells = re.split(r"(?<!\\)&", row)
        assert len(cells) == len(compare.HEADS)
        for cell in cells:
            left = re.sub(r"\$\\(pm|cdot)\$|\{[\[\]]\}|\\[a-z]+\{\}|\\[&%$#_{}]", "", cell.strip())
            left = re.sub(r"^\\textbf\{(.*)\}$", r"\1", left)
            assert not set(left) & set("\\{}$&#_%^~[]<>|"), cell
    assert r"\textbf{92.0 $\pm$ 2.8}" in rows[0] and r"\textbackslash{}input\{x\}" in rows[0]


def test_csv_is_read_back_and_holds_no_formula():
    rows = list(csv.DictReader(io.StringIO(compare.table(groups_for_tables(), "csv"))))
    assert rows[0]["method"] == "'" + " ".join(HOSTILE.split())
    assert float(rows[0]["all_mean"]) == pytest.approx(0.92) and rows[0]["seeds"] == "0 1" and rows[1]["all_std"] == ""
    assert rows[1]["seen_is_matched"] == "True" and rows[1]["not_comparable"].startswith("it has no digits")
    for text in ("=1", "+1", "-1", "@a", "\t=1", "\n=1", "\r+1"):
        assert compare.plain(text)[0] == "'"


def test_json():
    first, second = json.loads(compare.table(groups_for_tables(), "json"))
    assert first["label"] == HOSTILE and first["seeds"] == [0, 1] and second["all"] == {"mean": 0.5, "std": None}
    assert second["paper"] is None and second["config"]["method"] == "gcd"


def test_what_was_not_measured_is_a_dash_or_null():
    nothing = replace(scored(), scores=Scores(*[math.nan] * 6, False))
    groups = group_runs([nothing])
    assert compare.cell(groups[0], "all") == "-" and compare.best(groups) == set()
    assert json.loads(compare.table(groups, "json"))[0]["all"]["mean"] is None
    assert all(compare.table(groups, form) for form in compare.FORMATS)
    assert (
        compare.cell(group_runs([replace(scored(), scores=replace(scored().scores, conflict=-1e-9))])[0], "conflict")
        == "0.0"
    )


def test_the_notes_name_protocol_and_oracle():
    member = replace(scored(), protocol="strict", select="oracle")
    notes = compare.notes(group_runs([member]))
    assert any(note.startswith("protocol strict: ") for note in notes) and any("oracle" in note for note in notes)
    assert not any(
        note.startswith(("protocol", "oracle")) for note in compare.notes(group_runs([member]), scoring=False)
    )


@pytest.mark.parametrize("form", compare.FORMATS)
def test_the_command_line(tmp_path, capsys, form):
    for seed in (0, 1):
        make_run(tmp_path, epochs=2, seed=seed)
    assert (
        main(["compare", "--runs", str(tmp_path), "--format", form, "--select", "oracle", "--protocol", "strict"]) == 0
    )
    assert "LPS" in capsys.readouterr().out
    assert main(["compare", "--runs", str(tmp_path), "--protocol", "x"]) == 2
    assert "protocol: 'x' is not one of orca" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------- the paper


def test_the_audit_of_table_1():
    table = [row for row in paper.rows() if row.table == "table1_main"]
    assert len(table) == 60
    above = {
        (r.dataset, r.labeled_ratio, r.method) for r in table if any("above" in doubt for doubt in paper.doubts(r))
    }
    assert above == {
        ("ImageNet-100", 0.1, "RankStats"),
        ("ImageNet-100", 0.5, "RankStats"),
        ("CIFAR-10", 0.1, "SimCLR"),
        ("ImageNet-100", 0.5, "GCD"),
    }
    copied = {(r.dataset, r.labeled_ratio, r.method) for r in table if any("same three" in d for d in paper.doubts(r))}
    assert copied == {("CIFAR-10", 0.5, "GCD"), ("ImageNet-100", 0.5, "GCD")}
    excess = paper.doubts(paper.main_row("ImageNet-100", 0.5, "RankStats"))[0]
    assert "5.4 points" in excess  # 40.3 - (47.3 + 2 * 28.7) / 3


def test_the_counterpart_of_a_run_as_in_the_paper():
    row, reasons = paper.counterpart(as_in_paper())
    assert reasons == [] and (row.seen, row.novel, row.all, row.nmi) == (90.2, 93.4, 92.4, 86.45)
    assert paper.counterpart(as_in_paper("openncd", ratio=0.1))[0].all == 85.3
    assert paper.counterpart(as_in_paper("gcd", "imagenet100"))[0].all == 68.2
    assert paper.counterpart(replace(as_in_paper(), split_num_seen=5))[0] is not None


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
    row, _ = paper.counterpart(as_in_paper(**own))
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
        ({"pretrain_epochs": 1}, "1 SimCLR epochs"),
        ({"network_name": "resnet50"}, "network resnet50"),
        ({"lr": 5.0}, "lr=5.0"),
        ({"network_head": "linear"}, "network.head=linear"),
        ({"split_rule": "stratified"}, "split.rule=stratified"),
        ({"dataset_images_per_class": 10}, "dataset.images_per_class=10"),
    ],
)
def test_every_reason_against_a_counterpart(changed, reason):
    row, reasons = paper.counterpart(replace(as_in_paper(), **changed))
    assert row is None and reason in reasons


def test_a_ratio_that_the_paper_does_not_have_is_the_only_reason():
    assert paper.counterpart(as_in_paper(ratio=0.3)) == (None, ["30 % labels"])


def test_changed_settings_and_another_way_to_score_have_no_counterpart():
    assert paper.counterpart(as_in_paper(margin_scale=7.0)) == (None, ["margin_scale=7.0"])
    assert paper.counterpart(as_in_paper(use_margin=False, temperature=0.2))[1] == ["use_margin=false, temperature=0.2"]
    assert paper.counterpart(as_in_paper("gcd", freeze="none"))[1] == ["nothing frozen"]
    assert paper.counterpart(as_in_paper(), "strict")[1] == ["protocol strict"]
    assert paper.counterpart(as_in_paper(), select="oracle")[1] == ["epoch chosen by an oracle"]
    assert paper.counterpart(as_in_paper(), seen_is_matched=True)[1] == ["seen accuracy matched, not raw"]
    assert paper.counterpart(as_in_paper("gcd"), seen_is_matched=False)[1] == ["seen accuracy raw, not matched"]
    assert paper.counterpart(as_in_paper("gcd"), seen_is_matched=True)[1] == []


def test_the_notes_on_the_paper_read_well():
    digits = group_runs([scored(epochs=20), scored("orca", epochs=20)])
    shared = "not comparable with the paper: it has no digits; network digits_resnet; 20 epochs; batch size 128"
    assert compare.notes_on_paper(digits) == [shared]  # said once
    member = scored()
    published = Group("LPS", (replace(member, config=as_in_paper()),))
    doubted = Group("GCD", (replace(scored("gcd", matched=True), config=as_in_paper("gcd", "cifar10")),))
    assert compare.paper_cell(published) == "90.2 / 93.4 / 92.4" and compare.paper_cell(doubted).endswith("79.1 †")
    assert compare.notes_on_paper([published, doubted]) == ["† GCD, paper: the same three numbers stand at 10 % labels"]
    assert compare.notes_on_paper([published, digits[0]])[0] == f"LPS: {shared}"
    assert compare.paper_cell(digits[0]) == "-"
