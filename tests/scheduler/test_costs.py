"""Costs of runs: medians by hand, and runs that do not count."""

import json

import numpy as np
import pytest

from lps.data import feature_store
from lps.files import disk
from lps.files.atomic import write_json
from lps.scheduler import costs, disk_use
from lps.scheduler.costs import Span
from lps.settings.config import configure
from lps.store.run_folders import create_run, list_runs
from lps.store.run_progress import RunProgress, read_progress
from lps.store.runs import Run, State
from lps.store.snapshots import write_arrays
from tests.queued_runs import record_course


def made(root, seconds, *, state="finished", attempt=1, **settings):
    run = create_run(root, configure(settings))
    write_json(run.folder / "process.json", {"attempt": attempt, "started": 1000.0})
    write_json(run.folder / "exit.json", {"attempt": attempt, "state": state, "time": 1000.0 + seconds})
    return run


def seconds(root, **settings):
    config = configure(settings)
    cost = costs.KnownCosts(costs.finished_speeds(list_runs(root), {costs.cost_kind(config)})).estimate(config)
    return cost and cost.span.likely


def test_the_nearest_runs_count_first(tmp_path):
    assert seconds(tmp_path, epochs=10) is None
    made(tmp_path, 4, epochs=5)
    assert seconds(tmp_path, epochs=10) == 8  # scaled by epochs
    made(tmp_path, 30, epochs=10, lr=0.2)
    assert seconds(tmp_path, epochs=20) == 16  # the same settings but for the epochs
    for taken, seed in ((10, 1), (50, 2)):
        made(tmp_path, taken, epochs=10, seed=seed)
    assert seconds(tmp_path, epochs=10) == 10  # the median of 8, 10 and 50
    assert seconds(tmp_path, epochs=10, lr=0.3) == pytest.approx(20)  # of 8, 10, 30 and 50: the same work an epoch
    assert seconds(tmp_path, epochs=10, batch_size=7) == pytest.approx(20)  # the same kind
    assert seconds(tmp_path, epochs=10, method="orca") is None


def test_start_weights_of_another_number_of_threads_are_not_reused(tmp_path):
    run = made(tmp_path, 0, epochs=2, threads=1, **{"pretrain.epochs": 20})
    record_course(run, start=8, pretrained=100, epoch=3, ending=1)
    wanted = {"epochs": 2, "pretrain.epochs": 20}
    assert seconds(tmp_path, **wanted, threads=1) == pytest.approx(9 + 6)
    assert seconds(tmp_path, **wanted) == pytest.approx(9 + 6 + 100)


@pytest.mark.parametrize("reused", [True, False])
def test_start_up_stays_and_only_epochs_grow(tmp_path, reused):
    """By hand: 8 s to begin, 100 s of pretraining in 20 epochs where it is not reused, 3 s an epoch, 1 s to end."""
    run = made(tmp_path, 0, epochs=2, **{"pretrain.epochs": 20})
    record_course(run, start=8, pretrained=100, reused=reused, epoch=3, ending=1)
    an_epoch = 3 * costs.pretraining_share(run.config()) if reused else 5  # of a pretraining that nobody has done
    for epochs, pretrain in ((2, 20), (200, 20), (200, 10), (1, 40), (5, 0)):
        wanted = {"epochs": epochs, "pretrain.epochs": pretrain}
        there = 9 + 3 * epochs
        pretrained = 0 if pretrain == 20 else an_epoch * pretrain  # the start of 20 epochs is kept
        assert seconds(tmp_path, **wanted) == pytest.approx(there + pretrained)
        assert seconds(tmp_path, **wanted, seed=1) == pytest.approx(there + an_epoch * pretrain)


def test_one_epoch_is_what_lies_before_its_event(tmp_path):
    record_course(made(tmp_path, 0, epochs=1), start=8, pretrained=0, reused=True, epoch=3)
    assert seconds(tmp_path, epochs=11) == pytest.approx(8 + 33)


def test_events_that_do_not_fit_count_for_nothing(tmp_path):
    run = made(tmp_path, 0, epochs=2)
    record_course(run, start=8, pretrained=100, epoch=3)
    write_json(run.folder / "exit.json", {"attempt": 1, "state": "finished", "time": 1010.0})  # the clock was set back
    assert seconds(tmp_path, epochs=4) == 20


def test_checkpoints_stay_and_snapshots_grow(tmp_path):
    run = made(tmp_path, 4, epochs=2)
    rest = disk.folder_bytes(run.folder)
    run.snapshots.mkdir(exist_ok=True)
    (run.snapshots / "epoch-0001.npz").write_bytes(bytes(2000))
    config = configure({"epochs": 10})
    cost = costs.KnownCosts(costs.finished_speeds(list_runs(tmp_path))).estimate(config)
    assert disk_use.expected_bytes([cost]) == rest + 5 * 2000


