"""What a browser alone shows of tables, tools and fields of a page, without an error.

Exceptions of a page, JavaScript errors and visits elsewhere are looked for by `open_page`; the console is read here.
Both themes of every page are in test_every_page.py.
"""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import come_to_rest, wait_for_address
from tests.browser.looks import NOT_HERE
from tests.sample_runs import make_run
from tests.shares import in_turn

ROW = 35  # pixels that a table's row is high, and the box before it wide


@pytest.fixture(scope="module")
def runs(studio):
    """Three values of a setting with two seeds each."""
    return [
        make_run(
            studio.runs, epochs=3, seed=seed, settings={"margin_scale": scale}, name=f"scale {scale:g} seed {seed}"
        )
        for scale in (0.0, 5.0, 20.0)
        for seed in (0, 1)
    ]


@pytest.fixture
def visit(open_page, runs):
    """visit("effects") -> the page; its console may say nothing that is an error after it was opened."""
    opened, said = [], []

    def hear(message) -> None:
        if message.type == "error" and NOT_HERE not in (message.location or {}).get("url", ""):
            said.append(message.text)

    def open_quiet(path, **how):
        page = open_page(path, **how)
        page.on("console", hear)
        opened.append(page)
        return page

    yield open_quiet
    for page in opened:
        page.remove_listener("console", hear)
    assert said == []


def test_a_group_of_runs_opens_under_a_click_and_a_tick_stays_at_its_run(visit):
    page = visit("runs?find=scale+seed&by=margin_scale&columns=accuracy/novel")
    grid = page.locator("[data-testid=stDataFrame] canvas").first
    grid.wait_for()
    cells = page.locator("[data-testid=stDataFrame] canvas td[id^=glide-cell-1-]")

    def press(x, number):
        """At the x of a row; the first is below the heads."""
        grid.click(position={"x": x, "y": ROW * (number + 1.5)}, force=True)

    def names():
        return [name.strip() for name in cells.all_inner_texts()]

    closed = ["► margin_scale=0", "► margin_scale=5", "► margin_scale=20"]
    expect(cells).to_have_count(3)
    assert names() == closed
    press(120, 1)
    wait_for_address(page, "open=")
    expect(cells).to_have_count(5)
    assert names() == [closed[0], "▼ margin_scale=5", "scale 5 seed 1", "scale 5 seed 0", closed[2]]
    press(ROW / 2, 3)
    page.get_by_text("1 chosen").wait_for()
    press(120, 0)
    expect(cells).to_have_count(7)
    chosen = page.locator("[data-testid=stDataFrame] canvas tr[aria-selected=true]")
    expect(chosen).to_contain_text("scale 5 seed 0")
    press(120, 0)
    expect(cells).to_have_count(5)
    press(120, 1)
    expect(cells).to_have_count(3)
    wait_for_address(page, r"runs\?(?!.*open=)")
    page.get_by_text("1 chosen").wait_for()


# How far tools reach down over the lines below them, in pixels: (of every chart, of every table).
OVERLAPS = """() => {
  const boxOf = (one) => one.getBoundingClientRect();
  const charts = [...document.querySelectorAll(".lps-plot")].filter((one) => one.querySelector(".modebar-container"));
  const tools = (one) => boxOf(one.querySelector(".modebar-container .modebar")).bottom;
  const lines = (one) => Math.min(...[...one.querySelectorAll(".nsewdrag")].map((panel) => boxOf(panel).top));
  const heights = charts.map((one) => tools(one) - lines(one));
  const tables = [...document.querySelectorAll("[data-testid=stElementToolbar]")].map((one) => {
    const around = one.closest("[data-testid=stElementContainer]");
    const before = around?.previousElementSibling;
    return before ? boxOf(before).bottom - boxOf(one).top : 0;
  });
  return [heights, tables]; }"""


@pytest.mark.parametrize("path", in_turn(["effects", "compare", "charts"], 3))
def test_tools_lie_over_nothing_on_a_phone(visit, path):
    page = visit(path, width=390, is_phone=True)
    page.locator(".lps-plot .main-svg").first.wait_for()
    come_to_rest(page)
    charts, tables = page.evaluate(OVERLAPS)
    assert charts and max(charts) <= 0
    assert tables and max(tables) <= 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize(
    ("path", "fields"), in_turn([("compare", ("protocol", "images", "select")), ("sweeps", ("preset", "scale"))], 2)
)
def test_labels_of_fields_in_one_row_stand_at_one_height(visit, path, fields):
    page = visit(path)
    labels = [page.locator(f".st-key-picked_{name} p").first for name in fields]
    for label in labels:
        label.wait_for()
    come_to_rest(page)
    assert len({round(label.bounding_box()["y"]) for label in labels}) == 1


def test_the_address_of_a_page_that_is_gone_leads_to_the_one_that_has_its_place(visit, runs):
    page = visit(f"ledger?run={runs[0].id}&run={runs[2].id}")
    page.wait_for_url(f"**/compare?run={runs[0].id}&run={runs[2].id}*")
    page.get_by_role("heading", name="Compare").wait_for()


# A grey place of Streamlit's: milliseconds until it is seen.
APPEARS = """async () => {
  const place = document.createElement("div");
  place.dataset.testid = "stSkeleton";
  document.querySelector("[data-testid=stMain]").append(place);
  const begun = performance.now();
  while (getComputedStyle(place).visibility === "hidden") await new Promise(requestAnimationFrame);
  place.remove();
  return performance.now() - begun; }"""


def test_a_grey_place_is_not_seen_at_once(visit):
    """page.css waits for 300 ms; a frame may end a little earlier, and a busy browser much later."""
    assert visit("runs").evaluate(APPEARS) > 200
