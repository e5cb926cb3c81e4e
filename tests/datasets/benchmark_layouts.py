"""Tiny copies of the folders of the Semantic Shift Benchmark's data sets: every picture has one colour, its class."""

from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

from lps.datasets.semantic_shift import class_split

SPECIES = sorted(str(number) for number in range(683))  # as text: 0, 1, 10, 100, ...


def in_own_order(dataset: str) -> list[str]:
    """The names of the classes by the number that the data set's own files give them, from 0."""
    return [item.name for item in sorted(class_split(dataset), key=lambda item: item.index)]


def colour(index: int) -> tuple[int, int, int]:
    """The colour of a class, by its number from 0."""
    return index % 16 * 16 + 8, index // 16 % 16 * 16 + 8, index // 256 * 16 + 8


def draw(path: Path, index: int) -> None:
    """A picture of 12 x 8 pixels; PNG by content, whatever its name, so that its colour stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (12, 8), colour(index)).save(path, "PNG")


def write_cub(root: Path) -> Path:
    """Two training images and a test image of each class, in another order than that of the classes."""
    folder = root / "CUB_200_2011"
    names = [f"{index + 1:03}.{name}" for index, name in enumerate(in_own_order("cub"))]
    images, labels, parts = [], [], []
    for image in range(600):
        index = image * 7 % 200
        name = f"{names[index]}/{image}.jpg"
        draw(folder / "images" / name, index)
        images.append(f"{image + 1} {name}")
        labels.append(f"{image + 1} {index + 1}")
        parts.append(f"{image + 1} {int(image < 400)}")
    for name, lines in (
        ("images.txt", images),
        ("image_class_labels.txt", labels),
        ("train_test_split.txt", parts),
        ("classes.txt", [f"{index + 1} {name}" for index, name in enumerate(names)]),
    ):
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def write_aircraft(root: Path) -> Path:
    """Two training images and a test image of each variant."""
    folder, names = root / "fgvc-aircraft-2013b", in_own_order("fgvc_aircraft")
    for part, numbers in (("trainval", range(200)), ("test", range(200, 300))):
        lines = []
        for number in numbers:
            index = number * 7 % 100
            draw(folder / f"data/images/{number:07}.jpg", index)
            lines.append(f"{number:07} {names[index]}")
        (folder / f"data/images_variant_{part}.txt").write_text("\n".join(lines) + "\n")
    return folder


def annotations(numbers: list[int], indices: list[int], with_labels: bool = True) -> np.ndarray:
    """A struct array as the devkit has it; indices from 0."""
    names = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname")
    rows = [(1, 1, 12, 8, index + 1, f"{number + 1:05}.jpg") for number, index in zip(numbers, indices)]
    kept = [place for place, name in enumerate(names) if with_labels or name != "class"]
    cells = [tuple(row[place] for place in kept) for row in rows]
    return np.array(cells, [(names[place], object) for place in kept]).reshape(1, -1)


def write_cars(root: Path) -> Path:
    """Two training images and a test image of each class."""
    folder = root / "stanford_cars"
    names = [name.replace("C-V", "C/V") for name in in_own_order("stanford_cars")]  # as the devkit writes it
    (folder / "devkit").mkdir(parents=True)
    savemat(folder / "devkit/cars_meta.mat", {"class_names": np.array([names], object)})
    for part, count, name in (("train", 392, "cars_train_annos"), ("test", 196, "cars_test_annos_withlabels")):
        indices = [number * 5 % 196 for number in range(count)]
        for number, index in enumerate(indices):
            draw(folder / f"cars_{part}/{number + 1:05}.jpg", index)
        savemat(folder / f"devkit/{name}.mat", {"annotations": annotations(range(count), indices)}, do_compression=True)
    return folder


def write_herbarium(root: Path) -> Path:
    """A training image of each species, and test images of three."""
    folder = root / "herbarium19"
    for place, name in enumerate(SPECIES):
        draw(folder / "small-train" / name / "1.jpg", place)
    for place in (0, 2, 5):
        draw(folder / "small-validation" / SPECIES[place] / "2.jpg", place)
    return folder


WRITERS = {
    "cub": write_cub,
    "fgvc_aircraft": write_aircraft,
    "stanford_cars": write_cars,
    "herbarium19": write_herbarium,
}
