"""Every data set by name: its images, whether its files changed, and how to download it."""

import os
from functools import lru_cache
from importlib import import_module
from typing import NamedTuple

import numpy as np

from lps.data import dataset_edits
from lps.datasets import Images, subset_ids, take
from lps.datasets.readers import vector_files
from lps.settings import catalog, edit_log
from lps.settings.config import Config


class Source(NamedTuple):
    """Arguments that select images: the settings `dataset.*`, and the seed of a subset. decisions: a state's name."""

    name: str
    path: str | None = None
    image_size: int | None = None
    images_per_class: int | None = None
    seed: int = 0
    decisions: str | None = None


def load_arguments(config: Config) -> Source:
    """Return the arguments of `load` for `config`: `load(*source(config))`."""
    return Source(
        config.dataset,
        config.dataset_path,
        config.dataset_image_size,
        config.dataset_images_per_class,
        config.split_seed if config.dataset_images_per_class else 0,
        config.dataset_decisions,
    )


def images_of(config: Config) -> Images:
    """Return the images of `config`; raises `UserError` if they are not available."""
    return load(*load_arguments(config))


def load(
    name: str,
    path: str | None = None,
    image_size: int | None = None,
    images_per_class: int | None = None,
    seed: int = 0,
    state: str | None = None,
) -> Images:
    """Return the images of data set `name`; raises `UserError` if they are not available. Downloads nothing.

    image_size: side in pixels; None leaves it to the data set. images_per_class: at most this many of every class among
    the training images, and again among the test images, drawn by `seed`; images of unknown class form one group
    with room for this many per class. state: of the user's decisions about pictures (`lps.settings.edit_log`).
    """
    return _load(name, path, image_size, images_per_class, seed, state, stamp(name, path))


def original_keys(config: Config) -> tuple[list[edit_log.Key], str]:
    """Return (keys in decisions of all images of `config`, before any; `dataset_edits.name_of` the data set)."""
    undecided = load_arguments(config)._replace(decisions=None)
    images = load(*undecided)
    if images.file_names:
        return list(images.file_names), ""
    all_images = load(undecided.name, undecided.path) if undecided.images_per_class or undecided.image_size else images
    return _keys(all_images, undecided.images_per_class, undecided.seed), dataset_edits.name_of(all_images)


def kept_ids(config: Config) -> np.ndarray | None:
    """Return which of the original images `config` keeps after the user's decisions; None: all."""
    left_out = edit_log.decisions_at(config.dataset, config.dataset_path, config.dataset_decisions).left_out
    if not left_out:
        return None
    is_kept = np.array([key not in left_out for key in original_keys(config)[0]])
    return None if is_kept.all() else np.flatnonzero(is_kept)


def _keys(all_images: Images, images_per_class: int | None, seed: int) -> list[edit_log.Key]:
    """Return the keys by which decisions identify the images of a data set, or of a subset of it."""
    is_part = images_per_class is not None
    ids = (subset_ids(all_images, images_per_class, seed) if is_part else np.arange(len(all_images.labels))).tolist()
    return [all_images.file_names[i] for i in ids] if all_images.file_names else ids


def stamp(name: str, path: str | None = None) -> object:
    """Return a hashable value that changes when the files of a data set do; () for sets that do not change."""
    catalog.dataset_info(name)
    return getattr(_module(name), "stamp", lambda path: ())(path)


def is_coloured(name: str, path: str | None = None) -> bool:
    """Return whether a user's own pictures are coloured, without loading them; False for all other data sets."""
    return catalog.dataset_info(name).is_own and _module(name).is_coloured(path)


def data_set_of(path: str) -> str:
    """Return the data set type of a user's folder or file: folder, embeddings, or arrays."""
    if os.path.isdir(path):
        return "folder"
    return "embeddings" if vector_files.has_vectors(path) else "arrays"


def fetch(name: str, path: str | None = None) -> None:
    """Download what `load` needs and is missing; does nothing for data sets without a download. Raises `UserError`."""
    catalog.dataset_info(name)
    getattr(_module(name), "fetch", lambda path: None)(path)


def can_fetch(name: str) -> bool:
    """Return whether `fetch` knows where to download the data set from."""
    catalog.dataset_info(name)
    return hasattr(_module(name), "fetch")


def _module(name: str):
    return import_module(f"lps.datasets.{name}")


@lru_cache(maxsize=2)
def _load(name, path, image_size, images_per_class, seed, state, stamp) -> Images:
    all_images = images = _module(name).load(path, image_size)
    if images_per_class is not None:
        images = take(images, subset_ids(images, images_per_class, seed))
    source = Source(name, path, image_size, images_per_class, seed)
    if image_size is not None and images.pixels.shape[1:3] != (image_size, image_size):
        from lps.datasets.readers.pictures import resize_images  # Pillow, only if a picture must be resized

        images = resize_images(images, image_size, ("resized", *source), repr(stamp))
    decisions = edit_log.decisions_at(name, path, state)
    if not decisions.state:
        return images
    dataset_name = "" if all_images.file_names else dataset_edits.name_of(all_images)
    return dataset_edits.apply_edits(
        images, _keys(all_images, images_per_class, seed), dataset_name, decisions, source, repr((stamp, state))
    )
