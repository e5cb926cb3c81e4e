"""Decisions about pictures, applied to data sets of every kind: remaining pictures and their labels."""

import numpy as np
import pytest
from PIL import Image

from lps.data import dataset_edits, sources
from lps.data.training_data import prepare
from lps.errors import UserError
from lps.settings import edit_log
from lps.settings.config import configure


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_DECISIONS", str(tmp_path / "decisions"))


@pytest.fixture
def animals(tmp_path):
    """A folder with 6 cats, 6 dogs and 4 pictures of unknown class, each of a grey of its own."""
    for place, (name, count) in enumerate({"cat": 6, "dog": 6, "unlabeled": 4}.items()):
        (tmp_path / "animals" / name).mkdir(parents=True)
        for i in range(count):
            Image.new("RGB", (8, 8), (place * 80 + 5 * i,) * 3).save(tmp_path / "animals" / name / f"{i}.png")
    return str(tmp_path / "animals")


def say(config, do, places, **more):
    """A decision about the images at these places."""
    keys, of = sources.original_keys(config)
    return edit_log.record_decision(config.dataset, config.dataset_path, do, [keys[i] for i in places], of=of, **more)


def asked(path, **more):
    own = {"dataset": "folder", "dataset.path": path, "dataset.image_size": 8, "split.num_novel": 1}
    return configure(own | {key.replace("__", "."): value for key, value in more.items()})


def test_pictures_of_a_folder_go_by_their_files(animals):
    before = sources.images_of(asked(animals))
    say(asked(animals), "leave out", [0, 13])
    say(asked(animals), "relabel", [1], label="dog")
    say(asked(animals), "relabel", [7, 12], label=edit_log.UNKNOWN)
    found = sources.images_of(asked(animals))
    kept = [i for i in range(16) if i not in (0, 13)]
    assert found.file_names == tuple(before.file_names[i] for i in kept)
    assert np.array_equal(found.pixels, before.pixels[kept])
    assert found.labels.tolist() == [1, 0, 0, 0, 0, 1, -1, 1, 1, 1, 1, -1, -1, -1]


def test_the_folder_of_the_person_stays_as_it_is(animals, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "animals").rglob("*")}
    say(asked(animals), "leave out", [0])
    sources.images_of(asked(animals))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "animals").rglob("*")} == before


def test_a_file_more_or_less_moves_no_decision(animals, tmp_path):
    say(asked(animals), "leave out", [2, 3])
    (tmp_path / "animals/cat/2.png").unlink()
    Image.new("RGB", (8, 8)).save(tmp_path / "animals/cat/00.png")
    names = sources.images_of(asked(animals)).file_names
    assert "cat/00.png" in names and "cat/3.png" not in names and len(names) == 15


def test_a_run_keeps_what_it_was_made_with(animals):
    say(asked(animals), "leave out", [0])
    first = asked(animals)
    digest = prepare(first).digest
    say(asked(animals), "leave out", [1])
    second = asked(animals)
    assert prepare(first).digest == digest != prepare(second).digest
    assert len(sources.images_of(first).labels) == 15 and len(sources.images_of(second).labels) == 14
    assert len(sources.images_of(asked(animals, dataset__decisions="0")).labels) == 16


def test_what_is_taken_back_is_there_again(animals):
    plain = prepare(asked(animals)).digest
    say(asked(animals), "leave out", [0])
    edit_log.undo_decision("folder", animals, 1)
    assert prepare(asked(animals)).digest == plain


def test_numbered_pictures_are_the_same_in_a_part_of_the_data():
    part = {"dataset.images_per_class": 5, "split.seed": 3, "dataset.image_size": 16}
    before = sources.images_of(configure(part))
    say(configure(part), "leave out", [0, 7])
    found = sources.images_of(configure(part))
    assert np.array_equal(found.pixels, np.delete(before.pixels, [0, 7], axis=0))
    whole = sources.load("digits")
    missing = edit_log.decisions_at("digits", None, edit_log.newest_state("digits", None)).left_out
    assert len(sources.images_of(configure()).labels) == len(whole.labels) - 2 and len(missing) == 2


def test_tests_stay_at_the_end(tmp_path):
    pixels = np.arange(40, dtype=np.uint8)[:, None, None] * np.ones((8, 8), np.uint8)
    np.savez(
        tmp_path / "a.npz", x_train=pixels[:30], y_train=np.arange(30) % 3, x_test=pixels[30:], y_test=np.arange(10) % 3
    )
    config = {"dataset": "arrays", "dataset.path": str(tmp_path / "a.npz")}
    say(configure(config), "leave out", [0, 35, 36])
    found = sources.images_of(configure(config))
    assert found.num_test == 8 and found.pixels[:, 0, 0, 0].tolist() == [i for i in range(40) if i not in (0, 35, 36)]


def test_numbers_mean_nothing_in_another_file(tmp_path):
    def write(labels):
        np.savez(tmp_path / "a.npz", x_train=np.zeros((30, 8, 8), np.uint8), y_train=labels)

    config = {"dataset": "arrays", "dataset.path": str(tmp_path / "a.npz")}
    write(np.arange(30) % 3)
    say(configure(config), "leave out", [0])
    write(np.arange(30) % 2)
    with pytest.raises(UserError, match="dataset.decisions: was made when the data set had different pictures"):
        sources.images_of(configure(config))
    assert len(sources.images_of(configure(config | {"dataset.decisions": "0"})).labels) == 30


def test_a_class_that_is_gone_is_said(animals, tmp_path):
    say(asked(animals), "relabel", [12], label="dog")
    (tmp_path / "animals/dog").rename(tmp_path / "animals/wolf")
    with pytest.raises(UserError, match="gives pictures the label 'dog', which is not a class any more"):
        sources.images_of(asked(animals))


def test_somebody_who_leaves_out_everything_is_told(animals):
    say(asked(animals), "leave out", range(16))
    with pytest.raises(UserError, match="leaves out all 16 pictures"):
        sources.images_of(asked(animals))


def test_pictures_that_lie_on_the_disk_are_not_brought_into_memory(animals, monkeypatch, nowhere):
    monkeypatch.setattr(dataset_edits, "_LARGE", 0)
    before = sources.images_of(asked(animals))
    say(asked(animals), "leave out", [0, 15])
    say(asked(animals), "relabel", [1], label="dog")
    found = sources.images_of(asked(animals))
    assert isinstance(found.pixels, np.memmap) and np.array_equal(found.pixels, before.pixels[1:15])
    assert found.labels[0] == 1 and found.file_names == before.file_names[1:15]
