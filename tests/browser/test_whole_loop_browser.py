"""The whole loop of a person with own pictures: train, name, train on, predict an unknown kind, take the model away."""

import zipfile

import pytest

from tests import cloths
from tests.browser.conftest import come_to_rest, wait_for_address
from tests.browser.hand import Hand
from tests.browser.own_pictures import TRAIN_MS, name_in_turn, studio_of_a_person

NAMES = ("polka", "target")


@pytest.fixture(scope="module")
def studio(tmp_path_factory, chromium):
    """The app as a fresh clone has it: nothing computed, nothing kept."""
    with studio_of_a_person(tmp_path_factory.mktemp("person")) as found:
        yield found


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_from_a_folder_to_the_model_and_back(open_page, studio, tmp_path):
    folder, inbox = cloths.two_folders(tmp_path)
    page = open_page("")
    _choose_and_start(page, folder)
    _name_the_clusters(page)
    _train_on(page)
    _predict(page, inbox)
    _take_away(page, inbox, tmp_path / "model")


def _choose_and_start(page, folder) -> None:
    page.get_by_role("link", name="Add pictures").last.click()
    page.locator("input[type=file][webkitdirectory]").set_input_files(folder)
    page.get_by_text("64 unlabeled").wait_for()
    field = page.get_by_label("Novel classes to look for")
    field.fill("2")
    field.press("Enter")
    page.get_by_text("2 novel classes").wait_for()
    come_to_rest(page)
    page.get_by_role("button", name="Start").click()
    wait_for_address(page, "/live")


def _name_the_clusters(page) -> None:
    page.get_by_role("button", name="Name the clusters").wait_for(timeout=TRAIN_MS)
    come_to_rest(page)
    page.get_by_role("button", name="Name the clusters").click()
    wait_for_address(page, "/clusters")
    name_in_turn(Hand(page), NAMES)
    come_to_rest(page)


def _train_on(page) -> None:
    page.get_by_role("button", name="Train on with these names").click()
    page.get_by_role("dialog").get_by_text("2 names").wait_for()
    come_to_rest(page)
    page.get_by_role("dialog").get_by_role("button", name="Start").click()
    wait_for_address(page, "/live")
    come_to_rest(page)
    onward = page.get_by_role("button", name="Predict new pictures")
    onward.wait_for(timeout=TRAIN_MS)
    page.get_by_text("no novel cluster is left").wait_for()
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
        page.get_by_role("link", name="Download ZIP").click(timeout=TRAIN_MS)
    with zipfile.ZipFile(waiting.value.path()) as archive:
        archive.extractall(place)
    cloths.check_model_folder(next(place.iterdir()), inbox, set(NAMES))
