"""The Live and Projection pages in Chromium: what AppTest cannot see (zoom, keys, links, clicks, timers)."""

import re

import numpy as np
import pytest

from lps.charts.palette import DARK, LIGHT
from lps.store.snapshots import read_split
from tests.browser.conftest import come_to_rest, wait_for_address
from tests.sample_runs import RunWriter, held, make_run

PACE, POINTS = ".st-key-pace .lps-plot", ".st-key-points .lps-map-stage"


@pytest.fixture(scope="module")
def run(studio):
    """A finished run; page tests have one in every state."""
    return make_run(studio.runs)


def wait_for_plot(page, selector: str = PACE) -> None:
    page.wait_for_selector(f"{selector} .main-svg")


def seen_epochs(page) -> list[float]:
    """The x values of the curve of seen accuracy, as drawn."""
    return page.eval_on_selector(PACE, "plot => [...plot._fullData.find(t => t.name === 'Seen').x]")


def view(page, selector: str = PACE) -> list[float]:
    return page.eval_on_selector(selector, "plot => [...plot.layout.xaxis.range, ...plot.layout.yaxis.range]")


def zoom(page, selector: str = PACE) -> list[float]:
    """Drag a box over the upper panel and return the view that it gives."""
    box = page.locator(f"{selector} .nsewdrag").first.bounding_box()
    before = view(page, selector)
    page.mouse.move(box["x"] + 60, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 60, steps=6)
    page.wait_for_timeout(100)
    page.mouse.move(box["x"] + 320, box["y"] + 120, steps=6)
    page.mouse.up()
    page.wait_for_function(
        "([selector, x]) => document.querySelector(selector).layout.xaxis.range[0] !== x", arg=[selector, before[0]]
    )
    page.wait_for_timeout(200)
    return view(page, selector)


def alts(page) -> list[str]:
    """What the three charts of the scrubber say they show."""
    keys = ("pi_hat", "class_accuracy", "points")
    return [page.get_attribute(f".st-key-{key} :is(.lps-plot, .lps-map-stage)", "aria-label") for key in keys]


def wait_for_epoch(page, epoch: int) -> None:
    for key in ("pi_hat", "class_accuracy", "points"):
        page.wait_for_selector(f'.st-key-{key} :is(.lps-plot, .lps-map-stage)[aria-label*="epoch {epoch}"]')


def test_a_finished_run_takes_the_colours_of_the_theme_and_is_quiet(open_page, run):
    page = open_page(f"live?run={run.id}", "dark")
    wait_for_plot(page)
    for theme, palette in (("dark", DARK), ("light", LIGHT), ("dark", DARK)):  # a person changes the theme
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(
            "([at, color]) => document.querySelector(at)._fullData.some(t => t.line.color === color)",
            arg=[PACE, palette.seen],
        )
    come_to_rest(page)
    page.evaluate("""() => {
        window.changes = 0;
        window.changed = performance.now();
        const everything = {subtree: true, childList: true, attributes: true};
        // Streamlit marks the place of a fragment that runs for long, as on a busy machine; this redraws nothing.
        const isMark = ({ target, type }) => type === "attributes" && target.dataset.testid === "stElementContainer";
        new MutationObserver(list => {
            const redrawn = list.filter(one => !isMark(one)).length;
            window.changes += redrawn;
            if (redrawn) window.changed = performance.now();
        })
            .observe(document.querySelector('[data-testid=stMain]'), everything);
    }""")
    page.wait_for_function("() => performance.now() - window.changed > 1500")  # charts drawn late on a busy machine
    page.evaluate("window.changes = 0")
    page.wait_for_timeout(6000)
    assert page.evaluate("window.changes") == 0


def test_curve_grows_and_the_zoom_is_kept(open_page, studio):
    writer = RunWriter(studio.runs, name="growing")
    writer.begin("running", 4)
    with held(writer.run):
        page = open_page(f"live?run={writer.run.id}")
        wait_for_plot(page)
        page.eval_on_selector(PACE, "plot => { plot.marked = true; }")
        assert len(seen_epochs(page)) == 4
        zoomed = zoom(page)
        for epoch in range(5, 9):
            writer.write_epoch(epoch)
            page.wait_for_function(
                "([at, n]) => document.querySelector(at)._fullData.find(t => t.name === 'Seen').x.length === n",
                arg=[PACE, epoch],
            )
            assert view(page) == pytest.approx(zoomed)
        assert page.eval_on_selector(PACE, "plot => plot.marked")  # still the same element
        writer.end("finished")  # as a runner does: the record first, then the lock
    page.locator(".stMarkdownBadge", has_text="Finished").wait_for()
    assert view(page) == pytest.approx(zoomed)


