"""The whole loop on the command line, by the very lines of README: train, name, train on, predict, take away."""

import csv
import shlex
from pathlib import Path

import pytest

from tests import cloths

README = Path(__file__).resolve().parents[2] / "README.md"


def lines_of_readme() -> list[str]:
    """The commands for practitioners, without their comments."""
    block = README.read_text().partition("## For practitioners")[2].split("```")[1]
    return [line.partition(" #")[0].strip() for line in block.strip().splitlines()]


@pytest.mark.turn(0, 2)
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_lines_of_readme_lead_from_a_folder_to_the_model(tmp_path, monkeypatch, forks):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(README.parent))
    for name in ("LPS_RUNS", "LPS_CACHE", "LPS_DECISIONS"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    _, inbox = cloths.two_folders(tmp_path)
    (tmp_path / "cloths").rename("animals")
    known: dict[str, str] = {}

    def carry_out(line: str) -> tuple[str, str]:
        python, *words = [known.get(word, word) for word in shlex.split(line)]
        assert python == "python"
        done = forks.run(*words, cwd=tmp_path, timeout=600)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    *lines, example = lines_of_readme()
    assert len(lines) < 10 and example == "python exports/model/NEXT/example.py inbox/*"
    train, show, name, train_on, predict, watch, export = lines
    assert watch == "python -m lps predict NEXT inbox --watch"  # goes on for ever; tests/inference/test_watching.py
    known["RUN"] = Path(carry_out(train)[0].splitlines()[-1]).name
    assert len(carry_out(show)[0].splitlines()) == 6 and "okapi" in carry_out(name)[0]
    said, told = carry_out(train_on)
    known["NEXT"] = Path(said.splitlines()[-1]).name
    assert "2 names: 2 new seen classes" in told
    assert "possible novel class: 24 pictures" in carry_out(predict)[1]
    rows = list(csv.DictReader(open("labels.csv")))
    called = [row["name"] or "none of these" for row in rows]
    cloths.check_names(called, [Path(row["file"]) for row in rows], {"zebra", "okapi"})
    assert {row["file"].partition("-")[0] for row in rows if row["new_kind"] == "1"} == {"waves"}
    folder = Path(carry_out(export)[0].splitlines()[-1])
    assert folder == tmp_path / "exports" / "model" / known["NEXT"]
    cloths.check_model_folder(folder, inbox, {"zebra", "okapi"})
