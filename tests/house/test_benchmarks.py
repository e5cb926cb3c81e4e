"""The benchmarks measure what they claim: the trainer's steps, and a reference with the same mathematics."""

import copy
import json
import random
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from benchmarks import __main__ as command
from benchmarks import (
    clocks,
    evaluation,
    growth,
    in_process,
    machine,
    memory,
    methods_table,
    natural,
    pil_views,
    priors,
    profile,
    rates,
    report,
    shares,
    steps,
    suite,
)
from benchmarks.cases import Case, make_case
from benchmarks.reference import Pictures, Reference, lps_loss
from lps.data.batches import seeded
from lps.data.classes import Classes
from lps.data.crops import random_cutout
from lps.data.training_data import prepare
from lps.data.views import FAMILIES
from lps.methods import Progress
from lps.scores.protocols import open_world
from lps.settings.config import configure
from lps.training import checkpoints
from lps.training.loop import build
from tests.short_runs import finished_run

HOST = torch.device("cpu")
PLAIN = (torch.contiguous_format, torch.float32)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def case():
    """Digits and thresholds that a fresh network passes with some of the rows."""
    thresholds = {"threshold_seen": 0.3, "threshold_novel_start": 0.2, "threshold_novel_end": 0.3}
    return make_case("digits", "lps", "cpu", batch_size=48, **thresholds)


def gradients(method, loss):
    method.zero_grad()
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in method.parameters()])


def test_the_reference_has_the_objective_of_the_method(case):
    batch, reference = next(steps.batches(case, 1)), Reference(case)
    method = copy.deepcopy(case.method)
    ours, measured = method.loss(batch, case.progress)
    theirs, _ = lps_loss(reference.method, batch, case.progress)
    kept = sum(part.numerator for name, part in measured.items() if name.startswith("pseudo_label/rate"))
    assert 0 < kept < len(batch.unlabeled_positions)
    assert theirs.item() == pytest.approx(ours.item(), rel=1e-5)
    for term in ("margin_scale", "pseudo_label_weight", "unsupervised_weight", "entropy_weight"):
        changed = copy.deepcopy(reference.method)
        setattr(changed, term, 0.0)
        difference = lps_loss(changed, batch, case.progress)[0].item() - ours.item()
        assert abs(difference) > 1e-3 * abs(ours.item()), f"a reference without {term} would be noticed"
    one, other = gradients(method, ours), gradients(reference.method, theirs)
    assert (one - other).norm() < 1e-3 * one.norm()


@pytest.mark.parametrize("method", ["lps", "orca"])
def test_a_step_of_the_reference_trains_its_own_weights(method):
    case = make_case("digits", method, "cpu", batch_size=24)
    before, reference = copy.deepcopy(case.method.state_dict()), Reference(case, workers=0)
    start = reference.method.network.classifier.weight.clone()
    reference.steps(1)
    assert not torch.equal(reference.method.network.classifier.weight, start)
    assert all(torch.equal(value, before[name]) for name, value in case.method.state_dict().items())


def test_batches_of_the_reference_hold_labeled_rows_first(case):
    reference, split = Reference(case, workers=0), case.material.split
    (ids,) = reference._rows(1)
    labeled = case.material.plan.labeled
    assert len(set(ids)) == len(ids) == case.images_per_step
    assert set(ids[:labeled]) <= set(split.labeled) and set(ids[labeled:]) <= set(split.unlabeled)
    views = list(zip(*(reference.pictures[i][:-1] for i in ids)))
    batch = reference.batch([torch.stack(view) for view in views], torch.tensor(ids))
    assert batch.targets.tolist() == case.material.truth[ids[:labeled]].tolist()
    assert split.unlabeled[batch.unlabeled_positions].tolist() == ids[labeled:]
    assert [view.shape for view in batch.views()] == [(48, 1, 8, 8)] * 3


@pytest.mark.parametrize("family, shape", [("digits", (5, 1, 8, 8)), ("cifar", (5, 3, 32, 32))])
def test_pictures_reach_pil_unchanged(family, shape):
    images = torch.randint(0, 256, shape, dtype=torch.uint8)
    pictures = Pictures(images, [pil_views.FAMILIES[family]["plain"]])
    theirs = torch.stack([pictures[i][0] for i in range(5)])
    torch.testing.assert_close(theirs, FAMILIES[family]["plain"](images))


