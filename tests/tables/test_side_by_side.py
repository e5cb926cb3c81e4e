"""Comparing two runs, in any condition of their folders."""

import json

import pytest

from lps.__main__ import main
from lps.store.runs import Run
from lps.tables.side_by_side import compare_two_runs
from tests import sample_runs


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    root = tmp_path_factory.mktemp("pair")
    settings = {"split.labeled_ratio": 0.1, "lr": 0.2}
    return [
        sample_runs.make_run(root, epochs=3),
        sample_runs.make_run(root, epochs=3, settings=settings, lucky=False, seed=1),
    ]


def told(rows):
    return {row.what: (row.first, row.second) for row in rows}


def test_what_differs_is_told_and_the_rest_is_the_same(pair):
    found = compare_two_runs(*pair)
    assert told(found.differing()["Settings"]) == {
        "seed": ("0", "1"), "lr": ("0.05", "0.2"), "split.labeled_ratio": ("0.5", "0.1"),
    }  # fmt: skip
    split = told(found.differing()["Split"])
    assert set(split) == {"labeled images", "unlabeled images"} and "in both runs" in split["labeled images"][1]
    assert {row.what for row in found.sections["Split"] if row.same} >= {"seen classes", "test images", "truth"}
    (novel,) = (one for one in found.last if one.name == "accuracy/novel")
    assert novel.difference == pytest.approx(novel.second - novel.first) and novel.first > 1, "in percent"
    assert found.last[0].name.startswith("accuracy/") and found.epoch_summaries[0].startswith("3 epochs, best at ")


def test_a_run_beside_itself_differs_in_nothing(pair):
    found = compare_two_runs(pair[0], pair[0])
    assert not any(found.differing().values()) and {one.difference for one in found.last} <= {0.0}


def test_program_and_hardware_are_those_that_the_runs_told(tmp_path):
    runs = [sample_runs.make_run(tmp_path, epochs=1) for _ in range(2)]
    for run, cores in zip(runs, (2, 64)):
        machine = {"device": "a processor", "cores": cores, "torch": f"2.{cores}", "python": "3.11"}
        start = {"kind": "start", "step": 0, "epoch": 0, "time": 1.0, "values": {}, "version": 1, "machine": machine}
        run.events.write_text(json.dumps(start) + "\n" + run.events.read_text())
    found = compare_two_runs(*runs).differing()
    assert told(found["Hardware"]) == {"cores": ("2", "64")} and told(found["Program"]) == {"torch": ("2.2", "2.64")}


@pytest.mark.parametrize("make", [sample_runs.make_unreadable, sample_runs.make_foreign, sample_runs.make_damaged])
def test_what_cannot_be_read_is_missing(pair, tmp_path, make):
    found = compare_two_runs(make(tmp_path), pair[0])
    assert all(row.second for rows in found.sections.values() for row in rows)
    assert compare_two_runs(Run(tmp_path / "gone"), pair[0]).sections["Split"][0].first == "–"


def test_the_command_says_the_same(pair, capsys):
    ids = [run.id for run in pair]
    assert main(["diff", "--runs", str(pair[0].root), *ids]) == 0
    said = capsys.readouterr().out
    assert "split.labeled_ratio  0.5   0.1" in said and "batch_size" not in said and "accuracy/novel" in said
    assert main(["diff", "--runs", str(pair[0].root), *ids, "--all"]) == 0
    assert "batch_size" in capsys.readouterr().out
    assert main(["diff", "--runs", str(pair[0].root), *ids, "--json"]) == 0
    assert {row["what"] for row in json.loads(capsys.readouterr().out)["sections"]["Settings"]} >= {"lr", "seed"}
    assert main(["diff", "--runs", str(pair[0].root), ids[0], "nobody"]) == 2
