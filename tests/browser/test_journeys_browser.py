"""Users' main tasks, from the first page to the file on their disk, in a real browser."""

import csv
import io
import re
import time

import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.browser.conftest import wait_for_run
from tests.browser.hand import Hand
from tests.sample_runs import make_run

expect.set_options(timeout=30_000)

VARIANTS = ({}, {"use_margin": False}, {"entropy_weight": 0.0}, {"margin_scale": 5.0})


@pytest.fixture(scope="module")
def twelve_runs(studio):
    """Four settings, three seeds each."""
    return [make_run(studio.runs, epochs=4, seed=seed, settings=v) for v in VARIANTS for seed in range(3)]


def _rows(table: str) -> list[str]:
    return [line for line in table.splitlines() if line.count("&") > 3 and "method" not in line.lower()]


def test_from_twelve_runs_to_a_latex_table_and_a_figure_in_three_clicks(twelve_runs, open_page):
    page = open_page("runs")
    page.get_by_role("link", name="Analyze").click()  # 1
    table = page.get_by_role("button", name="Download LaTeX")
    table.wait_for()
    wait_for_run(page)
    with page.expect_download() as latex:
        table.click()  # 2
    text = latex.value.path().read_text()
    assert latex.value.suggested_filename == "comparison.tex"
    scores, differences = [_rows(part) for part in text.split(r"\end{tabular}")[:2]]
    assert len(scores) == len(VARIANTS) and all(row.count(r"\pm") >= 3 for row in scores)
    # Seeds
    assert len(differences) == len(VARIANTS) - 1 and all(row.rstrip(" \\").endswith("3") for row in differences)
    chart = page.locator(".js-plotly-plot").first
    chart.scroll_into_view_if_needed()
    chart.hover()
    with page.expect_download() as figure:
        chart.locator("[data-title='Download as PNG']").click()  # 3
    picture = Image.open(io.BytesIO(figure.value.path().read_bytes()))
    box = chart.bounding_box()
    assert picture.width >= 2 * int(box["width"]) and len(picture.convert("RGB").getcolors(2**24)) > 20


def test_a_cluster_is_named_and_the_labels_are_on_the_disk(twelve_runs, open_page):
    run = twelve_runs[0]
    page = open_page(f"clusters?run={run.id}&cluster=7")
    name = page.get_by_role("textbox", name="Name")
    name.fill("a seven, I think")
    name.press("Enter")
    expect(page.get_by_role("button", name="Undo")).to_be_enabled()
    wait_for_run(page)
    with page.expect_download() as taken:
        page.get_by_role("button", name="Download CSV").click()
    rows = list(csv.DictReader(io.StringIO(taken.value.path().read_text())))
    assert len(rows) == 1797
    named = [row for row in rows if "a seven, I think" in row.values()]
    assert len(named) > 50
    page.get_by_role("button", name="Write a folder of pictures").click()
    written = page.get_by_text(re.compile(r"exports/epoch-0004"))
    written.first.wait_for()
    (folder,) = (run.folder.parent / run.id).glob("exports/epoch-0004*")
    pictures = list((folder / "a seven, I think").glob("*.png"))
    assert len(pictures) == len(named)


@pytest.fixture(scope="module")
def sixty_runs(studio):
    """Five values of C, four backgrounds, three seeds: C=5 alone finds every novel class."""
    return [
        make_run(studio.runs, epochs=3, pretrain=0, seed=seed, settings={"margin_scale": c} | more, lucky=c == 5)
        for c in (1.0, 2.0, 5.0, 10.0, 20.0)
        for more in ({}, {"lr": 0.02}, {"entropy_weight": 0.5}, {"temperature": 0.2})
        for seed in range(3)
    ]


def test_a_teacher_comes_from_home_to_what_the_margin_does(open_page):
    """Two clicks and the arrow key: recorded runs race by themselves, then the points of the plane learn."""
    page = open_page("")
    hand, begun = Hand(page), time.monotonic()
    hand.click(page.get_by_role("link", name="Watch runs side by side"))
    race = page.locator(".lps-race")
    race.wait_for()
    expect(race).not_to_have_attribute("data-at", race.get_attribute("data-at"))
    hand.click(page.get_by_role("link", name="See the margin"))
    strength = page.get_by_role("slider", name="Strength of the margin, C").first
    strength.wait_for()
    before = strength.input_value()
    strength.focus()
    hand.press("ArrowLeft")
    assert strength.input_value() != before
    print(f"\nteacher: {hand}; {time.monotonic() - begun:.1f} s")
    assert hand.clicks <= 2


def test_a_researcher_has_the_best_of_sixty_runs_and_its_figure(sixty_runs, open_page):
    """Home, Runs, what a setting does, SVG: a sweep of C took six clicks."""
    page = open_page("")
    hand, begun = Hand(page), time.monotonic()
    hand.click(page.get_by_role("link", name="Runs", exact=True))
    page.get_by_text("Tick rows to open").wait_for()
    hand.click(page.get_by_role("link", name="What a setting does"))
    highest = re.compile(r"(\w+)=\S+ has the highest novel accuracy: \d+\.\d %, 95 % interval")
    answer = page.get_by_text(highest)  # of the setting with the largest effect
    expect(answer).to_contain_text("3 seeds. Its difference from every other value is distinguishable from chance.")
    wait_for_run(page)
    chart = page.locator(".js-plotly-plot").first
    chart.hover()
    figure = hand.download(chart.locator("[data-title='Download as SVG']")).read_text()
    assert figure.startswith("<svg") and highest.search(answer.inner_text())[1] in figure
    print(f"\nresearcher: {hand}; {time.monotonic() - begun:.1f} s")
    assert hand.clicks <= 3


def test_a_cluster_is_named_without_a_mouse(sixty_runs, open_page):
    """From Home over the keys alone; what has the keyboard shows it, and 48 pictures are two stops, not 96."""
    page = open_page("")
    hand = Hand(page)
    hand.tab_to("Clusters")
    hand.press("Enter")
    page.get_by_role("heading", name="Clusters").wait_for()
    wait_for_run(page)
    hand.tab_to("Name", most=35)
    hand.type("a five, I think")
    page.get_by_text("1 named by you").wait_for()
    print(f"\nkeyboard: {hand}")
    assert hand.clicks == 0
