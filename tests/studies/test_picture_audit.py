"""The data check from the command line to decisions: findings, decisions, and what the next runs use."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from lps.__main__ import main
from lps.analysis import audit
from lps.data import feature_store, sources
from lps.errors import UserError
from lps.machine import detached_jobs
from lps.scheduler import background_jobs
from lps.settings import edit_log
from lps.settings.config import configure
from lps.studies import audit_files
from lps.studies.audit_files import Audited, Doubt
from lps.studies.class_search import search_count
from lps.studies.picture_audit import audit_pictures


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_DECISIONS", str(tmp_path / "decisions"))
    return tmp_path / "runs"


@pytest.fixture
def pictures(tmp_path):
    """An .npz with 40 pictures of two classes and 12 for tests, the last of which is a copy of the third picture."""
    draws = np.random.default_rng(0)
    x = draws.integers(0, 256, (52, 8, 8)).astype(np.uint8)
    x[51] = x[2]
    y = np.arange(52) % 2
    np.savez(tmp_path / "a.npz", x_train=x[:40], y_train=y[:40], x_test=x[40:], y_test=y[40:])
    return str(tmp_path / "a.npz")


def small(path, **more):
    own = {"network.name": "digits_resnet", "network.start": "random", "views": "digits", "split.num_novel": 1}
    return configure({"dataset": "arrays", "dataset.path": path} | own | more)


def words(config) -> list[str]:
    settings = background_jobs.settings_of_job(config).items()
    return [f"--set={key}={value}" for key, value in settings if key != "dataset.path"]


def test_a_copy_among_the_test_pictures_is_found_stored_and_left_out(root, pictures):
    config = small(pictures)
    found = audit_pictures(config, root)
    first = found.findings[0]
    assert found.count == 52 and first.kind == "duplicate" and first.pictures == (2, 51)
    assert first.parts == ("labeled", "test") and "across labeled and test, with different labels" in first.in_words
    assert audit_files.read_findings(audit_files.audit_path(config, root)) == found
    assert audit_files.remaining_pictures(first) == 51
    audit_files.record_finding_decision(config, "leave out", [2], why="duplicate")
    assert not audit_files.is_undecided(first, audit_files.decisions_of(config))
    assert len(sources.images_of(small(pictures)).labels) == 51
    assert audit_files.audit_path(small(pictures), root) == audit_files.audit_path(config, root)
    audit_files.undo_finding_decision(config, 1)
    assert audit_files.is_undecided(first, audit_files.decisions_of(config))
    assert len(sources.images_of(small(pictures)).labels) == 52


def test_the_command_finds_decides_lists_and_takes_back(root, pictures, capsys):
    task = ["audit", pictures, "--runs", str(root), *words(small(pictures))]
    assert main(task) == 0
    assert "  2, 51  2 similar pictures, across labeled and test" in capsys.readouterr().out
    assert main([*task, "--leave-out", "2", "--relabel", "5=0", "--ignore", "7", "--json"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert {(entry["do"], *entry["pictures"]) for entry in held} == {("leave out", 2), ("relabel", 5), ("ignore", 7)}
    assert main([*task, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [2, 51] not in [one["pictures"] for one in told["open"]] and told["pictures"] == 52
    labels = sources.images_of(small(pictures)).labels
    assert len(labels) == 51 and labels[4] == 0
    assert main([*task, "--undo", "1"]) == 0 and "1 picture labeled 0: 5" in capsys.readouterr().out
    assert main([*task, "--undo", "1"]) == 2 and "is not a current decision; choices: 2" in capsys.readouterr().err
    assert main([*task, "--decided"]) == 0 and "dataset.decisions=" in capsys.readouterr().out


@pytest.mark.parametrize("option, sentence", [
    (["--leave-out", "52"], "pictures: 52 is not one of its 52 pictures; expected one such as the number of an image"),
    (["--leave-out", "cat.jpg"], "pictures: 'cat.jpg' is not one of its 52"),
    (["--relabel", "5=dog"], "label: 'dog' is not one of its classes; choices: 0, 1"),
    (["--relabel", "5"], "relabel: '5' is not of the form PICTURE=CLASS"),
    (["--relabel", "51="], "label: of a test picture cannot be unknown; leave out the picture instead"),
    (["--undo", "3"], "undo: 3 is not a current decision; choices: none"),
])  # fmt: skip
def test_what_cannot_be_decided_is_one_sentence_and_nothing_is_written(root, pictures, capsys, option, sentence):
    assert main(["audit", pictures, "--runs", str(root), *words(small(pictures)), *option]) == 2
    assert sentence in capsys.readouterr().err and not edit_log.decisions_folder().exists()


def test_what_is_neither_data_set_nor_path_is_refused(root, capsys):
    assert main(["audit", "no-such-thing", "--runs", str(root)]) == 2
    assert "dataset: 'no-such-thing' is not a data set, folder, or file" in capsys.readouterr().err


def test_the_last_pictures_cannot_be_left_out(root, pictures):
    with pytest.raises(
        UserError, match="pictures: cannot all be left out; 52 pictures would be removed and none would be left"
    ):
        audit_files.record_finding_decision(small(pictures), "leave out", list(range(52)))


def test_another_content_is_looked_at_anew(root, pictures):
    before = audit_files.audit_path(small(pictures), root)
    os.utime(pictures, (0, 0))
    assert audit_files.audit_path(small(pictures), root) != before


def test_coloured_pictures_without_start_weights_are_looked_at_with_the_shipped_backbone(pictures):
    coloured = audit_files.undecided_config(configure({"dataset": "cifar10"}))
    assert (coloured.network_name, coloured.network_start) == ("efficientnet_lite0", "published")
    assert (coloured.features, coloured.network_image_size) == ("stored", 128)
    assert audit_files.undecided_config(configure()).network_name == "digits_resnet"
    own = configure({"dataset": "cifar10", "network.name": "torchvision:resnet18", "network.start": "torchvision"})
    assert audit_files.undecided_config(own).network_name == "torchvision:resnet18"


def test_a_look_tells_how_far_it_is_and_can_be_cancelled(root, pictures):
    config, told = small(pictures), []

    def show(phase, share, left):
        told.append(phase)
        if phase == "reading pictures":
            work = background_jobs.job_at(audit_files.audit_path(config, root), 0.0)
            assert work.title == "Data check of a.npz, seed 0" and work.is_working
            background_jobs.cancel_job(work)

    with pytest.raises(background_jobs.Cancelled):
        audit_pictures(config, root, show_progress=show)
    assert told == ["loading libraries and data (up to a minute)", "reading pictures"]
    assert detached_jobs.job_state(audit_files.audit_path(config, root)).state == "cancelled"


def test_stored_features_are_computed_once_for_a_look_a_count_and_the_runs(root, pictures):
    config, told = small(pictures, **{"features": "stored", "network.image_size": None}), []
    found = audit_pictures(config, root, show_progress=lambda phase, share, left: told.append((phase, share)))
    assert found.findings[0].pictures == (2, 51) and ("reading pictures", 1.0) in told
    (store,) = feature_store.list_stores()
    count = search_count(small(pictures, **{"features": "stored", "network.image_size": None}), root, 6, print)
    assert count.numbers and feature_store.list_stores() == [store]


def test_too_many_pictures_are_refused_before_anything_is_made(root, pictures, monkeypatch):
    monkeypatch.setattr(audit, "_ALWAYS", 50)
    monkeypatch.setattr(audit, "MAX_COMPARED_PICTURES", 50)
    with pytest.raises(
        UserError, match="pictures: 52 images cannot be compared; expected 11 to 50. Set dataset.images_per_class"
    ):
        audit_pictures(small(pictures), root)
    assert not root.exists()


def test_findings_that_were_answered_are_not_open():
    pair = Doubt("duplicate", (1, 2, 3), 0.1)
    doubt = Doubt("label", (4,), 0.9, label="cat", other="dog")
    said = edit_log.Decisions()
    assert audit_files.is_undecided(pair, said) and audit_files.is_undecided(doubt, said)
    assert audit_files.is_undecided(pair, replace(said, left_out=frozenset({1})))
    assert not audit_files.is_undecided(pair, replace(said, left_out=frozenset({1, 3})))
    assert not audit_files.is_undecided(pair, replace(said, ignored=frozenset(("duplicate", key) for key in (1, 2, 3))))
    assert audit_files.is_undecided(pair, replace(said, ignored=frozenset(("label", key) for key in (1, 2, 3))))
    assert not audit_files.is_undecided(doubt, replace(said, labels={4: "dog"}))


@pytest.mark.parametrize("text", [
    "", "[]", "{}", '{"count": 1, "findings": [{}], "total": {}}', "[" * 100_000,
    '{"count": 1, "findings": [{"kind": "x", "pictures": [1], "score": 1, "parts": []}],'
    ' "total": {"duplicate": 1, "stranger": 0, "label": 0}}',
    '{"count": 1, "findings": [{"kind": "stranger", "pictures": [[1]], "score": 1, "parts": []}],'
    ' "total": {"duplicate": 1, "stranger": 0, "label": 0}}',
])  # fmt: skip
def test_damaged_findings_are_one_sentence(root, pictures, text):
    path = audit_files.audit_path(small(pictures), root)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(UserError, match="the findings are damaged .*; delete .* and check again"):
        audit_files.read_findings(path)


def test_findings_are_written_as_they_are_read(root, pictures):
    found = Audited(3, (Doubt("stranger", ("a/b.jpg",), 3.0),), {"duplicate": 0, "stranger": 1, "label": 0})
    path = audit_files.audit_path(small(pictures), root)
    audit_files.write(path, found)
    assert audit_files.read_findings(path) == found
