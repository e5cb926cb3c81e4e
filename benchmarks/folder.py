"""python -m benchmarks.folder FILE.npz: how long a user needs from a folder of pictures to labels of all of them.

The pictures of FILE.npz (of the data set `arrays`, with truth) become a folder: five classes with half of their
pictures sorted, everything else mixed. A real Chromium opens the app on an empty cache, chooses the folder, waits for
the suggested number of novel classes, starts, names each novel cluster, and downloads the ZIP. Wall time, without any
time for thinking.
"""

import argparse
import re
import shutil
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from benchmarks.browser import PATIENCE_MS, Visitor
from benchmarks.report import section
from tests.browser.conftest import wait_for_address, wait_for_run
from tests.browser.hand import Hand
from tests.browser.own_pictures import HOME, name_in_turn, studio_of_a_person

NAME = "photographs"


def make_folder(file: Path, into: Path, seen: int) -> int:
    """The folder as a person has it; gives the number of its pictures."""
    with np.load(file) as arrays:
        x, y = arrays["x_train"], arrays["y_train"]
    draws = np.random.default_rng(0)
    sorted_half = draws.random(len(y)) < 0.5
    for row, (picture, label) in enumerate(zip(x, y)):
        folder = into / (f"class {label}" if label < seen and sorted_half[row] else "unlabeled")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / f"{row:05d}.png")
    return len(y)


def way(page: Page, address: str) -> list[dict]:
    """A row a stage: what the person did, seconds until the page was ready for the next."""
    rows, began = [], time.perf_counter()

    def done(stage: str) -> None:
        nonlocal began
        now = time.perf_counter()
        rows.append({"stage": stage, "seconds": round(now - began, 1)})
        began = now

    page.goto(address)
    page.get_by_role("link", name="Add pictures").last.click()
    page.get_by_role("button", name=NAME, exact=True).click()
    wait_for_run(page)
    page.get_by_role("button", name="Use this folder").click()
    page.locator(".lps-frames img").first.wait_for()
    done("choose the folder, see its pictures")
    page.get_by_text(re.compile(r"\d suggested")).first.wait_for()
    field = page.get_by_label("Novel classes to look for")
    suggested = field.input_value()
    done(f"wait for the number of novel classes ({suggested}; features are computed)")
    if suggested != "5":
        field.fill("5")
        field.press("Enter")
        page.get_by_text("5 novel classes").wait_for()
        wait_for_run(page)
    page.get_by_role("button", name="Start").click()
    wait_for_address(page, "/live")
    page.get_by_text("What it has found so far").wait_for()
    done("start, until the first pictures of clusters")
    page.get_by_role("button", name="Name the clusters").wait_for()
    done("training, until its end")
    page.get_by_role("button", name="Name the clusters").click()
    wait_for_address(page, "/clusters")
    name_in_turn(Hand(page), [f"kind {number}" for number in range(1, 6)])
    done("name the clusters")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download ZIP").click()
    names = [name for name in zipfile.ZipFile(waiting.value.path()).namelist() if name.endswith(".png")]
    done(f"ZIP of {len(names)} labeled pictures")
    return [*rows, {"stage": "altogether", "seconds": round(sum(row["seconds"] for row in rows), 1)}]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.folder", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seen", type=int, default=5, help="classes that the person has sorted pictures of")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / HOME).mkdir()
        count = make_folder(asked.file, Path(place) / HOME / NAME, asked.seen)
        with (
            studio_of_a_person(Path(place)) as studio,
            sync_playwright() as playwright,
            Visitor(playwright.chromium, asked.chromium).browser() as context,
        ):
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS * 5)
            rows = way(page, studio.address)
    print(section("From a folder to labels", f"{count} pictures.", rows))


if __name__ == "__main__":
    main()
