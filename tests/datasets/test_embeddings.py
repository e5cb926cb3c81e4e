"""The data set of own embeddings: three kinds of files, the display of items, one error for each fault."""

import csv

import numpy as np
import pytest
from PIL import Image

from lps.data import sources
from lps.datasets import embeddings, take
from lps.datasets.readers import item_pictures, vector_files
from lps.datasets.readers.item_pictures import SIDE, ItemPictures
from lps.errors import UserError
from lps.files import versions
from lps.machine import memory
from tests.vector_files import WIDTH, items, labels_of, npz

COUNT = 90


def npy(path, vectors, rows=None):
    np.save(path, vectors)
    if rows is not None:
        with open(path.with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    return path


def test_a_npz_has_items_with_ids_labels_and_titles(tmp_path):
    images = embeddings.load(str(npz(tmp_path / "birds.npz")))
    vectors, kinds = items()
    assert images.vectors.values.shape == (COUNT, 1, WIDTH) and images.pixels.shape == (COUNT, SIDE, SIDE, 3)
    assert np.array_equal(images.vectors.values[:, 0], vectors)
    assert images.class_names == ("owl", "robin")
    assert [images.class_names[i] if i >= 0 else "" for i in images.labels] == labels_of(kinds)
    assert images.file_names[3] == "bird-3" and not images.are_files and images.title(3).startswith("Bird number 3 ")
    assert np.allclose(images.vectors.mean, vectors.mean(axis=0), atol=1e-5)
    assert np.allclose(images.vectors.spread, vectors.std(axis=0), atol=1e-4)
    assert images.vectors.size == pytest.approx(np.sqrt(np.square(vectors).mean()))


def test_the_three_kinds_of_files_say_the_same(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    vectors, kinds = items()
    ids, labels = [f"bird-{row}" for row in range(COUNT)], labels_of(kinds)
    titles = [f"Bird number {row} sings a long song of its own in the garden" for row in range(COUNT)]
    one = embeddings.load(str(npz(tmp_path / "birds.npz")))
    rows = [("id", "label", "text"), *zip(ids, labels, titles)]
    two = embeddings.load(str(npy(tmp_path / "birds.npy", vectors, rows)))
    columns = {"vector": vectors.tolist(), "id": ids, "label": [label or None for label in labels], "title": titles}
    parquet.write_table(pyarrow.table(columns), tmp_path / "birds.parquet")
    three = embeddings.load(str(tmp_path / "birds.parquet"))
    fixed = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), WIDTH)
    parquet.write_table(pyarrow.table(columns | {"vector": fixed}), tmp_path / "fixed.parquet", row_group_size=40)
    four = embeddings.load(str(tmp_path / "fixed.parquet"))
    for other in (two, three, four):
        assert np.array_equal(other.vectors.values, one.vectors.values)
        assert np.array_equal(other.labels, one.labels) and other.class_names == one.class_names
        assert other.file_names == one.file_names and other.pixels.titles == one.pixels.titles


def test_a_npy_stays_on_the_disk(tmp_path, monkeypatch):
    vectors, kinds = items()
    rows = [("label",), *((label,) for label in labels_of(kinds))]
    path = npy(tmp_path / "birds.npy", np.asfortranarray(vectors), rows)
    monkeypatch.setattr(memory, "free_memory", lambda: (1, False))  # a byte of memory is free
    values = embeddings.load(str(path)).vectors.values
    assert isinstance(values, np.memmap) and not values.flags.writeable and np.array_equal(values[:, 0], vectors)
    with pytest.raises(UserError, match=r"memory.*are free.*as \.npy"):
        embeddings.load(str(npz(tmp_path / "birds.npz")))


