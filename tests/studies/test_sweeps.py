"""Sweeps: the layout against loops written out, equal runs made once, and the command with real processes."""

import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from lps.__main__ import main
from lps.cli._parser import parser
from lps.cli.sweep import _request
from lps.errors import UserError
from lps.files.atomic import write_json
from lps.files.locks import is_held
from lps.scheduler import costs, launcher
from lps.settings import catalog
from lps.settings.config import configure
from lps.store.events import EventWriter
from lps.store.run_folders import create_run, list_runs
from lps.store.runs import Run
from lps.studies import presets, sweep_layout, sweep_records, sweeps
from lps.studies.sweep_layout import SweepSpec, combinations, plan_runs, read_layout
from lps.studies.sweeps import plan_sweep
from tests.patience import LISTENS, until
from tests.queued_runs import TRAINER, waiting_runs

PATIENCE = 20  # seconds; a deadline, never a sleep
ON_CPU = {"device": "cpu"}


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.delenv("LPS_CPU_SLOTS", raising=False)
    monkeypatch.setattr("lps.store.run_folders.RECORDED", tmp_path / "no recordings")
    monkeypatch.setattr(launcher.launch, "__defaults__", (TRAINER,))
    for start in (launcher.resume, launcher.dispatch, sweeps.start_sweep):
        monkeypatch.setattr(start, "__defaults__", (TRAINER,))
    monkeypatch.setattr(sweeps.watch_items, "__defaults__", (TRAINER, 0.02))
    yield tmp_path / "runs"
    for run in list_runs(tmp_path / "runs"):
        launcher.stop(run, kill=True)
    until(lambda: not any(is_held(run.lock) for run in list_runs(tmp_path / "runs")))


def starts(root) -> list[str]:
    path = root / "starts.txt"
    return path.read_text().split() if path.exists() else []


def in_state(root, name: str, settings=None) -> Run:
    """A run whose files say that it is in the state `name`."""
    run = create_run(root, configure(ON_CPU | (settings or {})))
    if name == "queued":
        return run
    write_json(run.folder / "want.json", {"want": "run", "attempt": 1, "time": 1.0})
    write_json(run.folder / "process.json", {"attempt": 1, "started": 1000.0})
    if name != "crashed":
        write_json(run.folder / "exit.json", {"attempt": 1, "state": name, "time": 1060.0})
    assert run.state().name == name
    return run


AXES = {"lr": ("0.1", "0.2", "0.3"), "margin_scale": ("1", "5"), "epochs": ("7", "8")}


def test_grid_is_every_combination_once():
    loops = [{"lr": a, "margin_scale": b, "epochs": c} for a in AXES["lr"] for b in ("1", "5") for c in ("7", "8")]
    assert combinations(AXES) == loops
    assert combinations({}) == combinations({}, "list") == [{}]


def test_list_takes_values_side_by_side_and_demands_as_many():
    axes = {"lr": ("0.1", "0.2"), "epochs": ("7", "8")}
    assert combinations(axes, "list") == [{"lr": "0.1", "epochs": "7"}, {"lr": "0.2", "epochs": "8"}]
    with pytest.raises(UserError, match="the same number of values; lr has 3, margin_scale has 2, epochs has 2"):
        combinations(AXES, "list")


@pytest.mark.parametrize("samples", [1, 5, 12])
def test_random_draws_distinct_ones_of_the_grid(samples):
    grid = combinations(AXES)
    drawn = combinations(AXES, "random", samples, 3)
    assert len({tuple(c.items()) for c in drawn}) == samples and all(list(c) == list(AXES) and c in grid for c in drawn)
    assert combinations(AXES, "random", 12, 3)[:samples] == drawn  # a larger draw goes on where a smaller one ended


def test_random_depends_on_its_seed_and_reaches_everything():
    draws = [combinations(AXES, "random", 1, seed)[0] for seed in range(200)]
    assert {tuple(c.items()) for c in draws} == {tuple(c.items()) for c in combinations(AXES)}


