"""Where a run's pixels lie: on the device, or where they are; in any case once."""

import os

import numpy as np
import pytest
import torch

from lps.data import training_data
from lps.data.batches import Pictures
from lps.data.split import open_world_split
from lps.data.training_data import resolve_device
from lps.datasets import Images
from lps.datasets.readers import picture_cache
from lps.errors import UserError
from lps.settings.config import configure

CPU = torch.device("cpu")
PIXELS = np.random.default_rng(0).integers(0, 256, (30, 6, 5, 3), np.uint8)


@pytest.fixture
def mapped(tmp_path):
    PIXELS.tofile(tmp_path / "pixels.u8")
    return np.memmap(tmp_path / "pixels.u8", np.uint8, "r", shape=PIXELS.shape)


def test_pretraining_looks_at_the_pixels_of_the_run_and_copies_none():
    whole = training_data.prepare(configure({"split.test_ratio": 0.5, "device": "cpu"}))
    images, truth = whole.training
    assert images.pixels is whole.images.pixels and len(images) == len(truth) == len(whole.split.training) < 1000
    chosen = torch.tensor([0, 5, len(images) - 1])
    assert torch.equal(images.taken(chosen), whole.images.taken(torch.from_numpy(whole.split.training)[chosen]))


def test_pixels_beyond_the_limit_stay_in_their_file_and_are_taken_as_they_would_be(mapped, monkeypatch, recwarn):
    images = Images(mapped, np.zeros(30, np.int64), ("only",))
    copied = training_data.pictures_on_device(images, CPU)
    monkeypatch.setattr("lps.datasets.ON_DEVICE", PIXELS.nbytes - 1)
    monkeypatch.setattr("lps.data.batches.PIECE", 12)
    kept = training_data.pictures_on_device(images, CPU)
    assert kept.pixels.data_ptr() == mapped.ctypes.data != copied.pixels.data_ptr() and not recwarn.list
    ids = torch.tensor([3, 3, 29, 0])
    assert torch.equal(kept.taken(ids), copied.taken(ids)) and kept.taken(ids).is_contiguous()
    assert kept.shape == copied.shape == (30, 3, 6, 5)
    part = np.array([7, 1, 20])
    for images in (kept, copied):
        assert np.array_equal(np.concatenate(list(images.part(part).pieces())), PIXELS[part].transpose(0, 3, 1, 2))
        assert torch.equal(images.part(part).part(np.array([2])).taken(torch.tensor([0])), copied.taken(ids.new([20])))
        assert torch.equal(torch.cat(list(images.all_seen(lambda batch, noise: batch))), copied.pixels)


def test_ids_stay_where_the_pixels_are_and_images_go_to_the_device(mapped):
    """A device without memory stands for one that is not the host."""
    images = Pictures(torch.from_numpy(PIXELS).permute(0, 3, 1, 2), torch.device("meta"))
    assert images.home == CPU and images.device.type == "meta" and images.part(np.array([4])).rows.device == CPU
    batch = images.taken(torch.tensor([1, 2]))
    assert batch.device.type == "meta" and batch.shape == (2, 3, 6, 5) and batch.is_contiguous()


def test_views_are_told_the_sizes_of_squeezed_images():
    sizes = torch.arange(60).view(30, 2)
    images = Pictures(torch.from_numpy(PIXELS).permute(0, 3, 1, 2), CPU, sizes).part(np.array([9, 4, 2]))
    told = []
    images.seen(torch.tensor([1, 2]), [lambda batch, noise, sizes: told.append(sizes.tolist())] * 2)
    assert told == [[[8, 9], [4, 5]]] * 2


def test_a_run_knows_its_pixels_again_wherever_they_lie(monkeypatch):
    def digest():
        return training_data.prepare(configure({"device": "cpu"})).digest

    here = digest()
    monkeypatch.setattr("lps.datasets.ON_DEVICE", 0)
    assert digest() == here


def test_pixels_in_a_file_stay_there_on_a_processor_and_are_read_for_their_digest_once(mapped, monkeypatch):
    digest = training_data.digest_of_pictures
    monkeypatch.setattr(training_data, "_MIN_MAPPED_BYTES", 0)
    monkeypatch.setattr(picture_cache, "_SETTLED_NS", -1)
    images = training_data.pictures_on_device(Images(mapped, np.zeros(30, np.int64), ("a",)), CPU)
    in_memory = training_data.pictures_on_device(Images(PIXELS, np.zeros(30, np.int64), ("a",)), CPU)
    assert images.pixels.data_ptr() == mapped.ctypes.data and images.file is not None and in_memory.file is None
    assert digest(images) == digest(in_memory) != digest(images.part(np.arange(3)))
    expected, ids = digest(images), torch.tensor([7, 2, 29])
    assert torch.equal(images.taken(ids), in_memory.taken(ids))
    monkeypatch.setattr(Pictures, "feed", lambda *_: pytest.fail("the pixels were read again"))
    assert digest(training_data.pictures_on_device(Images(mapped, np.zeros(30, np.int64), ("a",)), CPU)) == expected
    monkeypatch.undo()
    changed = np.memmap(mapped.filename, np.uint8, "r+", shape=PIXELS.shape)
    changed[0, 0, 0, 0] ^= 255
    changed.flush()
    os.utime(mapped.filename, ns=(1, 1))
    assert digest(training_data.pictures_on_device(Images(mapped, np.zeros(30, np.int64), ("a",)), CPU)) != expected


def test_data_keep_the_name_that_earlier_versions_gave_them(mapped):
    def of(pixels):
        config = configure({"dataset": "digits", "device": "cpu"})
        labels = np.arange(30) % 3
        split = open_world_split(labels, ("a", "b", "c"), config)
        return training_data.TrainingData(
            training_data.pictures_on_device(Images(pixels, labels, ("a", "b", "c")), CPU), labels, split, None
        )

    in_file, in_memory = of(mapped), of(PIXELS)
    assert in_file.digest.startswith("files-") and in_file.has_digest(in_file.digest)
    assert in_file.has_digest(in_memory.digest) and not in_memory.has_digest(in_file.digest)
    assert not in_file.has_digest(None) and not in_file.has_digest("files-other")


@pytest.mark.parametrize(("name", "index"), [("auto", 1), ("cuda", 1), ("cuda:0", 0), ("cuda:1", 1)])
def test_a_gpu_equals_the_device_of_the_tensors_on_it(monkeypatch, name, index):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)  # of the second rank
    assert resolve_device(name) == torch.device("cuda", index)


def test_a_gpu_that_is_not_there_is_refused_and_auto_takes_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert resolve_device("auto") == resolve_device("cpu") == torch.device("cpu")
    with pytest.raises(UserError, match="cuda is not available; GPUs that PyTorch can use: none"):
        resolve_device("cuda")
