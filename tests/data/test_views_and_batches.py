"""Views change images one by one, and every batch is a function of (seed, epoch, step)."""

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

from lps.data import crops, randaugment, sources, views
from lps.data.batches import Pictures, plan_batches, seeded, training_batches
from lps.data.classes import Classes
from lps.data.split import Split, open_world_split
from lps.data.views import FAMILIES
from lps.methods.fixmatch import FixMatch
from lps.settings.config import configure
from tests.shares import in_turn

CPU = torch.device("cpu")
DIGITS = sources.load("digits")
IMAGES = torch.from_numpy(np.ascontiguousarray(DIGITS.pixels.transpose(0, 3, 1, 2)))
VIEWS = FAMILIES["digits"]
LARGE = ("imagenet", "gcd")  # families whose views have 224 pixels a side


def pictures(family, channels, n=24):
    """uint8 images that change slowly: 32 pixels a side, 72 for the families that make 224 of them."""
    side = 72 if family in LARGE else 32
    coarse = torch.rand(n, channels, 5, 5, generator=seeded(CPU, channels))
    return (torch.nn.functional.interpolate(coarse, (side, side), mode="bilinear") * 255).to(torch.uint8)


EVERY_VIEW = [(family, name) for family, views in FAMILIES.items() for name in views]


@pytest.mark.parametrize("channels", in_turn([1, 3], 2))
@pytest.mark.parametrize("family, name", EVERY_VIEW)
def test_every_view_is_a_function_of_images_and_generator_alone(family, name, channels):
    images, view = pictures(family, channels, n=8), FAMILIES[family][name]
    before = images.clone()
    first, again, other = (view(images, seeded(CPU, key)) for key in (1, 1, 2))
    side = 224 if family in LARGE else 32
    assert first.shape == (8, channels, side, side) and first.dtype == torch.float32 and first.is_contiguous()
    assert torch.equal(images, before) and torch.equal(first, again)
    assert torch.equal(first, other) == (name == "plain")
    assert first.abs().max() < 5 and first.std() > 0.1


@pytest.mark.parametrize("family, name", in_turn([pair for pair in EVERY_VIEW if pair[1] != "plain"], 2))
def test_images_of_a_batch_have_their_own_parameters(family, name):
    copies = FAMILIES[family][name](pictures(family, 3)[:1].repeat(16, 1, 1, 1), seeded(CPU, 1))
    assert len(copies.flatten(1).unique(dim=0)) >= 14  # two equal draws among 9 x 9 x 2 crops are no wonder


STRENGTHS = {
    "_warped": {"_affine": {"degrees": 15, "shear": 0.1, "zoom": (0.85, 1.15), "shift": 0.1}},
    "_warped_more": {
        "_affine": {"degrees": 20, "shear": 0.25, "zoom": (0.7, 1.3), "shift": 0.125},
        "_contrast": {"strength": 0.4},
        "_noise": {"std": 0.1},
    },
    "_cifar_simclr": {
        "resized_crop": {"scale": (0.2, 1)},
        "jitter_colours": {"strength": 0.4, "hue": 0.1, "probability": 0.8},
        "random_grey": {"probability": 0.2},
    },
    "_imagenet_weak": {"resized_crop": {"scale": (0.5, 1), "size": 224, "sizes": None}},
    "_imagenet_simclr": {
        "resized_crop": {"scale": (0.08, 1), "size": 224, "sizes": None},
        "jitter_colours": {"strength": 0.8, "hue": 0.2, "probability": 0.8},
        "random_grey": {"probability": 0.2},
        "random_blur": {"probability": 0.5},
    },
}


@pytest.mark.parametrize("view", STRENGTHS)
def test_a_view_changes_images_as_strongly_as_documented(view, monkeypatch):
    """A change of these numbers makes another method of every run that is compared with an older one."""
    found = {}
    for change in {change for changes in STRENGTHS.values() for change in changes}:
        record = lambda images, generator, change=change, **numbers: found.update({change: numbers}) or images  # noqa: E731
        monkeypatch.setattr(views, change, record)
    getattr(views, view)(pictures("cifar", 3), seeded(CPU, 1))
    assert found == STRENGTHS[view]


def test_contrast_goes_up_and_down():
    factors = views._contrast(torch.full((4000, 1, 1, 1), 0.5), seeded(CPU, 1), strength=0.4).flatten() / 0.5
    assert factors.min() == pytest.approx(0.6, abs=0.01) and factors.max() == pytest.approx(1.4, abs=0.01)