def test_every_place_of_a_grid_is_found_without_writing_it_down():
    assert [sweep_layout._combination_at(AXES, place) for place in range(12)] == combinations(AXES)
    huge = {f"x{i}": tuple(map(str, range(100))) for i in range(20)}  # 10^40 combinations
    assert len(combinations(huge, "random", 3)) == 3


@pytest.mark.parametrize(
    "options, words",
    [
        (("spiral",), "mode: 'spiral' is not one of grid, list, random"),
        (("random",), "samples: needs a number of combinations with --mode random"),
        (("grid", 3), "samples: need --mode random"),
        (("random", 13), "samples: 13 is not a whole number from 1 to 12"),
        (("random", 0), "samples: 0 is not a whole number from 1 to 12"),
    ],
)
def test_impossible_modes_and_samples(options, words):
    with pytest.raises(UserError, match=words):
        combinations(AXES, *options)


def test_methods_seeds_and_values_are_crossed_and_equal_runs_laid_out_once():
    own = {method: set(catalog.method_info(method).parameters) for method in ("lps", "simclr")}
    assert "entropy_weight" in own["lps"] - own["simclr"]  # else this test would show nothing
    layout = SweepSpec(methods=("lps", "simclr"), seeds=(0, 4), fixed={"epochs": "9"},
                    varied={"entropy_weight": ("0", "1"), "lr": ("0.1", "0.10", "0.2")})  # fmt: skip
    expected = []
    for seed in (0, 4):
        for weight, lr in itertools.product((0.0, 1.0), (0.1, 0.2)):
            own_settings = {"method": "lps", "seed": seed, "epochs": 9, "entropy_weight": weight, "lr": lr}
            expected.append(configure(own_settings).flat())
        expected.append(configure({"method": "simclr", "seed": seed, "epochs": 9}).flat())  # trains nothing: no lr
    assert [config.flat() for config in plan_runs(layout)] == expected


@pytest.mark.parametrize(
    "layout, words",
    [
        (SweepSpec(methods=("lps", "orca"), varied={"temperature": ("0.3", "0.4")}), "ORCA: temperature has no effect"),
        (SweepSpec(varied={"lr": ("0.1", "0.10", "0.2")}), "lr has a value twice: 0.1, 0.10, 0.2"),
        (SweepSpec(varied={"lr": ("0.1",)}), "lr has only one value, so it does not vary"),
        (
            SweepSpec(varied={"margin_scale": ("1", "5"), "use_margin": ("true", "false")}),
            "use_margin=false do not use margin_scale",
        ),
        (SweepSpec(fixed={"use_margin": "false"}, varied={"margin_scale": ("1", "5")}), "with use_margin=false"),
        (
            SweepSpec(varied={"lr": ("1", "1", "2"), "epochs": ("3", "3", "4")}, mode="list"),
            "duplicates among the 3 combinations: 1",
        ),
        (SweepSpec(fixed={"epochs": "40"}), "epochs=40 is the default"),
    ],
)
def test_what_is_asked_for_in_vain_is_said(layout, words):
    (said,) = sweep_layout.redundant_requests(layout)
    assert words in said
    assert sweep_layout.plan_runs(layout)


def test_nothing_is_said_where_every_run_is_one_of_its_own():
    varied = {"margin_scale": ("1", "5"), "lr": ("0.1", "0.2")}
    for layout in (
        SweepSpec(),
        SweepSpec(methods=("lps", "orca"), varied=varied, fixed={"epochs": "41"}),
        SweepSpec(varied={"lr": ("1", "1", "2"), "epochs": ("3", "4", "4")}, mode="list"),
        SweepSpec(datasets=("digits", "cifar10"), fixed={"epochs": "40"}),
    ):
        assert sweep_layout.redundant_requests(layout) == []


