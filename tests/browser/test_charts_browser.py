"""Runs that a person filters, puts together and draws: what lights up, what is downloaded, what is kept."""

import pytest

from tests.browser.conftest import wait_for_run
from tests.sample_runs import make_run


@pytest.fixture(scope="module")
def runs(studio):
    settings = [{"margin_scale": margin} for margin in (0.0, 5.0, 10.0)]
    return [make_run(studio.runs, epochs=4, seed=seed, settings=s) for s in settings for seed in range(3)]


def test_a_card_grows_with_the_legend_below_its_chart(runs, open_page):
    """Nine lines in a card of half a page: each has its row in sight; one of nine had."""
    page = open_page("charts?chart=y%3Daccuracy/novel&chart=y%3Daccuracy/seen", width=1280)
    page.wait_for_selector(".st-key-board_1 .lps-plot .legend")
    wait_for_run(page)
    for number in (0, 1):
        rows = page.locator(f".st-key-board_{number} .legend .traces")
        assert rows.count() == len(runs)
        lowest, card = rows.last.bounding_box(), page.locator(f".st-key-chart_{number}").bounding_box()
        assert lowest["y"] + lowest["height"] <= card["y"] + card["height"]


def test_the_line_under_the_pointer_lights_up_and_a_chart_is_taken_away(runs, open_page):
    page = open_page("charts?chart=y%3Daccuracy/novel%3Bsmooth%3D0.5", width=1920)
    page.wait_for_selector(".st-key-board_0 .lps-plot .main-svg")
    box = page.locator(".st-key-board_0 .nsewdrag").bounding_box()
    x, y, at = page.eval_on_selector(
        ".st-key-board_0 .lps-plot",
        """plot => {
            const line = plot._fullData.filter(trace => trace.hoverinfo !== "skip")[0];
            const { xaxis, yaxis } = plot._fullLayout;
            return [xaxis.l2p(line.x[2]), yaxis.l2p(line.y[2]), line.y[2]];
        }""",
    )
    for shift in (4, 0):
        page.mouse.move(box["x"] + x + shift, box["y"] + y)
    page.wait_for_function("() => document.querySelector('.st-key-board_0 .lps-plot').dataset.lit")
    lit = page.eval_on_selector(".st-key-board_0 .lps-plot", "plot => plot.dataset.lit")
    faded = page.locator(".st-key-board_0 .scatterlayer .trace[style*='opacity: 0.12']").count()
    height = "(plot, lit) => plot._fullData.find(t => t.legendgroup === lit && t.hoverinfo !== 'skip').y[2]"
    assert page.eval_on_selector(".st-key-board_0 .lps-plot", height, lit) == at, (
        "lines of equal runs lie on one another"
    )
    assert faded == 2 * (len(runs) - 1), "each run has a line and a raw one"
    for title, ending, words in (
        ("SVG", ".svg", "<svg"),
        ("CSV", ".csv", "trace,x,y,id"),
        ("Python", ".py", "figures.chart("),
    ):
        with page.expect_download() as download:
            page.locator(f".st-key-board_0 [data-title*='{title}']").click()
        assert download.value.suggested_filename == f"board_0{ending}"
        assert words in open(download.value.path(), encoding="utf-8").read()
    page.mouse.move(2, 2)
    page.wait_for_function("() => !document.querySelector('.st-key-board_0 .lps-plot').dataset.lit")


def test_a_view_is_kept_and_opened_with_its_filter(runs, open_page):
    page = open_page("runs?find=margin_scale%3E0&by=margin_scale")
    page.get_by_role("button", name="Views", exact=True).click()
    page.get_by_role("textbox", name="Keep this as").fill("with margin")
    page.keyboard.press("Enter")
    wait_for_run(page)
    page.get_by_role("button", name="Keep", exact=True).click()
    page.get_by_role("button", name="with margin", exact=True).wait_for()
    again = open_page("runs")
    again.get_by_role("button", name="Views", exact=True).click()
    again.get_by_role("button", name="with margin", exact=True).click()
    again.wait_for_url("**find=margin_scale*")
    again.get_by_text("2 groups.").wait_for()
    wait_for_run(again)
    assert again.get_by_role("searchbox", name="Find").input_value() == "margin_scale>0"
    assert "by=margin_scale" in again.url
