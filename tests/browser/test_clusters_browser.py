"""The Clusters page in Chromium: rows, cells and pictures that are clicked, images that are chosen, names that stay."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from lps.analysis import naming
from lps.datasets import Images
from lps.ui.pictures import gallery
from lps.ui.pictures.gallery import Tile
from tests.browser.conftest import come_to_rest, wait_for_address
from tests.sample_runs import make_run

SHEET = ".st-key-sheet .lps-sheet-tile"

# The script of a sheet with data that Streamlit would give it.
SHOW = """async ([script, data]) => {
  const sheet = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const nothing = () => {}, parentElement = document.querySelector("main");
  sheet.default({ parentElement, data: new Uint8Array(data), setTriggerValue: nothing, setStateValue: nothing });
}"""


@pytest.fixture(scope="module")
def run(studio):
    return make_run(studio.runs, epochs=4, lucky=False)


def said(run) -> naming.Naming:
    return naming.naming_of_epoch(naming.read_entries(run), 4)


def ids(page) -> list[int]:
    return page.eval_on_selector_all(SHEET, "tiles => tiles.map(tile => Number(tile.dataset.id))")


def tick(page, i: int, **how) -> None:
    tile = page.locator(SHEET).nth(i)
    tile.hover()
    tile.locator(".lps-sheet-mark").click(**how)


def test_on_a_phone_the_name_is_near_and_every_row_is_reached(run, open_page):
    """Ten rows and 48 pictures were between the top and the field, 2.6 windows below it."""
    page = open_page(f"clusters?run={run.id}", width=390, is_phone=True)
    page.wait_for_selector(SHEET)
    come_to_rest(page)
    top = "element => element.getBoundingClientRect().top / innerHeight"
    assert page.get_by_label("Name", exact=True).evaluate(top) < 1.5
    table = page.locator(".st-key-clusters_table")
    box = table.locator("canvas").first.bounding_box()
    assert 36 + 35 * 7 - 2 <= box["height"] < 36 + 35 * 8, "seven rows, none of them cut"
    table.locator(".dvn-scroller").evaluate("scroller => { scroller.scrollTop = scroller.scrollHeight; }")
    page.wait_for_timeout(500)
    page.touchscreen.tap(box["x"] + 16, box["y"] + box["height"] - 17)
    wait_for_address(page, "cluster=9")
    page.get_by_role("heading", name="Cluster 9").wait_for()


def test_a_row_and_a_picture_open_and_the_buttons_of_the_table_cover_nothing_that_can_be_clicked(run, open_page):
    page = open_page(f"clusters?run={run.id}")
    page.wait_for_selector(SHEET)
    page.locator(".st-key-clusters_table").hover()
    bar = page.locator(".st-key-clusters_table [data-testid=stElementToolbar]").bounding_box()
    tab = page.locator(".st-key-picked_overview").bounding_box()
    assert tab["x"] + tab["width"] <= bar["x"] or tab["y"] + tab["height"] <= bar["y"]
    box = page.locator(".st-key-clusters_table canvas").first.bounding_box()
    for x, cluster in ((130, 6), (60, 7), (16, 6), (130, 7), (130, 8)):  # names, ids and the circle of a row
        page.mouse.click(box["x"] + x, box["y"] + 36 + 35 * cluster + 17)
        wait_for_address(page, f"cluster={cluster}")
        page.get_by_role("heading", name=f"Cluster {cluster}").wait_for()
    come_to_rest(page)  # the images follow the heading
    image = ids(page)[2]
    page.locator(SHEET).nth(2).locator(".lps-sheet-picture").click()
    wait_for_address(page, f"image={image}(&|$)")
    page.wait_for_selector(".st-key-biography .main-svg")


def test_pictures_that_were_squeezed_have_their_own_proportions_and_their_own_colours(chromium, monkeypatch):
    given = {}
    monkeypatch.setattr(
        gallery, "_mount", lambda **about: given.update(about) or SimpleNamespace(click=None, chosen=None)
    )
    shades = [(230, 20, 20), (20, 160, 40), (20, 40, 230)]
    pixels = np.tile(np.array(shades, np.uint8)[:, None, None], (1, 64, 64, 1))
    images = Images(pixels, np.zeros(3, np.int64), ("a",), sizes=np.array([(300, 600), (600, 200), (50, 50)]))
    words = ["97 %", "97 %\nlabel: automobile", "97 %\nlabel: automobilesofallkinds\nnone of these"]
    tiles = [Tile(i, text, f"Image {i}") for i, text in enumerate(words)]
    gallery.show_sheet(tiles, images, "sheet", "t", "Three pictures")
    page = chromium.new_page(device_scale_factor=1)
    page.set_content(f'<style>{gallery._STYLE}</style><main><div class="lps-sheet"></div></main>')
    page.evaluate(SHOW, [gallery._SCRIPT, list(given["data"])])
    page.wait_for_timeout(200)  # the one image is decoded
    shown = [tile.bounding_box() for tile in page.locator(".lps-sheet-picture").all()]
    assert [(box["width"], box["height"]) for box in shown] == [(72, 36), (24, 72), (72, 72)]
    assert len({box["y"] + box["height"] for box in shown}) == 1, "they stand on one line"
    is_whole = "texts => texts.every(t => t.scrollWidth <= t.clientWidth && t.scrollHeight <= t.clientHeight)"
    assert page.eval_on_selector_all(".lps-sheet-words", is_whole), "no word is cut"
    for tile, shade in zip(page.locator(".lps-sheet-picture").all(), shades):
        seen = np.asarray(Image.open(io.BytesIO(tile.screenshot())).convert("RGB")).astype(int)
        assert np.abs(np.median(seen, axis=(0, 1)) - shade).max() <= 8
    page.close()


def test_a_cell_of_the_matrix_opens_its_images(run, open_page):
    page = open_page(f"clusters?run={run.id}&overview=confusion", theme="dark")
    page.wait_for_selector(".st-key-confusion .main-svg")
    box = page.locator(".st-key-confusion .nsewdrag").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.95, box["y"] + box["height"] * 0.05)
    wait_for_address(page, "cluster=0&truth=9")
    page.get_by_role("button", name="Only true class 9").wait_for()
    page.wait_for_function(f"() => document.querySelectorAll('{SHEET}.lps-sheet-wrong').length > 0")


def test_images_are_chosen_over_pages_split_off_and_named(run, open_page):
    page = open_page(f"clusters?run={run.id}&cluster=1")
    page.wait_for_selector(SHEET)
    first = ids(page)
    tick(page, 1)
    tick(page, 3, modifiers=["Shift"])
    page.get_by_role("button", name="Split off 3 chosen").wait_for()
    page.get_by_role("button", name="Page 2").or_(page.get_by_role("button", name="2", exact=True)).first.click()
    page.wait_for_function(
        "([selector, id]) => Number(document.querySelector(selector).dataset.id) !== id", arg=[SHEET, first[0]]
    )
    second = ids(page)
    tick(page, 0)
    page.get_by_role("button", name="Split off 4 chosen").click()
    page.get_by_role("heading", name="Cluster 10").wait_for()
    assert sorted(said(run).moved) == sorted([*first[1:4], second[0]])
    page.get_by_placeholder("What do you see in it?").fill("odd ones")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Cluster 10 · odd ones").wait_for()
    assert said(run).names == {10: "odd ones"} and page.locator(".lps-sheet-chosen").count() == 0


def test_images_like_the_chosen_ones_come_into_sight_and_are_all_ticked(run, open_page):
    page = open_page(f"clusters?run={run.id}&cluster=2")
    page.wait_for_selector(SHEET)
    tick(page, 0)
    tick(page, 9, modifiers=["Shift"])  # some of them have stored features
    page.get_by_text("Move 10 chosen images to").wait_for()
    page.locator(".st-key-more_like button:visible:enabled").click()
    top = "document.querySelector('.st-key-similar_images')?.getBoundingClientRect().top < innerHeight / 2"
    page.wait_for_function(top)
    found = page.locator(".st-key-similar_images .lps-sheet-tile")
    found.nth(33).wait_for()
    assert found.count() == page.locator(".st-key-similar_images .lps-sheet-chosen").count() == 34
    found.nth(3).locator(".lps-sheet-mark").click()
    page.get_by_text("Move 33 chosen images to").wait_for()
    ticked = page.locator(".st-key-similar_images .lps-sheet-chosen")
    page.get_by_role("button", name="Choose none").click()
    expect(ticked).to_have_count(0)
    found.nth(5).locator(".lps-sheet-mark").click()
    page.get_by_text("Move 1 chosen image to").wait_for()
    page.get_by_role("button", name="Choose none").click()
    expect(ticked).to_have_count(0)
    page.get_by_role("button", name="Choose all").click()
    page.get_by_text("Move 34 chosen images to").wait_for()
    expect(ticked).to_have_count(34)


def test_a_move_says_so_in_sight_and_leaves_the_page_where_it_is(run, open_page):
    page = open_page(f"clusters?run={run.id}&cluster=5")
    page.wait_for_selector(SHEET)
    tick(page, 40)
    menu = page.get_by_role("combobox", name="Move 1 chosen image to")
    menu.scroll_into_view_if_needed()
    come_to_rest(page)
    place = "document.querySelector('[data-testid=stMain]').scrollTop"
    before = page.evaluate(place)
    menu.fill("cluster 6")
    menu.press("Enter")
    expect(page.get_by_text("1 image moved to cluster 6.")).to_be_in_viewport()
    come_to_rest(page)
    page.wait_for_timeout(3500)  # naming_wizard.js scrolls up to 3 seconds later
    assert before > 300 and page.evaluate(place) == before


def test_one_press_is_one_step_of_the_browsers_history(run, open_page):
    page = open_page(f"clusters?run={run.id}&cluster=7&truth=7")
    page.wait_for_selector(SHEET)
    page.locator(".st-key-next_unnamed button:visible").click()
    page.get_by_role("heading", name="Cluster 8").wait_for()
    come_to_rest(page)
    assert "truth" not in page.url
    page.go_back()
    wait_for_address(page, "cluster=7&truth=7")
