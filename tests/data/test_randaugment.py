"""RandAugment: PIL's pixels, the documented draws, and no waiting for the device."""

import numpy as np
import pytest
import torch
from PIL import Image

from benchmarks import pil_views
from lps.data import randaugment
from lps.data.batches import seeded
from lps.data.randaugment import LEVELS, OPERATIONS, apply_operations, rand_augment
from tests.shares import in_turn

CPU = torch.device("cpu")
SIZES = [(3, 32, 32), (1, 28, 28), (3, 17, 33), (3, 3, 2)]


def pictures(channels, height, width, n=6):
    """uint8: noise, little contrast, two values, a few bright pixels on one colour, slow changes, one colour."""
    generator = seeded(CPU, channels, height, width)
    shape, scalar = (n, channels, height, width), (n, channels, 1, 1)

    def integers(high, size=shape):
        return torch.randint(high, size, generator=generator)

    noise = integers(256)
    slow = torch.nn.functional.interpolate(torch.rand(n, channels, 4, 4, generator=generator), (height, width))
    kinds = [
        noise,
        integers(200, scalar) + noise % (1 + integers(56, scalar)),
        noise // 128 * integers(128, scalar),
        torch.where(noise > 250, noise, 17),
        slow * 255,
        torch.full((1, *shape[1:]), 9),
    ]
    return torch.cat([kind.to(torch.uint8) for kind in kinds])


def as_pil(image):
    array = image.permute(1, 2, 0).numpy()
    return Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)


def one_for_all(images, operation, level, sign):
    return apply_operations(images, *(torch.full((len(images),), value) for value in (operation, level, sign)))


@pytest.mark.parametrize("channels, height, width", in_turn(SIZES, 2))
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_makes_the_pixels_of_pil(name, channels, height, width):
    images = pictures(channels, height, width)
    originals = [as_pil(image) for image in images]
    for level in range(1, LEVELS):
        for sign in (0, 1):
            expected = [np.asarray(pil_views.OPERATIONS[name](one, level, 2 * sign - 1)) for one in originals]
            out = one_for_all(images, OPERATIONS.index(name), level, sign).permute(0, 2, 3, 1).numpy()
            assert np.array_equal(out, np.stack(expected).reshape(out.shape)), (level, sign)


def test_the_oracle_tells_the_operations_apart():
    """Control: with another operation or level the comparison above fails."""
    image = pictures(3, 40, 40)[:1]  # of 32 pixels, 3 % are none
    results = {
        (name, level): np.asarray(pil_views.OPERATIONS[name](as_pil(image[0]), level, 1)).tobytes()
        for name in set(OPERATIONS) - {"identity", "auto_contrast", "equalize", "posterize"}
        for level in range(1, LEVELS)
    }
    assert len(set(results.values())) == len(results)


def choices(n, key=0):
    generator = seeded(CPU, key)
    draws = (torch.randint(low, high, (n,), generator=generator) for low, high in ((0, 14), (1, LEVELS), (0, 2)))
    return tuple(draws)


def test_every_image_gets_its_own_operation():
    """A mixed batch is the images treated one by one."""
    images = pictures(3, 32, 32, n=20)
    operation, level, sign = choices(len(images))
    together = apply_operations(images, operation, level, sign)
    for i in range(len(images)):
        assert torch.equal(
            together[i : i + 1], apply_operations(*(v[i : i + 1] for v in (images, operation, level, sign)))
        )


def test_the_masked_form_of_a_gpu_gives_the_same_pixels(monkeypatch):
    images = pictures(3, 32, 32, n=20)
    grouped = apply_operations(images, *choices(len(images), key=1))
    monkeypatch.setattr(randaugment, "_on_host", lambda values: False)
    assert torch.equal(apply_operations(images, *choices(len(images), key=1)), grouped)


def test_draws_are_uniform_and_half_of_them_are_skipped(monkeypatch):
    """14 operations with replacement, levels 1 to 9, both signs; each skipped (identity) with probability 1/2."""
    seen = []
    monkeypatch.setattr(randaugment, "apply_operations", lambda images, *choice: seen.append(choice) or images)
    n = 40_000
    rand_augment(torch.zeros(n, 1, 1, 1, dtype=torch.uint8), seeded(CPU, 3))
    assert len(seen) == 2
    for operation, level, sign in seen:
        share = torch.bincount(operation, minlength=14) / n
        assert torch.allclose(share[1:], torch.tensor(1 / 28), atol=0.006)
        assert abs(share[0] - 15 / 28) < 0.015
        assert torch.allclose(torch.bincount(level)[1:] / n, torch.tensor(1 / 9), atol=0.01) and level.min() == 1
        assert abs(sign.float().mean() - 0.5) < 0.015
    (first, *_), (second, *_) = seen
    same = ((first > 0) & (first == second)).float().mean()
    assert abs(same - 13 / 28**2) < 0.003