@pytest.mark.slow
def test_the_grey_square_in_pil_is_ours():
    random.seed(0)
    count, black = 20_000, Image.new("RGB", (32, 32))
    theirs = sum(np.asarray(pil_views.cut_out(black))[..., 0] > 0 for _ in range(count)) / count
    ours = random_cutout(torch.zeros(count, 3, 32, 32, dtype=torch.uint8), seeded(HOST, 1))[:, 0] > 0
    assert np.abs(ours.double().mean(0).numpy() - theirs).max() < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weak", "strong"])
def test_digits_are_warped_by_as_much_in_pil(name, case):
    """Mean and spread of many views of one digit. PIL shifts by whole pixels, which spreads the small shifts more."""
    torch.manual_seed(0)
    image, count = case.material.images.pixels[:1], 1500
    ours = FAMILIES["digits"][name](image.expand(count, -1, -1, -1).contiguous(), seeded(HOST, 1))
    pictures = Pictures(image, [pil_views.FAMILIES["digits"][name]])
    theirs = torch.stack([pictures[0][0] for _ in range(count)])
    assert (ours.mean(0) - theirs.mean(0)).abs().max() < 0.25  # of a range of 2.9
    assert ours.std(0).mean().item() == pytest.approx(theirs.std(0).mean().item(), rel=0.2)


@pytest.mark.slow
def test_timed_steps_are_those_of_the_trainer(tmp_path):
    run = finished_run(tmp_path, "lps", epochs=1, **{"network.start": "random", "batch_size": 64, "device": "cpu"})
    config = run.config()
    material = prepare(config)
    case = Case(config, material, *build(config, material), Progress(0, 1, 0, material.plan.steps))
    case.method.train()
    steps.steps(case, material.plan.steps)
    _, state, _ = checkpoints.load_newest(run.checkpoints)
    own = case.method.state_dict()
    assert all(torch.equal(value, own[name]) for name, value in state["method"].items())


def test_batches_go_on_in_the_next_epoch(case):
    a_pass = case.material.plan.steps
    assert len(list(steps.batches(case, a_pass + 2))) == a_pass + 2


def test_metrics_one_by_one_equal_ours():
    draw = np.random.default_rng(0)
    truth = draw.integers(0, 6, 400)
    probabilities = draw.random((400, 6)) + 0.8 * np.eye(6)[np.where(truth > 2, (truth - 2) % 3 + 3, truth)]
    theirs = evaluation.reference_metrics([(probabilities[:300], truth[:300]), (probabilities[300:], truth[300:])], 3)
    ours = open_world(probabilities.argmax(1), truth, Classes(3, 6))
    assert theirs == pytest.approx({name: ours[name] for name in theirs})


def test_convolutions_make_up_a_step(case):
    """All passes' convolutions, and what is left for a classifier of 64 x 10 and a matrix of similarities."""
    batch, averages = next(steps.batches(case, 1)), steps.Averages()
    found = rates.layers(case, batch.views()[0])
    assert sum(found.values()) == 11
    assert [layer.input_learns for layer in found].count(False) == 1  # the first one, which the images enter
    alone = sum(
        count * machine.flops(rates.convolution(layer, HOST, torch.channels_last, torch.float32))
        for layer, count in found.items()
    )
    whole = machine.flops(lambda: steps.step(case, batch, averages))
    assert 3 * alone < whole < 3.02 * alone


def test_a_lone_convolution_counts_forward_and_both_gradients():
    layer = rates.Layer((2, 3, 8, 8), (5, 3, 3, 3), (1, 1), (1, 1), 1, True, True)
    forward = 2 * 2 * 5 * 8 * 8 * 3 * 9
    for learns, times in (((False, False), 1), ((False, True), 2), ((True, True), 3)):
        action = rates.convolution(layer._replace(input_learns=learns[0], weight_learns=learns[1]), HOST, *PLAIN)
        assert machine.flops(action) == times * forward


