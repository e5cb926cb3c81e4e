"""The split designer shows exactly the split that a run would get."""

import io

import numpy as np
import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from lps.data import sources
from lps.data.split import open_world_split
from lps.datasets import Images
from lps.errors import UserError
from lps.settings.config import configure
from lps.ui.launch import splits
from lps.ui.pictures import frames, thumbnails
from lps.ui.pictures.frames import Frame
from lps.ui.shared import escape

SETTINGS = [
    {},
    {"split.num_seen": 3, "split.labeled_ratio": 0.1},
    {"split.seen_classes": "random", "split.seed": 4},
    {"split.seen_classes": "9,2,5", "split.rule": "stratified", "split.labeled_ratio": 0.25},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_counts_and_classes_are_those_of_the_run(settings):
    config, images = configure(settings), sources.load("digits")
    found = splits.preview_split(config)
    split = open_world_split(images.labels, images.class_names, config)
    truth = images.labels[split.unlabeled]
    assert found.labeled == len(split.labeled)
    assert found.unlabeled_seen == np.isin(truth, found.seen).sum()
    assert found.unlabeled_novel == np.isin(truth, found.novel).sum()
    assert found.labeled + found.unlabeled_seen + found.unlabeled_novel == 1797 and found.unlabeled_unknown == 0
    assert set(images.labels[split.labeled]) == set(found.seen)
    assert sorted(found.seen + found.novel) == list(range(10))


@pytest.mark.parametrize("order", ["permuted", "seen", "novel"])
def test_the_preview_counts_the_classes_of_an_imbalanced_split(order):
    config = configure({"split.imbalance": 5.0, "split.imbalance_order": order, "split.labeled_imbalance": 2.0})
    images, found = sources.load("digits"), splits.preview_split(config)
    split = open_world_split(images.labels, images.class_names, config)
    for ids, counts in ((split.labeled, found.labeled_by_class), (split.training, found.training_by_class)):
        shown = dict(zip((*found.seen, *found.novel), counts))
        assert shown == {label: (images.labels[ids] == label).sum() for label in shown}
    assert found.is_imbalanced and found.left_out == 1797 - len(split.training)
    plain = splits.preview_split(configure({}))
    assert not plain.is_imbalanced and plain.left_out == 0


def test_images_of_unknown_class_are_counted_apart(monkeypatch):
    labels = np.array([0, 0, 0, 1, 1, -1, -1, -1])
    pictures = Images(np.zeros((8, 4, 4, 3), np.uint8), labels, ("a", "b"))
    monkeypatch.setattr(sources, "load", lambda *source: pictures)
    found = splits.preview_split(configure({"split.rule": "stratified", "split.num_seen": 1}))
    assert (found.labeled, found.unlabeled_seen, found.unlabeled_novel, found.unlabeled_unknown) == (2, 1, 2, 3)


def test_a_split_that_cannot_be_is_an_error():
    with pytest.raises(UserError, match=r"split\.num_seen: 10 of 10 classes seen"):
        splits.preview_split(configure({"split.num_seen": 10}))


def test_small_pictures_keep_their_pixels_and_large_ones_shrink():
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8, 1)
    shown = thumbnails.make_thumbnail(pixels, 56)
    assert shown.shape == (56, 56, 3)
    assert (shown[::7, ::7, 0] == pixels[..., 0]).all() and (shown[3::7, 3::7, 1] == pixels[..., 0]).all()
    flat = thumbnails.make_thumbnail(np.full((300, 200, 3), (9, 8, 7), np.uint8), 56)
    assert flat.shape == (56, 37, 3) and (flat == (9, 8, 7)).all()


