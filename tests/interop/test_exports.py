"""Labels on disk: a table that no spreadsheet computes, a folder that is all there or not, and can be trained on."""

import csv
import io
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lps.__main__ import main
from lps.analysis import naming
from lps.analysis.labels import Labels
from lps.data import sources
from lps.datasets import Images
from lps.errors import UserError
from lps.files import tables
from lps.interop import class_folders, label_files
from lps.interop.class_folders import folder_name, folder_names
from lps.interop.label_files import as_csv, as_parquet, write_folder
from tests.sample_runs import make_run

NAMES = ("=1+1", "cat", "cat", "", "a/b")
SOURCES = ("predicted", "labeled", "predicted", "rejected", "withheld")


def some(names=NAMES) -> Labels:
    confidence = np.array([0.5, np.nan, 0.25, 0.125, 0.75])
    groups = ("novel", "seen", "seen", "", "seen")
    return Labels(
        3, np.arange(5), np.array([2, -1, 0, 1, 0]), np.array([4, -1, 0, 1, 0]), confidence, names, groups, SOURCES
    )


def pixels(count=5, channels=3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 6, 8, channels), np.uint8)


def images(file_names=(), channels=3) -> Images:
    return Images(pixels(channels=channels), np.zeros(5, np.int64), ("cat",), file_names=file_names)


def test_the_table_has_a_line_an_image():
    rows = list(csv.DictReader(io.StringIO(as_csv(some(), ("a.png", "b.png", "-c.png", "d d.png", "e.png")))))
    assert [row["image"] for row in rows] == list("01234")
    assert rows[0] | {} == {
        "image": "0", "file": "a.png", "predicted": "2", "cluster": "4", "name": "'=1+1", "confidence": "0.5000",
        "group": "novel", "source": "predicted",
    }  # fmt: skip
    assert (rows[1]["predicted"], rows[1]["cluster"], rows[1]["confidence"]) == ("", "", "")
    assert rows[2]["file"] == "'-c.png" and rows[3]["file"] == "d d.png" and rows[3]["name"] == ""
    assert all(row["file"] == "" for row in csv.DictReader(io.StringIO(as_csv(some()))))


def test_a_parquet_file_has_the_columns_of_the_table_with_types():
    parquet = pytest.importorskip("pyarrow.parquet")
    names = ("a.png", "b.png", "-c.png", "d d.png", "e.png")
    rows = parquet.read_table(io.BytesIO(as_parquet(some(), names))).to_pylist()
    lines = list(csv.DictReader(io.StringIO(as_csv(some(), names))))
    assert list(rows[0]) == list(lines[0]) and len(rows) == len(lines)
    for row, line in zip(rows, lines):
        assert [row["image"], row["group"], row["source"]] == [int(line["image"]), line["group"], line["source"]]
        assert [row["file"], row["name"]] == [line["file"].removeprefix("'"), line["name"].removeprefix("'")]
        for name in ("predicted", "cluster"):
            assert row[name] == (int(line[name]) if line[name] else None)
        assert (row["confidence"] is None) == (line["confidence"] == "")
        assert row["confidence"] is None or f"{row['confidence']:.4f}" == line["confidence"]
    assert {row["file"] for row in parquet.read_table(io.BytesIO(as_parquet(some()))).to_pylist()} == {""}


@given(st.text())
def test_no_cell_begins_a_formula_and_nothing_is_lost(text):
    found = tables.escape_cell(text)
    assert found.lstrip(" \t\r\n")[:1] not in ("=", "+", "-", "@")
    assert found.removeprefix("'") == text.encode("utf-8", "replace").decode() or found == text


def tree(folder) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_become_png_files_by_name(tmp_path, channels):
    made = write_folder(tmp_path / "deep" / "out", some(), images(channels=channels))
    assert tree(made) == {"=1+1/0.png", "cat/1.png", "cat/2.png", "unlabeled/3.png", "a_b/4.png", "labels.csv"}
    stored = np.asarray(Image.open(made / "cat" / "2.png"))
    assert np.array_equal(stored, pixels(channels=channels)[2].squeeze())
    assert (made / "labels.csv").read_text() == as_csv(some())


@pytest.mark.parametrize("links", [False, True])
def test_files_keep_their_names_and_bytes(tmp_path, links):
    files = ("x/1.jpg", "y/1.jpg", "z/1.JPG", "z/2.jpg", "3.jpg")
    for name in files:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(name.encode())
    made = write_folder(tmp_path / "out", some(), images(files), tmp_path / "in", links)
    assert tree(made) == {"=1+1/1.jpg", "cat/1.jpg", "cat/2-1.JPG", "unlabeled/2.jpg", "a_b/3.jpg", "labels.csv"}
    assert (made / "cat" / "2-1.JPG").read_bytes() == b"z/1.JPG"
    assert (made / "cat" / "1.jpg").is_symlink() == links


def test_pictures_of_shards_become_png_files(tmp_path):
    names = ("a.tar/1.jpg", "a.tar/b/2.jpg", f"a.tar/3\n{'x' * 300}.jpg", "b.parquet/00000000", "b.parquet/00000001")
    write_folder(tmp_path / "to", some(), images(names), tmp_path)
    written = {path.name for path in (tmp_path / "to").rglob("*") if path.is_file()}
    assert written == {"labels.csv", "1.png", "2.png", f"3_{'x' * 118}.png", "00000000.png", "00000001.png"}
    with pytest.raises(UserError, match="are no files"):
        write_folder(tmp_path / "links", some(), images(names), tmp_path, links=True)


