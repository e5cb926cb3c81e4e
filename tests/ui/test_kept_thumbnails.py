"""Thumbnails on disk: made once, made again for a changed picture, bounded, and never in the way of a page."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from lps.datasets import Images
from lps.datasets.readers.picture_references import PictureReferences
from lps.files import disk
from lps.ui.pictures import gallery, kept_thumbnails
from lps.ui.pictures.kept_thumbnails import keep_pixels, keep_webp, key_of_file, key_of_image


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "thumbnails"


def _files(cache):
    return sorted(cache.rglob("*.webp"))


def _picture(value=90, size=(60, 40)):
    return np.full((size[1], size[0], 3), value, np.uint8), (size[1], size[0])


def _never():
    raise AssertionError("it is made again")


def _fail():
    raise OSError("no thumbnail")


def test_a_thumbnail_is_made_once_and_has_the_picture_s_own_sides(cache):
    first, sides = keep_pixels(("a", 1), _picture)
    again, kept_sides = keep_pixels(("a", 1), _never)
    assert sides == kept_sides == (40, 60) and np.array_equal(first, again) and abs(int(first.mean()) - 90) <= 2
    (path,) = _files(cache)
    assert Image.open(path).format == "WEBP" and path.stat().st_mode & 0o077 == 0


def test_pixels_and_size_name_a_thumbnail_and_not_the_run():
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3)).astype(np.uint8)
    images = Images(pixels, np.zeros(3, np.int64), ("a",))
    others = Images(pixels[::-1].copy(), np.zeros(3, np.int64), ("a",))
    assert key_of_image(images, 0, 96) == key_of_image(others, 2, 96) != key_of_image(images, 1, 96)
    assert key_of_image(images, 0, 96) != key_of_image(images, 0, 144)
    squeezed = Images(pixels, images.labels, ("a",), sizes=np.array([[8, 16]] * 3))
    assert key_of_image(images, 0, 96) != key_of_image(squeezed, 0, 96)


def test_a_changed_file_gets_another_thumbnail(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(_picture(10)[0]).save(path)
    images = Images(PictureReferences(tmp_path, ["a.png"], 32), np.zeros(1, np.int64), ("a",))
    before = key_of_file(path, 96), key_of_image(images, 0, 96)
    Image.fromarray(_picture(200)[0]).save(tmp_path / "new.png")
    os.replace(tmp_path / "new.png", path)
    assert key_of_file(path, 96) != before[0] and key_of_image(images, 0, 96) != before[1]


def test_a_sheet_of_pictures_in_files_reads_each_file_once(tmp_path, cache, monkeypatch):
    names = [f"{i}.png" for i in range(5)]
    for i, name in enumerate(names):
        Image.fromarray(_picture(40 * i, (300, 300))[0]).save(tmp_path / name)
    images = Images(PictureReferences(tmp_path, names, 224), np.zeros(5, np.int64), ("a",))
    first = gallery._small_pictures(images, [4, 0, 2], 144)
    assert first.shape == (3, 144, 144, 3) and [abs(int(p.mean()) - v) <= 3 for p, v in zip(first, (160, 0, 80))]
    assert len(_files(cache)) == 3
    monkeypatch.setattr(PictureReferences, "__getitem__", lambda self, row: _never())
    assert np.array_equal(gallery._small_pictures(images, [4, 0, 2], 144), first)


@pytest.mark.parametrize("damage", [b"", b"RIFF", b"\0" * 200, None])
def test_a_damaged_file_is_made_again(cache, damage):
    expected, _ = keep_pixels(("a",), _picture)
    (path,) = _files(cache)
    data = path.read_bytes()
    path.write_bytes(data[:-40] + b"\0" * 40 if damage is None else damage)
    found, sides = keep_pixels(("a",), _picture)
    assert sides == (40, 60) and abs(int(found.mean()) - int(expected.mean())) <= 2


def test_a_disk_that_refuses_costs_only_time(cache, monkeypatch):
    monkeypatch.setattr(disk, "create", lambda *_: _fail())
    assert keep_webp(("a",), lambda: b"made") == b"made" and not _files(cache)


def test_an_unreadable_picture_is_not_kept(cache):
    with pytest.raises(OSError, match="no thumbnail"):
        keep_webp(("a",), _fail)
    assert not _files(cache)


def test_the_oldest_go_first_and_the_rest_stays_within_the_bound(cache, monkeypatch):
    for number in range(20):
        keep_pixels((number,), _picture)
    files = _files(cache)
    for age, path in enumerate(files):
        os.utime(path, (1e9 - age, 1e9 - age))
    each = files[0].stat().st_size
    monkeypatch.setattr(kept_thumbnails, "MAX_BYTES", 10 * each)
    kept_thumbnails.remove_oldest()
    assert _files(cache) == sorted(files[:8])
    kept_thumbnails.remove_oldest()
    assert len(_files(cache)) == 8, "within the bound nothing is removed"


def test_sessions_that_write_at_once_leave_whole_files(cache, monkeypatch):
    keep_pixels((0,), _picture)
    each = _files(cache)[0].stat().st_size
    monkeypatch.setattr(kept_thumbnails, "MAX_BYTES", 10 * each)
    monkeypatch.setattr(kept_thumbnails, "_WRITES_PER_CHECK", 3)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: keep_pixels((number % 40,), _picture)[1], range(200)))
    assert found == [(40, 60)] * 200 and not list(cache.rglob("*.tmp"))
    assert len(_files(cache)) <= 20, "the oldest were removed meanwhile"
