"""Small copies of pictures beside a recording: they equal the pictures, and a damaged sheet is one error."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from lps.analysis import labels
from lps.data import sources
from lps.errors import UserError
from lps.interop.recording import record_run
from lps.store import thumbnails
from lps.store.snapshots import read_split
from tests import sample_runs


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return sample_runs.make_run(tmp_path_factory.mktemp("runs"), "finished", epochs=2)


@pytest.fixture
def recorded(source, tmp_path):
    return record_run(source, tmp_path, "Shown", with_pictures=True)


def test_a_recording_shows_the_pictures_of_its_run(source, recorded):
    split, targets = read_split(recorded.folder)
    whole, found = sources.images_of(source.config()), labels.load_pictures(recorded, split, targets)
    assert found.pixels.shape == (*whole.pixels.shape[:3], 3) and found.class_names == whole.class_names
    assert np.array_equal(found.labels, whole.labels) and found.num_test == len(split.test)
    apart = np.abs(found.pixels[split.training].astype(int) - whole.pixels[split.training]).mean((1, 2, 3))
    others = np.abs(found.pixels[split.training].astype(int) - whole.pixels[np.roll(split.training, 1)]).mean((1, 2, 3))
    assert apart.max() < 30 and np.median(apart) < np.median(others) / 3


def test_nobody_needs_the_data_set(recorded, monkeypatch):
    def absent(config):
        raise UserError("dataset", "is not here")

    monkeypatch.setattr(sources, "images_of", absent)
    assert len(labels.load_pictures(recorded, *read_split(recorded.folder)).pixels)


def test_without_being_asked_no_picture_comes_along(source, tmp_path):
    made = record_run(source, tmp_path)
    assert not (made.folder / thumbnails.FILE).exists() and not thumbnails.has_thumbnails(made)


@pytest.mark.slow
def test_large_pictures_become_small_in_their_proportions(source, tmp_path):
    split, targets = read_split(source.folder)
    images = sources.images_of(source.config())
    wide = np.repeat(np.repeat(images.pixels, 6, 1), 12, 2)
    folder = sample_runs.make_run(tmp_path, "finished", epochs=1).folder
    thumbnails.write_thumbnails(folder, replace(images, pixels=wide), split)
    with Image.open(folder / thumbnails.FILE) as sheet:
        assert sheet.width == thumbnails.ACROSS * thumbnails.SIDE
        assert sheet.height == -(-len(split.training) // thumbnails.ACROSS) * thumbnails.SIDE // 2


def test_too_many_are_refused_and_leave_nothing(source, tmp_path, monkeypatch):
    monkeypatch.setattr(thumbnails, "MAX_THUMBNAILS", 10)
    with pytest.raises(UserError, match="would be 1,797 pictures; expected at most 10"):
        record_run(source, tmp_path, with_pictures=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["cut", "empty", "text", pytest.param("large", marks=pytest.mark.slow), "another"])
def test_a_damaged_sheet_is_told_in_a_sentence(recorded, damage):
    path = recorded.folder / thumbnails.FILE
    data = path.read_bytes()
    if damage == "large":  # 12,000 x 12,000 pixels in few bytes: told by the head
        Image.new("RGB", (12_000, 12_000)).save(path, "WEBP", lossless=True)
    elif damage == "another":
        Image.new("RGB", (50, 50)).save(path, "WEBP")
    else:
        path.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "text": b"RIFF no picture"}[damage])
    with pytest.raises(UserError, match="thumbnails.webp: is damaged"):
        labels.load_pictures(recorded, *read_split(recorded.folder))


@pytest.mark.slow
def test_a_sheet_beside_very_many_images_takes_no_memory(recorded):
    """Those without a picture would be grey ones of 3 kB each."""
    split, targets = read_split(recorded.folder)
    many = np.concatenate([targets, np.full(2_000_000, -1)])
    with pytest.raises(UserError, match=r"has 2,\d{3},\d{3} images; expected at most 50,000"):
        thumbnails.read_thumbnails(recorded, split, many)
