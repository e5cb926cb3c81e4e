"""The first steps of a user, with real trainings in real processes: train, stop, resume, compare, view, report.

`tests.dependencies` runs this with the oldest and the newest libraries; without those of the dashboard, all but the
tests with `dashboard` in their names.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lps
from tests.patience import until

pytestmark = pytest.mark.slow  # three trainings
ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(path.stem for path in (ROOT / "pages").glob("*.py"))
TINY = ["--set", "epochs=4", "--set", "pretrain.epochs=1", "--set", "threads=1", "--set", "dataset.images_per_class=60"]
PATIENCE_S = 240


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """The folder that all runs of these tests are in."""
    return tmp_path_factory.mktemp("first hour") / "runs"


@pytest.fixture(scope="module")
def command(runs, forks):
    """command("list", "--json") -> what it printed, without a warning of any library."""

    def call(name: str, *arguments, anew: bool = False) -> str:
        words = ["-m", "lps", name, *map(str, arguments), "--runs", str(runs)]
        own = os.environ | {"LPS_CACHE": str(runs.parent / "cache")}
        if anew:  # the imports, too, warn of nothing; the others need not import torch anew
            words, pipes = [sys.executable, *words], {"capture_output": True, "text": True}
            done = subprocess.run(words, cwd=ROOT, env=own, timeout=PATIENCE_S, **pipes)
        else:
            done = forks.run(*words, env=own, timeout=PATIENCE_S)
        assert done.returncode == 0 and "Warning" not in done.stderr, f"{name}: {done.stderr}"
        return done.stdout

    return call


@pytest.fixture(scope="module")
def unbroken(command) -> lps.Run:
    """LPS, trained in the foreground."""
    return lps.find_run(command("train", "--method", "lps", *TINY, anew=True).splitlines()[-1])


@pytest.fixture(scope="module")
def resumed(command, unbroken) -> lps.Run:
    """The same once more in the background, stopped after its first epoch and resumed."""
    run = lps.find_run(command("launch", "--method", "lps", *TINY).splitlines()[-1])
    until(lambda: run.events("eval"), PATIENCE_S)
    run.stop()
    assert run.wait(PATIENCE_S) == "stopped" and run.summary()["epochs"] < 4
    command("resume", run.id)
    assert run.wait(PATIENCE_S) == "finished"
    return run


@pytest.fixture(scope="module")
def other(command) -> lps.Run:
    """Another method."""
    return lps.find_run(command("train", "--method", "orca", *TINY).splitlines()[-1])


def test_a_resumed_run_ends_with_the_numbers_of_an_unbroken_one(unbroken, resumed):
    ends = [run.events("eval")[-1] for run in (unbroken, resumed)]
    assert [end["epoch"] for end in ends] == [4, 4]
    for name in ("accuracy/all", "accuracy/seen", "accuracy/novel"):
        assert ends[0]["values"][name] == ends[1]["values"][name], name
    assert unbroken.labels() == resumed.labels()
    assert ends[0]["values"]["accuracy/all"] > 0.2  # twice of chance


def test_all_are_listed_and_compared(command, unbroken, resumed, other):
    rows = {row["id"]: row["state"] for row in json.loads(command("list", "--json"))}
    assert rows == dict.fromkeys((unbroken.id, resumed.id, other.id), "finished")
    table = command("compare", "--format", "csv")
    assert "LPS" in table and "ORCA" in table


def test_labels_and_maps_are_written(command, unbroken, tmp_path):
    command("export", unbroken.id, "--to", tmp_path / "labels.csv")
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 1 + len(unbroken.labels())
    for method in ("pca", "tsne"):
        command("project", unbroken.id, "--method", method)


@pytest.mark.turn(0, 3)
def test_dashboard_libraries_draw_a_map_and_write_tables(command, unbroken, tmp_path):
    command("project", unbroken.id, "--method", "umap")
    command("export", unbroken.id, "--to", "parquet", "--into", tmp_path / "tables")
    assert list((tmp_path / "tables").glob("*.parquet"))


def test_dashboard_libraries_make_a_report(command, unbroken, resumed, other, tmp_path):
    command("report", "--to", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "LPS" in text and "ORCA" in text


@pytest.mark.parametrize("page", PAGES)
def test_dashboard_page(page, runs, unbroken, other, monkeypatch):
    """Every page over real runs: no exception, and nothing that it calls an error."""
    from tests.visiting import visit

    monkeypatch.setenv("LPS_RUNS", str(runs))
    assert not [each.value for each in visit(page, run=unbroken.id).error]
