"""The split designer shows exactly the split that a run would get."""

import io

import numpy as np
import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from lps import datasets
from lps.config import configure
from lps.datasets import Images
from lps.parameters import ConfigError
from lps.split import open_world_split
from lps.ui import escape, splits

SETTINGS = [
    {},
    {"split.num_seen": 3, "split.labeled_ratio": 0.1},
    {"split.seen_classes": "random", "split.seed": 4},
    {"split.seen_classes": "9,2,5", "split.rule": "stratified", "split.labeled_ratio": 0.25},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_counts_and_classes_are_those_of_the_run(settings):
    config, images = configure(settings), datasets.load("digits")
    found = splits.preview(config)
    split = open_world_split(images.labels, images.class_names, config)
    truth = images.labels[split.unlabeled]
    assert found.labeled == len(split.labeled)
    assert found.unlabeled_seen == np.isin(truth, found.seen).sum()
    assert found.unlabeled_novel == np.isin(truth, found.novel).sum()
    assert found.labeled + found.unlabeled_seen + found.unlabeled_novel == 1797 and found.unlabeled_unknown == 0
    assert set(images.labels[split.labeled]) == set(found.seen)
    assert sorted(found.seen + found.novel) == list(range(10))


def test_images_of_unknown_class_are_counted_apart(monkeypatch):
    labels = np.array([0, 0, 0, 1, 1, -1, -1, -1])
    pictures = Images(np.zeros((8, 4, 4, 3), np.uint8), labels, ("a", "b"))
    monkeypatch.setattr(datasets, "load", lambda *source: pictures)
    found = splits.preview(configure({"split.rule": "stratified", "split.num_seen": 1}))
    assert (found.labeled, found.unlabeled_seen, found.unlabeled_novel, found.unlabeled_unknown) == (2, 1, 2, 3)


def test_a_split_that_cannot_be_is_an_error():
    with pytest.raises(ConfigError, match=r"split\.num_seen: 10 of 10 classes seen"):
        splits.preview(configure({"split.num_seen": 10}))


def test_small_pictures_keep_their_pixels_and_large_ones_shrink():
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8, 1)
    shown = splits.thumbnail(pixels, 56)
    assert shown.shape == (56, 56, 3)
    assert (shown[::7, ::7, 0] == pixels[..., 0]).all() and (shown[3::7, 3::7, 1] == pixels[..., 0]).all()
    flat = splits.thumbnail(np.full((300, 200, 3), (9, 8, 7), np.uint8), 56)
    assert flat.shape == (56, 56, 3) and (flat == (9, 8, 7)).all()


def test_a_chip_has_its_frame_and_a_strip_its_gaps():
    framed = splits.framed(np.zeros((10, 10, 3), np.uint8), "#1f6fb4")
    assert (framed[0] == (0x1F, 0x6F, 0xB4)).all() and (
        framed[splits.FRAME : -splits.FRAME, splits.FRAME : -splits.FRAME] == 0
    ).all()
    strip = splits.side_by_side([framed, framed], gap=4, edge=2)
    assert strip.shape == (16, 2 + 16 + 4 + 16 + 2, 4)
    assert (strip[:, [0, 1, 18, 21, -1], 3] == 0).all() and (strip[:, 2:18, 3] == 255).all()


def test_every_class_has_its_own_samples():
    strips = splits.class_samples(datasets.Source("digits"), (), 2)
    assert len(strips) == 10 and len(set(strips)) == 10
    assert Image.open(io.BytesIO(strips[0])).size == (2 * splits.THUMBNAIL + 4 + 24, splits.THUMBNAIL)


def test_picked_classes_are_those_that_exist():
    assert splits.picked_classes("9,2,77", 10) == [9, 2]
    assert (
        splits.picked_classes("first", 10) == []
        and splits.picked_classes("", 10) == []
        and splits.picked_classes("x", 10) == []
    )


def test_names_of_classes_are_shown_as_they_are_written():
    def script():
        from lps.config import configure
        from lps.ui import splits, style

        config = configure()
        odd = splits.Preview(
            ("**a** $x$ [l](http://e.x)", *"bcdefghij"), tuple(range(5)), tuple(range(5, 10)), 7, 1, 2, 3, 4, 5, 6
        )
        splits.show_chips(config, odd, style.LIGHT)

    at = AppTest.from_function(script, default_timeout=30).run()
    assert not at.exception
    captions = at.get("image")[0].captions
    assert captions[0] == escape.markdown("**a** $x$ [l](http://e.x)") and captions[1] == "b"
    assert "7 are looked for" in at.markdown[1].value
    assert at.caption[0].value.startswith("5 of the unlabeled images are") and "6 images are" in at.caption[0].value
    assert "among 4 more unlabeled images of unknown class" in at.markdown[2].value
