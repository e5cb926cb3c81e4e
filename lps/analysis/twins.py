"""Runs beside each other: what tells one from the others, and whether they saw the same images with the same labels."""

from collections.abc import Callable

import numpy as np

from lps.data.split import Split
from lps.errors import Refusal
from lps.settings.config import Config
from lps.settings.parameters import text_of
from lps.store.runs import Run
from lps.store.snapshots import read_split

_DATA = ("dataset", "dataset.path", "dataset.images_per_class")  # settings that say which images there are
DAMAGED = "its settings cannot be read"


def _split_of(run: Run) -> tuple[Split, np.ndarray]:
    return read_split(run.folder)


def split_difference(first: Run, other: Run, read: Callable = _split_of) -> str:
    """Why the images or labels of two runs are not the same, in words; "" where they are the same.

    Where both splits are stored they decide, so that a default and the same value written out are no difference.
    read: gives the split of a run and the class id of every image, or raises `Refusal`.
    """
    known, settings = first.config_if_readable(), other.config_if_readable()
    same = _same_split(first, other, read)
    if same:
        return ""
    if known is None or settings is None:
        return DAMAGED
    if names := differing(known, settings):
        name = names[0]
        return f"{name} is {text_of(settings.flat()[name])} there and {text_of(known.flat()[name])} here"
    return "" if same is None else "the images of the data set have changed between the two"


def _same_split(first: Run, other: Run, read: Callable) -> bool | None:
    """Whether the stored splits are equal; None where one of them cannot be read."""
    try:
        (one, our_truth), (two, their_truth) = read(first), read(other)
    except Refusal:
        return None
    pairs = [(getattr(one, name), getattr(two, name)) for name in ("labeled", "unlabeled")]
    pairs.append((our_truth, their_truth))
    return one.classes == two.classes and all(np.array_equal(left, right) for left, right in pairs)


def differing(known: Config, settings: Config) -> list[str]:
    """The settings of data set and split that two runs do not share, the data set first."""
    mine, other = known.flat(), settings.flat()
    names = [*_DATA, *(name for name in mine if name.startswith("split."))]
    return [name for name in names if mine[name] != other[name]]