@pytest.mark.parametrize(
    ("labels", "more", "names", "first"),
    [
        ([7, -1, 30] * 30, {}, ("7", "30"), [0, -1, 1]),
        ([7.0, np.nan, 30.0] * 30, {}, ("7", "30"), [0, -1, 1]),
        (["7", "-1", "30"] * 30, {}, ("7", "30"), [0, -1, 1]),
        (["7.0", "-1.0", "30.0"] * 30, {}, ("7", "30"), [0, -1, 1]),
        (["7.0", "-1.0", "30"] * 30, {}, ("30", "7.0"), [1, -1, 0]),
        (["b", "NaN", "a", "NA", "<NA>", "None"] * 15, {}, ("a", "b"), [1, -1, 0]),
        (["b", "", "NA"] * 30, {}, ("NA", "b"), [1, -1, 0]),
        (["2.0", "", "nan"] * 29 + ["1.0"] * 3, {}, ("1", "2"), [1, -1, -1]),
        (["NA", "", "-1"] * 30, {}, ("NA",), [0, -1, -1]),
        (["7", "--5", "-3"] * 30, {}, ("--5", "-3", "7"), [2, 0, 1]),
        ([1, 0, -1] * 30, {"class_names": ["b", "a"]}, ("b", "a"), [1, 0, -1]),
        (["b", "", " a "] * 30, {}, ("a", "b"), [1, -1, 0]),
        (["b", np.nan, "a"] * 30, {}, ("a", "b"), [1, -1, 0]),
    ],
)
def test_labels_are_numbers_or_texts_and_missing_ones_are_unknown(tmp_path, labels, more, names, first):
    images = embeddings.load(str(npz(tmp_path / "a.npz", labels=np.array(labels), **more)))
    assert images.class_names == names and images.labels[:3].tolist() == first


@pytest.mark.parametrize("kind", [">f4", ">f8", "g", ">i2"])
def test_vectors_of_foreign_types_become_float32(tmp_path, kind):
    vectors = (items()[0] * 10).round()
    images = embeddings.load(str(npz(tmp_path / "a.npz", vectors=vectors.astype(kind))))
    assert images.vectors.values.dtype == np.float32 and np.array_equal(images.vectors.values[:, 0], vectors)


def test_arrays_have_their_names_in_any_case(tmp_path):
    path = npz(tmp_path / "a.npz", vectors=None, labels=None, Vectors=items()[0], LABEL=labels_of(items()[1]))
    assert embeddings.load(str(path)).class_names == ("owl", "robin") and sources.data_set_of(str(path)) == "embeddings"


def test_several_views_come_with_an_item(tmp_path):
    images = embeddings.load(str(npz(tmp_path / "a.npz", vectors=items(views=4)[0])))
    assert images.vectors.values.shape == (COUNT, 4, WIDTH)


def test_pictures_lie_beside_the_file_and_titles_stand_for_those_that_do_not(tmp_path):
    (tmp_path / "songs").mkdir()
    Image.new("RGB", (40, 20), (200, 0, 0)).save(tmp_path / "songs" / "red.png")
    pictures = ["songs/red.png", "songs/lost.png", "", "a" * 300] + [""] * (COUNT - 4)
    images = embeddings.load(str(npz(tmp_path / "a.npz", pictures=pictures)))
    red, lost, none = images.pixels[0:3]
    assert red.shape == (SIDE, SIDE, 3) and (red == (200, 0, 0)).all()
    assert len(np.unique(lost)) > 2 and len(np.unique(none)) > 2 and not np.array_equal(lost, none)
    assert len(np.unique(images.pixels[3])) > 2
    assert images.pixels[np.array([2, 0])].shape == (2, SIDE, SIDE, 3)
    assert np.array_equal(images.pixels.take(np.array([2, 0]))[1], red)


def test_an_item_without_anything_shows_its_id(tmp_path):
    images = embeddings.load(str(npz(tmp_path / "a.npz", titles=None)))
    assert images.title(4) == "bird-4" and np.array_equal(images.pixels[4], ItemPictures(["bird-4"])[0])
    numbered = embeddings.load(str(npz(tmp_path / "b.npz", titles=None, ids=None)))
    assert numbered.file_names[:2] == ("0", "1")


