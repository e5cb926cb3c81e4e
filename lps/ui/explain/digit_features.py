"""Stored features for Explain's training in the browser, and who keeps a label.

Principal components of what the SimCLR start of the app gives for scikit-learn's digits, and the app's own splits;
`benchmarks.digit_features` makes the file, so that a page computes nothing.
"""

import base64
from functools import cache
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("digit_features.npz")
SEEDS = tuple(range(5))
SEEN = tuple(range(2, 10))  # of 10 classes


@cache
def packed() -> dict[str, object]:
    """All of it for the browser, bytes as text: features, classes, and a bit a picture that has a label.

    labeled: by number of seen classes, one text a seed.
    """
    with np.load(FILE, allow_pickle=False) as stored:
        levels, level, truth, labeled = (stored[name] for name in ("levels", "level", "truth", "labeled"))
    return {
        "features": text(levels),
        "level": float(level),
        "width": levels.shape[1],
        "truth": text(truth),  # the first classes are seen: an id is its digit
        "labeled": {str(seen): [text(bits) for bits in rows] for seen, rows in zip(SEEN, labeled, strict=True)},
    }


def text(values: np.ndarray) -> str:
    """The bytes of an array, as the browser is sent them."""
    return base64.b64encode(values.tobytes()).decode()
