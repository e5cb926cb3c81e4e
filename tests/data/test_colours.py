"""Colours against the standard library's colorsys, PIL's grey, and the limits where a change is none."""

import colorsys

import pytest
import torch
import torch.nn.functional as F

from lps.data import colours
from lps.data.batches import seeded
from lps.data.colours import BRIGHTNESS, CONTRAST, SATURATION

CPU = torch.device("cpu")


def pictures(n, channels=3, side=8):
    return torch.rand(n, channels, side, side, generator=seeded(CPU, n, channels))


def test_hue_turns_as_in_colorsys():
    """Also for grey, black, white and pure colours, where the hexcone has its edges."""
    images = pictures(4)
    corners = torch.tensor([[r, g, b] for r in (0.0, 1) for g in (0.0, 1) for b in (0.0, 1)])
    images[0].view(3, -1)[:, :8] = corners.T
    images[0].view(3, -1)[:, 8] = 0.3
    turns = torch.tensor([0.1, -0.1, 0.37, -0.5])
    out = colours.rotate_hue(images, turns)
    for image, new, turn in zip(images, out, turns.tolist()):
        for old, pixel in zip(image.flatten(1).T.tolist(), new.flatten(1).T.tolist()):
            hue, saturation, value = colorsys.rgb_to_hsv(*old)
            assert pixel == pytest.approx(colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value), abs=1e-5)


@pytest.mark.parametrize("kind", [BRIGHTNESS, CONTRAST, SATURATION])
def test_brightness_contrast_and_saturation_are_blends_with_their_reference(kind):
    images, factor = pictures(3), torch.tensor([0.4, 1.0, 1.7])
    out = colours.scale_towards(images, torch.full((3,), kind), factor)
    for image, new, f in zip(images, out, factor.tolist()):
        grey = 0.299 * image[0] + 0.587 * image[1] + 0.114 * image[2]
        reference = {BRIGHTNESS: torch.zeros(8, 8), CONTRAST: grey.mean().expand(8, 8), SATURATION: grey}[kind]
        assert torch.allclose(new, (f * image + (1 - f) * reference).clamp(0, 1), atol=1e-6)


def test_changes_of_no_strength_and_of_no_probability_change_nothing():
    images = pictures(16)
    for settings in ({"strength": 0, "hue": 0, "probability": 1}, {"strength": 0.8, "hue": 0.2, "probability": 0}):
        assert torch.allclose(colours.jitter_colours(images, seeded(CPU, 1), **settings), images, atol=1e-5)
    assert torch.equal(colours.random_grey(images, seeded(CPU, 1), probability=0), images)
    assert torch.equal(colours.random_blur(images, seeded(CPU, 1), probability=0), images)


def test_jitter_changes_every_image_in_its_own_way_and_four_of_five():
    copies = pictures(1).expand(2000, -1, -1, -1)
    out = colours.jitter_colours(copies, seeded(CPU, 1), strength=0.4, hue=0.1, probability=0.8)
    changed = (out - copies).abs().amax(dim=(1, 2, 3)) > 1e-4
    assert abs(changed.float().mean() - 0.8) < 0.04 and out.min() >= 0 and out.max() <= 1
    assert len(out[changed].flatten(1).unique(dim=0)) == changed.sum()


def test_the_order_of_the_changes_is_the_drawn_one(monkeypatch):
    """One image at a time, by the four changes one after another in the order of the four drawn ranks."""
    images, n = pictures(24), 24
    factors, turns, rank = (torch.rand(n, *more, generator=seeded(CPU, 7, *more)) for more in ((3,), (), (4,)))
    draws = iter((factors, turns - 0.5, rank))
    monkeypatch.setattr(colours, "draw_uniform", lambda *about: next(draws))
    out = colours.jitter_colours(images, seeded(CPU, 1), strength=0.4, hue=0.1, probability=1)
    for i in range(n):
        image = images[i : i + 1]
        for kind in rank[i].argsort().tolist():
            if kind == colours.HUE:
                image = colours.rotate_hue(image, turns[i : i + 1] - 0.5)
            else:
                image = colours.scale_towards(image, torch.tensor([kind]), factors[i, kind : kind + 1])
        assert torch.allclose(out[i : i + 1], image, atol=1e-5), i


def test_one_channel_has_neither_saturation_nor_hue():
    images = pictures(4, channels=1)
    assert torch.equal(colours.rotate_hue(images, torch.full((4,), 0.3)), images)
    assert torch.allclose(colours.scale_towards(images, torch.full((4,), SATURATION), torch.full((4,), 0.2)), images)
    assert torch.equal(colours.random_grey(images, seeded(CPU, 1), probability=1), images)


def test_grey_has_equal_channels_in_one_of_five():
    images = pictures(1).expand(3000, -1, -1, -1)
    out = colours.random_grey(images, seeded(CPU, 2), probability=0.2)
    grey = (out[:, 0] == out[:, 1]).flatten(1).all(dim=1)
    assert abs(grey.float().mean() - 0.2) < 0.03 and torch.equal(out[~grey], images[~grey])


def test_blur_is_a_gaussian_convolution_inside_and_keeps_flat_images_flat(monkeypatch):
    images, sigma = pictures(2, side=60), torch.tensor([0.5, 1.9])
    monkeypatch.setattr(colours, "draw_uniform", lambda *about: sigma)
    out = colours.random_blur(images, seeded(CPU, 1), probability=1)
    place = torch.arange(-3.0, 4)  # a twentieth of the side
    for image, new, s in zip(images, out, sigma.tolist()):
        kernel = torch.exp(-0.5 * (place / s) ** 2)
        kernel = torch.outer(kernel, kernel) / kernel.sum() ** 2
        expected = F.conv2d(image.unsqueeze(1), kernel.view(1, 1, 7, 7)).squeeze(1)
        assert torch.allclose(new[:, 3:-3, 3:-3], expected, atol=1e-5)
    assert torch.allclose(
        colours.random_blur(torch.full((2, 3, 60, 60), 0.7), seeded(CPU, 1), probability=1), torch.tensor(0.7)
    )
