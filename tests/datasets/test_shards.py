"""Tar shards and Parquet as a data set: what is read, what is listed as damaged, when it is read again."""

import gzip
import io
import json
import os
import tarfile

import numpy as np
import pytest
from PIL import Image

from lps.data import sources
from lps.datasets import shards
from lps.errors import UserError
from lps.inference.new_pictures import PictureForm, open_pictures
from lps.settings import catalog
from lps.wording import counted

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def home(tmp_path):
    (tmp_path / "pictures").mkdir()
    return tmp_path / "pictures"


def picture(value: int, kind: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (9, 7), (value, 255 - value, 40)).save(out, kind)
    return out.getvalue()


def write_tar(path, members: dict[str, bytes], mode: str = "w") -> None:
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            head = tarfile.TarInfo(name)
            head.size = len(content)
            archive.addfile(head, io.BytesIO(content))


def write_parquet(path, values: list[int], labels: list, **metadata) -> None:
    images = pyarrow.array([{"bytes": picture(value), "path": None} for value in values])
    table = pyarrow.table({"image": images, "label": pyarrow.array(labels)})
    if metadata:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": metadata}})})
    parquet.write_table(table, path, row_group_size=2)


SMALL = {
    "a/1.png": picture(10), "a/1.cls": b"cat\n", "a/2.PNG": picture(20), "a/2.json": b'{"label": "dog"}',
    "a/3.png": picture(30), "readme.md": b"no picture", "a/4.jpg": picture(250, "JPEG"), "a/4.cls": b"cat",
}  # fmt: skip


@pytest.mark.parametrize(("name", "mode"), [("x.tar", "w"), ("x.tar.gz", "w:gz"), ("x.tgz", "w:gz")])
def test_a_tar_gives_pictures_labels_and_names(home, name, mode):
    write_tar(home / name, SMALL, mode)
    images = sources.load("shards", str(home), 8)
    assert images.pixels.shape == (4, 8, 8, 3) and images.class_names == ("cat", "dog")
    assert images.labels.tolist() == [0, 1, -1, 0] and images.skipped == ()
    assert images.file_names[:2] == (f"{name}/a/1.png", f"{name}/a/2.PNG")
    assert [int(image[4, 4, 0]) for image in images.pixels[:3]] == [10, 20, 30]


def test_shards_are_read_in_order_and_those_called_test_come_last(home):
    (home / "classes.txt").write_text("ant\nbee\ncow\n")
    write_tar(home / "a_test.tar", {"1.png": picture(1), "1.cls": b"2"})  # not one for testing
    write_tar(home / "test-0.tar", {"1.png": picture(3), "1.cls": b"0"})
    write_parquet(home / "train-1.parquet", [4, 5, 6], [0, -1, None])
    images = sources.load("shards", str(home), 8)
    assert images.pixels[:, 4, 4, 0].tolist() == [1, 4, 5, 6, 3]
    assert images.class_names == ("ant", "cow") and images.labels.tolist() == [1, 0, -1, -1, 0]
    assert images.num_test == 1 and images.file_names[2] == "train-1.parquet/00000001"


def test_parquet_tells_the_names_of_its_classes(home):
    write_parquet(home / "a.parquet", [1, 2, 3], [1, 0, 1], label={"names": ["no", "yes"]})
    images = sources.load("shards", str(home), 8)
    assert images.class_names == ("no", "yes") and images.labels.tolist() == [1, 0, 1]


def test_shards_in_other_forms_give_the_pixels_that_a_folder_gives(home, tmp_path):
    for label, value in (("cat", 10), ("dog", 20)):
        (tmp_path / "folder" / label).mkdir(parents=True)
        (tmp_path / "folder" / label / "1.jpg").write_bytes(picture(value, "JPEG"))
    write_tar(
        home / "x.tar", {"1.jpg": picture(10, "JPEG"), "1.cls": b"cat", "2.jpg": picture(20, "JPEG"), "2.cls": b"dog"}
    )
    ours, folder = sources.load("shards", str(home), 8), sources.load("folder", str(tmp_path / "folder"), 8)
    assert np.array_equal(ours.pixels, folder.pixels) and ours.class_names == folder.class_names


