"""Kept scores: those that would be computed now, or none."""

import json
import math
import os

import numpy as np
import pytest

from lps.analysis import run_scores
from lps.analysis.run_scores import score_run
from lps.store import score_cache
from lps.store.runs import RECORDED_FILE
from lps.store.snapshots import read_snapshot, write_snapshot
from tests.sample_runs import make_run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path, epochs=2)


@pytest.fixture
def counted(monkeypatch):
    """How often scores were computed from predictions."""
    computed = []
    plain = run_scores._score
    monkeypatch.setattr(run_scores, "_score", lambda run, *how: computed.append(how) or plain(run, *how))
    return computed


def kept(run):
    return json.loads((run.folder / score_cache.FILE).read_text())


def test_the_second_time_the_same_scores_come_from_the_file(run, counted):
    first, again = score_run(run), score_run(run)
    assert len(counted) == 1 and again == first
    assert score_run(run, "gcd_v2").protocol == "gcd_v2" and score_run(run, select="oracle").select == "oracle"
    assert len(counted) == 3 and score_run(run, select="oracle") == score_run(run, select="oracle")
    assert len(counted) == 3 and len(kept(run)["scores"]) == 3


def test_what_is_not_a_number_stays_so(run, counted):
    assert math.isnan(score_run(run, "strict").scores.conflict)
    assert math.isnan(score_run(run, "strict").scores.conflict) and len(counted) == 1


@pytest.mark.parametrize("name", ["split.npz", "events.jsonl", "snapshots/epoch-0001.npz"])
def test_a_touched_file_counts_as_another(run, counted, name):
    score_run(run)
    os.utime(run.folder / name, ns=(1, 1))
    score_run(run)
    assert len(counted) == 2


def test_other_predictions_have_other_scores(run):
    before = score_run(run)
    found = read_snapshot(run.snapshots, 2)
    write_snapshot(run.snapshots, 2, type(found)(**vars(found) | {"predicted": np.zeros_like(found.predicted)}))
    assert score_run(run).scores.novel < before.scores.novel


def test_other_code_computes_anew(run, counted, monkeypatch):
    score_run(run)
    monkeypatch.setattr(run_scores, "_code", lambda: "another version")
    score_run(run)
    assert len(counted) == 2


DAMAGED = [b"", b"{", b"[1]", b"null", b"[" * 100_000, b'{"version": 1}']


@pytest.mark.parametrize("data", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_is_ignored_and_written_anew(run, counted, data):
    first = score_run(run)
    (run.folder / score_cache.FILE).write_bytes(data)
    assert score_run(run) == first == score_run(run)
    assert len(counted) == 2


@pytest.mark.parametrize(
    "change", [{"scores": {"seen": 1}}, {"scores": None}, {"epoch": "x"}, {"time": [1]}, {"split": None, "epoch": None}]
)
def test_damaged_entries_are_ignored(run, counted, change):
    first = score_run(run)
    stored = kept(run)
    stored["scores"]["orca last default unlabeled"] |= change
    (run.folder / score_cache.FILE).write_text(json.dumps(stored))
    assert score_run(run) == first and len(counted) == 2


def test_nothing_is_kept_of_runs_that_go_on_and_of_recordings(tmp_path, run):
    waiting = make_run(tmp_path, "queued", epochs=2, written=1)
    with pytest.raises(run_scores.UserError):
        score_run(waiting)
    (run.folder / RECORDED_FILE).write_text("{}")
    score_run(run)
    assert not (waiting.folder / score_cache.FILE).exists() and not (run.folder / score_cache.FILE).exists()


def test_a_folder_that_cannot_be_written_is_scored_all_the_same(run, monkeypatch):
    def refuse(*args):
        raise OSError(28, "no space")

    monkeypatch.setattr(score_cache, "write_whole", refuse)
    assert score_run(run).scores.seen > 0 and not (run.folder / score_cache.FILE).exists()
