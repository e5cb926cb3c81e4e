"""Data sets: the content of files that these tests make, and the error for every fault in them."""

import hashlib
import io
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from lps import datasets
from lps.data import sources
from lps.datasets import Images, _torchvision, folder
from lps.datasets.readers import decoding, picture_cache, pictures
from lps.errors import UserError
from lps.settings import catalog
from lps.settings.config import configure

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def noise():
    return np.random.default_rng(7)


# one .npz


@pytest.fixture
def good(noise):
    return {
        "x_train": noise.integers(0, 256, (8, 6, 5, 3), np.uint8),
        "y_train": np.array([0, 1, 2, -1, 0, 1, 2, -1], np.int8),
        "x_test": noise.integers(0, 256, (3, 6, 5, 3), np.uint8),
        "y_test": np.array([2, 1, 0], np.uint8),
        "class_names": np.array(["ant", "bee", "cow"]),
    }


def save(path: Path, arrays: dict, write=np.savez) -> str:
    write(path, **arrays)
    return str(path)


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_arrays_come_back_with_the_test_images_last(tmp_path, good, write):
    images = sources.load("arrays", save(tmp_path / "a.npz", good, write))
    assert np.array_equal(images.pixels, np.concatenate([good["x_train"], good["x_test"]]))
    assert images.labels.tolist() == [0, 1, 2, -1, 0, 1, 2, -1, 2, 1, 0] and images.labels.dtype == np.int64
    assert images.num_test == 3 and images.class_names == ("ant", "bee", "cow")


def test_grey_arrays_get_a_channel_and_classes_their_numbers(tmp_path, good):
    grey = {"x_train": good["x_train"][..., 0], "y_train": good["y_train"]}
    images = sources.load("arrays", save(tmp_path / "a.npz", grey))
    assert images.pixels.shape == (8, 6, 5, 1) and images.num_test == 0
    assert images.class_names == ("0", "1", "2")


def without(*names):
    return lambda a: {k: v for k, v in a.items() if k not in names}


def changed(**values):
    return lambda a: a | {k: np.asarray(v(a[k]) if callable(v) else v) for k, v in values.items()}


WRONG = [
    (without("x_train"), "the file has no x_train"),
    (without("y_train"), "the file has no y_train"),
    (without("y_test"), "the file has x_test but no y_test"),
    (without("x_test"), "the file has y_test but no x_test"),
    (changed(x_train=lambda x: x / 255), "x_train holds float64; expected uint8"),
    (changed(x_train=lambda x: x[0]), r"x_train has the shape \(6, 5, 3\).*y_train|x_train has 6 images and y_train 8"),
    (changed(x_train=lambda x: x.transpose(0, 3, 1, 2)), r"x_train has the shape \(8, 3, 6, 5\)"),
    (changed(x_train=lambda x: x[:, :0]), r"x_train has the shape \(8, 0, 5, 3\)"),
    (changed(x_train=lambda x: x.reshape(8, -1)), r"x_train has the shape \(8, 90\)"),
    (changed(x_train=lambda x: x[:5]), "x_train has 5 images and y_train 8 labels"),
    (changed(x_test=lambda x: x[:, :4]), r"images of x_test have the shape \(4, 5, 3\), those of x_train \(6, 5, 3\)"),
    (changed(y_train=lambda y: y.astype(float)), "y_train is float64 of the shape"),
    (changed(y_train=lambda y: np.eye(3, dtype=int)[y]), r"y_train is int64 of the shape \(8, 3\)"),
    (changed(y_train=lambda y: y - 1), "y_train holds -2; expected -1"),
    (changed(y_train=lambda y: 0 * y - 1), "y_train has no known class"),
    (changed(y_train=lambda y: y.astype(int) * 10**12), "y_train holds -1000000000000; expected -1"),
    (changed(y_train=[0, 1, 2, 0, 0, 1, 2, 10**12]), "y_train holds 1000000000000; expected class ids"),
    (changed(y_train=[0, 2, 2, 0, 0, 2, 2, 0]), r"class 1 \(bee\) has no image in y_train"),
    (changed(class_names=["ant", "bee"]), "class_names has 2 names, but y_train has class ids up to 2"),
    (changed(class_names=["ant", "bee", "cow", "dog"]), r"class 3 \(dog\) has no image"),
    (changed(class_names=[1, 2, 3]), "class_names is int64 of the shape"),
    (changed(y_test=[0, 1, 3]), "y_test holds class 3; expected only classes of y_train, 0 to 2"),
    (changed(x_train=lambda x: x[:0], y_train=lambda y: y[:0]), "x_train has no images"),
]