def test_the_bytes_of_a_recording_follow_from_its_weights_images_and_features(tmp_path, monkeypatch):
    """4 bytes an image and epoch, 2 a feature of 1,000 images; three checkpoints of 8 bytes a weight."""
    monkeypatch.setattr(Run, "is_recorded", True)
    run, start = made(tmp_path, 4), {"parameters": 500, "images/unlabeled": 7000}
    event = {"kind": "start", "step": 0, "epoch": 0, "time": 1.0, "values": start}
    run.events.write_text(json.dumps(event) + "\n")
    run.snapshots.mkdir(exist_ok=True)
    write_arrays(run.snapshots / "epoch-0001.npz", features=np.zeros((20, 16), np.float16))
    cost = costs.KnownCosts([costs.RunSpeed(run.config(), 1.0, run=run)]).estimate(configure({"epochs": 10}))
    assert disk_use.expected_bytes([cost]) == 10 * (4 * 7000 + 1000 * 16 * 2) + 3 * 8 * 500


def test_own_runs_go_before_recordings(tmp_path):
    own, other = configure({"epochs": 2}), configure({"epochs": 2, "method": "orca"})
    recorded = [costs.RunSpeed(configure({"epochs": 40}), 10.0, 0.0), costs.RunSpeed(other, 2.0, 0.0, other_s=3.0)]
    known = costs.KnownCosts([costs.RunSpeed(own, 1.0, 0.0, other_s=18.0)], recorded)
    assert known.estimate(configure({"epochs": 40})).span.likely == 58 and known.estimate(other).span.likely == 7
    assert known.estimate(configure({"method": "fixmatch"})) is None


@pytest.mark.parametrize(
    ("seconds", "slots", "together"),
    [([35, 35, 35], 2, 70), ([35, 35, 35], 1, 105), ([100, 10, 20, 30], 2, 100), ([], 2, 0)],
)
def test_runs_side_by_side_take_whole_turns(seconds, slots, together):
    spans = [Span.about(one, 2.0) for one in seconds]
    assert costs.parallel_duration(spans, slots) == Span.about(together, 2.0)


def test_only_runs_that_were_finished_in_one_go_count(tmp_path):
    made(tmp_path, 5, state="failed")
    made(tmp_path, 5, attempt=2)
    made(tmp_path, 5, state="stopped")
    damaged = made(tmp_path, 5)
    (damaged.folder / "exit.json").write_text('{"attempt": 1, "state": "finished", "time": NaN}')
    (made(tmp_path, 5).folder / "config.json").write_text("{")
    assert seconds(tmp_path) is None


def test_bytes_are_those_of_all_files_below(tmp_path):
    run = made(tmp_path, 5)
    (run.folder / "snapshots").mkdir()
    (run.folder / "snapshots" / "epoch-0001.npz").write_bytes(bytes(12_345))
    (run.folder / "link").symlink_to("/nowhere")
    config = configure({"epochs": 2})
    files = ("config.json", "meta.json", "process.json", "exit.json")
    rest = sum((run.folder / name).stat().st_size for name in files) + len("/nowhere")
    cost = costs.KnownCosts(costs.finished_speeds(list_runs(tmp_path))).estimate(config)
    assert disk_use.expected_bytes([cost]) == round(rest + 2 * 12_345 / run.config().epochs)


def test_what_runs_now_corrects_what_has_run_and_goes_before_recordings():
    config = configure({"epochs": 10})
    usual = costs.RunSpeed(config, 2.0, 0.0, other_s=10.0)
    now = costs.speed_now(config, RunProgress("train", step=50, steps=100, eta_s=30.0, written=5.0))
    assert (now.other_s, now.epoch_s) == (costs.START_S, 6.0)
    # Three times as slow at the moment
    assert costs.KnownCosts([usual], running=[now]).estimate(config).span.likely == 90
    other = costs.RunSpeed(config, 50.0, 0.0)
    assert costs.KnownCosts([], [other], [now]).estimate(config).span.likely == costs.START_S + 60


@pytest.mark.parametrize("progress", [
    {}, {"phase": "train"}, {"phase": "train", "step": 1, "steps": 0, "eta_s": 3}, {"phase": 7, "step": "x"},
    {"phase": "train", "step": 9, "steps": 9, "eta_s": 0}, {"phase": "train", "step": 1, "steps": 9, "eta_s": 1e300},
])  # fmt: skip
def test_a_pace_that_is_none_counts_for_nothing(progress, tmp_path):
    run = made(tmp_path, 0)
    write_json(run.folder / "progress.json", progress | {"time": 1001.0})
    read = read_progress(run, State("running", attempt=1))
    assert costs.speed_now(configure({}), read) is None
    left = costs.KnownCosts([]).time_left(run, read, 0.0)
    assert left is None or left.most < 1e9


