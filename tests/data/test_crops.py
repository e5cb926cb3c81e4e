"""Crops take the pixels that they say: against slices of a padded image and torch's own antialiased resizing."""

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torchvision import transforms

from lps.data import crops
from lps.data.batches import seeded

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
    out = crops.random_shift(image.expand(n, -1, -1, -1), seeded(CPU, 1), border=border)
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
        out = crops.random_shift(images, seeded(CPU, 1), border=border)
        assert out.shape == images.shape and (side >= 8 or torch.equal(out.sort(dim=3)[0], images.sort(dim=3)[0]))
    assert crops.random_cutout(images, seeded(CPU, 1)).shape == images.shape


def drawn(draw, side):
    """(first, last) hidden pixel of a side in one draw of FixMatch's rule, written as the rule is told."""
    half = side // 2
    corner = int(max(0, draw.uniform(0, side) - half / 2))
    return corner, min(int(min(side, corner + half)), side - 1)  # PIL draws both ends, as far as there is a picture


def strips(grey):
    """(first, last) hidden row or column of every image: (n, 2) each, from booleans (n, height, width)."""
    for strip in (grey.any(dim=2), grey.any(dim=1)):
        side = strip.shape[1]
        yield torch.stack([strip.int().argmax(dim=1), side - 1 - strip.flip(1).int().argmax(dim=1)], dim=1)


@pytest.mark.slow
@pytest.mark.parametrize("height, width", [(32, 32), (15, 28)])
def test_the_cut_out_is_distributed_as_20_000_draws_of_the_rule(height, width):
    n, draw = 20_000, random.Random(0)
    grey = crops.random_cutout(torch.zeros(n, 3, height, width, dtype=torch.uint8), seeded(CPU, 1))
    hidden = (grey == 127).all(dim=1)
    assert torch.equal(grey, (127 * hidden[:, None].byte()).expand_as(grey))  # nothing else, and so in all channels
    ours = list(strips(hidden))
    theirs = [torch.tensor([drawn(draw, side) for _ in range(n)]) for side in (height, width)]
    for side, own, rule in zip((height, width), ours, theirs):
        counts = [torch.bincount(pairs[:, 0] * side + pairs[:, 1], minlength=side**2) for pairs in (own, rule)]
        assert (counts[0] > 0).equal(counts[1] > 0)  # the very same strips
        assert ((counts[0] - counts[1]).abs() <= 4.5 * (counts[0] + counts[1]).double().sqrt()).all()
    areas = [(pairs[0][:, 1] - pairs[0][:, 0] + 1) * (pairs[1][:, 1] - pairs[1][:, 0] + 1) for pairs in (ours, theirs)]
    assert torch.equal(areas[0], hidden.sum(dim=(1, 2)))
    assert abs(areas[0].double().mean() - areas[1].double().mean()) < 0.006 * height * width
    assert abs(torch.corrcoef(torch.stack([ours[0][:, 0], ours[1][:, 0]]).double())[0, 1]) < 0.03


@pytest.mark.parametrize("new", [(32, 32), (224, 224), (20, 9)])
def test_a_resized_crop_is_torchs_antialiased_resizing_of_that_crop(new):
    images = noise(12, 3, 40, 48).float() / 255
    top, left, tall, wide = crops.random_boxes(images, seeded(CPU, 2), scale=(0.08, 1))
    mirror = torch.arange(len(images)) % 2 == 1
    rows = crops.resize_matrices(top, tall, 40, new[0])
    columns = crops.resize_matrices(left, wide, 48, new[1], mirror=mirror)
    out = crops.apply_matrices(images, rows, columns)
    for i, image in enumerate(images):
        part = image[None, :, top[i] : top[i] + tall[i], left[i] : left[i] + wide[i]]
        expected = F.interpolate(part, new, mode="bilinear", antialias=True)[0]
        assert torch.allclose(out[i], expected.flip(2) if mirror[i] else expected, atol=1e-5)


def test_white_stays_white():
    white = torch.full((4, 3, 40, 48), 255, dtype=torch.uint8)
    assert torch.allclose(crops.resized_crop(white, seeded(CPU, 1), scale=(0.2, 1), size=32), torch.ones(()), atol=1e-6)


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


