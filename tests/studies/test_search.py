"""Searches: typed requests, measurements, and a driver that may be killed at any time."""

import json
import math
import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lps.__main__ import main
from lps.cli._parser import parser
from lps.cli.search import _run_search
from lps.errors import UserError
from lps.files.locks import is_held, try_lock
from lps.scheduler import launcher
from lps.scores.metrics import agreement
from lps.scores.protocols import open_world
from lps.settings.config import configure, parameters
from lps.store import run_folders
from lps.store.run_folders import create_run, list_runs
from lps.store.runs import Run
from lps.store.snapshots import read_snapshot, read_split, write_arrays
from lps.studies import search, search_driver, search_results
from lps.studies.search import create_search, find_search, list_searches, read_request
from lps.studies.search_objective import OBJECTIVES, class_shares, evenness, objective_value
from lps.studies.search_results import read_results
from lps.studies.search_space import Dimension, can_be_searched, default_point, read_dimension, read_space, suggested
from tests import sample_runs
from tests.patience import until
from tests.search_trainer import peak
from tests.shares import OFFSET, share
from tests.visiting import visit, words_of

TRAINER = (sys.executable, str(Path(__file__).parents[1] / "search_trainer.py"))
SPACE = ["margin_scale=1..12", "lr=1e-4..1:log"]
FIXED = ["device=cpu", "epochs=6"]
PATIENCE = 60  # seconds; a deadline, never a sleep


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_CPU_SLOTS", "2")
    monkeypatch.setenv("LPS_RETRY_S", "0")
    yield tmp_path / "runs"
    for run in list_runs(tmp_path / "runs"):
        launcher.stop(run, kill=True)
    until(lambda: not any(is_held(run.lock) for run in list_runs(tmp_path / "runs")))


def asked(root, trials=4, space=SPACE, fixed=FIXED, objective="validation", name="hunt", plan=None, **more):
    root.mkdir(parents=True, exist_ok=True)
    if plan:
        (root / "search_trainer.json").write_text(json.dumps(plan))
    request = read_request(
        "digits", "lps", space, fixed, objective=objective, name=name, trials=trials, **({"parallel": 1} | more)
    )
    return create_search(request, root)


def drive(found, said=None):
    return search_driver.run_search(found, (said if said is not None else []).append, trainer=TRAINER, pause_s=0.01)


def started(root) -> list[str]:
    path = root / "starts.txt"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize(
    "text, dimension",
    [
        ("margin_scale=1..10", Dimension("margin_scale", "float", 1.0, 10.0)),
        ("lr = 1e-4 .. 1e-1 : log", Dimension("lr", "float", 1e-4, 0.1, True)),
        ("batch_size=128..512", Dimension("batch_size", "int", 128, 512)),
        ("use_margin=true,false", Dimension("use_margin", "bool", choices=(True, False))),
        ("temperature=0.2,0.4", Dimension("temperature", "float", choices=(0.2, 0.4))),
        ("optimizer=sgd,adam", Dimension("optimizer", "str", choices=("sgd", "adam"))),
        ("weight_decay=0..1", Dimension("weight_decay", "float", 0.0, 1.0)),
    ],
)
def test_a_dimension_is_what_was_typed_and_types_itself_again(text, dimension):
    assert read_dimension(text, "lps") == dimension
    assert read_dimension(dimension.text, "lps") == dimension


@pytest.mark.parametrize(
    "text, words",
    [
        ("margin_scale", "--space: 'margin_scale' is not of the form NAME=VALUES"),
        ("margin_scale=10..1", "margin_scale: '10..1' is empty; expected LOW..HIGH with LOW below HIGH"),
        ("margin_scale=1..1", "is empty"),
        ("margin_scale=1..2000", "margin_scale: 2000.0 is not a number from 0 to 1000"),
        ("margin_scale=0..10:log", "log needs LOW above 0"),
        ("margin_scale=1..10:cube", "'cube' is not a scale; choices: log"),
        ("margin_scale=5", "'5' is too few or too many choices; expected 2 to 32 different choices"),
        ("margin_scale=5,5.0", "is too few or too many choices"),
        ("margin_scale=1,,2", "is too few or too many choices"),
        ("batch_size=1.5..8", "batch_size: '1.5' is not a whole number"),
        ("use_margin=0..1", "use_margin: '0..1' is a range, but the setting must be true or false; list the values"),
        ("optimizer=sgd,rmsprop", "optimizer: 'rmsprop' is not one of sgd, adam"),
        ("split.labeled_ratio=0.1..0.5", "split.labeled_ratio: cannot be searched: runs that differ in it"),
        ("seed=0..5", "seed: cannot be searched"),
        ("magic=0..5", "magic: is not a setting of lps; choices: epochs, "),
    ],
)
def test_an_impossible_dimension_is_a_sentence(text, words):
    with pytest.raises(UserError) as error:
        read_dimension(text, "lps")
    assert words in str(error.value)