@pytest.mark.parametrize("spoil, sentence", WRONG, ids=[sentence[:40] for _, sentence in WRONG])
def test_whatever_is_wrong_with_arrays_is_one_sentence(tmp_path, good, spoil, sentence):
    path = save(tmp_path / "a.npz", spoil(good))
    with pytest.raises(UserError, match=f"dataset.path: ({sentence})") as caught:
        sources.load("arrays", path)
    assert "\n" not in str(caught.value)


def test_files_that_are_no_archive_and_damaged_ones(tmp_path, good):
    with pytest.raises(UserError, match="dataset.path: nothing is given"):
        sources.load("arrays")
    with pytest.raises(UserError, match="does not exist"):
        sources.load("arrays", str(tmp_path / "none.npz"))
    with pytest.raises(UserError, match="is not a file"):
        sources.load("arrays", str(tmp_path))
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(UserError, match="is not a .npz file"):
        sources.load("arrays", str(tmp_path / "text.npz"))
    whole = Path(save(tmp_path / "whole.npz", good)).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="damaged"):
        sources.load("arrays", str(tmp_path / "cut.npz"))
    spot = whole.index(good["x_train"].tobytes()[:64])
    (tmp_path / "flipped.npz").write_bytes(whole[:spot] + bytes([whole[spot] ^ 1]) + whole[spot + 1 :])
    with pytest.raises(UserError, match="damaged.*CRC"):
        sources.load("arrays", str(tmp_path / "flipped.npz"))


def test_no_objects_are_unpacked_and_no_header_is_believed(tmp_path, good):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    objects = good | {"class_names": np.array([Trap(), 2, 3], object)}
    with pytest.raises(UserError, match="class_names has Python objects"):
        sources.load("arrays", save(tmp_path / "objects.npz", objects))
    assert not (tmp_path / "sprung").exists()
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (10**12, 32, 32, 3)})
    with zipfile.ZipFile(save(tmp_path / "bomb.npz", {"y_train": good["y_train"]}), "a") as archive:
        archive.writestr("x_train.npy", header.getvalue())
    with pytest.raises(UserError, match="x_train is not as long as its header says"):
        sources.load("arrays", str(tmp_path / "bomb.npz"))


