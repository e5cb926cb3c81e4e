"""Load 100 classes of ImageNet from a folder with `train/<class>/` and, as test images, `val/<class>/`.

J. Deng, W. Dong, R. Socher, L.-J. Li, K. Li, L. Fei-Fei: ImageNet, a large-scale hierarchical image database. CVPR
2009. It cannot be downloaded without a licence. Several lists of 100 classes are in use: the folder has exactly the
wanted classes, or a text file `classes.txt` with one WordNet id per line, the usual seen ones first.

Every picture is decoded once and stored as a whole, resized to 256 x 256 pixels, with its original height and width.
The views of "imagenet" crop in those proportions: random resized crops come from the whole picture, tests from 256
pixels on the shorter side, as in the originals; other views use the squares. The originals keep more of a longer side;
a larger `dataset.image_size` does, too.

Storage: 197 kB per picture in the folder `LPS_CACHE`, or 25.9 GB for the usual 131,700, of which 126,700 are trained
on. Runs map that file and never copy it as a whole, neither to the GPU nor to memory; the system caches what memory has
room for, so with 32 GB every picture is read from the disk about once per epoch. A step copies its 512 pictures, 101
MB, to the GPU.
"""

import re

from lps.datasets import Images, quoted
from lps.datasets._recipes import PHOTOS
from lps.datasets.readers.pictures import Listing, cached_listing, existing_folder, folder_stamp, list_entries
from lps.errors import UserError, shorten
from lps.files.atomic import as_user_error

TITLE = "ImageNet-100"
SUMMARY = (
    "A folder with train/<class>/ and val/<class>/: 100 ImageNet classes. The decoded pictures take 25 GB of disk."
)
PATH = "The folder"
CLASSES = 100

RECIPE = PHOTOS | {
    "dataset.image_size": 256,
    "epochs": 90,
    "weight_decay": 1e-4,
    "network.name": "resnet50",
    "precision": "fp32",  # as in the originals
    "views": "imagenet",
    "pretrain.epochs": 200,
    "pretrain.temperature": 0.2,
}

_SIZE = 256  # pixels of both sides; the usual test transform has this many on the shorter side
_LIST = "classes.txt"
_EXPECTED = "a folder with train/<class>/ for 100 classes"


def load(path: str | None, image_size: int | None = None) -> Images:
    """Load all pictures of the classes as RGB squares, those of `val` last; raises `UserError`."""
    root = existing_folder(path, _EXPECTED)
    with as_user_error("dataset.path", f"{quoted(root)} cannot be read"):
        classes = _classes(root)
        listing = _list(root, classes)
    return cached_listing("imagenet100", listing, classes, image_size or _SIZE, is_whole=True)


def stamp(path: str | None) -> object:
    """Return a value that changes with the files and the list of classes, see `folder_stamp`."""
    return folder_stamp(path) + (folder_stamp(f"{path}/train") if path else ())


def _classes(root) -> tuple[str, ...]:
    """Return the names of the 100 folders: in the order of the list, else sorted."""
    train = existing_folder(str(root / "train"), _EXPECTED)
    if (root / _LIST).is_file():
        text = (root / _LIST).read_text(encoding="utf-8", errors="replace")
        classes = tuple(line.split()[0] for line in text.splitlines() if line.strip())
        if len(classes) != CLASSES or len(set(classes)) != CLASSES:
            raise UserError(
                "dataset.path", f"{_LIST} names {len(set(classes))} classes in {len(classes)} lines; expected 100"
            )
        misfits = [name for name in classes if not re.fullmatch(r"[\w.-]+", name) or not (train / name).is_dir()]
        if misfits:
            raise UserError("dataset.path", f"{_LIST} names {shorten(misfits[0])}, which is not a folder in train")
        return classes
    classes = tuple(path.name for path in list_entries(train) if path.is_dir())
    if len(classes) != CLASSES:
        raise UserError(
            "dataset.path",
            f"train has {len(classes)} classes; expected 100, or a file {_LIST} that lists 100 of them, one per line",
        )
    return classes


def _list(root, classes: tuple[str, ...]) -> Listing:
    listing = Listing(root)
    for label, name in enumerate(classes):
        if not listing.add(root / "train" / name, label):
            raise UserError("dataset.path", f"class {shorten(name)} has no picture; expected at least one")
    for label, name in enumerate(classes):
        if (root / "val" / name).is_dir():
            listing.num_test += listing.add(root / "val" / name, label)
    return listing
