"""Events as tables: every number is there once, exactly, and no text becomes a formula."""

import csv
import json
import sys

import pytest

from lps.__main__ import main
from lps.errors import UserError
from lps.files.atomic_folder import MARK
from lps.interop import event_tables
from lps.settings.config import parameters
from tests.sample_runs import make_damaged, make_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    first = make_run(root, epochs=2, pretrain=2, name="=1+1")
    extra = {"kind": "eval", "step": 62, "epoch": 2, "time": 2.5, "values": {"kl": None, "margin": [1, None], "n": "x"}}
    with first.events.open("a") as file:
        file.write(json.dumps(extra) + "\n")
    return [first, make_run(root, "stopped", epochs=3, written=1, pretrain=1, settings={"method": "orca"})]


def numbers(run) -> list[tuple]:
    """Every number of a run by a naive reading of its file: (run, kind, epoch, step, time, name, index, value)."""
    found = []
    for line in run.events.read_text().splitlines():
        event = json.loads(line)
        where = (run.id, event["kind"], event["epoch"], event["step"], event["time"])
        for name, value in event["values"].items():
            if isinstance(value, list):
                found += [(*where, name, index, item) for index, item in enumerate(value)]
            elif not isinstance(value, str):
                found.append((*where, name, None, value))
    return found


def read(folder, form, name) -> list[dict]:
    """The rows of a table, numbers as Python numbers, None for what is empty."""
    if form == "parquet":
        from pyarrow import parquet

        return parquet.read_table(folder / f"{name}.parquet").to_pylist()
    kinds = {"epoch": int, "step": int, "index": int, "run": str, "kind": str, "name": str}
    with open(folder / f"{name}.csv", newline="") as file:
        return [
            {key: kinds.get(key, float)(text) if text else None for key, text in row.items()}
            for row in csv.DictReader(file)
        ]


@pytest.mark.parametrize("form", event_tables.FORMS)
def test_every_number_is_a_row_and_the_wide_table_says_the_same(runs, tmp_path, form):
    event_tables.export(runs, tmp_path / "out", form)
    rows = [tuple(row.values()) for row in read(tmp_path / "out", form, "events")]
    assert rows == [number for run in runs for number in numbers(run)]
    assert len(rows) > 100 and None in {row[-1] for row in rows}
    wide = read(tmp_path / "out", form, "scalars")
    melted = [
        (row["run"], row["kind"], row["epoch"], row["step"], row["time"], name, None, value)
        for row in wide
        for name, value in row.items()
        if name not in event_tables.EVENT_COLUMNS and value is not None
    ]
    plain = [number for run in runs for number in numbers(run) if number[-2] is None and number[-1] is not None]
    assert sorted(melted) == sorted(plain)


def test_what_a_resumed_run_did_over_counts_once(tmp_path):
    run = make_run(tmp_path / "runs", "stopped", epochs=3, written=2, pretrain=0)
    again = {"kind": "start", "step": 31, "epoch": 1, "time": 1.0, "values": {}}
    with run.events.open("a") as file:
        file.write(json.dumps(again) + "\n")
    assert {row["epoch"] for row in event_tables.long_rows(run)} == {1}


@pytest.mark.parametrize("form", event_tables.FORMS)
def test_runs_and_their_settings(runs, tmp_path, form):
    event_tables.export(runs, tmp_path / "out", form)
    if form == "csv":
        rows = list(csv.DictReader(open(tmp_path / "out" / "runs.csv", newline="")))
        assert rows[0]["name"] == "'=1+1"  # a spreadsheet shall not compute it
    else:
        rows = read(tmp_path / "out", form, "runs")
        assert rows[0]["name"] == "=1+1"
    assert [row["state"] for row in rows] == ["finished", "stopped"]
    assert [row["method"] for row in rows] == ["lps", "orca"] and rows[0]["split.labeled_ratio"] == "0.5"
    own = parameters("lps").keys() - parameters("orca").keys()
    assert own and all(rows[0][key] and not rows[1][key] for key in own)


def test_damaged_events_and_settings_end_nothing(tmp_path):
    run = make_damaged(tmp_path / "runs")
    before = len(list(event_tables.long_rows(run)))
    (run.folder / "config.json").write_text("{")
    event_tables.export([run], tmp_path / "out", "csv")
    assert len(read(tmp_path / "out", "csv", "events")) == before > 0
    assert list(csv.DictReader(open(tmp_path / "out" / "runs.csv")))[0]["state"] == "unreadable"


def test_the_command_writes_all_runs_and_again(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = ["--runs", str(runs[0].root)]
    for _ in range(2):
        assert main(["export", *root, "--to", "csv"]) == 0
        assert capsys.readouterr().out.split() == [f"exports/csv/{name}.csv" for name in ("events", "scalars", "runs")]
    assert len({row["run"] for row in read(tmp_path / "exports" / "csv", "csv", "events")}) == 2
    assert main(["export", runs[0].id, *root, "--to", "parquet", "--into", "p"]) == 0
    assert {row["run"] for row in read(tmp_path / "p", "parquet", "events")} == {runs[0].id}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exports", "p"] and (tmp_path / "p" / MARK).exists()


def test_a_folder_of_somebody_else_stays(runs, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "events.csv").write_text("my own")
    assert main(["export", "--runs", str(runs[0].root), "--to", "csv", "--into", str(tmp_path / "mine")]) == 2
    assert "already exists and is not an export; choose another folder" in capsys.readouterr().err
    assert [path.read_text() for path in (tmp_path / "mine").iterdir()] == ["my own"]
    with pytest.raises(UserError, match="into: .* was not written"):
        event_tables.export(runs, tmp_path / "mine" / "events.csv" / "out", "csv")


def test_an_export_that_breaks_off_changes_nothing(runs, tmp_path, monkeypatch):
    event_tables.export(runs[:1], tmp_path / "out", "csv")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    monkeypatch.setattr(event_tables, "wide_rows", lambda run: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        event_tables.export(runs, tmp_path / "out", "csv")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_without_pyarrow_it_is_one_sentence(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["export", "--runs", str(runs[0].root), "--to", "parquet", "--into", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == ("lps: to: parquet needs pyarrow, which is not installed: pip install pyarrow\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options, words",
    [
        (["--to", "csv", "--links"], "links: cannot be used with --to csv"),
        (["--to", "csv", "--epoch", "1"], "epoch: cannot be used with --to csv"),
        (["--to", "parquet", "--follow"], "follow: cannot be used with --to parquet"),
        (["--to", "tensorboard", "--light"], "light: cannot be used with --to tensorboard"),
        (
            ["--to", "labels.csv"],
            "to: 'labels.csv' can hold the labels of one run only; give one run or another format: tensorboard",
        ),
        (["--to", "csv", "--runs", "/nowhere"], "export: no run has started in /nowhere"),
    ],
)
def test_options_that_mean_nothing_are_said(runs, options, words, capsys):
    assert main(["export", "--runs", str(runs[0].root), *options]) == 2
    assert words in capsys.readouterr().err
