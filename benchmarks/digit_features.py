"""python -m benchmarks.digit_features CHECKPOINT: make the features that Explain trains on in the browser.

CHECKPOINT: the SimCLR start that `python -m lps pretrain --dataset digits --method lps --seed 0 --set threads=1` writes
under `.pretrained` in the runs folder, from which the recorded runs on digits start. It was trained without labels.
"""

import sys

import numpy as np
import torch

from lps.data import sources
from lps.data.split import Split, open_world_split
from lps.data.views import FAMILIES
from lps.network.network import Network
from lps.settings.config import configure
from lps.ui.explain import digit_features

_WIDTH = 16  # of 64 components: 98.7 % of what differs between the features
_LEVELS = 127  # of a byte with a sign


def _features(checkpoint: str) -> np.ndarray:
    backbone = Network(configure({"dataset": "digits"}), channels=1, num_classes=10).backbone.eval()
    backbone.load_state_dict(torch.load(checkpoint, weights_only=True)["backbone"])
    pixels = torch.from_numpy(sources.load("digits").pixels).permute(0, 3, 1, 2)
    with torch.inference_mode():
        return backbone(FAMILIES["digits"]["plain"](pixels)).double().numpy()


def _components(features: np.ndarray) -> np.ndarray:
    """(n, _WIDTH), around 0 and with a mean square of 1 a picture."""
    around = features - features.mean(axis=0)
    found = around @ np.linalg.svd(around, full_matrices=False)[2][:_WIDTH].T
    return found / np.sqrt((found**2).sum(axis=1).mean())


def split_of(seed: int, seen: int) -> Split:
    """What a run of the app with these settings trains on."""
    images = sources.load("digits")
    config = configure({"dataset": "digits", "split.num_seen": seen, "split.seed": seed})
    return open_world_split(images.labels, images.class_names, config)


def bits_of(split: Split) -> np.ndarray:
    """A bit a picture: whether it has a label."""
    has_label = np.zeros(len(split.training), bool)
    has_label[split.labeled] = True
    return np.packbits(has_label)


def main() -> None:
    found = _components(_features(sys.argv[1]))
    level = np.abs(found).max() / _LEVELS
    levels = np.rint(found / level).astype(np.int8)
    labeled = [[bits_of(split_of(seed, k)) for seed in digit_features.SEEDS] for k in digit_features.SEEN]
    truth = sources.load("digits").labels.astype(np.uint8)
    np.savez_compressed(digit_features.FILE, levels=levels, level=np.float64(level), truth=truth, labeled=labeled)
    print(f"{digit_features.FILE.name}: {levels.shape}, {digit_features.FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
