"""Two folders of patterned cloths for the whole workflow: one to train on, one with a further kind; and the expected
results.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 48  # pixels
COLOURS = {  # by kind; features of natural pictures tell these apart
    "stripes": ((200, 40, 40), (250, 220, 200)),
    "checks": ((30, 60, 160), (200, 210, 240)),
    "dots": ((30, 120, 50), (240, 230, 80)),
    "rings": ((120, 30, 130), (250, 250, 250)),
    "waves": ((20, 20, 20), (240, 150, 30)),
}
KNOWN = {"stripes/stripes": 12, "checks/checks": 12, "unlabeled/stripes": 10, "unlabeled/checks": 10} | {
    "unlabeled/dots": 22, "unlabeled/rings": 22,
}  # fmt: skip
NEW = {"stripes": 5, "checks": 5, "dots": 5, "rings": 5, "waves": 24}


def weave(kind: str, random: np.random.Generator) -> Image.Image:
    """Draw one picture of a pattern; its start, width and shade are random."""
    y, x = np.mgrid[:SIDE, :SIDE] + int(random.integers(16))
    wide = 8 if kind == "waves" else int(random.integers(6, 11))
    is_on = {
        "stripes": x // wide % 2 == 0,
        "checks": (x // wide + y // wide) % 2 == 0,
        "dots": np.hypot(x % (2 * wide) - wide, y % (2 * wide) - wide) < wide / 2,
        "rings": np.hypot(x - SIDE / 2, y - SIDE / 2) // wide % 2 == 0,
        "waves": (y + 6 * np.sin(x / 5)) // wide % 2 == 0,
    }[kind]
    noise = random.normal(0, 10, (SIDE, SIDE, 3)) + random.integers(-15, 16)
    return Image.fromarray((np.where(is_on[..., None], *COLOURS[kind]) + noise).clip(0, 255).astype(np.uint8))


def make(folder: Path, counts: dict[str, int], seed: int = 0) -> Path:
    """Make a folder of cloths. counts: number of pictures by "sub-folder/kind", or by "kind" for the folder itself."""
    random = np.random.default_rng(seed)
    for place, count in counts.items():
        below, _, kind = place.rpartition("/")
        (folder / below).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            weave(kind, random).save(folder / below / f"{kind}-{number:03d}.png")
    return folder


def two_folders(place: Path) -> tuple[Path, Path]:
    """Return (folder with two kinds sorted and two more unlabeled, folder of pictures of these four and of waves)."""
    return make(place / "cloths", KNOWN), make(place / "inbox", NEW, seed=1)


def check_model_folder(folder: Path, inbox: Path, given: set[str]) -> None:
    """Assert that the folder's example names all pictures: the two novel kinds as in `given`, waves as none."""
    files = sorted(inbox.iterdir())
    command = [sys.executable, "example.py", *map(str, files)]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=120).stdout
    check_names([line.split("\t")[1] for line in said.splitlines()], files, given)


def check_names(called: list[str], files: list[Path], given: set[str]) -> None:
    """Assert the same as `check_model_folder` of names from another source, one per file."""
    found = {kind: set() for kind in NEW}
    for file, name in zip(files, called, strict=True):
        found[file.name.partition("-")[0]].add(name)
    assert found["stripes"] == {"stripes"} and found["checks"] == {"checks"} and found["waves"] == {"none of these"}
    assert len(found["dots"]) == len(found["rings"]) == 1 and found["dots"] | found["rings"] == given
