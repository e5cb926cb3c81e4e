"""Folders, pictures and arrays that are made to cost more than they are worth: one sentence, and little memory."""

import io
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image

from lps.data import sources
from lps.datasets import arrays
from lps.datasets.readers.array_file import ArrayFile
from lps.datasets.readers.decoding import Unreadable, decode, squeezed
from lps.datasets.readers.pictures import DEEPEST, Listing
from lps.errors import UserError
from tests.shares import OFFSET, share

# of this very process: what getrusage tells begins with the memory of whoever started it
PEAK_MB = (
    "import pathlib, re; peak = re.search('VmHWM:[^0-9]*([0-9]+)', pathlib.Path('/proc/self/status').read_text()); "
)
PEAK_MB += "print(int(peak[1]) >> 10)"


def test_links_that_loop_are_followed_once(tmp_path):
    """25 folders with two links each to the next one: 2^25 ways."""
    (tmp_path / "cat").mkdir()
    for k in range(25):
        (tmp_path / f"f{k}").mkdir()
        for way in "ab":
            (tmp_path / f"f{k}" / way).symlink_to(tmp_path / f"f{k + 1}")
    (tmp_path / "f25").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "f25" / "x.png")
    (tmp_path / "cat" / "in").symlink_to(tmp_path / "f0")
    listing = Listing(tmp_path)
    assert listing.add(tmp_path / "cat", 0) == 1
    assert {reason for _, reason in listing.skipped} == {"is a link to a folder that was already read"}


def test_a_folder_that_is_too_deep_is_left_out_in_a_sentence(tmp_path):
    here = os.getcwd()
    try:
        os.mkdir(tmp_path / "cat")
        os.chdir(tmp_path / "cat")
        for _ in range(1200):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    Image.new("RGB", (8, 8)).save(tmp_path / "cat" / "x.png")
    listing = Listing(tmp_path)
    try:
        assert listing.add(tmp_path / "cat", 0) == 1
    finally:  # not left to pytest, which takes it for a folder that Python can remove
        subprocess.run(["rm", "-rf", tmp_path / "cat"], check=True)
    assert [reason for _, reason in listing.skipped] == [f"is more than {DEEPEST} folders deep"]


def test_a_head_that_is_too_deep_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    for text in ("(" * 3000, "{'descr': " + "[" * 500 + "]" * 500 + "}", "{'descr': '''"):
        head = io.BytesIO()
        head.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("x_train.npy", head.getvalue())
        with pytest.raises(UserError, match="is damaged") as caught:
            sources.load("arrays", str(tmp_path / "a.npz"))
        assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_an_archive_that_unpacks_to_far_more_than_it_holds_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    np.savez_compressed(tmp_path / "a.npz", x_train=np.zeros((80_000, 32, 32), np.uint8), y_train=np.zeros(80_000, int))
    with pytest.raises(UserError, match="unpacks to 78 MB, more than 200 times its size"):
        sources.load("arrays", str(tmp_path / "a.npz"))


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "I;16", "P"])
def test_a_large_picture_is_that_of_a_small_one(tmp_path, mode, monkeypatch):
    values = np.linspace(0, 255, 400 * 600).reshape(400, 600).astype(np.uint8)
    image = Image.fromarray(values.astype(np.uint16) << 8) if mode == "I;16" else Image.fromarray(values).convert(mode)
    image.save(tmp_path / "x.png")
    whole = decode(tmp_path / "x.png", 16).astype(int)
    monkeypatch.setattr("lps.datasets.readers.decoding.LARGE", 1)
    monkeypatch.setattr("lps.datasets.readers.decoding.STRIP", 10_000)
    assert abs(decode(tmp_path / "x.png", 16) - whole).max() <= 3


def _camera(orientation: int = 6) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