def test_a_part_of_the_items_keeps_vectors_titles_and_ids_together(tmp_path):
    images = embeddings.load(str(npz(tmp_path / "a.npz")))
    part = take(images, np.array([5, 60]))
    assert part.file_names == ("bird-5", "bird-60") and part.title(1) == images.title(60)
    assert np.array_equal(part.vectors.values, images.vectors.values[[5, 60]])


def test_the_stamp_tells_the_file_and_the_table_beside_it(tmp_path):
    vectors, kinds = items()
    path = npy(tmp_path / "a.npy", vectors, [("label",), *((label,) for label in labels_of(kinds))])
    before = embeddings.stamp(str(path))
    assert embeddings.stamp(str(path)) == before
    path.with_suffix(".csv").write_text("label\n")
    assert embeddings.stamp(str(path)) != before


def test_a_folder_of_arrays_is_told_from_one_of_vectors(tmp_path):
    np.savez(tmp_path / "pictures.npz", x_train=np.zeros((4, 8, 8), np.uint8), y_train=np.arange(4))
    assert sources.data_set_of(str(tmp_path)) == "folder"
    assert sources.data_set_of(str(tmp_path / "pictures.npz")) == "arrays"
    assert sources.data_set_of(str(npz(tmp_path / "a.npz"))) == "embeddings"
    assert sources.data_set_of("a.npy") == sources.data_set_of("a.parquet") == "embeddings"


def changed(row, value):
    vectors = items()[0]
    vectors[row] = value
    return vectors


def objects():
    return np.array([None] * COUNT, object)


IDS = [f"bird-{row}" for row in range(COUNT)]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"vectors": changed(7, np.nan)}, "the vector of 'bird-7' holds NaN or infinity"),
        ({"vectors": changed(7, np.inf)}, "the vector of 'bird-7' holds NaN or infinity"),
        ({"vectors": changed(8, 1e12)}, "the vector of 'bird-8' holds a number beyond 1e[+]09"),
        ({"vectors": changed(9, 0)}, "the vector of 'bird-9' is all zeros"),
        (
            {"vectors": items()[0].astype(float) * 1e-60},
            "the vector of 'bird-0' has only numbers below 1e-30; rescale the vectors",
        ),
        ({"vectors": np.full((COUNT, WIDTH), 3.0)}, "differ by less than 0.5% of their length; subtract their mean"),
        ({"vectors": np.zeros((COUNT, 0))}, "the vectors have 0 numbers; expected 1 to 4,096"),
        ({"vectors": np.zeros((0, WIDTH)), "ids": [], "labels": [], "titles": []}, "the file has 0 items"),
        ({"vectors": np.zeros((COUNT, versions.MAX_WIDTH + 1), np.int8)}, "have 4,097 numbers"),
        ({"vectors": np.zeros(COUNT)}, r"the vectors have the shape \(90,\); expected \(items, numbers\)"),
        ({"vectors": np.zeros((COUNT, WIDTH), complex)}, "the vectors are complex128; expected real numbers"),
        ({"vectors": np.full((COUNT, WIDTH), "a")}, "the vectors are <U1; expected real numbers"),
        ({"vectors": objects()}, "vectors has Python objects"),
        ({"labels": objects()}, "labels has Python objects"),
        ({"vectors": None}, "no array called vectors"),
        ({"ids": [*IDS[:-1], "bird-0"]}, "two items have the id 'bird-0'"),
        ({"ids": [*IDS[:-1], "a" * 201]}, "the id 'aaa.*… has 201 characters; expected at most 200"),
        ({"labels": ["a" * 121, "b"] * 45}, "the label 'aaa.*… has 121 characters; expected at most 120"),
        ({"vector": items()[0]}, "two columns, 'vector' and 'vectors', both hold the vector; expected one of them"),
        ({"labels": [0, 1, -1] * 30, "class_names": []}, "class_names is empty; expected a name for each class"),
        ({"ids": [*IDS[:-1], " "]}, "the id of item 89 is empty"),
        ({"ids": IDS[:-1]}, "id has 89 values for 90 vectors"),
        ({"labels": ["a", "b"]}, "label has 2 values for 90 vectors"),
        ({"labels": np.zeros((COUNT, 2))}, r"label has the shape \(90, 2\); expected one value per item"),
        ({"labels": np.full(COUNT, 0.5)}, "label 0.5 is not a whole number"),
        ({"labels": None}, "no item has a label in the column label; the file has 'ids', 'titles', 'vectors'"),
        ({"labels": [""] * COUNT}, "no item has a label"),
        ({"labels": ["a"] * COUNT}, "every item has the label 'a'; expected another class"),
        ({"labels": [0, 5, -1] * 30, "class_names": ["a", "b"]}, "label '5' is not an index of class_names"),
        ({"labels": [0, 0, -1] * 30, "class_names": ["a", "b"]}, "class b has no item"),
        ({"labels": [0, 1, -1] * 30, "class_names": ["a", "a"]}, "class_names has 'a' twice"),
        ({"pictures": ["lost.png"] * COUNT}, "picture 'lost.png' was not found"),
        ({"pictures": ["../other.png"] * COUNT}, "is outside the folder of the file"),
        ({"pictures": ["/etc/passwd"] * COUNT}, "is outside the folder"),
    ],
)
def test_a_misfit_in_a_npz_gets_one_sentence(tmp_path, changes, sentence):
    with pytest.raises(UserError, match=sentence) as refused:
        embeddings.load(str(npz(tmp_path / "a.npz", **changes)))
    assert refused.value.name == "dataset.path" and "\n" not in str(refused.value)