def test_what_comes_before_training_is_varied_for_methods_that_train_nothing():
    varied = {"epochs": ("1", "2"), "pretrain.epochs": ("3", "4"), "restarts": ("5", "6"), "split.seed": ("7", "8")}
    found = [config.flat() for config in plan_runs(SweepSpec(methods=("simclr",), varied=varied))]
    told = [tuple(flat[key] for key in varied) for flat in found]
    assert told == list(itertools.product([configure({"method": "simclr"}).epochs], (3, 4), (5, 6), (7, 8)))


@pytest.mark.parametrize("mode, samples", [("grid", None), ("list", None), ("random", 3)])
def test_modes_combine_the_varied_settings_only(mode, samples):
    varied = {"lr": ("0.1", "0.2"), "epochs": ("7", "8")}
    configs = plan_runs(SweepSpec(seeds=(0, 1), varied=varied, mode=mode, samples=samples))
    pairs = {(float(c["lr"]), int(c["epochs"])) for c in combinations(varied, mode, samples)}
    for seed in (0, 1):
        assert {(c.lr, c.epochs) for c in configs if c.seed == seed} == pairs
    assert len(configs) == 2 * len(pairs)


def test_what_was_typed():
    layout = read_layout("digits", "lps, orca", "0,7", ["epochs=3"], ["lr=0.1, 0.2", "split.seen_classes=0,1|2,3,4",
                                                                      "lr=0.3"])  # fmt: skip
    assert (layout.methods, layout.seeds, layout.fixed) == (("lps", "orca"), (0, 7), {"epochs": "3"})
    assert layout.varied == {"lr": ("0.1", "0.2", "0.3"), "split.seen_classes": ("0,1", "2,3,4")}
    assert read_layout("digits", "all", "0").methods == tuple(catalog.method_names())
    assert [c.split_seen_classes for c in plan_runs(layout)][:2] == ["0,1", "2,3,4"]


@pytest.mark.parametrize(
    "text, words",
    [("split.seen_classes=0,1,999999999", "includes class 999999999; the classes are 0 to 9"),
     ("split.num_seen=12", "12 of 10 classes seen; expected 1 to 9")],
)  # fmt: skip
def test_classes_that_a_data_set_has_not_are_refused_before_they_are_laid_out(text, words):
    for given in ({"fixed": [text]}, {"varied": [f"{text}|1"]}):
        with pytest.raises(UserError, match=words):
            plan_runs(read_layout("digits", "lps", "0", **given))
    with pytest.raises(UserError, match="the classes are 0 to 99"):
        plan_runs(read_layout("cifar100", "lps", "0", ["split.seen_classes=0,100"]))
    assert plan_runs(read_layout("folder", "lps", "0", ["split.seen_classes=0,100", "dataset.path=x"]))  # nobody knows


def test_more_runs_than_anybody_means_are_refused_before_they_are_laid_out():
    varied = {f"x{i}": ("1", "2") for i in range(60)}
    with pytest.raises(UserError, match="1,152,921,504,606,846,976 runs are more than 2,000"):
        combinations(varied)
    with pytest.raises(UserError, match="2,200 runs are more than 2,000"):
        plan_runs(SweepSpec(seeds=tuple(range(1100)), varied={"lr": ("0.1", "0.2")}))


def test_labels_say_what_varies():
    layout = read_layout("digits", "orca", "1", ["epochs=3"], ["split.labeled_ratio=0.1", "pretrain.seed=none"])
    (config,) = plan_runs(layout)
    assert sweeps.item_label(config, layout) == "10 % labels, pretrain.seed=none, orca seed 1"


@pytest.mark.parametrize("state", ["finished", "queued", "stopped", "failed", "crashed"])
def test_an_equal_run_is_recognised(root, state):
    run = in_state(root, state)
    (same, other) = plan_sweep(SweepSpec(fixed=ON_CPU, varied={"margin_scale": ("10", "11")}), root).items
    expected = "exists" if state in ("finished", "queued") else "resumed"
    assert (same.run, same.action) == (run, expected)
    assert (other.run, other.action) == (None, "new")


