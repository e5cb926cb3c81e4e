"""The Projection page in Chromium: a lasso whose images are shown, a neighbour that is opened, points that glide."""

import csv
import re

import numpy as np
import pytest
from playwright.sync_api import expect

from lps.analysis import naming
from lps.ui.pictures import points
from tests.browser.conftest import wait_for_address, wait_for_run
from tests.sample_runs import make_run

PLOT = ".st-key-map .lps-plot"
SHEET = ".st-key-selected .lps-sheet-tile"
PLACES = f"""() => Object.fromEntries(document.querySelector('{PLOT}')._fullData.filter(t => t.name !== 'Chosen')
    .flatMap(t => Array.from(t.customdata, (id, k) => [id, [t.x[k], t.y[k]]])))"""
SELECTED = f"""() => document.querySelector('{PLOT}')._fullData.filter(t => t.name !== 'Chosen')
    .flatMap(t => Array.from(t.selectedpoints ?? [], k => t.customdata[k])).sort((a, b) => a - b)"""

COUNT_MOVES = """() => {
    window.moved = 0;
    const plain = Plotly.restyle;
    Plotly.restyle = (...how) => { window.moved++; return plain(...how); };
}"""


@pytest.fixture(scope="module")
def run(studio):
    return make_run(studio.runs, epochs=4, lucky=False)


def open_map(open_page, run, more="", **how):
    page = open_page(f"projection?run={run.id}{more}", **how)
    page.wait_for_selector(f"{PLOT} .gl-canvas")
    page.wait_for_function(f"() => document.querySelector('{PLOT}').dataset.moment")
    assert page.locator(".no-webgl").count() == 0
    return page


def draw_box(page, left, right) -> None:
    """A box over the chart's height from `left` to `right`, shares of its width."""
    page.locator(".st-key-map .modebar-btn[data-val=select]").first.click()
    page.wait_for_timeout(200)
    area = page.locator(".st-key-map .nsewdrag").first.bounding_box()
    page.mouse.move(area["x"] + left * area["width"], area["y"] + 3)
    page.mouse.down()
    page.mouse.move(area["x"] + right * area["width"], area["y"] + area["height"] - 3, steps=5)
    page.mouse.up()


def within(page, places) -> set[int]:
    """The points whose place on the screen lies within the box that stands on the chart."""
    corners = page.evaluate(f"() => document.querySelector('{PLOT}').layout.selections[0]")
    low, high = sorted((corners["x0"], corners["x1"]))
    return {int(image) for image, (x, _) in places.items() if low <= x <= high}


def go_back_one_epoch(page) -> None:
    page.locator("[data-testid=stSlider] input[type=range]").first.focus()
    page.keyboard.press("ArrowLeft")
    wait_for_address(page, "epoch=3")
    page.wait_for_function(f"() => document.querySelector('{PLOT}').dataset.moment === '3'")
    wait_for_run(page)


def test_a_box_shows_its_images_and_stays_over_epochs_and_colours(run, open_page, tmp_path):
    page = open_map(open_page, run, theme="dark")
    draw_box(page, 0.02, 0.5)
    page.get_by_role("heading", name=re.compile("selected images")).wait_for()
    wait_for_run(page)
    expected = within(page, page.evaluate(PLACES))
    assert 10 < len(expected) < 990 and set(page.evaluate(SELECTED)) == expected
    expect(page.get_by_role("heading", name=f"{len(expected)} selected images")).to_have_count(1)
    shown = page.eval_on_selector_all(SHEET, "tiles => tiles.map(tile => Number(tile.dataset.id))")
    assert len(shown) == min(48, len(expected)) and set(shown) <= expected
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    rows = list(csv.DictReader(open(download.value.path(), newline="")))
    assert {int(row["image"]) for row in rows} == expected
    page.get_by_role("radio", name="Prediction").or_(page.get_by_role("button", name="Prediction")).first.click()
    wait_for_address(page, "color=predicted")
    wait_for_run(page)
    assert set(page.evaluate(SELECTED)) == expected
    go_back_one_epoch(page)
    assert set(page.evaluate(SELECTED)) == expected
    page.get_by_role("button", name="Clear").click()
    page.wait_for_function("() => !document.body.innerText.includes('selected images')")
    wait_for_run(page)
    assert page.evaluate(SELECTED) == []


