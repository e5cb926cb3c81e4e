"""The Race page in Chromium: race and course share one clock, and a run that grows."""

import pytest

from tests.browser.conftest import come_to_rest
from tests.sample_runs import make_run

CHARTS = [".st-key-pace-A .lps-plot", ".st-key-pace-B .lps-plot", ".st-key-difference-novel .lps-plot"]


@pytest.fixture(scope="module")
def pair(studio):
    """Two finished runs of one split, as a query."""
    runs = [make_run(studio.runs), make_run(studio.runs, settings={"method": "orca"}, lucky=False)]
    return "&".join(f"run={run.id}" for run in runs)


def wait_for_epoch(page, epoch: int) -> None:
    page.locator(f'.lps-race[data-at="{epoch}"]').wait_for()
    for chart in CHARTS:
        page.wait_for_selector(f'{chart} .lps-plot-hand[data-at="{epoch}"]', state="attached")


@pytest.mark.parametrize("place", ["at", "epoch"])
def test_a_step_of_the_race_moves_the_line_and_draws_no_curve(open_page, pair, place):
    page = open_page(f"pace?{pair}&{place}=3", "dark")
    wait_for_epoch(page, 3)
    count = "() => { window.drawn = (window.drawn ?? 0) + 1; }"
    page.evaluate(f"charts => charts.forEach(at => document.querySelector(at).on('plotly_afterplot', {count}))", CHARTS)
    page.locator("body").press("ArrowRight")
    wait_for_epoch(page, 4)
    page.wait_for_function("() => location.search.includes('at=4') && !location.search.includes('epoch=')")
    page.locator("body").press("ArrowLeft")
    wait_for_epoch(page, 3)
    assert page.evaluate("window.drawn ?? 0") == 0
    at, expected = page.eval_on_selector(
        CHARTS[0],
        """plot => {
            const hand = plot.querySelector('.lps-plot-hand').getBoundingClientRect();
            const axis = plot._fullLayout.xaxis;
            return [hand.x + hand.width / 2, plot.getBoundingClientRect().x + axis._offset + axis.l2p(3)];
        }""",
    )
    assert at == pytest.approx(expected, abs=1.5)


def test_a_click_on_a_curve_leads_the_race_there_and_the_bars_show_the_estimate_or_what_images_are_taken_for(
    open_page, pair
):
    page = open_page(f"pace?{pair}&at=3")
    wait_for_epoch(page, 3)
    page.locator(CHARTS[1]).scroll_into_view_if_needed()
    spot = page.eval_on_selector(
        CHARTS[1],
        """plot => {
            const axis = plot._fullLayout.xaxis, box = plot.getBoundingClientRect();
            return [box.x + axis._offset + axis.l2p(12), box.y + plot._fullLayout._size.t + 30];
        }""",
    )
    page.mouse.move(*spot)
    page.wait_for_timeout(300)
    page.mouse.click(*spot)
    wait_for_epoch(page, 12)
    page.wait_for_function("() => location.search.includes('at=12')")
    button = page.locator(".race-bars")
    assert button.inner_text() == "Bars: estimate" and button.get_attribute("aria-pressed") == "false"
    before = page.locator(".race-lane canvas").nth(1).evaluate("canvas => canvas.toDataURL()")
    button.click()
    assert button.inner_text() == "Bars: guesses" and button.get_attribute("aria-pressed") == "true"
    assert page.locator(".race-lane canvas").nth(1).evaluate("canvas => canvas.toDataURL()") != before


def test_nothing_is_wider_than_the_window(open_page, pair):
    page = open_page(f"pace?{pair}&at=20", width=390)
    wait_for_epoch(page, 20)
    assert page.locator(".stApp").evaluate("app => app.scrollWidth <= app.clientWidth")
    page.set_viewport_size({"width": 1920, "height": 900})
    come_to_rest(page)
    assert page.locator(".stApp").evaluate("app => app.scrollWidth <= app.clientWidth")