def test_a_damaged_run_is_not_reused_and_the_best_of_several_is(root):
    damaged = in_state(root, "finished")
    (damaged.folder / "config.json").write_text("{")
    assert plan_sweep(SweepSpec(fixed=ON_CPU), root).items[0].action == "new"
    finished, failed = in_state(root, "finished"), in_state(root, "failed")
    assert plan_sweep(SweepSpec(fixed=ON_CPU), root).items[0].run == finished
    write_json(failed.folder / "exit.json", {"attempt": 1, "state": "finished"})
    newest = max(finished, failed, key=lambda run: run.id)
    assert plan_sweep(SweepSpec(fixed=ON_CPU), root).items[0].run == newest


@pytest.mark.slow
def test_start_makes_resumes_and_reuses_and_a_second_time_changes_nothing(root):
    finished, stopped = in_state(root, "finished"), in_state(root, "stopped", {"seed": 1})
    finished.write_meta(tags=["mine"])
    layout = SweepSpec(seeds=(0, 1, 2), fixed=ON_CPU)
    wanted = plan_sweep(layout, root, "three seeds")
    assert [item.action for item in wanted.items] == ["exists", "resumed", "new"]
    started = sweeps.start_sweep(wanted, root)
    ended = list(sweeps.watch_items(started.items))
    assert {item.config.seed: item.state.name for item in ended} == dict.fromkeys((0, 1, 2), "finished")
    made = started.items[2].run
    assert starts(root) == [stopped.id, made.id]
    assert made.config().flat() == configure(ON_CPU | {"seed": 2}).flat() and made.meta()["name"] == "lps seed 2"
    assert [item.run.meta()["tags"] for item in started.items] == [["mine", "sweep:three seeds"]] + [
        ["sweep:three seeds"]
    ] * 2
    again = sweeps.start_sweep(plan_sweep(layout, root, "three seeds"), root)
    assert [item.run for item in again.items] == [item.run for item in started.items]
    assert len(starts(root)) == 2 and len(list_runs(root)) == 3
    assert sorted(r.id for r in sweeps.runs_with_tag(root, "sweep:three seeds")) == sorted(
        i.run.id for i in again.items
    )


@pytest.mark.slow
def test_two_equal_sweeps_at_once_make_every_run_once(root):
    wanted = plan_sweep(SweepSpec(seeds=(0, 1, 2), fixed=ON_CPU), root)
    with ThreadPoolExecutor(3) as pool:
        started = list(pool.map(lambda _: sweeps.start_sweep(wanted, root), range(3)))
    assert len(list_runs(root)) == 3 and len({tuple(i.run for i in sweep.items) for sweep in started}) == 1
    assert [item.state.name for item in sweeps.watch_items(started[0].items)] == ["finished"] * 3
    assert len(starts(root)) == 3


def test_the_same_settings_have_the_same_name_and_others_another(root):
    name = plan_sweep(SweepSpec(fixed=ON_CPU), root).name
    assert name == plan_sweep(SweepSpec(varied={"device": ("cpu", "cpu")}), root).name
    assert name != plan_sweep(SweepSpec(fixed=ON_CPU, seeds=(1,)), root).name


@pytest.mark.slow
def test_a_stopping_run_is_waited_for_by_the_person(root):
    wanted = plan_sweep(SweepSpec(fixed=ON_CPU), root)
    run = create_run(root, wanted.items[0].config)
    write_json(run.folder / "plan.json", {"do": "hang"})
    launcher.launch(run)
    until(lambda: run.log.exists() and b"doing" in run.log.read_bytes())
    launcher.stop(run)
    with pytest.raises(UserError, match="is stopping; start the sweep again"):
        sweeps.start_sweep(wanted, root)
    assert run.meta()["tags"] == []


