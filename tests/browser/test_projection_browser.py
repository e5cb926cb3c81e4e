"""The Projection page in Chromium: a lasso whose images are shown, a neighbour that is opened, points that glide."""

import csv
import re

import numpy as np
import pytest
from playwright.sync_api import expect

from lps.ui.pictures import points
from tests.browser.conftest import wait_for_address, wait_for_run
from tests.sample_runs import make_run

MAP = ".st-key-map .lps-map"
GALLERY = ".st-key-selected .lps-endless-tile"
IDS = "map => Array.from(map.data.ids)"
PLACES = "map => Array.from(map.data.ids, (id, k) => [id, map.data.x[k], map.data.y[k]])"
SELECTED = "map => map.mask ? Array.from(map.data.ids).filter((_, k) => map.mask[k]) : []"
ON_SCREEN = """map => { const box = map.stage.getBoundingClientRect(); return Array.from(map.data.ids, (id, k) => {
    const [left, top] = map.toScreen(map.data.x[k], map.data.y[k]); return [id, box.x + left, box.y + top]; }); }"""

SCROLL = "gallery => { const before = gallery.scrollTop; gallery.scrollTop += 300; return gallery.scrollTop > before; }"
WITHOUT_WEBGL = """HTMLCanvasElement.prototype.getContext = new Proxy(HTMLCanvasElement.prototype.getContext,
    { apply: (get, at, how) => how[0] === "webgl2" ? null : Reflect.apply(get, at, how) });"""


@pytest.fixture(scope="module")
def run(studio):
    return make_run(studio.runs, epochs=4, lucky=False)


def open_map(open_page, run, more="", **how):
    page = open_page(f"projection?run={run.id}{more}", **how)
    page.wait_for_selector(f"{MAP}[data-rested]")
    assert page.get_attribute(MAP, "data-drawn") == "points"
    return page


def ask(page, what):
    """What a function of the map gives."""
    return page.evaluate(f"() => ({what})(document.querySelector('{MAP}').lpsMap)")


def draw(page, tool, *places) -> list[list[float]]:
    """Drag from place to place, shares of the map's sides; gives them in pixels of the page."""
    page.locator(f".st-key-map [data-tool={tool}]").click()
    area = page.locator(".st-key-map .lps-map-stage").bounding_box()
    spots = [[area["x"] + across * area["width"], area["y"] + down * area["height"]] for across, down in places]
    page.mouse.move(*spots[0])
    page.mouse.down()
    for spot in spots[1:]:
        page.mouse.move(*spot, steps=5)
    page.mouse.up()
    return spots


def draw_box(page, left, right) -> set[int]:
    """A box over the map's height from `left` to `right`; gives the images of the points in it."""
    (low, _), (high, _) = draw(page, "box", (left, 0.005), (right, 0.995))
    return {image for image, across, _ in ask(page, ON_SCREEN) if low <= across <= high}


def read_gallery(page) -> set[int]:
    """The images of the gallery of what is selected, scrolled to its end; it holds few tiles at a time."""
    found, read = set(), "tiles => tiles.map(tile => Number(tile.dataset.id))"
    page.locator(GALLERY).first.wait_for()
    while True:
        tiles = page.eval_on_selector_all(GALLERY, read)
        assert len(tiles) < 150
        found |= set(tiles)
        if not page.eval_on_selector(".st-key-selected .lps-endless", SCROLL):
            return found
        page.wait_for_timeout(60)


def go_back_one_epoch(page) -> None:
    page.locator("[data-testid=stSlider] input[type=range]").first.focus()
    page.keyboard.press("ArrowLeft")
    wait_for_address(page, "epoch=3")
    page.wait_for_selector(f"{MAP}[data-moment='3']")
    wait_for_run(page)


def test_a_box_shows_its_images_and_stays_over_epochs_and_colours(run, open_page, tmp_path):
    page = open_map(open_page, run, theme="dark")
    expected = draw_box(page, 0.02, 0.5)
    page.get_by_role("heading", name=re.compile("selected images")).wait_for()
    wait_for_run(page)
    assert 10 < len(expected) < 990 and set(ask(page, SELECTED)) == expected
    expect(page.get_by_role("heading", name=f"{len(expected)} selected images")).to_have_count(1)
    assert read_gallery(page) == expected
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    rows = list(csv.DictReader(open(download.value.path(), newline="")))
    assert {int(row["image"]) for row in rows} == expected
    page.get_by_role("radio", name="Prediction").or_(page.get_by_role("button", name="Prediction")).first.click()
    wait_for_address(page, "color=predicted")
    wait_for_run(page)
    assert set(ask(page, SELECTED)) == expected
    go_back_one_epoch(page)
    assert set(ask(page, SELECTED)) == expected
    page.get_by_role("button", name="Clear").click()
    page.wait_for_function("() => !document.body.innerText.includes('selected images')")
    wait_for_run(page)
    assert ask(page, SELECTED) == []


