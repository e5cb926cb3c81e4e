"""The ledger: the official number for a group, and the verdict from its seeds."""

import csv
import io
from dataclasses import replace

import pytest

from lps.__main__ import main
from lps.analysis import ledger, paper_results
from lps.analysis.run_groups import group_runs
from lps.analysis.run_scores import score_all
from tests.sample_runs import make_run


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    """Three seeds of LPS and one of GCD on digits."""
    root = tmp_path_factory.mktemp("runs")
    runs = [make_run(root, epochs=4, seed=seed) for seed in range(3)]
    runs.append(make_run(root, epochs=4, settings={"method": "gcd"}))
    return group_runs(score_all(runs)[0])


class Seeds:
    """A group whose seeds gave these accuracies on all, in percent."""

    def __init__(self, *values):
        self.members = [type("Member", (), {"value": lambda self, column, v=v: v / 100})() for v in values]


@pytest.mark.parametrize(
    "values, official, expected",
    [
        ((90.0, 90.5, 91.0), 90.4, ledger.REPRODUCED),  # interval 89.3 to 91.7
        ((90.0, 90.5, 91.0), 89.0, ledger.REPRODUCED),  # we are above
        ((90.0, 90.5, 91.0), 92.0, ledger.BELOW),
        ((80.0, 90.0, 100.0), 92.0, ledger.OPEN),  # 65 to 115
        ((80.0, 90.0, 100.0), 120.0, ledger.BELOW),
        ((92.0,), 92.0, ledger.OPEN),
        ((92.0, 92.0), 92.0, ledger.OPEN),  # equal numbers tell nothing of their spread
        ((92.0, 91.0), None, ledger.OTHERWISE),
        ((92.0, float("nan")), 92.0, ledger.OTHERWISE),
    ],
)
def test_the_verdict_is_the_intervals(values, official, expected):
    assert ledger.verdict(Seeds(*values), official) == expected


def test_every_number_of_the_papers_first_table_and_of_later_methods_has_a_line():
    found = ledger.ledger_claims([])
    table1 = [row for row in paper_results.paper_rows() if row.table == "table1_main"]
    own = [line for line in found if line.official.source == "LPS, Table 1"]
    assert len(own) == len(table1) and {line.verdict for line in found} == {ledger.MISSING}
    later = [line for line in found if line not in own]
    assert {line.method for line in later} == {"simgcd", "legogcd"}
    assert all("DINO" in line.differences[0] for line in later)


def test_a_run_beside_nothing_says_so(groups):
    own = [line for line in ledger.ledger_claims(groups) if line.group]
    assert len(own) == 2 and {line.verdict for line in own} == {ledger.OTHERWISE}
    assert own[0].differences == ("no published number",) and own[0].cells()["n"] == "3"
    assert own[0].cells()["made by"].startswith("python -m lps sweep --dataset digits --method lps --seeds 0,1,2")


def test_a_comparable_group_is_judged_and_another_one_says_what_differs(groups, monkeypatch):
    row = paper_results.main_row("CIFAR-10", 0.5, "LPS")
    monkeypatch.setattr(paper_results, "matching_row", lambda *_: (row, []))
    line = ledger._claim_of(group_runs(groups[0].members)[0])
    assert line.verdict == ledger.BELOW and line.official.all == row.all and "92.4" in line.cells()["official"]
    monkeypatch.setattr(paper_results, "matching_row", lambda *_: (None, ["20 epochs"]))
    monkeypatch.setattr(
        ledger, "published_numbers", lambda: (ledger.Official("digits", 0.5, "lps", 1.0, 2.0, 3.0, "a book"),)
    )
    line = ledger._claim_of(group_runs(groups[0].members)[0])
    assert (line.verdict, line.differences) == (ledger.OTHERWISE, ("20 epochs",))


def test_no_folder_of_this_machine_is_told(groups, tmp_path):
    place = str(tmp_path / "secret" / "pictures.npz")
    member = replace(groups[0].members[0], config=replace(groups[0].config, dataset_path=place))
    group = replace(groups[0], label=f"LPS, dataset.path={place}", members=(member,))
    text = ledger.ledger_page([ledger.Claim("digits", 0.5, "lps", None, group, ledger.OTHERWISE)])
    assert "secret" not in text and text.count("dataset.path=pictures.npz") >= 2


def test_it_is_written_as_a_page_and_as_a_table(groups):
    found = ledger.ledger_claims(groups)
    text = ledger.ledger_page(found)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == len(found) + 2 and len({row.count(" | ") for row in rows}) == 1
    assert text.count("`python -m lps sweep") == 2
    table = list(csv.reader(io.StringIO(ledger.csv_text(found))))
    assert table[0] == list(ledger.CLAIM_HEAD) and len(table) == len(found) + 1


def test_the_command_writes_it_without_any_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    assert main(["ledger", "--to", str(tmp_path / "ledger.md")]) == 0
    text = (tmp_path / "ledger.md").read_text()
    assert f"{len(ledger.published_numbers())} not run" in text
    assert main(["ledger", "--to", str(tmp_path / "none" / "ledger.md")]) == 2
    assert "its folder does not exist" in capsys.readouterr().err