def test_damaged_members_and_shards_are_listed_and_the_rest_is_used(home):
    write_tar(home / "a.tar", SMALL | {"a/5.png": b"nonsense", "a/5.cls": b"cat"})
    write_tar(home / "b.tar", {f"{i}.png": picture(i) + bytes(3000) for i in range(4)})
    whole = (home / "b.tar").read_bytes()
    (home / "b.tar").write_bytes(whole[: len(whole) // 2])
    (home / "c.tar").write_bytes(b"not a tar" * 200)
    (home / "d.parquet").write_bytes(b"PAR1 not Parquet")
    parquet.write_table(pyarrow.table({"text": ["a"]}), home / "e.parquet")
    twice = pyarrow.Table.from_arrays([pyarrow.array([picture(1)])] * 2, names=["image", "image"])
    parquet.write_table(twice, home / "f.parquet")
    os.mkfifo(home / "g.tar")
    (home / "h.tar").symlink_to(home / "nothing.tar")
    images = sources.load("shards", str(home), 8)
    skipped = dict(images.skipped)
    assert skipped["c.tar"].endswith("none of its pictures can be used")
    assert skipped["a.tar/a/5.png"] == "is not a picture of a known format"
    assert "1 picture before" in skipped["b.tar"] or "2 pictures before" in skipped["b.tar"]
    assert "not a tar file" in skipped["c.tar"] and "is damaged" in skipped["d.parquet"]
    assert "no column of image bytes" in skipped["e.parquet"]
    assert "two columns with the same name" in skipped["f.parquet"]
    assert skipped["g.tar"] == skipped["h.tar"] == "is not a file" and len(skipped) == 8
    assert len(images.labels) == 4 + sum(name.startswith("b.tar") for name in images.file_names)


def test_a_shard_that_is_damaged_within_says_how_many_pictures_are_used(home):
    """A damaged head looks to tarfile like the end of the archive, and damaged compression is no error of its own."""
    write_tar(home / "a.tar", SMALL)
    write_tar(home / "head.tar", {f"{i}.png": picture(i) for i in range(4)})
    damaged = bytearray((home / "head.tar").read_bytes())
    damaged[(at := damaged.index(b"2.png")) : at + 5] = b"9.pn?"
    (home / "head.tar").write_bytes(damaged)
    noise = np.random.default_rng(0).integers(0, 16, 60_000, np.uint8).tobytes()  # which deflate packs by its codes
    write_tar(home / "packed.tar.gz", {f"{i}.png": picture(i) + noise for i in range(6)}, "w:gz")
    damaged = bytearray((home / "packed.tar.gz").read_bytes())
    damaged[len(damaged) // 2 : len(damaged) // 2 + 200] = b"\xff" * 200
    (home / "packed.tar.gz").write_bytes(damaged)
    images = sources.load("shards", str(home), 8)
    reasons = dict(images.skipped)
    for shard in ("head.tar", "packed.tar.gz"):
        used = [name for name in images.file_names if name.startswith(shard)]
        assert 0 < len(used) < 4 and f"the {counted(len(used), 'picture')} before" in reasons[shard], shard


def test_members_that_claim_more_than_the_limit_are_refused_before_they_are_read(home):
    """GNU tar and pax store long names and attributes as members, which `tarfile` reads whole."""
    write_tar(home / "a.tar", {"1.png": picture(1), "1.cls": b"cat"})
    long_text, long_name = tarfile.TarInfo("2.json"), tarfile.TarInfo("2.png")
    long_text.size = long_name.size = 1_536_000_000
    long_name.type = tarfile.XHDTYPE
    with open(home / "a.tar", "r+b") as file:
        file.seek(4 * tarfile.BLOCKSIZE)
        file.write(long_text.tobuf())
        file.seek(long_text.size, os.SEEK_CUR)  # a hole, which takes no space on the disk
        file.write(long_name.tobuf())
        file.truncate(file.tell() + long_name.size)
    (home / "b.tar.gz").write_bytes(gzip.compress(long_text.tobuf() + bytes(20_000_000)))
    long_text.size = -tarfile.BLOCKSIZE
    (home / "c.tar").write_bytes(long_text.tobuf(tarfile.GNU_FORMAT))  # its next member would be itself
    images = sources.load("shards", str(home), 8)
    assert images.file_names == ("a.tar/1.png",)
    assert dict(images.skipped) == {
        "a.tar/2.json": "has 1.5 GB; expected at most 1 MB",
        "b.tar.gz/2.json": "has 1.5 GB; expected at most 1 MB",
        "b.tar.gz": "is damaged (it unpacks to more than 21 MB, 200 times its size): none of its pictures can be used",
        "c.tar": "is damaged (cut short or not a tar file): none of its pictures can be used",
        "a.tar": "is damaged (name and attributes of a member take 1.5 GB; expected at most 1 MB): "
        "only the 1 picture before the damage can be used",
    }


LABELS = {
    "double": (pyarrow.array([1.0, None, float("nan"), 0.0]), [1, -1, -1, 0]),
    "bytes": (pyarrow.array([b"dog", None, b"", "é".encode()]), [0, -1, -1, 1]),
    "dictionary": (pyarrow.array(["dog", None, "cat", "dog"]).dictionary_encode(), [1, -1, 0, 1]),
    "int8": (pyarrow.array([3, -1, 2, None], pyarrow.int8()), [1, -1, 0, -1]),
    "large_string": (pyarrow.array(["b", None, "", "NA"], pyarrow.large_string()), [1, -1, -1, 0]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_a_clear_type_are_read(home, kind):
    labels, expected = LABELS[kind]
    parquet.write_table(
        pyarrow.table({"label": labels, "data": [picture(value) for value in range(4)]}), home / "x.parquet"
    )
    assert sources.load("shards", str(home), 8).labels.tolist() == expected


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([True, False], "type 'bool'"),
        ([0.5, 1.0], "0.5 in a column 'label' of type 'double'"),
        ([b"\xff", b""], "type 'binary'"),
    ],
)
def test_labels_of_another_type_are_refused_for_training_and_ignored_for_prediction(home, labels, said):
    write_parquet(home / "x.parquet", [1, 2], labels)
    with pytest.raises(UserError, match=f"'x.parquet' has .*{said}; expected whole numbers or text, and null"):
        sources.load("shards", str(home), 8)
    pictures = open_pictures(str(home), PictureForm(8, 8, 3, False, True))
    assert sum(len(piece.pixels) for piece in pictures.pieces()) == 2


def test_shards_are_decoded_again_only_when_one_changes(home, monkeypatch):
    write_tar(home / "x.tar", SMALL)
    first = sources.load("shards", str(home), 8)
    sources._load.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(shards, "decode", lambda *_: pytest.fail("decoded again"))
        assert np.array_equal(sources.load("shards", str(home), 8).pixels, first.pixels)
    write_tar(home / "x.tar", SMALL | {"b/9.png": picture(90)})
    assert len(sources.load("shards", str(home), 8).labels) == 5


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({}, "no readable picture to train on"),
        ({"1.png": picture(1)}, "no picture has a label"),
        ({"1.png": picture(1), "1.cls": b"7"}, "picture of class 7, but only 2"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(home, members, said):
    (home / "classes.txt").write_text("ant\nbee")
    write_tar(home / "x.tar", members)
    with pytest.raises(UserError, match=said):
        sources.load("shards", str(home), 8)


def test_a_folder_without_shards_is_one_sentence(home):
    with pytest.raises(UserError, match=r"no .tar or .parquet file"):
        sources.load("shards", str(home))
    assert sources.stamp("shards", str(home)) == () and catalog.dataset_info("shards").is_own
