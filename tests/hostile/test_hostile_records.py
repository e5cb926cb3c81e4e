"""Hostile names and records of sweeps and searches: shown as they stand, on the pages and in reports."""

import dataclasses
import html
import re

import pytest

from lps.__main__ import main
from lps.errors import UserError
from lps.report import sweep_report
from lps.studies import search, sweep_records, sweeps
from lps.studies.search_results import read_results
from tests import hostile_records
from tests.hostile.test_hostile_text import SCORING, Tags
from tests.hostile_runs import STRANGER, TEXTS
from tests.shares import OFFSET, share
from tests.visiting import visit


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "runs"
    hostile_records.make_sweeps(folder)
    return folder


@pytest.fixture(autouse=True)
def here(root, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(root))


@pytest.fixture(scope="module")
def hunt(root):
    found = hostile_records.make_search(root)
    hostile_records.make_trial_run(root, found)
    return found


def shown(page) -> str:
    """All that the page says in words, with the marks of `lps.ui.shared.escape` taken back."""
    kinds = ("markdown", "caption", "warning", "error", "info", "subheader", "title", "text", "code")
    words = [str(element.value) for kind in kinds for element in getattr(page, kind)]
    words += [element.proto.label for element in page.get("page_link")]
    words += [frame.value.reset_index().to_csv() for frame in page.dataframe]
    return "\n".join(words).replace("\\", "").replace("\u2060", "")


def bare(text: str) -> str:
    """As `shown` has a text: escaped, on one line."""
    return " ".join(text.replace("\\", "").split())


@pytest.mark.slow
def test_the_list_of_sweeps_names_them_all_and_each_opens(root):
    listed = shown(visit("sweeps"))
    for name in hostile_records.NAMES:
        assert bare(name) in listed, name
        page = visit("sweeps", sweep=name)
        assert bare(name) in shown(page) and not page.warning


@pytest.mark.parametrize(
    "text", [TEXTS[0], *(pytest.param(text, marks=pytest.mark.slow) for text in share(TEXTS[1:], OFFSET, 8))]
)
def test_whatever_stands_in_a_record_is_laid_out_or_left_out(root, text):
    """None of them stops the list, the page, the command or the report of the sweep that it belongs to."""
    name, understood = hostile_records.NAMES[1], 0
    for kept in hostile_records.layouts(text):
        sweep_records.write_sweep_record(root, name, kept)
        (known,) = [one for one in sweep_records.list_sweeps(root) if one.name == name]
        asked = sweeps.from_record(known.request)
        understood += asked is not None
        assert sweep_report.render_sweep_report(known, root, SCORING)
    assert 1 <= understood <= 4
    for version in (text, [text], 99, -1):
        hostile_records.put_newer_record(root, name, version)
        (known,) = [one for one in sweep_records.list_sweeps(root) if one.name == name]
        assert known.problem and known.problem.isprintable()
    if text == TEXTS[0]:
        assert "is damaged (its version is -1" in shown(visit("sweeps", sweep=name))


@pytest.mark.slow
def test_reports_of_sweeps_have_no_element_of_a_text(root):
    for number, name in enumerate(hostile_records.NAMES):
        sweep_records.write_sweep_record(root, name, hostile_records.layout(TEXTS[number]))
        (known,) = [one for one in sweep_records.list_sweeps(root) if one.name == name]
        for tag, attributes in Tags(sweep_report.render_sweep_report(known, root, SCORING)).found:
            assert tag not in ("iframe", "object", "embed", "form", "base", "link")
            assert not [key for key in attributes if key.startswith("on")], attributes
            for key in ("src", "href", "data", "action", "srcset"):
                assert STRANGER not in (attributes.get(key) or ""), (tag, attributes)
        shown = html.unescape(sweep_report.render_sweep_report(known, root, SCORING))
        missing = [word for word in re.findall(r"[A-Za-z0-9]{3,}", name) if word not in shown]
        assert not missing, f"{name} is not there as it stands"


