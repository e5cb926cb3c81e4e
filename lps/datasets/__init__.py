"""What a data set gives: `load(path, image_size) -> Images`. One file a data set; the folder listing is the registry.

Each module has `TITLE`, a one-line `SUMMARY`, the `RECIPE` it recommends (settings by key; what several share is in
`_recipes`), and `load`. Optional are `CLASSES`, their number where it is always the same, `stamp(path)`, a value that
changes when the files do, `fetch(path)`, which downloads what `load` needs, `RECIPE_BY_METHOD`, settings that it
recommends for single methods, and `is_coloured(path)` where the pictures are a person's own. Files that begin with an
underscore are no data sets. No torch, so that pages can show pictures without it.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lps.errors import shorten

if TYPE_CHECKING:
    from PIL import Image

ON_DEVICE = 2_000_000_000  # bytes of pixels that a run copies to its device; more stay where they are
_SUBSET = 6  # stream of random numbers under split.seed, beside those of `split`


@dataclass(frozen=True)
class Vectors:
    """What the items of a data set are where a person brings vectors in place of pictures.

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
    known class. skipped: (file name, reason) of each file that could not be used. file_names: where every image comes
    from, below `dataset.path`; empty where images are not files. sizes: int64 (n, 2), height and width of images that
    are kept whole and were squeezed into their pixels; None where pixels have the images' own proportions. vectors:
    what is trained on in place of pixels, which are then drawn to be looked at (`lps.datasets.readers.drawn`), and
    file_names are the items' ids; None where images are pictures.
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
        """Whether `file_names` name pictures below `dataset.path`, and not items."""
        return bool(self.file_names) and self.vectors is None

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    def title(self, image: int) -> str:
        """The text of an item that has no picture of its own; "" for pictures."""
        return self.pixels.titles[image] if self.vectors is not None else ""

    def sides(self, image: int) -> tuple[int, int]:
        """(height, width) of an image by its own proportions, before it was squeezed into its pixels."""
        height, width = self.pixels.shape[1:3] if self.sizes is None else self.sizes[image].tolist()
        return height, width


def as_image(pixels: np.ndarray) -> "Image.Image":
    """One picture as Pillow has it, mode L or RGB. pixels: uint8 (height, width, 1 or 3)."""
    from PIL import Image  # only where a picture is made

    return Image.fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels))


def take(images: Images, ids: np.ndarray) -> Images:
    """The images of these ids alone, in this order; test images must stay the last ones."""
    num_test = int((ids >= len(images.labels) - images.num_test).sum())
    files = tuple(images.file_names[i] for i in ids) if images.file_names else ()
    sizes = None if images.sizes is None else images.sizes[ids]
    vectors = images.vectors and replace(images.vectors, values=images.vectors.values[ids])
    pixels, labels = images.pixels.take(ids, axis=0), images.labels[ids]
    return replace(
        images, pixels=pixels, labels=labels, num_test=num_test, file_names=files, sizes=sizes, vectors=vectors
    )


def subset_ids(images: Images, images_per_class: int, seed: int) -> np.ndarray:
    """The ids, int64 ascending, of at most `images_per_class` of every class (see `sources.load`)."""
    generator = np.random.default_rng([seed, _SUBSET])
    training = len(images.labels) - images.num_test
    ids_by_class = []
    for part in (np.arange(training), np.arange(training, len(images.labels))):
        for label in range(-1, images.num_classes):
            room = images_per_class * (images.num_classes if label < 0 else 1)
            ids_by_class.append(generator.permutation(part[images.labels[part] == label])[:room])
    return np.sort(np.concatenate(ids_by_class))


def quoted(path) -> str:
    """A path as it may stand in a message; of a very long one the end, which tells paths apart."""
    text = str(path)
    return shorten(text if len(text) <= 240 else f"…{text[-239:]}", 500)