LARGE_PICTURES = {
    "grey.png": ("I;16", {"compress_level": 1}),
    "turned.png": ("RGBA", {"compress_level": 1, "exif": _camera()}),
    "scans.jpg": ("CMYK", {"progressive": True, "exif": _camera()}),
    "packed.tif": ("RGBA", {"compression": "tiff_lzw", "exif": _camera()}),
    "strip.tif": ("RGBA", {"compression": "tiff_lzw", "strip_size": 1 << 31, "exif": _camera()}),
    "plain.tif": ("RGBA", {"exif": _camera()}),
    "still.webp": ("RGB", {"method": 0, "quality": 10}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", share(list(LARGE_PICTURES), OFFSET, 7))
def test_pictures_of_9400_pixels_take_less_than_a_gigabyte(tmp_path, name):
    mode, options = LARGE_PICTURES[name]
    Image.new(mode, (9400, 9400)).save(tmp_path / name, **options)
    code = """
import pathlib, sys
from lps.datasets.readers.decoding import decode
from lps.datasets.readers.pictures import decode_all
found = list(decode_all([pathlib.Path(sys.argv[1])] * 2, 64, decode))
print(found[1] if isinstance(found[1], str) else found[1].shape)
"""
    command = [sys.executable, "-c", code + PEAK_MB, str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    found, peak = done.stdout.splitlines()
    assert found == "(64, 64, 3)" or name in ("strip.tif", "still.webp") and _TOO_DEAR in found, found
    assert int(peak) < 1000, peak


_TOO_DEAR = "GB of memory to decode; expected at most 800 MB: save it smaller"


@pytest.mark.slow
def test_a_large_webp_is_refused_by_its_head_before_its_decoder_takes_room(tmp_path, monkeypatch):
    monkeypatch.setattr("PIL._webp.WebPAnimDecoder", lambda data: pytest.fail("it was decoded"))
    whole = tmp_path / "x.webp"
    for options in ({"quality": 10}, {"lossless": True}, {"lossless": True, "exif": _camera()}):
        Image.new("RGB", (9400, 9400)).save(whole, method=0, **options)
        with pytest.raises(Unreadable, match="would take 1.4 GB of memory to decode; expected at most 800 MB"):
            decode(whole, 64)


@pytest.mark.parametrize("name", ["x.png", "x.tif", "x.jpg", "x.webp"])
@pytest.mark.parametrize("large", [False, True])
def test_a_picture_is_turned_as_its_camera_says_also_where_it_is_made_small_first(tmp_path, name, large, monkeypatch):
    values = np.full((300, 200, 3), 255, np.uint8)
    values[:150] = 0  # dark above; on its side, dark on the right
    Image.fromarray(values).save(tmp_path / name, exif=_camera())
    if large:
        monkeypatch.setattr("lps.datasets.readers.decoding.LARGE", 1)
        monkeypatch.setattr("lps.datasets.readers.decoding.STRIP", 10_000)
    pixels, size = squeezed(tmp_path / name, 16)
    assert size == (200, 300)
    assert pixels[:, 10:].max() < 30 and pixels[:, :6].min() > 220


def test_a_picture_with_a_head_without_end_is_not_read_as_a_whole(tmp_path):
    """A JPEG with 20 MB before its first pixel."""
    image = io.BytesIO()
    Image.new("RGB", (8, 8)).save(image, "JPEG")
    part = b"\xff\xeb\xff\xff" + bytes(65_533)
    (tmp_path / "x.jpg").write_bytes(image.getvalue()[:2] + part * 320 + image.getvalue()[2:])
    with pytest.raises(Unreadable, match="cut short or damaged"):
        decode(tmp_path / "x.jpg", 8)


def test_a_file_of_any_length_is_no_picture(tmp_path):
    with open(tmp_path / "x.webp", "wb") as file:
        file.truncate(8 << 30)
    with pytest.raises(Unreadable, match="is a file of 8.6 GB; expected at most 400 MB"):
        decode(tmp_path / "x.webp", 8)


def test_a_picture_that_python_would_read_pixel_by_pixel_is_refused_where_it_is_large(tmp_path):
    (tmp_path / "x.ppm").write_bytes(b"P6 3000 3000 100\n" + bytes(9 << 20))
    with pytest.raises(
        Unreadable, match="3000 x 3000 pixels in a format that decodes slowly; expected at most 4,000,000"
    ):
        decode(tmp_path / "x.ppm", 8)


@pytest.mark.parametrize("order", ["C", "F"])
def test_many_arrays_are_mapped_from_the_disk_and_the_same(tmp_path, monkeypatch, order):
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    draws = np.random.default_rng(0)
    x_train, x_test = (np.asarray(draws.integers(0, 256, (n, 8, 8, 3), np.uint8), order=order) for n in (50, 30))
    np.savez(tmp_path / "a.npz", x_train=x_train, y_train=np.arange(50) % 5, x_test=x_test, y_test=np.arange(30) % 5)
    usual = arrays.load(str(tmp_path / "a.npz"))
    monkeypatch.setattr(arrays, "LARGE", 1)
    monkeypatch.setattr("lps.datasets.readers.array_file._PIECE", 1000)
    mapped = arrays.load(str(tmp_path / "a.npz"))
    assert isinstance(mapped.pixels, np.memmap) and not isinstance(usual.pixels, np.memmap)
    assert (mapped.pixels == usual.pixels).all() and (mapped.labels == usual.labels).all()
    assert (mapped.class_names, mapped.num_test) == (usual.class_names, usual.num_test)


def test_arrays_that_memory_has_no_room_for_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(arrays, "LARGE", 1)
    monkeypatch.setattr(arrays.memory, "free_memory", lambda: (1_000_000, False))
    labels = {"y_train": np.arange(100) % 5}
    np.savez(tmp_path / "c.npz", x_train=np.zeros((100, 80, 80), np.uint8), **labels)
    assert len(arrays.load(str(tmp_path / "c.npz")).pixels) == 100, "piece by piece"
    np.savez(tmp_path / "f.npz", x_train=np.zeros((100, 80, 80), np.uint8, order="F"), **labels)
    monkeypatch.setattr(ArrayFile, "read", lambda *_: pytest.fail("it was unpacked"))
    said = r"x_train takes 1 MB of memory because it is stored in Fortran order, and 1 MB are free"
    with pytest.raises(UserError, match=said):
        arrays.load(str(tmp_path / "f.npz"))
    monkeypatch.setattr(arrays, "LARGE", 1 << 30)
    with pytest.raises(UserError, match="x_train takes 1 MB of memory, and 1 MB are free; expected at most 80 %"):
        arrays.load(str(tmp_path / "c.npz"))


def test_arrays_that_the_disk_has_no_room_for_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(arrays, "LARGE", 1)
    np.savez(tmp_path / "c.npz", x_train=np.zeros((100, 80, 80), np.uint8), y_train=np.arange(100) % 5)
    monkeypatch.setattr(
        "lps.datasets.readers.picture_cache.shutil.disk_usage", lambda folder: type("Usage", (), {"free": 1000})
    )
    with pytest.raises(UserError, match="0.0 GB are needed"):
        arrays.load(str(tmp_path / "c.npz"))


@pytest.mark.slow
def test_arrays_of_a_gigabyte_are_loaded_in_little_memory(tmp_path):
    images, zeros = 45_000, bytes(64 * 64 * 3 * 1000)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for part in ("train", "test"):
            with archive.open(f"x_{part}.npy", "w", force_zip64=True) as file:
                head = {"descr": "|u1", "fortran_order": False, "shape": (images, 64, 64, 3)}
                np.lib.format.write_array_header_1_0(file, head)
                file.write(np.random.default_rng(0).bytes(len(zeros)))
                for _ in range(images // 1000 - 1):
                    file.write(zeros)
            with archive.open(f"y_{part}.npy", "w") as file:
                np.lib.format.write_array(file, np.arange(images) % 10)
    code = "import sys; from lps.datasets.arrays import load; assert len(load(sys.argv[1]).pixels) == 90_000; "
    command = [sys.executable, "-c", code + PEAK_MB, str(tmp_path / "a.npz")]
    environment = os.environ | {"LPS_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0 and int(done.stdout) < 500, (done.stdout, done.stderr[-2000:])
