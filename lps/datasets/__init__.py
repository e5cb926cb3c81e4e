"""Interface of a data set: `load(path, image_size) -> Images`. One file per data set; the folder lists them.

Each module has `TITLE`, a one-line `SUMMARY`, the `RECIPE` it recommends (settings by key; shared settings are in
`_recipes`), and `load`. Optional are `CLASSES`, their number if it is fixed, `stamp(path)`, a value that
changes when the files do, `fetch(path)`, which downloads what `load` needs, `RECIPE_BY_METHOD`, settings that it
recommends for single methods, and `is_coloured(path)` if the pictures are the user's own. Files that begin with an
underscore are not data sets. No torch, so that pages can show pictures without it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lps.errors import shorten

if TYPE_CHECKING:
    from PIL import Image

ON_DEVICE = 2_000_000_000  # bytes of pixels that a run copies to its device; larger data stay on the host
_SUBSET = 6  # stream of random numbers under split.seed, beside those of `split`


@dataclass(frozen=True)
class Vectors:
    """A user's vectors, as the items of a data set in the place of pictures.

    values: (n, views, d) of any real type, an array or a read-only memory map; the first view is the plain one. mean,
    spread: float32 (d,), mean and standard deviation of the plain view. size: its root mean square.
    """

    values: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    size: float


@dataclass(frozen=True)
class Images:
    """The images of a data set with their true classes. The position of an image in `pixels` is its id everywhere.

    pixels: uint8 (n, height, width, channels) with 1 or 3 channels, an array or a read-only memory map; the last
    `num_test` rows are the test images. labels: int64 (n,), -1 where the truth is unknown. class_names: one name per
    known class. skipped: (file name, reason) of each file that could not be used. file_names: the file of every image,
    below `dataset.path`; empty if images are not files. sizes: int64 (n, 2), original height and width of images that
    were squeezed whole into squares; None if pixels have the images' own proportions. vectors:
    the training data in the place of pixels; pixels are then drawn for display (`lps.datasets.readers.item_pictures`);
    file_names are the items' ids; None if images are pictures.
    """

    pixels: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]
    num_test: int = 0
    skipped: tuple[tuple[str, str], ...] = ()
    file_names: tuple[str, ...] = ()
    sizes: np.ndarray | None = None
    vectors: Vectors | None = None

    @property
    def are_files(self) -> bool:
        """Whether `file_names` name pictures below `dataset.path`, not items."""
        return bool(self.file_names) and self.vectors is None

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    def title(self, image: int) -> str:
        """Return the text of an item that has no picture of its own; "" for pictures."""
        return self.pixels.titles[image] if self.vectors is not None else ""

    def sides(self, image: int) -> tuple[int, int]:
        """Return (height, width) of an image in its own proportions, before it was squeezed into its pixels."""
        height, width = self.pixels.shape[1:3] if self.sizes is None else self.sizes[image].tolist()
        return height, width


def as_image(pixels: np.ndarray) -> "Image.Image":
    """Convert one picture to Pillow, mode L or RGB. pixels: uint8 (height, width, 1 or 3)."""
    from PIL import Image  # only if a picture is converted

    return Image.fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels))


def take(images: Images, ids: np.ndarray) -> Images:
    """Return only the images of these ids, in this order; test images must stay the last ones."""
    num_test = int((ids >= len(images.labels) - images.num_test).sum())
    files = tuple(images.file_names[i] for i in ids) if images.file_names else ()
    sizes = None if images.sizes is None else images.sizes[ids]
    vectors = images.vectors and replace(images.vectors, values=images.vectors.values[ids])
    pixels, labels = images.pixels.take(ids, axis=0), images.labels[ids]
    return replace(
        images, pixels=pixels, labels=labels, num_test=num_test, file_names=files, sizes=sizes, vectors=vectors
    )


def subset_ids(images: Images, images_per_class: int, seed: int) -> np.ndarray:
    """Return the ids, int64 ascending, of at most `images_per_class` of every class (see `sources.load`)."""
    generator = np.random.default_rng([seed, _SUBSET])
    training = len(images.labels) - images.num_test
    ids_by_class = []
    for part in (np.arange(training), np.arange(training, len(images.labels))):
        for label in range(-1, images.num_classes):
            room = images_per_class * (images.num_classes if label < 0 else 1)
            ids_by_class.append(generator.permutation(part[images.labels[part] == label])[:room])
    return np.sort(np.concatenate(ids_by_class))


def quoted(path) -> str:
    """Shorten a path for a message. A very long path keeps its end, which tells paths apart."""
    text = str(path)
    return shorten(text if len(text) <= 240 else f"…{text[-239:]}", 500)


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs more than once, for a message; None if all differ."""
    return next((shorten(name) for name, count in Counter(names).items() if count > 1), None)