@pytest.mark.parametrize("there", ["file", "folder", "link"])
def test_nothing_is_written_over(tmp_path, there):
    target = tmp_path / "out"
    {"file": target.touch, "folder": target.mkdir, "link": lambda: target.symlink_to("nowhere")}[there]()
    with pytest.raises(UserError, match="already exists"):
        write_folder(target, some(), images())
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_that_appears_meanwhile_is_left_alone(tmp_path, monkeypatch):
    fill = class_folders._fill

    def slowly(draft, *arguments):
        fill(draft, *arguments)
        (tmp_path / "out").mkdir()

    monkeypatch.setattr(class_folders, "_fill", slowly)
    with pytest.raises(UserError, match="already exists"):
        write_folder(tmp_path / "out", some(), images())
    assert os.listdir(tmp_path) == ["out"] and not os.listdir(tmp_path / "out")


def test_a_file_that_is_gone_leaves_nothing_half_written(tmp_path):
    (tmp_path / "0.png").touch()
    with pytest.raises(UserError, match="1.png' no longer exists"):
        write_folder(tmp_path / "out", some(), images(tuple(f"{i}.png" for i in range(5))), tmp_path)
    assert os.listdir(tmp_path) == ["0.png"]


@pytest.mark.parametrize("is_files", [False, True])
def test_an_archive_holds_what_the_folder_does(tmp_path, is_files):
    files = tuple(f"{place}/1.jpg" for place in "vwxyz") if is_files else ()
    for name in files:
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(name.encode())
    root = tmp_path if is_files else None
    made = write_folder(tmp_path / "out", some(), images(files), root)
    pieces = list(label_files.as_zip(some(), images(files), root, "mine"))
    archive = zipfile.ZipFile(io.BytesIO(b"".join(pieces)))
    assert archive.testzip() is None
    assert set(archive.namelist()) == {f"mine/{name}" for name in tree(made)}
    assert all(archive.read(f"mine/{name}") == (made / name).read_bytes() for name in tree(made))


def test_an_archive_comes_in_small_pieces_or_not_at_all(tmp_path):
    files = tuple(f"{i}.jpg" for i in range(5))
    for name in files:
        (tmp_path / name).write_bytes(bytes(3 << 20))
    pieces = label_files.as_zip(some(), images(files), tmp_path, "mine")
    assert max(map(len, pieces)) < 2 << 20
    (tmp_path / "4.jpg").unlink()
    with pytest.raises(UserError, match="4.jpg' no longer exists"):
        label_files.as_zip(some(), images(files), tmp_path, "mine")


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="to: .* was not written"):
        write_folder(tmp_path / "file" / "out", some(), images())
    with pytest.raises(UserError, match="cannot be made: the images of this data set are no files"):
        write_folder(tmp_path / "out", some(), images(), None, links=True)


@given(st.text())
def test_folder_names_are_fit_for_every_file_system(text):
    found = folder_name(text)
    assert found and not set(found) & set('/\\:*?"<>|') and found.isprintable()
    assert found[0] not in ". " and found[-1] not in ". " and len(found.encode()) <= 130
    assert not {found.casefold(), found.partition(".")[0].casefold()} & class_folders.RESERVED


@given(st.lists(st.text(), unique=True, max_size=8))
def test_different_names_have_different_folders(names):
    found = folder_names(names)
    assert len({folder.casefold() for folder in found.values()}) == len(names)


@pytest.mark.parametrize(
    "name, folder",
    [
        ("..", "class"),
        ("CON", "CON_"),
        ("test", "test_"),
        ("Unlabeled", "Unlabeled_"),
        ("a/../b", "a_.._b"),
        ("", "class"),
    ],
)
def test_names_that_mean_something_to_a_file_system(name, folder):
    assert folder_name(name) == folder


def test_a_free_folder(tmp_path):
    assert class_folders.free_path(tmp_path, "epoch-0003").name == "epoch-0003"
    (tmp_path / "epoch-0003").mkdir()
    (tmp_path / "epoch-0003-2").touch()
    assert class_folders.free_path(tmp_path, "epoch-0003").name == "epoch-0003-3"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    made = make_run(tmp_path_factory.mktemp("runs"), epochs=2)
    naming.record_steps(made, 2, [{"do": "name", "id": 7, "name": "sevens"}, {"do": "reject", "id": 9}])
    return made


def test_a_table_from_the_command_line(run, tmp_path, capsys):
    to = tmp_path / "labels.csv"
    assert main(["export", run.id, "--runs", str(run.root), "--to", str(to)]) == 0
    assert capsys.readouterr().out == f"{to}\n"
    rows = list(csv.DictReader(to.open()))
    assert len(rows) == 1797 and {row["name"] for row in rows if row["predicted"] == "7"} == {"sevens"}
    assert {row["source"] for row in rows if row["predicted"] == "9"} == {"rejected"}


@pytest.mark.slow
def test_a_folder_can_be_trained_on(run, tmp_path):
    to = tmp_path / "labels"
    assert main(["export", run.id, "--runs", str(run.root), "--to", str(to), "--epoch", "2"]) == 0
    found = sources.load("folder", str(to), image_size=8)
    assert "sevens" in found.class_names and "cluster 8" in found.class_names
    rejected = sum(row["source"] == "rejected" for row in csv.DictReader((to / "labels.csv").open()))
    assert len(found.labels) == 1797 and (found.labels < 0).sum() == rejected > 0


@pytest.mark.parametrize(
    "more, words",
    [
        (["--epoch", "9"], "epoch: 9 has no stored predictions"),
        (["--links"], "links: can only be made in folders; remove it"),
        (["--to", "labels.jsonl"], "is neither a .csv nor a .parquet file"),
    ],
)
def test_errors_are_one_line(run, tmp_path, capsys, more, words):
    assert main(["export", run.id, "--runs", str(run.root), "--to", str(tmp_path / "x.csv"), *more]) == 2
    assert words in capsys.readouterr().err and not os.listdir(tmp_path)
