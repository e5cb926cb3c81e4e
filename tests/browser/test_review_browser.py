"""The page Review in Chromium: keys that decide, a server that is away, and the time from one picture to the next."""

import re
import time

import pytest

from lps.analysis import naming
from tests.sample_runs import make_run

CHOICE = ".lps-deck-choice"
IMAGE = "() => Number(document.querySelector('.lps-deck-where')?.textContent.match(/\\d+/)[0] ?? -1)"


@pytest.fixture
def run(studio):
    return make_run(studio.runs, epochs=4, lucky=False)


@pytest.fixture
def deck(open_page, run):
    """The page with its first picture."""
    page = open_page(f"review?run={run.id}")
    page.wait_for_selector(CHOICE)
    return page


def said(run) -> naming.Naming:
    return naming.naming_of_epoch(naming.read_entries(run), 4)


def written(page, count: int) -> None:
    """Until so many decisions of this window are written."""
    page.wait_for_function(
        "(count) => document.querySelector('.lps-deck-counts').textContent.match(`^${count} decided.*All saved`)",
        arg=count,
    )


def test_keys_decide_undo_and_name(run, deck):
    assert deck.locator(".lps-deck-counts").text_content().endswith("1,000 left")
    first = deck.evaluate(IMAGE)
    to = deck.locator(CHOICE).nth(1).locator(".lps-deck-title").text_content()
    deck.keyboard.press("2")
    written(deck, 1)
    assert said(run).moved == {first: int(re.search(r"\d+", to)[0])}
    deck.keyboard.press("u")
    written_back = "() => document.querySelector('.lps-deck-counts').textContent.includes('0 assigned')"
    deck.wait_for_function(written_back)
    assert deck.evaluate(IMAGE) == first and said(run).is_empty
    deck.keyboard.press("n")
    deck.keyboard.type("1 zebra s")  # letters that are keys elsewhere
    deck.keyboard.press("Enter")
    written(deck, 1)
    assert said(run).names == {10: "1 zebra s"} and said(run).confirmed == {first}
    second = deck.evaluate(IMAGE)
    deck.keyboard.press("s")
    deck.keyboard.press("x")
    written(deck, 2)
    assert second not in said(run).moved and len(said(run).classless_images) == 1


def test_nothing_is_lost_while_the_server_is_away(run, deck, open_page):
    deck.route("**/decisions", lambda route: route.abort())
    images = []
    for _ in range(5):
        images.append(deck.evaluate(IMAGE))
        deck.keyboard.press("1")
    deck.get_by_text("Your decisions stay in this browser and are sent again later.").wait_for()
    assert said(run).is_empty
    other = deck.context.new_page()  # the tab is closed, and the page opened anew
    deck.close()
    other.goto(deck.url)
    other.wait_for_selector(CHOICE)
    other.wait_for_function("() => document.querySelector('.lps-deck-counts').textContent.includes('5 assigned')")
    assert said(run).confirmed == set(images) and len(naming.read_entries(run)) == 5


def test_a_hundred_decisions_wait_for_nothing(run, deck):
    """From a key to the next picture on the screen, and until all are written; figures of one machine: 100 pictures."""
    waits = []
    for _ in range(100):
        before, start = deck.evaluate(IMAGE), time.perf_counter()
        deck.keyboard.press("1")
        deck.wait_for_function(f"(before) => ![before, -1].includes(({IMAGE})())", arg=before)
        waits.append(time.perf_counter() - start)
    written(deck, 100)
    waits.sort()
    print(
        f"median {1e3 * waits[50]:.0f} ms, 95 of 100 below {1e3 * waits[95]:.0f} ms, longest {1e3 * waits[-1]:.0f} ms"
    )
    assert len(said(run).confirmed) == 100 and waits[50] < 1


def test_on_a_phone_a_picture_and_all_that_it_may_be_fit_below_each_other(run, open_page):
    page = open_page(f"review?run={run.id}", width=390)
    page.wait_for_selector(CHOICE)
    first = page.evaluate(IMAGE)
    box = page.locator(".lps-deck-face").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["height"] <= 844
    place = page.locator(".lps-deck-acts").bounding_box()["y"]
    page.locator(CHOICE).first.click()
    written(page, 1)
    assert first in said(run).confirmed and page.locator(".lps-deck-acts").bounding_box()["y"] == place
