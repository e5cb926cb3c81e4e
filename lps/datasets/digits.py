"""1,797 real handwritten digits, 8x8 pixels in 17 grey levels, that come with scikit-learn.

Source: the test part of the UCI set "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak, 1998).
"""

import numpy as np

from lps.datasets import Images

TITLE = "Handwritten digits"
SUMMARY = "1,797 real digits of 8x8 pixels, included: nothing to download."
CLASSES = 10

RECIPE = {
    "epochs": 40,
    "batch_size": 128,
    "lr": 0.05,
    "network.name": "digits_resnet",
    "network.freeze_until": "none",
    "pretrain.epochs": 20,
    "pretrain.batch_size": 128,
    "pretrain.lr": 5e-3,
    "pretrain.warmup_steps": 10,
    "pretrain.temperature": 0.3,
}


def load(path: str | None = None, image_size: int | None = None) -> Images:
    """Load all 1,797 digits, without a file; `lps.data.sources.load` resizes them."""
    from sklearn.datasets import load_digits  # takes a second: only if the pictures are needed

    digits = load_digits()
    pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., None]
    return Images(pixels, digits.target.astype(np.int64), tuple(str(name) for name in digits.target_names))