def test_arrays_beyond_the_limit_are_refused_before_they_are_unpacked(tmp_path, good, monkeypatch):
    from lps.datasets import arrays

    monkeypatch.setattr(arrays.memory, "free_memory", lambda: (700, False))
    monkeypatch.setattr("lps.datasets.readers.array_file.ArrayFile.read", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(UserError, match="x_train takes .* expected at most"):
        sources.load("arrays", save(tmp_path / "a.npz", good))


def test_a_file_that_changed_is_read_again(tmp_path, good):
    path = save(tmp_path / "a.npz", good)
    first = sources.load("arrays", path)
    assert sources.load("arrays", path) is first
    save(tmp_path / "a.npz", good | {"x_train": 255 - good["x_train"]})
    os.utime(path, ns=(1, 1))
    assert np.array_equal(sources.load("arrays", path).pixels[:8], 255 - good["x_train"])


# size and subset


def test_the_number_of_classes_that_a_data_set_states_is_that_of_its_images():
    known = {name: catalog.dataset_info(name).classes for name in catalog.dataset_names()}
    assert known["digits"] == sources.load("digits").num_classes
    assert [name for name, count in known.items() if count is None] == ["arrays", "embeddings", "folder", "shards"]


def test_a_subset_has_so_many_of_every_class_and_keeps_the_order():
    labels = np.array([0] * 9 + [1] * 2 + [-1] * 20 + [0] * 5 + [1] * 5)
    ids = np.arange(len(labels), dtype=np.uint8)
    names = tuple(f"{i}.png" for i in ids)
    images = Images(ids[:, None, None, None], labels, ("a", "b"), 10, (), names)
    found = datasets.take(images, datasets.subset_ids(images, 3, seed=0))
    kept = found.pixels[:, 0, 0, 0]
    assert (np.diff(kept.astype(int)) > 0).all() and np.array_equal(found.labels, labels[kept])
    assert found.num_test == 6 and found.file_names == tuple(names[i] for i in kept)
    training, test = found.labels[:-6], found.labels[-6:]
    assert [(training == c).sum() for c in (0, 1, -1)] == [3, 2, 6] and [(test == c).sum() for c in (0, 1)] == [3, 3]
    assert np.array_equal(datasets.take(images, datasets.subset_ids(images, 3, seed=0)).pixels, found.pixels)
    assert not np.array_equal(datasets.take(images, datasets.subset_ids(images, 3, seed=1)).pixels, found.pixels)
    assert np.array_equal(datasets.take(images, datasets.subset_ids(images, 100, seed=0)).pixels, images.pixels)


def test_the_settings_of_a_run_choose_its_images():
    config = configure({"dataset.images_per_class": 20, "dataset.image_size": 16, "split.seed": 3})
    images = sources.images_of(config)
    assert images.pixels.shape == (200, 16, 16, 1) and (np.bincount(images.labels) == 20).all()
    assert sources.load_arguments(config) == ("digits", None, 16, 20, 3, None)
    # Without a subset every split shares the images
    assert sources.load_arguments(configure({"split.seed": 3})).seed == 0


def test_resizing_keeps_the_centre_and_the_colours(tmp_path):
    wide = np.zeros((2, 10, 30, 3), np.uint8)
    wide[:, :, 10:20] = RED  # the centre square; the sides are black
    path = save(tmp_path / "a.npz", {"x_train": wide, "y_train": np.array([0, 1])})
    for size in (10, 20):
        pixels = sources.load("arrays", path, size).pixels
        assert pixels.shape == (2, size, size, 3) and (pixels[:, 2:-2, 2:-2] == RED).all()


def test_many_resized_images_are_made_once(good, tmp_path, cache, monkeypatch):
    path = save(tmp_path / "a.npz", good)
    in_memory = sources.load("arrays", path, 12)
    assert not cache.exists()
    monkeypatch.setattr(pictures, "IN_MEMORY", 0)
    sources._load.cache_clear()
    on_disk = sources.load("arrays", path, 12)
    assert np.array_equal(on_disk.pixels, in_memory.pixels) and isinstance(on_disk.pixels, np.memmap)
    assert on_disk.num_test == 3 and on_disk.class_names == in_memory.class_names
    sources._load.cache_clear()
    monkeypatch.setattr(pictures, "resize_pixels", lambda *_: pytest.fail("made again"))
    assert np.array_equal(sources.load("arrays", path, 12).pixels, in_memory.pixels)


# a folder of pictures


def draw(path: Path, color=RED, size=(20, 20), mode="RGB", **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).convert(mode).save(path, **options)
    return path


@pytest.fixture
def animals(tmp_path) -> Path:
    root = tmp_path / "animals"
    draw(root / "cat/1.png", RED, (40, 20))
    draw(root / "cat/deep/2.JPG", RED, (17, 90), quality=95)
    draw(root / "dog/1.bmp", GREEN)
    draw(root / "dog/2.webp", GREEN, (9, 9), lossless=True)
    draw(root / "dog/.hidden.png", WHITE)
    draw(root / ".git/1.png", WHITE)
    draw(root / "unlabeled/1.gif", BLUE)
    draw(root / "unlabeled/2.tiff", BLUE)
    draw(root / "unlabeled/3.ppm", BLUE)
    draw(root / "test/dog/1.png", GREEN)
    return root


def test_a_folder_becomes_squares_with_labels(animals):
    images = sources.load("folder", str(animals), 16)
    assert images.class_names == ("cat", "dog") and images.num_test == 1 and images.skipped == ()
    assert images.labels.tolist() == [0, 0, 1, 1, -1, -1, -1, 1]
    assert images.file_names[:2] == ("cat/1.png", "cat/deep/2.JPG") and images.file_names[-1] == "test/dog/1.png"
    colors = np.array([RED, RED, GREEN, GREEN, BLUE, BLUE, BLUE, GREEN])
    assert images.pixels.shape == (8, 16, 16, 3) and images.pixels.dtype == np.uint8
    assert np.abs(images.pixels.astype(int) - colors[:, None, None]).max() <= 3  # JPEG is off by a little


def test_what_cannot_be_used_is_listed(animals):
    (animals / "cat/3.png").write_bytes(b"no picture")
    whole = draw(animals / "cat/4.png", RED, (300, 300)).read_bytes()
    (animals / "cat/4.png").write_bytes(whole[: len(whole) // 2])
    (animals / "cat/empty.jpg").touch()
    (animals / "cat/photo.heic").write_bytes(b"ftypheic")
    (animals / "readme.txt").write_text("x")
    (animals / "dog/lost.png").symlink_to(animals / "nowhere")
    (animals / "dog/again").symlink_to(animals)
    os.mkfifo(animals / "dog/pipe.png")
    images = sources.load("folder", str(animals), 16)
    reasons = dict(images.skipped)
    assert {name for name in reasons if "again" not in name} == {
        "cat/3.png", "cat/4.png", "cat/empty.jpg", "cat/photo.heic", "readme.txt", "dog/lost.png", "dog/pipe.png",
    }  # fmt: skip
    assert "cannot be decoded" in reasons["cat/4.png"] and "known format" in reasons["cat/photo.heic"]
    assert "not a regular file" in reasons["dog/pipe.png"] and "known format" in reasons["readme.txt"]
    assert "already read" in reasons["dog/again"]
    assert np.bincount(images.labels[images.labels >= 0])[0] == 2  # a cat that is broken does not move the others
    assert len(images.pixels) == len(images.labels) == len(images.file_names)


@pytest.mark.parametrize("with_folder", [True, False])
def test_pictures_beside_the_folders_of_classes_are_unlabeled_ones(animals, with_folder):
    if not with_folder:
        shutil.rmtree(animals / "unlabeled")
    before = 0 if not with_folder else sources.load("folder", str(animals), 16).labels.tolist().count(-1)
    for number in range(3):
        draw(animals / f"loose-{number}.png", WHITE)
    images = sources.load("folder", str(animals), 16)
    training = len(images.labels) - images.num_test
    assert images.labels[:training].tolist().count(-1) == before + 3 and not images.skipped
    assert list(images.file_names[training - 3 : training]) == [f"loose-{number}.png" for number in range(3)]
    assert images.class_names == ("cat", "dog") and folder.glance(str(animals), 4, 16).unlabeled == before + 3


def test_a_folder_is_decoded_once_until_it_changes(animals, cache, monkeypatch):
    first = sources.load("folder", str(animals), 16)
    assert isinstance(first.pixels, np.memmap) and not first.pixels.flags.writeable
    sources._load.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(pictures, "decode", lambda *_: pytest.fail("decoded again"))
        again = sources.load("folder", str(animals), 16)
    assert np.array_equal(again.pixels, first.pixels) and again.file_names == first.file_names
    draw(animals / "cat/1.png", WHITE)
    sources._load.cache_clear()
    assert (sources.load("folder", str(animals), 16).pixels[0] == 255).all()
    assert len(list(cache.glob("pictures/*/*"))) == 1  # the old content is gone
    assert (first.pixels[0] == RED).all()  # but not for those who still look at it


def test_damage_to_what_is_kept_is_mended(animals, cache):
    first = np.array(sources.load("folder", str(animals), 16).pixels)
    (kept,) = cache.glob("pictures/*/*")
    for spoil in (
        lambda: os.truncate(kept / "pixels.u8", 100),
        lambda: (kept / "facts.json").write_text("{"),
        lambda: (kept / "labels.npy").write_bytes(b"x"),
        lambda: (kept / "labels.npy").unlink(),
    ):
        spoil()
        sources._load.cache_clear()
        assert np.array_equal(sources.load("folder", str(animals), 16).pixels, first)


def test_a_failure_leaves_nothing_half_made(animals, cache, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(picture_cache.Writer, "add", fail)
    with pytest.raises(UserError, match=r"cannot be stored in .*No space left.*LPS_CACHE"):
        sources.load("folder", str(animals), 16)
    assert not list(cache.glob("pictures/*/*"))


def test_a_disk_that_is_too_small_is_noticed_first(animals, monkeypatch):
    decoded = sources.load("folder", str(animals), 16).pixels[:]
    shutil.rmtree(picture_cache.cache_folder())
    sources._load.cache_clear()
    monkeypatch.setattr(picture_cache.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(UserError, match="cannot be stored in .*GB are needed"):
        picture_cache.cached_images(("arrays", "x.npz"), "now", lambda writer: pytest.fail("decoded"), space=1001)
    assert np.array_equal(sources.load("folder", str(animals), 16).pixels[:], decoded)  # read from their files
    assert not list(picture_cache.cache_folder().glob("pictures/**/pixels.u8"))


def test_folders_that_make_no_data_set(tmp_path, animals):
    for path, sentence in (
        (None, "nothing is given"),
        (str(tmp_path / "no"), "does not exist"),
        (__file__, "is a file"),
    ):
        with pytest.raises(UserError, match=f"dataset.path: .*{sentence}.*expected a folder"):
            sources.load("folder", path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="has no classes; expected one sub-folder per class"):
        sources.load("folder", str(tmp_path / "empty"))
    (animals / "eel").mkdir()
    with pytest.raises(UserError, match="class 'eel' has no picture"):
        sources.load("folder", str(animals))
    (animals / "eel/1.png").touch()
    with pytest.raises(UserError, match="class 'eel' has no readable training picture"):
        sources.load("folder", str(animals))
    draw(animals / "eel/1.png")
    draw(animals / "test/frog/1.png")
    with pytest.raises(UserError, match="test has a class 'frog' that has no training pictures"):
        sources.load("folder", str(animals))


@pytest.mark.parametrize("name", ["unlabeled", "unlabelled", "_unlabeled", "Unlabeled"])
def test_the_word_unlabeled_is_read_generously(tmp_path, name):
    draw(tmp_path / "x/cat/1.png")
    draw(tmp_path / "x" / name / "1.png")
    assert sources.load("folder", str(tmp_path / "x"), 8).labels.tolist() == [0, -1]


# what a picture file can hold


def test_the_camera_may_have_been_turned(tmp_path):
    image = Image.new("RGB", (20, 20), RED)
    image.paste(BLUE, (0, 0, 20, 10))  # blue above red
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise: what is above goes right
    image.save(tmp_path / "a.png", exif=exif)
    pixels = decoding.decode(tmp_path / "a.png", 8)
    assert (pixels[:, :3] == RED).all() and (pixels[:, 5:] == BLUE).all()


def test_transparent_parts_become_white(tmp_path):
    for mode, name in (("RGBA", "a.png"), ("LA", "b.png"), ("P", "c.gif")):
        image = Image.new("RGBA", (16, 16), (0, 0, 0, 0))
        image.paste((0, 0, 0, 255), (0, 0, 16, 8))
        (image if mode == "P" else image.convert(mode)).save(tmp_path / name)
        assert Image.open(tmp_path / name).mode == mode
        pixels = decoding.decode(tmp_path / name, 16)
        assert (pixels[:7] == 0).all() and (pixels[9:] == 255).all(), mode


def test_palettes_greys_and_printing_colours_become_rgb(tmp_path):
    draw(tmp_path / "p.png", (0, 204, 51), mode="P")  # one of the palette that Pillow takes
    draw(tmp_path / "l.png", (77, 77, 77), mode="L")
    draw(tmp_path / "one.png", WHITE, mode="1")
    draw(tmp_path / "cmyk.tif", (0, 255, 0), mode="CMYK")
    expected = {"p.png": (0, 204, 51), "l.png": (77, 77, 77), "one.png": WHITE, "cmyk.tif": GREEN}
    for name, color in expected.items():
        assert (decoding.decode(tmp_path / name, 8) == color).all(), name


def test_sixteen_bit_greys_keep_their_upper_half(tmp_path):
    values = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    for name in ("a.png", "a.tif"):
        Image.fromarray(values).save(tmp_path / name)
        assert np.array_equal(decoding.decode(tmp_path / name, 8)[..., 1], values >> 8)
    Image.fromarray(values.astype(np.float32)).save(tmp_path / "f.tif")
    with pytest.raises(decoding.Unreadable, match="not whole numbers"):
        decoding.decode(tmp_path / "f.tif", 8)


def test_the_first_of_several_frames_is_taken(tmp_path):
    frames = [Image.new("RGB", (9, 9), color) for color in (RED, BLUE)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert (decoding.decode(tmp_path / "a.gif", 8) == RED).all()


def test_the_short_side_fits_and_the_centre_stays(tmp_path):
    image = Image.new("RGB", (600, 200), BLUE)
    image.paste(RED, (200, 0, 400, 200))
    for name in ("a.png", "a.jpg"):  # a JPEG is decoded at a fraction of its size
        image.save(tmp_path / name, quality=95)
        pixels = decoding.decode(tmp_path / name, 16).astype(int)
        assert np.abs(pixels[:, 2:-2] - RED).max() <= 3


def test_pictures_that_would_fill_the_memory_are_not_decoded(tmp_path, monkeypatch):
    draw(tmp_path / "a.png", size=(100, 100))
    for limit in (9_999, 4_000):  # above the limit, and above twice the limit, where Pillow itself refuses
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(decoding.Unreadable):
            decoding.decode(tmp_path / "a.png", 8)


def test_a_format_hidden_behind_another_ending_is_not_opened(tmp_path):
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EOF\n")
    with pytest.raises(decoding.Unreadable):
        decoding.decode(tmp_path / "a.png", 8)


# ImageNet-100


def imagenet(root: Path, count: int) -> list[str]:
    names = [f"n{i:08d}" for i in range(count)]
    for i, name in enumerate(names):
        draw(root / "train" / name / "1.png", (i, i, i), (8, 8))
    draw(root / "val" / names[3] / "1.png", (3, 3, 3), (8, 8))
    return names


def test_a_hundred_folders_or_a_list_of_a_hundred(tmp_path):
    names = imagenet(tmp_path, 100)
    images = sources.load("imagenet100", str(tmp_path), 8)
    assert images.class_names == tuple(names) and images.num_test == 1 and images.labels[-1] == 3
    listed = names[::-1]
    (tmp_path / "classes.txt").write_text("\n".join(f"{name} what it shows" for name in listed) + "\n")
    images = sources.load("imagenet100", str(tmp_path), 8)
    assert images.class_names == tuple(listed) and images.labels[-1] == 96
    assert (images.pixels[:100, 0, 0, 0] == np.arange(100)[::-1]).all()


def test_pictures_of_imagenet_are_kept_whole_bilinear_and_with_their_sizes(tmp_path):
    names = imagenet(tmp_path, 100)
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 50, 3), np.uint8))
    noise.save(tmp_path / "train" / names[0] / "1.png")
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.new("RGB", (600, 400), RED).save(tmp_path / "train" / names[1] / "1.jpg", exif=turned, quality=95)
    (tmp_path / "train" / names[1] / "1.png").unlink()
    (tmp_path / "train" / names[2] / "0.png").write_bytes(b"no picture")
    for _ in range(2):  # decoded, then read
        images = sources.load("imagenet100", str(tmp_path), 16)
        assert images.sizes.tolist()[:3] == [[30, 50], [600, 400], [8, 8]] and images.sizes.shape == (101, 2)
        assert np.array_equal(images.pixels[0], np.asarray(noise.resize((16, 16), Image.Resampling.BILINEAR)))
        assert np.abs(images.pixels[1].astype(int) - RED).max() <= 3
        sources._load.cache_clear()
    assert sources.load("imagenet100", str(tmp_path), 16, 1).sizes.shape == (101, 2)
    (found,) = Path(os.environ["LPS_CACHE"]).rglob("sizes.npy")
    np.save(found, np.zeros((101, 2), np.int64))
    sources._load.cache_clear()
    assert sources.load("imagenet100", str(tmp_path), 16).sizes[0].tolist() == [30, 50]  # damaged: decoded again


def test_lists_and_folders_that_do_not_fit(tmp_path):
    with pytest.raises(UserError, match="dataset.path: .*train' does not exist; expected a folder with train"):
        sources.load("imagenet100", str(tmp_path))
    names = imagenet(tmp_path, 101)
    with pytest.raises(UserError, match="train has 101 classes; expected 100, or a file classes.txt"):
        sources.load("imagenet100", str(tmp_path), 8)
    for text, sentence in (
        (names[:99], "names 99 classes in 99 lines"),
        (names[:99] + names[:1], "names 99 classes in 100 lines"),
        (names[:99] + ["../train"], "names '../train', which is not a folder"),
    ):
        (tmp_path / "classes.txt").write_text("\n".join(text))
        with pytest.raises(UserError, match=sentence):
            sources.load("imagenet100", str(tmp_path), 8)


# torchvision's


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def write_pickle(path: Path, value) -> list[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(value))
    return [path.name, md5(path)]


def cifar(root: Path, monkeypatch, noise, name="CIFAR10") -> tuple[np.ndarray, list[int]]:
    """A folder as torchvision wants it, with checksums to match. Gives the pixels (n, 32, 32, 3) and the labels."""
    from torchvision import datasets as theirs

    kind = getattr(theirs, name)
    folder, key = root / kind.base_folder, "fine_labels" if name == "CIFAR100" else "labels"
    parts, labels = [], []
    lists = {"train_list": [], "test_list": []}
    for attribute in lists:
        for file, _ in getattr(kind, attribute):
            flat = noise.integers(0, 256, (4, 3072), np.uint8)
            own = noise.integers(0, 10, 4).tolist()
            lists[attribute].append(write_pickle(folder / file, {"data": flat, key: own}))
            parts.append(flat.reshape(4, 3, 32, 32).transpose(0, 2, 3, 1))
            labels += own
    names = {kind.meta["key"]: [f"class {i}" for i in range(10)]}
    meta = kind.meta | {"md5": write_pickle(folder / kind.meta["filename"], names)[1]}
    for attribute, value in (lists | {"meta": meta}).items():
        monkeypatch.setattr(kind, attribute, value)
    return np.concatenate(parts), labels


@pytest.mark.parametrize("name, kind, test", [("cifar10", "CIFAR10", 4), ("cifar100", "CIFAR100", 4)])
def test_cifar_from_an_existing_folder(tmp_path, monkeypatch, noise, name, kind, test):
    pixels, labels = cifar(tmp_path, monkeypatch, noise, kind)
    images = sources.load(name, str(tmp_path))
    assert np.array_equal(images.pixels, pixels) and images.labels.tolist() == labels
    assert images.num_test == test and images.class_names == tuple(f"class {i}" for i in range(10))
    inner = next(path for path in tmp_path.iterdir() if path.name.startswith("cifar"))
    assert np.array_equal(sources.load(name, str(inner)).pixels, pixels)
    assert (sources.load(name, str(tmp_path), None, 1).labels.size) <= 20


def test_what_was_read_once_needs_no_torch(tmp_path, monkeypatch, noise, cache):
    cifar(tmp_path, monkeypatch, noise)
    images = sources.load("cifar10", str(tmp_path))
    code = f"""
import sys
from lps.data import sources
images = sources.load("cifar10", {str(tmp_path)!r})
assert int(images.pixels.sum()) == {int(images.pixels.sum())}
assert "torch" not in sys.modules and "PIL" not in sys.modules
"""
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, env=os.environ | {"LPS_CACHE": str(cache)})


def test_a_damaged_cifar_is_one_sentence(tmp_path, monkeypatch, noise):
    cifar(tmp_path, monkeypatch, noise)
    with open(tmp_path / "cifar-10-batches-py/data_batch_3", "ab") as file:
        file.write(b"x")
    with pytest.raises(UserError, match="CIFAR-10 in .* is damaged or incomplete") as caught:
        sources.load("cifar10", str(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.fixture
def served(monkeypatch):
    """Gives folders to the network, that is to this machine alone: folder -> address."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    servers = []

    def serve(folder: Path) -> str:
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))))
        Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.mark.slow
def test_a_download_is_checked_and_unpacked(tmp_path, monkeypatch, noise, cache, served):
    from torchvision import datasets as theirs

    pixels, _ = cifar(tmp_path / "there", monkeypatch, noise)
    archive = tmp_path / "cifar.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(tmp_path / "there/cifar-10-batches-py", "cifar-10-batches-py")
    monkeypatch.setattr(theirs.CIFAR10, "url", f"{served(tmp_path)}/{archive.name}")
    with pytest.raises(UserError, match="could not be downloaded .*corrupted"):  # the checksum is of the real one
        sources.fetch("cifar10")
    monkeypatch.setattr(theirs.CIFAR10, "tgz_md5", md5(archive))
    with pytest.raises(UserError, match="CIFAR-10 is not on this machine; .*--fetch cifar10"):
        sources.load("cifar10")
    sources.fetch("cifar10")
    assert np.array_equal(sources.load("cifar10").pixels, pixels)
    archive.unlink()
    sources.fetch("cifar10")  # it is there: nothing is asked of the network
    assert (cache / "downloads/cifar10/cifar-10-batches-py").is_dir()


@pytest.mark.parametrize("name", "cifar10 cifar100 mnist fashion_mnist stl10 svhn".split())
def test_without_files_and_network_there_is_one_sentence(name, tmp_path, monkeypatch):
    title = catalog.dataset_info(name).title
    with pytest.raises(UserError, match=f"{title} is not on this machine; .*--fetch {name}.* dataset.path"):
        sources.load(name)
    with pytest.raises(UserError, match=f"does not contain {title}"):
        sources.load(name, str(tmp_path))
    with pytest.raises(UserError, match="is not a folder"):
        sources.load(name, str(tmp_path / "no"))
    with pytest.raises(UserError, match="is not a folder"):
        sources.fetch(name, str(tmp_path / "no"))

    def offline(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(_torchvision.Remote, "_open", offline)
    with pytest.raises(UserError, match=f"{title} could not be downloaded .no network.; set dataset.path"):
        sources.fetch(name)


def write_idx(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack(f">HBB{values.ndim}i", 0, 8, values.ndim, *values.shape) + values.tobytes())


@pytest.mark.parametrize("name, folder", [("mnist", "MNIST"), ("fashion_mnist", "FashionMNIST")])
def test_mnist_and_fashion_mnist(tmp_path, noise, name, folder):
    raw = tmp_path / folder / "raw"
    pixels, labels = noise.integers(0, 256, (6, 28, 28), np.uint8), np.array([9, 0, 3, 1, 2, 4], np.uint8)
    for part, rows in (("train", slice(0, 4)), ("t10k", slice(4, 6))):
        write_idx(raw / f"{part}-images-idx3-ubyte", pixels[rows])
        write_idx(raw / f"{part}-labels-idx1-ubyte", labels[rows])
    images = sources.load(name, str(raw))
    assert np.array_equal(images.pixels[..., 0], pixels) and images.labels.tolist() == labels.tolist()
    assert images.num_test == 2 and images.class_names[9] == {"mnist": "9", "fashion_mnist": "Ankle boot"}[name]
    write_idx(raw / "train-labels-idx1-ubyte", labels[:3])
    sources._load.cache_clear()
    with pytest.raises(UserError, match="damaged or incomplete .4 images and 3 labels"):
        sources.load(name, str(raw))


def test_svhn_calls_ten_a_zero(tmp_path, monkeypatch, noise):
    from torchvision.datasets import SVHN

    pixels, labels = noise.integers(0, 256, (5, 32, 32, 3), np.uint8), np.array([10, 1, 9, 10, 2])
    for part, rows in (("train", slice(0, 3)), ("test", slice(3, 5))):
        path = tmp_path / f"{part}_32x32.mat"
        savemat(path, {"X": pixels[rows].transpose(1, 2, 3, 0), "y": labels[rows, None]})
        monkeypatch.setitem(SVHN.split_list, part, ["", path.name, md5(path)])
    images = sources.load("svhn", str(tmp_path))
    assert np.array_equal(images.pixels, pixels) and images.labels.tolist() == [0, 1, 9, 0, 2]
    assert images.num_test == 2 and images.class_names[0] == "0"


def test_stl10_is_its_labeled_part(tmp_path, monkeypatch, noise):
    from torchvision.datasets import STL10

    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    pixels, labels = noise.integers(0, 256, (4, 96, 96, 3), np.uint8), np.array([1, 10, 3, 2], np.uint8)
    columns_first = pixels.transpose(0, 3, 2, 1)
    for part, rows in (("train", slice(0, 3)), ("test", slice(3, 4))):
        (folder / f"{part}_X.bin").write_bytes(columns_first[rows].tobytes())
        (folder / f"{part}_y.bin").write_bytes(labels[rows].tobytes())
    (folder / "unlabeled_X.bin").write_bytes(columns_first[:2].tobytes())
    (folder / "class_names.txt").write_text("\n".join(f"thing {i}" for i in range(10)))
    for attribute in ("train_list", "test_list"):
        sums = [[file, md5(folder / file)] for file, _ in getattr(STL10, attribute)]
        monkeypatch.setattr(STL10, attribute, sums)
    images = sources.load("stl10", str(tmp_path))
    assert np.array_equal(images.pixels, pixels) and images.labels.tolist() == [0, 9, 2, 1]
    assert images.num_test == 1 and images.class_names[9] == "thing 9"


# the registry


@pytest.mark.parametrize("name", catalog.dataset_names())
def test_every_recipe_can_be_asked_for(name):
    config = configure({"dataset": name})
    assert {key: config.flat()[key] for key in catalog.dataset_info(name).recipe} == catalog.dataset_info(name).recipe
    assert catalog.dataset_info(name).title and catalog.dataset_info(name).summary.endswith(".")


def test_an_unlabeled_folder_without_pictures_and_equal_class_names_are_refused(animals, tmp_path, good):
    for path in sorted((animals / "unlabeled").rglob("*")):
        path.unlink()
    with pytest.raises(UserError, match="unlabeled.* has no pictures; add some or remove it"):
        sources.load("folder", str(animals), 16)
    names = np.array(["same"] * (int(good["y_train"].max()) + 1))
    with pytest.raises(UserError, match="class_names has 'same' twice"):
        sources.load("arrays", save(tmp_path / "twice.npz", good | {"class_names": names}))
