"""python -m benchmarks.thumbnails: how long pages wait for pictures that stay in their files, first and second time.

Photographs, pieces of those of scikit-learn, as JPEG files of 640 x 427 pixels in a folder. `gallery` requests each as
galleries and maps do, 96 pixels as WebP; `sheet` shows 48 at a time as Clusters does; `predict` as Predict does. Each
is a separate process, so that nothing is cached in memory. Medians of --rounds.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from benchmarks.report import section

_SHEET = 48


def make(folder: Path, count: int) -> None:
    draws, photographs = np.random.default_rng(0), load_sample_images().images
    for number in range(count):
        top, left = draws.integers(0, 200, 2)
        piece = Image.fromarray(photographs[number % 2][top : top + 213, left : left + 320])
        piece.resize((640, 427), Image.Resampling.BICUBIC).save(folder / f"{number:05d}.jpg", quality=90)


def show(folder: Path, way: str) -> float:
    """Return seconds of a processor for all pictures of a folder."""
    from lps.datasets import Images
    from lps.datasets.readers.picture_references import PictureReferences
    from lps.ui.pictures import gallery
    from lps.ui.predict import results
    from lps.ui.server import picture_files

    names = sorted(path.name for path in folder.glob("*.jpg"))
    images = Images(
        PictureReferences(folder, names, 224), np.zeros(len(names), np.int64), ("a",), file_names=tuple(names)
    )
    sheets = [list(range(start, min(len(names), start + _SHEET))) for start in range(0, len(names), _SHEET)]
    began = time.process_time()
    if way == "gallery":
        for image in range(len(names)):
            picture_files.make_webp(images, image)
    for sheet in sheets if way == "sheet" else []:
        gallery.make_contact_sheet(gallery._small_pictures(images, sheet, gallery.FINE))
    for sheet in sheets if way == "predict" else []:
        results._make_thumbnails.__wrapped__(str(folder), None, tuple(names[image] for image in sheet))
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.thumbnails", description=__doc__)
    parser.add_argument("--count", type=int, default=480, help="pictures")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--show", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.show:
        print(show(Path(asked.show[0]), asked.show[1]))
        return
    rows = []
    with tempfile.TemporaryDirectory() as home:
        pictures = Path(home) / "pictures"
        pictures.mkdir()
        make(pictures, asked.count)
        for way in ("gallery", "sheet", "predict"):
            seconds = []
            for number in range(asked.rounds):
                environment = os.environ | {"LPS_CACHE": str(Path(home) / f"{way} {number}")}
                command = [sys.executable, "-m", "benchmarks.thumbnails", "--show", str(pictures), way]
                seconds.append([_run(command, environment) for _ in range(2)])
            first, second = 1000 * np.median(seconds, axis=0) / asked.count
            rows.append({"thumbnails": way, "first time, CPU ms": round(first, 2), "second": round(second, 2)})
    print(section("Thumbnails", f"CPU milliseconds a picture, {asked.count} pictures, {asked.rounds} rounds.", rows))


def _run(command: list[str], environment: dict[str, str]) -> float:
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
