"""100 classes of ImageNet, from a folder that has `train/<class>/` and, as test images, `val/<class>/`.

J. Deng, W. Dong, R. Socher, L.-J. Li, K. Li, L. Fei-Fei: ImageNet, a large-scale hierarchical image database. CVPR
2009. It cannot be downloaded without a licence. There are several lists of 100 classes in the field: the folder
holds exactly the wanted ones, or a text file `classes.txt` with one WordNet id a line, the usual seen ones first.

The pictures are kept decoded at 256 pixels, 197 kB each or 25 GB for 126,000, and memory-mapped from disk; the views
cut 224 of them.
"""

import re

from lps.datasets import Images, quoted
from lps.datasets._pictures import Listing, entries, existing_folder, folder_stamp, stored
from lps.datasets._store import kept
from lps.parameters import ConfigError, shorten

TITLE = "ImageNet-100"
SUMMARY = "A folder with train/<class>/ and val/<class>/: 100 ImageNet classes, kept decoded (25 GB of disk)."
PATH = "The folder"

RECIPE = {
    "dataset.image_size": 256,
    "epochs": 90,
    "batch_size": 512,
    "lr": 0.1,
    "weight_decay": 1e-4,
    "network.name": "resnet50",
    "network.freeze_until": "layer3",
    "views": "imagenet",
    "pretrain.epochs": 200,
    "pretrain.batch_size": 512,
    "pretrain.optimizer": "sgd",
    "pretrain.lr": 0.06,
    "pretrain.weight_decay": 5e-4,
    "pretrain.projector_outputs": 128,
    "pretrain.temperature": 0.2,
}

SIZE = 256  # pixels: short side and centre, as the usual test transform has it before it cuts 224
COUNT = 100
LIST = "classes.txt"
EXPECTED = "a folder with train/<class>/ for 100 classes"


def load(path: str | None, image_size: int | None = None) -> Images:
    """All pictures of the classes as RGB squares, those of `val` last; raises `ConfigError`."""
    root = existing_folder(path, EXPECTED)
    size = image_size or SIZE
    try:
        classes = _classes(root)
        listing = _list(root, classes)
    except OSError as error:
        raise ConfigError("dataset.path", f"{quoted(root)} cannot be read ({error.strerror})") from None
    return kept(
        ("imagenet100", str(root.resolve()), size),
        listing.digest() + repr(classes),
        lambda writer: stored(listing, classes, size, writer),
        space=len(listing.files) * size * size * 3,
    )


def stamp(path: str | None) -> object:
    """See `folder_stamp`; the list of classes counts too."""
    return folder_stamp(path) + (folder_stamp(f"{path}/train") if path else ())


def _classes(root) -> tuple[str, ...]:
    """The names of the 100 folders: in the order of the list, else sorted."""
    train = existing_folder(str(root / "train"), EXPECTED)
    if (root / LIST).is_file():
        text = (root / LIST).read_text(encoding="utf-8", errors="replace")
        classes = tuple(line.split()[0] for line in text.splitlines() if line.strip())
        if len(classes) != COUNT or len(set(classes)) != COUNT:
            raise ConfigError(
                "dataset.path", f"{LIST} names {len(set(classes))} classes in {len(classes)} lines; expected 100"
            )
        wrong = [name for name in classes if not re.fullmatch(r"[\w.-]+", name) or not (train / name).is_dir()]
        if wrong:
            raise ConfigError("dataset.path", f"{LIST} names {shorten(wrong[0])}, which is no folder in train")
        return classes
    classes = tuple(path.name for path in entries(train) if path.is_dir())
    if len(classes) != COUNT:
        raise ConfigError(
            "dataset.path",
            f"train has {len(classes)} classes; expected 100, or a file {LIST} that names 100 of them, one a line",
        )
    return classes


def _list(root, classes: tuple[str, ...]) -> Listing:
    listing = Listing(root)
    for label, name in enumerate(classes):
        if not listing.add(root / "train" / name, label):
            raise ConfigError("dataset.path", f"class {name!r} has no picture; expected at least one")
    for label, name in enumerate(classes):
        if (root / "val" / name).is_dir():
            listing.num_test += listing.add(root / "val" / name, label)
    return listing
