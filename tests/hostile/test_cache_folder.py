"""What may lie in the cache folder in place of decoded pictures: damage, links and pipes cost time alone."""

import json
import os

import numpy as np
import pytest

from lps.datasets import Images
from lps.datasets.readers import picture_cache
from lps.errors import UserError

PIXELS = np.arange(6 * 4 * 4, dtype=np.uint8).reshape(6, 4, 4, 1)
DEEP, HUGE = "[" * 200_000, '{"shape": [' + "9" * 4000 + ", 4, 4, 1]}"

HEAD = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }"
MANY = b"\x93NUMPY\x01\x00v\x00" + HEAD.ljust(117) + b"\n"


def make(writer) -> Images:
    writer.add(PIXELS)
    return Images(writer, np.arange(6) % 2, ("a", "b"), 2, (("x", "is none"),), tuple("abcdef"), np.full((6, 2), 9))


def kept() -> Images:
    return picture_cache.cached_images(("folder", "/pictures"), "content", make, 1)


def folder():
    kept()
    (found,) = (path.parent for path in picture_cache.cache_folder().glob("pictures/*/*/facts.json"))
    return found


def facts(**changes) -> str:
    return json.dumps(json.loads((folder() / "facts.json").read_text()) | changes)


DAMAGES = {
    "no JSON": ("facts.json", lambda: "{"),
    "deep JSON": ("facts.json", lambda: DEEP),
    "no object": ("facts.json", lambda: "[1]"),
    "a number of 4,000 digits": ("facts.json", lambda: HUGE),
    "a shape beyond all memory": ("facts.json", lambda: facts(shape=[2**62, 4, 4, 1])),
    "a negative shape": ("facts.json", lambda: facts(shape=[-6, -4, 4, 1])),
    "names that are no texts": ("facts.json", lambda: facts(class_names=[1, None])),
    "a class without a name": ("facts.json", lambda: facts(class_names=["a"])),
    "fewer files than pictures": ("facts.json", lambda: facts(file_names=["a"])),
    "more test pictures than there are": ("facts.json", lambda: facts(num_test=7)),
    "a number that is a text": ("facts.json", lambda: facts(num_test="2")),
    "what was left out as numbers": ("facts.json", lambda: facts(skipped=[[1, 2]])),
    "labels that are no numbers": ("labels.npy", lambda: np.zeros(6)),
    "labels of no class": ("labels.npy", lambda: np.full(6, 5)),
    "labels of a billion pictures": ("labels.npy", lambda: MANY),
    "labels that are cut off": ("labels.npy", lambda: b"\x93NUMPY"),
    "sizes of nothing": ("sizes.npy", lambda: np.zeros((6, 2), np.int64)),
    "pixels that are cut off": ("pixels.u8", lambda: b"\0" * 95),
}  # fmt: skip


def put(path, content) -> None:
    if isinstance(content, np.ndarray):
        np.save(path, content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_pictures_of_the_cache_are_decoded_again(damage):
    name, content = DAMAGES[damage]
    put(folder() / name, content())
    assert_right(kept())


def assert_right(found: Images) -> None:
    assert np.array_equal(found.pixels, PIXELS) and found.class_names == ("a", "b") and found.num_test == 2
    assert found.labels.tolist() == [0, 1, 0, 1, 0, 1] and found.file_names == tuple("abcdef")


@pytest.mark.parametrize("name", ["facts.json", "labels.npy", "sizes.npy", "pixels.u8"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
@pytest.mark.timeout(20)
def test_links_and_pipes_in_the_cache_are_neither_followed_nor_waited_for(name, kind, tmp_path):
    path, outside = folder() / name, tmp_path / "outside"
    path.rename(outside)
    before = outside.read_bytes()
    if kind == "link":
        path.symlink_to(outside)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert_right(kept())
    assert outside.read_bytes() == before and path.is_file() and not path.is_symlink()


@pytest.mark.parametrize("to", ["outside", "nowhere"])
def test_a_folder_of_the_cache_that_is_a_link_is_one_sentence_and_left_alone(to, tmp_path):
    path = folder()
    (tmp_path / "outside").mkdir()
    for one in path.iterdir():
        one.rename(tmp_path / "outside" / one.name)
    (tmp_path / "outside" / "facts.json").write_text("{}")
    path.rmdir()
    path.symlink_to(tmp_path / to)
    before = sorted((one.name, one.read_bytes()) for one in (tmp_path / "outside").iterdir())
    with pytest.raises(
        UserError, match=r"^dataset.path: its decoded pictures cannot be stored in .* no cache folder; remove"
    ):
        kept()
    assert sorted((one.name, one.read_bytes()) for one in (tmp_path / "outside").iterdir()) == before
