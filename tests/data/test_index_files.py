"""Index files of others: the layout that BaCon publishes, its class counts, and files that do not fit."""

import pickle
import zipfile
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from lps.data import index_files
from lps.data.split import open_world_split
from lps.errors import UserError
from lps.settings.config import configure

# Counted in data_uq_idxs/cifar10_k5_imb100 with the labels of CIFAR-10: labeled, unlabeled seen, unlabeled novel.
BACON_SEEN, BACON_SEEN_LABELED = (4500, 125, 1617, 45, 2697), (2250, 63, 809, 23, 1349)
BACON_NOVEL = (581, 348, 208, 969, 75)
NAMES = tuple(f"class {number}" for number in range(10))


def _write(folder, lists: Sequence[np.ndarray], ending: str = "pt") -> str:
    folder.mkdir(exist_ok=True)
    for name, ids in zip(index_files.NAMES, lists):
        if ending == "pt":  # as torch.save writes an array, with no torch needed to read it
            torch.save(ids, folder / f"{name}.pt")
        else:
            np.save(folder / f"{name}.npy", ids)
    return str(folder)


def _lists(labels: np.ndarray) -> list[np.ndarray]:
    """What BaCon's files hold, drawn anew: so many ids of each class, in random order."""
    random = np.random.default_rng(0)
    by_class = [random.permutation(np.flatnonzero(labels == label)) for label in range(10)]
    labeled = [by_class[label][:count] for label, count in enumerate(BACON_SEEN_LABELED)]
    of_seen = [by_class[k][BACON_SEEN_LABELED[k] : count] for k, count in enumerate(BACON_SEEN)]
    of_novel = [by_class[5 + k][:count] for k, count in enumerate(BACON_NOVEL)]
    return [random.permutation(np.concatenate(parts)) for parts in (labeled, of_seen, of_novel)]


@pytest.fixture(scope="module")
def labels():
    """Of 10 x 5,000 training images, as CIFAR-10 has, and 100 test images."""
    return np.random.default_rng(1).permutation(np.repeat(np.arange(10), 5000)), np.repeat(np.arange(10), 10)


@pytest.mark.parametrize("ending", ["pt", "npy"])
def test_the_class_counts_of_bacon_are_reproduced(tmp_path, labels, ending):
    lists = _lists(labels[0])
    assert [len(ids) for ids in lists] == [4494, 4490, 2181]
    config = configure({"dataset": "cifar10", "split.index_files": _write(tmp_path / "idxs", lists, ending)})
    split = open_world_split(np.concatenate(labels), NAMES, config, num_test=100)
    assert np.array_equal(split.labeled, np.sort(lists[0]))
    assert np.array_equal(split.unlabeled, np.sort(np.concatenate(lists[1:])))
    assert split.classes.seen == 5 and split.classes.total == 10 and len(split.test) == 100
    counts = np.bincount(labels[0][split.training], minlength=10)
    assert tuple(counts) == BACON_SEEN + BACON_NOVEL


def test_labels_may_be_withheld_for_validation(tmp_path, labels):
    folder = _write(tmp_path / "idxs", _lists(labels[0]))
    config = configure({"dataset": "cifar10", "split.index_files": folder, "split.validation_ratio": 0.1})
    split = open_world_split(labels[0], NAMES, config)
    assert len(split.labeled) + len(split.validation) == 4494 and np.isin(split.validation, split.unlabeled).all()


class _Harmful:
    def __reduce__(self):
        return print, ("a stranger's code ran",)


class _Large:
    def __reduce__(self):
        return np.ndarray, ((1 << 60,), "i1")


def _pickled(path, thing) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(thing, 2))


@pytest.mark.parametrize("thing, words", [
    (_Harmful(), "builtins.print|__builtin__.print"), ([1, 2], "not a list of whole numbers"),
    (_Large(), "cannot be read .*not callable"),
    (np.zeros(3), "not a list of whole numbers"), (np.zeros((2, 2), int), "not a list"),
    (np.array([0, 50_000]), "not training images.* 0 to 49,999"), (np.array([-1]), "not training images"),
    (np.zeros(0, int), "cannot be read"), (np.array([1, 1]), "names an image twice"),
    (np.array([None, print]), "cannot be read|not one list"),
])  # fmt: skip
def test_a_file_that_does_not_fit_gets_one_sentence(tmp_path, labels, capsys, thing, words):
    folder = _write(tmp_path / "idxs", _lists(labels[0]))
    _pickled(tmp_path / "idxs" / "l_k_uq_idxs.pt", thing)
    with pytest.raises(UserError, match=words) as raised:
        index_files.read_index_files(folder, labels[0])
    assert str(raised.value).startswith("split.index_files: ") and "\n" not in str(raised.value)
    assert "stranger" not in capsys.readouterr().out


def test_missing_damaged_and_foreign_files_are_named(tmp_path, labels):
    lists = _lists(labels[0])
    folder = _write(tmp_path / "idxs", lists)
    with pytest.raises(UserError, match="does not fit this data set"):
        index_files.read_index_files(folder, np.roll(labels[0], 1))
    (tmp_path / "idxs" / "unl_k_uq_idxs.pt").write_bytes(b"PK nothing")
    with pytest.raises(UserError, match=r"unl_k_uq_idxs\.pt.* cannot be read"):
        index_files.read_index_files(folder, labels[0])
    (tmp_path / "idxs" / "unl_k_uq_idxs.pt").unlink()
    with pytest.raises(UserError, match=r"has no unl_k_uq_idxs\.pt or"):
        index_files.read_index_files(folder, labels[0])


@pytest.mark.parametrize("key, value", [
    ("split.imbalance", 10.0), ("split.num_seen", 5), ("split.seen_classes", "random"), ("split.test_ratio", 0.2),
    ("dataset.images_per_class", 100),
])  # fmt: skip
def test_what_index_files_decide_cannot_be_asked_for_beside_them(key, value):
    with pytest.raises(UserError, match=f"split.index_files: already defines the split, so {key}="):
        configure({"dataset": "cifar10", "split.index_files": "somewhere", key: value})
