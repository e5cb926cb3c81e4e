"""The whole path of a person with own pictures: from Home over a folder that is dropped to a .zip of labels."""

import re
import time
import zipfile
from pathlib import Path

import pytest

from tests import drawn_pictures
from tests.browser.conftest import wait_for_address
from tests.browser.hand import Hand
from tests.browser.own_pictures import TRAIN_MS, name_in_turn, studio_of_a_person


@pytest.fixture(scope="module")
def studio(tmp_path_factory, chromium):
    """The app for a person with a home of their own; features and start weights are made anew."""
    with studio_of_a_person(tmp_path_factory.mktemp("person")) as found:
        yield found


@pytest.mark.timeout(1000)
def test_from_a_folder_to_labeled_pictures(open_page, studio, tmp_path):
    folder = drawn_pictures.make(tmp_path / "my shapes", each=30, sorted_each=10)
    page = open_page("")
    hand, begun = Hand(page), time.monotonic()
    hand.click(page.get_by_role("link", name="Add pictures").last)
    page.get_by_text("Drop a folder").wait_for()
    hand.drop(page.locator("input[type=file][webkitdirectory]"), folder)
    page.get_by_text("20 labeled").wait_for()
    page.get_by_text("130 unlabeled").wait_for()
    page.locator(".lps-frames img").nth(3 * 8 - 1).wait_for()
    assert page.locator(".lps-frames img").count() == 3 * 8
    kept = Path(studio.runs.parent / "lps_pictures" / "my shapes")
    assert len(list(kept.rglob("*.png"))) == 150
    assert page.get_by_role("button", name="Start").is_disabled()
    page.get_by_text(re.compile(r"Class count of my shapes|\d suggested\.")).first.wait_for()
    hand.click(page.get_by_label("Novel classes to look for"))
    hand.press("Control+a")
    hand.type("3")
    page.get_by_text("3 novel classes").wait_for()

    hand.click(page.get_by_role("button", name="Start"))
    wait_for_address(page, "/live")
    page.get_by_text(re.compile("they still change|novel clusters? found")).first.wait_for(timeout=TRAIN_MS)
    page.locator(".lps-frames img").first.wait_for()  # drawn after the words, by a server that trains beside
    page.get_by_role("button", name="Name the clusters").wait_for(timeout=TRAIN_MS)
    page.get_by_text("3 novel clusters").first.wait_for()
    hand.click(page.get_by_role("button", name="Name the clusters"))

    wait_for_address(page, "/clusters")
    name_in_turn(hand, ("kind one", "kind two", "kind three"))
    archive = zipfile.ZipFile(hand.download(page.get_by_role("link", name="Download ZIP")))
    assert archive.testzip() is None
    folders = [name.split("/")[1] for name in archive.namelist() if name.endswith(".png")]
    assert len(folders) == 150 and set(folders) == {"disc", "square", "kind one", "kind two", "kind three"}
    print(f"\npractitioner: {hand}; {time.monotonic() - begun:.0f} s")
    assert hand.clicks <= 9, "two more than where the field for the name has the keyboard at once"
