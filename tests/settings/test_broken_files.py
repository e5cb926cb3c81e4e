"""Files of methods and data sets that are broken in every way: each is named with its reason, all others go on."""

import json

import pytest

from lps import methods
from lps.__main__ import main
from lps.doctor import environment
from lps.doctor.diagnostic import PROBLEM
from lps.errors import UserError
from lps.settings import catalog
from lps.settings.config import configure
from lps.store.runs import Run
from lps.studies import presets
from tests.broken_files import CLASS, DATASETS, FINE, HEAD, METHODS, folders
from tests.doctor.test_doctor import findings_of
from tests.shares import in_turn
from tests.visiting import visit


@pytest.fixture
def place(tmp_path, monkeypatch):
    with folders(tmp_path, monkeypatch) as made:
        yield made


@pytest.mark.parametrize(
    "kind, name, words",
    [("method", name, made[1]) for name, made in METHODS.items()]
    + [("dataset", name, made[1]) for name, made in DATASETS.items()],
)
def test_a_broken_method_or_data_set_is_named_with_its_reason(place, kind, name, words):
    with pytest.raises(UserError) as caught:
        configure({kind: name})
    told = str(caught.value)
    assert told.startswith(f"{kind}: {name}.py does not follow the form in lps/{kind}s/__init__.py (")
    assert words in told and "\n" not in told


def test_all_others_go_on(place):
    assert set(catalog.broken_methods()) == set(METHODS) and set(catalog.broken_datasets()) == set(DATASETS)
    assert "lps" in catalog.method_titles() and not set(METHODS) & set(catalog.method_titles())
    assert "digits" in catalog.dataset_titles() and not set(DATASETS) & set(catalog.dataset_titles())
    assert catalog.dataset_titles()["fine"] == "Fine" and configure({"dataset": "fine"}).epochs == 3


@pytest.mark.parametrize("first, names, broken", [("digits", "dataset", "datasets"), ("lps", "method", "methods")])
def test_what_stands_first_in_a_menu_may_be_broken_too(place, first, names, broken):
    (place / broken / f"{first}.py").unlink()
    titles = getattr(catalog, f"{names}_titles")()
    assert first not in titles and titles


def test_a_file_that_was_mended_is_read_again(place):
    (place / "datasets" / "empty.py").write_text(FINE)
    (place / "methods" / "bytes.py").write_text(CLASS + "...")
    assert catalog.dataset_info("empty").title == "Fine" and catalog.method_info("bytes").title == "TOY"


def test_a_run_on_a_data_set_that_broke_can_still_be_read(place):
    stored = configure({"dataset": "digits"})
    text = stored.to_json().replace('"dataset": "digits"', '"dataset": "raises"')
    assert stored.from_json(text).epochs == stored.epochs


def test_a_file_that_cannot_be_opened_is_broken(place):
    (place / "methods" / "gone.py").symlink_to("nowhere")
    assert catalog.broken_methods()["gone"] == "gone.py cannot be read (No such file or directory)"


@pytest.mark.parametrize("kind, texts", [("methods", METHODS), ("datasets", DATASETS)])
def test_the_commands_list_what_is_broken(place, capsys, kind, texts):
    assert main([kind]) in (0, None)
    lines = capsys.readouterr().out.splitlines()
    told = {line.split()[0]: line for line in lines if " broken: " in line}
    assert set(told) == set(texts) and all(texts[name][1] in told[name] for name in texts)
    main([kind, "--json"])
    entries = json.loads(capsys.readouterr().out)
    assert {entry["name"] for entry in entries if "broken" in entry} == set(texts)


def test_the_doctor_names_broken_files(place):
    found = {
        finding.about
        for finding in findings_of(environment.check_recipe_files, None)
        if finding.level == PROBLEM and finding.mend
    }
    assert found == {f"methods/{name}.py" for name in METHODS} | {f"datasets/{name}.py" for name in DATASETS}


def test_a_method_whose_import_fails_is_one_sentence(place, monkeypatch):
    (place / "methods" / "fails.py").write_text(HEAD + "import torch.no_such_part\nclass Toy(Method): ...")
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(place / "methods")])
    with pytest.raises(UserError, match=r"^method: fails\.py cannot be imported \(ModuleNotFoundError: No module"):
        methods.build(configure({"method": "fails"}), None, None)


def test_without_lps_other_methods_and_their_commands_go_on(place, tmp_path, monkeypatch, capsys):
    (place / "methods" / "lps.py").unlink()
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    assert main(["sweep", "--list-presets"]) == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert set(listed) == set(presets.PRESETS) and "broken: method: 'lps' is not one of" in listed["ablation"]
    assert main(["sweep", "--method", "orca", "--dry-run"]) == 0
    seen = []
    monkeypatch.setattr(
        "lps.scheduler.submit.create_runs", lambda root, orders, **wish: seen.extend(orders) or [Run(place)]
    )
    assert main(["launch", "--method", "orca", "--seed", "3"]) in (0, None)
    assert (seen[0].config.method, seen[0].config.seed) == ("orca", 3)


@pytest.mark.parametrize("page", in_turn(["home", "launch", "sweeps", "search", "compare"], 3))
def test_without_lps_every_page_is_drawn(place, tmp_path, monkeypatch, page):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    visit(page)  # which keeps the scores of recordings
    (place / "methods" / "lps.py").unlink()
    visit(page)