def test_the_estimate_is_what_finished_runs_of_the_kind_took(root):
    wanted = plan_sweep(SweepSpec(methods=("lps", "orca"), seeds=(0, 1, 2), fixed=ON_CPU), root)
    nothing = sweeps.estimate_sweep(wanted, root)
    assert (nothing.runs, nothing.missing, nothing.unknown) == (6, 6, ("lps on digits", "orca on digits"))
    run = in_state(root, "finished", {"seed": 1})  # 60 s
    (run.folder / "weights").write_bytes(bytes(5000))
    size = sum(path.stat().st_size for path in run.folder.rglob("*") if path.is_file())
    known = sweeps.estimate_sweep(
        plan_sweep(SweepSpec(methods=("lps", "orca"), seeds=(0, 1, 2), fixed=ON_CPU), root), root
    )
    assert (known.runs, known.missing, known.unknown) == (5, 3, ("orca on digits",))
    assert (known.span.likely, known.bytes) == (2 * 60, 2 * size)


def test_a_sweep_that_goes_on_keeps_the_time_of_its_first_start(root, monkeypatch):
    run = in_state(root, "finished", {"seed": 1})
    layout = SweepSpec(seeds=(1,), fixed=ON_CPU)
    times = []
    for now, request in (1.0, layout), (2.0, layout), (3.0, replace(layout, sample_seed=5)):
        monkeypatch.setattr(sweep_records, "time", SimpleNamespace(time=lambda now=now: now))
        wanted = plan_sweep(request, root, "mine")
        assert sweeps.was_started(wanted, root, [run]) == (now == 2.0)
        sweeps.start_sweep(wanted, root)
        times.append(sweep_records.read_sweep_record(root, "mine")[1])
    assert times == [1.0, 1.0, 3.0], "another request under the name is another sweep"
    run.write_meta(tags=[])
    assert not sweeps.was_started(wanted, root, [run]), "as after its runs were deleted"