def test_a_space_names_every_setting_once_and_something_at_all():
    with pytest.raises(UserError, match="lr: is searched twice"):
        read_space(["lr=0.1..1", "lr=0.1,0.2"], "lps")
    with pytest.raises(UserError, match="space: is empty"):
        read_space([], "lps")


@pytest.mark.parametrize("method", ["lps", "orca", "gcd", "nach"])
def test_what_is_suggested_can_be_searched_and_holds_the_usual_value(method):
    base = configure({"method": method})
    for name, parameter in parameters(method).items():
        dimension = suggested(parameter, base.flat()[name])
        if dimension is not None and can_be_searched(name):
            assert read_dimension(dimension.text, method) == dimension
            assert dimension.contains(base.flat()[name]), name


def test_the_usual_settings_are_a_point_only_where_the_space_has_them():
    base = configure({"margin_scale": 10.0, "use_margin": True})
    space = read_space(["margin_scale=1..10", "use_margin=true,false"], "lps")
    assert default_point(space, base) == {"margin_scale": 10.0, "use_margin": True}
    assert default_point(read_space(["margin_scale=1..9"], "lps"), base) is None


def test_evenness_is_the_number_of_equal_classes_over_all():
    assert evenness(np.full(8, 1 / 8)) == pytest.approx(1)
    assert evenness(np.array([1.0, 0, 0, 0])) == pytest.approx(1 / 4)
    assert evenness(np.array([0.5, 0.5, 0, 0])) == pytest.approx(2 / 4)
    shares = np.array([0.5, 0.25, 0.25])
    assert evenness(shares) == pytest.approx(2**1.5 / 3)  # entropy of 1.5 bits
    assert evenness(shares[::-1]) == evenness(shares)


@pytest.fixture
def measured(tmp_path):
    """A finished run of digits with snapshots, and withheld labels."""
    return sample_runs.make_run(tmp_path, epochs=2, settings={"split.validation_ratio": 0.2})


def test_class_shares_count_labels_and_predictions(measured):
    split, truth = read_split(measured.folder)
    predicted = read_snapshot(measured.snapshots, 2).predicted
    counts = [0] * split.classes.total
    for image in split.labeled:
        counts[truth[image]] += 1
    for name in predicted:
        counts[name] += 1
    assert class_shares(measured, 2) == pytest.approx(np.array(counts) / len(truth))


def test_only_the_oracle_changes_with_the_hidden_labels(measured):
    """The truth of the unlabeled images but the withheld ones is dealt anew: what the search sees must not move."""
    split, truth = read_split(measured.folder)
    predicted = read_snapshot(measured.snapshots, 2).predicted.astype(np.int64)
    hidden = np.setdiff1d(split.unlabeled, split.validation)

    def values(truth):
        stored = dict(np.load(measured.folder / "split.npz"))
        (measured.folder / "split.npz").unlink()
        write_arrays(measured.folder / "split.npz", **stored | {"targets": truth.astype(np.int16)})
        event = open_world(predicted, truth[split.unlabeled], split.classes)
        withheld = truth[split.validation]
        event["accuracy/validation"] = agreement(predicted[split.validation_rows], withheld, seen_is_aligned=True)
        return {name: objective_value(objective, measured, 2, event) for name, objective in OBJECTIVES.items()}

    before = values(truth)
    dealt = truth.copy()
    dealt[hidden] = np.random.default_rng(0).permutation(dealt[hidden])
    after = values(dealt)
    assert after["validation"] == before["validation"] and after["balanced"] == before["balanced"]
    assert after["oracle"] < before["oracle"] - 0.3
    assert before["balanced"] == pytest.approx(before["validation"] * evenness(class_shares(measured, 2)))
    assert [name for name, objective in OBJECTIVES.items() if objective.hidden] == ["oracle"]
    assert "hidden labels" in OBJECTIVES["oracle"].title and OBJECTIVES["oracle"].description.startswith("Oracle")


