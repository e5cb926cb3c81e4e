"""Load a user's own pictures: one sub-folder per class; pictures of unknown class beside these or in `unlabeled`.

animals/cat/1.jpg, animals/dog/2.png, ...   labeled
animals/3.webp, animals/unlabeled/4.webp    classes unknown, known ones and new ones mixed
animals/test/cat/5.jpg, ...                 optional, for a final accuracy
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np

from lps.datasets import Images, quoted, repeated
from lps.datasets._recipes import OWN_PICTURES
from lps.datasets.readers.decoding import Unreadable, squeezed
from lps.datasets.readers.pictures import (
    Listing,
    cached_listing,
    existing_folder,
    folder_stamp,
    is_folder,
    list_entries,
    scan_folder,
)
from lps.datasets.readers.preview import FolderPreview
from lps.errors import UserError, shorten
from lps.files.atomic import as_user_error, clean_line

TITLE = "Pictures in a folder"
SUMMARY = "A folder: labeled classes are sub-folders; all other pictures lie beside them or in one called unlabeled."
PATH = "The folder"

RECIPE = OWN_PICTURES

_SIZE = 64  # pixels, if no size is given
_UNLABELED = ("unlabeled", "unlabelled", "_unlabeled", "_unlabelled")
_TEST = "test"


def glance(path: str | None, samples: int, size: int) -> FolderPreview:
    """Summarize the folder `path`, with up to `samples` pictures per class, evenly spread.

    Raises `UserError` as `load` does.
    """
    listing, names = _listed(path)
    training = np.array(listing.labels[: len(listing.labels) - listing.num_test])
    rows = [np.flatnonzero(training == label) for label in (*range(len(names)), -1)]

    def read_preview(row: int):
        with suppress(Unreadable):
            return squeezed(listing.root / listing.files[row][0], size)

    def spread(rows_of_class: np.ndarray) -> np.ndarray:
        return rows_of_class[np.linspace(0, len(rows_of_class) - 1, min(samples, len(rows_of_class))).astype(int)]

    with ThreadPoolExecutor() as pool:
        previews_by_class = [
            [preview for preview in pool.map(read_preview, spread(rows_of_class)) if preview is not None]
            for rows_of_class in rows
        ]
    return FolderPreview(
        names, tuple(map(len, rows)), tuple(previews_by_class), listing.num_test, tuple(listing.skipped)
    )


def load(path: str | None, image_size: int | None = None) -> Images:
    """Load all readable pictures below `path` as RGB squares; raises `UserError`."""
    return cached_listing("folder", *_listed(path), image_size or _SIZE)


def stamp(path: str | None) -> object:
    return folder_stamp(path)


def is_coloured(path: str | None) -> bool:
    """Return True: pictures become RGB, and checking each would take as long as loading them."""
    return True


def _listed(path: str | None) -> tuple[Listing, tuple[str, ...]]:
    """Return (the files of the folder, the names of its classes); raises `UserError`."""
    root = existing_folder(path, "a folder with one sub-folder per class, and the other pictures beside them")
    with as_user_error("dataset.path", f"{quoted(root)} cannot be read"):
        return _list(root)


def _list(root: Path) -> tuple[Listing, tuple[str, ...]]:
    """Return the files of the classes, then of unknown class, then of the test; and the names of the classes."""
    listing, tree = Listing(root), scan_folder(root)
    folders = [root / entry.name for entry in tree if is_folder(entry)]
    files = [entry for entry in tree if not is_folder(entry)]
    classes = [path for path in folders if _lower_name(path) not in (*_UNLABELED, _TEST)]
    names = _class_names(root, classes)
    for label, folder in enumerate(classes):
        if not listing.add(folder, label):
            raise UserError("dataset.path", f"class {shorten(names[label])} has no picture; expected at least one")
    for folder in folders:
        if _lower_name(folder) in _UNLABELED and not listing.add(folder, -1):
            raise UserError("dataset.path", f"{quoted(folder)} has no pictures; add some or remove it")
    listing.add_files(files, -1)
    for folder in folders:
        if _lower_name(folder) == _TEST:
            _add_test(listing, folder, [path.name for path in classes])
    return listing, names


def _lower_name(folder: Path) -> str:
    return clean_line(folder.name).lower()


def _class_names(root: Path, classes: list[Path]) -> tuple[str, ...]:
    names = tuple(clean_line(path.name) for path in classes)
    if not names:
        raise UserError("dataset.path", f"{quoted(root)} has no classes; expected one sub-folder per class")
    if twice := repeated(names):
        raise UserError("dataset.path", f"two sub-folders have names that look like {twice}; rename one")
    return names


def _add_test(listing: Listing, folder: Path, classes: list[str]) -> None:
    for path in list_entries(folder):
        if not path.is_dir():
            listing.skip(path, "is not in a class folder")
        elif path.name not in classes:
            raise UserError("dataset.path", f"test has a class {shorten(path.name)} that has no training pictures")
        else:
            listing.num_test += listing.add(path, classes.index(path.name))
    if not listing.num_test:
        raise UserError(
            "dataset.path", "the folder test has no class folder with pictures; expected test/CLASS/, or no folder test"
        )