def test_files_that_are_no_files_of_vectors_get_one_sentence(tmp_path):
    (tmp_path / "text.txt").write_text("hello")
    for name in ("bad.npy", "bad.npz", "bad.parquet"):
        (tmp_path / name).write_bytes(b"hello, I am no file of vectors at all")
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}] * 3, object), allow_pickle=True)
    np.save(tmp_path / "cut.npy", items()[0])
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:-8])
    with open(tmp_path / "vast.npy", "wb") as file:
        np.lib.format.write_array_header_2_0(file, {"descr": "<f4", "fortran_order": False, "shape": (10**999, 8)})
    said = {
        None: "nothing is given; expected a file of vectors",
        "gone.npz": "does not exist",
        ".": "is not a file",
        "text.txt": "is a file of another kind",
        "bad.npy": r"is not a \.npy file",
        "bad.npz": r"is not a \.npz file",
        "bad.parquet": "is not a Parquet file",
        "objects.npy": "are Python objects, which are not read",
        "cut.npy": "is damaged: it has",
        "vast.npy": r"is not a \.npy file .*: an array has a dimension beyond 2\^63$",
    }
    for name, sentence in said.items():
        with pytest.raises(UserError, match=sentence):
            embeddings.load(name and str(tmp_path / name))
    with pytest.raises(UserError, match="dataset.image_size: 32 is a picture size"):
        embeddings.load(str(npz(tmp_path / "a.npz")), 32)


@pytest.mark.parametrize("end", ["", "\n\n"])
@pytest.mark.parametrize("breaks", ["\n", "\r\n"])
def test_a_blank_line_of_labels_alone_is_an_unknown_label(tmp_path, breaks, end):
    path, labels = tmp_path / "birds.npy", labels_of(items()[1])
    np.save(path, items()[0])
    path.with_suffix(".csv").write_bytes(breaks.join(["label", *labels, end]).encode())
    images = embeddings.load(str(path))
    assert [images.class_names[label] if label >= 0 else "" for label in images.labels] == labels


