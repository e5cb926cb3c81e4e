"""What the race is given: measured numbers as they were recorded, a clock that goes by their movement, refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest

from lps.charts.event_log import EventLog
from lps.errors import UserError
from lps.race import race_data
from lps.store.events import read_events
from lps.store.snapshots import read_snapshot, read_split, write_snapshot
from tests.sample_runs import make_run, make_unreadable, rewritten, without


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def pair(root):
    """LPS of six epochs beside ORCA of four."""
    return [make_run(root, epochs=6), make_run(root, epochs=4, settings={"method": "orca"}, lucky=False)]


def test_every_number_is_one_that_was_recorded(pair):
    race = race_data.race_of_runs(pair)
    for run, shown in zip(pair, race["runs"]):
        events, _ = read_events(run.events)
        for event in events:
            if event["kind"] not in ("train", "eval"):
                continue
            place, values = race["epochs"].index(event["epoch"]), event["values"]
            if event["kind"] == "eval":
                assert shown["seen"][place] == pytest.approx(values["accuracy/seen"], rel=1e-4)
                assert shown["novel"][place] == pytest.approx(values["accuracy/novel"], rel=1e-4)
            else:
                assert shown["kl"][place] == pytest.approx(values["kl"], rel=1e-4)
                assert shown["shares"][place] == pytest.approx(values["pi_hat"], rel=1e-4)
                assert shown["margins"][place] == pytest.approx(values["margin"], rel=1e-4)
        assert shown["start"] == {"seen": 0.93, "novel": 0.9}
        split, targets = read_split(run.folder)
        predicted, is_novel = read_snapshot(run.snapshots, shown["last"]).predicted, targets[split.unlabeled] >= 5
        assert shown["mistaken"] == pytest.approx((predicted[is_novel] < 5).mean(), abs=1e-4)
        assert shown["empty"] == sum((predicted == i).sum() < is_novel.sum() / 5 / 4 for i in range(5, 10))
    assert json.loads(json.dumps(race, allow_nan=False)) == race


def test_novel_classes_that_merged_are_told_from_those_taken_for_seen_ones(root):
    run = make_run(root, epochs=1, seed=13)
    split, targets = read_split(run.folder)
    predicted = targets[split.unlabeled].astype(np.int16)
    predicted[predicted == 8] = 6  # two classes, one novel id
    predicted[predicted == 9] = 0  # a novel class taken for a seen one
    write_snapshot(run.snapshots, 1, replace(read_snapshot(run.snapshots, 1), predicted=predicted))
    shown = race_data.race_of_runs([run])["runs"][0]
    assert shown["merged"] == [[6, 8]] and shown["empty"] == 2 and shown["mistaken"] > 0.15


def test_a_shorter_run_has_nothing_after_its_end(pair):
    race = race_data.race_of_runs(pair)
    assert race["epochs"] == [1, 2, 3, 4, 5, 6] and [run["last"] for run in race["runs"]] == [6, 4]
    assert race["runs"][1]["seen"][4:] == [None, None] and race["runs"][1]["shares"][4:] == [None, None]


def test_runs_are_told_apart_by_what_differs(root, pair):
    other = make_run(root, epochs=2, settings={"use_margin": False})
    titles = [run["title"] for run in race_data.race_of_runs([pair[0], other])["runs"]]
    assert titles[1].endswith("margin off") and titles[0].startswith("LPS") and titles[0] != titles[1]


def test_runs_that_all_have_a_name_are_called_by_it(root):
    named = [make_run(root, epochs=2, name=name, settings={"use_margin": name == "Demo"}) for name in ("Demo", "Plain")]
    first, second = race_data.race_of_runs(named)["runs"]
    assert (first["title"], second["title"]) == ("Demo", "Plain") and second["about"][0] == "margin off"
    same = [make_run(root, epochs=2, name="twin", settings={"use_margin": has_margin}) for has_margin in (True, False)]
    assert [run["title"] for run in race_data.race_of_runs(same)["runs"]][1] == "LPS, margin off"


def test_time_goes_where_things_move(pair):
    pasts = [EventLog(run.events).read_history() for run in pair]
    race = race_data.race_of_runs(pair, pasts)
    moved = np.array(race["seconds"]) - min(race["seconds"])
    expected = np.zeros(6)
    for run in race["runs"]:
        for place in range(1, 6):
            steps = [(run[name][place - 1], run[name][place]) for name in ("seen", "novel")]
            expected[place] += sum(abs(b - a) for a, b in steps if a is not None and b is not None)
            if run["shares"][place] and run["shares"][place - 1]:
                expected[place] += np.abs(np.subtract(run["shares"][place], run["shares"][place - 1])).sum() / 2
    inside = np.array(race["seconds"]) < 4
    ratio = moved[inside & (expected > 0)] / expected[inside & (expected > 0)]
    assert ratio == pytest.approx(np.full(len(ratio), ratio[0]), rel=0.02)
    assert race["seconds"][0] == pytest.approx(0.25 * 9 / 6, abs=1e-3) and max(race["seconds"]) <= 4


def test_where_nothing_moves_all_epochs_take_the_same_time(root):
    still = rewritten(make_run(root, epochs=3, seed=5), lambda kind, values: values if kind == "start" else {"lr": 1.0})
    assert race_data.race_of_runs([still])["seconds"] == [1.5, 1.5, 1.5]


def test_steps_are_there_where_a_run_has_them(root):
    run = make_run(root, epochs=2, seed=6)
    steps = {"steps/kl": [0.9, 0.5], "steps/guessed_seen": [0.9, 0.6], "steps/margin/seen": [4.0, 2.0]}
    race = race_data.race_of_runs([rewritten(run, lambda kind, values: values | (steps if kind == "train" else {}))])
    told = race["runs"][0]["steps"]
    assert told["kl"] == [[0.9, 0.5]] * 2 and told["guesses"] == [[0.9, 0.6]] * 2
    assert told["brake"] == {"seen": [[4.0, 2.0]] * 2, "novel": None}
    assert race["seconds"][0] > race["seconds"][1] / 10


def test_a_method_without_estimate_shows_what_it_takes_images_for(root):
    run = without(make_run(root, epochs=2, settings={"method": "gcd"}), "pi_hat", "margin", "kl")
    race = race_data.race_of_runs([run])
    shown = race["runs"][0]
    assert shown["shares"] is shown["margins"] is shown["kl"] is None
    assert [sum(row) for row in shown["taken"]] == pytest.approx([1, 1], abs=1e-3)
    assert sum(race["truth"]) == pytest.approx(1, abs=1e-3)


def test_a_method_with_an_estimate_shows_what_it_takes_images_for_too(root):
    shown = race_data.race_of_runs([make_run(root, epochs=2, seed=11)])["runs"][0]
    assert [sum(row) for row in shown["taken"]] == pytest.approx([1, 1], abs=1e-3)
    assert shown["shares"] and shown["shares"] != shown["taken"]


def test_predictions_and_estimate_have_the_ids_of_the_same_outputs(root):
    run = make_run(root, epochs=2, seed=12)
    swap = np.array([*range(5), 6, 5, 7, 8, 9])
    split, targets = read_split(run.folder)
    predicted = swap[targets[split.unlabeled]]  # outputs 5 and 6 stand for classes 6 and 5
    snapshot = read_snapshot(run.snapshots, 2)
    write_snapshot(run.snapshots, 2, replace(snapshot, predicted=predicted.astype(np.int16)))
    shown = race_data.race_of_runs([run])["runs"][0]
    assert shown["taken"][1] == pytest.approx(np.bincount(predicted, minlength=10) / len(predicted), abs=1e-4)
    assert shown["matched"][1] == swap.tolist()
    (run.snapshots / "epoch-0002.npz").unlink()
    shown = race_data.race_of_runs([run])["runs"][0]
    assert shown["taken"][0] and shown["taken"][1] is None is shown["matched"][1]


def test_without_truth_there_are_no_accuracies(root):
    blind = without(make_run(root, epochs=2, seed=7), "accuracy", "class", "baseline")
    shown = race_data.race_of_runs([blind])["runs"][0]
    assert shown["seen"] is shown["novel"] is None and shown["start"] == {"seen": None, "novel": None}
    assert shown["kl"] and shown["shares"]


def test_what_cannot_race_is_one_sentence(root, pair):
    other = make_run(root, epochs=1, settings={"split.labeled_ratio": 0.3})
    for runs, words in (
        ([], "0 runs; expected one to 3"),
        ([*pair, *pair], "4 runs"),
        ([pair[0], pair[0]], "names a run twice"),
        ([pair[0], other], "split.labeled_ratio is 0.3 in one and 0.5 in the other"),
        ([make_run(root, "queued")], "has recorded no epoch of training yet"),
        ([pair[0], make_unreadable(root)], "its settings cannot be read"),
    ):
        with pytest.raises(UserError, match="replay: ") as refused:
            race_data.race_of_runs(runs)
        assert words in str(refused.value) and "\n" not in str(refused.value)


def test_a_run_with_a_damaged_split_and_settings_races_alone(root):
    run = make_run(root, epochs=2, seed=8)
    (run.folder / "split.npz").write_bytes(b"PK broken")
    (run.folder / "config.json").write_text("{")
    race = race_data.race_of_runs([run])
    assert race["classes"]["seen"] == 5 and race["truth"] is None
    assert race["runs"][0]["about"] == ["its settings cannot be read"]


def test_of_too_many_numbers_epochs_are_left_out_evenly(pair, monkeypatch):
    monkeypatch.setattr(race_data, "_MAX_NUMBERS", 660)  # room for three epochs of two runs
    race = race_data.race_of_runs(pair)
    assert race["epochs"] == [1, 3, 4, 5, 6] and race["left_out"] == 1  # every second, and where each of them ends
    assert len(race["seconds"]) == len(race["runs"][0]["seen"]) == 5


def test_runs_of_a_sweep_are_called_by_method_and_settings(root):
    names = [f"margin_scale={scale}, lps seed 0" for scale in (5, 20)]
    scales = [make_run(root, epochs=2, name=n, settings={"margin_scale": s}) for n, s in zip(names, (5.0, 20.0))]
    found = [(run["title"], run["about"]) for run in race_data.race_of_runs(scales)["runs"]]
    assert found == [(f"LPS, margin_scale={scale}", ["seed 0"]) for scale in (5, 20)]


def test_the_title_of_every_run_has_all_settings_in_which_they_differ(root):
    cells = [(5.0, 1.0), (10.0, 1.0), (5.0, 0.5)]
    made = [make_run(root, epochs=2, settings={"margin_scale": c, "entropy_weight": w}) for c, w in cells]
    found = [(run["title"], run["about"]) for run in race_data.race_of_runs(made)["runs"]]
    assert found == [(f"LPS, margin_scale={c:g}, entropy_weight={w:g}", ["seed 0"]) for c, w in cells]
