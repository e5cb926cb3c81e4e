"""16,185 photographs of 196 models of cars; 98 are seen in the Semantic Shift Benchmark.

8,144 training images, then 8,041 test images. Without the folder `cars_test` there are no test images.

J. Krause, M. Stark, J. Deng, L. Fei-Fei: 3D Object Representations for Fine-Grained Categorization. 3dRR 2013.
"""

import io
import zlib
from pathlib import Path

import numpy as np

from lps.datasets import Images, semantic_shift
from lps.datasets.semantic_shift import Download, checked_label, class_names, labels_of_numbers
from lps.errors import UserError
from lps.files.atomic import clean_line

TITLE = "Stanford Cars"
SUMMARY = "16,185 photographs of 196 models of cars (Semantic Shift Benchmark); a folder that you download yourself."
PATH = "The folder with cars_train and devkit"
CLASSES = 196
RECIPE = semantic_shift.RECIPE
RECIPE_BY_METHOD = {  # as in their authors' scripts
    "simgcd": {"entropy_weight": 2.0},
    "legogcd": {"entropy_weight": 1.0, "known_threshold": 0.9},
}

_META, _TRAINING = "devkit/cars_meta.mat", "devkit/cars_train_annos.mat"
_TEST = "devkit/cars_test_annos_withlabels.mat"
_BESIDE = "cars_test_annos_withlabels.mat"  # torchvision's location
_MAX_BYTES = 64 << 20  # of a .mat file once it is unpacked; the real ones have less than 10 MB
_HEAD, _TAG, _COMPRESSED = 128, 8, 15  # MATLAB 5: bytes of the file's head and of an element's; a kind of element
_DOWNLOAD = Download(
    name="stanford_cars",
    title=TITLE,
    home="github.com/pytorch/vision/issues/7545, which lists copies (ai.stanford.edu no longer has it)",
    layout=f"a folder with {_META}, {_TRAINING}, {_TEST}, cars_train/ and cars_test/",
    inner="stanford_cars",
    lists=(_META, _TRAINING, _TEST, _BESIDE),
)
stamp = _DOWNLOAD.stamp


def load(path: str | None, image_size: int | None = None) -> Images:
    """Load all pictures of the annotations, test images last; raises `UserError`."""
    root = _DOWNLOAD.folder(path)
    names = dict(enumerate(str(name) for name in np.atleast_1d(_read(root, _META, "class_names"))))
    labels = labels_of_numbers("stanford_cars", names, _META)
    training, test = _listed(root, _TRAINING, "cars_train", labels), []
    if (root / "cars_test").is_dir():
        has_sibling = (root / _BESIDE).is_file() and not (root / _TEST).is_file()
        test = _listed(root, _BESIDE if has_sibling else _TEST, "cars_test", labels)
    return _DOWNLOAD.load(root, training, test, class_names("stanford_cars"), image_size)


def _listed(root: Path, name: str, folder: str, labels: list[int]) -> list[tuple[str, int]]:
    """Return (file, label) of every picture of an annotation file; raises `UserError`."""
    rows = np.atleast_1d(_read(root, name, "annotations"))
    if not rows.dtype.names or not {"fname", "class"} <= set(rows.dtype.names):
        lacks = "class: it is the test list without labels" if "fname" in (rows.dtype.names or ()) else "fname or class"
        raise UserError("dataset.path", f"{name} has no {lacks}")
    return [
        (f"{folder}/{file}", labels[checked_label(str(number).removesuffix(".0"), CLASSES, name)])
        for file, number in zip(rows["fname"].tolist(), rows["class"].tolist())
    ]


def _read(root: Path, name: str, variable: str) -> np.ndarray:
    """Read a variable of a MATLAB file; raises `UserError`."""
    from scipy.io import loadmat  # only if a file is read

    data = _DOWNLOAD.read_bytes(root, name)
    try:
        _check_unpacked(data)
        variables = loadmat(io.BytesIO(data), variable_names=[variable], squeeze_me=True)
    except Exception as error:  # damaged files can fail in any way
        raise UserError("dataset.path", f"{name} is damaged or not a MATLAB file ({clean_line(error)})") from None
    if variable not in variables:
        raise UserError("dataset.path", f"{name} has no {variable}")
    return variables[variable]


def _check_unpacked(data: bytes) -> None:
    """Raise `ValueError` if the compressed elements of a MATLAB 5 file unpack to more than a sane limit."""
    offset, total = _HEAD, 0
    while offset + _TAG <= len(data):
        kind, size = np.frombuffer(data, np.uint32, 2, offset).tolist()
        if kind == _COMPRESSED:
            unpacking = zlib.decompressobj()
            total += len(unpacking.decompress(data[offset + _TAG : offset + _TAG + size], _MAX_BYTES - total + 1))
        if total > _MAX_BYTES:
            raise ValueError(f"it unpacks to more than {_MAX_BYTES >> 20} MiB")
        offset += _TAG + size
