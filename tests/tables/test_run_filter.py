"""The filter of runs: matches, errors, and time limits."""

import random
import time
from pathlib import Path

import pytest

import lps
from lps.__main__ import main
from lps.analysis.run_index import Measured, RunRow
from lps.errors import UserError
from lps.settings.config import configure
from lps.store.events_tail import RecentEvents
from lps.store.runs import Run, State
from lps.tables import run_filter
from lps.tables.run_names import Vocabulary
from tests import sample_runs


def entry(name="", method="lps", novel=None, tags=(), state="finished", epoch=20, launched=1_795_000_000.0, **settings):
    config = configure({"method": method} | {key.replace("__", "."): value for key, value in settings.items()})
    last = {} if novel is None else {"accuracy/novel": novel}
    about = (name, method, config.dataset, config.seed, config.epochs, launched, tags, "", False)
    return RunRow(
        Run(Path("x")),
        State(state),
        state,
        *about,
        Measured(RecentEvents(epoch=epoch, newest_values=last)),
        config=config,
    )


RUNS = [
    entry("ablation 1", lr=0.1, novel=0.81, tags=("old", "paper")),
    entry("ablation 2", lr=0.05, novel=0.8, margin_scale=5.0),
    entry("baseline", "orca", lr=0.2, novel=0.6, state="failed", split__labeled_ratio=0.1),
    entry("C = 5, *bold*", "fixmatch", use_average=False, launched=None),
]


def found(text: str) -> list[int]:
    return [RUNS.index(one) for one in run_filter.select_runs(RUNS, text)]


@pytest.mark.parametrize(
    "text, places",
    {
        "": [0, 1, 2, 3],
        "lr>0.05 and method=lps": [0],
        'name~"abl.*"': [0, 1],
        "name~^abl.*2$": [1],
        "not tag=old": [1, 2, 3],
        "tag=paper": [0],
        "tag=''": [1, 2, 3],
        "accuracy/novel>=80": [0, 1],
        "novel<=60%": [2],
        "novel!=80": [0, 2, 3],
        "state=failed": [2],
        "STATE=Failed or lr=1e-1": [0, 2],
        "method=LPS|orca lr>=0.1": [0, 2],
        "(method=orca or tag=old) and not novel<70": [0],
        "not (method=orca or method=lps)": [3],
        "margin_scale=5": [1],
        "margin_scale!=5": [0, 2, 3],
        "use_average=false": [3],
        "labeled_ratio<0.5": [2],
        "split.labeled_ratio==0.1": [2],
        "pretrain.seed=none epoch>=20": [0, 1, 2, 3],
        "ablation 2": [1],
        '"ablation 2"': [1],
        "'C = 5'": [3],
        "launched>=2026-11-18": [0, 1, 2],
        "launched=2026-11-18": [0, 1, 2],
        "launched>2026-11-18": [],
        "name!~abl method=orca": [2],
        "not not tag=old": [0],
    }.items(),
)
def test_it_finds(text, places):
    assert found(text) == places


@pytest.mark.parametrize(
    "text, words",
    {
        "lrr>0.05": "'lrr' at position 1 is not a field (name, id, state, tag, note, alarm, epoch, launched)",
        "lr>abc": "'abc' at position 4 is not a number; lr needs one",
        "novel>0.8": "0.8 at position 7 can be read in two ways, because accuracy/novel is in percent: use 80 or 0.8%",
        "schedule=cosin": "'cosin' at position 10 is not a schedule; choices: constant, cosine",
        "state=done": "'done' at position 7 is not a state; choices: queued, starting",
        "use_margin=maybe": "not a use_margin; choices: true, false",
        "method<lps": "method is not a number, so it cannot be compared with < (before position 8)",
        "(method=lps": "the filter ends at position 12; expected and, or, or )",
        "method=lps)": "')' at position 11; expected and, or, or the end",
        "lr=": "the filter ends at position 4; expected a value to compare lr with",
        "and lr=1": "'and' at position 1; expected a name, a word or (",
        "lr>1 or": "the filter ends at position 8; expected a name, a word or (",
        'name="x': 'the text at position 6 has no closing "',
        "launched>yesterday": "is not a day such as 2026-11-22",
        "name~[": "is not a regular expression",
        "x" * 501: "501 characters are more than 500",
        "(" * 21 + "a" + ")" * 21: "more than 20 nested brackets at position 21",
    }.items(),
)
def test_what_is_wrong_is_one_sentence_with_its_place(text, words):
    with pytest.raises(UserError) as caught:
        found(text)
    assert str(caught.value).startswith("filter: ") and words in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


SWEPT = [
    entry(
        f"margin_scale={scale:g}, entropy_weight={weight:g}, lps seed 1",
        margin_scale=scale,
        entropy_weight=weight,
        seed=1,
    )
    for scale in (5.0, 50.0)
    for weight in (0.25, 1.0)
] + [entry("ORCA ref, C=10", "orca"), entry("orca ref", "orca", novel=0.7)]


