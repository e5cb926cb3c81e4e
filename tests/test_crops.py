"""Crops take the pixels that they say: against slices of a padded image and torch's own antialiased resizing."""

import pytest
import torch
import torch.nn.functional as F

from lps import crops
from lps.batches import seeded

CPU = torch.device("cpu")


def noise(n, channels, height, width, key=0):
    size = (n, channels, height, width)
    return torch.randint(1, 256, size, generator=seeded(CPU, key), dtype=torch.uint8)  # 0 only comes from outside


def all_crops(image, pad_y, pad_x, mode):
    """Every crop of the old size of the padded image, unflipped and flipped, as bytes."""
    height, width = image.shape[1:]
    padded = F.pad(image.float(), (pad_x, pad_x, pad_y, pad_y), mode=mode).to(torch.uint8)
    found = {}
    for y in range(2 * pad_y + 1):
        for x in range(2 * pad_x + 1):
            crop = padded[:, y : y + height, x : x + width]
            for flip in (False, True):
                found[(crop.flip(2) if flip else crop).contiguous().numpy().tobytes()] = (y, x, flip)
    return found


@pytest.mark.parametrize("border, mode", [("zeros", "constant"), ("reflect", "reflect")])
@pytest.mark.parametrize("channels, height, width, padding", [(3, 32, 32, (4, 4)), (1, 16, 28, (2, 3))])
def test_a_shift_is_a_crop_of_the_padded_image_and_each_one_is_as_likely(
    border, mode, channels, height, width, padding
):
    n = 4000
    image = noise(1, channels, height, width)
    out = crops.shifted(image.expand(n, -1, -1, -1), seeded(CPU, 1), border=border)
    possible = all_crops(image[0], *padding, mode)
    places = [possible[view.numpy().tobytes()] for view in out]
    for axis, pad in enumerate(padding):
        counts = torch.bincount(torch.tensor([place[axis] for place in places]), minlength=2 * pad + 1)
        assert len(counts) == 2 * pad + 1 and (counts / n - 1 / len(counts)).abs().max() < 0.03
    assert abs(sum(place[2] for place in places) / n - 0.5) < 0.03


@pytest.mark.parametrize("side", [1, 2, 7, 8])
def test_small_images_can_be_shifted_and_cut_out(side):
    images = noise(5, 3, side, side)
    for border in ("zeros", "reflect"):
        out = crops.shifted(images, seeded(CPU, 1), border=border)
        assert out.shape == images.shape and (side >= 8 or torch.equal(out.sort(dim=3)[0], images.sort(dim=3)[0]))
    assert crops.cut_out(images, seeded(CPU, 1)).shape == images.shape


def test_the_cut_out_is_a_grey_square_of_half_the_side_around_a_uniform_centre():
    n, side = 4000, 32
    images = torch.zeros(n, 3, side, side, dtype=torch.uint8)
    grey = crops.cut_out(images, seeded(CPU, 1))
    assert set(grey.unique().tolist()) == {0, 127}
    rows, columns = (grey == 127).any(dim=3).all(dim=1), (grey == 127).any(dim=2).all(dim=1)
    assert torch.equal((grey == 127).all(dim=1), rows.unsqueeze(2) & columns.unsqueeze(1))
    for strip in (rows, columns):
        assert strip.sum(dim=1).min() == 8 and strip.sum(dim=1).max() == 16
        expected = torch.tensor([sum(start <= i < start + 16 for start in range(-8, 24)) / 32 for i in range(32)])
        assert (strip.float().mean(dim=0) - expected).abs().max() < 0.03
    assert not torch.equal(rows[0], rows[1]) or not torch.equal(columns[0], columns[1])


@pytest.mark.parametrize("new", [(32, 32), (224, 224), (20, 9)])
def test_a_resized_crop_is_torchs_antialiased_resizing_of_that_crop(new):
    images = noise(12, 3, 40, 48).float() / 255
    top, left, tall, wide = crops.random_boxes(images, seeded(CPU, 2), scale=(0.08, 1))
    mirror = torch.arange(len(images)) % 2 == 1
    rows = crops.resizing(top, tall, 40, new[0])
    columns = crops.resizing(left, wide, 48, new[1], mirror=mirror)
    out = crops.multiplied(images, rows, columns)
    for i, image in enumerate(images):
        part = image[None, :, top[i] : top[i] + tall[i], left[i] : left[i] + wide[i]]
        expected = F.interpolate(part, new, mode="bilinear", antialias=True)[0]
        assert torch.allclose(out[i], expected.flip(2) if mirror[i] else expected, atol=1e-5)


def test_the_whole_image_at_its_own_size_is_the_image():
    images = noise(3, 1, 28, 20).float()
    start, tall, wide = torch.zeros(3, dtype=torch.long), torch.full((3,), 28), torch.full((3,), 20)
    same = crops.multiplied(images, crops.resizing(start, tall, 28, 28), crops.resizing(start, wide, 20, 20))
    assert torch.allclose(same, images, atol=1e-3)


def test_boxes_lie_inside_and_have_the_asked_areas_and_aspects():
    n = 20_000
    top, left, tall, wide = crops.random_boxes(torch.zeros(n, 1, 64, 64), seeded(CPU, 3), scale=(0.2, 1))
    assert min(top.min(), left.min()) == 0 and (top + tall).max() == 64 and (left + wide).max() == 64
    area, aspect = tall * wide / 64**2, wide / tall
    assert area.min() > 0.18 and 0.7 < aspect.min() < 0.77 and 1.3 < aspect.max() < 1.43
    small = area < 0.5  # boxes of this size always fit: their areas are uniform, their aspects even in the logarithm
    assert abs(area[small].mean() - 0.35) < 0.01 and abs(aspect[small].log().mean()) < 0.01
    rest = (64 - tall).clamp(min=1)
    assert abs((top / rest)[small].mean() - 0.5) < 0.02


def test_a_rectangle_that_no_aspect_fits_gives_the_largest_central_one():
    top, left, tall, wide = crops.random_boxes(torch.zeros(8, 1, 10, 100), seeded(CPU, 4), scale=(0.9, 1))
    assert (top.tolist(), tall.tolist(), wide.tolist()) == ([0] * 8, [10] * 8, [13] * 8)
    assert left.tolist() == [(100 - 13) // 2] * 8


@pytest.mark.parametrize("height, width", [(256, 256), (300, 256), (64, 48), (512, 700)])
def test_the_centre_of_a_resized_image(height, width):
    images = noise(1, 3, height, width)
    out = crops.central(images, short_side=256, size=224)
    assert out.shape == (1, 3, 224, 224) and out.min() >= 0 and out.max() <= 1
    if min(height, width) == 256:
        top, left = (height - 224) // 2, (width - 224) // 2
        assert torch.equal(out, images[..., top : top + 224, left : left + 224].float() / 255)
