"""36,904 scans of pressed plants of 683 species; 341 are seen in the benchmark of generalized category discovery.

34,225 training images, then 2,679 validation images, which count as test images here.

K. C. Tan, Y. Liu, B. Ambrose, M. Tulig, S. Belongie: The Herbarium Challenge 2019 Dataset. arXiv 1906.05372.
"""

from pathlib import Path

from lps.datasets import Images, quoted, semantic_shift
from lps.datasets.readers.pictures import Listing, folder_stamp, list_entries
from lps.datasets.semantic_shift import Download, class_split
from lps.errors import UserError, shorten
from lps.files.atomic import as_user_error, clean_line

TITLE = "Herbarium 19"
SUMMARY = "36,904 scans of 683 plant species, imbalanced; a folder that you download yourself."
PATH = "The folder with small-train and small-validation"
CLASSES = 683
RECIPE = semantic_shift.RECIPE
RECIPE_BY_METHOD = {  # as in their authors' scripts
    "simgcd": {"entropy_weight": 2.0},
    "legogcd": {"entropy_weight": 1.0, "known_threshold": 0.7},
}

_TRAINING, _TEST = "small-train", "small-validation"
_DOWNLOAD = Download(
    name="herbarium19",
    title=TITLE,
    home="www.kaggle.com/c/herbarium-2019-fgvc6",
    layout=f"a folder with {_TRAINING}/ and {_TEST}/, each with one folder per species",
    inner="herbarium19",
)


def load(path: str | None, image_size: int | None = None) -> Images:
    """Load all pictures of the species, those of `small-validation` last; raises `UserError`."""
    root = _DOWNLOAD.folder(path)
    with as_user_error("dataset.path", f"{quoted(root)} cannot be read"):
        species = _species(root)
        listing = Listing(root)
        for number, label in _image_paths().items():
            if not listing.add(root / _TRAINING / species[number], label):
                raise UserError("dataset.path", f"{_TRAINING}/{shorten(species[number])} has no picture")
        if (root / _TEST).is_dir():
            _add_test(listing, root / _TEST, species)
    names = tuple(clean_line(species[item.index]) for item in class_split("herbarium19"))
    return _DOWNLOAD.load_listing(listing, names, image_size)


def stamp(path: str | None) -> object:
    """Return a value that changes with the files, see `folder_stamp`."""
    roots = (path, f"{path}/{_DOWNLOAD.inner}") if path else ()
    return _DOWNLOAD.stamp(path), *(folder_stamp(f"{root}/{name}") for root in roots for name in (_TRAINING, _TEST))


def _image_paths() -> dict[int, int]:
    """Return index of a folder in sorted order -> label, in the order of the benchmark."""
    return {index: label for index, label in sorted((c.index, i) for i, c in enumerate(class_split("herbarium19")))}


def _species(root: Path) -> list[str]:
    """Return the folders of `small-train`, sorted as text: the benchmark numbers its classes in this order."""
    if not (root / _TRAINING).is_dir():
        raise _DOWNLOAD.missing(root, _TRAINING)
    species = [path.name for path in list_entries(root / _TRAINING) if path.is_dir()]
    numbers = set(map(str, range(CLASSES)))
    if foreign := [name for name in species if name not in numbers]:
        raise UserError(
            "dataset.path",
            f"{_TRAINING} has a folder {shorten(foreign[0])}; expected only folders that are called 0 to {CLASSES - 1}",
        )
    if len(species) != CLASSES:
        raise UserError(
            "dataset.path",
            f"{_TRAINING} has {len(species)} folders; expected {CLASSES}, one per species; get {TITLE} from"
            f" {_DOWNLOAD.home}",
        )
    return species


def _add_test(listing: Listing, folder: Path, species: list[str]) -> None:
    labels = {species[number]: label for number, label in _image_paths().items()}
    for path in list_entries(folder):
        if not path.is_dir():
            listing.skip(path, "is not in a folder of a species")
        elif path.name not in labels:
            raise UserError("dataset.path", f"{_TEST} has a folder {shorten(path.name)} that {_TRAINING} does not have")
        else:
            listing.num_test += listing.add(path, labels[path.name])
