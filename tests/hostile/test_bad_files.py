"""Small files and data that are not what they should be: what goes on without them, and what is said.

At least 100 contents for `meta.json`, `want.json` and `.queue.json` that are none, arrays of wrong kinds and shapes,
folders of pictures that mean something else than a person thinks.
"""

import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from lps.__main__ import main
from lps.data import sources
from lps.data.split import open_world_split
from lps.errors import UserError
from lps.files import versions
from lps.scheduler import preflight, queue
from lps.settings.config import configure
from lps.settings.parameters import Parameter
from lps.store.run_folders import create_run
from lps.store.runs import Run
from lps.studies import class_search, search
from tests.bad_values import ENOUGH, stored
from tests.hostile.test_bad_input import refusal
from tests.queued_runs import waiting_runs

ANY = Parameter("any", "int", 0, "", 10**40, 10**41)  # a range that none of the stock lies in


def contents() -> list[bytes]:
    """JSON of every other form, and what is no JSON: cut short, of other characters, nested without an end."""
    found = [text.encode() for text in stored(ANY) if not text.startswith("{")]
    whole = b'{"name": "a", "want": "run", "attempt": 1, "paused": true}'
    return [*found, *(whole[:end] for end in range(len(whole))), b"\xff", b"[" * 100_000, b'{"a":' * 100_000]


def damaged_objects() -> list[bytes]:
    """Objects whose every value is of a wrong kind."""
    keys = ("name", "notes", "tags", "hidden", "rev", "version", "want", "attempt", "time", "priority", "order", "held")
    values = stored(ANY)
    return [("{" + ",".join(f'"{key}": {value}' for key in keys) + "}").encode() for value in values if value != ""]


@pytest.fixture
def run(tmp_path) -> Run:
    return create_run(tmp_path / "runs", configure({"epochs": 3}), "a name")


@pytest.mark.parametrize("name", ["meta.json", "want.json"])
def test_small_files_of_a_run_that_are_none(run, name):
    """Read as if nothing stood there; the state is one of those that exist, with a reason in one line."""
    found = [*contents(), *damaged_objects()]
    assert len(set(found)) >= 2 * ENOUGH
    for content in found:
        (run.folder / name).write_bytes(content)
        state = run.state()
        assert state.name in ("queued", "stopped", "cancelled") and "\n" not in state.reason, content[:100]
        assert set(run.meta()) == {"name", "notes", "tags", "hidden", "rev"} and "\n" not in run.title
        assert waiting_runs(run.root) == []


@pytest.mark.slow
def test_lists_of_runs_with_damaged_small_files(run, capsys):
    for name in ("meta.json", "want.json", queue.SWITCH):
        folder = run.root if name == queue.SWITCH else run.folder
        for content in (b"", b"[1]", b"\xff", b'{"name": 1, "want": [], "paused": "x", "tags": 1}', b"[" * 100_000):
            (folder / name).write_bytes(content)
            for words in (["list"], ["list", "--json"], ["show", run.id], ["queue"], ["queue", "--json"]):
                assert main([*words, "--runs", str(run.root)]) == 0
                said = capsys.readouterr()
                assert "Traceback" not in said.out + said.err
                assert (name == queue.SWITCH and words[0] == "queue") == (queue.SWITCH in said.err), (name, words)
        (folder / name).unlink(missing_ok=True)


def test_a_switch_of_the_queue_that_is_none_pauses_nothing_and_is_told(run):
    found = [*contents(), *damaged_objects(), b'{"paused": 1}', b'{"paused": null}', b'{"paused": "true"}', b"{}"]
    assert len(set(found)) >= 2 * ENOUGH
    for content in found:
        (run.root / queue.SWITCH).write_bytes(content)
        switch = queue.read_switch(run.root)
        assert not switch.paused and switch.problem.startswith(f"{queue.SWITCH} is damaged"), content[:100]


