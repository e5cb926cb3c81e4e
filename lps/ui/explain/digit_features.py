"""Stored features and labels for the training in the browser on the page Explain.

They are principal components of the features that the app's SimCLR start gives for scikit-learn's digits, and the app's
own splits. `benchmarks.digit_features` makes the file, so a page computes nothing.
"""

import base64
from functools import cache
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("digit_features.npz")
SEEDS = tuple(range(5))
SEEN = tuple(range(2, 10))  # of 10 classes


@cache
def pack_features() -> dict[str, object]:
    """Return all data for the browser, bytes as text: features, classes, and one bit per picture, set if it is labeled.

    labeled: by number of seen classes, one text per seed.
    """
    with np.load(FILE, allow_pickle=False) as stored:
        levels, level, truth, labeled = (stored[name] for name in ("levels", "level", "truth", "labeled"))
    return {
        "features": bytes_as_text(levels),
        "level": float(level),
        "width": levels.shape[1],
        "truth": bytes_as_text(truth),  # the first classes are seen: an id is its digit
        "labeled": {
            str(seen): [bytes_as_text(bits) for bits in rows] for seen, rows in zip(SEEN, labeled, strict=True)
        },
    }


def bytes_as_text(values: np.ndarray) -> str:
    """Return the bytes of an array as text for the browser."""
    return base64.b64encode(values.tobytes()).decode()
