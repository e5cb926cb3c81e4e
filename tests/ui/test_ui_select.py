"""Which runs a page begins with."""

from types import SimpleNamespace

import pytest

from lps.store import run_folders
from lps.store.run_folders import list_runs, recorded_runs
from lps.ui.shared import select
from tests.sample_runs import make_run
from tests.visiting import visit, words_of


@pytest.fixture
def recordings(tmp_path, monkeypatch):
    """Two recordings: LPS with one thread, and ORCA."""
    monkeypatch.setattr(run_folders, "RECORDED", tmp_path / "recorded")
    for settings in ({"threads": 1, "epochs": 2}, {"method": "orca", "epochs": 2}):
        run = make_run(tmp_path / "recorded", settings=settings, epochs=2)
        (run.folder / "recorded.json").write_text('{"version": 1}')
    return recorded_runs()


def test_few_own_runs_stand_beside_the_recordings_that_they_do_not_repeat(tmp_path, recordings):
    own = make_run(tmp_path / "runs", epochs=2, settings={"epochs": 2})
    make_run(tmp_path / "runs", "failed", epochs=2, settings={"epochs": 2, "lr": 0.2})
    found = select.default_group(list_runs(tmp_path / "runs") + recordings)
    assert own in found and [run.config().method for run in found if run.is_recorded] == ["orca"]
    make_run(tmp_path / "runs", epochs=2, settings={"epochs": 2, "lr": 0.3})
    own_ones = list_runs(tmp_path / "runs")
    assert select.default_group(own_ones + recordings) == own_ones, "three of them are enough"
    assert select.default_group(recordings) == recordings


def test_menus_name_runs_as_the_page_runs_does_with_their_accuracy_or_state(tmp_path):
    swept = [
        make_run(tmp_path, state, settings={"margin_scale": 10.0}, name="margin_scale=10, entropy_weight=1, lps seed 0")
        for state in ("finished", "stopped")
    ]
    mine = make_run(tmp_path, epochs=2, name="mine")
    twice = [f"C=10, w=1, LPS seed 0 ({run.id[-6:]})" for run in swept]
    assert list(select.run_names([*swept, mine]).values()) == [*twice, "mine"]
    done, stopped, named = select.run_labels([*swept, mine]).values()
    assert done.startswith(f"{twice[0]} · novel ") and stopped == f"{twice[1]} · stopped"
    assert named.startswith("mine · novel ") and named.endswith("\u00a0%")
    assert select.run_names([swept[0], mine]) == {swept[0].id: "C=10, w=1, LPS seed 0", mine.id: "mine"}


@pytest.mark.parametrize("page", ["home", "runs", "live", "queue"])
def test_pages_say_why_a_folder_of_runs_cannot_be_read(tmp_path, monkeypatch, page):
    (tmp_path / "runs").touch()
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    at = visit(page)
    assert len(at.error) == 1 and "is a file, where a folder should be. Set LPS_RUNS" in words_of(at)


def test_the_run_chosen_last_is_kept_between_pages_until_there_is_a_newer_one(tmp_path, monkeypatch):
    first, second, third = sorted((make_run(tmp_path, epochs=1) for _ in range(3)), key=lambda run: run.id)
    address, shown = {"run": [first.id]}, []
    query_params = SimpleNamespace(get_all=lambda name: address.get(name, []))
    monkeypatch.setattr(select, "st", SimpleNamespace(session_state={}, query_params=query_params, selectbox=None))
    monkeypatch.setattr(select.url_fields, "draw_field", lambda _widget, _key, value, *_, **__: shown.append(value))
    select.pick_run([second, first], prefers_own_data=True)
    address.clear()
    for runs in ([second, first], [second], [third, second, first]):
        select.pick_run(runs, prefers_own_data=True)
    assert shown == [first.id, first.id, second.id, third.id]


def test_a_label_from_an_earlier_state_still_chooses_its_run(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    runs = [make_run(tmp_path, epochs=2, name="ref", seed=seed) for seed in (0, 1)]
    at, text = visit("compare"), f"ref ({runs[0].id[-6:]}) · starting"
    at.multiselect(key="compared_runs").set_value([text]).run()
    assert not at.exception and at.query_params["run"] == runs[0].id and not at.toast
    stored = []
    monkeypatch.setattr(select.url_fields, "set_values", lambda _name, value, *_: stored.append(value))
    monkeypatch.setattr(select.url_fields, "draw_field", lambda *arguments, **_: arguments[3](text))
    select.pick_run(runs)
    assert stored == [[runs[0].id]]
    versions = [make_run(tmp_path, epochs=2, name=name) for name in ("mine", "mine · v2")]
    assert select._find_labeled(versions, "mine · v2 · running") == [versions[1].id]