def test_exponents():
    assert growth.exponent((1, 10, 100), [3.0, 3 * 10**1.5, 3 * 10.0**3]) == pytest.approx(1.5)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lps", "gcd", "orca", "openncd", "rankstats", "nach", "dtc", "fixmatch", "simgcd"])
def test_the_loss_alone_runs_and_reaches_no_network(method):
    found = growth.measure(method, HOST, 1, classes=(10, 20), batches=(16, 32))
    assert {"classes 20", "batch 32", "exponent by classes", "exponent by batch"} <= set(found)


def test_shares_name_every_part_and_leave_no_hooks(case):
    found = shares.shares(case, 2)
    assert tuple(found) == shares.PARTS and min(found.values()) >= 0
    assert not case.method.network._forward_hooks and not case.method.network._forward_pre_hooks


def test_a_profile_names_the_operators_and_adds_up(case):
    *rows, whole = profile.measure(case, 1)
    assert any("conv" in row["operator"] for row in rows) and whole["operator"] == "a step"
    assert sum(row["ms"] for row in rows) == pytest.approx(whole["ms"])


def test_rounds_take_turns_and_the_first_is_not_counted(monkeypatch):
    order, now = [], iter(range(100))
    monkeypatch.setattr(clocks, "processor_time", lambda: next(now))
    clocks.best_of(2, {"a": lambda: order.append("a"), "b": lambda: order.append("b")}, HOST)
    assert order == list("ababab")


def test_the_best_round_counts():
    costs = iter([clocks.Spent(9, 1), clocks.Spent(3, 5), clocks.Spent(4, 2)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clocks, "spent", lambda action, device: next(costs))
        assert clocks.best_of(2, {"a": None}, HOST) == {"a": clocks.Spent(3, 2)}


def test_pictures_for_the_memory_fit_the_data_set(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "IMAGES", 400)
    monkeypatch.setattr(memory, "TEST_IMAGES", 20)
    path = memory.write_pictures(tmp_path / "pictures.npz")
    material = prepare(configure({"dataset": "arrays", "dataset.path": str(path), "device": "cpu"}))
    assert material.images.shape == (420, 3, 32, 32) and len(material.split.test) == 20


def test_tables():
    rows = [{"what": "a", "x": 0.12345}, {"what": "b", "x": 1234.5, "y": 2}]
    assert report.table(rows).splitlines() == [
        "| what | x | y |",
        "| --- | ---: | ---: |",
        "| a | 0.123 |  |",
        "| b | 1,234 | 2 |",
    ]


def test_the_command_prints_json(monkeypatch, capsys):
    monkeypatch.setitem(suite.SECTIONS, "machine", ("", "", lambda options: iter([{"quick": options.quick}])))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick", "--only", "machine", "--json", "--device", "cpu"])
    assert command.main() == 0
    assert json.loads(capsys.readouterr().out) == {"machine": [{"quick": True}]}


def test_a_device_that_is_not_there_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "machine", "--device", "cuda:99"])
    assert command.main() == 2
    assert capsys.readouterr().err.startswith("device: cuda:99 is not available")


@pytest.mark.slow
def test_natural_pictures_are_scored_by_three_ways_on_the_same_features(tmp_path):
    digits = load_digits()
    file = tmp_path / "digits.npz"
    pixels = (digits.images * 15.9).astype(np.uint8)[..., None]
    np.savez(file, x_train=pixels[:900], y_train=digits.target[:900], x_test=pixels[900:], y_test=digits.target[900:])
    part = natural.drawn(file, 6, 30, 1, tmp_path)
    with np.load(part) as arrays:
        assert arrays["x_train"].shape == (180, 8, 8, 1) and np.bincount(arrays["y_train"]).tolist() == [30] * 6
    own = {"dataset": "arrays", "dataset.path": str(part), "features": "stored", "epochs": 2, "batch_size": 32}
    own |= {"network.name": "digits_resnet", "network.image_size": None, "network.start": "random", "device": "cpu"}
    found = natural.scores(configure(own | {"features.width": 16, "threads": 1}), tmp_path / "runs")
    rows = natural.table([found, found])
    assert [row[""] for row in rows] == ["LPS", "k-means", "semi-supervised k-means"]
    assert all(20 < way["all"] <= 100 for way in found.values()) and rows[1]["all"].endswith("± 0.0")