def test_what_was_not_measured_has_no_value(measured):
    for objective in OBJECTIVES.values():
        assert objective_value(objective, measured, 2, {}) is None
        assert objective_value(objective, measured, 2, {"accuracy/validation": None, "accuracy/all": None}) is None


def test_labels_are_withheld_where_the_objective_needs_them():
    def withheld(objective, *fixed):
        return read_request("digits", "lps", SPACE, fixed, objective=objective).base.split_validation_ratio

    assert withheld("validation") == withheld("balanced") == 0.2
    assert withheld("validation", "split.validation_ratio=0.1") == 0.1
    assert withheld("oracle") == 0
    with pytest.raises(UserError, match="split.validation_ratio: 0 withholds no labels, but the objective balanced"):
        withheld("balanced", "split.validation_ratio=0")


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"objective": "truth"}, "objective: 'truth' is not one of balanced, validation, oracle"),
        ({"trials": 0}, "trials: 0 is not a whole number from 1 to 2000"),
        ({"parallel": 0}, "parallel: 0 is not a whole number from 1 to 64"),
        ({"name": "../x"}, "name: '../x' is not 1 to 32 letters"),
        ({"seeds": "0,x"}, "seed: 'x' is not a whole number"),
        ({"seeds": ""}, "seeds: [] are not seeds; expected at most 16 different whole numbers"),
        ({"fixed": ["lr=0.1"]}, "lr: is both set and searched; choose one"),
        ({"fixed": ["method=orca"]}, "method: cannot be set by --set; use --method"),
        ({"space": ["epochs=2..8"]}, "epochs: cannot be searched together with early stopping"),
    ],
)
def test_an_impossible_request_is_a_sentence(changes, words):
    with pytest.raises(UserError) as error:
        read_request("digits", "lps", changes.pop("space", SPACE), **changes)
    assert words in str(error.value)


def test_a_request_is_kept_and_named_after_its_question(tmp_path):
    request = read_request("digits", "lps", SPACE, FIXED, trials=7)
    found = create_search(request, tmp_path)
    assert find_search(tmp_path, request.name).request() == request
    assert read_request("digits", "lps", SPACE, FIXED, trials=99, parallel=3).name == request.name
    assert read_request("digits", "lps", SPACE[:1], FIXED).name != request.name
    identity = found.identity
    assert create_search(read_request("digits", "lps", SPACE, FIXED, trials=9), tmp_path).request().trials == 9
    assert find_search(tmp_path, request.name).identity == identity


def test_a_name_stands_for_one_question(tmp_path):
    asked(tmp_path)
    for changes, words in (
        ({"space": SPACE[:1]}, "another space"),
        ({"objective": "oracle"}, "another objective"),
        ({"fixed": [*FIXED, "temperature=0.2"]}, "another temperature"),
        ({"seeds": "1"}, "another seeds"),
        ({"prune": False}, "another prune"),
    ):
        with pytest.raises(UserError, match=words):
            asked(tmp_path, **changes)
    with pytest.raises(UserError, match="'chase' is not a search in .*; choices: hunt"):
        find_search(tmp_path, "chase")


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"space": 3}', '{"space": ["lr=9..1"], "base": {}}'])
def test_a_damaged_request_is_a_sentence(tmp_path, damage):
    found = asked(tmp_path)
    (found.folder / "search.json").write_text(damage)
    with pytest.raises(UserError):
        found.request()
    assert [other.name for other in list_searches(tmp_path)] == ["hunt"]


def test_a_search_of_before_a_setting_existed_goes_on_as_it_began(tmp_path):
    request = read_request("digits", "legogcd", ["lr=0.01..0.1"], {}, objective="validation", trials=2, parallel=1)
    found = create_search(request, tmp_path)
    stored = json.loads((found.folder / "search.json").read_text())
    assert stored["base"].pop("agreement") == "official"
    (found.folder / "search.json").write_text(json.dumps(stored))
    assert found.request().base.hyperparameters["agreement"] == "kl"