def bad_arrays() -> dict[str, dict]:
    """Arrays with one thing wrong, by what it is."""
    good = {"x_train": np.zeros((8, 6, 6, 3), np.uint8), "y_train": np.arange(8) % 2}
    kinds = (
        "bool int8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 S3 U3 M8[s] m8[s]".split()
    )
    found = {f"x {kind}": {"x_train": np.zeros((8, 6, 6, 3), kind)} for kind in kinds}
    found |= {f"y {kind}": {"y_train": np.zeros(8, kind)} for kind in kinds if "int" not in kind}
    shapes = [(), (8,), (8, 6), (8, 6, 6, 2), (8, 6, 6, 4), (8, 6, 6, 0), (8, 3, 6, 6), (8, 6, 6, 3, 1), (0, 6, 6, 3),
              (7, 6, 6, 3), (9, 6, 6, 3), (8, 0, 6, 3), (8, 6, 0), (8, 1, 1), (8, 3, 9, 3), (8, 6, 3, 3)]  # fmt: skip
    found |= {f"x {shape}": {"x_train": np.zeros(shape, np.uint8)} for shape in shapes}
    found |= {f"y {shape}": {"y_train": np.zeros(shape, int)} for shape in [(), (8, 1), (1, 8), (7,), (9,), (0,)]}
    found |= {f"y {ids}": {"y_train": np.array(ids)} for ids in ([-1] * 8, [-2] * 8, [0, 2] * 4, [10**6] * 8, [9] * 8)}
    tests = [{"x_test": good["x_train"]}, {"y_test": good["y_train"]}]
    tests += [{"x_test": np.zeros(shape, np.uint8), "y_test": np.zeros(2, int)} for shape in shapes]
    tests += [
        {"x_test": good["x_train"], "y_test": np.array(ids)} for ids in ([5] * 8, [-2] * 8, [0.5] * 8, [True] * 8)
    ]
    found |= {f"test {place}": more for place, more in enumerate(tests)}
    names = [["a"], ["a", "a"], [1, 2], [[b"a", b"b"]], [], 3, "ab", [0.5, 1.5], ["a", "b", "c"]]
    found |= {f"names {name}": {"class_names": np.array(name)} for name in names}
    found |= {
        f"y from {first}": {"y_train": np.arange(8) % 2 + first} for first in (-9, -3, -2, 1, 2, 3, 5, 7, 100, 2**31)
    }
    kinds = "bool int8 uint16 int64 float32 complex64 S3 U3".split()
    labels = {"y_test": good["y_train"]}
    found |= {f"test {kind}": labels | {"x_test": np.zeros((8, 6, 6, 3), kind)} for kind in kinds}
    return {what: good | more for what, more in found.items()}


BAD_ARRAYS = bad_arrays()


def test_arrays_of_wrong_kinds_and_shapes(tmp_path):
    for place, arrays in enumerate(BAD_ARRAYS.values()):
        path = tmp_path / f"{place}.npz"
        np.savez(path, **arrays)
        assert refusal(sources.load, "arrays", str(path)).name == "dataset.path", list(BAD_ARRAYS)[place]
    assert len(BAD_ARRAYS) >= ENOUGH