@pytest.mark.parametrize(
    "text, places",
    {
        "C=5, w=0.25, LPS seed 1": [0],
        "seed 1 w=1 c=5": [1],
        "c=50, w": [2, 3],
        "5, w=0.2": [0],
        "orca REF, c=10": [4],
        "margin_scale=5, entropy_weight=1, LPS seed 1": [1],
        "ORCA ref": [4, 5],
        "margin_scale=5 LPS": [0, 1],
        "novel>60": [5],
        "novel>80": [],
    }.items(),
)
def test_a_displayed_name_finds_its_runs_where_no_condition_does(text, places):
    assert [SWEPT.index(one) for one in run_filter.select_runs(SWEPT, text)] == places


EVIL = [
    "(a+)+$",
    "(a|a)*b",
    "(?:a)*",
    r"(a)\1",
    ".*.*.*.*.*b",
    "a?" * 30 + "b",
    "(a|a)" * 30 + "b",
    "(a*)*",
    "(.{1,9}){9}",
]
SLOWEST = [".*.*.*b", "a*a*b", "(a|a)" * 15 + "b", "a?" * 15 + "b", ".*(a|a)(a|a)(a|a)(a|a)b"]


@pytest.mark.parametrize("pattern", EVIL)
def test_an_expression_that_could_take_for_ever_is_refused(pattern):
    with pytest.raises(UserError, match="not supported|too many ways"):
        found(f'name~"{pattern}"')


@pytest.mark.slow
@pytest.mark.parametrize("pattern", SLOWEST)
def test_the_slowest_that_is_taken_is_over_soon(pattern):
    began = time.process_time()
    run_filter.select_runs([entry("a" * 4000)], f'name~"{pattern}"')
    assert time.process_time() - began < 3


def test_expressions_over_many_runs_are_given_up(monkeypatch):
    monkeypatch.setattr(run_filter, "_MAX_S", -1.0)
    with pytest.raises(UserError, match="use simpler ones"):
        found("name~x")
    assert found("lr>0.1") == [2]


def test_any_text_is_a_filter_or_a_refusal():
    draw = random.Random(0)
    parts = [*"()=<>!~\"'|%\\[]*+?{}", " and ", " or ", " not ", "lr", "name", "0.1", "tag", "é", "\0", "\n", "x"]
    for _ in range(2000):
        text = "".join(draw.choices(parts, k=draw.randrange(12)))
        try:
            found(text)
        except UserError as error:
            assert "\n" not in str(error)


def test_ten_thousand_runs_are_filtered_at_once():
    many = RUNS * 2500
    began = time.process_time()
    assert len(run_filter.select_runs(many, "lr>0.05 and method=lps|orca and novel>=70 and not tag=new")) == 2500
    assert time.process_time() - began < 1.5


def test_the_same_on_the_command_line_and_in_python(tmp_path, capsys):
    runs = [sample_runs.make_run(tmp_path, epochs=2, settings={"lr": lr}) for lr in (0.05, 0.2)]
    assert main(["list", "--runs", str(tmp_path), "--filter", "lr>0.1"]) == 0
    assert runs[1].id in (said := capsys.readouterr().out) and runs[0].id not in said
    assert [run.id for run in lps.list_runs(tmp_path, filter="lr>0.1 state=finished")] == [runs[1].id]
    assert main(["compare", "--runs", str(tmp_path), "--format", "csv", "--filter", "lr=0.05"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["compare", "--runs", str(tmp_path), "--filter", "lr>9"]) == 2
    assert "'lr>9' matches none of 2 runs" in capsys.readouterr().err
    assert main(["list", "--runs", str(tmp_path), "--filter", "lrr>9"]) == 2
    assert "did you mean lr?" in capsys.readouterr().err


def test_a_name_that_only_some_methods_have_is_known_and_the_end_of_a_key_does():
    assert Vocabulary().find("labeled_ratio").key == "split.labeled_ratio"
    assert Vocabulary().find("gap").key == "accuracy/gap"
    difference = Vocabulary().find("Novel - seen")
    assert difference.key == "accuracy/novel - accuracy/seen" and difference.kind == "percent"
    with pytest.raises(UserError, match="expected two numbers"):
        Vocabulary().find("novel - state")
    with pytest.raises(UserError, match="did you mean batch_size or pretrain.batch_size"):
        Vocabulary().find("batch_sise")


@pytest.mark.parametrize("method, margin, text", [("lps", True, "10"), ("lps", False, "–"), ("orca", None, "10")])
def test_a_setting_whose_switch_is_off_has_no_value(method, margin, text):
    run = entry(method=method) if margin is None else entry(method=method, use_margin=margin)
    assert Vocabulary().find("margin_scale").value_text(run) == text


@pytest.mark.parametrize(
    "text, found",
    [
        ("seed 1 C=10", "ab"),
        ("lps, C=10 seed 1 w=1", "a"),
        ("novel c=1", "d"),
        ("sim seed", "e"),
        ("C=1 seed 1", ""),
        ("w= C=10", ""),
    ],
)
def test_runs_are_found_by_whole_words_in_any_order(text, found):
    names = {
        "a": "C=10, w=1, LPS seed 1 · novel 60.0 %", "b": "C=10, w=0.5, LPS seed 1", "c": "C=10, w=1, LPS seed 10",
        "d": "C=1, w=1, LPS seed 0 (abc123) · novel 58.3 %", "e": "SimGCD seed 2 · running",
    }  # fmt: skip
    assert "".join(run_filter.find_by_words(names, text)) == found
