"""What a browser alone shows of tables, tools and fields of a page, without an error.

Exceptions of a page, JavaScript errors and visits elsewhere are looked for by `open_page`; the console is read here.
Both themes of every page are in test_every_page.py.
"""

import pytest
from playwright.sync_api import expect

from lps.charts.palette import DARK, LIGHT
from lps.cluster import executors
from lps.ui.shared.data_table import label_width
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


@pytest.mark.parametrize("width", [390, 1440])
def test_what_can_be_done_with_ticked_rows_is_in_sight_while_the_table_is_cut(visit, runs, width):
    page = visit(f"runs?run={runs[0].id}", width=width)
    page.set_viewport_size({"width": width, "height": 600})
    bar = page.locator(".st-key-runs_bar")
    expect(page.locator("[data-testid=stDataFrame]").first).not_to_be_in_viewport(ratio=1)
    expect(bar.get_by_role("link", name="Compare")).to_be_in_viewport(ratio=1)
    assert bar.bounding_box()["height"] < 80, "one row"


def test_a_menu_of_runs_finds_words_in_another_order(visit, runs):
    page = visit("compare")
    field = page.locator(".st-key-compared_runs input")
    for text in ("1 seed 20 scale", "no such run"):
        field.click()
        field.fill(text)
        page.get_by_role("option", name=text).or_(page.get_by_text(f"Add: {text}")).first.wait_for()
        field.press("Enter")
        wait_for_address(page, rf"compare\?run={runs[5].id}$")
    page.get_by_text("No run has all words").wait_for()


def test_every_run_on_compare_opens_with_one_click_and_the_way_back_keeps_the_choice(visit, runs):
    page = visit(f"compare?run={runs[0].id}&run={runs[2].id}")
    page.get_by_text("Every run (2)").click()
    grid = page.locator("[data-testid=stDataFrame]").filter(has_text="scale 0 seed 0")
    grid.scroll_into_view_if_needed()
    box, names_px = grid.bounding_box(), label_width(["scale 0 seed 0"])
    page.mouse.click(box["x"] + names_px + 34, box["y"] + ROW * 1.5)
    wait_for_address(page, rf"live\?run=({runs[0].id}|{runs[2].id})$")
    page.locator("[data-testid=stSidebarNavLink]", has_text="Analyze").click()
    wait_for_address(page, rf"compare\?run={runs[0].id}&run={runs[2].id}$")


def test_homes_drawings_take_the_colours_of_a_new_theme_even_of_one_that_comes_while_the_page_is_drawn(visit):
    page = visit("")
    page.reload(wait_until="commit")
    page.locator("h1").wait_for()
    for theme, palette in (("dark", DARK), ("light", LIGHT)):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(
            """color => [...document.querySelectorAll("img[alt^='Seen and novel accuracy']")].length > 0
                && [...document.querySelectorAll("img[alt^='Seen and novel accuracy']")].every(
                    image => atob(image.src.split("base64,")[1] ?? "").includes(color))""",
            arg=palette.seen,
        )


# Whether a picture has a pixel of this colour, such as [31, 111, 180].
HAS_COLOUR = """colour => {
  const image = document.querySelector("img[alt='Class 0, seen']");
  if (!image?.complete || !image.naturalWidth) return false;
  const context = new OffscreenCanvas(image.naturalWidth, image.naturalHeight).getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, image.naturalWidth, image.naturalHeight);
  return data.some((_, at) => at % 4 === 0 && colour.every((value, channel) => data[at + channel] === value)); }"""


def test_the_frames_of_classes_on_launch_take_the_colours_of_a_new_theme(visit):
    page = visit("launch")
    for theme, palette in (("dark", DARK), ("light", LIGHT)):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(HAS_COLOUR, arg=[*bytes.fromhex(palette.seen[1:])])


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


def test_in_a_room_no_choice_is_cut_and_icons_are_as_large_as_the_text(visit):
    page = visit("runs?present=1", width=1920)
    sort = page.get_by_role("combobox", name="Sort by")
    assert sort.input_value() == "Newest first" and sort.evaluate("field => field.scrollWidth <= field.clientWidth")
    icon = page.locator(".st-key-find [data-testid=stTooltipIcon] svg")
    assert icon.bounding_box()["width"] > 20  # it reads the size of the font once, as tables do


def test_a_field_takes_the_room_that_is_kept_for_it(visit):
    page = visit("launch", width=390)
    cluster_field = ["place-on"] if executors.available_executors() else []  # drawn only where there is a cluster
    for name in ("split_mode", *cluster_field):
        field = page.locator(f".st-key-{name}:has(button)")
        field.wait_for()
        assert field.evaluate("one => [getComputedStyle(one).minHeight, one.clientHeight]") == ["68px", 68]


@pytest.mark.parametrize("width", in_turn([390, 800], 1))
def test_the_launch_button_stays_in_place_when_the_text_beside_it_gets_longer(visit, width):
    boxes = []
    for query in ("", "?set=split.num_seen%3D99", "?set=dataset.path%3D/a/long/folder/name/of/pictures&dataset=folder"):
        page = visit(f"launch{query}", width=width)
        button = page.locator("[data-testid=stBottomBlockContainer] button:has-text('Launch')")
        button.wait_for()
        come_to_rest(page)
        boxes.append(button.bounding_box())
    assert boxes[0] == boxes[1] == boxes[2]


def test_the_address_of_a_page_that_is_gone_leads_to_the_one_that_has_its_place(visit, runs):
    page = visit(f"ledger?run={runs[0].id}&run={runs[2].id}")
    page.wait_for_url(f"**/compare?run={runs[0].id}&run={runs[2].id}*")
    page.get_by_role("heading", name="Compare").wait_for()


def test_the_kept_choice_of_runs_is_added_to_the_path_of_its_own_page(visit, runs):
    page = visit(f"compare?run={runs[0].id}&run={runs[2].id}")
    menu = page.get_by_test_id("stSidebarNavLink")
    menu.filter(has_text="Home").click()
    page.get_by_role("heading", name="Watch a model discover").wait_for()
    menu.filter(has_text="Analyze").click()
    page.wait_for_url(f"**/compare?run={runs[0].id}&run={runs[2].id}")
    come_to_rest(page)
    page.go_back()  # Streamlit adds an entry for the path and one for the query
    assert page.evaluate("location.pathname + location.search") == "/compare"


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