@pytest.mark.slow
def test_the_table_of_methods_is_written_from_the_runs_that_exist(tmp_path, monkeypatch, capsys):
    digits = load_digits()
    file, runs = tmp_path / "digits.npz", tmp_path / "runs"
    pixels = (digits.images * 15.9).astype(np.uint8)[..., None]
    np.savez(file, x_train=pixels[:400], y_train=digits.target[:400])
    words = ["methods_table", str(file), "--runs", str(runs), "--seen", "5", "--epochs", "1", "--seeds", "0", "1"]
    words += ["--methods", "LPS", "SimGCD", "GCD"]
    for setting in ("network.name=digits_resnet", "network.image_size=none", "network.start=random", "batch_size=32"):
        words += ["--set", setting]
    monkeypatch.setattr(sys, "argv", words)
    methods_table.main()
    trained = sorted(path.name for path in runs.iterdir() if (path / methods_table.COST).exists())
    table = _rows(capsys.readouterr().out)
    assert len(trained) == 6
    assert list(table)[0] == "LPS" and set(table) == {*("LPS", "SimGCD", "GCD", "k-means", "semi-supervised k-means")}
    is_matched = {title: row["seen"].endswith(r"\*") for title, row in table.items()}
    assert [title for title, matched in is_matched.items() if not matched] == [
        title for title in table if title in ("LPS", "SimGCD")
    ]
    assert all(row["n"] == "2" and float(row["minutes"]) >= 0 for row in table.values())
    assert not table["LPS"]["from LPS"] and r"\[" in table["GCD"]["from LPS"]
    monkeypatch.setattr(sys, "argv", [*words, "--tables"])
    monkeypatch.setattr(methods_table, "clusterings", None)  # those of the first call are stored
    methods_table.main()
    assert _rows(capsys.readouterr().out) == table
    assert sorted(path.name for path in runs.iterdir() if (path / methods_table.COST).exists()) == trained


def _rows(text: str) -> dict[str, dict[str, str]]:
    """The rows of a Markdown table by their first cell."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    heads, _, *rows = lines
    return {row[0]: dict(zip(heads, row)) for row in rows}


def test_a_run_that_was_stopped_is_not_recorded_as_finished(tmp_path, monkeypatch):
    last_event = '{"kind": "%s", "step": 1, "epoch": 1, "time": 1.5, "values": {}}\n'

    def stop(run):
        run.events.write_text(last_event % "stop")
        return 0

    monkeypatch.setattr(in_process, "train", stop)
    with pytest.raises(SystemExit, match="was stopped"):
        in_process.train_here(tmp_path, configure({}), "a")
    assert not list(tmp_path.rglob("exit.json"))
    (run,) = in_process.list_runs(tmp_path)
    (run.folder / "exit.json").write_text('{"attempt": 1, "state": "finished", "reason": "", "kind": "", "code": 0}')
    assert run.state().name == "finished" and in_process.finished_runs(tmp_path) == {}
    run.events.write_text(last_event % "finish")
    assert list(in_process.finished_runs(tmp_path)) == [in_process.key_of(run.config())]


def test_the_scores_of_the_study_of_priors_survive_their_file(tmp_path):
    """All cells of one data set, one of them without a run: read back they give the same tables."""
    names = [
        name for name, _ in priors.planned(priors.PLAN[:2], None) if name != (priors.PLAN[1].name, "ORCA", "oracle", 22)
    ]
    drawn = np.random.default_rng(0).random((len(names), len(priors.SCORES)))
    scores = {name: dict(zip(priors.SCORES, map(float, row))) for name, row in zip(names, drawn)}
    priors.write_scores(tmp_path / "scores.csv", dict(reversed(scores.items())))
    read = priors.read_scores(tmp_path / "scores.csv")
    assert list(read) == names
    assert all(read[name] == pytest.approx(scores[name], abs=1e-5) for name in names)
    assert priors.tables(read) == priors.tables(scores) and "digits-50-permuted" in priors.tables(read)