def test_blank_lines_between_all_labels_mean_nothing(tmp_path):
    path = npy(tmp_path / "birds.npy", items()[0], [])
    path.with_suffix(".csv").write_bytes("\r\r\n".join(["label", *"ab" * (COUNT // 2)]).encode())  # as Windows does
    assert embeddings.load(str(path)).labels.tolist() == [0, 1] * (COUNT // 2)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([("label",), *([("a",)] * 20 + [("",)] * COUNT + [("b",)])], "label has 111 values for 90 vectors"),
        ([("id", "label"), *((str(row), "a") for row in range(COUNT - 1))], "id has 89 values"),
        ([("id", "label"), ("1", "a"), ("2",)], r"line 3 of .*birds\.csv' has 1 cells"),
        ([("vector", "label"), ("1", "a")], "has a column of vectors"),
        ([("name", "kind"), ("1", "a")], "no item has a label in the column label; the file has 'name', 'kind'"),
        ([("id;label",), ("1;a",)], "the file has 'id;label'; expected a column label"),
        ([], r"birds\.csv' has no header; expected the names of its columns, such as id,label"),
    ],
)
def test_a_misfit_in_the_table_beside_a_npy_gets_one_sentence(tmp_path, rows, sentence):
    with pytest.raises(UserError, match=sentence):
        embeddings.load(str(npy(tmp_path / "birds.npy", items()[0], rows)))


@pytest.mark.parametrize(
    ("vector", "sentence"),
    [
        ([[1.0, 2.0], [3.0]], "lists of 1 to 2 numbers; expected one length"),
        ([[1.0, 2.0], None], "1 empty cells"),
        ([[1.0, 2.0], [3.0, None]], "1 missing numbers"),
        ([1.0, 2.0], "holds double; expected lists of numbers"),
        ([["a"], ["b"]], "holds string; expected lists of numbers"),
        (None, "no column called vector"),
    ],
)
def test_a_misfit_in_parquet_gets_one_sentence(tmp_path, vector, sentence):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"label": ["a", None]} | ({} if vector is None else {"vector": vector})
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=sentence):
        embeddings.load(str(tmp_path / "a.parquet"))


def test_parquet_that_decodes_to_far_more_than_its_size_is_bounded(tmp_path, monkeypatch):
    """A text of the file that repeats is one object, and vectors count with their decoded size."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(np.tile(np.float32([1, 2]), 400_000)), 400)
    columns = {"vector": vectors, "label": ["a", "b"] * 1000, "title": ["x" * 10_000] * 2000}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet", row_group_size=500)
    texts = vector_files.read_vectors(tmp_path / "a.parquet").titles
    assert len(texts) == 2000 and len(texts[0]) == 2000
    file = parquet.ParquetFile(tmp_path / "a.parquet")
    columns = vector_files._of_batches(
        parquet.ParquetFile(tmp_path / "a.parquet", read_dictionary=["title"]), {"vector": "vector", "title": "title"}
    )
    assert len({id(text) for text in columns["title"]}) <= file.num_row_groups
    monkeypatch.setattr(memory, "free_memory", lambda: (5_000_000, False))
    with pytest.raises(UserError, match="of memory, but only 5 MB are free"):
        embeddings.load(str(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("vector", [[1.0, 2.0]] * 2), "two columns, 'vector' and 'vector', both hold the vector"),
        (("label", [["a"], ["b"]]), "the column label holds list<.*>; expected one number or text per item"),
    ],
)
def test_columns_of_parquet_that_are_not_clear_are_refused(tmp_path, more, sentence):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = [("vector", [[1.0, 2.0], [3.0, 1.0]]), more]
    table = pyarrow.Table.from_arrays([pyarrow.array(values) for _, values in columns], [name for name, _ in columns])
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(UserError, match=sentence):
        embeddings.load(str(tmp_path / "a.parquet"))


def test_without_pyarrow_a_sentence_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"needs pyarrow to read Parquet: python -m pip install pyarrow"):
        vector_files.read_vectors(tmp_path / "a.parquet")


def test_titles_in_other_scripts_are_drawn_by_a_font_that_has_their_letters():
    assert item_pictures._font(17, "Plain") is item_pictures._fonts(17)[0], "Latin titles look as before"
    russian = item_pictures._font(17, "Щука")
    if not item_pictures._has(russian, "Щ"):
        pytest.skip("no font of this machine has Cyrillic letters")
    first, second = (ItemPictures([title])[0] for title in ("Щука", "Жаба"))
    assert (first != second).any(), "four boxes look alike"