def squeezed(pictures, side):
    """PIL pictures as a batch of squares, and their sizes."""
    small = [np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR)) for picture in pictures]
    sizes = torch.tensor([(picture.height, picture.width) for picture in pictures])
    return torch.from_numpy(np.stack(small)).permute(0, 3, 1, 2).contiguous(), sizes


def smooth(height, width, key):
    coarse = np.random.default_rng(key).integers(0, 256, (4, 4, 3), np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


@pytest.mark.slow
def test_boxes_of_squeezed_images_are_torchvisions_of_the_images_themselves():
    n, height, width = 6000, 300, 500
    sizes = torch.tensor([(height, width)]).expand(n, 2)
    ours = torch.stack(crops.random_boxes(torch.zeros(n, 1, 8, 8), seeded(CPU, 3), scale=(0.5, 1), sizes=sizes), 1)
    torch.manual_seed(0)
    draw = transforms.RandomResizedCrop.get_params
    theirs = torch.tensor([draw(torch.zeros(1, height, width), [0.5, 1.0], [3 / 4, 4 / 3]) for _ in range(n)])
    for own, other in zip(ours.double().unbind(1), theirs.double().unbind(1)):
        assert abs(own.mean() - other.mean()) < 0.1 * other.std() and abs(own.std() / other.std() - 1) < 0.06
    assert ours[:, 1].min() < 10 and (ours[:, 1] + ours[:, 3]).max() > width - 10  # to both ends of the longer side


def test_a_crop_of_squeezed_images_is_that_of_the_images_themselves():
    pictures = [smooth(300, 480, 0), smooth(500, 320, 1), smooth(400, 400, 2)]
    images, sizes = squeezed(pictures, 256)
    boxes = crops.random_boxes(images, seeded(CPU, 5), scale=(0.5, 1), sizes=sizes)
    mirrored = crops.draw_booleans(images, 0.5, seeded_after_boxes(images, sizes))
    out = crops.resized_crop(images, seeded(CPU, 5), scale=(0.5, 1), size=64, sizes=sizes)
    for i, picture in enumerate(pictures):
        top, left, tall, wide = (int(values[i]) for values in boxes)
        crop = picture.crop((left, top, left + wide, top + tall)).resize((64, 64), Image.Resampling.BILINEAR)
        expected = torch.from_numpy(np.array(crop)).permute(2, 0, 1) / 255
        assert (out[i] - (expected.flip(2) if mirrored[i] else expected)).abs().max() < 0.02


def seeded_after_boxes(images, sizes):
    generator = seeded(CPU, 5)
    crops.random_boxes(images, generator, scale=(0.5, 1), sizes=sizes)
    return generator


def test_the_centre_of_squeezed_images_is_that_of_the_images_themselves():
    pictures = [smooth(300, 480, 0), smooth(500, 320, 1), smooth(400, 401, 2)]
    images, sizes = squeezed(pictures, 256)
    out = crops.central_crop(images, short_side=256, size=224, sizes=sizes)
    usual = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()])
    for own, picture in zip(out, pictures):
        assert (own - usual(picture)).abs().max() < 0.02


def test_sizes_of_squares_change_nothing():
    images = noise(6, 3, 256, 256)
    sizes = torch.tensor([(256, 256)]).expand(6, 2)
    one, other = (crops.central_crop(images, short_side=256, size=224, sizes=given) for given in (sizes, None))
    assert torch.equal(one, other)
    one, other = (
        crops.resized_crop(images, seeded(CPU, 1), scale=(0.2, 1), size=64, sizes=given) for given in (sizes, None)
    )
    assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("height, width", [(256, 256), (300, 256), (256, 200), (64, 48), (512, 700)])
def test_the_centre_of_a_resized_image(height, width):
    images = noise(1, 3, height, width)
    out = crops.central_crop(images, short_side=256, size=224)
    assert out.shape == (1, 3, 224, 224) and out.min() >= 0 and out.max() <= 1
    if min(height, width) == 256:
        top, left = (height - 224) // 2, (width - 224) // 2
        assert torch.equal(out, images[..., top : top + 224, left : left + 224].float() / 255)
