"""Many pictures in few files: tar shards in WebDataset's layout, or Parquet with the bytes of images.

pictures/train-000.tar       cat7.jpg, cat7.cls; ...        the class as a number or a name; no .cls: unknown
pictures/train-001.parquet   columns image and label        as in Hugging Face's; numbers or text, -1 or null: unknown
pictures/test-000.tar        files that begin with `test`   optional, for a last accuracy
pictures/classes.txt         one name a line                optional: the names of classes that are numbers
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lps.datasets import Images, quoted, repeated
from lps.datasets._recipes import OWN_PICTURES
from lps.datasets.readers.decoding import decode
from lps.datasets.readers.picture_cache import Writer, cached_images
from lps.datasets.readers.pictures import check_classes, decode_all, existing_folder
from lps.datasets.readers.shards import Sample, Shards
from lps.errors import UserError
from lps.files.atomic import as_user_error, clean_line, read_small
from lps.files.versions import MAX_IMAGES

TITLE = "Shards"
SUMMARY = "A folder of tar shards (WebDataset) or Parquet files with images, with or without labels."
PATH = "The folder"

RECIPE = OWN_PICTURES

_SIZE = 64  # pixels, if no size is given
_NAMES = "classes.txt"


def load(path: str | None, image_size: int | None = None) -> Images:
    """Load all readable pictures of the shards in `path` as RGB squares; raises `UserError`."""
    root, shards, names = _listed(path)
    size = image_size or _SIZE
    return cached_images(
        ("shards", str(root.resolve()), size),
        repr((shards.stamp(), names)),
        lambda writer: _stored(shards, names, size, writer),
        space=0,  # the number of pictures is unknown before; a full disk raises its own error
        root=root if shards.are_plain_tars() else None,
    )


def stamp(path: str | None) -> object:
    """Return name, size, modification time and place of every shard."""
    try:
        _, shards, names = _listed(path)
        return shards.stamp(), names
    except (UserError, OSError):
        return ()


def is_coloured(path: str | None) -> bool:
    """Return True, as for folders: pictures become RGB."""
    return True


def _listed(path: str | None) -> tuple[Path, Shards, tuple[str, ...]]:
    """Return (the folder, its shards, the names of `classes.txt`); raises `UserError`."""
    root = existing_folder(path, "a folder of .tar or .parquet files")
    with as_user_error("dataset.path", f"{quoted(root)} cannot be read"):
        shards = Shards.of(root)
        text = read_small(root / _NAMES) if (root / _NAMES).exists() else b""
    if not shards.training:
        raise UserError("dataset.path", f"{quoted(root)} has no .tar or .parquet file to train on")
    names = tuple(clean_line(line) for line in text.decode("utf-8", "replace").splitlines())
    if twice := repeated(names):
        raise UserError("dataset.path", f"{_NAMES} has {twice} twice; expected a different name on each line")
    return root, shards, names


def _stored(shards: Shards, names: tuple[str, ...], size: int, writer: Writer) -> Images:
    """Decode all pictures into `writer`; returns their `Images`, without pixels. Raises `UserError`."""
    files: list[str] = []
    given_labels: list[str | int | None] = []

    def contents(samples: Iterator[Sample]) -> Iterator[bytes]:
        for sample in samples:
            if len(sources) >= MAX_IMAGES:
                raise UserError("dataset.path", f"{quoted(shards.root)} has more than {MAX_IMAGES:,} pictures")
            sources.append(sample._replace(content=b""))
            yield sample.content

    counts = []
    for part in (shards.training, shards.test):
        sources: list[Sample] = []
        for row, picture in enumerate(decode_all(contents(shards.samples(part)), size, decode)):
            sample = sources[row]
            if isinstance(picture, str):
                shards.skip(sample.name, picture)
                continue
            writer.add(picture[None], sample.place)
            files.append(sample.name)
            given_labels.append(sample.label)
        counts.append(len(files))
    if not counts[0]:
        first = f": {' '.join(shards.skipped[0])}" if shards.skipped else ""
        raise UserError("dataset.path", f"{quoted(shards.root)} has no readable picture to train on{first}")
    labels, class_names = _numbered(given_labels, names or shards.names)
    check_classes(labels[: counts[0]], class_names)
    return Images(
        np.zeros(0, np.uint8), labels, class_names, counts[1] - counts[0], tuple(shards.skipped), tuple(files)
    )


def _numbered(given_labels: list[str | int | None], names: tuple[str, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return (class id int64 (n,), -1 unknown; names of the classes that occur); numbers first, then texts by name.

    names: of classes by number; () if the numbers are the names. Raises `UserError`.
    """
    distinct = sorted(
        {label for label in given_labels if label is not None}, key=lambda label: (isinstance(label, str), label)
    )
    if not distinct:
        raise UserError(
            "dataset.path", "has no classes because no picture has a label (key.cls, or a column called label)"
        )
    largest = max((label for label in distinct if isinstance(label, int)), default=-1)
    if names and largest >= len(names):
        raise UserError("dataset.path", f"has a picture of class {largest}, but only {len(names)} class names")
    called = [names[label] if names and isinstance(label, int) else str(label) for label in distinct]
    class_names = tuple(dict.fromkeys(called))
    ids = {label: class_names.index(name) for label, name in zip(distinct, called)} | {None: -1}
    return np.array([ids[label] for label in given_labels], np.int64), class_names
