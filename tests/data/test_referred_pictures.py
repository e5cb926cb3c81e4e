"""Pictures by reference: the same pixels, digests and batches as decoded ones, and no stored pixels."""

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lps.data import sources, training_data
from lps.data.batches import training_batches
from lps.data.referenced_pictures import ReferencedPictures, rate_of_workers
from lps.data.views import views_of
from lps.errors import UserError
from lps.settings.config import configure


@pytest.fixture(params=["folder", "shards"])
def config(request, tmp_path):
    """40 pictures of three classes, half of them without a label."""
    draw, home = np.random.default_rng(0), tmp_path / request.param
    home.mkdir()
    archive = tarfile.open(home / "train.tar", "w") if request.param == "shards" else None
    for number in range(40):
        out = io.BytesIO()
        Image.fromarray(draw.integers(0, 256, (20, 24, 3), np.uint8)).save(out, "JPEG")
        label, content = f"c{number % 3}" if number % 2 else "", out.getvalue()
        if archive is None:
            place = home / (label or "unlabeled") / f"{number}.jpg"
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(content)
        else:
            members = {"jpg": content} | ({"cls": label.encode()} if label else {})
            for name, data in members.items():
                head = tarfile.TarInfo(f"{number:02d}.{name}")
                head.size = len(data)
                archive.addfile(head, io.BytesIO(data))
    if archive is not None:
        archive.close()
    data = {"dataset": request.param, "dataset.path": str(home), "dataset.image_size": 16, "split.num_novel": 1}
    return configure(data | {"batch_size": 8, "network.name": "digits_resnet", "network.image_size": None})


@pytest.fixture
def both(config, tmp_path, monkeypatch):
    """The material of the config decoded and by reference."""
    found = []
    for gigabytes in ("1", "0"):
        monkeypatch.setenv("LPS_CACHE", str(tmp_path / f"cache {gigabytes}"))
        monkeypatch.setenv("LPS_DECODED_GB", gigabytes)
        sources._load.cache_clear()
        found.append(training_data.prepare(config))
    return found


def test_pictures_by_reference_are_the_decoded_ones_under_the_same_name(both, config, tmp_path):
    decoded, referred = both
    assert isinstance(referred.images, ReferencedPictures) and not list(tmp_path.glob("cache 0/**/pixels.u8"))
    assert referred.digest == decoded.digest and referred.images.shape == decoded.images.shape
    ids = torch.tensor([3, 39, 0, 3])
    assert torch.equal(referred.images.taken(ids), decoded.images.taken(ids))
    rows = np.array([5, 17, 30])
    assert torch.equal(referred.images.part(rows).taken(ids[2:3]), decoded.images.part(rows).taken(ids[2:3]))
    pixels = sources.images_of(config).pixels
    assert np.array_equal(pixels[[4, 9]], np.stack([pixels[4], pixels[9]]))
    assert np.array_equal(pixels.take(rows)[1], pixels[17])


def test_a_file_with_the_same_size_and_time_is_read_again_if_it_was_written_since(config, both):
    file = next(path for path in Path(config.dataset_path).rglob("*.*") if path.suffix in (".jpg", ".tar"))
    times, content = (os.stat(file).st_atime_ns, os.stat(file).st_mtime_ns), bytearray(file.read_bytes())
    file.chmod(0o600)  # only the time of the change is new: read again, and the run stays the same
    sources._load.cache_clear()
    assert training_data.prepare(config).digest == both[1].digest
    content[content.index(b"\xff\xda") + 40] ^= 0xFF  # in the scan of a JPEG
    with open(file, "r+b") as same_file:
        same_file.write(content)
    os.utime(file, ns=times)
    sources._load.cache_clear()
    assert training_data.prepare(config).digest != both[1].digest


def test_a_step_sees_the_same_views_whoever_reads_its_pictures(both, config):
    views = tuple(views_of(config)[name] for name in ("weak", "strong"))

    def batches(found):
        targets = torch.from_numpy(found.truth[found.split.labeled])
        return training_batches(found.images, targets, found.split, views, found.plan, config, epoch=1, first_step=1)

    count = 0
    for ours, theirs in zip(*map(batches, both), strict=True):
        count += 1
        assert all(map(torch.equal, ours.views(), theirs.views()))
    assert count == both[0].plan.steps - 1 > 0
    told = rate_of_workers(both[1].images)
    assert told["throughput/decoded_per_s"] > 0 and rate_of_workers(both[1].images) == {}
    assert rate_of_workers(both[0].images) == {}


def test_an_evaluation_reads_ahead_too(both):
    ours, theirs = (torch.cat(list(found.images.all_seen(lambda images, noise: images, 7))) for found in both)
    assert len(ours) == 40 and torch.equal(ours, theirs)


def test_a_picture_that_has_gone_is_one_sentence_from_a_worker_too(both, config):
    images = both[1].images
    for path in (*images.stored.root.rglob("*.jpg"), *images.stored.root.glob("*.tar")):
        path.unlink()
    ids = torch.arange(4)
    for source in (images, images.expecting([ids])):
        with pytest.raises(UserError, match="dataset.path: '.*' can no longer be read: "):
            source.taken(ids)


def test_no_room_to_hand_over_means_that_the_process_reads_itself(both, monkeypatch):
    nothing = os.statvfs_result((4096, 4096, 0, 0, 0, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: nothing)
    images, ids = both[1].images, torch.arange(4)
    assert images.expecting([ids]) is images and len(images.taken(ids)) == 4


def test_a_limit_that_is_no_number_is_refused(config, tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LPS_DECODED_GB", "much")
    sources._load.cache_clear()
    with pytest.raises(UserError, match="LPS_DECODED_GB: 'much' is not a number of gigabytes; expected 0 or more"):
        sources.images_of(config)
