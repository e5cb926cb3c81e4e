"""The gallery and the story in a browser: pictures are drawn, arrow keys turn the page, nothing is cut off."""

import pytest
from playwright.sync_api import expect

from lps.store.run_folders import recorded_runs
from tests.browser.conftest import wait_for_run
from tests.browser.looks import open_everything, watched_tab
from tests.shares import share
from tests.visiting import PAGES


def heading(page) -> str:
    return page.locator("[data-testid=stHeading] h1").inner_text()


def test_the_story_is_told_by_keyboard_from_the_gallery(open_page):
    page = open_page("")
    page.get_by_text("The story of these runs").wait_for()
    page.get_by_role("link", name="Begin").click()
    seen = set()
    for step in range(1, 9):
        page.get_by_text(f"Step {step} of 8").wait_for()
        wait_for_run(page)
        seen.add(heading(page))
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(200)
            assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= width
        broken = page.evaluate(
            "() => [...document.querySelectorAll('.lps-frames img')].filter(i => !i.naturalWidth).length"
        )
        assert broken == 0
        if step < 8:
            page.keyboard.press("ArrowRight")
    assert len(seen) == 8
    page.keyboard.press("ArrowLeft")
    page.get_by_text("Step 7 of 8").wait_for()
    assert "step=7" in page.url


def test_a_new_step_begins_at_its_top(open_page):
    page = open_page("story?step=7", width=390)
    page.locator(".lps-frames").last.scroll_into_view_if_needed()
    top = "() => document.querySelector('[data-testid=stMain]').scrollTop"
    assert page.evaluate(top) > 100
    page.get_by_role("button", name="Back").click()
    page.get_by_text("Step 6 of 8").wait_for()
    page.wait_for_function("() => document.querySelector('[data-testid=stMain]').scrollTop === 0")


def test_every_card_has_its_chart(open_page):
    page = open_page("")
    page.get_by_text("LPS without entropy").wait_for()
    wait_for_run(page)
    charts = page.locator("[class*=st-key-card-] img")
    expect(charts).to_have_count(len(recorded_runs()))
    assert all(charts.nth(i).evaluate("image => image.naturalWidth > 0") for i in range(charts.count()))


@pytest.mark.parametrize("name", share(PAGES, 0, 9))
def test_no_page_of_a_fresh_installation_has_an_error_or_leaves_the_server(profile, studio, name):
    """Where nobody has trained: charts, tables, maps and pictures of the recordings, all from here."""
    with watched_tab(profile, studio.address) as watch:
        open_everything(watch.open("" if name == "home" else name))
        assert watch.found() == []