def command(root, *arguments):
    return main(["sweep", "--set", "device=cpu", "--runs", str(root), *arguments])


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--vary", "speed=1"], "speed: is not a setting of lps; choices: "),
        (["--method", "lps,orca", "--set", "speed=1"], "speed: is not a setting of lps, orca; choices: "),
        (["--vary", "lr=0.1,x"], "lr: 'x' is not a number from"),
        (["--vary", "lr=0.1,,0.2"], "lr: '0.1,,0.2' has an empty value"),
        (["--vary", "lr"], "--vary: 'lr' is not of the form name=value"),
        (["--set", "lr=0.1", "--set", "lr=0.2"], "lr: is set twice, to '0.1' and to '0.2'; name it once"),
        (["--preset", "tabel1"], "preset: 'tabel1' is not one of table1, nmi, finetuning, ablation,"),
        (["--preset", "C", "--scale", "big"], "scale: 'big' is not one of demo, paper"),
        (["--scale", "demo"], "scale: needs a preset; choose one with --preset"),
        (
            ["--preset", "C", "--method", "orca"],
            "--method: cannot be combined with --preset: C defines its own variations",
        ),
        (["--preset", "C", "--vary", "lr=1,2"], "--vary: cannot be combined with --preset"),
        (["--preset", "C", "--set", "margin_scale=3"], "margin_scale: is varied by the preset C; remove it"),
        (["--preset", "C", "--set", "speed=3"], "speed: is not a setting of its methods; choices: "),
        (["--preset", "C", "--dataset", "mnist"], "dataset: 'mnist' is not in C at this scale; choices: digits"),
        (["--preset", "C", "--seeds", "0,0"], "seeds: 0, 0: expected at least one seed, each once"),
        (["--vary", "lr=1", "--set", "lr=1"], "lr: is both set and varied"),
        (["--vary", "seed=1,2"], "seed: cannot be set or varied by name; use --seeds"),
        (["--set", "method=orca"], "method: cannot be set or varied by name; use --method"),
        (["--seeds", "0,-1"], "seed: -1 is not a whole number from 0"),
        (["--seeds", ""], "seed: '' is not a whole number"),
        (["--method", "lps,lsp"], "method: 'lsp' is not one of "),
        (["--dataset", "x"], "dataset: 'x' is not one of "),
        (["--vary", "split.num_seen=5,10"], "split.num_seen: 10 of 10 classes seen"),
        (["--vary", "split.seen_classes=0,1|2,99"], "split.seen_classes: includes class 99"),
        (["--mode", "best"], "mode: 'best' is not one of grid, list, random"),
        (["--mode", "random", "--samples", "2"], "samples: 2 is not a whole number from 1 to 1"),
        (["--samples", "x"], "argument --samples: 'x' is not a whole number"),
        (["--name", "a" * 35], "is not a printable line of at most 34 characters"),
    ],
)
def test_one_bad_value_is_one_line_and_nothing_is_made(arguments, words, tmp_path, capsys):
    try:
        code = command(tmp_path / "runs", *arguments)
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert code == 2 and words in captured.err and captured.err.count("\n") == 1 and not captured.out
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_says_what_would_be_run_and_makes_nothing(root, capsys):
    run = in_state(root, "stopped")
    before = sorted(path.name for path in root.rglob("*"))
    assert command(root, "--vary", "margin_scale=10,11", "--set", "threads=none", "--dry-run", "--name", "C") == 0
    captured = capsys.readouterr()
    lines = [f"resumed  margin_scale=10, lps seed 0  {run.id}, stopped", "new      margin_scale=11, lps seed 0"]
    assert captured.out.splitlines() == lines
    assert captured.err.splitlines()[0] == "sweep:C: 2 runs (1 new, 1 resumed)"
    assert "unknown: no finished run of lps on digits yet" in captured.err
    assert command(root, "--vary", "margin_scale=10,11", "--set", "threads=none", "--dry-run", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(r["action"], r["state"], r["config"]["margin_scale"]) for r in shown["runs"]] == [
        ("resumed", "stopped", 10.0),
        ("new", None, 11.0),
    ]
    assert sorted(path.name for path in root.rglob("*")) == before


@pytest.mark.slow
def test_wait_says_how_every_run_ended(root, capsys):
    done = in_state(root, "finished")
    events = EventWriter(done.events)
    events.append("eval", step=1, epoch=1, values={"accuracy/all": 0.8732})
    events.close()
    bad = create_run(root, configure(ON_CPU | {"seed": 1}))
    write_json(bad.folder / "plan.json", {"do": "fail"})
    assert command(root, "--seeds", "0,1,2", "--wait") == 1
    captured = capsys.readouterr()
    lines = captured.err.splitlines()[-3:]
    assert lines[0] == "[1/3] lps seed 0: finished, all 0.87"
    assert sorted(line[6:] for line in lines[1:]) == [
        "lps seed 1: failed: the loss is not finite",
        "lps seed 2: finished",
    ]
    folders = [Path(line) for line in captured.out.splitlines()]
    assert [Run(folder).config().seed for folder in folders] == [0, 1, 2] and folders[:2] == [done.folder, bad.folder]
    write_json(bad.folder / "plan.json", {"do": "finish"})
    assert command(root, "--seeds", "0,1,2", "--wait", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [run["state"] for run in shown["runs"]] == ["finished"] * 3
    assert [run["action"] for run in shown["runs"]] == ["exists", "resumed", "exists"]


@pytest.mark.slow
def test_ctrl_c_while_waiting_leaves_the_runs_going(root):
    run = create_run(root, configure(ON_CPU))
    write_json(run.folder / "plan.json", {"do": "wait"})
    code = f"""
import sys
from lps.scheduler import launcher; from lps.studies import sweeps
from lps.__main__ import main
for start in (launcher.launch, launcher.resume, launcher.dispatch, sweeps.start_sweep):
    start.__defaults__ = ({TRAINER!r},)
watch = sweeps.watch_items
sweeps.watch_items = lambda items: (print("waiting", file=sys.stderr, flush=True), watch(items, {TRAINER!r}, 0.02))[1]
sys.exit(main(["sweep", "--set", "device=cpu", "--seeds", "0,1", "--wait", "--runs", {str(root)!r}]))
"""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENS + code], cwd=launcher.SOURCE, start_new_session=True, **pipes
    )
    assert any(line == "waiting\n" for line in process.stderr)
    until(lambda: run.log.exists() and b"doing" in run.log.read_bytes())
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "in the queue: 2 runs" in err and "Traceback" not in err
    assert len(out.splitlines()) == 2 and run.state().name == "running" and len(waiting_runs(root)) == 1


