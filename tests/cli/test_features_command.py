"""`features`: stored features, their cost and users; making them before a run needs them, and deleting them."""

import json

import pytest

from lps.__main__ import main
from lps.data import feature_store
from tests.data.test_features import STORED
from tests.short_runs import finished_run

SETTINGS = [
    word
    for key, value in STORED.items()
    if key != "features"
    for word in ("--set", f"{key}={'none' if value is None else value}")
]


def lps(capsys, *arguments, code=0):
    assert main(["features", *map(str, arguments)]) == code
    return capsys.readouterr()


@pytest.mark.slow
def test_features_are_made_listed_used_and_deleted(tmp_path, capsys):
    assert "no features are stored in" in lps(capsys, "--runs", tmp_path).err
    made = lps(capsys, "make", *SETTINGS, "--set", "features.weak_views=1")
    key = made.out.strip()
    assert feature_store.list_stores()[0].rows == dict.fromkeys(
        ["plain", "weak-0", "strong-0", "strong-1", "strong-2"], 200
    )
    assert "features: 100%" in made.err and lps(capsys, "make", *SETTINGS).out.strip() == key
    finished_run(tmp_path, "simclr", **STORED)
    capsys.readouterr()
    (line, total) = lps(capsys, "--runs", tmp_path).out.splitlines()
    assert line.startswith(f"{key}  digits_resnet at its default size; 200 pictures x 64, 7 views; 1 MB in ")
    assert " ms per view; used by 1 run" in line and total.startswith("1 store, 1 MB in ")
    (told,) = json.loads(lps(capsys, "list", "--json", "--runs", tmp_path).out)
    assert told["key"] == key and told["pictures"] == 200 and told["runs"] == 1 and told["bytes"] > 7 * 200 * 64 * 2
    assert lps(capsys, "check", key[-6:]).out == "7 views intact\n"
    table = feature_store.list_stores()[0].store.table("weak-1")
    table.write_bytes(b"x" + table.read_bytes()[1:])
    assert lps(capsys, "check", key, code=1).out == "damaged: weak-1\n"
    lps(capsys, "delete", key[-6:])
    assert feature_store.list_stores() == []


@pytest.mark.slow
def test_two_workers_make_the_store_that_one_process_makes(tmp_path, monkeypatch, capsys):
    tables = []
    for number, more in enumerate(([], ["--workers", 2], ["--join"])):
        monkeypatch.setenv("LPS_CACHE", str(tmp_path / str(number)))
        key = lps(capsys, "make", *SETTINGS, *more).out.strip()
        (kept,) = feature_store.list_stores()
        tables.append({view: kept.store.table(view).read_bytes() for view in kept.rows})
        assert kept.store.key == key and not list(feature_store.stores_folder().glob("*.parts"))
    assert tables[0] == tables[1] == tables[2] and len(tables[0]) > 1


def test_what_cannot_be_made_or_deleted_is_said_in_a_line(capsys):
    assert "workers: 0 is not a whole number from 1 to 64" in lps(capsys, "make", "--workers", 0, code=2).err
    no_store = "features: abc matches no store; to list all stores, run python -m lps features"
    assert no_store in lps(capsys, "delete", "abc", code=2).err
    assert "features: '' matches no store" in lps(capsys, "delete", "", code=2).err
    assert "network.start: simclr" in lps(capsys, "make", "--set", "network.start=simclr", code=2).err
    assert "features: cannot be set with --set here" in lps(capsys, "make", "--set", "features=live", code=2).err


def test_a_store_whose_facts_are_damaged_is_listed_without_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LPS_CACHE", str(tmp_path))
    folder = tmp_path / "features" / "digits-0000000000000001"
    folder.mkdir(parents=True)
    for settings in ("[]", '"x"', "5", "null"):
        (folder / "facts.json").write_text(f'{{"count": 5, "width": 5, "settings": {settings}}}')
        lps(capsys, "--runs", tmp_path)
