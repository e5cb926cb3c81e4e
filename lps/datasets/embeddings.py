"""Load a user's own vectors of anything: texts, sounds, cells, pictures that another network has processed.

One file, `.npy`, `.npz` or Parquet, has one vector per item, its id, known labels, and what a page can show of it: a
title or text, or a picture (`lps.datasets.readers.vector_files`). Runs train a small head on these vectors, as on
stored features of pictures; views are made by noise (`lps.data.vectors`).
"""

from pathlib import Path

import numpy as np

from lps.datasets import Images, Vectors
from lps.datasets.readers import vector_files
from lps.datasets.readers.item_pictures import ItemPictures
from lps.datasets.readers.preview import FolderPreview
from lps.datasets.readers.vector_files import VectorTable
from lps.errors import UserError, shorten
from lps.files.atomic import fingerprint
from lps.settings.backbone_names import GIVEN

TITLE = "Embeddings in a file"
SUMMARY = "Vectors in one .npy, .npz or Parquet file, with ids, known labels, and titles or pictures."
PATH = "The file of vectors"
NOUN = "item"
RECIPE = {
    "features": "stored",
    "network.name": GIVEN,
    "network.start": "random",
    "network.freeze_until": "none",
    "views": "vectors",
    "epochs": 50,
    "batch_size": 256,
    "lr": 0.05,
    "weight_decay": 5e-4,
    "split.labeled_ratio": 1.0,
    "split.validation_ratio": 0.1,
}

_ALIKE = 0.005  # relative spread of vectors that float16 still resolves
_MAX_CHECKED = 1000  # number of pictures whose files are checked


def load(path: str | None, image_size: int | None = None) -> Images:
    """Load the items of the file; raises `UserError`."""
    if image_size is not None:
        raise UserError("dataset.image_size", f"{image_size} is a picture size, and vectors have none; remove it")
    table = vector_files.read_vectors(path)
    labels, names = vector_files.class_ids(table)
    mean, spread, size = vector_files.statistics(table.values, table.ids)
    if (spread.astype(float) ** 2).mean() ** 0.5 < _ALIKE * size:
        raise UserError(
            "dataset.path", f"the vectors differ by less than {_ALIKE:.1%} of their length; subtract their mean first"
        )
    pixels = item_pictures(table, Path(path).parent)
    return Images(pixels, labels, names, file_names=table.ids, vectors=Vectors(table.values, mean, spread, size))


def glance(path: str | None, samples: int, size: int) -> FolderPreview:
    """Summarize the file, with up to `samples` items per class as they are shown; raises `UserError` as `load` does."""
    images = load(path)
    rows = [np.flatnonzero(images.labels == label) for label in (*range(images.num_classes), -1)]
    spread = [
        rows_of_class[np.linspace(0, len(rows_of_class) - 1, min(samples, len(rows_of_class))).astype(int)]
        for rows_of_class in rows
    ]
    seen = [[(images.pixels[row], images.sides(row)) for row in rows_of_class.tolist()] for rows_of_class in spread]
    return FolderPreview(images.class_names, tuple(map(len, rows)), tuple(seen), 0, ())


def item_pictures(table: VectorTable, folder: Path) -> ItemPictures:
    """Return the display of the items: pictures below `folder`, else titles; raises `UserError` if none exists."""
    for text in table.pictures:
        path = Path(text)
        if path.is_absolute() or ".." in path.parts:
            raise UserError(
                "dataset.path", f"picture {shorten(text)} is outside the folder of the file; expected a path below it"
            )
    pixels = ItemPictures(table.titles, table.pictures, folder)
    pictured_rows = [row for row, text in enumerate(table.pictures) if text][:_MAX_CHECKED]
    if pictured_rows and not any(pixels.file(row) for row in pictured_rows):
        name = shorten(table.pictures[pictured_rows[0]])
        raise UserError("dataset.path", f"picture {name} was not found; expected a path below the folder of the file")
    return pixels


def stamp(path: str | None) -> object:
    """Return a value that changes with the file and the table beside it."""
    return () if path is None else (fingerprint(Path(path)), fingerprint(Path(path).with_suffix(".csv")))