@pytest.mark.parametrize("family", ["cifar", *LARGE])
def test_the_pixels_have_the_families_mean_and_deviation_taken_off(family):
    mean, std = {"cifar": ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))}.get(
        family, ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    )
    images = torch.randint(256, (2, 3, 256, 256), generator=seeded(CPU, 1)).to(torch.uint8)
    cut = slice(16, 240) if family in LARGE else slice(None)
    for channel in range(3):
        expected = (images[:, channel, cut, cut].double() / 255 - mean[channel]) / std[channel]
        out = FAMILIES[family]["plain"](images)[:, channel]
        assert torch.allclose(out.double(), expected, atol=1e-5)


def test_the_strong_view_hides_a_grey_square():
    """17 of 32 pixels, moved inward at the top and the left: 508 / 32 of a side on average."""
    images = torch.full((2000, 3, 32, 32), 255, dtype=torch.uint8)
    strong = FAMILIES["cifar"]["strong"](images, seeded(CPU, 1))
    grey = (127 / 255 - torch.tensor([0.5071, 0.4867, 0.4408])) / torch.tensor([0.2675, 0.2565, 0.2761])
    hidden = (strong - grey.view(3, 1, 1)).abs().amax(dim=1) < 1e-5
    assert abs(hidden.float().mean() - (508 / 32 / 32) ** 2) < 0.01


def test_fixmatchs_weak_view_of_cifar_knows_no_black_border():
    images = torch.full((64, 3, 32, 32), 255, dtype=torch.uint8)
    weak, mirrored = (FAMILIES["cifar"][name](images, seeded(CPU, 1)) for name in ("weak", "mirrored"))
    assert len(mirrored.flatten(2).unique(dim=2)[0, 0]) == 1 < len(weak.flatten(2).unique(dim=2)[0, 0])
    assert FixMatch.views == ("mirrored", "strong")


@pytest.mark.parametrize("family", ["digits", "grey", *LARGE])
def test_fixmatchs_weak_view_is_the_usual_one_elsewhere(family):
    images = pictures(family, 3, n=4)
    weak, mirrored = (FAMILIES[family][name](images, seeded(CPU, 1)) for name in ("weak", "mirrored"))
    assert torch.equal(weak, mirrored)


@pytest.mark.parametrize("family, name, channels", in_turn([(*view, c) for view in EVERY_VIEW for c in (1, 3)], 5))
def test_no_view_of_a_gpu_waits_for_it(family, name, channels, monkeypatch):
    """Tensors without values: looking at one raises, as it does for RandAugment's form for the host, the control."""
    images, view = pictures(family, channels, n=4), FAMILIES[family][name]
    views._by_channel.cache_clear(), randaugment.matrices.cache_clear()
    torch.ones(1, requires_grad=True).sum().backward()  # else autograd starts threads for fake GPUs, and forks must not
    try:
        with FakeTensorMode() as mode:
            fake, generator = mode.from_tensor(images), seeded(CPU, 1)
            if (family, name) in [(kind, "strong") for kind in ("cifar", *LARGE)]:
                with pytest.raises(DynamicOutputShapeException):
                    view(fake, generator)
            monkeypatch.setattr(randaugment, "_on_host", lambda values: False)
            assert view(fake, generator).shape[:2] == (4, channels)
    finally:  # nothing without values may stay behind
        views._by_channel.cache_clear(), randaugment.matrices.cache_clear()


def test_the_weak_view_changes_less_than_the_strong_one():
    plain = VIEWS["plain"](IMAGES)
    weak, strong = ((VIEWS[n](IMAGES, seeded(CPU, 3)) - plain).abs().mean() for n in ("weak", "strong"))
    assert 0 < weak < 0.8 * strong


def make_split(labeled, unlabeled):
    ids = np.arange(labeled + unlabeled)
    return Split(ids[:labeled], ids[labeled:], Classes(1, 2), np.arange(2), ("a", "b"), 0)


@pytest.mark.parametrize(
    "labeled, unlabeled, size, expected",
    [
        (12_597, 37_403, 512, (128, 384, 98)),  # CIFAR, 50 % and 10 % labeled: the sizes of the original code
        (2_597, 47_403, 512, (26, 486, 99)),
        (1, 999, 128, (1, 127, 1)),
        (5, 5, 512, (5, 507, 1)),
        (999, 1, 2, (1, 1, 999)),
    ],
)
def test_the_batch_is_shared_out_by_set_size(labeled, unlabeled, size, expected):
    plan = plan_batches(make_split(labeled, unlabeled), size)
    assert (plan.labeled, plan.unlabeled, plan.steps) == expected


def epoch_of(first_step=0, epoch=3, seed=0):
    config = configure({"seed": seed})
    split = open_world_split(DIGITS.labels, DIGITS.class_names, config)
    targets = torch.from_numpy(split.targets(DIGITS.labels)[split.labeled])
    views = (VIEWS["weak"], VIEWS["strong"])
    plan = plan_batches(split, config.batch_size)
    batches = training_batches(Pictures(IMAGES, CPU), targets, split, views, plan, config, epoch, first_step)
    return split, plan, list(batches)


