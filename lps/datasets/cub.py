"""11,788 photographs of 200 species of birds; 100 are seen in the Semantic Shift Benchmark.

5,994 training images, then 5,794 test images, as the data set's own lists say.

C. Wah, S. Branson, P. Welinder, P. Perona, S. Belongie: The Caltech-UCSD Birds-200-2011 Dataset. Technical report
CNS-TR-2011-001, California Institute of Technology, 2011.
"""

from pathlib import Path

from lps.datasets import Images, semantic_shift
from lps.datasets.semantic_shift import Download, checked_label, class_names, labels_of_numbers
from lps.errors import UserError, shorten

TITLE = "CUB-200-2011"
SUMMARY = "11,788 photographs of 200 species of birds (Semantic Shift Benchmark); a folder that you download yourself."
PATH = "The folder CUB_200_2011"
CLASSES = 200
RECIPE = semantic_shift.RECIPE
RECIPE_BY_METHOD = {  # as in their authors' scripts
    "simgcd": {"entropy_weight": 2.0},
    "legogcd": {"entropy_weight": 2.0, "known_threshold": 0.7},
}

_CLASSES, _IMAGES, _LABELS, _PARTS = "classes.txt", "images.txt", "image_class_labels.txt", "train_test_split.txt"
_DOWNLOAD = Download(
    name="cub",
    title=TITLE,
    home="www.vision.caltech.edu/datasets/cub_200_2011",
    layout=f"the folder CUB_200_2011 with {_CLASSES}, {_IMAGES}, {_LABELS}, {_PARTS} and images/",
    inner="CUB_200_2011",
    lists=(_CLASSES, _IMAGES, _LABELS, _PARTS),
)
stamp = _DOWNLOAD.stamp


def load(path: str | None, image_size: int | None = None) -> Images:
    """Load all pictures of the lists, test images last; raises `UserError`."""
    root = _DOWNLOAD.folder(path)
    labels = _labels_of_classes(root)
    files = _DOWNLOAD.read_column(root, _IMAGES)
    numbers, parts = _column_of(root, _LABELS, files), _column_of(root, _PARTS, files)
    training, test = [], []
    for image, name in files.items():
        if parts[image] not in ("0", "1"):
            raise UserError(
                "dataset.path", f"{_PARTS} holds {shorten(parts[image])}; expected 1 (training) or 0 (test)"
            )
        label = labels[checked_label(numbers[image], CLASSES, _LABELS)]
        (training if parts[image] == "1" else test).append((f"images/{name}", label))
    return _DOWNLOAD.load(root, training, test, class_names("cub"), image_size)


def _labels_of_classes(root: Path) -> list[int]:
    """Return the label of every class number from 0; `classes.txt` has lines such as "1 001.Black_footed_Albatross"."""
    names = {}
    for number, name in _DOWNLOAD.read_column(root, _CLASSES).items():
        names[checked_label(number, CLASSES, _CLASSES)] = name.partition(".")[2] or name
    return labels_of_numbers("cub", names, _CLASSES)


def _column_of(root: Path, name: str, files: dict[str, str]) -> dict[str, str]:
    """Return the values of a list with one per picture; raises `UserError`."""
    values = _DOWNLOAD.read_column(root, name)
    if values.keys() != files.keys():
        raise UserError(
            "dataset.path",
            f"{name} has {len(values):,} pictures and {_IMAGES} {len(files):,}; both must list the same pictures",
        )
    return values