def test_compare_takes_the_runs_of_a_sweep(root, capsys, monkeypatch):
    compared, one = [], SimpleNamespace(config=configure())
    monkeypatch.setattr("lps.analysis.run_scores.score_run", lambda run, *how: compared.append(run.id) or one)
    monkeypatch.setattr("lps.analysis.run_groups.group_runs", lambda scored: [])
    runs = [in_state(root, state, {"seed": seed}) for seed, state in enumerate(("finished", "finished", "failed"))]
    for run in (runs[0], runs[2]):
        run.write_meta(tags=["sweep:C"])
    assert main(["compare", "--tag", "sweep:C", "--runs", str(root)]) == 0
    assert compared == [runs[0].id] and "not finished: 1 of 2 runs" in capsys.readouterr().err
    for arguments, words in (
        (["--tag", "sweep:D"], "tag: 'sweep:D' has no runs in"),
        (["--tag", "sweep:C", runs[0].id], "tag: cannot be combined with names of runs"),
    ):
        assert main(["compare", *arguments, "--runs", str(root)]) == 2
        assert words in capsys.readouterr().err


VARIED = {"lr": ("0.1", "0.2"), "split.seen_classes": ("0,1", "2,3")}
DRAWN = {"lr": ("0.1", "0.2"), "margin_scale": ("1", "2", "3")}


@pytest.mark.parametrize(
    "asked",
    [
        SweepSpec(),
        SweepSpec(("digits",), ("lps", "orca"), (0, 3), {"epochs": "2"}, VARIED),
        SweepSpec(varied=DRAWN, mode="random", samples=4, sample_seed=7),
        presets.PresetRequest("ablation"),
        presets.PresetRequest("C", "paper", (1,), ("cifar100",), {"epochs": "3"}),
    ],
)
def test_what_was_asked_for_survives_the_disk_and_the_command_line(asked, tmp_path):
    sweep_records.write_sweep_record(tmp_path, "a name / with | anything", asked.as_record())
    kept, when = sweep_records.read_sweep_record(tmp_path, "a name / with | anything")
    assert sweeps.from_record(kept) == asked and when > 1e9
    words = shlex.split(asked.command("some name"))
    assert words[:4] == ["python", "-m", "lps", "sweep"]
    options = parser().parse_args(words[3:])
    assert _request(options) == asked and options.name == "some name"


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"layout": {"datasets": ["digits"]}},
        {"layout": {**SweepSpec().as_record()["layout"], "methods": ["no such"]}},
        {"layout": {**SweepSpec().as_record()["layout"], "varied": {"lr": ["x"]}}},
        {"layout": "x"},
        {"preset": {"preset": "ablation"}},
        {"preset": presets.PresetRequest("ablation").as_record()["preset"] | {"scale": "moon"}},
        {"preset": presets.PresetRequest("ablation").as_record()["preset"] | {"preset": []}},
        {"preset": presets.PresetRequest("ablation").as_record()["preset"] | {"seeds": []}},
    ],
)
def test_damaged_records_mean_nothing(kept):
    assert sweeps.from_record(kept) is None


