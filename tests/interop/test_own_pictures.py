"""Pictures uploaded by a browser: stored completely, limited, and nothing that an untrusted archive may add."""

import io
import os
import struct
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from lps.data import sources
from lps.errors import UserError
from lps.files import disk
from lps.files.atomic_folder import abandoned_drafts
from lps.interop import uploaded_folders


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_PICTURES", str(tmp_path / "kept"))
    return tmp_path / "kept"


def picture(shade: int = 0) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), shade, np.uint8)).save(out, "PNG")
    return out.getvalue()


def archive(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def upload(name: str, data: bytes) -> io.BytesIO:
    file = io.BytesIO(data)
    file.name = name
    return file


ANIMALS = {"cat/1.png": picture(1), "dog/2.PNG": picture(2), "unlabeled/3.png": picture(3)}


@pytest.mark.parametrize("below", ["", "my animals/"], ids=["classes on top", "one folder on top"])
def test_an_archive_becomes_a_data_set(tmp_path, kept, below):
    members = {below + name: data for name, data in ANIMALS.items()} | {below + "cat/notes.txt": b"x"}
    members |= {"__MACOSX/cat/._1.png": b"x", below + ".DS_Store": b"x"}
    found = uploaded_folders.keep_archive(archive(tmp_path / "zoo.zip", members))
    assert (found.folder, found.pictures, len(found.left_out)) == (kept / "zoo", 3, 3)
    assert below + "cat/notes.txt" in found.left_out
    images = sources.load("folder", str(found.folder))
    assert images.class_names == ("cat", "dog") and sorted(images.labels.tolist()) == [-1, 0, 1]
    assert [path.name for path in kept.iterdir()] == ["zoo"]
    again = uploaded_folders.keep_archive(archive(tmp_path / "zoo.zip", members))
    assert again.folder == kept / "zoo-2" and set(uploaded_folders.folders()) == {kept / "zoo", kept / "zoo-2"}
    assert (found.asked_name, again.asked_name) == ("zoo", "zoo")


def test_an_upload_is_deleted_and_nothing_else(tmp_path, kept):
    stored = uploaded_folders.keep_archive(archive(tmp_path / "zoo.zip", ANIMALS)).folder
    other = tmp_path / "mine"
    other.mkdir()
    for path in (other, kept, stored / "cat", kept / ".." / "mine"):
        with pytest.raises(UserError, match="not an upload"):
            uploaded_folders.delete_upload(path)
    uploaded_folders.delete_upload(stored)
    assert list(kept.iterdir()) == [] and other.is_dir()
    with pytest.raises(UserError, match="deleted already"):
        uploaded_folders.delete_upload(stored)
    (kept / "link").symlink_to(other)
    uploaded_folders.delete_upload(kept / "link")
    vectors = kept / "vectors.npz"
    vectors.write_bytes(b"x")
    uploaded_folders.delete_upload(vectors)
    assert list(kept.iterdir()) == [] and other.is_dir(), "a link is deleted, not what it leads to"


def test_a_folder_of_the_browser_keeps_its_name(kept):
    files = [upload("animals/" + name, data) for name, data in ANIMALS.items()]
    found = uploaded_folders.keep_files(files)
    assert found.folder == kept / "animals" and (kept / "animals" / "unlabeled" / "3.png").read_bytes() == picture(3)
    loose = uploaded_folders.keep_files([upload("cat/1.png", picture()), upload("dog/2.png", picture())])
    assert loose.folder == kept / "pictures" and (loose.folder / "dog" / "2.png").is_file()


@pytest.mark.parametrize("name", ["../../cat/1.png", "/cat/1.png", "cat\\..\\1.png", "cat/\x07.png", "C:/1.png"])
def test_names_that_lead_elsewhere_are_refused_and_nothing_is_kept(tmp_path, kept, name):
    path = tmp_path / "zoo.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("cat/0.png", picture())
        file.writestr(zipfile.ZipInfo(name), picture())
    with pytest.raises(UserError, match="not a safe file name"):
        uploaded_folders.keep_archive(path)
    with pytest.raises(UserError, match="not a safe file name"):
        uploaded_folders.keep_files([upload("cat/0.png", picture()), upload(name, picture())])
    assert not list(kept.glob("*")) and sorted(os.listdir(tmp_path)) in (["zoo.zip"], ["kept", "zoo.zip"])


@pytest.mark.slow
def test_links_bombs_and_too_many_files_are_refused(tmp_path, kept, monkeypatch):
    link = zipfile.ZipInfo("cat/1.png")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as file:
        file.writestr(link, "/etc/passwd")
    bomb = archive(tmp_path / "bomb.zip", {"cat/1.png": bytes(64 << 20)})
    monkeypatch.setattr(uploaded_folders, "MAX_PICTURES", 2)
    many = archive(tmp_path / "many.zip", ANIMALS)
    for path, words in (
        (tmp_path / "link.zip", "not a regular file"),
        (bomb, "a zip bomb"),
        (many, "more than 2 entries"),
    ):
        with pytest.raises(UserError, match=words):
            uploaded_folders.keep_archive(path)
    with pytest.raises(UserError, match="more than 2 entries"):
        uploaded_folders.keep_files([upload(f"cat/{i}.png", picture()) for i in range(3)])
    monkeypatch.setattr(uploaded_folders, "MAX_BYTES", 100)
    with pytest.raises(UserError, match="more than"):
        uploaded_folders.keep_files([upload(f"cat/{i}.png", picture()) for i in range(2)])
    assert not list(kept.glob("*"))


def test_what_is_no_picture_or_finds_no_room_leaves_nothing_behind(tmp_path, kept, monkeypatch):
    with pytest.raises(UserError, match="1 file, none of which is a picture"):
        uploaded_folders.keep_archive(archive(tmp_path / "texts.zip", {"cat/1.txt": b"x"}))
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(UserError, match="damaged or not an archive"):
        uploaded_folders.keep_archive(tmp_path / "broken.zip")

    def full(path, size):
        raise disk.TooSmall(path, size, 0)

    monkeypatch.setattr(disk, "check_fits", full)
    with pytest.raises(UserError, match="the disk is full"):
        uploaded_folders.keep_archive(archive(tmp_path / "zoo.zip", ANIMALS))
    assert not list(kept.glob("*")) and uploaded_folders.folders() == []


@pytest.mark.parametrize("words", [["-C", "animals", "."], ["./animals"], ["animals"]], ids=" ".join)
def test_an_ordinary_tar_is_taken(tmp_path, kept, words):
    for name, data in ANIMALS.items():
        (tmp_path / "animals" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "animals" / name).write_bytes(data)
    subprocess.run(["tar", "czf", "x.tgz", *words], cwd=tmp_path, check=True)
    found = uploaded_folders.keep_archive(tmp_path / "x.tgz")
    assert (found.pictures, found.left_out) == (3, ())
    assert sources.load("folder", str(found.folder)).class_names == ("cat", "dog")


def test_names_are_normalised_and_whatever_is_left_out_is_named(tmp_path):
    members = {"./a/1.png": picture(), "a//2.png": picture(), "a/./3.png": picture(), "b/4.png": picture()}
    found = uploaded_folders.keep_archive(
        archive(tmp_path / "x.zip", members | {"a/.5.png": picture(), "b/n.txt": b"x"})
    )
    assert found.pictures == 4 and set(found.left_out) == {"a/.5.png", "b/n.txt"}
    assert sorted(path.name for path in found.folder.rglob("*.png")) == ["1.png", "2.png", "3.png", "4.png"]


@pytest.mark.parametrize("names", [("a.png", "a.png/b.png"), ("a.png/b.png", "a.png")], ids=" ".join)
def test_a_name_that_is_a_file_and_a_folder_is_the_archives_fault(tmp_path, kept, names):
    with pytest.raises(UserError, match="^archive: uses 'a.png.* as a file and as a folder$"):
        uploaded_folders.keep_archive(archive(tmp_path / "x.zip", {name: picture() for name in names}))
    assert list(kept.iterdir()) == []


def test_a_file_that_is_shorter_than_the_archive_says_is_refused(tmp_path, kept):
    path, data = archive(tmp_path / "x.zip", {"a/1.png": picture(), "b/2.png": picture(1)}), bytearray()
    data += path.read_bytes()
    with zipfile.ZipFile(path) as file:
        size = file.getinfo("a/1.png").file_size
    entry = data.index(b"PK\x01\x02")  # of the list at the end; its field for the size is 24 bytes further
    data[entry + 24 : entry + 28] = struct.pack("<I", size + 5)
    path.write_bytes(data)
    with pytest.raises(UserError, match="whose size differs|damaged"):
        uploaded_folders.keep_archive(path)
    assert list(kept.iterdir()) == []


def test_an_entry_is_checked_under_the_name_that_it_is_extracted_by(tmp_path, kept):
    """A Unicode path field (0x7075) may say another name than the list; Python 3.13 takes it."""
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as file:
        info = zipfile.ZipInfo("a/1.png")
        other = b"../../1.png"
        field = struct.pack("<BI", 1, zlib.crc32(b"a/1.png")) + other
        info.extra = struct.pack("<HH", 0x7075, len(field)) + field
        file.writestr(info, picture())
    with zipfile.ZipFile(path) as file:
        is_taken = file.infolist()[0].filename == other.decode()
    if is_taken:
        with pytest.raises(UserError, match="not a safe file name"):
            uploaded_folders.keep_archive(path)
    else:
        assert uploaded_folders.keep_archive(path).pictures == 1
    assert not (tmp_path / "1.png").exists() and not (tmp_path.parent / "1.png").exists()


def test_an_entry_whose_name_python_changed_is_checked_as_changed(tmp_path, monkeypatch):
    """As Python 3.13 would, on any version."""
    path, changed = archive(tmp_path / "x.zip", {"a/1.png": picture()}), zipfile.ZipFile.infolist

    def infolist(self):
        for info in changed(self):
            info.filename = "../1.png"
        return changed(self)

    monkeypatch.setattr(zipfile.ZipFile, "infolist", infolist)
    with pytest.raises(UserError, match="not a safe file name"):
        uploaded_folders.keep_archive(path)


KILLED = """
import sys, time
from pathlib import Path
from lps.interop import uploaded_folders
from lps.files.untrusted_files import UntrustedFile
class Slow:
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def read(self, size):
        print("begun", flush=True)
        time.sleep(60)
uploaded_folders._store([UntrustedFile("a/1.png", 10, Slow)], "zoo", uploaded_folders.home_folder())
"""


@pytest.mark.slow
def test_what_a_killed_upload_left_is_listed_and_goes_with_the_next_one(tmp_path, kept):
    going = [subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE) for _ in range(2)]
    for process in going:
        process.stdout.readline()
    going[0].kill()
    going[0].wait()
    (kept / ".0123456789abcdef.tmp").mkdir()  # as earlier versions called them
    drafts = {path for path in kept.iterdir()}
    assert len(drafts) == 3 and len(abandoned_drafts(kept)) == 2
    uploaded_folders.keep_archive(archive(tmp_path / "x.zip", ANIMALS))
    assert len(drafts & {*kept.iterdir()}) == 1, "the one that is filled stays"
    going[1].kill()
    going[1].wait()
    assert {path.name for path in abandoned_drafts(kept)} == {path.name for path in drafts & {*kept.iterdir()}}
