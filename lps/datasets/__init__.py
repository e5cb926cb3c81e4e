"""What a data set gives: `load(path, image_size) -> Images`. One file a data set; the folder listing is the registry.

Each module has `TITLE`, a one-line `SUMMARY`, the `RECIPE` it recommends (settings by key), and `load`. Optional are
`stamp(path)`, a value that changes when the files do, and `fetch(path)`, which downloads what `load` needs. Files that
begin with an underscore are no data sets. No torch, so that pages can show pictures without it.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import NamedTuple

import numpy as np

from lps import catalog
from lps.config import Config
from lps.parameters import shorten

SUBSET = 6  # stream of random numbers under split.seed, beside those of `split`


@dataclass(frozen=True)
class Images:
    """The images of a data set with their true classes. The position of an image in `pixels` is its id everywhere.

    pixels: uint8 (n, height, width, channels) with 1 or 3 channels, an array or a read-only memory map; the last
    `num_test` rows are the test images. labels: int64 (n,), -1 where the truth is unknown. class_names: one name per
    known class. skipped: (file name, reason) of each file that could not be used. file_names: where every image comes
    from, below `dataset.path`; empty where images are not files.
    """

    pixels: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]
    num_test: int = 0
    skipped: tuple[tuple[str, str], ...] = ()
    file_names: tuple[str, ...] = ()

    @property
    def num_classes(self) -> int:
        return len(self.class_names)


class Source(NamedTuple):
    """Which images: the settings `dataset.*`, and the seed that draws a subset."""

    name: str
    path: str | None = None
    image_size: int | None = None
    images_per_class: int | None = None
    seed: int = 0


def source(config: Config) -> Source:
    """What `config` says of its images: `load(*source(config))`."""
    return Source(
        config.dataset,
        config.dataset_path,
        config.dataset_image_size,
        config.dataset_images_per_class,
        config.split_seed if config.dataset_images_per_class else 0,
    )


def of(config: Config) -> Images:
    """The images that `config` asks for; raises `ConfigError` where they cannot be had."""
    return load(*source(config))


def load(
    name: str,
    path: str | None = None,
    image_size: int | None = None,
    images_per_class: int | None = None,
    seed: int = 0,
) -> Images:
    """The images of data set `name`; raises `ConfigError` where they cannot be had. Nothing is downloaded.

    image_size: side in pixels; None leaves it to the data set. images_per_class: at most so many of every class among
    the training images, and again among the test images, drawn by `seed`; images of unknown class count as one group
    with room for so many of each class.
    """
    return _load(name, path, image_size, images_per_class, seed, stamp(name, path))


def stamp(name: str, path: str | None = None) -> object:
    """A hashable value that changes when the files of a data set do; () for sets that do not change."""
    catalog.dataset_info(name)
    return getattr(_module(name), "stamp", lambda path: ())(path)


def fetch(name: str, path: str | None = None) -> None:
    """Download what `load` needs and does not find; nothing for data sets that cannot. Raises `ConfigError`."""
    catalog.dataset_info(name)
    getattr(_module(name), "fetch", lambda path: None)(path)


def can_fetch(name: str) -> bool:
    """Whether `fetch` knows where to download the data set from."""
    catalog.dataset_info(name)
    return hasattr(_module(name), "fetch")


def take(images: Images, ids: np.ndarray) -> Images:
    """The images of these ids alone, in this order; test images must stay the last ones."""
    num_test = int((ids >= len(images.labels) - images.num_test).sum())
    files = tuple(images.file_names[i] for i in ids) if images.file_names else ()
    return replace(images, pixels=images.pixels[ids], labels=images.labels[ids], num_test=num_test, file_names=files)


def subset(images: Images, images_per_class: int, seed: int) -> Images:
    """At most `images_per_class` of every class, in their old order (see `load`)."""
    generator = np.random.default_rng([seed, SUBSET])
    training = len(images.labels) - images.num_test
    kept = []
    for part in (np.arange(training), np.arange(training, len(images.labels))):
        for label in range(-1, images.num_classes):
            room = images_per_class * (images.num_classes if label < 0 else 1)
            kept.append(generator.permutation(part[images.labels[part] == label])[:room])
    return take(images, np.sort(np.concatenate(kept)))


def quoted(path) -> str:
    """A path as it may stand in a message; of a very long one the end, which tells paths apart."""
    text = str(path)
    return shorten(text if len(text) <= 240 else f"…{text[-239:]}", 500)


def _module(name: str):
    return import_module(f"lps.datasets.{name}")


@lru_cache(maxsize=2)
def _load(name, path, image_size, images_per_class, seed, moment) -> Images:
    images = _module(name).load(path, image_size)
    if images_per_class is not None:
        images = subset(images, images_per_class, seed)
    if image_size is not None and images.pixels.shape[1:3] != (image_size, image_size):
        from lps.datasets._pictures import resized  # Pillow, only where a picture has to change

        source = Source(name, path, image_size, images_per_class, seed)
        images = resized(images, image_size, ("resized", *source), repr(moment))
    return images