def test_a_lasso_is_around_the_points_inside_its_outline(run, open_page):
    page = open_map(open_page, run)
    corners = draw(page, "lasso", (0.2, 0.2), (0.8, 0.3), (0.5, 0.9))  # a triangle
    page.get_by_role("heading", name=re.compile("selected image")).wait_for()
    sides = list(zip(corners, [*corners[1:], corners[0]]))
    inside, near = set(), set()
    for image, x, y in ask(page, ON_SCREEN):
        turns = [(bx - ax) * (y - ay) - (by - ay) * (x - ax) for (ax, ay), (bx, by) in sides]
        lengths = [np.hypot(bx - ax, by - ay) for (ax, ay), (bx, by) in sides]
        inside |= {image} if min(turns) > 0 else set()
        near |= {image} if min(abs(turn) / length for turn, length in zip(turns, lengths)) < 4 else set()  # pixels
    found = set(ask(page, SELECTED))
    assert len(inside) > 50 and found ^ inside <= near


def test_pointing_at_a_point_shows_its_picture_and_the_keys_lead_from_point_to_point(run, open_page):
    page = open_map(open_page, run)
    image, x, y = max(ask(page, ON_SCREEN), key=lambda spot: spot[1])
    page.mouse.move(x, y)
    page.wait_for_function("() => document.querySelector('.lps-map-shown')?.naturalWidth > 0")
    assert f"image {image}" in page.locator(".lps-map-tip").inner_text()
    page.locator(".st-key-map .lps-map-stage").focus()
    page.keyboard.press("ArrowLeft")
    said = page.locator(".st-key-map .lps-map-said")
    first = said.inner_text()
    page.keyboard.press("ArrowLeft")
    assert first.startswith("image ") and said.inner_text() != first
    assert "1,000 points." in page.locator(".st-key-map .lps-map-summary").inner_text()
    chosen = re.match(r"image (\d+)", said.inner_text())[1]
    page.keyboard.press("Enter")
    wait_for_address(page, rf"image={chosen}\b")


def test_pictures_stand_on_the_map_close_in(run, open_page):
    page = open_map(open_page, run)
    page.locator(".st-key-map .lps-map-stage").focus()
    for _ in range(4):
        page.keyboard.press("+")
    page.wait_for_function("() => document.querySelector('.lps-map-picture')?.naturalWidth > 0")


def test_without_webgl_there_is_a_map_that_selects(run, open_page):
    open_page("")
    page = open_page("")  # a tab that is closed after the test: the script stays with it
    page.add_init_script(WITHOUT_WEBGL)
    page.goto(page.url.split("?")[0] + f"projection?run={run.id}")
    page.wait_for_selector(f"{MAP}[data-rested][data-drawn=density]")
    expected = draw_box(page, 0.02, 0.5)
    page.get_by_role("heading", name=re.compile("selected images")).wait_for()
    assert set(ask(page, SELECTED)) == expected and len(expected) > 10


def test_points_end_where_the_epoch_has_them(run, open_page):
    page = open_map(open_page, run)
    before = ask(page, "map => map.glides ?? 0")
    go_back_one_epoch(page)
    assert ask(page, "map => map.glides") == before + 1
    table = points.read_points(run, 3)
    corner, side = ask(page, "map => map.head.extent")
    there = {image: (x, y) for image, x, y in ask(page, PLACES)}
    assert len(there) == len(table)
    for row in table.itertuples():
        assert np.allclose(corner + np.array(there[row.image]) / 65535 * side, (row.x, row.y), atol=side / 60_000)


def test_a_person_who_wants_no_motion_gets_none(run, open_page):
    page = open_map(open_page, run)
    page.emulate_media(reduced_motion="reduce")
    go_back_one_epoch(page)
    assert not ask(page, "map => map.glides")


def test_a_neighbour_and_a_selected_picture_open(run, open_page):
    image = int(points.read_points(run, 4)["image"].iloc[7])
    page = open_map(open_page, run, f"&image={image}")
    near = page.locator(".st-key-neighbours .lps-sheet-tile")
    near.first.wait_for()
    assert near.count() == 12 and page.locator(".st-key-neighbours .lps-sheet-mark").count() == 0
    other = int(near.nth(1).get_attribute("data-id"))
    near.nth(1).locator(".lps-sheet-picture").click()
    wait_for_address(page, f"image={other}(&|$)")
    draw_box(page, 0.3, 0.9)
    page.locator(GALLERY).first.wait_for()
    wait_for_run(page)
    chosen = int(page.locator(GALLERY).nth(2).get_attribute("data-id"))
    page.locator(GALLERY).nth(2).click()
    wait_for_address(page, f"image={chosen}(&|$)")


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
    table = points.read_points(run, 4)
    expected = set(table["image"][table["confidence"] < 0.6].tolist())
    assert 0 < len(expected) < 990 and set(ask(page, SELECTED)) == expected
    expect(page.get_by_role("heading", name=f"{len(expected)} selected images")).to_have_count(1)
    drawn = draw_box(page, 0.02, 0.5)
    page.wait_for_function("() => !location.search.includes('where')")
    wait_for_run(page)
    assert set(ask(page, SELECTED)) == drawn
    assert len(drawn) > 10 and drawn != expected
    expect(page.get_by_role("heading", name=f"{len(drawn)} selected images")).to_have_count(1)
