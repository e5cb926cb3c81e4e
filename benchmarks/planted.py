"""python -m benchmarks.planted FILE.npz: how many faults planted among CIFAR-10's test pictures the data check finds.

The faults are slightly changed copies, pictures of other kinds, and randomly drawn labels. All other findings count as
false, although a few of them are real faults of CIFAR-10. FILE.npz has x_test and y_test.
"""

import argparse
import io
import time
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageOps
from sklearn.datasets import load_digits, load_sample_images

from lps.analysis.audit import Audit, audit_features, parts_of
from lps.data.training_data import pictures_on_device
from lps.datasets import Images
from lps.network import start_weights
from lps.network.backbones import build
from lps.settings.config import configure
from lps.studies import audit_files
from lps.training.evaluate import infer_features

_SIDE = 32
_PIECE = 64


def _jpeg(picture: np.ndarray) -> np.ndarray:
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "JPEG", quality=60)
    return np.asarray(Image.open(out).convert("RGB"))


def _cut(picture: np.ndarray) -> np.ndarray:
    return np.asarray(ImageOps.fit(Image.fromarray(picture[2:, 1:-1]), (_SIDE, _SIDE), Image.Resampling.BICUBIC))


def _small(picture: np.ndarray) -> np.ndarray:
    small = Image.fromarray(picture).resize((24, 24), Image.Resampling.BILINEAR)
    return np.asarray(small.resize((_SIDE, _SIDE), Image.Resampling.BICUBIC))


COPIES = {
    "the same": np.copy,
    "JPEG, quality 60": _jpeg,
    "2 pixels cut off": _cut,
    "brighter": lambda picture: np.clip(1.15 * picture + 6, 0, 255).astype(np.uint8),
    "mirrored": lambda picture: picture[:, ::-1],
    "24 pixels and back": _small,
}


@dataclass(frozen=True)
class Planted:
    """pixels: uint8 (n, 32, 32, 3); labels: int64 (n,). pairs: (row, row of its copy, kind); strangers, wrong: rows."""

    pixels: np.ndarray
    labels: np.ndarray
    pairs: tuple[tuple[int, int, str], ...]
    strangers: frozenset[int]
    wrong: frozenset[int]


def plant(x: np.ndarray, y: np.ndarray, seed: int, count: int, copies: int, strangers: int, wrong: int) -> Planted:
    """`count` of the pictures x with labels y, and faults behind or among them."""
    draws = np.random.default_rng([seed, 99])
    rows = np.sort(draws.permutation(len(x))[:count])
    x, y = x[rows], y[rows].astype(np.int64)
    of = draws.permutation(count)[:copies]
    kinds = [list(COPIES)[i % len(COPIES)] for i in range(copies)]
    twins = [COPIES[kind](x[row]) for kind, row in zip(kinds, of)]
    labels = np.concatenate([y, y[of], draws.integers(0, 10, strangers)])
    changed = draws.permutation(count)[:wrong]
    labels[changed] = (labels[changed] + draws.integers(1, 10, wrong)) % 10
    pixels = np.concatenate([x, np.stack(twins), np.stack([_stranger(i, draws) for i in range(strangers)])])
    pairs = tuple(zip(of.tolist(), range(count, count + copies), kinds))
    others = frozenset(range(count + copies, len(pixels)))
    return Planted(pixels, labels, pairs, others, frozenset(changed.tolist()))


def _stranger(number: int, draws: np.random.Generator) -> np.ndarray:
    """A digit, a piece of a photograph of a temple or a flower, noise or one colour, or stripes."""
    kind = number % 4
    if kind == 0:
        digit = (15.9 * load_digits().images[draws.integers(1797)]).astype(np.uint8)
        return np.asarray(Image.fromarray(digit).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC).convert("RGB"))
    if kind == 1:
        whole = load_sample_images().images[draws.integers(2)]
        top, left = draws.integers(whole.shape[0] - 64), draws.integers(whole.shape[1] - 64)
        return _resized(whole[top : top + 64, left : left + 64])
    if kind == 2:
        size = (_SIDE, _SIDE, 3) if number % 8 == 2 else (1, 1, 3)
        return np.broadcast_to(draws.integers(0, 256, size), (_SIDE, _SIDE, 3)).astype(np.uint8)
    stripes = np.indices((_SIDE, _SIDE))[number // 4 % 2] // draws.integers(2, 9) % 2
    return draws.integers(0, 256, (2, 3)).astype(np.uint8)[stripes]


def _resized(picture: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(picture).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC))


def features_of(pixels: np.ndarray) -> np.ndarray:
    """float32 (n, 1280): what `audit` looks at of coloured pictures."""
    config = audit_files.undecided_config(configure({"dataset": "cifar10", "device": "cpu"}))
    backbone = build(config.network_name, 3)
    start_weights.load(config, backbone)
    material = pictures_on_device(Images(pixels, np.zeros(len(pixels), np.int64), ("",)), torch.device("cpu"))
    places = [np.arange(start, min(len(pixels), start + _PIECE)) for start in range(0, len(pixels), _PIECE)]
    return np.concatenate([infer_features(backbone, material.part(rows), config) for rows in places])


def counted(found: Audit, planted: Planted) -> dict[str, tuple[int, int, int]]:
    """(planted, found of them, raised besides) of every kind; pictures that show nothing count as strangers alone."""
    groups = [set(group.pictures) for group in found.duplicates]
    rows = {}
    for kind in COPIES:
        pairs = [{a, b} for a, b, name in planted.pairs if name == kind]
        rows[f"copies: {kind}"] = (len(pairs), sum(any(pair <= group for group in groups) for pair in pairs), 0)
    own = [{a, b} for a, b, _ in planted.pairs]
    rest = [group for group in groups if not any(pair <= group for pair in own) and not group <= planted.strangers]
    rows["copies"] = (len(own), sum(value[1] for value in rows.values()), len(rest))
    raised = {one.picture for one in found.strangers}
    rows["strangers"] = (len(planted.strangers), len(raised & planted.strangers), len(raised - planted.strangers))
    denied = {one.picture for one in found.denied} - planted.strangers
    rows["labels"] = (len(planted.wrong), len(denied & planted.wrong), len(denied - planted.wrong))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted", description=__doc__)
    parser.add_argument("file", metavar="FILE.npz")
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12])
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with np.load(arguments.file, allow_pickle=False) as file:
        x, y = file["x_test"], file["y_test"]
    print("seed | fault | planted | found | raised besides | features, processor s | audit, processor s")
    for seed in arguments.seeds:
        planted = plant(x, y, seed, arguments.pictures, 60, 40, arguments.pictures // 20)
        began = time.process_time()
        features = features_of(planted.pixels)
        between = time.process_time()
        found = audit_features(features, planted.labels, parts_of(planted.labels, 0), planted.pixels)
        ended = time.process_time()
        for fault, numbers in counted(found, planted).items():
            numbers_text = " | ".join(map(str, numbers))
            print(f"{seed} | {fault} | {numbers_text} | {between - began:.0f} | {ended - between:.1f}", flush=True)


if __name__ == "__main__":
    main()
