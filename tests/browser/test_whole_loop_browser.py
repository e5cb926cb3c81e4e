"""The whole loop with own pictures: train, name, take the labels, train on, predict an unknown kind, take the model."""

import re
import time
import zipfile

import pytest

from tests import cloths
from tests.browser.conftest import come_to_rest, wait_for_address
from tests.browser.hand import Hand
from tests.browser.own_pictures import TRAIN_MS, name_in_turn, studio_of_a_person

NAMES = ("polka", "target")
PICTURES = sum(cloths.KNOWN.values())
SHOWN = 8  # pictures of each class, and of those without a label


@pytest.fixture(scope="module")
def studio(tmp_path_factory, chromium):
    """The app as a fresh clone has it: nothing computed, nothing kept."""
    with studio_of_a_person(tmp_path_factory.mktemp("person")) as found:
        yield found


@pytest.mark.turn(1, 2)
@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_from_a_folder_to_the_model_and_back(open_page, studio, tmp_path):
    folder, inbox = cloths.two_folders(tmp_path)
    page = open_page("")
    hand, begun = Hand(page), time.monotonic()
    _choose_and_start(hand, folder, studio)
    _name_the_clusters(hand)
    _take_labels(hand)
    print(f"\npractitioner: {hand}; {time.monotonic() - begun:.0f} s")
    assert hand.clicks <= 8, "two more than where the field for the name has the keyboard at once"
    _train_on(page)
    _predict(page, inbox)
    _take_away(page, inbox, tmp_path / "model")


def _choose_and_start(hand, folder, studio) -> None:
    page = hand.page
    hand.click(page.get_by_role("link", name="Add pictures").last)
    page.get_by_text("Drop a folder").wait_for()
    hand.drop(page.locator("input[type=file][webkitdirectory]"), folder)
    page.get_by_text("24 labeled").wait_for()
    page.get_by_text("64 unlabeled").wait_for()
    page.locator(".lps-frames img").nth(3 * SHOWN - 1).wait_for()
    assert page.locator(".lps-frames img").count() == 3 * SHOWN
    assert len(list((studio.runs.parent / "lps_pictures" / folder.name).rglob("*.png"))) == PICTURES
    assert page.get_by_role("button", name="Start").is_disabled()
    page.get_by_text(re.compile("fits? best")).first.wait_for()
    hand.click(page.get_by_role("spinbutton", name="Novel classes to look for"))
    hand.press("Control+a")
    hand.type("2")
    page.get_by_text("2 novel classes").wait_for()
    come_to_rest(page)
    hand.click(page.get_by_role("button", name="Start"))
    wait_for_address(page, "/live")


def _name_the_clusters(hand) -> None:
    page = hand.page
    page.get_by_text(re.compile("they still change|novel clusters? found")).first.wait_for(timeout=TRAIN_MS)
    page.locator(".lps-frames img").first.wait_for()  # drawn after the words, by a server that trains beside
    page.get_by_role("button", name="Name the clusters").wait_for(timeout=TRAIN_MS)
    page.get_by_text("2 novel clusters").first.wait_for()
    come_to_rest(page)
    hand.click(page.get_by_role("button", name="Name the clusters"))
    wait_for_address(page, "/clusters")
    name_in_turn(hand, NAMES)
    come_to_rest(page)


def _take_labels(hand) -> None:
    archive = zipfile.ZipFile(hand.download(hand.page.get_by_role("link", name="Download ZIP")))
    assert archive.testzip() is None
    folders = [name.split("/")[1] for name in archive.namelist() if name.endswith(".png")]
    assert len(folders) == PICTURES and set(folders) == {"stripes", "checks", *NAMES}


def _train_on(page) -> None:
    page.locator(".st-key-train_on").get_by_role("button").click()
    page.get_by_role("dialog").get_by_text("2 names").wait_for()
    come_to_rest(page)
    page.get_by_role("dialog").get_by_role("button", name=re.compile("Start$")).click()
    wait_for_address(page, "/live")
    come_to_rest(page)
    onward = page.get_by_role("button", name="Predict new pictures")
    onward.wait_for(timeout=TRAIN_MS)
    page.get_by_text("no novel cluster has pictures").wait_for()
    come_to_rest(page)
    onward.click()


def _predict(page, inbox) -> None:
    wait_for_address(page, "/predict")
    come_to_rest(page)
    page.locator("input[type=file]").set_input_files(sorted(inbox.iterdir()))
    page.get_by_text("Possible novel class 1").first.wait_for(timeout=TRAIN_MS)
    come_to_rest(page)


def _take_away(page, inbox, place) -> None:
    page.get_by_role("button", name="Export the model").click()
    with page.expect_download(timeout=TRAIN_MS) as waiting:
        page.get_by_role("link", name="Download model").click(timeout=TRAIN_MS)
    with zipfile.ZipFile(waiting.value.path()) as archive:
        archive.extractall(place)
    cloths.check_model_folder(next(place.iterdir()), inbox, set(NAMES))