def test_scrubber_moves_everything_together_and_plays(open_page, run):
    page = open_page(f"live?run={run.id}")
    wait_for_epoch(page, 20)
    page.locator("body").press("ArrowLeft")
    wait_for_epoch(page, 19)
    page.locator("body").press("ArrowLeft")
    wait_for_epoch(page, 18)
    page.locator("body").press("ArrowRight")
    wait_for_epoch(page, 19)
    assert "epoch=19" in page.url
    page.reload()
    wait_for_epoch(page, 19)
    bars = page.eval_on_selector(".st-key-pi_hat .lps-plot", "plot => plot._fullData.flatMap(t => [...t.y])")
    assert sum(bars[:10]) == pytest.approx(1, abs=1e-4)
    page.locator("body").press("p")
    wait_for_epoch(page, 20)
    page.wait_for_timeout(1500)
    assert "epoch=" not in page.url
    assert all("epoch 20" in alt for alt in alts(page))


def test_a_link_to_an_epoch_opens_it_and_space_plays_and_p_pauses_where_it_is(open_page, run):
    page = open_page(f"live?run={run.id}&epoch=3")
    wait_for_epoch(page, 3)
    page.locator("body").press("Space")
    page.wait_for_selector(".st-key-pause button:visible")
    page.wait_for_function("at => document.querySelector(at).ariaLabel.match(/epoch (\\d+)/)[1] > 4", arg=POINTS)
    page.locator("body").press("p")
    page.wait_for_selector(".st-key-play button:visible")
    wait_for_address(page, r"epoch=\d+\b(?<!epoch=3)")
    epoch = re.search(r"epoch=(\d+)", page.url)[1]
    page.wait_for_timeout(1500)
    assert f"epoch={epoch}" in page.url and all(f"at epoch {epoch}" in alt for alt in alts(page))


def test_without_a_choice_the_latest_run_is_followed(open_page, studio, run):
    page = open_page("live")
    newer = RunWriter(studio.runs, name="the newest of all")
    newer.run.folder.rename(studio.runs / newer.run.id.replace("20", "29", 1))
    newer.run = type(newer.run)(studio.runs / newer.run.id.replace("20", "29", 1))
    newer.begin("running", 2)
    with held(newer.run):
        page.get_by_role("heading", name="the newest of all").wait_for()


def test_a_click_shows_the_picture_of_that_point(open_page, run):
    page = open_page(f"projection?run={run.id}", "dark")
    page.wait_for_selector(".st-key-map .lps-map[data-rested]")
    spot = page.eval_on_selector(
        ".st-key-map .lps-map",
        """({ lpsMap: map }) => {
            const { data, stage } = map, box = stage.getBoundingClientRect();
            const i = data.y.indexOf(Math.min(...data.y)), [left, top] = map.toScreen(data.x[i], data.y[i]);
            return [box.x + left, box.y + top, data.ids[i]];
        }""",
    )
    page.mouse.move(spot[0], spot[1])
    page.wait_for_timeout(300)
    page.mouse.click(spot[0], spot[1])
    wait_for_address(page, rf"image={spot[2]}\b")
    page.get_by_text(f"Image {spot[2]}", exact=True).wait_for()
    split, targets = read_split(run.folder)
    assert spot[2] in np.asarray(split.unlabeled)
    shown = page.locator("[data-testid=stText]").all_inner_texts()
    assert shown[0] == split.class_names[targets[spot[2]]]


def test_projection_computes_a_map_in_the_background(open_page, studio):
    run = make_run(studio.runs, "finished", epochs=2, name="small", written=2)
    page = open_page(f"projection?run={run.id}&map=tsne")
    page.get_by_role("button", name="Compute t-SNE").click()
    page.wait_for_selector(".st-key-map .lps-map[data-rested]", timeout=120_000)
    assert (run.projections / "tsne-epoch-0002.npz").exists()