def test_points_end_where_the_epoch_has_them(run, open_page):
    page = open_map(open_page, run)
    go_back_one_epoch(page)
    table = points.table(run, 3)
    there = {int(image): place for image, place in page.evaluate(PLACES).items()}
    assert len(there) == len(table)
    for row in table.itertuples():
        assert np.allclose(there[row.image], (row.x, row.y), atol=1e-4)


def test_a_person_who_wants_no_motion_gets_none(run, open_page):
    page = open_map(open_page, run)
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(COUNT_MOVES)
    go_back_one_epoch(page)
    assert page.evaluate("window.moved") == 0
    page.emulate_media(reduced_motion="no-preference")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"() => document.querySelector('{PLOT}').dataset.moment === '2'")
    assert page.evaluate("window.moved") > 0


def test_a_neighbour_and_a_selected_picture_open(run, open_page):
    image = int(points.table(run, 4)["image"].iloc[7])
    page = open_map(open_page, run, f"&image={image}")
    near = page.locator(".st-key-neighbours .lps-sheet-tile")
    near.first.wait_for()
    assert near.count() == 12 and page.locator(".st-key-neighbours .lps-sheet-mark").count() == 0
    other = int(near.nth(1).get_attribute("data-id"))
    near.nth(1).locator(".lps-sheet-picture").click()
    wait_for_address(page, f"image={other}(&|$)")
    draw_box(page, 0.3, 0.9)
    page.locator(SHEET).first.wait_for()
    wait_for_run(page)
    chosen = int(page.locator(SHEET).nth(2).get_attribute("data-id"))
    page.locator(SHEET).nth(2).locator(".lps-sheet-picture").click()
    wait_for_address(page, f"image={chosen}(&|$)")


def test_a_selection_becomes_a_cluster_with_a_name_of_its_own(studio, open_page):
    run = make_run(studio.runs, epochs=4, seed=3)
    page = open_map(open_page, run)
    draw_box(page, 0.6, 0.98)
    page.get_by_role("heading", name=re.compile("selected images")).wait_for()
    wait_for_run(page)
    expected = set(page.evaluate(SELECTED))
    page.get_by_role("button", name="Make a cluster").click()
    page.get_by_role("link", name=re.compile("They are in cluster 10 now")).click()
    page.get_by_role("heading", name="Cluster 10").wait_for()
    assert set(naming.naming_of_epoch(naming.read_entries(run), 4).moved) == expected


def test_on_a_phone_everything_is_there(run, open_page):
    page = open_map(open_page, run, width=390)
    draw_box(page, 0.1, 0.6)
    page.locator(SHEET).first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def press_until(page, key, reached, most=60):
    for _ in range(most):
        if page.evaluate(reached):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{key} never reached {reached}")


def test_the_same_images_without_a_mouse(run, open_page):
    """From the head of the page to a gallery by tab, letters and enter; a lasso drawn after it takes its place."""
    page = open_map(open_page, run)
    page.locator("h1").first.focus()
    summary = "document.activeElement.tagName === 'SUMMARY' && document.activeElement.innerText.includes('condition')"
    press_until(page, "Tab", summary)
    page.keyboard.press("Enter")
    press_until(page, "Tab", "document.activeElement.getAttribute('aria-label')?.startsWith('Confidence below')")
    page.keyboard.type("60")
    page.keyboard.press("Enter")
    wait_for_address(page, "where=below")
    wait_for_run(page)
    table = points.table(run, 4)
    expected = set(table["image"][table["confidence"] < 0.6].tolist())
    assert 0 < len(expected) < 990 and set(page.evaluate(SELECTED)) == expected
    expect(page.get_by_role("heading", name=f"{len(expected)} selected images")).to_have_count(1)
    draw_box(page, 0.02, 0.5)
    page.wait_for_function("() => !location.search.includes('where')")
    wait_for_run(page)
    drawn = set(page.evaluate(SELECTED))
    assert len(drawn) > 10 and drawn != expected
    expect(page.get_by_role("heading", name=f"{len(drawn)} selected images")).to_have_count(1)