def bad_archives(whole: bytes) -> list[bytes]:
    """Files called .npz that are none, or less than one: cut short, overwritten, of other kinds."""
    found = [whole[:end] for end in range(0, len(whole) - 22, len(whole) // 60)]
    found += [b"\0" * len(whole), b"x" * 50, b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"\x80\x04K\x01.", b"{}", b"<html>"]
    for place in range(0, len(whole), len(whole) // 30):
        changed = whole[:place] + b"\xff" * 60 + whole[place + 60 :]
        found.append(changed)
    return found


def test_archives_that_are_none_or_damaged(tmp_path):
    """One sentence each; where the harm lies in what nobody reads, the very arrays come back."""
    good = {"x_train": np.random.default_rng(0).integers(0, 256, (8, 6, 6, 3), np.uint8), "y_train": np.arange(8) % 2}
    np.savez(tmp_path / "whole.npz", **good)
    found, refused = bad_archives((tmp_path / "whole.npz").read_bytes()), 0
    for place, content in enumerate(found):
        path = tmp_path / f"{place}.npz"
        path.write_bytes(content)
        try:
            images = sources.load("arrays", str(path))
        except UserError as error:
            refused += 1
            assert error.name == "dataset.path" and str(error).isprintable(), content[:40]
        else:
            assert (images.pixels == good["x_train"]).all() and (images.labels == good["y_train"]).all()
    assert refused >= 80 and len(found) >= 90


FORMS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")


def bad_pictures() -> list[bytes]:
    """What is called a picture and is none: cut short, of other kinds, nothing but a head, larger than is safe."""
    noise, found = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8), []
    for form in FORMS:
        buffer = io.BytesIO()
        Image.fromarray(noise).save(buffer, form)
        whole = buffer.getvalue()
        found += [whole[: len(whole) * share // 20] for share in range(1, 15)]
        found += [whole[:8] + b"\0" * 500, b"\0" * 16 + whole[16:], whole[::-1], b"x" + whole]
    heads = [b"%PDF-1.7", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"PK\x03\x04", b"\x7fELF", b"\x80\x04K\x01."]
    heads += [
        b"<html><img src=x>",
        b"\x00\x00\x00 ftypheic",
        b"%!PS-Adobe-3.0 EPSF-3.0",
        b"SIMPLE  =",
        b"{}",
        b"",
        b"\n",
    ]
    return found + [head + tail for head in heads for tail in (b"", b"\0" * 300)]


def test_pictures_that_are_none_are_left_out_with_words(animals):
    """At least 100 of them: none stops the data set, each is named with a reason, and the good ones are all there."""
    bad = list(dict.fromkeys(bad_pictures()))
    assert len(bad) >= ENOUGH
    for place, content in enumerate(bad):
        (animals / f"ant/bad{place}.png").write_bytes(content)
    images = sources.load("folder", str(animals))
    assert len(images.labels) == 120 and {name for name, _ in images.skipped} == {
        f"ant/bad{k}.png" for k in range(len(bad))
    }
    for _, reason in images.skipped:
        assert reason.isprintable() and not re.search("Error|Exception|Traceback|0x", reason), reason
    assert "cannot be decoded: it is cut short or damaged" in dict(images.skipped).values()


def test_images_of_few_pixels_are_refused_with_their_size(tmp_path):
    path = tmp_path / "a.npz"
    for side, fits in ((1, False), (3, False), (4, True)):
        np.savez(path, x_train=np.zeros((8, side, 9), np.uint8), y_train=np.arange(8) % 2)
        if fits:
            assert len(sources.load("arrays", str(path)).labels) == 8
        else:
            assert f"images of {side} x 9 pixels" in str(refusal(sources.load, "arrays", str(path)))


def draw(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), "red").save(path)


@pytest.fixture
def animals(tmp_path):
    """Four classes of 30 pictures, nothing else."""
    root = tmp_path / "animals"
    draw(*(root / name / f"{number}.png" for name in ("ant", "bee", "cat", "dog") for number in range(30)))
    return root


def test_test_pictures_without_class_folders_are_refused(animals):
    draw(animals / "test/1.png", animals / "test/2.png")
    error = refusal(sources.load, "folder", str(animals))
    assert error.name == "dataset.path" and "test has no class folder with pictures" in str(error)
    draw(animals / "test/ant/1.png")
    assert sources.load("folder", str(animals)).num_test == 1


def test_a_folder_without_unlabeled_is_told_which_labels_are_hidden(animals):
    asked = {"dataset": "folder", "dataset.path": str(animals)}
    (notice,) = preflight.start_warnings(configure(asked))
    assert "unlabeled" in notice and ": cat, dog." in notice
    assert preflight.start_warnings(configure(asked | {"split.num_seen": 2})) == []
    draw(animals / "unlabeled/1.png")
    assert preflight.start_warnings(configure(asked)) == []


def test_few_labels_are_cautioned_against_and_many_are_not():
    assert class_search.label_caution(100, 10) == "" == class_search.label_caution(5000, 50)
    assert "only 99 labels of 5 classes" in class_search.label_caution(99, 5) and "5 %" in class_search.label_caution(
        99, 5
    )
    assert "200 labels of 50 classes" in class_search.label_caution(200, 50)
    assert "only 0 labels" in class_search.label_caution(0, 1)


@pytest.mark.parametrize(
    "settings, each, name",
    [
        ({"split.labeled_ratio": 0.001}, 300, "split.labeled_ratio"),
        ({"split.labeled_ratio": 0.1, "dataset.images_per_class": 5}, 5, "dataset.images_per_class"),
        ({"split.labeled_ratio": 0.1, "split.test_ratio": 0.9}, 20, "split.test_ratio"),
    ],
)
def test_advice_names_the_setting_that_is_to_blame(settings, each, name):
    """Too few labels because of their share, because few images were taken, because most are for the test."""
    labels = np.repeat(np.arange(4), each)
    error = refusal(open_world_split, labels, ("a", "b", "c", "d"), configure(settings))
    assert error.name == name and f"with {settings[name]:g}, class" in str(error)


def test_a_search_of_a_newer_program_is_refused(tmp_path):
    request = search.read_request("digits", "lps", ["margin_scale=1..10"], name="s")
    found = search.create_search(request, tmp_path)
    path = found.folder / "search.json"
    kept = json.loads(path.read_text())
    path.write_text(json.dumps(kept | {"version": versions.VERSIONS["search.json"] + 1}))
    before = path.read_bytes()
    for act in (
        found.request,
        lambda: search.create_search(request, tmp_path),
        lambda: search.extend_search(found, 30),
    ):
        with pytest.raises(UserError, match=r"made by a newer LPS Studio \(version 2"):
            act()
    assert path.read_bytes() == before
