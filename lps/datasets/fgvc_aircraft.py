"""10,000 photographs of 100 variants of aircraft; 50 are seen in the Semantic Shift Benchmark.

6,667 images of training and validation, then 3,333 test images, as the data set's own lists say.

S. Maji, E. Rahtu, J. Kannala, M. Blaschko, A. Vedaldi: Fine-Grained Visual Classification of Aircraft. arXiv 1306.5151.
"""

from pathlib import Path

from lps.datasets import Images, semantic_shift
from lps.datasets.semantic_shift import Download, class_names, labels_by_name, plain_name
from lps.errors import UserError, shorten

TITLE = "FGVC-Aircraft"
SUMMARY = (
    "10,000 photographs of 100 variants of aircraft (Semantic Shift Benchmark); a folder that you download yourself."
)
PATH = "The folder fgvc-aircraft-2013b"
CLASSES = 100
RECIPE = semantic_shift.RECIPE
RECIPE_BY_METHOD = {  # as in their authors' scripts
    "simgcd": {"entropy_weight": 2.0},
    "legogcd": {"entropy_weight": 1.0, "known_threshold": 0.8},
}

_TRAINING, _TEST = "data/images_variant_trainval.txt", "data/images_variant_test.txt"
_DOWNLOAD = Download(
    name="fgvc_aircraft",
    title=TITLE,
    home="www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft",
    layout=f"the folder fgvc-aircraft-2013b with {_TRAINING}, {_TEST} and data/images/",
    inner="fgvc-aircraft-2013b",
    lists=(_TRAINING, _TEST),
)
stamp = _DOWNLOAD.stamp


def load(path: str | None, image_size: int | None = None) -> Images:
    """Load all pictures of the lists, test images last; raises `UserError`."""
    root = _DOWNLOAD.folder(path)
    names = class_names("fgvc_aircraft")
    return _DOWNLOAD.load(root, _listed(root, _TRAINING), _listed(root, _TEST), names, image_size)


def _listed(root: Path, name: str) -> list[tuple[str, int]]:
    """Return (file, label) of every picture of a list with lines such as "1025794 707-320"; raises `UserError`."""
    labels, pictures = labels_by_name("fgvc_aircraft"), []
    for image, variant in _DOWNLOAD.read_column(root, name).items():
        label = labels.get(plain_name(variant))
        if label is None:
            raise UserError("dataset.path", f"{name} holds {shorten(variant)}, which is not one of its 100 variants")
        pictures.append((f"data/images/{image}.jpg", label))
    return pictures