@pytest.mark.slow
def test_a_search_with_hostile_trials_is_shown_with_them(root, hunt):
    page = visit("search", search=hunt.name)
    table = page.dataframe[0].value
    assert len(table) == len(TEXTS) and [read_results(hunt).trials[k].reason for k in range(len(TEXTS))] == list(TEXTS)
    assert set(table["Why"]) == set(TEXTS)  # a table shows text as text
    assert sorted(table["Run"]) == sorted(trial.runs[0] for trial in read_results(hunt).trials)
    assert hunt.name in shown(visit("search"))


def test_a_best_trial_whose_settings_do_not_go_together_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    hostile_records.make_search(tmp_path, network="no_such_network")
    page = visit("search", search="hostile")
    assert "These settings cannot be combined: network.name:" in shown(page)


@pytest.mark.parametrize(
    "key", ["name", "objective", "space", "seeds", "trials", "prune", "sampler_seed", "base", "version"]
)
def test_a_spoiled_search_is_told_in_a_sentence(root, key, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    found = hostile_records.make_search(tmp_path, "spoiled")
    whole = (found.folder / "search.json").read_bytes()
    for text in TEXTS:
        hostile_records.spoil_search(found, key, text)
        try:
            found.request()
        except UserError as error:
            assert str(error).startswith("search: spoiled cannot be read (")
        else:
            assert key in ("name", "prune")  # the folder has the name; anything is true or not
        assert main(["search", "--list", "--runs", str(tmp_path)]) == 0
        said = capsys.readouterr().out
        assert not [c for c in said if not c.isprintable() and c != "\n"] and "spoiled" in said
        (found.folder / "search.json").write_bytes(whole)
    hostile_records.spoil_search(found, key, TEXTS[0])
    assert "spoiled" in shown(visit("search", search="spoiled"))


def test_folders_that_no_search_is_called_by_are_not_searches(tmp_path, monkeypatch):
    made = hostile_records.make_foreign_searches(tmp_path)
    assert len(made) > 10 and search.list_searches(tmp_path) == []
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    for name in made[:4]:
        page = visit("search", search=name)
        assert "No search is called" in shown(page)


@pytest.mark.parametrize("command", ["sweep --dry-run", "search --space lr=0.01..0.1", "compare --tag"])
def test_hostile_names_on_the_command_line(root, command, capsys):
    before = sorted(path.name for path in root.iterdir())
    command, names = command.split(), [*TEXTS, "a" * 41, "../../x", "a\nb", ".", "a/b"]
    for name in names:
        words = [*command, f"sweep:{name}"] if command[0] == "compare" else [*command, "--name", name]
        if command[0] == "search" and search.NAME.fullmatch(name):
            continue
        code = main([*words, "--runs", str(root)])
        said = capsys.readouterr()
        assert not [c for c in said.out + said.err if not c.isprintable() and c != "\n"], name
        assert code in (0, 2) and "Traceback" not in said.err
        if command[0] == "search":
            assert code == 2, name
    assert sorted(path.name for path in root.iterdir()) == before


@pytest.mark.parametrize("name", ["a" * 35, "a" * 33 + " b", " a", "a\nb", "\u202eb", "../" * 12])
def test_no_program_starts_a_sweep_or_search_by_such_a_name(name, tmp_path):
    """The names that forms and command line refuse are refused by `start` and `ask` themselves."""
    wanted = sweeps.Sweep(name, ())
    with pytest.raises(UserError, match=r"^name: .* is not a printable line of at most 34 characters"):
        sweeps.start_sweep(wanted, tmp_path)
    request = search.read_request("digits", "lps", ["lr=0.01..0.1"])
    with pytest.raises(UserError, match="^name: "):
        search.create_search(dataclasses.replace(request, name=name), tmp_path)
    assert list(tmp_path.iterdir()) == []