@pytest.mark.slow
def test_without_optuna_the_package_imports_and_a_search_says_what_is_missing():
    code = """
import sys
sys.modules["optuna"] = None
import lps.studies.search, lps.studies.search_driver, lps.cli._parser
from lps.__main__ import main
sys.exit(main(["search", "--space", "lr=0.1..1", "--runs", sys.argv[1]]))
"""
    done = subprocess.run([sys.executable, "-c", code, "/nowhere"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.strip() == "lps: search: optuna is not installed; install it with: pip install optuna"


@pytest.mark.slow
def test_a_search_is_runs_with_a_tag_and_a_best(root, capsys):
    said: list[str] = []
    found = asked(root, trials=6)
    assert read_results(found).state == "new"
    assert drive(found, said) == "finished"
    result = read_results(found)
    assert result.state == "finished" and [trial.number for trial in result.trials] == list(range(6))
    runs = {run.id: run for run in list_runs(root)}
    assert sorted(started(root)) == sorted(runs) and len(runs) == 6
    for trial in result.trials:
        (run,) = (runs[name] for name in trial.runs)
        config = run.config()
        assert run.meta()["tags"] == ["search:hunt"] and config.split_validation_ratio == 0.2
        assert config.hyperparameters["margin_scale"] == trial.values["margin_scale"]
        assert config.lr == trial.values["lr"]
        assert trial.value == pytest.approx(peak(trial.values["margin_scale"], trial.values["lr"]))
        assert trial.scores == tuple((e, pytest.approx(trial.value * (1 + e / 6) / 2)) for e in range(1, 7))
    assert result.trials[0].is_default and result.trials[0].values == {"margin_scale": 10.0, "lr": 0.05}
    assert result.best.value == max(trial.value for trial in result.trials)
    assert len(said) == 6 and "best" in said[-1]
    assert drive(found) == "finished" and len(list_runs(root)) == 6, "nothing is left to do"
    assert sorted(path.name for path in found.folder.iterdir()) == ["lock", "search.json", "trials.jsonl"]
    assert all(json.loads(line) for line in found.journal.read_text().splitlines()), "nothing of it is a pickle"
    words = shlex.split(search_results.sweep_command(result.request, result.best))
    main([*words[3:], "--dry-run", "--runs", str(root)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and result.best.runs[0] in lines[0], "the best with other seeds; seed 0 is the trial's own"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The trials of a search whose driver did not die."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LPS_CPU_SLOTS", "2")
        whole = asked(tmp_path_factory.mktemp("whole") / "runs", trials=3)
        drive(whole)
    return read_results(whole).trials


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", share(["ask", "suggest", "create", "tag", "note", "launch", "report", "tell"], OFFSET, 2)
)
def test_a_driver_that_dies_anywhere_leaves_nothing_twice(root, monkeypatch, where, undisturbed):
    """Death before or after every write: the journal and the runs are on disk, so an exception is as good as a kill."""

    class Killed(BaseException):
        pass

    import optuna

    places = {
        "ask": (optuna.study.Study, "ask"),
        "suggest": (search_driver, "_suggest"),
        "create": (run_folders, "create_run"),
        "tag": (Run, "write_meta"),
        "note": (optuna.trial.Trial, "set_user_attr"),
        "launch": (launcher, "launch"),
        "report": (optuna.trial.Trial, "report"),
        "tell": (optuna.study.Study, "tell"),
    }
    found = asked(root, trials=3)
    owner, name = places[where]
    original = getattr(owner, name)
    deaths = 0
    for is_done in (False, True) * 2:
        calls = 0

        def dies(*arguments, is_done=is_done, **options):
            nonlocal calls
            calls += 1
            if calls == 2 and not is_done:
                raise Killed
            value = original(*arguments, **options)
            if calls == 2:
                raise Killed
            return value

        monkeypatch.setattr(owner, name, dies)
        try:
            drive(found)
        except Killed:
            deaths += 1
        monkeypatch.setattr(owner, name, original)
    assert deaths
    drive(found)
    result = read_results(found)
    assert [trial.state for trial in result.trials] == ["complete"] * 3
    assert [trial.values for trial in result.trials] == [trial.values for trial in undisturbed]
    assert [trial.value for trial in result.trials] == [trial.value for trial in undisturbed]
    assert len(list_runs(root)) == 3 and len(started(root)) == 3


@pytest.mark.slow
def test_two_drivers_of_one_search_are_never_at_work_together(root):
    found = asked(root)
    lock = try_lock(found.lock)
    try:
        with pytest.raises(UserError, match="search: hunt is already running in another process"):
            drive(found)
        assert not search.start_driver(found) and read_results(found).state in ("running", "new")
    finally:
        os.close(lock)
    assert not list_runs(root)


@pytest.mark.slow
def test_hopeless_trials_are_stopped_and_marked(root):
    """A run whose margin is far off waits for a stop half-way: without pruning the search would hang here."""
    plan = {"waits": [9.0, 12.0]}
    found = asked(
        root, trials=12, space=["margin_scale=1..12"], fixed=[*FIXED, "lr=0.01", "margin_scale=4"][:3], plan=plan
    )
    # The first five draws must end by themselves: they are what the others are compared with.
    pruned_from = search_driver.STARTUP_TRIALS
    (root / "search_trainer.json").write_text("{}")
    search.extend_search(found, trials=pruned_from)
    drive(found)
    assert read_results(found).count("complete") == pruned_from
    (root / "search_trainer.json").write_text(json.dumps(plan))
    study = search.open_study(found, create=True)
    for bad in (9.5, 11.0):
        study.enqueue_trial({"margin_scale": bad})
    search.extend_search(found, trials=pruned_from + 4)
    drive(found)
    result = read_results(found)
    pruned = [trial for trial in result.trials if trial.state == "pruned"]
    assert {9.5, 11.0} <= {trial.values["margin_scale"] for trial in pruned}
    median = sorted(trial.value for trial in result.trials[:pruned_from])[2]
    for trial in pruned:
        assert trial.value < median and "worse than the median" in trial.reason
        run = Run(root / trial.runs[0])
        assert run.meta()["tags"] == ["search:hunt", "pruned"] and run.state().name in ("stopped", "finished")
        assert result.best.value > trial.value
    assert result.best not in pruned


@pytest.mark.slow
def test_the_pruner_is_off_when_asked(root):
    found = asked(root, trials=9, prune=False, space=["margin_scale=1..12"], fixed=[*FIXED, "lr=0.01"])
    drive(found)
    assert read_results(found).count("complete") == 9


@pytest.mark.slow
def test_several_seeds_are_one_run_each_and_their_mean_counts(root):
    found = asked(root, trials=2, seeds="0,2")
    drive(found)
    for trial in read_results(found).trials:
        best = peak(trial.values["margin_scale"], trial.values["lr"])
        assert trial.value == pytest.approx(best * (1 + 0.8) / 2)
        seeds = [Run(root / name).config().seed for name in trial.runs]
        assert seeds == [0, 2] and [step for step, _ in trial.scores] == list(range(1, 13))
        assert trial.scores[6][1] == pytest.approx((best + 0.8 * best * (1 + 1 / 6) / 2) / 2)


@pytest.mark.slow
def test_settings_that_diverge_count_as_bad_and_other_failures_not_at_all(root):
    plan = {"diverges": [9.0, 12.0]}
    found = asked(root, trials=1, plan=plan)  # the usual margin, 10
    drive(found)
    (trial,) = read_results(found).trials
    assert trial.state == "failed" and trial.value is None and "not finite" in trial.reason
    study = search.open_study(found)
    assert study.trials[0].state.name == "PRUNED", "the sampler learns to keep away"
    other = asked(root, trials=1, name="other", plan={"fails": [9.0, 12.0]}, fixed=[*FIXED, "temperature=0.2"])
    drive(other)
    assert search.open_study(other).trials[0].state.name == "FAIL"
    assert "no such file" in read_results(other).trials[0].reason


@pytest.mark.slow
def test_a_search_that_only_fails_gives_up(root):
    found = asked(root, trials=50, plan={"fails": [0, 12.0]})
    with pytest.raises(UserError, match="5 trials failed in a row; the last one: no such file"):
        drive(found)
    assert read_results(found).count("failed") == 5 and read_results(found).state == "interrupted"


@pytest.mark.slow
def test_a_killed_trainer_goes_on_where_it_was(root):
    found = asked(root, trials=1, plan={"dies": [9.0, 12.0]})
    drive(found)
    (trial,) = read_results(found).trials
    assert trial.state == "complete" and len(started(root)) == 2 and len(list_runs(root)) == 1


@pytest.mark.slow
def test_a_run_that_somebody_stopped_gives_its_trial_up(root):
    found = asked(root, trials=1, plan={"waits": [0, 12]})
    driver = search_driver.Driver(found, found.request(), search.open_study(found, create=True), print, TRAINER)
    course = driver._next_trial()
    until(lambda: not driver._advance(course) and course.reported_step == 3)
    launcher.stop(course.run)
    until(lambda: driver._advance(course))
    assert read_results(found).trials[0].reason == "its run was stopped"


@pytest.mark.slow
def test_a_search_is_stopped_with_its_runs_and_goes_on_from_there(root, monkeypatch):
    found = asked(root, trials=2, plan={"waits": [0, 12]})
    driver = search_driver.Driver(found, found.request(), search.open_study(found, create=True), print, TRAINER)
    course = driver._next_trial()
    until(lambda: not driver._advance(course) and course.reported_step == 3)
    search.request_state(found, "stop")
    assert driver.drive(0.01) == "stopped" and read_results(found).state == "stopped"
    until(lambda: all(run.state().name == "stopped" for run in list_runs(root)))
    (root / "search_trainer.json").write_text("{}")
    search.request_state(found, "run")
    assert drive(found) == "finished"
    assert [trial.state for trial in read_results(found).trials] == ["complete"] * 2
    assert len(list_runs(root)) == 2 and len(started(root)) == 3, "one of them in two goes"


@pytest.mark.slow
def test_an_equal_run_that_is_finished_is_used_as_it_is(root):
    found = asked(root, trials=1)
    run = create_run(root, found.request().config({"margin_scale": 10.0, "lr": 0.05}, 0), "by hand")
    launcher.launch(run, TRAINER)
    assert launcher.wait_for_end(run, PATIENCE).name == "finished"
    drive(found)
    assert list_runs(root) == [run] and read_results(found).trials[0].runs == (run.id,)
    assert run.meta()["tags"] == ["search:hunt"] and run.meta()["name"] == "by hand"


@pytest.mark.slow
def test_an_oracle_is_called_so_wherever_it_shows(root, capsys):
    said: list[str] = []
    found = asked(root, trials=1, objective="oracle")
    drive(found, said)
    assert "uses the hidden labels" in said[0] and list_runs(root)[0].meta()["tags"] == ["search:hunt", "oracle"]
    trial = read_results(found).trials[0]
    assert trial.value == pytest.approx(1 - peak(10.0, 0.05)), "the truth of all images, by the run's own event"
    main(["search", "--list", "--runs", str(root)])
    assert "oracle: uses the hidden labels" in capsys.readouterr().out
    main(["search", "hunt", "--runs", str(root)])
    assert "Oracle: uses the hidden labels" in capsys.readouterr().out
    main(["search", "hunt", "--json", "--runs", str(root)])
    assert json.loads(capsys.readouterr().out)["objective"]["uses_hidden_labels"] is True


@pytest.mark.slow
def test_a_torn_line_is_cut_off_and_a_damaged_journal_is_a_sentence(root):
    found = asked(root, trials=1)
    drive(found)
    whole = read_results(found)
    with open(found.journal, "ab") as file:
        file.write(b'{"op_code":4,"worker_')
    assert read_results(found) == whole, "a reader takes no notice of a line that is being written"
    search.extend_search(found, trials=2)
    drive(found)
    assert len(read_results(found).trials) == 2 and read_results(found).trials[0] == whole.trials[0]
    found.journal.write_bytes(b"not JSON\n" + found.journal.read_bytes())
    with pytest.raises(UserError, match="search: trials.jsonl of hunt is damaged"):
        read_results(found)
    with pytest.raises(UserError, match="is damaged"):
        drive(found)


@pytest.mark.parametrize(
    "line",
    [
        {"runs": 5},
        {"op_code": 99},
        {"op_code": 8, "worker_id": "x", "trial_id": 0, "user_attr": {"runs": 5}},
        {"op_code": 8, "worker_id": "x", "trial_id": 0, "user_attr": {"runs": [5]}},
        {"op_code": 8, "worker_id": "x", "trial_id": 0, "user_attr": 5},
        {"op_code": 7, "worker_id": "x", "trial_id": 0, "step": 1, "intermediate_value": "x"},
        [],
        5,
    ],
)
def test_a_line_that_no_driver_has_written_is_a_damage_of_its_search_alone(root, capsys, monkeypatch, line):
    sound, found = asked(root, name="sound"), asked(root, name="hunt")
    search.open_study(found, create=True).ask()
    with open(found.journal, "a") as file:
        file.write(json.dumps(line) + "\n")
    with pytest.raises(UserError, match=r"^search: trials.jsonl of hunt is damaged \(.+\)$"):
        read_results(found)
    with pytest.raises(UserError, match="is damaged"):
        drive(found)
    assert main(["search", "hunt", "--runs", str(root)]) == 2
    assert main(["search", "--list", "--runs", str(root)]) == 0
    listed = capsys.readouterr().out
    assert "sound                new" in listed and "hunt                 unreadable" in listed and read_results(sound)
    monkeypatch.setenv("LPS_RUNS", str(root))
    for page in (visit("search", search="hunt"), visit("search")):
        assert "trials.jsonl of hunt is damaged" in words_of(page)


def trial(number, state="complete", value=0.5):
    return search_results.Trial(number, state, {"margin_scale": 1.0}, value)


def test_best_so_far_takes_finished_trials_alone():
    trials = [
        trial(0, "pruned", 0.9),
        trial(1, value=0.4),
        trial(2, value=0.3),
        trial(3, "failed"),
        trial(4, value=0.6),
    ]
    best = search_results.best_so_far(trials)
    assert math.isnan(best[0]) and best[1:] == [0.4, 0.4, 0.4, 0.6]


@pytest.mark.slow
def test_importance_finds_the_setting_that_matters(root):
    """The formula depends on margin_scale alone: fANOVA must say so, and say nothing below its least number."""
    optuna = search.load_optuna()
    found = asked(root, space=["margin_scale=1..12", "temperature=0.1..1"])
    study = search.open_study(found, create=True)
    space = {
        "margin_scale": optuna.distributions.FloatDistribution(1, 12),
        "temperature": optuna.distributions.FloatDistribution(0.1, 1),
    }
    generator = random.Random(0)
    assert "needs at least 4 finished trials; there are 0" in search_results.importance_caution(read_results(found))
    for number in range(24):
        point = {"margin_scale": generator.uniform(1, 12), "temperature": generator.uniform(0.1, 1)}
        value = peak(point["margin_scale"], 0.01)
        study.add_trial(optuna.trial.create_trial(params=point, distributions=space, value=value))
        if number + 1 in (search_results.MIN_TRIALS - 1, search_results.MIN_TRIALS, 24):
            shares = read_results(found).importance
            assert bool(shares) == (number + 1 >= search_results.MIN_TRIALS)
        if number == search_results.MIN_TRIALS:
            assert "only a rough estimate" in search_results.importance_caution(read_results(found))
    assert list(shares) == ["margin_scale", "temperature"] and shares["margin_scale"] > 0.9
    assert sum(shares.values()) == pytest.approx(1)
    assert "24 finished trials" in search_results.importance_caution(read_results(found))
    assert "guess" not in search_results.importance_caution(read_results(found))


@pytest.mark.slow
def test_an_estimate_counts_every_run(root, monkeypatch):
    monkeypatch.setattr("lps.store.run_folders.RECORDED", root / "none")
    request = read_request("digits", "lps", SPACE, FIXED, seeds="0,1", trials=5)
    assert search.estimate_search(request, root) is None
    found = asked(root, trials=1)
    drive(found)
    run = list_runs(root)[0]
    exit_record, process = run.read_json("exit.json"), run.read_json("process.json")
    assert search.estimate_search(request, root).likely == pytest.approx(
        10 * (exit_record["time"] - process["started"])
    )


def test_the_advice_to_go_on_is_a_command_that_can_be_pasted(monkeypatch, capsys):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(search_driver, "start_search", stopped)
    asked = parser().parse_args(["search", "m", "--resume"])
    assert _run_search(SimpleNamespace(name="m", tag="search:m"), asked) == 130
    advice = re.findall(r"python -m lps (.+)$", capsys.readouterr().err, re.MULTILINE)
    asked.runs = asked.runs.resolve()  # so that it may be pasted anywhere
    assert len(advice) == 2 and all(parser().parse_args(shlex.split(line)) == asked for line in advice)
