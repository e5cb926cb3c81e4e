"""Make the views as the original code does: PIL, one image at a time. A reference, not for training.

Crop, flip, tensor and normalisation are torchvision's; RandAugment and the grey square are written here from the
description of FixMatch's operations. Digits, which the original does not use, are warped as in `lps.data.views`.
`OPERATIONS` is also the oracle of the tests: (image, level 1-9, sign -1 or 1).
"""

import math
import random

import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from torchvision import transforms

MEAN, STD = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)


def _factor(level):
    return level * 0.9 / 10 + 0.05


def _affine(image, *matrix):
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


def _amount(level, sign):
    return sign * (level * 0.3 / 10)


OPERATIONS = {
    "identity": lambda image, level, sign: image,
    "auto_contrast": lambda image, level, sign: ImageOps.autocontrast(image),
    "equalize": lambda image, level, sign: ImageOps.equalize(image),
    "brightness": lambda image, level, sign: ImageEnhance.Brightness(image).enhance(_factor(level)),
    "color": lambda image, level, sign: ImageEnhance.Color(image).enhance(_factor(level)),
    "contrast": lambda image, level, sign: ImageEnhance.Contrast(image).enhance(_factor(level)),
    "sharpness": lambda image, level, sign: ImageEnhance.Sharpness(image).enhance(_factor(level)),
    "posterize": lambda image, level, sign: ImageOps.posterize(image, int(level * 4 / 10) + 4),
    "solarize": lambda image, level, sign: ImageOps.solarize(image, 256 - int(level * 256 / 10)),
    "rotate": lambda image, level, sign: image.rotate(sign * int(level * 30 / 10)),
    "shear_x": lambda image, level, sign: _affine(image, 1, _amount(level, sign), 0, 0, 1, 0),
    "shear_y": lambda image, level, sign: _affine(image, 1, 0, 0, _amount(level, sign), 1, 0),
    "translate_x": lambda image, level, sign: _affine(image, 1, 0, int(_amount(level, sign) * image.size[0]), 0, 1, 0),
    "translate_y": lambda image, level, sign: _affine(image, 1, 0, 0, 0, 1, int(_amount(level, sign) * image.size[1])),
}


def rand_augment(image):
    """Two operations drawn with replacement, each applied with probability 1/2."""
    for name in random.choices(list(OPERATIONS), k=2):
        level, sign = random.randint(1, 9), random.choice((-1, 1))
        if random.random() < 0.5:
            image = OPERATIONS[name](image, level, sign)
    return image


def cut_out(image):
    """A grey square of half the side around a uniform place; its corner is held inside before the far ends are set."""
    width, height = image.size
    left, right = _ends(width)
    top, bottom = _ends(height)
    image = image.copy()
    ImageDraw.Draw(image).rectangle((left, top, right, bottom), (127, 127, 127))  # PIL draws both ends
    return image


def _ends(side):
    half = side // 2
    first = int(max(0, random.uniform(0, side) - half / 2))
    return first, min(side, first + half)


def _view(*changes, after=(), mean=MEAN, std=STD):
    return transforms.Compose([*changes, transforms.ToTensor(), *after, transforms.Normalize(mean, std)])


weak = _view(transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip())
in_mirrors = (transforms.RandomHorizontalFlip(), transforms.RandomCrop(32, padding=4, padding_mode="reflect"))
mirrored = _view(*in_mirrors)
strong = _view(*in_mirrors, rand_augment, cut_out)
simclr = _view(
    transforms.RandomResizedCrop(32, scale=(0.2, 1)),
    transforms.RandomHorizontalFlip(),
    transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
    transforms.RandomGrayscale(0.2),
)


def _warp(degrees, shear, scale, shift):
    """A random affine change, bilinear, black outside; `shear` as a slope."""
    slope = math.degrees(math.atan(shear))
    return transforms.RandomAffine(degrees, (shift, shift), scale, slope, transforms.InterpolationMode.BILINEAR)


def add_noise(tensor):
    return (tensor + 0.1 * torch.randn(tensor.shape)).clamp(0, 1)


def _digits(*changes, after=()):
    return _view(*changes, after=after, mean=(0.3,), std=(0.35,))


digits_weak = _digits(_warp(15, 0.1, (0.85, 1.15), 0.1))
digits_strong = _digits(
    _warp(20, 0.25, (0.7, 1.3), 0.125), transforms.ColorJitter(brightness=0.4), after=(transforms.Lambda(add_noise),)
)

FAMILIES = {
    "cifar": {"plain": _view(), "weak": weak, "mirrored": mirrored, "strong": strong, "simclr": simclr},
    "digits": {
        "plain": _digits(),
        "weak": digits_weak,
        "mirrored": digits_weak,
        "strong": digits_strong,
        "simclr": digits_strong,
    },
}