@pytest.mark.parametrize(
    "sides, shown", [((30, 50), (34, 56)), ((600, 400), (56, 37)), ((8, 8), (56, 56)), ((1, 9000), (7, 56))]
)
def test_squeezed_pictures_get_their_own_proportions_back(sides, shown):
    pixels = np.zeros((2, 16, 16, 3), np.uint8)
    images = Images(pixels, np.zeros(2, np.int64), ("a",), sizes=np.array([(5, 5), sides]))
    tile = thumbnails.make_thumbnail(pixels[1], 56, images.sides(1))
    assert images.sides(1) == sides and tile.shape == (*shown, 3)
    assert f'width="{shown[1]}" height="{shown[0]}"' in frames._render_frame(
        Frame(pixels[1], sides, "", "A picture"), 56
    )
    row = thumbnails.join_tiles([tile, tile], 56)
    assert row.shape == (56, 112, 4) and (row[..., 3] > 0).sum() == 2 * shown[0] * shown[1]


def test_samples_and_chips_of_squeezed_pictures_have_their_own_proportions(monkeypatch):
    pixels, sizes = np.full((2, 16, 16, 3), 200, np.uint8), np.array([(20, 40), (40, 20)])
    images = Images(pixels, np.arange(2), ("wide", "tall"), sizes=sizes)
    monkeypatch.setattr(splits.sources, "load", lambda *_: images)
    source = sources.Source("squeezed")
    for made, own in (
        (splits.class_samples(source, (), 1), (28, 56)),
        (splits._class_chips(source, (), (0, 1), "#1f6fb4"), (28 + 2 * thumbnails.FRAME, 56 + 2 * thumbnails.FRAME)),
    ):
        wide, tall = (np.asarray(Image.open(io.BytesIO(data)))[..., 3] > 0 for data in made)
        assert wide.shape == tall.shape
        assert (
            (wide.any(axis=1).sum(), wide.any(axis=0).sum()) == own == (tall.any(axis=0).sum(), tall.any(axis=1).sum())
        )


def test_a_chip_has_its_frame_and_a_strip_its_gaps():
    framed = thumbnails.add_frame(np.zeros((10, 10, 3), np.uint8), "#1f6fb4")
    assert (framed[0] == (0x1F, 0x6F, 0xB4)).all() and (
        framed[thumbnails.FRAME : -thumbnails.FRAME, thumbnails.FRAME : -thumbnails.FRAME] == 0
    ).all()
    strip = thumbnails.join_tiles([framed, framed], 16, gap=4, edge=2)
    assert strip.shape == (16, 2 + 16 + 4 + 16 + 2, 4)
    assert (strip[:, [0, 1, 18, 21, -1], 3] == 0).all() and (strip[:, 2:18, 3] == 255).all()


def test_every_class_has_its_own_samples():
    strips = splits.class_samples(sources.Source("digits"), (), 2)
    assert len(strips) == 10 and len(set(strips)) == 10
    assert Image.open(io.BytesIO(strips[0])).size == (2 * splits.THUMBNAIL + 4 + 24, splits.THUMBNAIL)


def test_picked_classes_are_those_that_exist():
    assert splits.picked_classes("9,2,77", 10) == [9, 2]
    assert splits.picked_classes("first", 10) == []
    assert splits.picked_classes("", 10) == []
    assert splits.picked_classes("x", 10) == []


def test_names_of_classes_are_shown_as_they_are_written():
    def script():
        from lps.charts import palette
        from lps.settings.config import configure
        from lps.ui.launch import splits

        config = configure()
        odd = splits.SplitPreview(
            ("**a** $x$ [l](http://e.x)", *"bcdefghij"), tuple(range(5)), tuple(range(5, 10)), 7, 1, 2, 3, 4, 5, 6
        )
        splits.show_chips(config, odd, palette.LIGHT)

    at = AppTest.from_function(script, default_timeout=30).run()
    assert not at.exception
    captions = at.get("image")[0].captions
    assert captions[0] == escape.markdown("**a** $x$ [l](http://e.x)") and captions[1] == "b"
    assert "looks for 7" in at.markdown[1].value
    assert at.caption[0].value.startswith("5 ") and "6 images" in at.caption[0].value
    assert "and 4 unlabeled images whose class is not known" in at.markdown[2].value