def test_damaged_files_of_records_mean_nothing(tmp_path):
    sweep_records.write_sweep_record(tmp_path, "x", {"layout": {}})
    (path,) = (tmp_path / ".sweeps").iterdir()
    assert sweep_records.read_sweep_record(tmp_path, "y") == ({}, 0.0)
    for text in ("{", "[]", '{"name": "y", "asked": {}}', '{"name": "x", "asked": 1}'):
        path.write_text(text)
        assert sweep_records.read_sweep_record(tmp_path, "x") == ({}, 0.0)


@pytest.mark.slow
def test_a_preset_is_started_kept_and_found_again(root, capsys):
    words = ["--preset", "ablation", "--seeds", "0", "--set", "epochs=2"]
    assert command(root, *words, "--wait") == 0
    (known,) = sweep_records.list_sweeps(root)
    assert known.name == "ablation-demo-device=cpu-epochs=2" and len(known.runs) == 5
    fixed = {"device": "cpu", "epochs": "2", "threads": "1"}  # one thread for each run on the CPU
    asked = presets.PresetRequest("ablation", "demo", (0,), (), fixed)
    assert sweeps.from_record(known.request) == asked
    expected = {config.to_json() for config, _ in presets.build_paper_table(asked).labeled_configs()}
    assert {run.config().to_json() for run in known.runs} == expected and len(starts(root)) == 5
    capsys.readouterr()
    assert command(root, *words) == 0 and "5 runs (5 exists)" in capsys.readouterr().err
    assert len(starts(root)) == 5


def test_presets_are_listed_with_their_runs(capsys):
    assert main(["sweep", "--list-presets", "--json"]) == 0
    shown = {row["name"]: row["runs"] for row in json.loads(capsys.readouterr().out)}
    assert shown["ablation"] == {"demo": 15, "paper": 30} and shown["table1"] == {"demo": 60, "paper": 180}
    assert main(["sweep", "--list-presets"]) == 0 and "Ablation (Table 4)" in capsys.readouterr().out


def test_a_dry_run_of_what_cannot_be_run_lists_it_and_says_why(root, capsys, monkeypatch):
    def missing(config, *_):
        raise UserError("dataset.path", f"{config.dataset} is not on this machine")

    monkeypatch.setattr("lps.scheduler.preflight.check_config", missing)
    assert command(root, "--preset", "C", "--scale", "paper", "--dataset", "cifar100", "--dry-run") == 2
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 15 and "cifar100 is not on this machine" in captured.err
    assert not root.exists()


def test_where_nothing_has_finished_recordings_tell_the_cost(root, monkeypatch, tmp_path):
    """A recording of 30 s and 40 epochs, of which it tells none: half as long for 20, start too; own runs first."""
    recording = create_run(tmp_path / "recorded", configure({"epochs": 40}))
    write_json(recording.folder / "recorded.json", {"version": 1})
    values = {"parameters": 1000, "images/unlabeled": 100}
    lines = [("start", 100.0, values), ("finish", 130.0, {})]
    text = [json.dumps({"kind": k, "step": 0, "epoch": 0, "time": t, "values": v}) for k, t, v in lines]
    recording.events.write_text("\n".join(text) + "\n")
    monkeypatch.setattr("lps.store.run_folders.RECORDED", tmp_path / "recorded")
    wanted = plan_sweep(SweepSpec(seeds=(0, 1), fixed=ON_CPU | {"epochs": "20"}), root)
    found = sweeps.estimate_sweep(wanted, root)
    assert (found.missing, found.span.likely, found.bytes) == (0, 30 + costs.START_S, 2 * (3 * 8 * 1000 + 20 * 4 * 100))
    in_state(root, "finished", {"seed": 5, "epochs": 20})  # 60 s
    assert sweeps.estimate_sweep(wanted, root).span.likely == 2 * 60