def test_an_epoch_passes_once_over_the_labeled_and_evenly_over_the_unlabeled():
    split, plan, batches = epoch_of()
    assert len(batches) == plan.steps and {len(b.targets) for b in batches} == {plan.labeled}
    assert all(
        b.labeled_views[0].shape[0] == plan.labeled and b.unlabeled_views[1].shape[0] == plan.unlabeled for b in batches
    )
    counts = np.bincount(torch.cat([b.unlabeled_positions for b in batches]).numpy(), minlength=len(split.unlabeled))
    assert counts.max() - counts.min() <= 1
    assert max(b.targets.max().item() for b in batches) < split.classes.seen


def test_positions_and_targets_belong_to_the_images():
    """With the plain view every image in the batch can be recognised."""
    config = configure({})
    split = open_world_split(DIGITS.labels, DIGITS.class_names, config)
    truth = split.targets(DIGITS.labels)
    plan, plain = plan_batches(split, 128), lambda images, generator: images.float()
    targets = torch.from_numpy(truth[split.labeled])
    batch = next(training_batches(Pictures(IMAGES, CPU), targets, split, (plain,), plan, config, 0))
    expected = IMAGES[torch.from_numpy(split.unlabeled)[batch.unlabeled_positions]].float()
    assert torch.equal(batch.unlabeled_views[0], expected)
    pool = {tuple(IMAGES[i].flatten().tolist()): truth[i] for i in split.labeled}
    for image, target in zip(batch.labeled_views[0], batch.targets):
        assert pool[tuple(image.flatten().int().tolist())] == target


def test_starting_in_the_middle_of_an_epoch_gives_its_remaining_batches():
    whole, rest = epoch_of()[2], epoch_of(first_step=5)[2]
    assert len(rest) == len(whole) - 5
    for a, b in zip(whole[5:], rest):
        assert torch.equal(a.unlabeled_views[1], b.unlabeled_views[1]) and torch.equal(a.targets, b.targets)


def test_epochs_and_seeds_differ():
    first, other_epoch, other_seed = epoch_of()[2][0], epoch_of(epoch=4)[2][0], epoch_of(seed=1)[2][0]
    assert not torch.equal(first.unlabeled_positions, other_epoch.unlabeled_positions)
    assert not torch.equal(first.unlabeled_positions, other_seed.unlabeled_positions)


@pytest.mark.slow
@pytest.mark.parametrize("squeezed", [False, True])
def test_the_weak_view_of_gcd_is_a_window_of_the_resized_picture(squeezed):
    """Of pictures of 256 pixels every view is a window of 224, flipped or not, at a place drawn evenly."""
    images = torch.randint(256, (48, 3, 256, 256), generator=seeded(CPU, 1)).to(torch.uint8)
    sizes = torch.full((48, 2), 512) if squeezed else None
    views = crops.random_crop(images, seeded(CPU, 2), short_side=256, size=224, sizes=sizes)
    places, flips = [], []
    for image, view in zip(images.float() / 255, views):
        windows = image[0].unfold(0, 224, 1).unfold(1, 224, 1)  # (33, 33, 224, 224)
        off = torch.stack(
            [(windows[:, :, 100, :] - row).abs().amax(dim=2) for row in (view[0, 100], view[0, 100].flip(0))]
        )
        flip, top, left = np.unravel_index(off.argmin().item(), off.shape)
        assert off.min() < 1e-5
        found = image[:, top : top + 224, left : left + 224]
        assert torch.allclose(view, found.flip(2) if flip else found, atol=1e-5)
        places += [top, left]
        flips.append(flip)
    assert 0 <= min(places) <= 3 and 29 <= max(places) <= 32 and 12 <= sum(flips) <= 36


def test_the_weak_view_of_gcd_keeps_the_proportions_that_pictures_had():
    """A picture of 300 x 600 squeezed into a square: a window has 224 of 256 rows and 224 of 512 columns."""
    ramp = torch.linspace(0, 255, 256).to(torch.uint8)
    images = torch.stack([ramp.view(-1, 1).expand(256, 256), ramp.expand(256, 256), ramp.expand(256, 256)])
    images = images.expand(64, 3, 256, 256).contiguous()
    out = crops.random_crop(
        images, seeded(CPU, 3), short_side=256, size=224, sizes=torch.tensor([[300, 600]]).expand(64, 2)
    )
    down = out[:, 0, -1, 0] - out[:, 0, 0, 0]
    across = (out[:, 1, 0, -1] - out[:, 1, 0, 0]).abs()
    assert (down - 224 / 256).abs().max() < 0.02 and (across - 224 / 512).abs().max() < 0.02