def test_while_features_are_computed_the_training_after_them_is_estimated_without_a_similar_run(tmp_path, monkeypatch):
    """By hand: 700 views are 100 pictures; 10 epochs of them by the rule of thumb, after 30 s of views."""
    monkeypatch.setattr(costs, "load_per_core", lambda: 1.0)
    run = create_run(tmp_path, configure({"features": "stored", "epochs": 10}))
    of_features = RunProgress("features", step=350.0, steps=700.0, eta_s=30.0, written=0.0)
    left = costs.KnownCosts([]).time_left(run, of_features, 0.0)
    assert left.likely == pytest.approx(30 + 10 * 100 * 180e-6 + costs.ENDING_S)
    assert costs.KnownCosts([]).time_left(run, RunProgress("prepare"), 0.0) is None


def test_where_little_is_known_a_range_is_said(monkeypatch):
    monkeypatch.setattr(costs, "load_per_core", lambda: 3.0)
    recorded = costs.RunSpeed(configure({"epochs": 10}), 6.0, 0.0, 0.0)
    found = costs.KnownCosts([], [recorded]).estimate(configure({"epochs": 10}))
    assert (found.span.likely, costs.span_in_words(found.span)) == (60.0, "30 s to 6 min")
    own = costs.KnownCosts([recorded]).estimate(configure({"epochs": 10}))
    assert costs.span_in_words(own.span) == "60 s"
    words = [costs.span_in_words(Span(1, *ends)) for ends in ((60, 600), (240, 1200), (1, 8), (3000, 30_000))]
    assert words == ["60 s to 10 min", "4 to 20 min", "5 s", "50 min to 8.3 h"]


def test_a_range_over_an_order_of_magnitude_is_no_estimate():
    spans = [Span(100, 50, 1980), Span(100, 50, 740), Span(5, 1, 100), Span(5, 1, 160)]
    assert [costs.is_unknown(span) for span in spans] == [True, False, False, True]


def test_a_run_on_stored_features_costs_its_store_once():
    """By hand: seven views of 1,000 pictures, of which some are there; 0.002 s a view here before."""
    config, head = configure({"features": "stored", "epochs": 10}), costs.START_S + 10 * 1000 * 180e-6
    rough = costs.rule_of_thumb(config, 1000, 32, 32, 2)
    assert rough == pytest.approx(head + 7000 * 160**2 * 0.2e-6 / 2)
    folder = feature_store.stores_folder() / "digits-1"
    folder.mkdir(parents=True)
    write_json(folder / "facts.json", {"count": 1000, "width": 4, "settings": config.flat()})
    for done in (1, 7):
        for view in range(done):
            lines = [{"rows": rows, "sha256": "", "s": 0.002 * rows} for rows in (256, 256, 256, 232)]
            (folder / f"{view}.pieces").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert costs.rule_of_thumb(config, 1000, 32, 32, 2) == pytest.approx(head + 0.002 * (7000 - 1000 * done))
    other = configure({"features": "stored", "epochs": 10, "dataset.images_per_class": 9})
    assert costs.rule_of_thumb(other, 1000, 32, 32, 2) == pytest.approx(head + 14)


def test_runs_on_pictures_tell_nothing_of_those_on_features(tmp_path):
    made(tmp_path, 4000, epochs=5)
    assert seconds(tmp_path, epochs=5, features="stored") is None


def test_the_next_run_is_not_told_to_take_what_making_the_store_took(tmp_path):
    run = made(tmp_path, 0, epochs=10, features="stored")
    record_course(run, start=costs.START_S + 300, pretrained=0, reused=True, epoch=2, ending=1)
    expected = costs.START_S + costs.ENDING_S + 20
    assert seconds(tmp_path, epochs=10, features="stored", seed=1) == pytest.approx(expected)


@pytest.mark.parametrize("load, grows", [(3.0, True), (1.0, False)])
def test_a_wide_range_says_how_it_gets_narrower_and_what_makes_it_wider(load, grows, monkeypatch):
    monkeypatch.setattr(costs, "load_per_core", lambda: load)
    words = costs.source_in_words(Span(600.0, 80.0, 660.0))
    assert "narrower" in words and ("grows with their load" in words) == grows and costs.wide_cause() in words
    assert "narrower" not in costs.source_in_words(Span(600.0, 550.0, 660.0))


@pytest.mark.parametrize("load, words", [(3.0, "processor"), (1.0, "no similar run")])
def test_a_wide_range_says_why(load, words, monkeypatch):
    monkeypatch.setattr(costs, "load_per_core", lambda: load)
    assert words in costs.wide_reason(Span(250.0, 50.0, 1020.0))
    assert costs.duration_in_words(Span(100.0, 50.0, 1980.0)).startswith(f"{costs.NO_ESTIMATE}: ")
    assert words in costs.duration_in_words(Span(100.0, 50.0, 1980.0))
    assert costs.wide_reason(Span(600.0, 550.0, 660.0)) == ""
