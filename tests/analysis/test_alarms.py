"""Alarms and the newest records that they use, against full readings and made-up runs with known answers."""

import json

import numpy as np
import pytest

from lps.analysis.alarms import GROWTH, HEAP, PATIENCE, WARM_UP, find_alarms
from lps.store.events_tail import EPOCHS, read_recent
from lps.store.run_folders import recorded_runs

TOTAL, SEEN = 10, 5
EVEN = [100] * TOTAL


def evaluations(rows, gaps=None):
    gaps = gaps if gaps is not None else [0.0] * len(rows)
    pairs = zip(rows, gaps, strict=True)
    return [(n, {"class/count_predicted": row, "accuracy/gap": gap}) for n, (row, gap) in enumerate(pairs, 1)]


def kinds(*arguments, **options):
    return [alarm.kind for alarm in find_alarms(*arguments, **options)]


def heap(share, n=1000):
    """Counts with this share in class 7, the rest even."""
    rest = (1 - share) * n / (TOTAL - 1)
    return [share * n if c == 7 else rest for c in range(TOTAL)]


def test_an_even_run_has_none():
    assert find_alarms(evaluations([EVEN] * EPOCHS), SEEN, training={"loss/total": 1.0}) == []
    assert find_alarms([], 0) == []


def test_almost_no_novel_pseudo_label_is_an_alarm_after_the_first_epochs():
    few = {"loss/total": 1.0, "pseudo_label/rate/novel": 0.004, "threshold/novel": 0.78}
    (alarm,) = find_alarms(evaluations([EVEN] * WARM_UP), SEEN, training=few)
    assert alarm.kind == "unconfident" and alarm.words.startswith("only 0.4 % of the images") and "0.78" in alarm.words
    assert kinds(evaluations([EVEN] * (WARM_UP - 1)), SEEN, training=few) == []
    for other in ({"pseudo_label/rate/novel": 0.02}, {"pseudo_label/rate/novel": None}, {"threshold/novel": None}):
        assert kinds(evaluations([EVEN] * WARM_UP), SEEN, training=few | other) == []


def test_collapse_needs_more_than_three_times_the_even_share():
    assert HEAP == 3.0
    assert kinds(evaluations([heap(0.31)] * PATIENCE), SEEN) == ["collapse"]
    assert kinds(evaluations([heap(0.29)] * PATIENCE), SEEN) == []
    (alarm,) = find_alarms(evaluations([heap(0.44)] * PATIENCE), SEEN)
    assert alarm.words == "one class holds 44 % of the images, 4.4 times an equal share"
    assert (alarm.epoch, alarm.title) == (PATIENCE, "Collapse")


def test_collapse_may_move_between_classes_but_not_pause():
    rows = [list(np.roll(heap(0.5), n)) for n in range(PATIENCE)]
    assert kinds(evaluations(rows), SEEN) == ["collapse"]
    rows[2] = EVEN
    assert kinds(evaluations(rows), SEEN) == []
    assert kinds(evaluations(rows[3:]), SEEN) == [], "too few epochs"
    for damaged in ([0] * TOTAL, [None] * TOTAL, [-1] * TOTAL):
        assert kinds(evaluations([*rows[:2], damaged, *rows[3:]]), SEEN) == []


def test_a_class_that_is_truly_large_is_no_collapse():
    shares = [count / 1000 for count in heap(0.5)]
    assert kinds(evaluations([heap(0.5)] * PATIENCE), SEEN, shares=shares) == []
    other = list(np.roll(shares, 1))  # truth in class 8, images in class 7
    assert kinds(evaluations([heap(0.5)] * PATIENCE), SEEN, shares=other) == ["collapse"]


def test_empty_counts_novel_classes_only_and_only_lasting_ones():
    row = [0, 100, 100, 100, 100, 0, 0, 100, 100, 100]
    (alarm,) = find_alarms(evaluations([row] * PATIENCE), SEEN)
    assert (alarm.kind, alarm.words) == ("empty", f"2 novel classes have had no image for {PATIENCE} epochs")
    once = [*row[:5], 1, 0, *row[7:]]
    (alarm,) = find_alarms(evaluations([row] * (PATIENCE - 1) + [once]), SEEN)
    assert alarm.words.startswith("1 novel class has")
    assert kinds(evaluations([EVEN] + [row] * (PATIENCE - 1)), SEEN) == []
    assert kinds(evaluations([row] * PATIENCE), 0) == [], "who is novel is not known"


def test_the_gap_grows_when_it_stays_above_its_smallest_value():
    assert kinds(evaluations([EVEN] * 10, [0.05] * 5 + [0.05 + GROWTH + 0.01] * 5), SEEN) == ["gap"]
    assert kinds(evaluations([EVEN] * 10, [0.05] * 5 + [0.05 + GROWTH - 0.01] * 5), SEEN) == []
    assert kinds(evaluations([EVEN] * 10, [0.05] * 5 + [0.3] * 4 + [0.1]), SEEN) == [], "it came down again"
    assert kinds(evaluations([EVEN] * 10, [-0.5] * 5 + [-0.2] * 5), SEEN) == [], "novel is ahead: no gap to speak of"
    assert kinds(evaluations([EVEN] * 10, [None] * 10), SEEN) == []


@pytest.mark.parametrize("row", [[], None, [1, None, 3], ["a"] * TOTAL, [0] * TOTAL, [-1] * TOTAL])
def test_damaged_counts_raise_nothing(row):
    assert kinds(evaluations([row] * PATIENCE), SEEN) == []
    assert kinds(evaluations([EVEN, row, EVEN[:3], EVEN, row]), SEEN) == []


def test_the_recorded_runs_tell_collapse_from_success():
    """Real runs: LPS and ORCA end well, without the margin and without entropy LPS has empty classes."""
    found = {}
    for run in recorded_runs():
        recent = read_recent(run.events)
        found[run.meta()["name"]] = kinds(recent.evaluations, recent.seen, training=recent.training)
    assert found["LPS"] == found["ORCA"] == found["Photographs: LPS"] == []
    assert found["LPS without margin"] == found["LPS without entropy"] == ["empty"]
    assert found["FixMatch"] == ["collapse"]


def write(path, events):
    lines = [
        json.dumps({"kind": k, "step": e, "epoch": e, "time": 1.0 * e, "values": v} | more) for k, e, v, more in events
    ]
    path.write_text("\n".join(lines) + "\n")


def test_no_records_torn_records_and_failures(tmp_path):
    path = tmp_path / "events.jsonl"
    assert read_recent(path).epoch == 0 and read_recent(path).number("kl") is None
    path.write_bytes(b'{"kind": "ev')
    assert read_recent(path).evaluations == ()
    write(path, [("train", 1, {"loss/total": None}, {}), ("fail", 1, {}, {"failure": "disk_full"})])
    recent = read_recent(path)
    assert recent.training == {"loss/total": None}
    assert recent.number("loss/total") is None
