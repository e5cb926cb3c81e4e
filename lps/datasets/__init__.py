"""What a data set gives: `load(path) -> Images`. One file a data set; the folder listing is the registry.

Each module has `TITLE`, a one-line `SUMMARY`, the `RECIPE` it recommends (settings by key), and `load`.
NumPy only, so that pages can show pictures without torch.
"""

from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module

import numpy as np

from lps import catalog


@dataclass(frozen=True)
class Images:
    """Training images with their true classes.

    pixels: uint8 (n, height, width, channels); labels: int64 (n,), -1 where the truth is unknown;
    class_names: one name per class id. The position of an image in `pixels` is its id everywhere.
    """

    pixels: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]

    @property
    def num_classes(self) -> int:
        return len(self.class_names)


@lru_cache(maxsize=2)
def load(name: str, path: str | None = None) -> Images:
    """The images of data set `name`; raises `ConfigError` where they cannot be had."""
    catalog.dataset_info(name)
    return import_module(f"lps.datasets.{name}").load(path)
